//! Statements with a transaction number that was used before, and the ids of statements.

use super::world::{World, of_release, send, set_of};
use crate::deployment::{ConnId, ServerVersion};
use bson::{Binary, Bson, Document, bson, doc, spec::BinarySubtype};
use std::time::Duration;

/// Makes a world of a replica set of one member of a release, and a connection to it.
fn replica_set(release: [u16; 3]) -> (World, ConnId) {
    let mut options = set_of(1);
    options.version = ServerVersion {
        release,
        ..options.version
    };
    let mut world = World::new(options, 1);
    world
        .until_primary(Duration::from_secs(30))
        .expect("a primary");
    let conn = world.connect(0);
    let documents = [doc! { "_id": 1 }, doc! { "_id": 2 }];
    send(
        &mut world,
        conn,
        doc! { "insert": "c", "documents": documents },
    );
    (world, conn)
}

fn binary(subtype: BinarySubtype, length: usize) -> Bson {
    let bytes = vec![7; length];
    Bson::Binary(Binary { subtype, bytes })
}

/// Makes a command a retryable write with this transaction number.
fn numbered(mut command: Document, number: i64) -> Document {
    let id = binary(BinarySubtype::Uuid, 16);
    command.extend(doc! { "lsid": { "id": id }, "txnNumber": number });
    command
}

fn delete(id: i32) -> Document {
    doc! { "delete": "c", "deletes": [{ "q": { "_id": id }, "limit": 1 }] }
}

fn update(id: i32, upsert: bool) -> Document {
    let change = doc! { "$inc": { "n": 1 } };
    doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": change, "upsert": upsert }] }
}

fn modify(options: Document) -> Document {
    let mut command = doc! { "findAndModify": "c", "query": { "_id": 1 } };
    command.extend(options);
    command
}

/// Returns the code of a command that fails as a whole, or `None`.
fn code(world: &mut World, conn: ConnId, command: Document) -> Option<i32> {
    send(world, conn, command).get_i32("code").ok()
}

#[test]
fn an_update_with_the_number_of_a_delete_is_refused_before_7_1() {
    for (release, refused) in [([7, 0, 0], true), ([8, 0, 0], false)] {
        let (mut world, conn) = replica_set(release);
        send(&mut world, conn, numbered(delete(1), 2));
        let reply = send(&mut world, conn, numbered(update(2, false), 2));
        match refused {
            true => assert_eq!(reply.get_i32("code").ok(), Some(40638), "{reply}"),
            false => assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}"),
        }
        let found = send(&mut world, conn, doc! { "count": "c", "query": { "n": 1 } });
        assert_eq!(found.get_i32("n").ok(), Some(0), "not executed: {found}");
    }
}

#[test]
fn a_repeated_update_has_the_reply_of_the_executed_one() {
    let (mut world, conn) = replica_set([7, 0, 0]);
    for (number, command, modified) in [(1, update(1, false), 1), (2, update(9, true), 0)] {
        let first = send(&mut world, conn, numbered(command.clone(), number));
        let again = send(&mut world, conn, numbered(command, number));
        assert_eq!(again.get_i32("n").ok(), Some(1), "{again}");
        assert_eq!(again.get_i32("nModified").ok(), Some(modified), "{again}");
        assert_eq!(again.get("upserted"), first.get("upserted"), "{again}");
        assert_eq!(again.get("retriedStmtIds"), Some(&bson!([0])), "{again}");
    }
    let reply = send(&mut world, conn, numbered(delete(5), 2));
    assert_eq!(reply.get_i32("n").ok(), Some(1), "any statement: {reply}");
}

#[test]
fn a_statement_that_changed_nothing_is_executed_again() {
    let (mut world, conn) = replica_set([7, 0, 0]);
    let reply = send(&mut world, conn, numbered(delete(5), 1));
    assert_eq!(reply.get_i32("n").ok(), Some(0), "{reply}");
    let reply = send(&mut world, conn, numbered(update(1, false), 1));
    assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}");
    assert!(!reply.contains_key("retriedStmtIds"), "{reply}");
}

#[test]
fn a_repeated_find_and_modify_is_of_the_same_kind() {
    let change = doc! { "$inc": { "n": 1 } };
    let updated = modify(doc! { "update": change.clone() });
    let removed = modify(doc! { "remove": true });
    let after = modify(doc! { "update": change.clone(), "new": true });
    let upserted = doc! {
        "findAndModify": "c", "query": { "_id": 9 }, "update": change, "upsert": true,
    };
    let (mut world, conn) = replica_set([7, 0, 0]);
    let mut number = 0;
    for (first, second, expected) in [
        (&updated, &updated, None),
        (&updated, &removed, Some(40610)),
        (&updated, &after, Some(40611)),
        (&after, &updated, Some(40612)),
        (&upserted, &updated, Some(40608)),
        (&update(1, false), &after, Some(40611)),
        (&update(1, false), &removed, Some(40610)),
        (&delete(2), &removed, Some(40607)),
        (&removed, &removed, None),
        (&removed, &updated, None),
    ] {
        number += 1;
        send(&mut world, conn, numbered(first.clone(), number));
        let found = code(&mut world, conn, numbered(second.clone(), number));
        assert_eq!(found, expected, "{number}: {first}, {second}");
    }
}

#[test]
fn a_removal_is_not_repeated_as_an_update() {
    let (mut world, conn) = replica_set([7, 0, 0]);
    let removed = modify(doc! { "remove": true });
    send(&mut world, conn, numbered(removed, 1));
    let updated = modify(doc! { "update": { "$inc": { "n": 1 } } });
    assert_eq!(code(&mut world, conn, numbered(updated, 1)), Some(40606));
}

#[test]
fn repeated_statements_are_named_by_their_ids() {
    let (mut world, conn) = replica_set([7, 0, 0]);
    let documents = [doc! { "_id": 11 }, doc! { "_id": 12 }];
    let insert = doc! { "insert": "c", "documents": documents, "stmtIds": [5, 6] };
    send(&mut world, conn, numbered(insert.clone(), 1));
    let again = send(&mut world, conn, numbered(insert, 1));
    assert_eq!(again.get("retriedStmtIds"), Some(&bson!([5, 6])), "{again}");
    let mut updated = modify(doc! { "update": { "$inc": { "n": 1 } } });
    updated.insert("stmtId", 3);
    send(&mut world, conn, numbered(updated.clone(), 2));
    let again = send(&mut world, conn, numbered(updated, 2));
    assert_eq!(again.get("retriedStmtId"), Some(&bson!(3)), "{again}");
}

#[test]
fn each_statement_has_one_id() {
    let insert = |ids: Bson| doc! { "insert": "c", "documents": [{ "_id": 1 }], "stmtIds": ids };
    let mut both = insert(bson!([5]));
    both.insert("stmtId", 1);
    for (release, shown) in [
        ([4, 4, 29], ""),
        ([7, 0, 0], ". Got 2 statement ids but 1 "),
    ] {
        let (mut world, conn) = of_release(release);
        let reply = send(&mut world, conn, insert(bson!([5, 6])));
        assert_eq!(reply.get_i32("code").ok(), Some(16), "{reply}");
        let start = "Number of statement ids must match the number of batch entries";
        let text = reply.get_str("errmsg").unwrap_or_default();
        assert!(text.starts_with(&format!("{start}{shown}")), "{text}");
        assert_eq!(code(&mut world, conn, both.clone()), Some(72));
        assert_eq!(code(&mut world, conn, insert(bson!([5]))), None);
    }
}

#[test]
fn the_id_of_a_session_is_a_uuid() {
    let (mut world, conn) = of_release([7, 0, 0]);
    for (id, expected, text) in [
        (binary(BinarySubtype::Uuid, 1), Some(207), "16-byte"),
        (binary(BinarySubtype::Generic, 16), Some(14), "'general'"),
        (
            binary(BinarySubtype::UuidOld, 16),
            Some(14),
            "'UUID(deprecated)'",
        ),
        (binary(BinarySubtype::Uuid, 16), None, ""),
    ] {
        let reply = send(&mut world, conn, doc! { "ping": 1, "lsid": { "id": id } });
        assert_eq!(reply.get_i32("code").ok(), expected, "{reply}");
        let message = reply.get_str("errmsg").unwrap_or_default();
        assert!(message.contains(text), "{message}");
    }
}
