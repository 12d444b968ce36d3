//! Tests that sleeps of the runtime are polled only in tasks of the runtime: the executor that
//! polls a call can be another one.

use crate::scene::{play, standalone};
use bson::{Document, doc};
use onionskin::{
    Client, Runtime,
    error::{Error, Label},
};
use onionskin_core::unstable::hello::Environment;
use onionskin_worlds::world::{
    SimRuntime,
    runtime::{SimSleep, SimStream},
};
use std::{
    cell::Cell,
    future::Future,
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

thread_local! {
    /// True while a task of a [`Strict`] runtime is polled.
    static IS_IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// A runtime whose sleeps panic when they are polled outside of its tasks.
#[derive(Clone)]
struct Strict(SimRuntime);

struct StrictTask<F>(Pin<Box<F>>);

impl<F: Future<Output = ()>> Future for StrictTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        IS_IN_TASK.set(true);
        let polled = self.0.as_mut().poll(context);
        IS_IN_TASK.set(false);
        polled
    }
}

struct StrictSleep(SimSleep);

impl Future for StrictSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        assert!(IS_IN_TASK.get(), "a sleep is polled outside of a task");
        Pin::new(&mut self.0).poll(context)
    }
}

impl Runtime for Strict {
    type Stream = SimStream;
    type Sleep = StrictSleep;

    onionskin_tests::forward_runtime!(
        0: connect, resolve, now, wall_time, entropy
    );

    async fn connect_unix(&self, _: &Path) -> io::Result<SimStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> StrictSleep {
        StrictSleep(self.0.sleep(duration))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(StrictTask(Box::pin(task)));
    }
}

#[test]
fn sleeps_are_polled_in_tasks_of_the_runtime_only() {
    play([standalone()], |scene| async move {
        let runtime = Strict(scene.runtime.clone());
        let client = Client::builder_from_uri(runtime, &scene.uri("member0", "appname=strict"))
            .expect("a connection string")
            .environment(Environment::default())
            .build()
            .expect("a client");
        let things = client.database("app").collection::<Document>("things");
        let insert = things.insert_one(doc! { "_id": 1 });
        insert.await.expect("inserted");
        client.warm_connection_pool().await;
        let mut session = client.start_session().await.expect("a session");
        let mut attempts = 0;
        let run = session.with_transaction(async |_| {
            attempts += 1;
            match attempts {
                3 => Ok(()),
                _ => Err(Error::custom("again").with_label(Label::TransientTransactionError)),
            }
        });
        run.await.expect("the third attempt succeeds");
        session.end().await.expect("ended");
        client.shutdown().await;
    });
}
