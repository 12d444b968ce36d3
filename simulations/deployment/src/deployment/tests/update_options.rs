//! Updates that a server refuses because of their collection or their options.

use super::world::{World, of_release, send, standalone};
use crate::deployment::ConnId;
use bson::{Bson, Document, bson, doc};

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
