//! Tests of tailable cursors.

use super::world::{World, send, standalone};
use crate::deployment::ConnId;
use bson::{Document, doc};
use std::time::Duration;

/// A standalone with a capped collection of at most `max` documents, and a connection to it.
fn capped(max: i32) -> (World, ConnId) {
    let (mut world, conn) = standalone();
    let create = doc! { "create": "log", "capped": true, "size": 100_000, "max": max };
    send(&mut world, conn, create);
    (world, conn)
}

fn insert(world: &mut World, conn: ConnId, ids: std::ops::Range<i32>) {
    let documents: Vec<_> = ids
        .map(|id| doc! { "_id": id, "odd": id % 2 == 1 })
        .collect();
    send(
        world,
        conn,
        doc! { "insert": "log", "documents": documents },
    );
}

/// Returns the id of the cursor and the `_id`s of the batch in a reply.
fn batch(reply: &Document) -> (i64, Vec<i32>) {
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch");
    let batch = batch
        .or_else(|_| cursor.get_array("nextBatch"))
        .expect("a batch");
    let id = |document: &bson::Bson| document.as_document().and_then(|d| d.get_i32("_id").ok());
    let ids = batch.iter().map(|document| id(document).expect("an _id"));
    (cursor.get_i64("id").expect("an id"), ids.collect())
}

fn tail(world: &mut World, conn: ConnId, options: Document) -> i64 {
    let mut find = doc! { "find": "log", "tailable": true };
    find.extend(options);
    batch(&send(world, conn, find)).0
}

fn more(id: i64) -> Document {
    doc! { "getMore": id, "collection": "log" }
}

#[test]
fn new_documents_are_found_once() {
    let (mut world, conn) = capped(10);
    insert(&mut world, conn, 1..2);
    let id = tail(&mut world, conn, doc! {});
    assert_eq!(batch(&send(&mut world, conn, more(id))), (id, vec![]));
    insert(&mut world, conn, 2..4);
    assert_eq!(batch(&send(&mut world, conn, more(id))), (id, vec![2, 3]));
    assert_eq!(batch(&send(&mut world, conn, more(id))), (id, vec![]));
}

#[test]
fn a_tailable_cursor_keeps_its_place_when_old_documents_are_removed() {
    let (mut world, conn) = capped(3);
    insert(&mut world, conn, 1..4);
    let id = tail(&mut world, conn, doc! {});
    for next in 4..20 {
        insert(&mut world, conn, next..next + 1);
        assert_eq!(batch(&send(&mut world, conn, more(id))), (id, vec![next]));
    }
    // More documents than the collection holds: the place of the cursor is gone.
    insert(&mut world, conn, 20..24);
    let reply = send(&mut world, conn, more(id));
    assert_eq!(reply.get_i32("code").ok(), Some(136), "{reply}");
    assert_eq!(reply.get_str("codeName").ok(), Some("CappedPositionLost"));
    let reply = send(&mut world, conn, more(id));
    assert_eq!(reply.get_i32("code").ok(), Some(43), "{reply}");
}

#[test]
fn a_capped_collection_can_become_smaller() {
    let (mut world, conn) = capped(10);
    insert(&mut world, conn, 1..9);
    send(&mut world, conn, doc! { "collMod": "log", "cappedMax": 3 });
    insert(&mut world, conn, 9..10);
    let reply = send(&mut world, conn, doc! { "find": "log" });
    assert_eq!(batch(&reply), (0, vec![7, 8, 9]));
    send(&mut world, conn, doc! { "create": "plain" });
    let refused = send(
        &mut world,
        conn,
        doc! { "collMod": "plain", "cappedMax": 3 },
    );
    assert_eq!(refused.get_i32("code").ok(), Some(72), "{refused}");
}

#[test]
fn an_update_of_the_last_document_keeps_the_place_of_a_tailable_cursor() {
    let (mut world, conn) = capped(10);
    insert(&mut world, conn, 1..2);
    let id = tail(&mut world, conn, doc! {});
    let done = doc! { "q": { "_id": 1 }, "u": { "$set": { "done": true } } };
    send(
        &mut world,
        conn,
        doc! { "update": "log", "updates": [done] },
    );
    insert(&mut world, conn, 2..3);
    assert_eq!(batch(&send(&mut world, conn, more(id))), (id, vec![2]));
}

#[test]
fn a_tailable_cursor_of_a_dropped_collection_fails() {
    let (mut world, conn) = capped(3);
    insert(&mut world, conn, 1..4);
    let id = tail(&mut world, conn, doc! {});
    let waiting = tail(&mut world, conn, doc! { "awaitData": true });
    let other = world.connect(0);
    let mut get_more = more(waiting);
    get_more.extend(doc! { "maxTimeMS": 50_000, "$db": "d" });
    world.send(other, &get_more);
    world.run_for(Duration::from_millis(1));
    send(&mut world, conn, doc! { "drop": "log" });
    world.run_for(Duration::from_millis(1));
    let (_, _, ended) = world.reply(other).expect("a reply");
    assert_eq!(ended.get_i32("code").ok(), Some(175), "{ended}");
    send(
        &mut world,
        conn,
        doc! { "create": "log", "capped": true, "size": 1000 },
    );
    insert(&mut world, conn, 1..4);
    let reply = send(&mut world, conn, more(id));
    assert_eq!(
        reply.get_str("codeName").ok(),
        Some("QueryPlanKilled"),
        "{reply}"
    );
}

#[test]
fn a_get_more_that_awaits_data_waits_for_a_match() {
    let (mut world, conn) = capped(10);
    insert(&mut world, conn, 1..2);
    let options = doc! { "awaitData": true, "filter": { "odd": true } };
    let id = tail(&mut world, conn, options);
    let other = world.connect(0);
    let mut get_more = more(id);
    get_more.extend(doc! { "maxTimeMS": 5000, "$db": "d" });
    world.send(other, &get_more);
    insert(&mut world, conn, 2..3);
    world.run_for(Duration::from_secs(2));
    assert!(world.reply(other).is_none(), "no match");
    insert(&mut world, conn, 3..5);
    world.run_for(Duration::from_millis(1));
    let (_, _, reply) = world.reply(other).expect("a reply");
    assert_eq!(batch(&reply), (id, vec![3]));
    world.send(other, &get_more);
    insert(&mut world, conn, 6..7);
    world.run_for(Duration::from_millis(4900));
    assert!(world.reply(other).is_none(), "the deadline stays the same");
    world.run_for(Duration::from_millis(200));
    let (_, _, reply) = world.reply(other).expect("a reply");
    assert_eq!(batch(&reply), (id, vec![]));
}

#[test]
fn a_tailable_cursor_on_a_collection_without_documents_ends_at_once() {
    let (mut world, conn) = capped(10);
    assert_eq!(tail(&mut world, conn, doc! {}), 0);
}

#[test]
fn a_limit_applies_to_all_documents_of_a_tailable_cursor() {
    let (mut world, conn) = capped(10);
    insert(&mut world, conn, 1..3);
    let id = tail(&mut world, conn, doc! { "limit": 3 });
    insert(&mut world, conn, 3..6);
    assert_eq!(batch(&send(&mut world, conn, more(id))), (id, vec![3]));
    insert(&mut world, conn, 6..8);
    assert_eq!(batch(&send(&mut world, conn, more(id))), (id, vec![]));
}

#[test]
fn a_get_more_that_waits_ends_when_its_cursor_is_killed() {
    let (mut world, conn) = capped(10);
    insert(&mut world, conn, 1..2);
    let id = tail(&mut world, conn, doc! { "awaitData": true });
    let other = world.connect(0);
    let mut get_more = more(id);
    get_more.extend(doc! { "maxTimeMS": 3_600_000, "$db": "d" });
    world.send(other, &get_more);
    assert!(world.reply(other).is_none(), "it waits");
    send(
        &mut world,
        conn,
        doc! { "killCursors": "log", "cursors": [id] },
    );
    let (_, _, reply) = world.reply(other).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(237), "{reply}");
}

#[test]
fn options_that_a_tailable_cursor_excludes_are_refused() {
    let (mut world, conn) = capped(10);
    insert(&mut world, conn, 1..4);
    for (options, code) in [
        (doc! { "tailable": true, "sort": { "n": 1 } }, 2),
        (doc! { "tailable": true, "singleBatch": true }, 2),
        (doc! { "awaitData": true }, 9),
    ] {
        let mut find = doc! { "find": "log" };
        find.extend(options);
        let reply = send(&mut world, conn, find);
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
    }
    let id = batch(&send(
        &mut world,
        conn,
        doc! { "find": "log", "batchSize": 1 },
    ))
    .0;
    let mut get_more = more(id);
    get_more.insert("maxTimeMS", 100);
    let reply = send(&mut world, conn, get_more);
    assert_eq!(reply.get_i32("code").ok(), Some(2), "{reply}");
    let missing = doc! { "find": "missing", "tailable": true };
    assert_eq!(batch(&send(&mut world, conn, missing)), (0, vec![]));
}

#[test]
fn killed_sessions_lose_their_cursors() {
    let (mut world, conn) = capped(10);
    insert(&mut world, conn, 1..4);
    let lsid = |n: u8| {
        let bytes = vec![n; 16];
        let subtype = bson::spec::BinarySubtype::Uuid;
        doc! { "id": bson::Binary { subtype, bytes } }
    };
    let of = |n: u8, mut command: Document| {
        command.insert("lsid", lsid(n));
        command
    };
    let find = doc! { "find": "log", "batchSize": 1 };
    let awaiting = doc! { "find": "log", "tailable": true, "awaitData": true };
    let open = |world: &mut World, command: Document| batch(&send(world, conn, command)).0;
    for (command, is_killed) in [
        (doc! { "endSessions": [lsid(1)] }, false),
        (doc! { "killSessions": [lsid(1)] }, true),
        (doc! { "killSessions": [] }, true),
        (doc! { "killAllSessions": [] }, true),
    ] {
        let others_are_killed = is_killed && !command.to_string().contains("Binary");
        let own = open(&mut world, of(1, find.clone()));
        let other = open(&mut world, of(2, find.clone()));
        let without = open(&mut world, find.clone());
        let waiting = open(&mut world, of(1, awaiting.clone()));
        let waiter = world.connect(0);
        let mut get_more = of(1, more(waiting));
        get_more.insert("$db", "d");
        world.send(waiter, &get_more);
        assert_eq!(world.reply(waiter), None, "it waits");
        send(&mut world, conn, command.clone());
        let code = |world: &mut World, command: Document| {
            send(world, conn, command).get_i32("code").unwrap_or(0)
        };
        let killed = |is_killed: bool| if is_killed { 43 } else { 0 };
        let found = [
            code(&mut world, of(1, more(own))),
            code(&mut world, of(2, more(other))),
            code(&mut world, more(without)),
        ];
        assert_eq!(
            found,
            [killed(is_killed), killed(others_are_killed), 0],
            "{command}"
        );
        let reply = world.reply(waiter);
        let code = reply.and_then(|(.., reply)| reply.get_i32("code").ok());
        assert_eq!(code, is_killed.then_some(11601), "{command}");
    }
}

#[test]
fn the_end_of_a_cursor_names_the_collection_and_its_uuid() {
    for (end, expected) in [
        (doc! { "drop": "c" }, "collection dropped. UUID "),
        (
            doc! { "renameCollection": "d.c", "to": "d.z", "$db": "admin" },
            "collection renamed from 'd.c' to 'd.z'. UUID ",
        ),
    ] {
        let (mut world, conn) = standalone();
        let documents = vec![doc! { "_id": 1 }, doc! { "_id": 2 }];
        send(
            &mut world,
            conn,
            doc! { "insert": "c", "documents": documents },
        );
        let found = send(&mut world, conn, doc! { "find": "c", "batchSize": 1 });
        let (id, _) = batch(&found);
        send(&mut world, conn, end);
        let more = doc! { "getMore": id, "collection": "c" };
        let reply = send(&mut world, conn, more);
        let text = reply.get_str("errmsg").expect("a message");
        let uuid = text.strip_prefix(expected).expect(text);
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
    }
}
