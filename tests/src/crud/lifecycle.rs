//! Tests of the pools of a new client, and of its shutdown.

use super::{Bench, SOON, in_turn, report, within};
use bson::{Document, doc};
use onionskin::Runtime;
use onionskin_core::event::PoolEvent;
use std::{
    collections::BTreeMap,
    future::{IntoFuture, poll_fn},
    pin::pin,
    task::Poll,
};

/// The number of members of the deployment.
const MEMBERS: usize = 3;

/// Runs all tests of pools and shutdowns against a replica set of three members, and prints their
/// number.
///
/// # Panics
///
/// If a test fails, or if all together take too long.
pub async fn run<R: Runtime + Default>(name: &str, uri: &str) {
    let bench = Bench::<R>::new(uri);
    let passed = within::<R, _>(async {
        in_turn!(
            &bench,
            [
                a_warm_pool_has_its_smallest_size,
                without_a_smallest_size_nothing_is_warmed,
                a_server_that_cannot_be_reached_is_not_warmed,
                an_immediate_shutdown_waits_for_no_operation,
            ]
        )
    })
    .await;
    report("pools and shutdowns", name, passed);
    within::<R, _>(bench.client.shutdown()).await;
}

/// Returns the number of connections that became ready, by server.
async fn ready<R: Runtime + Default>(b: &Bench<R>) -> BTreeMap<String, usize> {
    let mut ready = BTreeMap::new();
    for event in b.watch().await.pool() {
        if let PoolEvent::ConnectionReady { address, .. } = event {
            *ready.entry(address.to_string()).or_default() += 1;
        }
    }
    ready
}

async fn a_warm_pool_has_its_smallest_size<R: Runtime + Default>(b: &Bench<R>) {
    let warm = Bench::<R>::new(&format!("{}&minPoolSize=3", b.uri));
    warm.client.warm_connection_pool().await;
    let counts = ready(&warm).await;
    assert_eq!(counts.len(), MEMBERS, "{counts:?}");
    assert!(counts.values().all(|count| *count == 3), "{counts:?}");
    warm.client.warm_connection_pool().await;
    let items = warm.client.database("warm").collection::<Document>("items");
    items.find_one(doc! {}).await.expect("a reply");
    assert_eq!(ready(&warm).await, counts, "no connection is new");
    warm.client.shutdown().await;
}

async fn without_a_smallest_size_nothing_is_warmed<R: Runtime + Default>(b: &Bench<R>) {
    let cold = Bench::<R>::new(&b.uri);
    cold.client.warm_connection_pool().await;
    assert!(ready(&cold).await.is_empty());
    cold.client.shutdown().await;
}

async fn a_server_that_cannot_be_reached_is_not_warmed<R: Runtime + Default>(_: &Bench<R>) {
    let nobody = Bench::<R>::new("mongodb://127.0.0.1:1/?minPoolSize=1");
    nobody.client.warm_connection_pool().await;
    assert!(ready(&nobody).await.is_empty());
    nobody.client.shutdown().await;
}

async fn an_immediate_shutdown_waits_for_no_operation<R: Runtime + Default>(b: &Bench<R>) {
    let slow = Bench::<R>::new(&b.uri);
    let items = slow.empty::<Document>("immediate").await;
    let block = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 },
        "data": {
            "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 3_000,
        },
    };
    let admin = slow.client.database("admin");
    admin.run_command(block).await.expect("a fail point");
    let mut find = pin!(items.find_one(doc! {}).into_future());
    poll_fn(|context| {
        assert!(find.as_mut().poll(context).is_pending(), "it is held back");
        Poll::Ready(())
    })
    .await;
    // Its future is not polled, so a shutdown that waited for it would take ten seconds.
    let runtime = R::default();
    let start = runtime.now();
    slow.client.clone().shutdown().immediate(true).await;
    let waited = runtime.now().saturating_sub(start);
    assert!(waited < SOON / 2, "waited for {waited:?}");
    let later = items.find_one(doc! {}).await;
    later.expect_err("the client is closed");
    assert_eq!(find.await.expect("it runs to its end"), None);
}
