//! Tests of the commands on running operations, on the use of collections, and of sharding.

use super::world::{World, standalone};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Bson, Document, bson, doc};
use onionskin_core::address::Address;
use std::time::Duration;

/// Sends a command, by default to the database `admin`, and returns its reply.
fn send(world: &mut World, conn: ConnId, mut command: Document) -> Document {
    if !command.contains_key("$db") {
        command.insert("$db", "admin");
    }
    super::world::send(world, conn, command)
}

fn code(world: &mut World, conn: ConnId, command: Document) -> i32 {
    send(world, conn, command).get_i32("code").unwrap_or(0)
}

#[test]
fn waiting_operations_are_shown_and_ended() {
    let (mut world, conn) = standalone();
    let other = world.connect(0);
    send(
        &mut world,
        other,
        doc! { "create": "c", "capped": true, "size": 1000, "$db": "d" },
    );
    send(
        &mut world,
        other,
        doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" },
    );
    let find = doc! { "find": "c", "tailable": true, "awaitData": true, "$db": "d" };
    let reply = send(&mut world, other, find);
    let cursor = reply.get_document("cursor").expect("a cursor");
    let id = cursor.get_i64("id").expect("an id");
    let get_more = doc! { "getMore": id, "collection": "c", "maxTimeMS": 50_000, "$db": "d" };
    world.send(other, &get_more);
    let all = send(&mut world, conn, doc! { "currentOp": 1 });
    assert_eq!(
        all.get_array("inprog").expect("operations").len(),
        2,
        "{all}"
    );
    let one = send(
        &mut world,
        conn,
        doc! { "currentOp": 1, "op": "getmore", "ns": "d.c" },
    );
    let operations = one.get_array("inprog").expect("operations");
    let operation = operations[0].as_document().expect("an operation");
    let number = operation.get_i32("opid").expect("a number");
    send(&mut world, conn, doc! { "killOp": 1, "op": number });
    world.run_for(Duration::from_millis(1));
    let (_, _, ended) = world.reply(other).expect("a reply");
    assert_eq!(ended.get_i32("code").ok(), Some(11601), "{ended}");
    assert_eq!(code(&mut world, conn, doc! { "killOp": 1 }), 40414);
    assert_eq!(
        code(&mut world, conn, doc! { "currentOp": 1, "$db": "d" }),
        13
    );
}

#[test]
fn the_use_and_the_size_of_collections_are_shown() {
    let (mut world, conn) = standalone();
    send(
        &mut world,
        conn,
        doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" },
    );
    let top = send(&mut world, conn, doc! { "top": 1 });
    let totals = top.get_document("totals").expect("totals");
    assert!(totals.contains_key("d.c"), "{top}");
    let size = send(&mut world, conn, doc! { "dataSize": "d.c", "$db": "d" });
    assert_eq!(size.get_i64("numObjects").ok(), Some(1), "{size}");
    assert_eq!(size.get_i64("size").ok(), Some(14), "{size}");
    for (level, expected) in [(-1, 0), (0, 0), (1, 238), (2, 238)] {
        assert_eq!(
            code(&mut world, conn, doc! { "profile": level, "$db": "d" }),
            expected
        );
    }
    for command in [
        doc! { "listShards": 1 },
        doc! { "enableSharding": "d" },
        doc! { "shardCollection": "d.c", "key": { "_id": 1 } },
    ] {
        assert_eq!(code(&mut world, conn, command.clone()), 59, "{command}");
    }
    assert_eq!(code(&mut world, conn, doc! { "getShardMap": 1 }), 59);
}

#[test]
fn sizes_are_shown_in_the_units_that_a_command_asks_for() {
    let (mut world, conn) = standalone();
    let create = doc! { "create": "c", "capped": true, "size": 4096, "$db": "d" };
    send(&mut world, conn, create);
    let text = "x".repeat(3000);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "s": text }], "$db": "d" };
    send(&mut world, conn, insert);
    let stats = send(
        &mut world,
        conn,
        doc! { "collStats": "c", "scale": 1024, "$db": "d" },
    );
    let shown = |stats: &Document, name: &str| stats.get_i64(name).ok();
    assert_eq!(shown(&stats, "size"), Some(2), "{stats}");
    assert_eq!(shown(&stats, "maxSize"), Some(4), "{stats}");
    assert!(shown(&stats, "avgObjSize") > Some(3000), "{stats}");
    assert_eq!(stats.get_i32("scaleFactor").ok(), Some(1024));
    let stage = doc! { "$collStats": { "storageStats": { "scale": 1024 } } };
    let aggregate = doc! { "aggregate": "c", "pipeline": [stage], "cursor": {}, "$db": "d" };
    let reply = send(&mut world, conn, aggregate);
    let batch = reply
        .get_document("cursor")
        .expect("a cursor")
        .get_array("firstBatch");
    let row = batch.expect("a batch")[0].as_document().expect("a row");
    let storage = row.get_document("storageStats").expect("statistics");
    assert_eq!(shown(storage, "size"), Some(2), "{row}");
    let stats = send(
        &mut world,
        conn,
        doc! { "dbStats": 1, "scale": 1024, "$db": "d" },
    );
    let size = stats.get_f64("dataSize").unwrap_or_default();
    assert!(size > 2.9 && size < 3.1, "{stats}");
    for (command, expected) in [
        (doc! { "collStats": "c", "scale": 0, "$db": "d" }, 51024),
        (doc! { "collStats": "c", "scale": "1", "$db": "d" }, 14),
        (doc! { "dbStats": 1, "scale": 0, "$db": "d" }, 2),
    ] {
        assert_eq!(
            code(&mut world, conn, command.clone()),
            expected,
            "{command}"
        );
    }
}

#[test]
fn routers_list_their_shard_and_create_sharded_collections() {
    let mut world = World::new(
        DeploymentOptions::sharded(vec![Address::tcp("r0", 27017)]),
        1,
    );
    world.run_for(Duration::from_secs(1));
    let conn = world.connect(0);
    let shards = send(&mut world, conn, doc! { "listShards": 1 });
    assert_eq!(
        shards.get_array("shards").expect("shards").len(),
        1,
        "{shards}"
    );
    assert_eq!(code(&mut world, conn, doc! { "enableSharding": "d" }), 0);
    let elsewhere = doc! { "enableSharding": "d", "primaryShard": "none" };
    assert_eq!(code(&mut world, conn, elsewhere), 70);
    for key in [doc! { "a": "hashed" }, doc! { "a": 1, "b": 1 }] {
        let reply = send(
            &mut world,
            conn,
            doc! { "shardCollection": "d.c", "key": key },
        );
        assert_eq!(
            reply.get_str("collectionsharded").ok(),
            Some("d.c"),
            "{reply}"
        );
    }
    for (key, option, value, expected) in [
        (-1, "unique", Bson::from(false), 2),
        (1, "unique", true.into(), 238),
        (1, "collation", doc! { "locale": "en" }.into(), 2),
        (1, "collation", doc! { "locale": "simple" }.into(), 0),
    ] {
        let mut command = doc! { "shardCollection": "d.c", "key": { "a": key } };
        command.insert(option, value);
        assert_eq!(
            code(&mut world, conn, command.clone()),
            expected,
            "{command}"
        );
    }
    assert_eq!(code(&mut world, conn, doc! { "top": 1 }), 59);
    let listed = send(&mut world, conn, doc! { "listCollections": 1, "$db": "d" });
    let cursor = listed.get_document("cursor").expect("a cursor");
    assert_eq!(
        cursor.get_array("firstBatch").expect("a batch").len(),
        1,
        "{listed}"
    );
}

#[test]
fn the_limits_of_a_capped_collection_are_shown() {
    let (mut world, conn) = standalone();
    let create = doc! { "create": "c", "capped": true, "size": 4096, "max": 5, "$db": "d" };
    send(&mut world, conn, create);
    let stats = send(&mut world, conn, doc! { "collStats": "c", "$db": "d" });
    assert_eq!(stats.get_i64("maxSize").ok(), Some(4096), "{stats}");
    let aggregate = doc! {
        "aggregate": "c", "pipeline": [{ "$collStats": { "storageStats": {} } }], "cursor": {},
        "$db": "d",
    };
    let reply = send(&mut world, conn, aggregate);
    let batch = reply
        .get_document("cursor")
        .and_then(|c| c.get_array("firstBatch"));
    let row = batch.expect("a batch")[0].as_document().expect("a row");
    let storage = row.get_document("storageStats").expect("statistics");
    assert_eq!(storage.get_i64("maxSize").ok(), Some(4096), "{storage}");
    assert_eq!(storage.get_i64("max").ok(), Some(5), "{storage}");
    let list = send(&mut world, conn, doc! { "listCollections": 1, "$db": "d" });
    let batch = list
        .get_document("cursor")
        .and_then(|c| c.get_array("firstBatch"));
    let entry = batch.expect("a batch")[0].as_document().expect("an entry");
    let expected = doc! { "capped": true, "size": 4096, "max": 5 };
    assert_eq!(entry.get_document("options").ok(), Some(&expected));
}

#[test]
fn an_absent_collection_has_no_statistics() {
    let (mut world, conn) = standalone();
    let stats = send(&mut world, conn, doc! { "collStats": "x", "$db": "d" });
    let (size, details) = (stats.get_i32("size"), stats.get_document("indexDetails"));
    assert_eq!((size.ok(), details.ok()), (Some(0), Some(&doc! {})));
    assert!(!stats.contains_key("avgObjSize"), "{stats}");
    let aggregate = |parts: Bson| {
        doc! {
            "aggregate": "x", "pipeline": [{ "$collStats": parts }], "cursor": {}, "$db": "d",
        }
    };
    for (parts, expected) in [
        (bson!({ "storageStats": {} }), 26),
        (bson!({ "count": {} }), 26),
        (bson!({ "queryExecStats": {} }), 26),
        (bson!({ "latencyStats": { "histograms": true } }), 0),
        (bson!({}), 0),
        (bson!(5), 5_447_000),
        (bson!({ "count": 5 }), 14),
        (bson!({ "count": { "x": 1 } }), 31170),
        (bson!({ "queryExecStats": { "x": 1 } }), 31170),
        (bson!({ "storageStats": { "scale": "x" } }), 14),
        (bson!({ "storageStats": { "verbose": "x" } }), 14),
        (bson!({ "storageStats": { "x": 1 } }), 26),
        (bson!({ "latencyStats": { "histograms": "x" } }), 14),
        (bson!({ "latencyStats": { "histograms": 1 } }), 0),
        (bson!({ "latencyStats": { "x": 1 } }), 40415),
        (bson!({ "other": {} }), 40415),
    ] {
        let found = code(&mut world, conn, aggregate(parts.clone()));
        assert_eq!(found, expected, "{parts}");
    }
    let reply = send(&mut world, conn, aggregate(bson!({ "count": {} })));
    let expected = "PlanExecutor error during aggregation :: caused by :: Unable to retrieve count \
                    in $collStats stage :: caused by :: Collection [d.x] not found.";
    assert_eq!(reply.get_str("errmsg").ok(), Some(expected));
}
