//! Does a runtime carry a client? One suite of sockets, timers and tasks that runs unchanged on
//! every [`Runtime`].
//!
//! Who writes a runtime implements [`Host`] for it and puts
//! [`conformance_suite!`](crate::conformance_suite) into a module of a test. Servers are small and
//! scripted ([`server`]): they do what no healthy server does, and they see what the client did.
//! They stand on real sockets, or wherever else the host's clients can reach them, as in the
//! [simulated] world.

pub mod cancellation;
pub mod crowd;
pub mod deadlines;
pub mod deployment;
pub mod dialing;
pub mod encryption;
pub mod endings;
pub mod exhaustion;
pub mod hostile;
pub mod identity;
pub mod leaving;
pub mod monitoring;
pub mod removal;
pub mod scanning;
pub mod server;
pub mod simulated;
mod suite;
pub mod traffic;
pub mod trouble;
pub mod uris;

use bson::{Document, doc};
use onionskin::{Client, ClientBuilder, Collection, Runtime};
use onionskin_core::error::Error;
use server::{Door, Server};
use std::{
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// Where the suite runs.
pub trait Host: 'static {
    /// The runtime under test.
    type R: Runtime;

    /// The runtime; called within [`block_on`](Self::block_on).
    fn runtime() -> Self::R;

    /// Runs a future to its end, with the runtime's tasks, sockets and timers at work.
    fn block_on(future: impl Future<Output = ()>);

    /// A client's builder for a connection string. Default: of the kind that suits the runtime.
    fn builder(uri: &str) -> Result<ClientBuilder<Self::R>, Error> {
        Client::builder_from_uri(Self::runtime(), uri)
    }

    /// A place at which the host's clients find a server; port zero stands for one that is free.
    /// Default: a real socket.
    fn door(address: SocketAddr) -> Box<dyn Door> {
        server::system_door(address)
    }
}

/// How long a check may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long a condition may take to come true.
const SOON: Duration = Duration::from_secs(10);

/// What a deadline may be exceeded by on a busy machine.
pub(crate) const SLACK: Duration = Duration::from_millis(1500);

/// Runs one check.
pub fn run<H: Host, F: Future<Output = ()>>(check: impl FnOnce() -> F) {
    H::block_on(async { within::<H, _>(PATIENCE, "the check", check()).await });
}

/// A future's output, which must be there within `limit`.
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

/// Waits until something is true.
pub(crate) async fn until<H: Host>(what: &str, mut is_true: impl FnMut() -> bool) {
    let runtime = H::runtime();
    within::<H, _>(SOON, what, async {
        while !is_true() {
            runtime.sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// A pause of the runtime's.
pub(crate) async fn pause<H: Host>(duration: Duration) {
    H::runtime().sleep(duration).await;
}

/// The client of a connection string.
pub(crate) fn client<H: Host>(uri: &str) -> Client<H::R> {
    builder::<H>(uri).build().expect("a client")
}

/// The same, not yet built.
pub(crate) fn builder<H: Host>(uri: &str) -> ClientBuilder<H::R> {
    H::builder(uri).expect("a connection string")
}

/// The collection that all checks use.
pub(crate) fn things<R: Runtime>(client: &Client<R>) -> Collection<R, Document> {
    client.database("app").collection("things")
}

/// Looks for `n` and checks that the answer is the one to this question.
pub(crate) async fn find<R: Runtime>(client: &Client<R>, n: i32) -> Result<(), Error> {
    let found = things(client).find_one(doc! { "n": n }).await?;
    assert_eq!(found, Some(doc! { "n": n }), "a reply to another question");
    Ok(())
}

/// Sends `ping`.
pub(crate) async fn ping<R: Runtime>(client: &Client<R>) -> Result<Document, Error> {
    client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .await
}

/// Ends a client and makes sure that nothing is left of it, on either side.
pub(crate) async fn end<H: Host>(client: Client<H::R>, server: &Server) {
    within::<H, _>(SLACK, "shutdown", client.shutdown()).await;
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// Waits until no operation holds or awaits anything.
pub(crate) async fn at_rest<H: Host>(client: &Client<H::R>) {
    until::<H>("the return of all exchanges", || {
        let counts = client.counts();
        counts.in_use == 0 && counts.waiting == 0
    })
    .await;
}

/// Runs futures as tasks of the runtime, and waits for all of them.
pub(crate) async fn together<H: Host, F>(tasks: impl IntoIterator<Item = F>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = H::runtime();
    let ended = Arc::new(Mutex::new((0, false)));
    let mut begun = 0;
    for task in tasks {
        let ending = Ending(ended.clone());
        begun += 1;
        runtime.spawn(async move {
            let _ending = ending;
            task.await;
        });
    }
    loop {
        let (ended, panicked) = *ended.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!panicked, "a task has panicked");
        if ended == begun {
            return;
        }
        runtime.sleep(Duration::from_millis(1)).await;
    }
}

/// Counts tasks that ended, and knows whether one of them panicked.
struct Ending(Arc<Mutex<(usize, bool)>>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ended.0 += 1;
        ended.1 |= std::thread::panicking();
    }
}

/// Polls a future by hand.
pub(crate) struct Stepper<F> {
    future: Pin<Box<F>>,
    alarm: Arc<Alarm>,
}

/// Remembers that a future wants to be polled.
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

    /// Polls once, now.
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

    /// Waits until the future wants to be polled again.
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
