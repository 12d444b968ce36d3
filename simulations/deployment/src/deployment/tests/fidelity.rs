//! Answers that drivers and applications rely on, as a real server gives them.

use super::world::{World, send, set_of, standalone};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};
use std::time::Duration;

/// Sends a command and returns the code of its error.
pub(super) fn code(world: &mut World, conn: ConnId, command: Document) -> Option<i32> {
    let reply = send(world, conn, command);
    reply.get_i32("code").ok()
}

pub(super) fn fill(world: &mut World, conn: ConnId, count: i32) {
    let documents: Vec<_> = (0..count).map(|n| doc! { "_id": n, "n": n }).collect();
    let reply = send(world, conn, doc! { "insert": "c", "documents": documents });
    assert_eq!(reply.get_i32("n").ok(), Some(count), "{reply}");
}

pub(super) fn batch(reply: &Document) -> &[Bson] {
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor
        .get_array("firstBatch")
        .or_else(|_| cursor.get_array("nextBatch"));
    batch.expect("a batch")
}

pub(super) fn cursor_id(reply: &Document) -> i64 {
    let cursor = reply.get_document("cursor").expect("a cursor");
    cursor.get_i64("id").expect("an id")
}

#[test]
fn the_variables_of_let_are_expressions() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 5);
    let filter = doc! { "$expr": { "$eq": ["$n", "$$v"] } };
    let variables = doc! { "v": { "$add": [1, 2] } };
    let found = Bson::from(doc! { "_id": 3, "n": 3 });
    let aggregate = doc! {
        "aggregate": "c", "pipeline": [{ "$match": filter.clone() }], "cursor": {},
        "let": variables.clone(),
    };
    let reply = send(&mut world, conn, aggregate);
    assert_eq!(batch(&reply), std::slice::from_ref(&found));
    let find = doc! { "find": "c", "filter": filter.clone(), "let": variables.clone() };
    assert_eq!(batch(&send(&mut world, conn, find)), [found]);
    let update = doc! {
        "update": "c", "let": variables.clone(),
        "updates": [{ "q": filter.clone(), "u": [{ "$set": { "v": "$$v" } }] }],
    };
    assert_eq!(
        send(&mut world, conn, update).get_i32("nModified").ok(),
        Some(1)
    );
    let delete = doc! {
        "delete": "c", "let": variables, "deletes": [{ "q": filter, "limit": 0 }],
    };
    assert_eq!(send(&mut world, conn, delete).get_i32("n").ok(), Some(1));
    for (variables, expected) in [
        (doc! { "v": "$n" }, 4_890_500),
        (doc! { "V": 1 }, 16867),
        (doc! { "v-w": 1 }, 16868),
    ] {
        let find = doc! { "find": "c", "let": variables };
        assert_eq!(code(&mut world, conn, find), Some(expected));
    }
}

#[test]
fn an_update_by_a_pipeline_keeps_the_id_and_an_invalid_stage_fails_the_command() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 2);
    let update =
        |stage: Document| doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": [stage] }] };
    let reply = send(
        &mut world,
        conn,
        update(doc! { "$replaceWith": { "z": 1 } }),
    );
    assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}");
    let find = doc! { "find": "c", "filter": { "_id": 1 } };
    assert_eq!(
        batch(&send(&mut world, conn, find)),
        [doc! { "_id": 1, "z": 1 }.into()]
    );
    assert_eq!(
        code(&mut world, conn, update(doc! { "$no": 1 })),
        Some(40324)
    );
    assert_eq!(
        code(&mut world, conn, update(doc! { "$sort": { "a": 1 } })),
        Some(72)
    );
}

#[test]
fn a_batch_of_the_requested_size_leaves_a_cursor_open_unless_its_end_is_known() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 3);
    send(&mut world, conn, doc! { "create": "empty" });
    let all = doc! { "find": "c", "batchSize": 3 };
    let with = |part: Document| {
        let mut command = all.clone();
        command.extend(part);
        command
    };
    let aggregate = doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": 3 } };
    for (command, is_open) in [
        (all.clone(), true),
        (with(doc! { "limit": 4 }), true),
        (with(doc! { "limit": 3 }), false),
        (with(doc! { "sort": { "n": 1 } }), false),
        (with(doc! { "batchSize": 4 }), false),
        (with(doc! { "singleBatch": true }), false),
        (
            doc! { "find": "c", "filter": { "_id": 1 }, "batchSize": 1 },
            false,
        ),
        (doc! { "find": "none", "batchSize": 0 }, false),
        (doc! { "find": "empty", "batchSize": 0 }, true),
        (aggregate, true),
    ] {
        let reply = send(&mut world, conn, command.clone());
        assert_eq!(cursor_id(&reply) != 0, is_open, "{command}");
    }
    let reply = send(&mut world, conn, all);
    let more = doc! { "getMore": cursor_id(&reply), "collection": "c" };
    let reply = send(&mut world, conn, more);
    assert_eq!((batch(&reply).len(), cursor_id(&reply)), (0, 0));
}

#[test]
fn a_get_more_on_another_collection_is_not_permitted() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 3);
    let reply = send(&mut world, conn, doc! { "find": "c", "batchSize": 1 });
    let more = |collection: &str| doc! { "getMore": cursor_id(&reply), "collection": collection };
    assert_eq!(code(&mut world, conn, more("other")), Some(13));
    assert_eq!(batch(&send(&mut world, conn, more("c"))).len(), 2);
}

#[test]
fn list_databases_has_those_of_the_server() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let reply = send(
        &mut world,
        conn,
        doc! { "listDatabases": 1, "nameOnly": true, "$db": "admin" },
    );
    let names = reply.get_array("databases").expect("a list").iter();
    let names: Vec<_> = names
        .filter_map(|d| d.as_document()?.get_str("name").ok())
        .collect();
    assert_eq!(names, ["admin", "config", "d", "local"]);
}

#[test]
fn each_connection_has_a_number() {
    let (mut world, conn) = standalone();
    let other = world.connect(0);
    let hello = |world: &mut World, conn| {
        let reply = send(world, conn, doc! { "hello": 1, "$db": "admin" });
        reply.get_i32("connectionId").ok()
    };
    assert_eq!(hello(&mut world, conn), Some(1));
    assert_eq!(hello(&mut world, other), Some(2));
    assert_eq!(hello(&mut world, conn), Some(1));
}

#[test]
fn contradictions_of_find_and_modify_are_refused() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    for part in [
        doc! { "remove": true, "update": {} },
        doc! { "remove": true, "new": true },
        doc! { "remove": true, "upsert": true },
        doc! {},
    ] {
        let mut command = doc! { "findAndModify": "c", "query": {} };
        command.extend(part.clone());
        assert_eq!(code(&mut world, conn, command), Some(9), "{part}");
    }
    let count = doc! { "count": "c" };
    assert_eq!(send(&mut world, conn, count).get_i32("n").ok(), Some(1));
}

#[test]
fn inserts_into_a_capped_collection_cost_the_same_however_large_it_is() {
    let (mut world, conn) = standalone();
    let create = doc! { "create": "log", "capped": true, "size": 3_000_000 };
    send(&mut world, conn, create);
    let start = std::time::Instant::now();
    let mut parts = Vec::new();
    for part in 0..5 {
        for block in 0..10 {
            let first = part * 10_000 + block * 1_000;
            let documents: Vec<_> = (first..first + 1_000).map(|n| doc! { "_id": n }).collect();
            send(
                &mut world,
                conn,
                doc! { "insert": "log", "documents": documents },
            );
            world.sent.clear();
        }
        parts.push(start.elapsed());
    }
    // With work that grows with the collection, the last part would cost nine times the first.
    let (first, last) = (parts[0], parts[4] - parts[3]);
    assert!(last < 4 * first + Duration::from_secs(1), "{parts:?}");
}

#[test]
fn an_unknown_fail_point_and_a_batch_without_statements_have_the_codes_of_the_server() {
    let mut world = World::new(set_of(1), 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(primary);
    let point = doc! { "configureFailPoint": "none", "mode": "alwaysOn", "$db": "admin" };
    let reply = send(&mut world, conn, point);
    assert_eq!(reply.get_str("codeName").ok(), Some("FailPointSetFailed"));
    let reply = send(&mut world, conn, doc! { "insert": "c", "documents": [] });
    assert_eq!(reply.get_str("codeName").ok(), Some("InvalidLength"));
    let aggregate = doc! { "aggregate": "c", "pipeline": [{ "$no": 1 }], "cursor": {} };
    let reply = send(&mut world, conn, aggregate);
    assert_eq!(reply.get_str("codeName").ok(), Some("Location40324"));
}

#[test]
fn a_hint_orders_and_bounds_a_query() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 6);
    let index = doc! { "createIndexes": "c", "indexes": [{ "key": { "n": -1 }, "name": "n" }] };
    send(&mut world, conn, index);
    let mut ids = |part: Document| {
        let mut find = doc! { "find": "c" };
        find.extend(part);
        let reply = send(&mut world, conn, find);
        let id = |d: &Bson| d.as_document().and_then(|d| d.get_i32("_id").ok());
        batch(&reply).iter().filter_map(id).collect::<Vec<_>>()
    };
    assert_eq!(ids(doc! { "hint": "n", "limit": 2 }), [5, 4]);
    assert_eq!(ids(doc! { "hint": { "n": -1 }, "skip": 4 }), [1, 0]);
    assert_eq!(ids(doc! { "hint": { "$natural": -1 }, "limit": 1 }), [5]);
    assert_eq!(
        ids(doc! { "hint": "n", "sort": { "n": 1 }, "limit": 1 }),
        [0]
    );
    let bounds = doc! { "hint": "n", "min": { "n": 4 }, "max": { "n": 1 } };
    assert_eq!(ids(bounds), [4, 3, 2]);
    let shown = doc! { "find": "c", "hint": "n", "returnKey": true, "limit": 1 };
    assert_eq!(
        batch(&send(&mut world, conn, shown)),
        [doc! { "n": 5 }.into()]
    );
    let shown = doc! {
        "find": "c", "hint": "n", "returnKey": true, "sort": { "_id": 1 }, "limit": 1, "skip": 1,
    };
    assert_eq!(
        batch(&send(&mut world, conn, shown)),
        [doc! { "n": 1 }.into()]
    );
    let shown = doc! {
        "find": "c", "sort": { "_id": 1 }, "returnKey": true, "showRecordId": true, "limit": 1,
    };
    let expected = doc! { "_id": 0 };
    assert_eq!(batch(&send(&mut world, conn, shown)), [expected.into()]);
    let shown = doc! { "find": "c", "filter": { "n": 3 }, "returnKey": true };
    let expected = doc! { "n": 3 };
    assert_eq!(batch(&send(&mut world, conn, shown)), [expected.into()]);
    let shown = doc! { "find": "c", "returnKey": true, "limit": 1 };
    assert_eq!(batch(&send(&mut world, conn, shown)), [doc! {}.into()]);
    let shown = doc! { "find": "c", "filter": { "_id": 0 }, "showRecordId": true };
    let expected = doc! { "_id": 0, "n": 0, "$recordId": 1_i64 };
    assert_eq!(batch(&send(&mut world, conn, shown)), [expected.into()]);
}

#[test]
fn a_hint_orders_a_pipeline_and_a_view() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 4);
    let index = doc! { "createIndexes": "c", "indexes": [{ "key": { "n": -1 }, "name": "n" }] };
    send(&mut world, conn, index);
    let stage = doc! { "$match": { "n": { "$gt": 0 } } };
    send(
        &mut world,
        conn,
        doc! { "create": "v", "viewOn": "c", "pipeline": [stage.clone()] },
    );
    let mut ids = |mut command: Document, hint: Bson| {
        command.insert("hint", hint);
        let reply = send(&mut world, conn, command);
        let id = |d: &Bson| d.as_document().and_then(|d| d.get_i32("_id").ok());
        match reply.get_i32("code") {
            Ok(code) => vec![-code],
            Err(_) => batch(&reply).iter().filter_map(id).collect(),
        }
    };
    let limit = doc! { "$limit": 2 };
    for command in [
        doc! { "aggregate": "c", "pipeline": [stage.clone(), limit.clone()], "cursor": {} },
        doc! { "aggregate": "v", "pipeline": [limit.clone()], "cursor": {} },
        doc! { "find": "v", "limit": 2 },
    ] {
        assert_eq!(ids(command.clone(), "n".into()), [3, 2], "{command}");
        assert_eq!(
            ids(command.clone(), bson::bson!({ "n": -1 })),
            [3, 2],
            "{command}"
        );
        assert_eq!(
            ids(command.clone(), bson::bson!({ "$natural": 1 })),
            [1, 2],
            "{command}"
        );
        assert_eq!(ids(command.clone(), "none".into()), [-2], "{command}");
    }
    let all = doc! { "aggregate": "c", "pipeline": [limit], "cursor": {} };
    assert_eq!(ids(all, bson::bson!({ "$natural": -1 })), [3, 2]);
}

#[test]
fn fields_with_dots_and_dollars_are_set_and_removed() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let set = doc! { "$replaceWith": {
        "$setField": { "field": { "$literal": "$a.b" }, "input": "$$ROOT", "value": 5 },
    } };
    let unset = doc! { "$replaceWith": { "$unsetField": { "field": "n", "input": "$$ROOT" } } };
    let aggregate = doc! { "aggregate": "c", "pipeline": [set, unset], "cursor": {} };
    let expected = doc! { "_id": 0, "$a.b": 5 };
    assert_eq!(batch(&send(&mut world, conn, aggregate)), [expected.into()]);
}

#[test]
fn the_operands_after_the_deciding_one_are_not_evaluated() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 3);
    let divided = doc! { "$gt": [{ "$divide": [4, "$n"] }, 3] };
    let either = doc! { "$or": [{ "$eq": ["$n", 0] }, divided] };
    let find = doc! { "find": "c", "filter": { "$expr": either } };
    assert_eq!(batch(&send(&mut world, conn, find)).len(), 2);
}

#[test]
fn a_hint_on_a_view_and_fields_of_every_command_are_accepted() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 2);
    let create = doc! { "create": "v", "viewOn": "c", "pipeline": [], "comment": "x", "help": 0 };
    for _ in 0..2 {
        let reply = send(&mut world, conn, create.clone());
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    }
    let find = doc! { "find": "v", "hint": "_id_" };
    assert_eq!(batch(&send(&mut world, conn, find)).len(), 2);
    let lists = send(
        &mut world,
        conn,
        doc! { "listCollections": 1, "filter": { "name": "v" } },
    );
    let view = batch(&lists)[0].as_document().expect("a collection");
    let expected = doc! { "viewOn": "c", "pipeline": [] };
    assert_eq!(view.get_document("options").ok(), Some(&expected));
}

#[test]
fn an_index_becomes_unique_after_it_was_prepared() {
    let (mut world, conn) = standalone();
    let documents = [doc! { "_id": 1, "x": 1 }, doc! { "_id": 2, "x": 1 }];
    send(
        &mut world,
        conn,
        doc! { "insert": "c", "documents": documents },
    );
    let index = doc! { "key": { "x": 1 }, "name": "x_1" };
    send(
        &mut world,
        conn,
        doc! { "createIndexes": "c", "indexes": [index] },
    );
    let change = |option: &str| {
        let mut index = doc! { "keyPattern": { "x": 1 } };
        index.insert(option, true);
        doc! { "collMod": "c", "index": index }
    };
    let reply = send(&mut world, conn, change("unique"));
    assert_eq!(
        reply.get_i32("code").ok(),
        Some(72),
        "not prepared: {reply}"
    );
    let reply = send(&mut world, conn, change("prepareUnique"));
    assert_eq!(
        reply.get_bool("prepareUnique_old").ok(),
        Some(false),
        "{reply}"
    );
    assert_eq!(
        reply.get_bool("prepareUnique_new").ok(),
        Some(true),
        "{reply}"
    );
    let insert = doc! { "insert": "c", "documents": [{ "_id": 3, "x": 1 }] };
    let reply = send(&mut world, conn, insert.clone());
    assert!(reply.contains_key("writeErrors"), "{reply}");
    let update = doc! { "q": { "_id": 1 }, "u": { "$set": { "y": 1 } } };
    let reply = send(
        &mut world,
        conn,
        doc! { "update": "c", "updates": [update] },
    );
    assert_eq!(
        reply.get_i32("nModified").ok(),
        Some(1),
        "its key stays: {reply}"
    );
    let reply = send(&mut world, conn, change("unique"));
    assert_eq!(reply.get_i32("code").ok(), Some(359), "{reply}");
    let violations = reply.get_array("violations").expect("violations");
    assert_eq!(violations, &[doc! { "ids": [1, 2] }.into()]);
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] };
    send(&mut world, conn, delete);
    let reply = send(&mut world, conn, change("unique"));
    assert_eq!(reply.get_bool("unique_new").ok(), Some(true), "{reply}");
    let list = send(&mut world, conn, doc! { "listIndexes": "c" });
    let expected = doc! { "v": 2, "key": { "x": 1 }, "name": "x_1", "unique": true };
    assert_eq!(batch(&list)[1], expected.into());
    let reply = send(&mut world, conn, insert);
    assert!(reply.contains_key("writeErrors"), "{reply}");
}

#[test]
fn a_note_tells_that_indexes_exist() {
    let (mut world, conn) = standalone();
    let entry = |field: &str| doc! { "key": { field: 1 }, "name": field };
    for (indexes, note) in [
        (vec![entry("a"), entry("b")], None),
        (vec![entry("a"), entry("d")], Some("index already exists")),
        (
            vec![entry("a"), entry("b")],
            Some("all indexes already exist"),
        ),
    ] {
        let reply = send(
            &mut world,
            conn,
            doc! { "createIndexes": "c", "indexes": indexes },
        );
        assert_eq!(reply.get_str("note").ok(), note, "{reply}");
    }
}
