//! A suite of tests for implementations of [`Runtime`]: sockets, timers and tasks.
//!
//! The author of a runtime implements [`Host`] for it and calls
//! [`conformance_suite!`](crate::conformance_suite) in a module of a test. The suite has servers
//! that answer by a script ([`server`]). These servers can violate the protocol, and record the
//! requests of the client. These servers listen on real sockets, or in the virtual network of the
//! [`simulated`] runtime.

pub mod cancellation;
pub mod concurrency;
pub mod credentials;
pub mod deadlines;
pub mod deployment;
pub mod dialing;
pub mod encryption;
pub mod exhaustion;
pub mod faults;
pub mod hostile;
pub mod identity;
pub mod late_replies;
pub mod monitoring;
pub mod removal;
pub mod scanning;
pub mod seed_lists;
pub mod seed_lookups;
pub mod server;
pub mod shutdown;
pub mod simulated;
mod suite;
pub mod traffic;
pub mod uris;

use crate::{compressors::with_compressors, name_server::NameServer};
use bson::{Document, doc};
use onionskin::{Client, ClientBuilder, Collection, Runtime};
use onionskin_core::error::Error;
use server::{ClosedPort, Listener, Server, SystemPort};
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// An environment in which the suite runs.
pub trait Host: 'static {
    /// The runtime under test.
    type R: Runtime;

    /// Returns the runtime. Called within [`block_on`](Self::block_on).
    fn runtime() -> Self::R;

    /// Runs a future to its end, together with the runtime's tasks, sockets and timers.
    fn block_on(future: impl Future<Output = ()>);

    /// Returns a client builder for a connection string. The default implementation chooses the
    /// kind of client that suits the runtime.
    fn builder(uri: &str) -> Result<ClientBuilder<Self::R>, Error> {
        Client::builder_from_uri(Self::runtime(), &with_compressors(uri))
    }

    /// Opens a listener, on any free port, to which clients of this host can connect. The default
    /// implementation opens a real socket.
    fn listener() -> Box<dyn Listener> {
        server::system_listener()
    }

    /// Takes any free port, at which clients of this host are refused. The default implementation
    /// binds a real socket.
    fn closed_port() -> Box<dyn ClosedPort> {
        Box::new(SystemPort::closed())
    }

    /// The time limit of one test. The limits are long, because the machine can be busy. In virtual
    /// time they are short.
    const TEST_TIME_LIMIT: Duration = Duration::from_secs(180);

    /// The time for which tests wait for a condition.
    const WAIT_LIMIT: Duration = Duration::from_secs(60);

    /// The additional time that tests allow for an operation.
    const SLACK: Duration = Duration::from_secs(20);

    /// The limit of operations and clients whose failure a test expects. On real sockets it is long
    /// enough for a busy machine to do before its end all that the error tells of.
    const LIMIT: Duration = Duration::from_secs(2);

    /// Starts a name server that clients of this host can ask. The default implementation opens
    /// real sockets.
    fn name_server() -> NameServer {
        NameServer::start()
    }
}

/// Runs one test of the suite.
pub fn run<H: Host, F: Future<Output = ()>>(check: impl FnOnce() -> F) {
    H::block_on(async { within::<H, _>(H::TEST_TIME_LIMIT, "the check", check()).await });
}

/// Returns the output of `future`. Panics if the future takes longer than `limit`.
pub(crate) async fn within<H: Host, T>(
    limit: Duration,
    what: &str,
    future: impl Future<Output = T>,
) -> T {
    let mut future = pin!(future);
    let mut sleep = pin!(H::runtime().sleep(limit));
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(output);
        }
        assert!(
            sleep.as_mut().poll(context).is_pending(),
            "{what} took longer than {limit:?}"
        );
        Poll::Pending
    })
    .await
}

/// Waits until `is_true` returns true. Panics after [`Host::WAIT_LIMIT`].
pub(crate) async fn until<H: Host>(what: &str, mut is_true: impl FnMut() -> bool) {
    let runtime = H::runtime();
    within::<H, _>(H::WAIT_LIMIT, what, async {
        while !is_true() {
            runtime.sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Sleeps on the host's runtime.
pub(crate) async fn pause<H: Host>(duration: Duration) {
    H::runtime().sleep(duration).await;
}

/// Returns a client for a connection string.
pub(crate) fn client<H: Host>(uri: &str) -> Client<H::R> {
    builder::<H>(uri).build().expect("a client")
}

/// Returns a client builder for a connection string.
pub(crate) fn builder<H: Host>(uri: &str) -> ClientBuilder<H::R> {
    H::builder(uri).expect("a connection string")
}

/// Returns options of a client whose server selection fails early, with `options` after them.
pub(crate) fn impatient<H: Host>(options: &str) -> String {
    let limit = H::LIMIT.as_millis();
    format!("serverSelectionTimeoutMS={limit}&{options}")
}

/// Returns the collection `app.things` of a client.
pub(crate) fn things<R: Runtime>(client: &Client<R>) -> Collection<R, Document> {
    client.database("app").collection("things")
}

/// Runs `find_one` with `n` in its filter. Asserts that the reply has one document with the same
/// `n`.
pub(crate) async fn find<R: Runtime>(client: &Client<R>, n: i32) -> Result<(), Error> {
    let found = things(client).find_one(doc! { "n": n }).await?;
    assert_eq!(found, Some(doc! { "n": n }), "a reply to another question");
    Ok(())
}

/// Runs the `ping` command.
pub(crate) async fn ping<R: Runtime>(client: &Client<R>) -> Result<Document, Error> {
    client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .await
}

/// Shuts a client down and waits until the server has no open connection. Panics if one of these
/// takes too long.
pub(crate) async fn end<H: Host>(client: Client<H::R>, server: &Server) {
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// Waits until no operation waits and no connection is checked out.
pub(crate) async fn wait_until_idle<H: Host>(client: &Client<H::R>) {
    until::<H>("the return of all exchanges", || {
        let counts = client.counts();
        counts.in_use == 0 && counts.waiting == 0
    })
    .await;
}

/// Runs two futures until both have completed.
pub(crate) async fn both(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let mut are_over = [false; 2];
    poll_fn(|context| {
        are_over[0] = are_over[0] || first.as_mut().poll(context).is_ready();
        are_over[1] = are_over[1] || second.as_mut().poll(context).is_ready();
        match are_over {
            [true, true] => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
}

/// Runs futures as tasks of the runtime, and waits until all of them have ended. Panics if a task
/// panics.
pub(crate) async fn together<H: Host, F>(tasks: impl IntoIterator<Item = F>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = H::runtime();
    let ended = Arc::new(Mutex::new((0, false)));
    let mut started = 0;
    for task in tasks {
        let ending = Ending(ended.clone());
        started += 1;
        runtime.spawn(async move {
            let _ending = ending;
            task.await;
        });
    }
    loop {
        let (ended, panicked) = *ended.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!panicked, "a task has panicked");
        if ended == started {
            return;
        }
        runtime.sleep(Duration::from_millis(1)).await;
    }
}

/// Counts a task as ended when the value is dropped, and records whether the task panicked.
struct Ending(Arc<Mutex<(usize, bool)>>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ended.0 += 1;
        ended.1 |= std::thread::panicking();
    }
}

/// A future that a test polls one step at a time.
pub(crate) struct Stepper<F> {
    future: Pin<Box<F>>,
    alarm: Arc<Alarm>,
}

/// Records that the future of a [`Stepper`] was woken, and wakes the task that waits in
/// [`Stepper::woken`].
#[derive(Default)]
struct Alarm {
    is_raised: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.is_raised.store(true, Ordering::SeqCst);
        let outer = self
            .outer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

impl<F: Future> Stepper<F> {
    pub(crate) fn new(future: impl IntoFuture<IntoFuture = F>) -> Self {
        Self {
            future: Box::pin(future.into_future()),
            alarm: Arc::default(),
        }
    }

    /// Polls the future once. Returns the output if the future completed.
    pub(crate) async fn step(&mut self) -> Option<F::Output> {
        poll_fn(|_| {
            let waker = Waker::from(self.alarm.clone());
            match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending => Poll::Ready(None),
            }
        })
        .await
    }

    /// Waits until the future is woken. Returns at once if the future was woken after the previous
    /// call of this function.
    pub(crate) async fn woken(&mut self) {
        poll_fn(|context| {
            let mut outer = self
                .alarm
                .outer
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *outer = Some(context.waker().clone());
            drop(outer);
            if self.alarm.is_raised.swap(false, Ordering::SeqCst) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
