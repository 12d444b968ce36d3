//! Tests of commands that fail after a part of their effect: each member has the same data
//! afterwards, and no later write is lost.

use super::world::{World, with_primary};
use crate::deployment::{ConnId, Deployment};
use bson::{Document, doc};
use std::time::Duration;

/// Sends a command that must succeed.
fn done(world: &mut World, conn: ConnId, command: &Document) -> Document {
    let reply = world.send_command(conn, command).expect("a reply");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
    reply
}

fn count(world: &mut World, member: usize, collection: &str) -> i32 {
    let conn = world.connect(member);
    let command = doc! {
        "count": collection, "$readPreference": { "mode": "nearest" }, "$db": "d",
    };
    done(world, conn, &command).get_i32("n").expect("a number")
}

/// Waits until all members have the oplog of the primary, and compares them.
fn compare(world: &mut World) {
    let level = |d: &Deployment| {
        let progress = d.progress(0);
        progress.is_some_and(|(commit, last)| commit == last)
            && (1..d.members()).all(|member| d.progress(member) == progress)
    };
    // A primary writes an entry of its own from time to time.
    for _ in 0..100 {
        world.run_for(Duration::from_millis(100));
        if level(&world.deployment) {
            let checked = world.deployment.check_members();
            return checked.expect("the members have the same data");
        }
    }
    panic!("the members did not catch up: {:?}", world.events);
}

#[test]
fn a_failed_merge_into_a_new_collection_loses_no_later_insert() {
    let (mut world, primary, conn) = with_primary();
    let source = doc! { "insert": "source", "documents": [{ "_id": 1 }], "$db": "d" };
    done(&mut world, conn, &source);
    let merge = doc! {
        "aggregate": "source", "cursor": {}, "$db": "d",
        "pipeline": [{ "$merge": { "into": "new", "whenNotMatched": "fail" } }],
    };
    let reply = world.send_command(conn, &merge).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(13113), "{reply}");
    for id in 0..101 {
        let w = match id {
            100 => bson::Bson::from("majority"),
            _ => 3.into(),
        };
        let insert = doc! {
            "insert": "new", "documents": [{ "_id": id }], "writeConcern": { "w": w }, "$db": "d",
        };
        done(&mut world, conn, &insert);
    }
    compare(&mut world);
    assert!(world.deployment.step_down(world.now));
    world.run_for(Duration::from_secs(30));
    let (next, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    assert_ne!(next, primary);
    assert_eq!(count(&mut world, next, "new"), 101);
}

#[test]
fn a_multi_update_that_fails_midway_is_the_same_on_all_members() {
    let (mut world, _, conn) = with_primary();
    let documents = [doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": "x" }];
    let insert = doc! { "insert": "c", "documents": documents, "$db": "d" };
    done(&mut world, conn, &insert);
    let update = doc! {
        "update": "c", "$db": "d",
        "updates": [{ "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true }],
    };
    let reply = world.send_command(conn, &update).expect("a reply");
    let errors = reply.get_array("writeErrors").expect("it fails");
    assert_eq!(
        errors[0].as_document().and_then(|e| e.get_i32("code").ok()),
        Some(14)
    );
    let find = doc! { "find": "c", "filter": { "_id": 1 }, "$db": "d" };
    let reply = done(&mut world, conn, &find);
    let batch = reply
        .get_document("cursor")
        .and_then(|c| c.get_array("firstBatch"));
    assert_eq!(batch.expect("a batch")[0], doc! { "_id": 1, "n": 2 }.into());
    compare(&mut world);
}

#[test]
fn a_find_and_modify_whose_projection_fails_changes_nothing() {
    let (mut world, _, conn) = with_primary();
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "n": 0 }], "$db": "d" };
    done(&mut world, conn, &insert);
    let projection = doc! { "q": { "$divide": [1, "$n"] } };
    let modifications = [
        doc! { "update": { "$set": { "m": 1 } } },
        doc! {
            "update": { "$set": { "m": 1 } }, "upsert": true, "new": true,
            "query": { "_id": 2, "n": 0 },
        },
        doc! { "remove": true },
    ];
    for modification in modifications {
        let mut command = doc! { "findAndModify": "c", "query": { "_id": 1 } };
        command.extend(modification);
        command.extend(doc! { "fields": projection.clone(), "$db": "d" });
        let reply = world.send_command(conn, &command).expect("a reply");
        assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{reply}");
        compare(&mut world);
        let find = doc! { "find": "c", "$db": "d" };
        let reply = done(&mut world, conn, &find);
        let batch = reply
            .get_document("cursor")
            .and_then(|c| c.get_array("firstBatch"));
        assert_eq!(
            batch.expect("a batch"),
            &vec![doc! { "_id": 1, "n": 0 }.into()],
            "{command}"
        );
    }
}
