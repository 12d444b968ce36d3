//! Writes that a server refuses because of their collection, their options or their documents.

use super::world::{World, of_release, send, standalone};
use crate::deployment::{ConnId, DeploymentOptions, ServerVersion};
use bson::{Bson, Document, bson, doc};
use onionskin_core::address::Address;

/// Sends a command that must succeed, and returns its reply.
fn done(world: &mut World, conn: ConnId, command: Document) -> Document {
    let reply = send(world, conn, command.clone());
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
    reply
}

#[test]
fn documents_of_capped_collections_keep_their_size_before_5_3() {
    let update = |change: Document| {
        doc! { "update": "new", "updates": [{ "q": {}, "u": { "$set": change } }] }
    };
    for (release, keeps) in [([5, 0, 31], true), ([6, 0, 0], false)] {
        let (mut world, conn) = of_release(release);
        let capped = doc! { "create": "new", "capped": true, "size": 4096 };
        done(&mut world, conn, capped);
        let insert = doc! { "insert": "new", "documents": [{ "_id": 1, "a": 1 }] };
        done(&mut world, conn, insert);
        let reply = done(&mut world, conn, update(doc! { "a": 2 }));
        assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}");
        let reply = done(&mut world, conn, update(doc! { "b": 1 }));
        let errors = reply.get_array("writeErrors").ok();
        assert_eq!(errors.is_some(), keeps, "{reply}");
        let Some(error) = errors.and_then(|errors| errors[0].as_document()) else {
            continue;
        };
        assert_eq!(error.get_i32("code").ok(), Some(10003), "{error}");
        let text = "Cannot change the size of a document in a capped collection: 21 != 28";
        assert_eq!(error.get_str("errmsg").ok(), Some(text));
    }
}

#[test]
fn constants_are_variables_of_an_update_by_a_pipeline() {
    let (mut world, conn) = standalone();
    let insert = doc! { "insert": "new", "documents": [{ "_id": 1 }] };
    done(&mut world, conn, insert);
    let update = |change: Bson, constants: Document| {
        doc! { "update": "new", "updates": [{ "q": {}, "u": change, "c": constants }] }
    };
    let change = bson!([{ "$set": { "v": "$$a" } }]);
    let given = doc! { "a": "$text" };
    let reply = done(&mut world, conn, update(change, given.clone()));
    assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}");
    let count = doc! { "count": "new", "query": { "v": "$text" } };
    let reply = done(&mut world, conn, count);
    assert_eq!(
        reply.get_i32("n").ok(),
        Some(1),
        "not an expression: {reply}"
    );
    let reply = done(
        &mut world,
        conn,
        update(bson!({ "$set": { "w": 1 } }), given),
    );
    let errors = reply.get_array("writeErrors").expect("an error");
    let error = errors[0].as_document().expect("an error");
    assert_eq!(error.get_i32("code").ok(), Some(51198), "{error}");
}

#[test]
fn a_document_that_is_too_large_is_a_bad_value_with_its_size() {
    let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
    options.version = ServerVersion::named("8.0").expect("a release");
    options.limits.max_document_bytes = 1000;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    // An int32, a string with its length and its end, and the document around them.
    let document = doc! { "_id": 1, "a": "x".repeat(1000) };
    let text = "object to insert too large. size in bytes: 1022, max size: 1000";
    let insert = doc! { "insert": "new", "documents": [document.clone()] };
    let reply = done(&mut world, conn, insert);
    let errors = reply.get_array("writeErrors").expect("an error");
    let error = errors[0].as_document().expect("an error");
    assert_eq!(error.get_i32("code").ok(), Some(2), "{error}");
    assert_eq!(error.get_str("errmsg").ok(), Some(text));
    let bulk = doc! {
        "bulkWrite": 1, "ops": [{ "insert": 0, "document": document }],
        "nsInfo": [{ "ns": "d.new" }], "$db": "admin",
    };
    let reply = done(&mut world, conn, bulk);
    let cursor = reply.get_document("cursor").expect("a cursor");
    let entries = cursor.get_array("firstBatch").expect("a batch");
    let entry = entries[0].as_document().expect("an entry");
    assert_eq!(entry.get_i32("code").ok(), Some(2), "{entry}");
    assert_eq!(entry.get_str("errmsg").ok(), Some(text));
}

#[test]
fn a_document_of_180_levels_is_stored_and_returned() {
    let nested = |levels: usize| (1..levels).fold(doc! { "x": 1 }, |inner, _| doc! { "a": inner });
    let (mut world, conn) = standalone();
    for (levels, expected) in [(180, None), (181, Some(15))] {
        let insert = doc! { "insert": "new", "documents": [nested(levels)] };
        let reply = done(&mut world, conn, insert);
        let errors = reply.get_array("writeErrors").ok();
        let error = errors.and_then(|errors| errors[0].as_document());
        let code = error.and_then(|error| error.get_i32("code").ok());
        assert_eq!(code, expected, "{levels}");
    }
    let reply = done(&mut world, conn, doc! { "find": "new" });
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch").expect("a batch");
    let mut found = batch[0].as_document().expect("a document").clone();
    found.remove("_id");
    assert_eq!(found, nested(180));
}
