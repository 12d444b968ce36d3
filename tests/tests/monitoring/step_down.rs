//! Pools and cursors across step-downs and shutdowns: the prose tests of
//! `connections-survive-step-down/tests/README.md`.

use crate::{
    event_log::pool_cleared,
    scene::{Scene, Watched, play, replica_set},
};
use bson::{Document, doc};
use onionskin::{Collection, options::WriteConcern};
use onionskin_worlds::world::SimRuntime;

/// Returns a client without retries of writes, and its new collection.
async fn set_up(scene: &Scene) -> (Watched, Collection<SimRuntime, Document>) {
    let watched = scene.client("retryWrites=false");
    let database = watched.client.database("step-down");
    let things = database.collection("step-down");
    let majority = WriteConcern::majority;
    let dropped = things.drop().write_concern(majority());
    dropped.await.expect("dropped");
    let create = database.create_collection("step-down");
    create.write_concern(majority()).await.expect("created");
    (watched, things)
}

/// "getMore Iteration": a cursor survives the step-down of its server, and so does the pool.
#[test]
fn a_cursor_survives_a_step_down() {
    play([replica_set()], |scene| async move {
        let (watched, things) = set_up(&scene).await;
        let documents = (0..5).map(|id| doc! { "_id": id });
        let insert = things.insert_many(documents);
        let insert = insert.write_concern(WriteConcern::majority());
        insert.await.expect("inserted");
        let mut cursor = things.find(doc! {}).batch_size(2).await.expect("found");
        let primary = scene.primary();
        let freeze = doc! { "replSetFreeze": 0 };
        scene.tell((primary + 1) % 3, freeze).await;
        let step_down = doc! { "replSetStepDown": 30, "force": true };
        scene.tell(primary, step_down).await;
        for id in 0..5 {
            let found = cursor.next().await.expect("a document");
            assert_eq!(found, Ok(doc! { "_id": id }));
        }
        watched.assert_count(0, "pool cleared", pool_cleared);
        drop((cursor, things));
        watched.end().await;
    });
}

/// "Not Primary - Keep Connection Pool", "Shutdown in progress - Reset Connection Pool" and
/// "Interrupted at shutdown - Reset Connection Pool".
#[test]
fn a_shutdown_clears_the_pool_and_a_step_down_does_not() {
    for (code, clears) in [(10_107, 0), (91, 1), (11_600, 1)] {
        play([replica_set()], |scene| async move {
            let (watched, things) = set_up(&scene).await;
            let data = doc! { "failCommands": ["insert"], "errorCode": code };
            scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
            let insert = || things.insert_one(doc! { "test": 1 });
            let error = insert().await.expect_err("the fail point");
            assert_eq!(error.code(), Some(code));
            insert().await.expect("inserted");
            watched.assert_count(clears, "pool cleared", pool_cleared);
            drop(things);
            watched.end().await;
        });
    }
}
