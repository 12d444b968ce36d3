//! Tests of indexes that are built by jobs, and of `validate`.

use super::{
    parts::{begin, documents, go_on, run},
    world::{World, of_release, send, set_of, standalone},
};
use crate::{deployment::ConnId, store::Namespace};
use bson::{Document, doc};
use std::time::Duration;

fn create(indexes: &[(&str, Document)]) -> Document {
    let entry = |(name, options): &(&str, Document)| {
        let mut entry = doc! { "name": *name };
        entry.extend(options.clone());
        entry
    };
    let indexes: Vec<Document> = indexes.iter().map(entry).collect();
    doc! { "createIndexes": "c", "indexes": indexes }
}

/// Commands on a collection with documents, and the codes of their errors.
fn commands() -> Vec<(Document, i32)> {
    let key = |field: &str| doc! { "key": { field: 1 } };
    let many = [
        ("a", key("a")),
        ("n", key("n")),
        ("k", doc! { "key": { "k": -1 }, "unique": true }),
        ("s", doc! { "key": { "s": "hashed" } }),
        ("text", doc! { "key": { "s": "text" } }),
        (
            "part",
            doc! { "key": { "n": 1, "k": 1 }, "partialFilterExpression": { "n": 3 } },
        ),
        ("none", doc! { "key": { "none": 1 }, "sparse": true }),
        ("ready", doc! { "key": { "n": -1 }, "prepareUnique": true }),
    ];
    vec![
        (create(&many), 0),
        (create(&many), 0),
        (
            create(&[("a", key("a")), ("s_k", doc! { "key": { "s": 1, "k": 1 } })]),
            0,
        ),
        (
            create(&[
                ("k_n", doc! { "key": { "k": 1, "n": 1 } }),
                ("unique", doc! { "key": { "s": 1 }, "unique": true }),
            ]),
            11000,
        ),
        (create(&[("wrong", doc! { "key": { "k": "wrong" } })]), 67),
        (doc! { "validate": "c" }, 0),
    ]
}

#[test]
fn indexes_built_by_jobs_are_those_that_are_built_at_once() {
    let (mut whole, of_whole) = of_release([8, 0, 4]);
    let (mut world, conn) = of_release([8, 0, 4]);
    world.deployment.run_jobs();
    let other = world.connect(0);
    let insert = doc! { "insert": "c", "documents": documents() };
    send(&mut whole, of_whole, insert.clone());
    run(&mut world, conn, other, &insert);
    for (command, code) in commands() {
        let expected = send(&mut whole, of_whole, command.clone());
        let (reply, pings) = run(&mut world, conn, other, &command);
        assert_eq!(reply, expected, "{command}");
        assert_eq!(reply.get_i32("code").unwrap_or(0), code, "{reply}");
        assert!(pings > 0, "{command} is no job");
        let list = doc! { "listIndexes": "c", "cursor": {} };
        let listed = [
            send(&mut whole, of_whole, list.clone()),
            send(&mut world, conn, list),
        ];
        let batch = |reply: &Document| {
            let cursor = reply.get_document("cursor").expect("a cursor");
            cursor.get_array("firstBatch").expect("indexes").clone()
        };
        assert_eq!(batch(&listed[0]), batch(&listed[1]), "{command}");
        world.deployment.check_members().expect("right indexes");
    }
}

#[test]
fn all_members_get_the_indexes_of_a_job() {
    let mut world = World::new(set_of(3), 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    world.deployment.run_jobs();
    let (conn, other) = (world.connect(primary), world.connect(primary));
    let insert = doc! { "insert": "c", "documents": documents() };
    run(&mut world, conn, other, &insert);
    for (command, code) in commands() {
        let (reply, _) = run(&mut world, conn, other, &command);
        assert_eq!(reply.get_i32("code").unwrap_or(0), code, "{reply}");
    }
    let update = doc! {
        "update": "c", "updates": [{ "q": { "n": 3 }, "u": { "$set": { "s": "y" } } }],
        "writeConcern": { "w": 3 },
    };
    let (reply, _) = run(&mut world, conn, other, &update);
    assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}");
    for _ in 0..1000 {
        go_on(&mut world);
    }
    world.deployment.check_members().expect("equal data");
    for member in 0..3 {
        let store = world.deployment.store(member).expect("a member");
        assert_eq!(store.statistics(&Namespace::new("d", "c")).indexes, 10);
    }
}

/// A standalone with documents, and two connections.
fn filled() -> (World, ConnId, ConnId) {
    let (mut world, conn) = standalone();
    world.deployment.run_jobs();
    let other = world.connect(0);
    let insert = doc! { "insert": "c", "documents": documents() };
    run(&mut world, conn, other, &insert);
    (world, conn, other)
}

#[test]
fn an_index_is_built_again_if_the_documents_change_meanwhile() {
    let (mut world, conn, other) = filled();
    begin(
        &mut world,
        conn,
        &create(&[("a", doc! { "key": { "a": 1 } })]),
    );
    let mut jobs = 0;
    let reply = loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            break reply;
        }
        let job = world.deployment.poll_job(world.now).expect("a build");
        jobs += 1;
        let insert = doc! { "insert": "c", "documents": [{ "_id": -jobs, "a": -jobs }] };
        let inserted = send(&mut world, other, insert);
        assert_eq!(inserted.get_i32("n").ok(), Some(1), "{inserted}");
        world.deployment.handle_job_done(world.now, job.run());
        world.drain();
    };
    assert_eq!(reply.get_i32("numIndexesAfter").ok(), Some(2), "{reply}");
    assert_eq!(jobs, 2, "the last time without a job");
    let find = doc! { "count": "c", "query": { "a": { "$lt": 0 } } };
    let found = send(&mut world, other, find);
    assert_eq!(found.get_i32("n").ok(), Some(2), "{found}");
    world.deployment.check_members().expect("right indexes");
}

#[test]
fn a_build_that_fails_is_repeated_if_the_documents_change_meanwhile() {
    let (mut world, conn, other) = filled();
    let duplicate = doc! { "insert": "c", "documents": [{ "_id": -1, "k": 0 }] };
    send(&mut world, other, duplicate);
    let unique = create(&[("k", doc! { "key": { "k": 1 }, "unique": true })]);
    let (failed, _) = run(&mut world, conn, other, &unique);
    assert_eq!(failed.get_i32("code").ok(), Some(11000), "{failed}");
    begin(&mut world, conn, &unique);
    let job = world.deployment.poll_job(world.now).expect("a build");
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": -1 }, "limit": 1 }] };
    let deleted = send(&mut world, other, delete);
    assert_eq!(deleted.get_i32("n").ok(), Some(1), "{deleted}");
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    let job = world.deployment.poll_job(world.now).expect("another build");
    world.deployment.handle_job_done(world.now, job.run());
    world.drain();
    let (_, _, reply) = world.reply(conn).expect("an answer");
    assert_eq!(reply.get_i32("numIndexesAfter").ok(), Some(2), "{reply}");
    world.deployment.check_members().expect("right indexes");
}

#[test]
fn a_build_whose_time_has_passed_makes_no_index() {
    let (mut world, conn, _) = filled();
    let mut command = create(&[("a", doc! { "key": { "a": 1 } })]);
    command.insert("maxTimeMS", 50);
    begin(&mut world, conn, &command);
    world.run_for(Duration::from_millis(60));
    let (_, _, reply) = world.reply(conn).expect("an answer");
    assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
    go_on(&mut world);
    let store = world.deployment.store(0).expect("a member");
    assert_eq!(store.statistics(&Namespace::new("d", "c")).indexes, 1);
}
