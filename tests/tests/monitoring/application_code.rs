//! Code of applications that panics, and values of applications that use the client while they are
//! dropped.

use crate::scene::{Watched, play, replica_set, standalone};
use bson::doc;
use futures_util::FutureExt as _;
use onionskin::{
    Client, HostResolver, Resolver, ResolverFuture, Runtime,
    dns::{DnsQuery, ResolverConfig},
    error::Error,
    options::SelectionCriteria,
};
use onionskin_core::{options::Monitoring, unstable::hello::Environment, uri};
use onionskin_worlds::world::{
    SimRuntime,
    runtime::{SimSleep, SimStream},
};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    panic::AssertUnwindSafe,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// A value of the application that takes the lock of the client when it is dropped.
struct Guard {
    client: Arc<OnceLock<Client<SimRuntime>>>,
    drops: Arc<AtomicU32>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(client) = self.client.get() {
            let _ = client.counts();
        }
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

impl Guard {
    fn of(watched: &Watched, drops: &Arc<AtomicU32>) -> Self {
        Self {
            client: Arc::new(watched.client.clone().into()),
            drops: drops.clone(),
        }
    }
}

#[test]
fn the_function_of_a_transaction_is_dropped_outside_of_the_lock() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let drops = Arc::default();
        let function = || {
            let guard = Guard::of(&watched, &drops);
            SelectionCriteria::Predicate(Arc::new(move |_| {
                let _ = &guard;
                true
            }))
        };
        let mut session = watched.client.start_session().await.expect("a session");
        for _ in 0..2 {
            let start = session.start_transaction().selection_criteria(function());
            start.await.expect("it starts");
            session.abort_transaction().await.expect("nothing is sent");
        }
        let start = session.start_transaction().selection_criteria(function());
        start.await.expect("it starts");
        drop(session);
        assert_eq!(drops.load(Ordering::Relaxed), 3);
        watched.end().await;
    });
}

/// A resolver that fails with a value of the application.
struct Failing {
    client: Arc<OnceLock<Client<SimRuntime>>>,
    drops: Arc<AtomicU32>,
}

impl Resolver for Failing {
    fn look_up(&self, _: &DnsQuery) -> ResolverFuture<'_> {
        let guard = Guard {
            client: self.client.clone(),
            drops: self.drops.clone(),
        };
        Box::pin(async { Err(Error::custom(guard)) })
    }
}

#[test]
fn the_error_of_a_resolver_is_dropped_outside_of_the_lock() {
    play([standalone()], |scene| async move {
        let (known, drops) = (Arc::new(OnceLock::new()), Arc::<AtomicU32>::default());
        let uri = "mongodb+srv://c.db.test/?tls=false&serverSelectionTimeoutMS=2000";
        let parsed = uri::parse_for(uri, Monitoring::Background).expect("a connection string");
        let client = Client::builder(scene.runtime.clone(), parsed.options)
            .resolver(Failing {
                client: known.clone(),
                drops: drops.clone(),
            })
            .build()
            .expect("a client");
        assert!(known.set(client.clone()).is_ok());
        let admin = client.database("admin");
        let ping = admin.run_command(doc! { "ping": 1 });
        let error = ping.await.expect_err("no server is known");
        assert!(error.to_string().contains("application"), "{error}");
        assert!(drops.load(Ordering::Relaxed) > 0);
        client.shutdown().await;
    });
}

/// A runtime that panics in its first connection attempts.
#[derive(Clone)]
struct Panicking {
    inner: SimRuntime,
    panics_left: Arc<AtomicU32>,
}

impl Runtime for Panicking {
    type Stream = SimStream;
    type Sleep = SimSleep;

    async fn connect(&self, address: SocketAddr) -> io::Result<SimStream> {
        let left = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        let taken = self.panics_left.fetch_update(order, order, left);
        assert!(taken.is_err(), "the runtime panics");
        self.inner.connect(address).await
    }

    async fn connect_unix(&self, _: &Path) -> io::Result<SimStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Other executors end only the task that panics.
        let task = AssertUnwindSafe(task).catch_unwind();
        self.inner.spawn(async move { drop(task.await) });
    }

    onionskin_tests::forward_runtime!(inner: resolve, sleep, now, wall_time, entropy);
}

#[test]
fn a_panic_in_the_task_of_a_socket_is_a_failed_connection() {
    play([standalone()], |scene| async move {
        let runtime = Panicking {
            inner: scene.runtime.clone(),
            panics_left: Arc::new(3.into()),
        };
        let uri = scene.uri("member0", "serverSelectionTimeoutMS=20000");
        let client = Client::builder_from_uri(runtime, &uri)
            .expect("a connection string")
            .environment(Environment::default())
            .build()
            .expect("a client");
        let admin = client.database("admin");
        let ping = admin.run_command(doc! { "ping": 1 });
        ping.await.expect("later connections succeed");
        client.shutdown().await;
    });
}

#[test]
fn the_longest_connect_timeout_does_not_overflow_in_lookups() {
    play([standalone()], |scene| async move {
        let uri = scene.uri("member0", "serverSelectionTimeoutMS=20000");
        let mut options = uri::parse(&uri).expect("a connection string").options;
        options.connect_timeout = Some(Duration::MAX);
        let server = SocketAddr::from(([10, 9, 9, 9], 53));
        let client = Client::builder(scene.runtime.clone(), options)
            .resolver_config(ResolverConfig::new([server]))
            .host_resolver(HostResolver::Client)
            .build()
            .expect("a client");
        let admin = client.database("admin");
        let ping = admin.run_command(doc! { "ping": 1 });
        let error = ping.await.expect_err("there is no name server");
        assert!(error.to_string().contains("lookup"), "{error}");
        client.shutdown().await;
    });
}
