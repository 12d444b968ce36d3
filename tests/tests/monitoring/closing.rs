//! Tests of race conditions that were bugs in other drivers. In these tests, sockets are closed
//! under a lock, or the close of a client does not end. The comment of each test says with which
//! bug of a driver it fails.

use crate::{
    event_log::{EventLog, connection_closed, connection_ready, pool_cleared},
    scene::{Scene, play, replica_set, sharded, standalone},
};
use bson::{Document, doc};
use futures_util::FutureExt;
use onionskin::{Client, Collection, Runtime, options::SelectionCriteria};
use onionskin_core::{
    error::{Error, ErrorKind},
    unstable::hello::Environment,
};
use onionskin_worlds::world::{
    SimRuntime,
    plan::Disaster,
    runtime::{SimSleep, SimStream},
};
use smol::io::{AsyncRead, AsyncWrite};
use std::{
    future::{Future, IntoFuture},
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    task::{Context, Poll},
    thread,
    time::Duration,
};

/// The real time for which a dropped socket waits until another thread has read the state of the
/// client. If the other thread takes longer, the lock of the client counts as held. A free lock is
/// taken at once, but the other thread may start late on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// A runtime whose sockets wait, when they are dropped, until another thread has read the state of
/// the client. The other thread cannot read the state while the client is locked.
#[derive(Clone)]
struct Slow {
    inner: SimRuntime,
    closings: Arc<Closings>,
}

/// The client, the number of its closed sockets, and the number of those that were closed under the
/// client's lock.
#[derive(Default)]
struct Closings {
    client: Mutex<Option<Client<Slow>>>,
    count: AtomicU32,
    under_the_lock: AtomicU32,
}

impl Closings {
    fn watched(&self) -> Option<Client<Slow>> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.clone()
    }
}

/// A guard of a socket. When the guard is dropped, it counts the socket as closed, and finds out
/// whether the client is locked.
struct Open(Arc<Closings>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        let Some(client) = self.0.watched() else {
            return;
        };
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let looked = (client.counts(), client.topology());
            let _ = sender.send(looked);
        });
        if receiver.recv_timeout(PATIENCE).is_err() {
            self.0.under_the_lock.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct SlowStream {
    inner: SimStream,
    _open: Open,
}

impl AsyncRead for SlowStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for SlowStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(context)
    }
}

impl Runtime for Slow {
    type Stream = SlowStream;
    type Sleep = SimSleep;

    async fn connect(&self, address: SocketAddr) -> io::Result<SlowStream> {
        // A connection attempt that is dropped also counts as a closed socket.
        let open = Open(self.closings.clone());
        let inner = self.inner.connect(address).await?;
        Ok(SlowStream { inner, _open: open })
    }

    async fn connect_unix(&self, _: &Path) -> io::Result<SlowStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    onionskin_tests::forward_runtime!(
        inner: resolve, sleep, spawn, now, wall_time, entropy
    );
}

/// A client on a [`Slow`] runtime.
struct Stage {
    scene: Scene,
    client: Client<Slow>,
    closings: Arc<Closings>,
    events: EventLog,
}

impl Stage {
    async fn new(scene: &Scene, options: &str) -> Self {
        let (closings, events) = (Arc::new(Closings::default()), EventLog::default());
        let runtime = Slow {
            inner: scene.runtime.clone(),
            closings: closings.clone(),
        };
        let options = format!("appname=slow&retryReads=false&{options}");
        let client = Client::builder_from_uri(runtime, &scene.uri("member0", &options))
            .expect("a connection string")
            .environment(Environment::default())
            .event_listener(events.listener())
            .build()
            .expect("a client");
        *closings.client.lock().expect("no panic") = Some(client.clone());
        let stage = Self {
            scene: scene.clone(),
            client,
            closings,
            events,
        };
        stage.find().await.expect("a reply");
        stage
    }

    fn things(&self) -> Collection<Slow, Document> {
        self.client.database("app").collection("things")
    }

    async fn find(&self) -> Result<Option<Document>, Error> {
        self.things().find_one(doc! { "_id": 1 }).await
    }

    async fn fail(&self, command: &str, times: i32, effect: Document) {
        let mut data = doc! { "failCommands": [command], "appName": "slow" };
        data.extend(effect);
        self.scene.fail(0, doc! { "times": times }, data).await;
    }

    /// Runs this number of finds at once, so that the pool has at least this number of connections.
    async fn connect(&self, count: i32) {
        self.fail(
            "find",
            count,
            doc! { "blockConnection": true, "blockTimeMS": 100 },
        )
        .await;
        let finds: Vec<_> = (0..count)
            .map(|_| {
                let things = self.things();
                self.scene
                    .spawn(async move { things.find_one(doc! { "_id": 1 }).await })
            })
            .collect();
        for find in finds {
            find.join().await.expect("a reply");
        }
    }

    /// Asserts that the number of closed sockets has grown by at least `least` since it was
    /// `since`, and that no socket was closed under the lock.
    fn assert_closed(&self, least: u32, since: u32, what: &str) {
        let closed = self.closings.count.load(Ordering::Relaxed) - since;
        assert!(closed >= least, "{what}: {closed} closed");
        let wrong = self.closings.under_the_lock.load(Ordering::Relaxed);
        assert_eq!(wrong, 0, "{what}: closed under the lock, of {closed}");
    }

    fn closed(&self) -> u32 {
        self.closings.count.load(Ordering::Relaxed)
    }

    /// Closes the client, and asserts that its sockets are closed outside of the lock.
    async fn end(self) {
        let since = self.closed();
        self.client.clone().shutdown().await;
        self.assert_closed(2, since, "shutdown");
        let watched = self.closings.client.lock().expect("no panic").take();
        drop(watched);
    }
}

/// A pool with many idle connections is cleared (scenario 21). Fails if the client is locked while
/// stale sockets close. All other calls of the client would wait for the lock.
#[test]
fn stale_sockets_are_closed_without_locking_the_client() {
    play([standalone()], |scene| async move {
        let stage = Stage::new(&scene, "maxConnecting=30").await;
        stage.connect(30).await;
        assert!(stage.events.count(connection_ready) >= 30);
        let since = stage.closed();
        stage
            .fail("find", 1, doc! { "closeConnection": true })
            .await;
        stage.find().await.expect_err("it breaks");
        assert_eq!(stage.events.count(pool_cleared), 1);
        scene.pause(1).await;
        assert!(stage.events.count(connection_closed) >= 30);
        stage.assert_closed(30, since, "a clear");
        stage.find().await.expect("a reply");
        stage.end().await;
    });
}

/// Connections are closed for several reasons: they are idle, a hello is refused, a reply is late,
/// an operation is dropped, the server ends, or the client closes (scenario 25). Fails if a socket
/// is closed while the client is locked. If such a close called the client, the client would
/// deadlock.
#[test]
fn no_socket_is_closed_while_the_client_is_locked() {
    play([standalone()], |scene| async move {
        let stage = Stage::new(&scene, "heartbeatFrequencyMS=500&maxIdleTimeMS=5000").await;
        let since = stage.closed();
        stage.connect(3).await;
        scene.pause(6_000).await;
        stage.assert_closed(3, since, "idle");

        let since = stage.closed();
        stage.fail("hello", 4, doc! { "errorCode": 91 }).await;
        scene.pause(3_000).await;
        stage.assert_closed(2, since, "a hello that is refused");
        stage.find().await.expect("a reply");

        let since = stage.closed();
        stage
            .fail(
                "find",
                1,
                doc! { "blockConnection": true, "blockTimeMS": 9_000 },
            )
            .await;
        let things = stage.things();
        // The operation has no time limit, because a limit would be sent as `maxTimeMS` (SEL-59),
        // and the server would then reply in time.
        let find = scene.drop_after(Duration::from_millis(50), things.find_one(doc! {}));
        assert_eq!(find.await, None, "it is held");
        scene.pause(4_000).await;
        stage.assert_closed(1, since, "a reply that nobody waits for");

        let since = stage.closed();
        for micros in (0..1_000).step_by(40) {
            let patience = Duration::from_micros(micros);
            drop(scene.drop_after(patience, stage.find()).await);
        }
        stage.connect(3).await;
        scene.strike(Disaster::Kill(0));
        scene.pause(2_000).await;
        stage.assert_closed(3, since, "a server that ends");
        scene.strike(Disaster::Restart(0));
        stage.find().await.expect("a reply");
        stage.end().await;
    });
}

/// A client closes while an operation waits for the reply of an unreachable server (scenario 32).
/// Fails if the close stops the monitors before the operation has ended. Only a check notices that
/// the server is unreachable, so such a close would wait for ever.
#[test]
fn shutdown_does_not_wait_forever_for_an_unreachable_server() {
    play([standalone(), replica_set()], |scene| async move {
        for mode in ["stream", "poll"] {
            let options = "connectTimeoutMS=1000&heartbeatFrequencyMS=2000&retryReads=false";
            let watched = scene.client(&format!("serverMonitoringMode={mode}&{options}"));
            watched.insert(1).await.ok();
            watched.find().await.expect("a reply");
            for member in 0..scene.options.addresses.len() {
                scene.strike(Disaster::CutClient {
                    client: 0,
                    member,
                    up: true,
                    down: true,
                });
            }
            let things = watched.things();
            let find = scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await });
            scene.pause(40).await;
            assert_eq!(watched.client.counts().in_use, 1);
            let (client, start) = (watched.client.clone(), scene.now());
            let close = scene.spawn(async move { client.shutdown().await });
            scene
                .until_within(Duration::from_secs(60), "the close", || close.is_over())
                .await;
            let took = scene.now().saturating_since(start);
            // The limit leaves time for the check under way, for another check that fails, and for
            // the attempt to end the sessions.
            assert!(took <= Duration::from_secs(12), "{mode}: {took:?}");
            let error = find.join().await.expect_err("its server is lost");
            let is_reported = matches!(error.kind(), ErrorKind::Interrupted { .. });
            assert!(is_reported, "{error:?}");
            scene.strike(Disaster::JoinClients);
            watched.end().await;
        }
    });
}

/// The function of a call is dropped when the client is not locked, so the drop of what it owns can
/// use the client.
#[test]
fn the_function_of_a_call_is_dropped_outside_of_the_lock() {
    struct Guard(Client<SimRuntime>, Arc<AtomicU32>);
    impl Drop for Guard {
        fn drop(&mut self) {
            // This takes the lock of the client.
            let _ = self.0.counts();
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    play([sharded()], |scene| async move {
        let watched = scene.client("");
        let things = watched.things();
        let dropped = Arc::new(AtomicU32::new(0));
        let of = |is_accepted: bool| {
            let guard = Guard(watched.client.clone(), dropped.clone());
            SelectionCriteria::Predicate(Arc::new(move |_| {
                let _ = &guard;
                is_accepted
            }))
        };
        let find = |is_accepted| things.find_one(doc! {}).selection_criteria(of(is_accepted));
        find(true).await.expect("a reply");
        let limit = Duration::from_secs(1);
        find(false).timeout(limit).await.expect_err("no server");
        let mut waiting = Box::pin(find(false).into_future());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        let mut exchanging = Box::pin(find(true).into_future());
        assert!(exchanging.as_mut().now_or_never().is_none());
        drop(exchanging);
        assert_eq!(dropped.load(Ordering::Relaxed), 4);
        drop(things);
        watched.end().await;
    });
}
