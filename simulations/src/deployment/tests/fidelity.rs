//! Answers that drivers and applications rely on, as a real server gives them.

use super::world::{World, set_of};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Bson, Document, doc};
use onionskin_core::address::Address;
use std::time::Duration;

/// A standalone and a connection to it.
fn standalone() -> (World, ConnId) {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("m0", 27017)), 1);
    let conn = world.connect(0);
    (world, conn)
}

fn send(world: &mut World, conn: ConnId, mut command: Document) -> Document {
    if !command.contains_key("$db") {
        command.insert("$db", "d");
    }
    world.send_command(conn, &command).expect("a reply")
}

/// Sends a command and returns the code of its error.
fn code(world: &mut World, conn: ConnId, command: Document) -> Option<i32> {
    let reply = send(world, conn, command);
    reply.get_i32("code").ok()
}

fn fill(world: &mut World, conn: ConnId, count: i32) {
    let documents: Vec<_> = (0..count).map(|n| doc! { "_id": n, "n": n }).collect();
    let reply = send(world, conn, doc! { "insert": "c", "documents": documents });
    assert_eq!(reply.get_i32("n").ok(), Some(count), "{reply}");
}

fn batch(reply: &Document) -> &[Bson] {
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor
        .get_array("firstBatch")
        .or_else(|_| cursor.get_array("nextBatch"));
    batch.expect("a batch")
}

fn cursor_id(reply: &Document) -> i64 {
    let cursor = reply.get_document("cursor").expect("a cursor");
    cursor.get_i64("id").expect("an id")
}

#[test]
fn the_variables_of_let_are_expressions() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 5);
    let filter = doc! { "$expr": { "$eq": ["$n", "$$v"] } };
    let variables = doc! { "v": { "$add": [1, 2] } };
    let found = Bson::from(doc! { "_id": 3, "n": 3 });
    let aggregate = doc! {
        "aggregate": "c", "pipeline": [{ "$match": filter.clone() }], "cursor": {},
        "let": variables.clone(),
    };
    let reply = send(&mut world, conn, aggregate);
    assert_eq!(batch(&reply), std::slice::from_ref(&found));
    let find = doc! { "find": "c", "filter": filter.clone(), "let": variables.clone() };
    assert_eq!(batch(&send(&mut world, conn, find)), [found]);
    let update = doc! {
        "update": "c", "let": variables.clone(),
        "updates": [{ "q": filter.clone(), "u": [{ "$set": { "v": "$$v" } }] }],
    };
    assert_eq!(
        send(&mut world, conn, update).get_i32("nModified").ok(),
        Some(1)
    );
    let delete = doc! {
        "delete": "c", "let": variables, "deletes": [{ "q": filter, "limit": 0 }],
    };
    assert_eq!(send(&mut world, conn, delete).get_i32("n").ok(), Some(1));
    for (variables, expected) in [
        (doc! { "v": "$n" }, 4_890_500),
        (doc! { "V": 1 }, 16867),
        (doc! { "v-w": 1 }, 16868),
    ] {
        let find = doc! { "find": "c", "let": variables };
        assert_eq!(code(&mut world, conn, find), Some(expected));
    }
}

#[test]
fn an_update_by_a_pipeline_keeps_the_id_and_an_invalid_stage_fails_the_command() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 2);
    let update =
        |stage: Document| doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": [stage] }] };
    let reply = send(
        &mut world,
        conn,
        update(doc! { "$replaceWith": { "z": 1 } }),
    );
    assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}");
    let find = doc! { "find": "c", "filter": { "_id": 1 } };
    assert_eq!(
        batch(&send(&mut world, conn, find)),
        [doc! { "_id": 1, "z": 1 }.into()]
    );
    assert_eq!(
        code(&mut world, conn, update(doc! { "$no": 1 })),
        Some(40324)
    );
    assert_eq!(
        code(&mut world, conn, update(doc! { "$sort": { "a": 1 } })),
        Some(72)
    );
}

#[test]
fn a_batch_of_the_requested_size_leaves_a_cursor_open_unless_its_end_is_known() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 3);
    send(&mut world, conn, doc! { "create": "empty" });
    let all = doc! { "find": "c", "batchSize": 3 };
    let with = |part: Document| {
        let mut command = all.clone();
        command.extend(part);
        command
    };
    let aggregate = doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": 3 } };
    for (command, is_open) in [
        (all.clone(), true),
        (with(doc! { "limit": 4 }), true),
        (with(doc! { "limit": 3 }), false),
        (with(doc! { "sort": { "n": 1 } }), false),
        (with(doc! { "batchSize": 4 }), false),
        (with(doc! { "singleBatch": true }), false),
        (
            doc! { "find": "c", "filter": { "_id": 1 }, "batchSize": 1 },
            false,
        ),
        (doc! { "find": "none", "batchSize": 0 }, false),
        (doc! { "find": "empty", "batchSize": 0 }, true),
        (aggregate, true),
    ] {
        let reply = send(&mut world, conn, command.clone());
        assert_eq!(cursor_id(&reply) != 0, is_open, "{command}");
    }
    let reply = send(&mut world, conn, all);
    let more = doc! { "getMore": cursor_id(&reply), "collection": "c" };
    let reply = send(&mut world, conn, more);
    assert_eq!((batch(&reply).len(), cursor_id(&reply)), (0, 0));
}

#[test]
fn a_get_more_on_another_collection_is_not_permitted() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 3);
    let reply = send(&mut world, conn, doc! { "find": "c", "batchSize": 1 });
    let more = |collection: &str| doc! { "getMore": cursor_id(&reply), "collection": collection };
    assert_eq!(code(&mut world, conn, more("other")), Some(13));
    assert_eq!(batch(&send(&mut world, conn, more("c"))).len(), 2);
}

#[test]
fn list_databases_has_those_of_the_server() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let reply = send(
        &mut world,
        conn,
        doc! { "listDatabases": 1, "nameOnly": true, "$db": "admin" },
    );
    let names = reply.get_array("databases").expect("a list").iter();
    let names: Vec<_> = names
        .filter_map(|d| d.as_document()?.get_str("name").ok())
        .collect();
    assert_eq!(names, ["admin", "config", "d", "local"]);
}

#[test]
fn each_connection_has_a_number() {
    let (mut world, conn) = standalone();
    let other = world.connect(0);
    let hello = |world: &mut World, conn| {
        let reply = send(world, conn, doc! { "hello": 1, "$db": "admin" });
        reply.get_i32("connectionId").ok()
    };
    assert_eq!(hello(&mut world, conn), Some(1));
    assert_eq!(hello(&mut world, other), Some(2));
    assert_eq!(hello(&mut world, conn), Some(1));
}

#[test]
fn contradictions_of_find_and_modify_are_refused() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    for part in [
        doc! { "remove": true, "update": {} },
        doc! { "remove": true, "new": true },
        doc! { "remove": true, "upsert": true },
        doc! {},
    ] {
        let mut command = doc! { "findAndModify": "c", "query": {} };
        command.extend(part.clone());
        assert_eq!(code(&mut world, conn, command), Some(9), "{part}");
    }
    let count = doc! { "count": "c" };
    assert_eq!(send(&mut world, conn, count).get_i32("n").ok(), Some(1));
}

#[test]
fn inserts_into_a_capped_collection_cost_the_same_however_large_it_is() {
    let (mut world, conn) = standalone();
    let create = doc! { "create": "log", "capped": true, "size": 3_000_000 };
    send(&mut world, conn, create);
    let start = std::time::Instant::now();
    let mut parts = Vec::new();
    for part in 0..5 {
        for block in 0..10 {
            let first = part * 10_000 + block * 1_000;
            let documents: Vec<_> = (first..first + 1_000).map(|n| doc! { "_id": n }).collect();
            send(
                &mut world,
                conn,
                doc! { "insert": "log", "documents": documents },
            );
            world.sent.clear();
        }
        parts.push(start.elapsed());
    }
    // With work that grows with the collection, the last part would cost nine times the first.
    let (first, last) = (parts[0], parts[4] - parts[3]);
    assert!(last < 4 * first + Duration::from_secs(1), "{parts:?}");
}

#[test]
fn an_unknown_fail_point_and_a_batch_without_statements_have_the_codes_of_the_server() {
    let mut world = World::new(set_of(1), 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(primary);
    let point = doc! { "configureFailPoint": "none", "mode": "alwaysOn", "$db": "admin" };
    let reply = send(&mut world, conn, point);
    assert_eq!(reply.get_str("codeName").ok(), Some("FailPointSetFailed"));
    let reply = send(&mut world, conn, doc! { "insert": "c", "documents": [] });
    assert_eq!(reply.get_str("codeName").ok(), Some("InvalidLength"));
    let aggregate = doc! { "aggregate": "c", "pipeline": [{ "$no": 1 }], "cursor": {} };
    let reply = send(&mut world, conn, aggregate);
    assert_eq!(reply.get_str("codeName").ok(), Some("Location40324"));
}
