//! The test in `README.md`.

#![cfg(feature = "tokio")]

// README
use onionskin_tokio::{
    Client, Error,
    bson::{Document, doc},
};
use onionskin_worlds::on_tokio::{TokioWorld, seeds};

#[test]
fn orders_survive_a_step_down() {
    seeds("cargo test orders_survive", 0..100, |seed| async move {
        let world = TokioWorld::replica_set(seed, 3);
        let client = Client::with_uri_str(world.uri()).await?;
        let orders = client.database("shop").collection::<Document>("orders");

        orders.insert_one(doc! { "_id": 1 }).await?;
        assert!(world.step_down(), "there is a primary");
        orders.insert_one(doc! { "_id": 2 }).await?;
        assert_eq!(orders.count_documents(doc! {}).await?, 2);
        Ok::<(), Error>(())
    });
}
// End

#[test]
fn the_readme_has_this_test() {
    let code = include_str!("step_down.rs");
    let shown = code.split("// README\n").nth(1).expect("a start");
    let shown = shown.split("// End\n").next().expect("an end");
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(shown), "README.md lacks:\n{shown}");
}
