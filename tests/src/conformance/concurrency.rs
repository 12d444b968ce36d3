//! Tests with many concurrent operations on few connections.

use super::{
    Host, both, client, end, find,
    server::{Gate, Server, Step, answer},
    things, together, until, wait_until_idle,
};
use bson::doc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of operations that run at once in the test with few connections.
const TASKS: i32 = 2_000;

/// The number of connections in the test with ten thousand operations.
const CONNECTIONS: usize = 100;

/// Each of 2,000 concurrent operations gets its own reply, over a pool of at most 4 connections.
/// The driver has a pool (CMAP-1), whose wait queue (CMAP-29) and operations (CMAP-36) are
/// thread-safe.
pub async fn thousands_of_tasks_share_few_connections<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri("maxPoolSize=4"));
    together::<H, _>((0..TASKS).map(|n| {
        let client = client.clone();
        async move { find(&client, n).await.expect("the reply to this question") }
    }))
    .await;
    assert_eq!(server.seen("find").len(), 2_000);
    let most = server.most_operating();
    assert!((1..=4).contains(&most), "{most} connections ran operations");
    assert!(server.accepted() <= 6, "{} connections", server.accepted());
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// Ten thousand concurrent operations share a hundred connections. The server holds back its
/// replies to the first hundred finds until all of these have arrived, so that the pool has to open
/// a hundred connections.
pub async fn ten_thousand_operations_share_a_hundred_connections<H: Host>() {
    let gate = Gate::new();
    let (server_gate, asked) = (gate.clone(), AtomicUsize::new(0));
    let server = Server::scripted::<H>(move |request| {
        if request.name != "find" || asked.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS {
            return answer(request);
        }
        [vec![Step::Hold(server_gate.clone())], answer(request)].concat()
    });
    let client = client::<H>(&server.uri("maxPoolSize=100&maxConnecting=10"));
    let opener = async {
        until::<H>("all connections", || server.most_operating() == CONNECTIONS).await;
        gate.open();
    };
    let operations = together::<H, _>((0..10_000).map(|n| {
        let client = client.clone();
        async move { find(&client, n).await.expect("the reply to this question") }
    }));
    both(opener, operations).await;
    assert_eq!(server.seen("find").len(), 10_000);
    assert_eq!(server.most_operating(), CONNECTIONS);
    // Besides the pool, the monitor can use one connection and the measurement of round trip times
    // another.
    assert!(
        server.accepted() <= 102,
        "{} connections",
        server.accepted()
    );
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// Operations get their own replies while the server resets connections and callers drop
/// operations.
pub async fn concurrent_operations_get_their_replies_despite_resets_and_drops<H: Host>() {
    let server = Server::scripted::<H>(|request| match request.n() {
        Some(n) if n % 50 == 49 && request.name == "find" => vec![Step::Reset],
        _ => answer(request),
    });
    let client = client::<H>(&server.uri("maxPoolSize=4&retryReads=false"));
    together::<H, _>((0..200).map(|n| {
        let client = client.clone();
        async move {
            let things = things(&client);
            let mut stepper = super::Stepper::new(things.find_one(doc! { "n": n }));
            if n % 3 == 0 {
                stepper.step().await;
                return;
            }
            let result = loop {
                if let Some(result) = stepper.step().await {
                    break result;
                }
                stepper.woken().await;
            };
            match result {
                Ok(found) => assert_eq!(found, Some(doc! { "n": n })),
                Err(error) => assert!(error.server().is_some() || n % 50 == 49, "{error:?}"),
            }
        }
    }))
    .await;
    wait_until_idle::<H>(&client).await;
    find(&client, 1000).await.expect("all is well again");
    wait_until_idle::<H>(&client).await;
    end::<H>(client, &server).await;
}
