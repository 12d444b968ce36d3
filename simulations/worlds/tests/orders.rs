//! The shop of `docs/simulation.md`, with its bug and with its fix.

#![cfg(feature = "tokio")]

use onionskin_tokio::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
};
use onionskin_worlds::on_tokio::{TokioWorld, seeds};
use std::{future::Future, panic::catch_unwind, time::Duration};
use tokio::time::sleep;

const COMMAND: &str = "cargo test -p onionskin-worlds --features tokio --test orders";

const CUSTOMERS: i32 = 30;

fn orders(client: &Client) -> Collection<Document> {
    client.database("shop").collection("orders")
}

/// Repeats an order that failed as a new one.
async fn order_again(client: Client, customer: i32) {
    let order = doc! { "customer": customer };
    while orders(&client).insert_one(&order).await.is_err() {
        sleep(Duration::from_millis(100)).await;
    }
}

/// Repeats an order that failed as the same one.
async fn order_once(client: Client, customer: i32) {
    let order = doc! { "_id": ObjectId::new(), "customer": customer };
    while let Err(error) = orders(&client).insert_one(&order).await {
        if error.is_duplicate_key() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// All customers order, and the primary dies meanwhile.
async fn sell<F>(seed: u64, order: fn(Client, i32) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let world = TokioWorld::replica_set(seed, 3);
    let uri = format!("{}&serverSelectionTimeoutMS=500", world.uri());
    let client = Client::with_uri_str(&uri).await.expect("a client");
    let shop = tokio::spawn({
        let client = client.clone();
        async move {
            for customer in 0..CUSTOMERS {
                order(client.clone(), customer).await;
            }
        }
    });
    sleep(Duration::from_millis(100 + seed % 100)).await;
    world.kill(world.primary().expect("a primary"));
    shop.await.expect("the shop sells");
    // The selection of this client waits for the election.
    let auditor = Client::with_uri_str(world.uri()).await.expect("a client");
    let count = orders(&auditor).count_documents(doc! {}).await;
    assert_eq!(count.expect("a count"), CUSTOMERS as u64);
}

#[test]
fn a_seed_finds_the_order_that_is_stored_twice() {
    let result = catch_unwind(|| {
        seeds(COMMAND, 0..200, |seed| sell(seed, order_again));
    });
    let panic = result.expect_err("a failure");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("left: 31"), "{text}");
}

#[test]
fn an_order_with_an_id_of_its_own_is_stored_once() {
    seeds(COMMAND, 0..200, |seed| sell(seed, order_once));
}
