//! The options of collections and indexes, as they are listed, and their bounds.

use super::{
    fidelity::{batch, code},
    world::{World, send, standalone},
};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};

fn options_of(world: &mut World, conn: ConnId, name: &str) -> Document {
    let list = doc! { "listCollections": 1, "filter": { "name": name } };
    let reply = send(world, conn, list);
    let listed = batch(&reply)[0].as_document().expect("a collection");
    listed.get_document("options").expect("options").clone()
}

fn index(world: &mut World, conn: ConnId, name: &str) -> Document {
    let reply = send(world, conn, doc! { "listIndexes": "i" });
    let mut listed = batch(&reply).iter().filter_map(Bson::as_document);
    let found = listed.find(|index| index.get_str("name").ok() == Some(name));
    found.expect("an index").clone()
}

#[test]
fn the_options_of_a_capped_collection_are_listed_in_one_form() {
    let (mut world, conn) = standalone();
    let create = doc! { "create": "f", "capped": 1, "size": 4096_i64, "max": 5.0 };
    assert_eq!(code(&mut world, conn, create), None);
    let expected = doc! { "capped": true, "size": 4096, "max": 5 };
    assert_eq!(options_of(&mut world, conn, "f"), expected);
    let again = doc! { "create": "f", "capped": true, "size": 4096, "max": 5 };
    assert_eq!(code(&mut world, conn, again), None, "it is the same");
    let plain = doc! { "create": "p", "capped": false };
    assert_eq!(code(&mut world, conn, plain), None);
    assert_eq!(options_of(&mut world, conn, "p"), doc! {});
    let large = doc! { "create": "l", "capped": true, "size": 5_000_000_000_i64 };
    assert_eq!(code(&mut world, conn, large), None);
    let size = options_of(&mut world, conn, "l").get("size").cloned();
    assert_eq!(size, Some(Bson::Int64(5_000_000_000)));
}

#[test]
fn the_numbers_of_a_capped_collection_have_bounds() {
    let (mut world, conn) = standalone();
    for (options, expected) in [
        (doc! { "size": 10 }, 72),
        (doc! { "capped": false, "max": 10 }, 72),
        (doc! { "capped": true }, 72),
        (doc! { "capped": true, "size": 0 }, 51024),
        (doc! { "capped": true, "size": -1 }, 51024),
        (doc! { "capped": true, "size": f64::NAN }, 51024),
        (
            doc! { "capped": true, "size": 1, "max": 1_i64 << 31 },
            51024,
        ),
    ] {
        let mut create = doc! { "create": "f" };
        create.extend(options.clone());
        assert_eq!(code(&mut world, conn, create), Some(expected), "{options}");
    }
}

#[test]
fn the_options_of_an_index_are_listed_in_one_form() {
    let (mut world, conn) = standalone();
    let indexes = [
        doc! { "key": { "a": 1 }, "name": "a", "v": 1, "unique": 1, "dropDups": true },
        doc! { "key": { "b": 1 }, "name": "b", "unique": false, "hidden": false },
        doc! {
            "key": { "c": 1 }, "name": "c", "sparse": false,
            "partialFilterExpression": { "c": 1 },
        },
        doc! { "key": { "g": "2dsphere" }, "name": "g" },
    ];
    let create = doc! { "createIndexes": "i", "indexes": indexes.to_vec() };
    assert_eq!(code(&mut world, conn, create), None);
    let listed = index(&mut world, conn, "a");
    let expected = doc! { "v": 1, "unique": true, "key": { "a": 1 }, "name": "a" };
    assert_eq!(listed, expected);
    let expected = doc! { "v": 2, "key": { "b": 1 }, "name": "b" };
    assert_eq!(index(&mut world, conn, "b"), expected);
    let listed = index(&mut world, conn, "g");
    assert_eq!(listed.get_i32("2dsphereIndexVersion").ok(), Some(3));
    for version in [0, 3] {
        let odd = doc! { "key": { "z": 1 }, "name": "z", "v": version };
        let create = doc! { "createIndexes": "i", "indexes": [odd] };
        assert_eq!(code(&mut world, conn, create), Some(67), "{version}");
    }
    let both = doc! {
        "key": { "z": 1 }, "name": "z", "sparse": true, "partialFilterExpression": { "c": 1 },
    };
    let create = doc! { "createIndexes": "i", "indexes": [both] };
    assert_eq!(code(&mut world, conn, create), Some(67));
}

#[test]
fn an_empty_timestamp_is_the_time_of_the_write() {
    let (mut world, conn) = standalone();
    let empty = Bson::Timestamp(bson::Timestamp {
        time: 0,
        increment: 0,
    });
    let document = doc! {
        "_id": empty.clone(), "a": empty.clone(), "b": empty.clone(), "c": { "d": empty.clone() },
    };
    let insert = doc! { "insert": "t", "documents": [document] };
    assert_eq!(code(&mut world, conn, insert), None);
    let found = send(&mut world, conn, doc! { "find": "t" });
    let found = batch(&found)[0].as_document().expect("a document").clone();
    assert_eq!(found.get("_id"), Some(&empty));
    let inner = found.get_document("c").expect("a document");
    assert_eq!(inner.get("d"), Some(&empty));
    let times = ["a", "b"].map(|name| found.get_timestamp(name).expect("a time"));
    assert!(times[0].time > 0 && times[0] < times[1], "{found}");
    let replacement = doc! { "q": {}, "u": { "a": empty.clone() } };
    let update = doc! { "update": "t", "updates": [replacement.clone()] };
    send(&mut world, conn, update);
    let first = |world: &mut World| {
        let found = send(world, conn, doc! { "find": "t" });
        batch(&found)[0]
            .as_document()
            .and_then(|d| d.get("a").cloned())
    };
    assert_ne!(first(&mut world), Some(empty.clone()));
    let update = doc! {
        "update": "t", "updates": [replacement], "bypassEmptyTsReplacement": true,
    };
    send(&mut world, conn, update);
    assert_eq!(first(&mut world), Some(empty.clone()));
    // Operators write what they are given.
    let set = doc! { "$set": { "a": empty.clone() } };
    let upsert = doc! { "q": { "_id": 9 }, "u": set, "upsert": true };
    send(
        &mut world,
        conn,
        doc! { "update": "t", "updates": [upsert] },
    );
    let found = send(
        &mut world,
        conn,
        doc! { "find": "t", "filter": { "_id": 9 } },
    );
    let found = batch(&found)[0].as_document().expect("a document");
    assert_eq!(found.get("a"), Some(&empty));
}

#[test]
fn a_hinted_sparse_index_omits_documents_of_a_count() {
    let (mut world, conn) = standalone();
    let documents = [doc! { "_id": 1, "x": 1 }, doc! { "_id": 2 }];
    send(
        &mut world,
        conn,
        doc! { "insert": "i", "documents": documents.to_vec() },
    );
    let sparse = doc! { "key": { "x": 1 }, "name": "x", "sparse": true };
    send(
        &mut world,
        conn,
        doc! { "createIndexes": "i", "indexes": [sparse] },
    );
    let count = send(&mut world, conn, doc! { "count": "i", "hint": "x" });
    assert_eq!(count.get_i32("n").ok(), Some(1), "{count}");
}

#[test]
fn numbers_with_a_fraction_are_truncated_and_what_is_missing_is_refused_by_name() {
    let (mut world, conn) = standalone();
    let documents: Vec<Document> = (0..5).map(|id| doc! { "_id": id }).collect();
    send(
        &mut world,
        conn,
        doc! { "insert": "i", "documents": documents },
    );
    let find = doc! { "find": "i", "batchSize": 2.7 };
    assert_eq!(batch(&send(&mut world, conn, find)).len(), 2);
    let find = doc! { "find": "i", "filter": { "$where": "true" } };
    assert_eq!(code(&mut world, conn, find), Some(6_108_304));
}
