//! The lists of indexes on each kind of server (`index-management/tests/README.md`, *Test Plan*).

use crate::scene::{play, replica_set, sharded_alone, standalone};
use bson::{Document, doc};
use onionskin::{IndexModel, options::IndexOptions};
use std::collections::BTreeMap;

/// The indexes of a collection are listed once each, on a standalone, the primary and a secondary
/// of a replica set, and a mongos.
#[test]
fn all_indexes_are_listed_once_on_each_kind_of_server() {
    play(
        [standalone(), replica_set(), sharded_alone()],
        |scene| async move {
            let watched = scene.client("");
            let things = watched.things();
            let index = |keys, options| IndexModel::builder().keys(keys).options(options).build();
            let unique = IndexOptions::builder().unique(true).build();
            let models = [
                index(doc! { "a": 1 }, None),
                index(doc! { "a": 1, "b": -1 }, None),
                index(doc! { "c": 1 }, Some(unique)),
            ];
            let expected = ["_id_", "a_1", "a_1_b_-1", "c_1"];
            things.create_indexes(models).await.expect("they are new");
            let insert = things.insert_one(doc! { "a": 1, "b": 2, "c": 3 });
            insert.await.expect("it is new");
            // All members have the indexes afterwards.
            scene.pause(1_000).await;
            for address in scene.options.addresses.iter() {
                let one = scene.client_of(&address.to_string(), "directConnection=true");
                let things = one.things();
                let mut names = things.list_index_names().await.expect("names");
                names.sort();
                assert_eq!(names, expected);
                let listed = things.list_indexes().await.expect("a cursor");
                let listed: Vec<IndexModel> = listed.into_vec().await.expect("indexes");
                assert_eq!(listed.len(), expected.len());
                let mut by_keys = BTreeMap::new();
                for index in listed {
                    let unique = index.options.and_then(|options| options.unique);
                    by_keys.insert(index.keys.to_string(), unique == Some(true));
                }
                let is_unique = |keys: Document| by_keys.get(&keys.to_string()).copied();
                assert_eq!(is_unique(doc! { "_id": 1 }), Some(false));
                assert_eq!(is_unique(doc! { "a": 1 }), Some(false));
                assert_eq!(is_unique(doc! { "a": 1, "b": -1 }), Some(false));
                assert_eq!(is_unique(doc! { "c": 1 }), Some(true));
                one.client.shutdown().await;
            }
            watched.client.shutdown().await;
        },
    );
}
