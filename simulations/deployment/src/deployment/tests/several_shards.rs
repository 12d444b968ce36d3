//! Routers in front of several shards, outside of transactions. The databases `left` and `right`
//! are on different shards.

use super::world::{World, send};
use crate::deployment::{ConnId, DeploymentOptions, ServerVersion};
use bson::{Bson, Document, doc};
use onionskin_core::address::Address;

fn shards() -> (World, ConnId) {
    let mut options = DeploymentOptions::sharded(vec![Address::tcp("router", 27017)]);
    options.shards = 2;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    (world, conn)
}

fn insert_into(world: &mut World, conn: ConnId, database: &str) -> Document {
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] };
    send_to(world, conn, database, insert)
}

fn send_to(world: &mut World, conn: ConnId, database: &str, mut command: Document) -> Document {
    command.insert("$db", database);
    send(world, conn, command)
}

#[track_caller]
fn refused(reply: &Document, code: i32, words: &str) {
    assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
    let text = reply.get_str("errmsg").expect("a message");
    assert!(text.contains(words), "{text}");
}

#[test]
fn each_database_is_on_one_shard() {
    let (mut world, conn) = shards();
    insert_into(&mut world, conn, "left");
    insert_into(&mut world, conn, "right");
    let databases = |shard: usize| -> Vec<String> {
        let store = world.deployment.store(shard).expect("a shard");
        store.databases().map(str::to_owned).collect()
    };
    assert_eq!(databases(1), ["config", "left"]);
    assert_eq!(databases(2), ["right"]);
    let list = doc! { "listDatabases": 1, "filter": { "name": { "$regex": "t$" } } };
    let listed = send_to(&mut world, conn, "admin", list);
    let names = listed.get_array("databases").expect("databases");
    let name = |database: &Bson| {
        database
            .as_document()?
            .get_str("name")
            .ok()
            .map(str::to_owned)
    };
    let names: Option<Vec<String>> = names.iter().map(name).collect();
    assert_eq!(names.expect("names"), ["left", "right"]);
    assert!(
        listed.get_i64("totalSize").is_ok_and(|size| size > 0),
        "{listed}"
    );
    let shards = send_to(&mut world, conn, "admin", doc! { "listShards": 1 });
    assert_eq!(
        shards.get_array("shards").map(Vec::len).ok(),
        Some(2),
        "{shards}"
    );
    let map = send_to(&mut world, conn, "admin", doc! { "getShardMap": 1 });
    assert_eq!(
        map.get_str("errmsg").ok(),
        Some("no such command: 'getShardMap'")
    );
}

#[test]
fn a_cursor_is_read_and_closed_on_its_shard() {
    let (mut world, conn) = shards();
    for database in ["left", "right"] {
        insert_into(&mut world, conn, database);
        let find = doc! { "find": "c", "batchSize": 1 };
        let found = send_to(&mut world, conn, database, find);
        let id = found.get_document("cursor").and_then(|c| c.get_i64("id"));
        let id = id.expect("an open cursor");
        let more = doc! { "getMore": id, "collection": "c", "batchSize": 1 };
        let more = send_to(&mut world, conn, database, more);
        assert!(more.get_document("cursor").is_ok(), "{more}");
        let kill = doc! { "killCursors": "c", "cursors": [id] };
        let killed = send_to(&mut world, conn, database, kill);
        assert_eq!(
            killed.get_array("cursorsKilled").ok(),
            Some(&vec![id.into()])
        );
    }
}

#[test]
fn what_several_shards_would_have_to_do_is_refused() {
    let (mut world, conn) = shards();
    insert_into(&mut world, conn, "left");
    let whole = doc! {
        "aggregate": 1, "pipeline": [{ "$changeStream": { "allChangesForCluster": true } }],
        "cursor": {},
    };
    let reply = send_to(&mut world, conn, "admin", whole);
    refused(&reply, 238, "a change stream over the whole cluster");
    let current = doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }], "cursor": {} };
    let reply = send_to(&mut world, conn, "admin", current);
    refused(&reply, 40324, "'$currentOp'");
    let out = doc! {
        "aggregate": "c", "pipeline": [{ "$out": { "db": "right", "coll": "c" } }], "cursor": {},
    };
    refused(&send_to(&mut world, conn, "left", out), 238, "'aggregate'");
    let into = doc! { "$merge": { "into": { "db": "right", "coll": "c" } } };
    let merge = doc! { "aggregate": "c", "pipeline": [into], "cursor": {} };
    refused(
        &send_to(&mut world, conn, "left", merge),
        238,
        "'aggregate'",
    );
    let rename = doc! { "renameCollection": "left.c", "to": "right.c" };
    refused(
        &send_to(&mut world, conn, "admin", rename),
        125,
        "must be on same shard",
    );
    let enable = doc! { "enableSharding": "left", "primaryShard": "shard1" };
    refused(
        &send_to(&mut world, conn, "admin", enable),
        48,
        "is different from shard1",
    );
    let own = doc! { "enableSharding": "left", "primaryShard": "shard0" };
    let reply = send_to(&mut world, conn, "admin", own);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let enable = doc! { "enableSharding": "left", "primaryShard": "shard7" };
    refused(&send_to(&mut world, conn, "admin", enable), 70, "shard7");
}

#[test]
fn a_shard_that_does_not_run_costs_only_its_own_commands() {
    let (mut world, conn) = shards();
    insert_into(&mut world, conn, "left");
    insert_into(&mut world, conn, "right");
    world.deployment.kill_shard(world.now, 1);
    world.drain();
    let count = || doc! { "count": "c" };
    let reply = send_to(&mut world, conn, "right", count());
    refused(&reply, 6, "the shard cannot be reached");
    let reply = send_to(&mut world, conn, "left", count());
    assert_eq!(reply.get_i32("n").ok(), Some(3), "{reply}");
    world.deployment.restart_shard(world.now, 1);
    let reply = send_to(&mut world, conn, "right", count());
    assert_eq!(reply.get_i32("n").ok(), Some(3), "{reply}");
    assert!(world.closed.is_empty());
}

#[test]
fn a_write_follows_the_writes_that_its_client_has_seen() {
    let (mut world, conn) = shards();
    let time = |reply: &Document| reply.get_timestamp("operationTime").expect("a time");
    let first = insert_into(&mut world, conn, "left");
    let mut last = time(&first);
    for n in 0..10_i32 {
        let database = ["right", "left"][usize::from(n % 2 == 1)];
        let insert = doc! { "insert": "d", "documents": [{ "_id": n }] };
        let written = send_to(&mut world, conn, database, insert);
        assert!(time(&written) > last, "{written} does not follow {last}");
        last = time(&written);
    }
}

#[test]
fn only_a_deployment_with_routers_has_several_shards() {
    let address = Address::tcp("m", 27017);
    let mut options = DeploymentOptions::standalone(address.clone());
    options.shards = 2;
    let error = options.check().expect_err("a standalone has no shards");
    assert!(error.to_string().contains("routers"), "{error}");
    let mut options = DeploymentOptions::sharded(vec![address]);
    for shards in [0, 101] {
        options.shards = shards;
        let error = options.check().expect_err("too few or too many");
        assert!(error.to_string().contains("between 1 and 100"), "{error}");
    }
}

#[test]
fn a_cluster_time_of_the_far_future_is_refused() {
    let (mut world, conn) = shards();
    let far = bson::Timestamp {
        time: u32::MAX,
        increment: 1,
    };
    let mut find = doc! { "find": "c", "readConcern": { "afterClusterTime": far } };
    find.insert("$clusterTime", doc! { "clusterTime": far });
    let reply = send_to(&mut world, conn, "left", find);
    refused(&reply, 205, "too far from this node's wall clock time");
    let written = insert_into(&mut world, conn, "left");
    let time = written.get_timestamp("operationTime").expect("a time");
    assert!(time.time < 1_800_000_000, "{written}");
}

#[test]
fn the_cursor_of_a_bulk_write_is_read_on_its_shard() {
    let mut options = DeploymentOptions::sharded(vec![Address::tcp("router", 27017)]);
    options.shards = 2;
    options.version = ServerVersion::named("8.0").expect("it is known");
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let insert = |id: i32| doc! { "insert": 0, "document": { "_id": id } };
    let bulk = doc! {
        "bulkWrite": 1, "ops": [insert(1), insert(2), insert(3)], "nsInfo": [{ "ns": "right.c" }],
        "cursor": { "batchSize": 1 },
    };
    let written = send_to(&mut world, conn, "admin", bulk.clone());
    let id = |reply: &Document| reply.get_document("cursor").and_then(|c| c.get_i64("id"));
    let cursor = id(&written).expect("an open cursor");
    assert_ne!(cursor, 0, "{written}");
    let more = doc! { "getMore": cursor, "collection": "$cmd.bulkWrite", "batchSize": 1 };
    let more = send_to(&mut world, conn, "admin", more);
    assert_eq!(id(&more).ok(), Some(cursor), "{more}");
    let kill = doc! { "killCursors": "$cmd.bulkWrite", "cursors": [cursor] };
    let killed = send_to(&mut world, conn, "admin", kill);
    assert_eq!(
        killed.get_array("cursorsKilled").ok(),
        Some(&vec![cursor.into()])
    );
    let mut both = bulk;
    both.insert(
        "nsInfo",
        vec![doc! { "ns": "left.c" }, doc! { "ns": "right.c" }],
    );
    refused(
        &send_to(&mut world, conn, "admin", both),
        238,
        "'bulkWrite'",
    );
}
