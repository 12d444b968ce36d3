//! Tests of time limits and timers, and of replies that come after the limit.

use super::{
    Host, Stepper, builder, client, end, find, pause, ping,
    server::{Gate, Request, Server, Step, answer},
    things, together, until, wait_until_idle, within,
};
use bson::{Document, doc};
use onionskin::{Client, Runtime};
use onionskin_core::{
    client::OVERDUE_LIMIT,
    error::{Error, ErrorKind, Wait},
    event::{CommandEvent, Event, EventKind},
};
use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

fn waited_for(error: &Error) -> Option<Wait> {
    match error.kind() {
        ErrorKind::Timeout { wait, .. } => Some(*wait),
        _ => None,
    }
}

/// Runs a find with the time limit [`Host::LIMIT`]. Checks that it fails neither early nor late,
/// and returns the error.
async fn find_until_timeout<H: Host>(client: &Client<H::R>, n: i32) -> Error {
    let runtime = H::runtime();
    let began = runtime.now();
    let things = things(client);
    let call = things.find_one(doc! { "n": n }).timeout(H::LIMIT);
    let result: Result<Option<Document>, Error> =
        within::<H, _>(H::LIMIT + H::SLACK, "the time limit", call.into_future()).await;
    let took = runtime.now() - began;
    let error = result.expect_err("nobody answers");
    assert!(took >= H::LIMIT, "gave up after {took:?}: {error}");
    error
}

/// Returns a script that answers a find with `n: 1` only after the gate was opened.
fn holding(gate: &Arc<Gate>) -> impl Fn(&Request) -> Vec<Step> + Send + Sync + use<> {
    let gate = gate.clone();
    move |request: &Request| match request.n() {
        Some(1) => [vec![Step::Hold(gate.clone())], answer(request)].concat(),
        _ => answer(request),
    }
}

/// If a server does not answer, the operation fails at its time limit. The next operation gets
/// another connection, and the one without a reply is closed.
pub async fn an_operation_without_a_reply_fails_at_its_time_limit<H: Host>() {
    let gate = Gate::new();
    let server = Server::scripted::<H>(holding(&gate));
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    // This find makes the connection, so that the limit of the next one covers the exchange alone.
    find(&client, 0).await.expect("a reply");
    let error = find_until_timeout::<H>(&client, 1).await;
    assert_eq!(waited_for(&error), Some(Wait::Exchange), "{error:?}");
    assert_eq!(
        error.server().map(ToString::to_string),
        Some(server.address())
    );
    find(&client, 2).await.expect("a reply");
    // The server can read the abandoned request after the request that follows it.
    until::<H>("all finds", || server.seen("find").len() == 3).await;
    let finds = server.seen("find");
    let of = |n: i32| {
        let mut finds = finds.iter();
        let find = finds.find(|seen| {
            let filter = seen.body.get_document("filter");
            filter.is_ok_and(|filter| filter.get_i32("n").is_ok_and(|of| of == n))
        });
        find.expect("it was sent").connection
    };
    assert_eq!(of(0), of(1));
    assert_ne!(of(1), of(2));
    wait_until_idle::<H>(&client).await;
    gate.open();
    end::<H>(client, &server).await;
}

/// A reply that arrives after its operation has ended reaches no other operation.
pub async fn a_late_reply_reaches_no_other_operation<H: Host>() {
    let gate = Gate::new();
    let server = Server::scripted::<H>(holding(&gate));
    let client = client::<H>(&server.uri("maxPoolSize=2"));
    for n in [2, 3] {
        find(&client, n).await.expect("a reply");
    }
    find_until_timeout::<H>(&client, 1).await;
    gate.open();
    for n in 4..20 {
        find(&client, n).await.expect("the reply to this question");
    }
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// The time limit of a completed operation does not end the next operation.
pub async fn the_time_limit_of_a_completed_operation_does_not_end_the_next_one<H: Host>() {
    let gate = Gate::new();
    let server = Server::scripted::<H>(holding(&gate));
    let client = client::<H>(&server.uri("maxPoolSize=1&retryReads=false"));
    find(&client, 7).await.expect("a reply");
    // The find is sent. Unless it has completed by then, its future is not polled again before the
    // limit has passed.
    let things = things(&client);
    let mut slow = Stepper::new(things.find_one(doc! { "n": 8 }).timeout(H::LIMIT));
    let mut outcome = None;
    while outcome.is_none() && server.seen("find").len() < 2 {
        outcome = slow.step().await;
        pause::<H>(Duration::from_millis(1)).await;
    }
    // Not so long that the client takes the connection of the find back.
    pause::<H>(H::LIMIT + OVERDUE_LIMIT / 2).await;
    while outcome.is_none() {
        slow.woken().await;
        outcome = slow.step().await;
    }
    drop(slow);
    let waiting = client.clone();
    let next = async move { find(&waiting, 1).await.expect("a reply without a limit") };
    let opener = async move {
        pause::<H>(H::LIMIT).await;
        gate.open();
    };
    let tasks: [std::pin::Pin<Box<dyn Future<Output = ()> + Send>>; 2] =
        [Box::pin(next), Box::pin(opener)];
    together::<H, _>(tasks).await;
    assert_eq!(server.most_operating(), 1);
    end::<H>(client, &server).await;
}

/// The time limit of an operation covers the wait for a connection.
pub async fn the_time_limit_covers_the_wait_for_a_connection<H: Host>() {
    let gate = Gate::new();
    let server = Server::scripted::<H>(holding(&gate));
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    let things = things(&client);
    let mut first = Stepper::new(things.find_one(doc! { "n": 1 }));
    while server.seen("find").is_empty() {
        assert!(first.step().await.is_none());
        pause::<H>(Duration::from_millis(1)).await;
    }
    find_until_timeout::<H>(&client, 2).await;
    assert_eq!(client.counts().waiting, 0);
    gate.open();
    let found = loop {
        first.woken().await;
        if let Some(found) = first.step().await {
            break found;
        }
    };
    assert_eq!(found, Ok(Some(doc! { "n": 1 })));
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// The time limit of an operation covers server selection and the establishment of a connection.
pub async fn the_time_limit_covers_server_selection_and_connection_establishment<H: Host>() {
    let listener = H::listener();
    let address = listener.address();
    let silent = client::<H>(&format!("mongodb://{address}/"));
    find_until_timeout::<H>(&silent, 1).await;
    assert_eq!(silent.counts().waiting, 0);
    within::<H, _>(H::SLACK, "shutdown", silent.shutdown()).await;

    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match request.connection {
        0 => answer(request),
        _ => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
    });
    let client = client::<H>(&server.uri(""));
    find_until_timeout::<H>(&client, 1).await;
    wait_until_idle::<H>(&client).await;
    gate.open();
    find(&client, 2).await.expect("a reply");
    end::<H>(client, &server).await;
}

/// `socketTimeoutMS` and `timeoutMS` of the connection string limit operations without a limit of
/// their own.
pub async fn time_limits_of_the_connection_string_apply<H: Host>() {
    // With `timeoutMS`, the limit of the first find covers the establishment of its connection, so
    // the value is larger.
    let limit = H::LIMIT.as_millis();
    for option in [
        format!("socketTimeoutMS={limit}"),
        format!("timeoutMS={}", 2 * limit),
    ] {
        let gate = Gate::new();
        let server = Server::scripted::<H>(holding(&gate));
        let client = client::<H>(&server.uri(&format!("retryReads=false&{option}")));
        find(&client, 0).await.expect("a reply");
        let result = within::<H, _>(H::SLACK, &option, find(&client, 1)).await;
        let error = result.expect_err("nobody answers");
        assert_eq!(waited_for(&error), Some(Wait::Exchange), "{error:?}");
        find(&client, 2).await.expect("a reply");
        gate.open();
        end::<H>(client, &server).await;
    }
}

/// The limit of a find, its own or `timeoutMS`, covers all batches of its cursor together, even if
/// all batches are empty. Closing the cursor sends `killCursors` although the limit has passed.
pub async fn the_time_limit_of_a_cursor_covers_all_its_batches<H: Host>() {
    let option = format!("timeoutMS={}", H::LIMIT.as_millis());
    for (option, limit) in [("", Some(H::LIMIT)), (&*option, None)] {
        let server = Server::scripted::<H>(|request| {
            let batch = match request.name.as_str() {
                "find" => "firstBatch",
                "getMore" => "nextBatch",
                _ => return answer(request),
            };
            let cursor = doc! { "id": 7_i64, "ns": "app.things", batch: [] };
            request.reply(&doc! { "ok": 1, "cursor": cursor })
        });
        // Counts `getMore` commands when they start, since the server can read the last one long
        // after the limit has passed.
        let fetches = Arc::new(AtomicUsize::new(0));
        let counted = fetches.clone();
        let listener = move |event: &Event| {
            if let EventKind::Command(CommandEvent::Started { facts, .. }) = &event.kind {
                counted.fetch_add(usize::from(&*facts.name == "getMore"), Ordering::SeqCst);
            }
        };
        let builder = builder::<H>(&server.uri(option)).event_listener(Arc::new(listener));
        let client = builder.build().expect("a client");
        ping(&client).await.expect("a reply");
        let things = things(&client);
        let find = things.find(doc! {});
        let find = match limit {
            Some(limit) => find.timeout(limit),
            None => find,
        };
        let mut cursor = find.await.expect("a cursor");
        let next = within::<H, _>(H::LIMIT + H::SLACK, "the time limit", cursor.next()).await;
        let error = next.expect("no end").expect_err("no document");
        assert!(waited_for(&error).is_some(), "{error:?}");
        assert_eq!(cursor.next().await, None);
        client.flush_events().await;
        let fetched = fetches.load(Ordering::SeqCst);
        assert!(fetched > 0);
        cursor.close().await;
        assert_eq!(server.seen("killCursors").len(), 1);
        client.flush_events().await;
        assert_eq!(fetches.load(Ordering::SeqCst), fetched);
        end::<H>(client, &server).await;
        // The connections of the client are closed, so the server receives no further `getMore`.
        assert!(server.seen("getMore").len() <= fetched);
    }
}

/// A panic in the waker of an operation, which is code of the application, does not disturb the
/// time limits of other operations.
pub async fn a_panicking_waker_does_not_affect_other_time_limits<H: Host>() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("this waker panics");
        }
    }
    let listener = H::listener();
    let client = client::<H>(&format!("mongodb://{}/", listener.address()));
    let things = things(&client);
    let first = things.find_one(doc! { "n": 1 }).timeout(H::LIMIT / 2);
    let mut first = pin!(first.into_future());
    let waker = Waker::from(Arc::new(Panics));
    assert!(
        first
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    find_until_timeout::<H>(&client, 2).await;
    find_until_timeout::<H>(&client, 3).await;
    let ended = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(ended, Poll::Ready(Err(_))), "{ended:?}");
    within::<H, _>(H::SLACK, "shutdown", client.clone().shutdown()).await;
}

/// Timers complete in the order of their times, and none completes early.
pub async fn timers_fire_in_order_and_not_early<H: Host>() {
    let runtime = H::runtime();
    let began = runtime.now();
    let mut timers = Vec::new();
    for millis in [50, 0, 10] {
        let wanted = Duration::from_millis(millis);
        let mut timer = Stepper::new(runtime.sleep(wanted));
        let is_over = timer.step().await.is_some();
        assert!(
            !is_over || runtime.now() - began >= wanted,
            "{millis} ms were less"
        );
        timers.push((millis, timer, is_over));
    }
    let last = Duration::from_millis(90);
    runtime.sleep(last).await;
    assert!(runtime.now() - began >= last, "90 ms were less");
    // The order of tasks that are woken at about the same time is that of the scheduler. So the
    // timers that end earlier are polled here, after the one that ends last.
    for (millis, mut timer, was_over) in timers {
        assert!(
            was_over || timer.step().await.is_some(),
            "{millis} ms were more than 90"
        );
    }
}

/// Dropping a timer disturbs no other timer, and a virtual clock does not jump to the time of the
/// dropped one.
pub async fn dropped_timers_do_not_affect_other_timers<H: Host>() {
    let runtime = H::runtime();
    let began = runtime.now();
    for _ in 0..100 {
        let mut timer = Stepper::new(runtime.sleep(Duration::from_secs(3600)));
        assert!(timer.step().await.is_none());
    }
    runtime.sleep(Duration::from_millis(5)).await;
    assert!(runtime.now() - began < Duration::from_secs(60));
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri(""));
    ping(&client).await.expect("a reply");
    end::<H>(client, &server).await;
}
