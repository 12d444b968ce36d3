//! Tests that drop the future of an operation after each possible number of polls. The end of the
//! future is the end of a scoped check out, so the connection returns to its pool (CMAP-112).

use super::{
    Host, Stepper, client, end, find, pause, ping,
    server::{Gate, Request, Server, Step, answer},
    things, wait_until_idle,
};
use crate::compressors::noise;
use bson::{Document, doc};
use onionskin::Client;
use std::time::Duration;

/// A test fails if an operation needs this number of polls.
const MOST_STEPS: usize = 500;

/// Returns the steps of [`answer`], with each reply in pieces of 40 bytes, so that the client waits
/// many times.
fn answer_in_pieces(request: &Request) -> Vec<Step> {
    let pieces = |step| match step {
        Step::Send(bytes) => Step::Trickle(bytes, 40),
        other => other,
    };
    answer(request).into_iter().map(pieces).collect()
}

/// Polls a future up to `count` times. Returns true if the future completed.
///
/// Between two polls, waits until the future is woken. With `late`, also waits after the last poll.
async fn poll_times<F: Future>(stepper: &mut Stepper<F>, count: usize, late: bool) -> bool {
    for step in 1..=count {
        if stepper.step().await.is_some() {
            return true;
        }
        if step < count || late {
            stepper.woken().await;
        }
    }
    false
}

/// Drops the operation of `make` after no poll, after one poll, and so on, until the operation
/// completes before it is dropped. After each drop, no connection stays in use and a find succeeds.
///
/// With `is_cold`, each operation has a new client.
async fn drop_everywhere<H: Host, F: Future>(
    server: &Server,
    is_cold: bool,
    make: impl Fn(Client<H::R>) -> F,
) {
    let uri = server.uri("maxPoolSize=1");
    for late in [false, true] {
        let mut used = client::<H>(&uri);
        for count in 0..=MOST_STEPS {
            assert!(count < MOST_STEPS, "it never ends");
            let mut stepper = Stepper::new(make(used.clone()));
            let is_over = poll_times(&mut stepper, count, late).await;
            drop(stepper);
            wait_until_idle::<H>(&used).await;
            // If a reply of the dropped operation were left on the connection, this find would get
            // it.
            let n = i32::try_from(count).unwrap_or(0) + 1000;
            find(&used, n).await.expect("the connection or another one");
            assert!(used.counts().sockets <= 3, "{:?}", used.counts());
            if is_over {
                break;
            }
            if is_cold {
                end::<H>(used, server).await;
                used = client::<H>(&uri);
            }
        }
        end::<H>(used, server).await;
    }
}

/// Drops a find of a client that has a connection.
pub async fn a_find_may_be_dropped_at_any_point<H: Host>() {
    let server = Server::scripted::<H>(answer_in_pieces);
    drop_everywhere::<H, _>(&server, false, |client| async move {
        let _ = find(&client, 7).await;
    })
    .await;
}

/// Drops the first command of a client, which has to select a server and to connect.
pub async fn a_first_command_may_be_dropped_at_any_point<H: Host>() {
    let server = Server::scripted::<H>(answer_in_pieces);
    drop_everywhere::<H, _>(&server, true, |client| async move {
        let _ = ping(&client).await;
    })
    .await;
}

/// Drops an insert of a large document.
pub async fn an_insert_may_be_dropped_at_any_point<H: Host>() {
    let server = Server::scripted::<H>(answer_in_pieces);
    let document: Document = doc! { "text": noise(2_000_000) };
    drop_everywhere::<H, _>(&server, false, |client| {
        let document = &document;
        async move {
            let _ = things(&client).insert_one(document).await;
        }
    })
    .await;
}

/// Drops a cursor that fetches several batches.
pub async fn a_cursor_may_be_dropped_at_any_point<H: Host>() {
    let server = Server::scripted::<H>(answer_in_pieces);
    drop_everywhere::<H, _>(&server, false, |client| async move {
        let filter = doc! { "n": 7, "open": true };
        let Ok(mut cursor) = things(&client).find(filter).await else {
            return;
        };
        for _ in 0..3 {
            let document = cursor.next().await.expect("it never ends");
            assert_eq!(document.ok(), Some(doc! { "n": 7 }));
        }
    })
    .await;
    let (opened, killed) = (server.seen("find"), server.seen("killCursors"));
    assert!(!killed.is_empty() && killed.len() <= opened.len());
}

/// An operation that is dropped after a part of its request was written closes its connection.
pub async fn dropping_a_partly_written_request_closes_its_connection<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    // After the hello of the pool's connection the server does not read until the gate is opened.
    let server = Server::scripted::<H>(move |request| match request.connection {
        1 => [answer(request), vec![Step::Hold(server_gate.clone())]].concat(),
        _ => answer(request),
    });
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    let document: Document = doc! { "text": noise(16_000_000) };
    let things = things(&client);
    let mut insert = Stepper::new(things.insert_one(&document));
    let mut polls_on_the_connection = 0;
    while polls_on_the_connection < 50 {
        assert!(insert.step().await.is_none(), "nobody reads");
        polls_on_the_connection += client.counts().in_use;
        pause::<H>(Duration::from_millis(1)).await;
    }
    assert_eq!(client.counts().in_use, 1);
    drop(insert);
    wait_until_idle::<H>(&client).await;
    find(&client, 3).await.expect("another connection");
    gate.open();
    end::<H>(client, &server).await;
    assert!(server.seen("insert").is_empty());
}

/// Operations that are dropped in the wait queue leave the queue, and the others get the
/// connection.
pub async fn dropped_operations_leave_the_wait_queue<H: Host>() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let server = Server::scripted::<H>(move |request| match request.n() {
        Some(1) => [vec![Step::Hold(server_gate.clone())], answer(request)].concat(),
        _ => answer(request),
    });
    let client = client::<H>(&server.uri("maxPoolSize=1"));
    find(&client, 0).await.expect("a reply");
    let things = things(&client);
    let mut first = Stepper::new(things.find_one(doc! { "n": 1 }));
    while server.seen("find").len() < 2 {
        assert!(first.step().await.is_none());
        pause::<H>(Duration::from_millis(1)).await;
    }
    let mut waiters = Vec::new();
    for n in 10..30 {
        let mut waiter = Stepper::new(things.find_one(doc! { "n": n }));
        assert!(waiter.step().await.is_none());
        waiters.push((n, waiter));
    }
    assert_eq!(client.counts().waiting, 20);
    waiters.retain(|(n, _)| n % 2 == 1);
    assert_eq!(client.counts().waiting, 10);
    gate.open();
    for (n, mut operation) in [(1, first)].into_iter().chain(waiters) {
        let found = loop {
            operation.woken().await;
            if let Some(found) = operation.step().await {
                break found;
            }
        };
        assert_eq!(found, Ok(Some(doc! { "n": n })));
    }
    assert_eq!(server.seen("find").len(), 12);
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}
