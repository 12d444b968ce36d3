//! Commands that older releases refuse.

use super::world::{World, send};
use crate::deployment::{ConnId, DeploymentOptions, ServerVersion};
use bson::{Document, doc};
use onionskin_core::address::Address;

/// Makes a world of a standalone of a release with one document, and a connection to it.
fn standalone(release: [u16; 3]) -> (World, ConnId) {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    options.version = ServerVersion {
        release,
        ..options.version
    };
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "x": 1 }] };
    send(&mut world, conn, insert);
    (world, conn)
}

/// Returns the code and the message of an error, or 0 for success. A write error counts as well.
fn error(world: &mut World, conn: ConnId, command: Document) -> (i32, String) {
    let reply = send(world, conn, command);
    let failed = match reply.get_array("writeErrors") {
        Ok(errors) => errors[0].as_document().expect("an error").clone(),
        Err(_) => reply,
    };
    let text = failed.get_str("errmsg").unwrap_or_default().to_owned();
    (failed.get_i32("code").unwrap_or(0), text)
}

/// Returns commands of all kinds that take a `let` or a `comment`.
fn commands() -> Vec<Document> {
    vec![
        doc! { "find": "c" },
        doc! { "aggregate": "c", "pipeline": [], "cursor": {} },
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "x": 2 } } }] },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 5 }, "limit": 1 }] },
        doc! { "findAndModify": "c", "query": { "_id": 5 }, "remove": true },
    ]
}

#[test]
fn variables_are_unknown_before_5_0() {
    let (mut world, conn) = standalone([4, 4, 29]);
    let expected = [
        (9, "Unrecognized field 'let'."),
        (9, "unrecognized field 'let'"),
        (40415, "BSON field 'update.let' is an unknown field."),
        (40415, "BSON field 'delete.let' is an unknown field."),
        (51177, "BSON field 'let' is an unknown field."),
    ];
    for (mut command, (code, text)) in commands().into_iter().zip(expected) {
        command.insert("let", doc! { "v": 1 });
        let (found, message) = error(&mut world, conn, command);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(text), "{message}");
    }
    let (mut world, conn) = standalone([5, 0, 0]);
    for mut command in commands() {
        command.insert("let", doc! { "v": 1 });
        assert_eq!(error(&mut world, conn, command), (0, String::new()));
    }
}

#[test]
fn only_queries_have_a_comment_before_4_4() {
    let (mut world, conn) = standalone([4, 2, 25]);
    let codes = [0, 0, 40415, 40415, 51177];
    for (mut command, code) in commands().into_iter().zip(codes) {
        command.insert("comment", "text");
        let (found, message) = error(&mut world, conn, command);
        assert_eq!(found, code, "{message}");
    }
    let insert = doc! { "insert": "c", "documents": [{}], "comment": "text" };
    let (code, message) = error(&mut world, conn, insert);
    assert_eq!(code, 40415);
    assert!(message.contains("'insert.comment'"), "{message}");
}

#[test]
fn a_comment_of_a_query_is_a_string_before_4_4() {
    let mut queries = commands();
    queries.truncate(2);
    queries.push(doc! { "count": "c" });
    queries.push(doc! { "distinct": "c", "key": "x" });
    for (release, codes) in [
        ([4, 2, 25], [9, 14, 14, 14]),
        ([4, 4, 13], [0, 0, 14, 14]),
        ([4, 4, 14], [0, 0, 0, 0]),
    ] {
        let (mut world, conn) = standalone(release);
        for (mut query, code) in queries.clone().into_iter().zip(codes) {
            query.insert("comment", doc! { "key": "value" });
            let (found, message) = error(&mut world, conn, query);
            assert_eq!(found, code, "{release:?}: {message}");
        }
    }
}

#[test]
fn fields_with_a_dollar_sign_are_not_stored_before_5_0() {
    let own = doc! { "insert": "c", "documents": [{ "_id": 2, "$a": 1 }] };
    let inner = doc! { "insert": "c", "documents": [{ "_id": 3, "a": { "$b": 1 } }] };
    let update = |u: Document| doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": u }] };
    let replace = update(doc! { "_id": 1, "a": { "$b": 1 } });
    let set = update(doc! { "$set": { "a": [{ "$b": 1 }] } });
    let reference = update(doc! { "a": { "$ref": "c", "$id": 5 }, "b.c": 1 });
    let modify = doc! {
        "findAndModify": "c", "query": { "_id": 1 }, "update": { "_id": 1, "a": { "$b": 1 } },
    };
    let elsewhere = doc! {
        "findAndModify": "c", "query": { "_id": 9 }, "update": { "a": { "$b": 1 } },
    };
    let (mut world, conn) = standalone([4, 4, 29]);
    for (command, code, text) in [
        (own, 2, "Document can't have $ prefixed field names: $a"),
        (inner, 0, ""),
        (
            replace.clone(),
            52,
            "field '$b' in 'a.$b' is not valid for storage.",
        ),
        (
            set.clone(),
            52,
            "field '$b' in 'a.0.$b' is not valid for storage.",
        ),
        (modify, 52, "field '$b' in 'a.$b' is not valid for storage."),
        (elsewhere, 0, ""),
    ] {
        let (found, message) = error(&mut world, conn, command);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(text), "{message}");
    }
    let reply = send(
        &mut world,
        conn,
        doc! { "find": "c", "filter": { "_id": 1 } },
    );
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch").expect("a batch");
    assert_eq!(
        batch,
        &[doc! { "_id": 1, "x": 1 }.into()],
        "nothing changed"
    );
    assert_eq!(error(&mut world, conn, reference).0, 0);
    let (mut world, conn) = standalone([5, 0, 0]);
    for command in [replace, set] {
        assert_eq!(error(&mut world, conn, command), (0, String::new()));
    }
}

#[test]
fn a_nonce_is_returned_before_6_2() {
    let (mut world, conn) = standalone([6, 1, 0]);
    let reply = send(&mut world, conn, doc! { "getnonce": 1 });
    assert_eq!(reply.get_str("nonce").map_or(0, str::len), 16, "{reply}");
    let (mut world, conn) = standalone([6, 2, 0]);
    assert_eq!(error(&mut world, conn, doc! { "getnonce": 1 }).0, 59);
}

#[test]
fn capped_collections_lose_no_documents_by_deletes_before_5_0_7() {
    let delete = doc! { "delete": "f", "deletes": [{ "q": { "_id": 7 }, "limit": 1 }] };
    let remove = doc! { "findAndModify": "f", "query": { "_id": 1 }, "remove": true };
    for (release, expected) in [([4, 4, 29], 20), ([5, 0, 31], 0)] {
        let (mut world, conn) = standalone(release);
        let create = doc! { "create": "f", "capped": true, "size": 4096 };
        send(&mut world, conn, create);
        let insert = doc! { "insert": "f", "documents": [{ "_id": 1 }] };
        send(&mut world, conn, insert);
        for command in [&delete, &remove] {
            let (code, text) = error(&mut world, conn, command.clone());
            assert_eq!(code, expected, "{release:?}: {text}");
        }
        let other = doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] };
        assert_eq!(error(&mut world, conn, other).0, 0);
    }
}
