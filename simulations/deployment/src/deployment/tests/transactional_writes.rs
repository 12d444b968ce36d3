//! Tests of the fail point `onPrimaryTransactionalWrite`.

use super::world::{World, send, with_primary};
use crate::deployment::ConnId;
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

const POINT: &str = "onPrimaryTransactionalWrite";

fn set_point(world: &mut World, conn: ConnId, mode: impl Into<Bson>, data: Document) {
    let command = doc! {
        "configureFailPoint": POINT, "mode": mode.into(), "data": data, "$db": "admin",
    };
    let reply = send(world, conn, command);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

/// Makes a command a retryable write.
fn retryable(mut command: Document, transaction: i64) -> Document {
    let id = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![7; 16],
    };
    command.extend(doc! { "lsid": { "id": id }, "txnNumber": transaction, "$db": "d" });
    command
}

/// Sends a command on a new connection, which must be closed instead of the reply.
fn sent_in_vain(world: &mut World, primary: usize, command: &Document) {
    let conn = world.connect(primary);
    let reply = world.send_command(conn, command);
    assert_eq!(reply, None, "{command}");
    assert!(world.closed.contains(&conn));
}

fn count(world: &mut World, conn: ConnId) -> i32 {
    let reply = send(world, conn, doc! { "count": "c" });
    reply.get_i32("n").expect("a number")
}

#[test]
fn a_retryable_write_is_done_and_its_connection_closed() {
    let (mut world, primary, conn) = with_primary();
    set_point(&mut world, conn, doc! { "times": 1 }, doc! {});
    let documents = [doc! { "_id": 1 }, doc! { "_id": 2 }];
    let insert = doc! { "insert": "c", "documents": documents };
    let reply = send(&mut world, conn, insert.clone());
    assert_eq!(reply.get_i32("n").ok(), Some(2), "not retryable: {reply}");
    send(&mut world, conn, doc! { "drop": "c" });
    let insert = retryable(insert, 1);
    sent_in_vain(&mut world, primary, &insert);
    assert_eq!(count(&mut world, conn), 2);
    let reply = send(&mut world, conn, insert);
    assert_eq!(reply.get_i32("n").ok(), Some(2), "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
}

#[test]
fn a_write_that_fails_before_its_commit_has_no_effect() {
    let (mut world, primary, conn) = with_primary();
    let data = doc! { "failBeforeCommitExceptionCode": 1 };
    set_point(&mut world, conn, "alwaysOn", data);
    let documents = [doc! { "_id": 1 }, doc! { "_id": 2 }];
    let insert = doc! { "insert": "c", "documents": documents };
    sent_in_vain(&mut world, primary, &retryable(insert, 1));
    assert_eq!(count(&mut world, conn), 0);
    let data = doc! { "failBeforeCommitExceptionCode": 11, "closeConnection": false };
    set_point(&mut world, conn, "alwaysOn", data);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    let reply = send(&mut world, conn, retryable(insert.clone(), 2));
    let errors = reply.get_array("writeErrors").expect("an error");
    let error = errors[0].as_document().expect("an error");
    assert_eq!(error.get_i32("code").ok(), Some(11), "{reply}");
    send(&mut world, conn, insert);
    let modify = doc! { "findAndModify": "c", "query": { "_id": 1 }, "remove": true };
    let reply = send(&mut world, conn, retryable(modify, 3));
    assert_eq!(reply.get_i32("code").ok(), Some(11), "{reply}");
    assert_eq!(count(&mut world, conn), 1);
    let nothing = doc! { "delete": "c", "deletes": [{ "q": { "_id": 5 }, "limit": 1 }] };
    let reply = send(&mut world, conn, retryable(nothing, 4));
    assert!(!reply.contains_key("writeErrors"), "no change: {reply}");
}

#[test]
fn each_statement_counts_and_a_batch_that_fails_is_inserted_one_by_one() {
    let (mut world, primary, conn) = with_primary();
    let documents = [doc! { "_id": 1 }, doc! { "_id": 2 }];
    let insert = doc! { "insert": "c", "documents": documents };
    let data = doc! { "failBeforeCommitExceptionCode": 1 };
    set_point(&mut world, conn, doc! { "times": 1 }, data);
    sent_in_vain(&mut world, primary, &retryable(insert, 1));
    assert_eq!(count(&mut world, conn), 2);
    set_point(
        &mut world,
        conn,
        doc! { "skip": 1 },
        doc! { "closeConnection": false },
    );
    let updates = [
        doc! { "q": { "_id": 1 }, "u": { "$set": { "a": 1 } } },
        doc! { "q": { "_id": 2 }, "u": { "$set": { "a": 1 } } },
    ];
    let update = doc! { "update": "c", "updates": updates };
    let reply = send(&mut world, conn, retryable(update, 2));
    assert_eq!(reply.get_i32("nModified").ok(), Some(2), "{reply}");
    let off = doc! { "configureFailPoint": POINT, "mode": "off", "$db": "admin" };
    let reply = send(&mut world, conn, off);
    assert_eq!(reply.get_i64("count").ok(), Some(1), "{reply}");
}

#[test]
fn large_documents_of_an_insert_count_one_by_one() {
    let (mut world, primary, conn) = with_primary();
    let large = "x".repeat(256 * 1024);
    let documents: Vec<Document> = (0..3).map(|id| doc! { "_id": id, "l": &large }).collect();
    let insert = doc! { "insert": "c", "documents": documents };
    let data = doc! { "failBeforeCommitExceptionCode": 1 };
    set_point(&mut world, conn, doc! { "skip": 2 }, data.clone());
    sent_in_vain(&mut world, primary, &retryable(insert.clone(), 1));
    assert_eq!(count(&mut world, conn), 2, "the third one fails");
    send(&mut world, conn, doc! { "drop": "c" });
    set_point(&mut world, conn, doc! { "skip": 3 }, data);
    let reply = send(&mut world, conn, retryable(insert, 2));
    assert_eq!(reply.get_i32("n").ok(), Some(3), "{reply}");
}

#[test]
fn an_insert_that_fails_as_a_whole_does_so_beside_fail_points() {
    let (mut world, _, conn) = with_primary();
    set_point(&mut world, conn, "off", doc! {});
    let create = doc! { "create": "v", "viewOn": "c", "pipeline": [] };
    send(&mut world, conn, create);
    let insert = doc! { "insert": "v", "documents": [{ "_id": 1 }] };
    let reply = send(&mut world, conn, retryable(insert, 1));
    assert_eq!(reply.get_i32("code").ok(), Some(166), "{reply}");
}
