//! Tests of `getMore`s whose search for documents or events is executed in parts.

use super::{
    parts::{DOCUMENTS, begin, documents, expensive, filled_set, go_on, run},
    paused_transactions::{commit, first},
    world::{World, send, standalone},
};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};
use std::time::Duration;

/// The least number of pauses of a long search in these tests.
const PAUSES: u32 = 3;

/// The search of a tailable cursor.
struct Tail {
    world: World,
    conn: ConnId,
    other: ConnId,
    id: i64,
}

/// Returns the id of the cursor and the documents of the batch in a reply.
fn batch(reply: &Document) -> (i64, Vec<Document>) {
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch");
    let batch = batch.or_else(|_| cursor.get_array("nextBatch"));
    let batch = batch.expect("a batch").iter();
    let found = batch.filter_map(Bson::as_document).cloned().collect();
    (cursor.get_i64("id").expect("an id"), found)
}

/// Opens a tailable cursor with an expensive filter, after whose place many documents follow.
fn tail(filter: Document, options: Document) -> Tail {
    let (mut world, conn) = standalone();
    let create = doc! { "create": "c", "capped": true, "size": 10_000_000 };
    send(&mut world, conn, create);
    let insert = doc! { "insert": "c", "documents": [{ "_id": -1, "n": 0 }] };
    send(&mut world, conn, insert);
    world.deployment.run_jobs();
    let other = world.connect(0);
    let filter = doc! { "$and": [expensive(), filter] };
    let mut find = doc! { "find": "c", "filter": filter, "tailable": true };
    find.extend(options);
    let (id, _) = batch(&send(&mut world, conn, find));
    let insert = doc! { "insert": "c", "documents": documents() };
    let (reply, _) = run(&mut world, conn, other, &insert);
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS), "{reply}");
    Tail {
        world,
        conn,
        other,
        id,
    }
}

impl Tail {
    fn get_more(&self) -> Document {
        doc! { "getMore": self.id, "collection": "c" }
    }

    fn run(&mut self) -> (Document, u32) {
        let get_more = self.get_more();
        run(&mut self.world, self.conn, self.other, &get_more)
    }

    /// Sends a `getMore`, which pauses.
    fn pause(&mut self, options: Document) {
        let mut get_more = self.get_more();
        get_more.extend(options);
        begin(&mut self.world, self.conn, &get_more);
        assert!(self.world.reply(self.conn).is_none(), "it has paused");
        assert!(self.world.deployment.has_parts());
    }

    fn reply(&mut self) -> Document {
        for _ in 0..10_000 {
            if let Some((_, _, reply)) = self.world.reply(self.conn) {
                return reply;
            }
            go_on(&mut self.world);
        }
        panic!("the getMore goes on");
    }
}

#[test]
fn the_search_of_a_tailable_cursor_pauses_and_finds_each_document_once() {
    let mut tail = tail(doc! { "k": { "$gte": 1490 } }, doc! {});
    let (reply, pauses) = tail.run();
    assert!(pauses >= PAUSES, "{pauses}");
    let (id, mut found) = batch(&reply);
    for _ in 0..3 {
        assert_eq!(id, tail.id);
        found.extend(batch(&tail.run().0).1);
    }
    let found: Vec<_> = found.iter().filter_map(|d| d.get_i32("_id").ok()).collect();
    assert_eq!(found, (1490..DOCUMENTS).collect::<Vec<_>>());
}

#[test]
fn a_search_without_documents_waits_until_the_first_deadline() {
    let awaits = doc! { "awaitData": true };
    let mut tail = tail(doc! { "s": "none" }, awaits);
    let start = tail.world.now;
    tail.pause(doc! { "maxTimeMS": 500 });
    let reply = tail.reply();
    assert_eq!(batch(&reply), (tail.id, vec![]));
    let waited = tail.world.now.saturating_since(start);
    assert_eq!(waited, Duration::from_millis(500));
}

#[test]
fn a_search_that_takes_longer_than_the_wait_does_not_fail() {
    let awaits = doc! { "awaitData": true };
    let mut tail = tail(doc! { "k": 1499 }, awaits);
    tail.pause(doc! { "maxTimeMS": 50 });
    tail.world.run_for(Duration::from_millis(100));
    let reply = tail.reply();
    assert_eq!(batch(&reply).1.len(), 1, "{reply}");
}

#[test]
fn documents_that_wake_a_get_more_are_searched_in_parts() {
    let awaits = doc! { "awaitData": true };
    let mut tail = tail(doc! { "k": 5000 }, awaits);
    tail.pause(doc! { "maxTimeMS": 5000 });
    while tail.world.deployment.has_parts() {
        go_on(&mut tail.world);
    }
    let later = documents().into_iter().map(|mut document| {
        let k = document.get_i32("k").expect("a number");
        document.insert("_id", 2000 + k);
        if k == DOCUMENTS - 1 {
            document.insert("k", 5000);
        }
        document
    });
    let insert = doc! { "insert": "c", "documents": later.collect::<Vec<_>>() };
    begin(&mut tail.world, tail.other, &insert);
    let mut parts = 0;
    while tail.world.reply(tail.other).is_none() {
        go_on(&mut tail.world);
    }
    let reply = loop {
        if let Some((_, _, reply)) = tail.world.reply(tail.conn) {
            break reply;
        }
        parts += u32::from(tail.world.deployment.has_parts());
        go_on(&mut tail.world);
    };
    assert_eq!(batch(&reply).1.len(), 1, "{reply}");
    assert!(parts > 0, "the search has paused");
}

#[test]
fn a_paused_get_more_ends_with_its_cursor() {
    let mut killed = tail(doc! { "s": "none" }, doc! {});
    killed.pause(doc! {});
    let kill = doc! { "killCursors": "c", "cursors": [killed.id] };
    let reply = send(&mut killed.world, killed.other, kill);
    let closed = reply.get_array("cursorsKilled").map(Vec::len);
    assert_eq!(closed.ok(), Some(1), "{reply}");
    let (_, _, reply) = killed.world.reply(killed.conn).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(237), "{reply}");
    let mut dropped = tail(doc! { "s": "none" }, doc! {});
    dropped.pause(doc! {});
    let other = dropped.other;
    send(&mut dropped.world, other, doc! { "drop": "c" });
    let reply = dropped.reply();
    assert_eq!(reply.get_i32("code").ok(), Some(175), "{reply}");
}

#[test]
fn a_fail_point_counts_a_get_more_in_parts_once() {
    let mut tail = tail(doc! { "k": 1499 }, doc! {});
    let point = doc! {
        "configureFailPoint": "failGetMoreAfterCursorCheckout", "mode": { "skip": 1 },
        "data": { "errorCode": 6 }, "$db": "admin",
    };
    let reply = send(&mut tail.world, tail.other, point);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let (reply, pauses) = tail.run();
    assert!(pauses >= PAUSES, "{pauses}");
    assert_eq!(batch(&reply).1.len(), 1, "{reply}");
    let (reply, _) = tail.run();
    assert_eq!(reply.get_i32("code").ok(), Some(6), "{reply}");
}

#[test]
fn a_client_that_leaves_ends_its_paused_get_more() {
    let mut tail = tail(doc! { "s": "none" }, doc! {});
    tail.pause(doc! {});
    let conn = tail.conn;
    tail.world
        .deployment
        .handle_disconnected(tail.world.now, conn);
    assert_eq!(tail.world.deployment.connections(), 1);
    while tail.world.deployment.has_parts() {
        go_on(&mut tail.world);
    }
}

#[test]
fn a_change_stream_searches_a_large_transaction_in_parts() {
    let (mut world, conn, other) = filled_set();
    let stages = vec![
        doc! { "$changeStream": {} },
        doc! { "$match": { "fullDocument.k": DOCUMENTS - 1 } },
    ];
    let open = doc! { "aggregate": "c", "pipeline": stages, "cursor": {} };
    let (reply, _) = run(&mut world, conn, other, &open);
    let (id, _) = batch(&reply);
    let fresh = documents().into_iter().map(|mut document| {
        document.insert("_id", 2000 + document.get_i32("k").expect("a number"));
        document
    });
    let insert = doc! { "insert": "c", "documents": fresh.collect::<Vec<_>>() };
    for command in [first(1, insert), commit(1)] {
        let (reply, _) = run(&mut world, conn, other, &command);
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    }
    for _ in 0..500 {
        go_on(&mut world);
    }
    let get_more = doc! { "getMore": id, "collection": "c", "maxTimeMS": 5000 };
    begin(&mut world, conn, &get_more);
    let mut parts = 0;
    let reply = loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            break reply;
        }
        parts += u32::from(world.deployment.has_parts());
        go_on(&mut world);
    };
    assert!(parts >= 2, "{parts}");
    assert_eq!(batch(&reply).1.len(), 1, "{reply}");
}
