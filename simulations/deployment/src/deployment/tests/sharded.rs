//! Tests of routers and the shard behind them.

use super::world::World;
use crate::deployment::{DeploymentOptions, MemberState};
use bson::{Document, doc};
use onionskin_core::{address::Address, unstable::wire::MessageWriter};

fn routers(count: usize) -> World {
    let addresses = (0..count).map(|i| Address::tcp(&format!("router{i}"), 27017));
    World::new(DeploymentOptions::sharded(addresses.collect()), 1)
}

#[test]
fn a_write_through_one_router_is_read_through_the_other() {
    let mut world = routers(2);
    let (one, other) = (world.connect(0), world.connect(1));
    let hello = world.send_command(one, &doc! { "hello": 1, "$db": "admin" });
    let hello = hello.expect("a reply");
    assert_eq!(hello.get_str("msg").ok(), Some("isdbgrid"));
    assert_eq!(hello.get_i32("logicalSessionTimeoutMinutes").ok(), Some(30));
    assert!(!hello.contains_key("setName"), "{hello}");
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "db" };
    let inserted = world.send_command(one, &insert).expect("a reply");
    assert_eq!(inserted.get_i32("n").ok(), Some(1), "{inserted}");
    let found = world.send_command(other, &doc! { "find": "c", "$db": "db" });
    let batch = found.expect("a reply");
    let batch = batch.get_document("cursor").expect("a cursor");
    let batch = batch.get_array("firstBatch").expect("a batch");
    assert_eq!(batch.len(), 1);
    // Each router counts as a member. The shard does not count, because clients cannot connect to
    // it.
    assert_eq!(world.deployment.members(), 2);
    assert_eq!(world.deployment.state(0), Some(MemberState::Router));
    assert_eq!(world.deployment.connections(), 2);
    let shard = world.deployment.primary().expect("the shard");
    assert_eq!(shard, 2);
    assert!(
        world
            .deployment
            .progress(shard)
            .is_some_and(|(commit, _)| commit > 0)
    );
    let now = world.now;
    assert!(
        !world.deployment.step_down(now),
        "there is nobody to take over"
    );
    world.deployment.handle_disconnected(world.now, one);
    world.deployment.handle_disconnected(world.now, other);
    assert_eq!(world.deployment.connections(), 0);
}

#[test]
fn a_cursor_exists_only_on_the_router_that_created_it() {
    let mut world = routers(2);
    let (one, other) = (world.connect(0), world.connect(1));
    let documents: Vec<Document> = (0..5).map(|n| doc! { "_id": n }).collect();
    let insert = doc! { "insert": "c", "documents": documents, "$db": "db" };
    world.send_command(one, &insert).expect("a reply");
    let find = doc! { "find": "c", "batchSize": 2, "$db": "db" };
    let found = world.send_command(one, &find).expect("a reply");
    let cursor = found.get_document("cursor").expect("a cursor");
    let id = cursor.get_i64("id").expect("an id");
    let more = doc! { "getMore": id, "collection": "c", "$db": "db" };
    let refused = world.send_command(other, &more).expect("a reply");
    assert_eq!(refused.get_i32("code").ok(), Some(43), "{refused}");
    let rest = world.send_command(one, &more).expect("a reply");
    let rest = rest.get_document("cursor").expect("a cursor");
    assert_eq!(rest.get_array("nextBatch").map(Vec::len).ok(), Some(3));
    // The cursor is exhausted, so the router has removed it.
    let again = world.send_command(one, &more).expect("a reply");
    assert_eq!(again.get_i32("code").ok(), Some(43), "{again}");
}

#[test]
fn a_fail_point_of_one_router_does_not_affect_the_other() {
    let mut world = routers(2);
    let (one, other) = (world.connect(0), world.connect(1));
    let point = doc! {
        "configureFailPoint": "failCommand", "mode": "alwaysOn", "$db": "admin",
        "data": { "failCommands": ["insert"], "writeConcernError": { "code": 91 } },
    };
    world.send_command(one, &point).expect("a reply");
    let insert = |n: i32| doc! { "insert": "c", "documents": [{ "_id": n }], "$db": "db" };
    let written = world.send_command(one, &insert(1)).expect("a reply");
    let concern = written.get_document("writeConcernError");
    assert_eq!(
        concern.and_then(|c| c.get_i32("code")).ok(),
        Some(91),
        "{written}"
    );
    assert_eq!(
        written.get_i32("n").ok(),
        Some(1),
        "the shard has it nevertheless"
    );
    let written = world.send_command(other, &insert(2)).expect("a reply");
    assert!(!written.contains_key("writeConcernError"), "{written}");
}

#[test]
fn a_router_finds_no_inconsistent_metadata() {
    let mut world = routers(1);
    let conn = world.connect(0);
    let check = doc! { "checkMetadataConsistency": 1, "$db": "db" };
    let reply = world.send_command(conn, &check).expect("a reply");
    let cursor = reply.get_document("cursor").expect("a cursor");
    let expected = doc! { "firstBatch": [], "id": 0_i64, "ns": "db.$cmd.aggregate" };
    assert_eq!(cursor, &expected);
    let (mut world, conn) = super::world::standalone();
    let reply = world.send_command(conn, &check).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(59), "{reply}");
}

#[test]
fn a_router_forwards_a_message_of_the_largest_size() {
    let addresses = vec![Address::tcp("router", 27017)];
    let mut options = DeploymentOptions::sharded(addresses);
    options.limits.max_message_bytes = 16 * 1024;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let documents = (0..1100_i32).map(|id| bson::rawdoc! { "_id": id });
    let sequence: Vec<u8> = documents
        .flat_map(bson::RawDocumentBuf::into_bytes)
        .collect();
    let mut message = Vec::new();
    let body = bson::rawdoc! { "insert": "c", "ordered": false, "$db": "d" };
    MessageWriter::begin(&mut message, 7, 0)
        .body(&body)
        .sequence("documents", &sequence)
        .end();
    assert!(
        (15 * 1024..16 * 1024).contains(&message.len()),
        "{}",
        message.len()
    );
    world.send_bytes(conn, &message);
    let (_, _, reply) = world.reply(conn).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(1100), "{reply}");
}

#[test]
fn a_router_shows_its_shard_in_the_configuration() {
    let mut world = routers(1);
    let conn = world.connect(0);
    let find = doc! { "find": "shards", "$db": "config" };
    let reply = world.send_command(conn, &find).expect("a reply");
    let cursor = reply.get_document("cursor").expect("a cursor");
    let shards = cursor.get_array("firstBatch").expect("a batch");
    let list = doc! { "listShards": 1, "$db": "admin" };
    let reply = world.send_command(conn, &list).expect("a reply");
    assert_eq!(reply.get_array("shards").ok(), Some(shards));
}

#[test]
fn a_staleness_below_the_smallest_one_is_refused() {
    let mut world = routers(1);
    let conn = world.connect(0);
    for (seconds, code) in [(89, Some(160)), (90, None), (-1, None)] {
        let preference = doc! { "mode": "secondary", "maxStalenessSeconds": seconds };
        let find = doc! { "find": "c", "$readPreference": preference, "$db": "d" };
        let reply = world.send_command(conn, &find).expect("a reply");
        assert_eq!(reply.get_i32("code").ok(), code, "{reply}");
    }
}
