//! Tests of pipelines with `$out` and `$merge` that are executed in parts.

use super::{
    parts::{begin, documents, expensive, go_on, run},
    world::{World, of_release, send, set_of, standalone},
};
use crate::{
    deployment::ConnId,
    store::{Namespace, Shared, Store},
};
use bson::{Bson, Document, doc};
use std::time::Duration;

/// The least number of pauses of a long command in these tests.
const PAUSES: u32 = 2;

/// Commands that prepare the collections of the pipelines.
fn preparations() -> Vec<Document> {
    let unique = doc! { "key": { "k": 1 }, "name": "k", "unique": true };
    let old = |id: i32| vec![doc! { "_id": id, "old": true }];
    vec![
        doc! { "insert": "c", "documents": documents() },
        doc! { "insert": "unique", "documents": old(-1) },
        doc! { "createIndexes": "unique", "indexes": [unique] },
        doc! { "insert": "copy", "documents": old(-1) },
        doc! { "createIndexes": "copy", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        doc! { "insert": "part", "documents": old(1400) },
    ]
}

/// Pipelines that are executed in parts, and the codes of their errors.
fn pipelines() -> Vec<(Vec<Document>, i32)> {
    let count = doc! { "$add": [{ "$ifNull": ["$m", 0] }, "$$new.n"] };
    let counted = vec![doc! { "$set": { "m": count } }];
    let merge = |options: Document| {
        let mut stage = doc! { "into": "merged" };
        stage.extend(options);
        doc! { "$merge": stage }
    };
    vec![
        (vec![doc! { "$out": "new" }], 0),
        (vec![doc! { "$out": "copy" }], 0),
        (
            vec![doc! { "$match": expensive() }, doc! { "$out": "copy" }],
            0,
        ),
        (
            vec![doc! { "$project": { "_id": 0 } }, doc! { "$out": "ids" }],
            0,
        ),
        (
            vec![
                doc! { "$set": { "k": { "$min": ["$k", 1400] } } },
                doc! { "$out": "unique" },
            ],
            11000,
        ),
        (vec![merge(doc! {})], 0),
        (vec![merge(doc! { "whenMatched": counted })], 0),
        (vec![merge(doc! { "whenMatched": "keepExisting" })], 0),
        (
            vec![merge(doc! { "into": "part", "whenMatched": "fail" })],
            11000,
        ),
    ]
}

/// Returns all collections of a store with their documents, without generated `_id`s, and with the
/// number of their indexes.
fn content(world: &World, member: usize) -> Vec<(Namespace, Vec<Document>, usize)> {
    let store: &Store = world.deployment.store(member).expect("a member");
    let collections = store.collections().map(|(name, collection)| {
        let shown = |document: &Shared| {
            let mut shown = Document::clone(document);
            if shown.get_object_id("_id").is_ok() {
                shown.remove("_id");
            }
            shown
        };
        let found: Vec<Document> = collection.documents().map(shown).collect();
        let indexes = store.list_indexes(&name).map_or(0, |indexes| indexes.len());
        (name, found, indexes)
    });
    collections.collect()
}

fn aggregate(pipeline: Vec<Document>) -> Document {
    doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} }
}

#[test]
fn pipelines_in_parts_have_the_effects_and_replies_of_whole_ones() {
    let (mut whole, of_whole) = of_release([8, 0, 4]);
    let (mut world, conn) = of_release([8, 0, 4]);
    world.deployment.run_jobs();
    let other = world.connect(0);
    for command in preparations() {
        let expected = send(&mut whole, of_whole, command.clone());
        let (reply, _) = run(&mut world, conn, other, &command);
        assert_eq!(reply, expected);
    }
    for (pipeline, code) in pipelines() {
        let command = aggregate(pipeline);
        let expected = send(&mut whole, of_whole, command.clone());
        let (reply, pings) = run(&mut world, conn, other, &command);
        assert_eq!(reply, expected, "{command}");
        assert_eq!(reply.get_i32("code").unwrap_or(0), code, "{reply}");
        assert!(pings >= PAUSES, "{command} paused {pings} times");
        assert_eq!(content(&world, 0), content(&whole, 0), "{command}");
    }
}

#[test]
fn all_members_get_the_result_of_an_out_in_parts() {
    let mut world = World::new(set_of(3), 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(primary), world.connect(primary));
    for command in preparations() {
        run(&mut world, conn, other, &command);
    }
    for (pipeline, code) in pipelines() {
        let (reply, _) = run(&mut world, conn, other, &aggregate(pipeline));
        assert_eq!(reply.get_i32("code").unwrap_or(0), code, "{reply}");
    }
    for _ in 0..1000 {
        go_on(&mut world);
    }
    world.deployment.check_members().expect("equal data");
    let expected = content(&world, primary);
    for member in 0..3 {
        assert_eq!(content(&world, member), expected);
    }
    // The collection can be written like any other one.
    let update = doc! {
        "update": "copy", "updates": [{ "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true }],
        "writeConcern": { "w": 3 },
    };
    let (reply, _) = run(&mut world, conn, other, &update);
    assert_eq!(reply.get_i32("nModified").ok(), reply.get_i32("n").ok());
    world.deployment.check_members().expect("equal data");
}

/// A standalone with the prepared collections, and two connections.
fn prepared() -> (World, ConnId, ConnId) {
    let (mut world, conn) = standalone();
    world.deployment.run_jobs();
    let other = world.connect(0);
    for command in preparations() {
        run(&mut world, conn, other, &command);
    }
    (world, conn, other)
}

/// Runs the parts of a command that has begun. Returns the code of its error.
fn finish(world: &mut World, conn: ConnId) -> i32 {
    for _ in 0..10_000 {
        if let Some((_, _, reply)) = world.reply(conn) {
            return reply.get_i32("code").unwrap_or(0);
        }
        go_on(world);
    }
    panic!("the command goes on");
}

#[test]
fn an_out_fails_if_the_indexes_of_its_target_have_changed_and_changes_nothing() {
    let (mut world, conn, other) = prepared();
    let out = aggregate(vec![doc! { "$out": "copy" }]);
    begin(&mut world, conn, &out);
    let command = doc! { "dropIndexes": "copy", "index": "a" };
    let reply = send(&mut world, other, command);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let before = content(&world, 0);
    assert_eq!(finish(&mut world, conn), 125);
    assert_eq!(content(&world, 0), before);
    begin(&mut world, conn, &out);
    assert_eq!(finish(&mut world, conn), 0);
}

#[test]
fn an_out_whose_time_has_passed_changes_nothing_and_a_merge_keeps_its_documents() {
    let (mut world, conn, _) = prepared();
    let before = content(&world, 0);
    let mut kept = 0;
    for stage in [doc! { "$out": "late" }, doc! { "$merge": "late" }] {
        let mut command = aggregate(vec![stage]);
        command.insert("maxTimeMS", 50);
        begin(&mut world, conn, &command);
        assert!(world.reply(conn).is_none(), "it has paused");
        go_on(&mut world);
        world.run_for(Duration::from_millis(60));
        assert_eq!(finish(&mut world, conn), 50);
        let store = world.deployment.store(0).expect("a member");
        kept = store.statistics(&Namespace::new("d", "late")).count;
        if kept == 0 {
            assert_eq!(content(&world, 0), before);
        }
    }
    assert!(kept > 0 && kept < documents().len() as u64, "{kept}");
}

#[test]
fn others_see_the_old_documents_until_an_out_is_complete() {
    let (mut world, conn, other) = prepared();
    begin(&mut world, conn, &aggregate(vec![doc! { "$out": "copy" }]));
    let mut looks = 0;
    while world.reply(conn).is_none() {
        let count = send(&mut world, other, doc! { "count": "copy" });
        assert_eq!(count.get_i32("n").ok(), Some(1), "{count}");
        looks += 1;
        go_on(&mut world);
    }
    assert!(looks >= PAUSES, "{looks}");
    let count = send(&mut world, other, doc! { "count": "copy" });
    let all = i32::try_from(documents().len()).ok();
    assert_eq!(count.get_i32("n").ok(), all, "{count}");
}

#[test]
fn a_change_stream_shows_an_out_as_the_renaming_of_a_collection() {
    for runs_jobs in [false, true] {
        assert_shown_as_renaming(runs_jobs);
    }
}

fn assert_shown_as_renaming(runs_jobs: bool) {
    let mut world = World::new(set_of(3), 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    if runs_jobs {
        world.deployment.run_jobs();
    }
    let (conn, other) = (world.connect(primary), world.connect(primary));
    for command in preparations() {
        run(&mut world, conn, other, &command);
    }
    let open = doc! { "aggregate": 1, "pipeline": [{ "$changeStream": {} }], "cursor": {} };
    let (opened, _) = run(&mut world, conn, other, &open);
    let id = opened
        .get_document("cursor")
        .and_then(|cursor| cursor.get_i64("id"));
    let more = doc! { "getMore": id.expect("a cursor"), "collection": "$cmd.aggregate" };
    let out = aggregate(vec![doc! { "$out": "copy" }]);
    let (reply, _) = run(&mut world, conn, other, &out);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let (reply, _) = run(&mut world, conn, other, &more);
    let batch = reply
        .get_document("cursor")
        .and_then(|cursor| cursor.get_array("nextBatch"));
    let events = batch.expect("a batch").iter().filter_map(Bson::as_document);
    let events = events.map(|event| {
        let operation = event.get_str("operationType").ok();
        (operation, event.get_document("to").ok())
    });
    let events: Vec<_> = events.collect();
    let target = doc! { "db": "d", "coll": "copy" };
    assert_eq!(events, [(Some("rename"), Some(&target))], "{runs_jobs}");
}
