//! Tests of commands with many statements that each take little time.

use super::{
    parts::{DOCUMENTS, begin, count, filled, filled_set, go_on, numbered, run},
    world::{World, of_release, send},
};
use crate::deployment::ConnId;
use bson::{Document, doc};

/// Runs a command, which must pause at least once. Returns its reply.
#[track_caller]
fn assert_pauses(world: &mut World, conn: ConnId, command: &Document) -> Document {
    assert!(!world.deployment.has_parts(), "nothing else has paused");
    begin(world, conn, command);
    assert!(world.deployment.has_parts(), "it has not paused");
    assert!(world.reply(conn).is_none(), "it is complete");
    for _ in 0..10_000 {
        if let Some((_, _, reply)) = world.reply(conn) {
            return reply;
        }
        go_on(world);
    }
    panic!("the command goes on");
}

fn total() -> usize {
    usize::try_from(DOCUMENTS).expect("a number")
}

#[test]
fn an_insert_of_existing_ids_pauses() {
    let (mut world, conn, other) = filled();
    let documents: Vec<_> = (0..DOCUMENTS).map(|n| doc! { "_id": n }).collect();
    let insert = doc! { "insert": "c", "documents": documents, "ordered": false };
    let reply = assert_pauses(&mut world, conn, &insert);
    assert_eq!(reply.get_i32("n").ok(), Some(0));
    let errors = reply.get_array("writeErrors").expect("errors");
    assert_eq!(errors.len(), total());
    assert_eq!(count(&mut world, other, doc! {}), DOCUMENTS);
}

#[test]
fn deletes_of_absent_ids_pause() {
    let (mut world, conn, other) = filled();
    let delete = |n: i32| doc! { "q": { "_id": -1 - n }, "limit": 1 };
    let deletes: Vec<_> = (0..DOCUMENTS).map(delete).collect();
    let delete = doc! { "delete": "c", "deletes": deletes };
    let reply = assert_pauses(&mut world, conn, &delete);
    assert_eq!(reply.get_i32("n").ok(), Some(0), "{reply}");
    assert_eq!(count(&mut world, other, doc! {}), DOCUMENTS);
}

#[test]
fn a_retry_of_executed_updates_pauses() {
    let (mut world, conn, other) = filled_set();
    let update = |n: i32| doc! { "q": { "_id": n }, "u": { "$inc": { "p": 1 } } };
    let updates: Vec<_> = (0..DOCUMENTS).map(update).collect();
    let update = numbered(doc! { "update": "c", "updates": updates });
    let (reply, _) = run(&mut world, conn, other, &update);
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS));
    // All members apply the updates.
    for _ in 0..1000 {
        go_on(&mut world);
    }
    let reply = assert_pauses(&mut world, conn, &update);
    assert_eq!(reply.get_i32("n").ok(), Some(DOCUMENTS));
    let retried = reply.get_array("retriedStmtIds").expect("the statements");
    assert_eq!(retried.len(), total());
    assert_eq!(count(&mut world, other, doc! { "p": 1 }), DOCUMENTS);
}

#[test]
fn the_errors_of_an_unordered_insert_are_in_ascending_order() {
    for runs_jobs in [false, true] {
        let (mut world, conn) = of_release([4, 4, 29]);
        if runs_jobs {
            world.deployment.run_jobs();
        }
        let first = doc! { "insert": "c", "documents": [{ "_id": 0 }] };
        assert_eq!(send(&mut world, conn, first).get_i32("n").ok(), Some(1));
        let mut documents: Vec<_> = (0..60).map(|n| doc! { "_id": n }).collect();
        documents.push(doc! { "$a": 1 });
        let insert = doc! { "insert": "c", "documents": documents, "ordered": false };
        let reply = send(&mut world, conn, insert);
        assert_eq!(reply.get_i32("n").ok(), Some(59), "{reply}");
        let errors = reply.get_array("writeErrors").expect("errors");
        let fields = errors.iter().filter_map(|error| error.as_document());
        let fields = fields.map(|error| (error.get_i32("index").ok(), error.get_i32("code").ok()));
        let expected = [(Some(0), Some(11000)), (Some(60), Some(2))];
        assert_eq!(fields.collect::<Vec<_>>(), expected, "{reply}");
    }
}
