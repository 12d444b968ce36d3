//! Time series collections.

use super::world::{World, send, standalone};
use crate::deployment::ConnId;
use bson::{Bson, DateTime, Document, doc};
use std::time::Duration;

fn create(world: &mut World, conn: ConnId) {
    let create = doc! {
        "create": "c", "expireAfterSeconds": 1_000_000,
        "timeseries": { "timeField": "at", "metaField": "of", "granularity": "minutes" },
    };
    let reply = send(world, conn, create);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

/// Returns the time of a test that began at the start of the world.
fn at(world: &mut World, conn: ConnId) -> DateTime {
    let hello = send(world, conn, doc! { "hello": 1 });
    *hello.get_datetime("localTime").expect("a time")
}

fn batch(reply: &Document) -> Vec<Bson> {
    let cursor = reply.get_document("cursor").expect("a cursor");
    cursor.get_array("firstBatch").expect("a batch").clone()
}

#[test]
fn measurements_are_inserted_found_and_expire() {
    let (mut world, conn) = standalone();
    create(&mut world, conn);
    let now = at(&mut world, conn);
    let documents = [
        doc! { "_id": 1, "n": 1, "of": "a", "at": now },
        doc! { "_id": 1, "at": now },
    ];
    let reply = send(
        &mut world,
        conn,
        doc! { "insert": "c", "documents": documents },
    );
    assert_eq!(reply.get_i32("n").ok(), Some(2), "no index on _id: {reply}");
    let found = send(
        &mut world,
        conn,
        doc! { "find": "c", "filter": { "_id": 1 } },
    );
    let first = doc! { "at": now, "of": "a", "_id": 1, "n": 1 };
    assert_eq!(batch(&found)[0], first.into());
    assert_eq!(batch(&found).len(), 2);
    let documents = [doc! { "_id": 2, "at": 5 }];
    let reply = send(
        &mut world,
        conn,
        doc! { "insert": "c", "documents": documents },
    );
    let text = reply.to_string();
    assert!(
        text.contains("'at' must be present and contain a valid BSON UTC datetime"),
        "{text}"
    );
    world.run_for(Duration::from_secs(1_000_100));
    let count = send(&mut world, conn, doc! { "count": "c" });
    assert_eq!(count.get_i32("n").ok(), Some(0), "{count}");
}

#[test]
fn a_time_series_collection_is_listed_with_its_buckets() {
    let (mut world, conn) = standalone();
    create(&mut world, conn);
    let list = send(&mut world, conn, doc! { "listCollections": 1 });
    let [own, buckets] = batch(&list).try_into().expect("two entries");
    let own = own.as_document().expect("an entry");
    assert_eq!(own.get_str("type").ok(), Some("timeseries"), "{own}");
    let options = own.get_document("options").expect("options");
    let series = options.get_document("timeseries").expect("options");
    let expected = doc! {
        "timeField": "at", "metaField": "of", "granularity": "minutes",
        "bucketMaxSpanSeconds": 86_400,
    };
    assert_eq!(series, &expected);
    let buckets = buckets.as_document().expect("an entry");
    assert_eq!(buckets.get_str("name").ok(), Some("system.buckets.c"));
    assert_eq!(
        batch(&send(&mut world, conn, doc! { "listIndexes": "c" })),
        []
    );
    send(&mut world, conn, doc! { "drop": "c" });
    assert_eq!(
        batch(&send(&mut world, conn, doc! { "listCollections": 1 })),
        []
    );
}

#[test]
fn what_time_series_collections_do_not_have_is_refused() {
    let (mut world, conn) = standalone();
    create(&mut world, conn);
    let index = doc! { "key": { "x": 1 }, "name": "x" };
    let merge = doc! { "$merge": "c" };
    for (command, code) in [
        (
            doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
            72,
        ),
        (
            doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] },
            72,
        ),
        (doc! { "findAndModify": "c", "remove": true }, 166),
        (doc! { "createIndexes": "c", "indexes": [index] }, 166),
        (
            doc! { "aggregate": "c", "pipeline": [merge], "cursor": {} },
            166,
        ),
        (doc! { "find": "system.buckets.c" }, 73),
        (doc! { "collMod": "c", "validator": {} }, 72),
        (
            doc! { "renameCollection": "d.c", "to": "d.e", "$db": "admin" },
            20,
        ),
        (
            doc! { "create": "e", "timeseries": { "timeField": "t" }, "capped": true },
            72,
        ),
        (
            doc! { "create": "e", "timeseries": { "timeField": "t", "metaField": "t" } },
            72,
        ),
        (
            doc! { "create": "e", "timeseries": { "metaField": "t" } },
            40414,
        ),
    ] {
        let reply = send(&mut world, conn, command);
        let mut errors = reply.get_array("writeErrors").into_iter().flatten();
        let error = errors.next().and_then(Bson::as_document).unwrap_or(&reply);
        assert_eq!(error.get_i32("code").ok(), Some(code), "{reply}");
    }
}
