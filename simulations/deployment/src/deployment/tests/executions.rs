//! The context of errors that occur during the execution of a command.

use super::{
    fidelity::fill,
    world::{of_release, send},
};
use bson::{Document, doc};

/// Returns a `find`, a view's `find`, an `aggregate`, a `$merge` and a `findAndModify` that fail on
/// a document.
fn failing() -> [Document; 5] {
    let divided = doc! { "$divide": [1, "$n"] };
    let merge = doc! { "into": "c", "whenMatched": "fail" };
    [
        doc! { "find": "c", "filter": { "$expr": divided.clone() } },
        doc! { "find": "v", "filter": { "$expr": divided.clone() } },
        doc! { "aggregate": "c", "pipeline": [{ "$set": { "x": divided } }], "cursor": {} },
        doc! { "aggregate": "c", "pipeline": [{ "$merge": merge }], "cursor": {} },
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$set": { "n": 0 } } },
    ]
}

/// Returns commands that fail before their execution.
fn malformed() -> [Document; 5] {
    let unknown = doc! { "$expr": { "$nope": 1 } };
    [
        doc! { "find": "c", "filter": unknown.clone() },
        doc! { "find": "c", "hint": "none" },
        doc! { "aggregate": "c", "pipeline": [{ "$match": unknown }], "cursor": {} },
        doc! { "aggregate": "c", "pipeline": [{ "$collStats": 5 }], "cursor": {} },
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$nope": { "n": 0 } } },
    ]
}

#[test]
fn errors_of_the_execution_have_a_context_and_those_of_the_command_have_none() {
    let old = "Executor error during find command :: caused by :: ";
    let new = "Executor error during find command: d.c :: caused by :: ";
    let aggregate = "PlanExecutor error during aggregation :: caused by :: ";
    let modify = "Plan executor error during findAndModify :: caused by :: E11000";
    let newest = "Executor error during aggregate command on namespace: d.c :: caused by :: ";
    let newest_view = "Executor error during aggregate command on namespace: d.v :: caused by :: ";
    for (release, expected) in [
        ([4, 4, 29], [old, aggregate, aggregate, aggregate, modify]),
        ([7, 0, 24], [new, aggregate, aggregate, aggregate, modify]),
        ([8, 2, 0], [new, newest_view, newest, newest, modify]),
    ] {
        let (mut world, conn) = of_release(release);
        fill(&mut world, conn, 2);
        let index = doc! { "key": { "n": 1 }, "name": "n", "unique": true };
        send(
            &mut world,
            conn,
            doc! { "createIndexes": "c", "indexes": [index] },
        );
        let view = doc! { "create": "v", "viewOn": "c", "pipeline": [] };
        send(&mut world, conn, view);
        for (command, expected) in failing().into_iter().zip(expected) {
            let reply = send(&mut world, conn, command.clone());
            let text = reply.get_str("errmsg").unwrap_or_default();
            assert!(text.starts_with(expected), "{release:?} {command}: {reply}");
        }
        for command in malformed() {
            let reply = send(&mut world, conn, command.clone());
            let text = reply.get_str("errmsg").expect("a message");
            assert!(
                !text.to_lowercase().contains("executor"),
                "{release:?} {command}: {reply}"
            );
        }
    }
}

#[test]
fn errors_have_no_context_in_4_2() {
    let (mut world, conn) = of_release([4, 2, 25]);
    fill(&mut world, conn, 2);
    let find = doc! { "find": "c", "filter": { "$expr": { "$divide": [1, "$n"] } } };
    let reply = send(&mut world, conn, find);
    let text = reply.get_str("errmsg").expect("a message");
    assert!(!text.contains("caused by"), "{text}");
}
