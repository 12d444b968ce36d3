//! Tests of clients whose operations do not run on the tokio runtime that the client was made on.
//! The operations run on other executors, without a tokio runtime, or after the runtime has ended.

use bson::{Document, doc};
use onionskin::{Resolver, ResolverFuture, Runtime, dns::DnsQuery};
use onionskin_core::{
    client::Counts,
    error::{Error, ErrorKind},
    event::Event,
};
use onionskin_tests::{
    compressors::with_compressors,
    conformance::{
        Host,
        server::{Gate, Server, Step, answer},
    },
};
use onionskin_tokio::{Client, Collection, TokioRuntime, event::EventListener};
use std::{
    future::{Future, IntoFuture},
    sync::{Arc, Mutex, mpsc},
    task::{Context, Waker},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime as Tokio};

/// The time in which an operation must end on a busy machine, if it has to end at once. The time
/// limit [`LIMIT`] of operations is longer.
const SOON: Duration = Duration::from_secs(10);

/// The time limit of operations, which no test reaches.
const LIMIT: Duration = Duration::from_secs(25);

struct OnTokio;

impl Host for OnTokio {
    type R = TokioRuntime;

    fn runtime() -> TokioRuntime {
        TokioRuntime::default()
    }

    fn block_on(future: impl Future<Output = ()>) {
        multi_thread().block_on(future);
    }
}

fn multi_thread() -> Tokio {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(2).enable_all();
    builder.build().expect("a runtime")
}

fn current_thread() -> Tokio {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

fn client_on(runtime: &Tokio, uri: &str) -> Client {
    let client = runtime.block_on(Client::with_uri_str(with_compressors(uri)));
    client.expect("a client")
}

/// Creates a client with a listener, so that there are events to wait for.
fn client_with_listener_on(runtime: &Tokio, uri: &str, listener: EventListener) -> Client {
    let _entered = runtime.enter();
    let builder =
        Client::builder_from_uri(TokioRuntime::default(), &with_compressors(uri)).expect("options");
    let builder = builder.event_listener(listener);
    builder.build().expect("a client")
}

fn things(client: &Client) -> Collection<Document> {
    client.database("app").collection("things")
}

/// Returns the output of a future, which must complete within [`SOON`].
fn soon<T>(runtime: &Tokio, what: &str, future: impl Future<Output = T>) -> T {
    let limited = runtime.block_on(async { tokio::time::timeout(SOON, future).await });
    limited.unwrap_or_else(|_| panic!("{what} took too long"))
}

fn assert_runtime_error(result: Result<Option<Document>, Error>) {
    let error = result.expect_err("the runtime has ended");
    assert!(
        matches!(error.kind(), ErrorKind::Runtime { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("make a client"), "{error}");
}

#[test]
fn operations_fail_at_once_after_the_runtime_of_their_client_has_ended() {
    for first in [multi_thread, current_thread] {
        for is_warm in [false, true] {
            let server = Server::plain::<OnTokio>();
            let (runtime, other) = (first(), multi_thread());
            let client = client_on(&runtime, &server.uri(""));
            let things = things(&client);
            if is_warm {
                let found = runtime.block_on(things.find_one(doc! { "n": 1 }).into_future());
                assert_eq!(found, Ok(Some(doc! { "n": 1 })));
            }
            drop(runtime);
            for n in 0..3 {
                let find = things.find_one(doc! { "n": n }).timeout(LIMIT);
                assert_runtime_error(soon(&other, "a find", find.into_future()));
            }
            assert_eq!(client.counts(), Counts::default());
            soon(&other, "a flush", client.flush_events());
            soon(&other, "shutdown", client.shutdown());
        }
    }
}

#[test]
fn operations_in_progress_fail_when_the_runtime_of_their_client_ends() {
    for first in [multi_thread, current_thread] {
        let gate = Gate::new();
        let server_gate = gate.clone();
        let server = Server::scripted::<OnTokio>(move |request| match request.n() {
            Some(1) => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
            _ => answer(request),
        });
        let (runtime, other) = (first(), multi_thread());
        let client = client_on(&runtime, &server.uri("maxPoolSize=1"));
        let things = things(&client);
        runtime
            .block_on(things.find_one(doc! { "n": 0 }).into_future())
            .expect("a reply");
        // The first task has the connection, and the second task waits for it.
        let tasks = [1, 2].map(|n| {
            let things = things.clone();
            let find = async move { things.find_one(doc! { "n": n }).timeout(LIMIT).await };
            let task = other.spawn(find);
            while n == 1 && server.seen("find").len() < 2 {
                std::thread::yield_now();
            }
            task
        });
        while client.counts().waiting < 1 {
            std::thread::yield_now();
        }
        let closing = other.spawn(client.clone().shutdown());
        drop(runtime);
        for task in tasks {
            let ended = soon(&other, "an operation", task).expect("no panic");
            let error = ended.expect_err("the runtime has ended");
            // If the client shuts down before the runtime ends, the error is `Shutdown`.
            let kind = error.kind();
            let is_runtime_or_closed =
                matches!(kind, ErrorKind::Runtime { .. } | ErrorKind::Shutdown);
            assert!(is_runtime_or_closed, "{error:?}");
        }
        soon(&other, "shutdown", closing).expect("no panic");
        assert_eq!(client.counts(), Counts::default());
        gate.open();
    }
}

#[test]
fn operations_of_a_client_created_on_an_ended_runtime_fail_with_a_runtime_error() {
    let runtime = multi_thread();
    let ended = runtime.block_on(async { TokioRuntime::default() });
    drop(runtime);
    let builder = Client::builder_from_uri(ended, "mongodb://localhost:1").expect("options");
    let client = builder.build().expect("a client");
    let find = things(&client);
    let find = find.find_one(doc! {}).timeout(LIMIT);
    assert_runtime_error(soon(&multi_thread(), "a find", find.into_future()));
}

#[test]
fn operations_fail_with_a_runtime_error_after_the_timer_task_panicked() {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder
        .enable_io()
        .build()
        .expect("a runtime without timers");
    let client = client_on(&runtime, "mongodb://localhost:1");
    let other = multi_thread();
    let things = things(&client);
    let find = things.find_one(doc! {}).timeout(LIMIT);
    let error = soon(&other, "a find", find.into_future()).expect_err("no timers");
    assert!(
        matches!(error.kind(), ErrorKind::Runtime { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("panic"), "{error}");
}

#[test]
fn every_call_may_be_awaited_in_another_executor() {
    let server = Server::plain::<OnTokio>();
    let runtime = multi_thread();
    let client = client_with_listener_on(&runtime, &server.uri(""), Arc::new(|_| {}));
    smol::block_on(async {
        let things = things(&client);
        let found = things.find_one(doc! { "n": 1 }).await;
        assert_eq!(found, Ok(Some(doc! { "n": 1 })));
        let mut cursor = things
            .find(doc! { "n": 2, "open": true })
            .await
            .expect("a cursor");
        for _ in 0..3 {
            assert_eq!(cursor.next().await, Some(Ok(doc! { "n": 2 })));
        }
        cursor.close().await;
        client.flush_events().await;
        client.shutdown().await;
    });
    assert_eq!(server.seen("endSessions").len(), 1);
}

/// Returns a listener that blocks until the sender is dropped.
fn blocking_listener() -> (mpsc::Sender<()>, EventListener) {
    let (go, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let listener = move |_: &Event| {
        let wait = wait.lock().expect("no listener panics here");
        assert!(wait.recv().is_err(), "nothing is sent");
    };
    (go, Arc::new(listener))
}

#[test]
fn a_listener_that_never_returns_does_not_keep_a_runtime_from_ending() {
    for runtime in [multi_thread(), current_thread()] {
        let (go, listener) = blocking_listener();
        let client = client_with_listener_on(&runtime, "mongodb://localhost:1", listener);
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            drop(runtime);
            let _ = ended.send(());
        });
        end.recv_timeout(SOON).expect("the runtime has ended");
        drop(client);
        drop(go);
    }
}

#[test]
fn flush_events_waits_on_any_executor_and_ends_with_the_runtime() {
    for is_ended in [false, true] {
        let runtime = multi_thread();
        let (go, listener) = blocking_listener();
        let client = client_with_listener_on(&runtime, "mongodb://localhost:1", listener);
        let mut flush = Box::pin(client.flush_events());
        let mut context = Context::from_waker(Waker::noop());
        assert!(flush.as_mut().poll(&mut context).is_pending());
        if is_ended {
            runtime.shutdown_background();
            smol::block_on(flush);
            drop(go);
        } else {
            drop(go);
            smol::block_on(flush);
            smol::block_on(client.shutdown());
        }
    }
}

#[test]
fn a_tokio_runtime_value_works_in_any_thread() {
    let server = Server::plain::<OnTokio>();
    let runtime = multi_thread();
    let value = runtime.block_on(async { TokioRuntime::default() });
    let place = server.place().expect("an address");
    smol::block_on(async {
        value.sleep(Duration::from_millis(1)).await;
        value.connect(place).await.expect("a connection");
        let found = value.resolve("localhost", place.port()).await;
        assert!(!found.expect("addresses").is_empty());
    });
}

#[test]
fn creating_a_client_outside_of_a_tokio_runtime_fails() {
    let made = smol::block_on(Client::with_uri_str("mongodb://localhost:1"));
    let error = made.expect_err("there is no tokio runtime");
    assert!(
        matches!(error.kind(), ErrorKind::Runtime { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("no tokio runtime"), "{error}");
    // A client uses the tokio runtime in which it is built. The `TokioRuntime` here was made
    // outside of any runtime.
    let outside = TokioRuntime::default();
    let server = Server::plain::<OnTokio>();
    let runtime = multi_thread();
    let client = {
        let _entered = runtime.enter();
        let builder =
            Client::builder_from_uri(outside, &with_compressors(&server.uri(""))).expect("options");
        builder.build().expect("a client")
    };
    let found = smol::block_on(things(&client).find_one(doc! { "n": 1 }).into_future());
    assert_eq!(found, Ok(Some(doc! { "n": 1 })));
    smol::block_on(client.shutdown());
}

#[test]
fn a_dns_failure_is_the_error_of_creating_a_client() {
    // `invalid` has no names (RFC 6761 section 6.4).
    let uri = "mongodb+srv://c.onionskin.invalid/?connectTimeoutMS=300";
    let runtime = multi_thread();
    let made = runtime.block_on(runtime.spawn(Client::with_uri_str(uri)));
    let error = made
        .expect("the task ends")
        .expect_err("there are no records");
    assert!(error.to_string().contains("c.onionskin.invalid"), "{error}");
    let made = onionskin_blocking::Client::with_uri_str(uri);
    let error = made.expect_err("there are no records");
    assert!(error.to_string().contains("c.onionskin.invalid"), "{error}");
}

/// A resolver that never answers, and tells that it was asked.
struct Unanswered(mpsc::SyncSender<()>);

impl Resolver for Unanswered {
    fn look_up(&self, _: &DnsQuery) -> ResolverFuture<'_> {
        let _ = self.0.try_send(());
        Box::pin(std::future::pending())
    }
}

#[test]
fn a_resolution_fails_when_its_tokio_runtime_ends() {
    let runtime = multi_thread();
    let (asked, is_asked) = mpsc::sync_channel(1);
    let builder = {
        let _entered = runtime.enter();
        let value = TokioRuntime::default();
        Client::builder_from_uri(value, "mongodb+srv://c.db.test").expect("a string")
    };
    let builder = builder.resolver(Unanswered(asked));
    let end = std::thread::spawn(move || {
        is_asked.recv_timeout(SOON).expect("a query");
        drop(runtime);
    });
    let error = smol::block_on(builder.resolve()).err().expect("it ended");
    assert!(
        matches!(error.kind(), ErrorKind::Runtime { .. }),
        "{error:?}"
    );
    end.join().expect("the runtime ends");
}
