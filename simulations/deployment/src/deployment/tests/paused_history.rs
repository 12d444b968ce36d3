//! Tests of reads of earlier data that are executed in parts.

use super::{
    parts::{DOCUMENTS, begin, expensive, filled_members, filled_set, go_on, run},
    paused_transactions::first,
    world::{World, send},
};
use crate::deployment::ConnId;
use bson::{Document, Timestamp, doc};

/// The least number of pauses of a long read in these tests.
const PAUSES: u32 = 2;

/// A set of one member in which all documents have changed since a cluster time. Returns two
/// connections and the time.
fn changed() -> (World, ConnId, ConnId, Timestamp) {
    let (mut world, conn, other) = filled_members(1);
    let ping = send(&mut world, conn, doc! { "ping": 1 });
    let at = ping.get_timestamp("operationTime").expect("a time");
    let update = doc! { "q": {}, "u": { "$set": { "t": 1 } }, "multi": true };
    let (reply, _) = run(
        &mut world,
        conn,
        other,
        &doc! { "update": "c", "updates": [update] },
    );
    assert_eq!(reply.get_i32("nModified").ok(), Some(DOCUMENTS), "{reply}");
    (world, conn, other, at)
}

fn snapshot(mut command: Document, at: Timestamp) -> Document {
    command.insert(
        "readConcern",
        doc! { "level": "snapshot", "atClusterTime": at },
    );
    command
}

/// Finds a document if it does not have the field that the update has set.
fn unchanged() -> Document {
    doc! { "find": "c", "filter": { "_id": 1400, "t": { "$exists": false } } }
}

/// Returns the number of documents of a first batch.
fn found(reply: &Document) -> Option<usize> {
    let cursor = reply.get_document("cursor").ok()?;
    cursor.get_array("firstBatch").map(Vec::len).ok()
}

/// Returns the number of documents that a pipeline has counted.
fn counted(reply: &Document) -> Option<i32> {
    let cursor = reply.get_document("cursor").ok()?;
    let batch = cursor.get_array("firstBatch").ok()?;
    batch.first()?.as_document()?.get_i32("n").ok()
}

#[test]
fn a_read_of_earlier_data_pauses_while_others_write() {
    let (mut world, conn, other, at) = changed();
    let read = snapshot(unchanged(), at);
    begin(&mut world, conn, &read);
    let mut pauses = 0_i32;
    let reply = loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            break reply;
        }
        assert!(pauses < 100, "the read goes on");
        let insert = doc! { "insert": "c", "documents": [{ "_id": -1 - pauses }] };
        begin(&mut world, other, &insert);
        let (_, _, inserted) = world.reply(other).expect("an answer at once");
        assert_eq!(inserted.get_i32("n").ok(), Some(1), "{inserted}");
        pauses += 1;
        go_on(&mut world);
    };
    assert!(pauses.unsigned_abs() >= PAUSES, "{pauses}");
    assert_eq!(found(&reply), Some(1), "{reply}");
    // The same data is kept for the next read.
    begin(&mut world, conn, &read);
    let (_, _, reply) = world.reply(conn).expect("an answer at once");
    assert_eq!(found(&reply), Some(1), "{reply}");
}

#[test]
fn a_long_query_of_earlier_data_sees_them_in_its_job() {
    let (mut world, conn, other, at) = changed();
    let filter = doc! { "$and": [expensive(), { "t": { "$exists": false } }] };
    let stages = vec![doc! { "$match": filter }, doc! { "$count": "n" }];
    let read = snapshot(
        doc! { "aggregate": "c", "pipeline": stages, "cursor": {} },
        at,
    );
    let (reply, pauses) = run(&mut world, conn, other, &read);
    assert!(pauses > PAUSES, "{pauses}");
    assert_eq!(counted(&reply), Some(DOCUMENTS), "{reply}");
    let cursor = reply.get_document("cursor").expect("a cursor");
    assert_eq!(cursor.get_timestamp("atClusterTime").ok(), Some(at));
}

#[test]
fn a_query_of_what_a_majority_has_runs_once_although_others_write_meanwhile() {
    let (mut world, conn, other) = filled_set();
    while !world.deployment.is_level() || world.deployment.has_parts() {
        go_on(&mut world);
    }
    let stages = vec![doc! { "$match": expensive() }, doc! { "$count": "n" }];
    let read = doc! {
        "aggregate": "c", "pipeline": stages, "cursor": {}, "readConcern": { "level": "majority" },
    };
    begin(&mut world, conn, &read);
    let primary = world.deployment.primary().expect("a primary");
    for member in (0..3).filter(|member| *member != primary) {
        world.deployment.kill(world.now, member);
    }
    let fresh: Vec<Document> = (0..1000).map(|n| doc! { "_id": -1 - n }).collect();
    let insert = doc! { "insert": "c", "documents": fresh, "writeConcern": { "w": 1 } };
    begin(&mut world, other, &insert);
    while world.deployment.has_parts() {
        world.deployment.run_part(world.now);
        world.drain();
    }
    let (_, _, inserted) = world.reply(other).expect("an answer of the primary");
    assert_eq!(inserted.get_i32("n").ok(), Some(1000), "{inserted}");
    assert!(world.reply(conn).is_none(), "the query waits for its job");
    while let Some(job) = world.deployment.poll_job(world.now) {
        world.deployment.handle_job_done(world.now, job.run());
        world.drain();
    }
    let (_, _, reply) = world.reply(conn).expect("an answer after its job");
    assert_eq!(counted(&reply), Some(DOCUMENTS), "{reply}");
}

#[test]
fn a_transaction_at_an_earlier_time_pauses_before_its_start() {
    let (mut world, conn, other, at) = changed();
    let (reply, pauses) = run(
        &mut world,
        conn,
        other,
        &snapshot(first(1, unchanged()), at),
    );
    assert!(pauses >= PAUSES, "{pauses}");
    assert_eq!(found(&reply), Some(1), "{reply}");
}
