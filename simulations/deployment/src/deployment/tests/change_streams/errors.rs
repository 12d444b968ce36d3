//! Tests of change streams that are refused or that fail.

use super::super::world::standalone;
use super::*;

fn refused(world: &mut World, conn: ConnId, command: Document) -> i32 {
    let reply = send(world, conn, command);
    assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{reply}");
    code(&reply)
}

#[test]
fn a_standalone_has_no_change_streams() {
    let (mut world, conn) = standalone();
    assert_eq!(refused(&mut world, conn, watch(doc! {}, vec![])), 40573);
}

#[test]
fn options_that_a_release_does_not_know_are_refused() {
    let (mut world, conn) = world_of([5, 0, 0]);
    let cases = [
        (doc! { "showExpandedEvents": true }, 40415),
        (doc! { "fullDocumentBeforeChange": "off" }, 40415),
        (doc! { "fullDocument": "required" }, 2),
        (doc! { "fullDocument": "newest" }, 2),
        (doc! { "fullDocument": 1 }, 14),
        (doc! { "unknown": 1 }, 40415),
        (doc! { "startAtOperationTime": 1 }, 14),
        (doc! { "resumeAfter": {} }, 40647),
        (doc! { "resumeAfter": { "_data": "00" } }, 260),
        (doc! { "allChangesForCluster": true }, 72),
    ];
    for (options, code) in cases {
        let found = refused(&mut world, conn, watch(options.clone(), vec![]));
        assert_eq!(found, code, "{options}");
    }
    let split = vec![doc! { "$changeStreamSplitLargeEvent": {} }];
    assert_eq!(refused(&mut world, conn, watch(doc! {}, split)), 40324);
}

#[test]
fn resume_options_exclude_each_other() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let token = Stream::open(&mut world, conn, watch(doc! {}, vec![])).token;
    let both = doc! { "resumeAfter": token.clone(), "startAfter": token.clone() };
    assert_eq!(refused(&mut world, conn, watch(both, vec![])), 50865);
    let time = bson::Timestamp {
        time: 1,
        increment: 1,
    };
    let both = doc! { "resumeAfter": token, "startAtOperationTime": time };
    assert_eq!(refused(&mut world, conn, watch(both, vec![])), 40674);
}

#[test]
fn stages_that_combine_events_are_refused() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let cases = [
        (doc! { "$group": { "_id": 1 } }, 20),
        (doc! { "$limit": 1 }, 20),
        (doc! { "$unknown": 1 }, 40324),
        (doc! { "$changeStream": {} }, 40602),
        (doc! { "$match": 1 }, 15959),
    ];
    for (stage, code) in cases {
        let found = refused(&mut world, conn, watch(doc! {}, vec![stage.clone()]));
        assert_eq!(found, code, "{stage}");
    }
    let command = doc! {
        "aggregate": "c", "pipeline": [{ "$match": {} }, { "$changeStream": {} }], "cursor": {},
    };
    assert_eq!(refused(&mut world, conn, command), 40602);
}

#[test]
fn views_and_internal_databases_are_refused() {
    let (mut world, conn) = world_of([8, 0, 0]);
    send(
        &mut world,
        conn,
        doc! { "create": "c", "viewOn": "b", "pipeline": [] },
    );
    assert_eq!(refused(&mut world, conn, watch(doc! {}, vec![])), 166);
    let mut command = watch(doc! {}, vec![]);
    command.insert("$db", "admin");
    assert_eq!(refused(&mut world, conn, command), 73);
    let mut command = watch(doc! {}, vec![]);
    command.insert("readConcern", doc! { "level": "local" });
    assert_eq!(refused(&mut world, conn, command), 72);
}

#[test]
fn a_pipeline_that_removes_the_token_is_an_error() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let stages = vec![doc! { "$project": { "_id": 0 } }];
    let stream = Stream::open(&mut world, conn, watch(doc! {}, stages));
    insert(&mut world, conn, 1..2);
    let reply = stream.fails(&mut world, conn);
    assert_eq!(code(&reply), 280, "{reply}");
    assert_eq!(
        reply.get_str("codeName").ok(),
        Some("ChangeStreamFatalError")
    );
    assert_eq!(
        code(&stream.fails(&mut world, conn)),
        43,
        "the cursor was closed"
    );
}

#[test]
fn stages_filter_and_change_events() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let stages = vec![
        doc! { "$match": { "documentKey._id": { "$gte": 2 } } },
        doc! { "$addFields": { "twice": { "$multiply": ["$documentKey._id", 2] } } },
        doc! { "$unset": "fullDocument" },
    ];
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, stages));
    insert(&mut world, conn, 1..4);
    let event = stream.next(&mut world, conn);
    assert_eq!(event.get_i32("twice").ok(), Some(4), "{event}");
    assert!(!event.contains_key("fullDocument"), "{event}");
}

#[test]
fn errors_that_a_stream_survives_have_a_label() {
    for (release, label) in [([4, 2, 0], false), ([8, 0, 0], true)] {
        let (mut world, conn) = world_of(release);
        let points = [
            (
                "failGetMoreAfterCursorCheckout",
                doc! { "errorCode": 6 },
                true,
            ),
            (
                "failGetMoreAfterCursorCheckout",
                doc! { "errorCode": 50 },
                false,
            ),
            // No cursor has raised the errors of `failCommand`.
            (
                "failCommand",
                doc! { "failCommands": ["getMore"], "errorCode": 6 },
                false,
            ),
        ];
        for (name, data, is_resumable) in points {
            let stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
            let expects = label && is_resumable;
            let point = doc! {
                "configureFailPoint": name, "mode": { "times": 1 }, "data": data, "$db": "admin",
            };
            send(&mut world, conn, point);
            let reply = stream.fails(&mut world, conn);
            let labels = reply.get_array("errorLabels").ok();
            let expected = vec!["ResumableChangeStreamError".into()];
            assert_eq!(labels, expects.then_some(&expected), "{reply}");
        }
    }
}

/// Returns an update that makes the event too large: both images together exceed a document.
fn grown(world: &mut World, conn: ConnId) {
    let mut create = doc! { "create": "c" };
    create.insert("changeStreamPreAndPostImages", doc! { "enabled": true });
    send(world, conn, create);
    let large = "x".repeat(10 * 1024 * 1024);
    let documents = vec![doc! { "_id": 1, "large": large }];
    send(world, conn, doc! { "insert": "c", "documents": documents });
}

#[test]
fn a_large_event_is_split_if_the_stream_asks_for_it() {
    let (mut world, conn) = world_of([8, 0, 0]);
    grown(&mut world, conn);
    let options = doc! { "fullDocument": "required", "fullDocumentBeforeChange": "required" };
    let whole = Stream::open(&mut world, conn, watch(options.clone(), vec![]));
    let stages = vec![doc! { "$changeStreamSplitLargeEvent": {} }];
    let mut split = Stream::open(&mut world, conn, watch(options.clone(), stages.clone()));
    update(&mut world, conn, doc! { "$set": { "a": 1 } });
    world.run_for(Duration::from_secs(1));
    let reply = whole.fails(&mut world, conn);
    assert_eq!(code(&reply), 10334);
    let (first, second) = (split.next(&mut world, conn), split.next(&mut world, conn));
    let part = |event: &Document| event.get_document("splitEvent").cloned().expect("a part");
    assert_eq!(part(&first), doc! { "fragment": 1, "of": 2 });
    assert_eq!(part(&second), doc! { "fragment": 2, "of": 2 });
    let count = ["fullDocument", "fullDocumentBeforeChange"]
        .iter()
        .filter(|name| first.contains_key(**name) != second.contains_key(**name))
        .count();
    assert_eq!(count, 2);
    let mut resume = options;
    resume.insert(
        "resumeAfter",
        first.get_document("_id").expect("a token").clone(),
    );
    let reply = send(&mut world, conn, watch(resume.clone(), vec![]));
    assert_eq!(code(&reply), 280, "{reply}");
    let mut again = Stream::open(&mut world, conn, watch(resume, stages));
    assert_eq!(
        part(&again.next(&mut world, conn)),
        doc! { "fragment": 2, "of": 2 }
    );
}
