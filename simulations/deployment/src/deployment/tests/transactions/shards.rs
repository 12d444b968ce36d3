//! Transactions on two shards, whose databases are `left` and `right`.

mod times;

use super::{
    super::world::{World, send},
    Client, TRANSIENT, client, fail, insert, lsid, set, succeed,
};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Document, doc};
use onionskin_core::{
    address::Address,
    time::Instant,
    unstable::wire::{Flags, MessageWriter},
};
use std::time::Duration;

/// Makes a world of two routers and two shards, whose messages to each other take between 5 and 20
/// ms. Returns a connection to each router.
fn shards() -> (World, ConnId, ConnId) {
    let addresses = (0..2).map(|i| Address::tcp(&format!("router{i}"), 27017));
    let mut options = DeploymentOptions::sharded(addresses.collect());
    options.shards = 2;
    options.network.min_latency = Duration::from_millis(5);
    options.network.max_latency = Duration::from_millis(20);
    let mut world = World::new(options, 1);
    let (one, other) = (world.connect(0), world.connect(1));
    (world, one, other)
}

fn to(database: &str, mut command: Document) -> Document {
    command.insert("$db", database);
    command
}

fn one_document() -> Document {
    insert(&[doc! { "_id": 1 }])
}

/// Returns the number of documents that both databases have.
fn counts(world: &mut World, conn: ConnId) -> (i32, i32) {
    let mut count = |database| {
        let reply = send(world, conn, to(database, doc! { "count": "c" }));
        reply.get_i32("n").expect("a number")
    };
    (count("left"), count("right"))
}

/// Starts a transaction that inserts a document on each shard.
fn write_both(world: &mut World, client: Client) {
    succeed(&client.start(world, to("left", one_document())));
    succeed(&client.go_on(world, to("right", one_document())));
}

fn coordinated(world: &World) -> usize {
    let name = crate::store::Namespace::new("config", "transaction_coordinators");
    let stores = [2, 3].map(|shard| world.deployment.store(shard).expect("a shard"));
    let collections = stores.iter().filter_map(|store| store.collection(&name));
    collections
        .map(|collection| collection.documents().count())
        .sum()
}

fn go_to(world: &mut World, at: Instant) {
    world.run_for(at.saturating_since(world.now));
}

#[test]
fn a_transaction_on_two_shards_commits_on_both() {
    let (mut world, conn, other) = shards();
    let one = client(conn, 1);
    let reply = one.start(&mut world, to("left", one_document()));
    let token = doc! { "recoveryShardId": "shard0" };
    assert_eq!(reply.get_document("recoveryToken").ok(), Some(&token));
    let reply = one.go_on(&mut world, to("right", one_document()));
    assert_eq!(reply.get_document("recoveryToken").ok(), Some(&token));
    assert_eq!(counts(&mut world, other), (0, 0));
    succeed(&one.commit(&mut world));
    assert_eq!(counts(&mut world, other), (1, 1));
    assert_eq!(
        coordinated(&world),
        0,
        "the coordinator has forgotten the commit"
    );
    succeed(&one.commit(&mut world));
    fail(&one.abort(&mut world), 256, &[]);
    let two = client(conn, 2);
    let reply = two.start(&mut world, to("right", set(1, "a", 1)));
    let token = doc! { "recoveryShardId": "shard1" };
    assert_eq!(reply.get_document("recoveryToken").ok(), Some(&token));
    succeed(&two.abort(&mut world));
}

#[test]
fn a_transaction_that_aborts_leaves_nothing_on_either_shard() {
    let (mut world, conn, other) = shards();
    let one = client(conn, 1);
    write_both(&mut world, one);
    succeed(&one.abort(&mut world));
    assert_eq!(counts(&mut world, other), (0, 0));
    fail(&one.commit(&mut world), 251, TRANSIENT);
}

#[test]
fn a_statement_that_fails_on_one_shard_aborts_the_others() {
    let (mut world, conn, other) = shards();
    succeed(&send(&mut world, other, to("right", one_document())));
    let one = client(conn, 1);
    succeed(&one.start(&mut world, to("left", one_document())));
    let failed = one.go_on(&mut world, to("right", one_document()));
    assert!(failed.contains_key("writeErrors"), "{failed}");
    succeed(&send(&mut world, other, to("left", one_document())));
    fail(&one.commit(&mut world), 251, TRANSIENT);
}

#[test]
fn a_shard_that_has_lost_its_part_makes_the_others_abort() {
    let (mut world, conn, other) = shards();
    let one = client(conn, 1);
    write_both(&mut world, one);
    world.deployment.kill_shard(world.now, 1);
    world.deployment.restart_shard(world.now, 1);
    world.drain();
    fail(&one.commit(&mut world), 251, TRANSIENT);
    assert_eq!(counts(&mut world, other), (0, 0));
    assert_eq!(coordinated(&world), 0);
}

/// An event that strikes a shard during a commit.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Crash(u64),
    StepDown,
}

/// Commits a transaction on two shards, and lets something happen to one of them at a time. Sends
/// the commit again until its outcome is known, as a client does. Returns true if it has committed.
fn commit_despite(trouble: Trouble, shard: usize, at: u64) -> bool {
    let (mut world, conn, other) = shards();
    let one = client(conn, 1);
    write_both(&mut world, one);
    let start = world.now;
    let commit = one.part(doc! { "commitTransaction": 1, "$db": "admin" });
    world.send(conn, &commit);
    go_to(&mut world, start + Duration::from_millis(at));
    match trouble {
        Trouble::Crash(millis) => {
            world.deployment.kill_shard(world.now, shard);
            world.drain();
            world.run_for(Duration::from_millis(millis));
            world.deployment.restart_shard(world.now, shard);
        }
        Trouble::StepDown => assert!(world.deployment.step_down_shard(world.now, shard)),
    }
    world.drain();
    world.run_for(Duration::from_secs(5));
    let (_, _, mut reply) = world.reply(conn).expect("a reply");
    if reply.get_i32("code").ok() == Some(6) {
        let labels = reply.get_array("errorLabels").expect("labels");
        assert!(labels.contains(&"RetryableWriteError".into()), "{reply}");
        reply = one.commit(&mut world);
    }
    let committed = reply.get_f64("ok").ok() == Some(1.0);
    if !committed {
        fail(&reply, 251, TRANSIENT);
    }
    let documents = i32::from(committed);
    assert_eq!(counts(&mut world, other), (documents, documents), "{reply}");
    assert_eq!(coordinated(&world), 0);
    // Nothing stays locked: the next transaction can write the same documents.
    let next = one.numbered(2);
    succeed(&next.start(&mut world, to("left", set(1, "a", 1))));
    succeed(&next.go_on(&mut world, to("right", set(1, "a", 1))));
    succeed(&next.commit(&mut world));
    committed
}

#[test]
fn a_commit_has_one_outcome_whatever_happens_to_a_shard_in_the_middle() {
    for trouble in [
        Trouble::Crash(0),
        Trouble::Crash(30),
        Trouble::Crash(3000),
        Trouble::StepDown,
    ] {
        for shard in 0..2 {
            let outcomes: Vec<bool> = (0..90)
                .step_by(3)
                .map(|at| commit_despite(trouble, shard, at))
                .collect();
            assert!(outcomes.contains(&true), "{trouble:?} of shard {shard}");
        }
    }
    assert!(
        !commit_despite(Trouble::Crash(0), 1, 0),
        "shard 1 was not asked yet"
    );
}

#[test]
fn a_prepared_transaction_outlives_step_downs_and_commands_against_it() {
    let (mut world, conn, other) = shards();
    let one = client(conn, 1);
    write_both(&mut world, one);
    let commit = one.part(doc! { "commitTransaction": 1, "$db": "admin" });
    world.send(conn, &commit);
    world.run_for(Duration::from_millis(21));
    world.deployment.kill_shard(world.now, 0);
    world.drain();
    let (_, _, reply) = world.reply(conn).expect("a reply");
    fail(&reply, 6, &["RetryableWriteError"]);
    assert!(world.deployment.step_down_shard(world.now, 1));
    world.drain();
    world.run_for(Duration::from_secs(120));
    // The transaction has not expired, and its session cannot start another one.
    let next = one.numbered(2);
    fail(
        &next.start(&mut world, to("right", one_document())),
        267,
        TRANSIENT,
    );
    let kill = doc! { "killSessions": [lsid(1)], "$db": "admin" };
    fail(&send(&mut world, other, kill), 6, &[]);
    let number = doc! { "lsid": lsid(1), "txnNumber": 3_i64 };
    let mut write = to("right", insert(&[doc! { "_id": 7 }]));
    write.extend(number);
    fail(&send(&mut world, other, write), 267, &[]);
    // A write of the same document waits for the decision.
    let mut write = to("right", one_document());
    write.insert("maxTimeMS", 100);
    fail(&send(&mut world, other, write), 50, &[]);
    world.deployment.restart_shard(world.now, 0);
    world.drain();
    world.run_for(Duration::from_secs(2));
    assert_eq!(counts(&mut world, other), (1, 1));
}

#[test]
fn another_router_learns_the_outcome_from_the_coordinator() {
    let (mut world, conn, other) = shards();
    let one = client(conn, 1);
    write_both(&mut world, one);
    let commit = one.part(doc! { "commitTransaction": 1, "$db": "admin" });
    world.send(conn, &commit);
    let token = doc! { "recoveryShardId": "shard0" };
    let two = Client { conn: other, ..one };
    let recover = doc! { "commitTransaction": 1, "recoveryToken": token, "$db": "admin" };
    // The commit is under way: the second router waits for its end.
    succeed(&two.go_on(&mut world, recover.clone()));
    let (_, _, committed) = world.reply(conn).expect("a reply");
    succeed(&committed);
    assert_eq!(counts(&mut world, other), (1, 1));
    succeed(&two.go_on(&mut world, recover.clone()));
    let (one, two) = (one.numbered(2), two.numbered(2));
    succeed(&one.start(&mut world, to("left", set(1, "a", 1))));
    succeed(&one.go_on(&mut world, to("right", set(1, "a", 1))));
    // A transaction whose commit nobody has asked for is aborted.
    fail(&two.go_on(&mut world, recover), 251, TRANSIENT);
    fail(&one.commit(&mut world), 251, TRANSIENT);
}

#[test]
fn a_network_that_loses_messages_only_delays_a_commit() {
    let (mut world, conn, other) = shards();
    let one = client(conn, 1);
    write_both(&mut world, one);
    let commit = one.part(doc! { "commitTransaction": 1, "$db": "admin" });
    world.send(conn, &commit);
    world.deployment.cut(world.now, 2, 3);
    world.run_for(Duration::from_secs(90));
    assert!(world.reply(conn).is_none(), "shard 1 was not asked");
    world.deployment.heal(world.now);
    world.deployment.cut(world.now, 3, 2);
    world.run_for(Duration::from_secs(90));
    assert!(
        world.reply(conn).is_none(),
        "the vote of shard 1 did not arrive"
    );
    world.deployment.heal(world.now);
    world.run_for(Duration::from_secs(2));
    let (_, _, reply) = world.reply(conn).expect("a reply");
    // Meanwhile the part of shard 1 has expired, or it was prepared.
    let committed = i32::from(reply.get_f64("ok").ok() == Some(1.0));
    assert_eq!(counts(&mut world, other), (committed, committed), "{reply}");
}

fn committing(client: Client) -> Document {
    client.part(doc! { "commitTransaction": 1, "$db": "admin" })
}

#[test]
fn the_shards_keep_their_commits_from_clients() {
    let (mut world, conn, _) = shards();
    let name = "transaction_coordinators";
    for (database, command) in [
        ("config", doc! { "insert": name, "documents": [{}] }),
        (
            "config",
            doc! { "delete": name, "deletes": [{ "q": {}, "limit": 0 }] },
        ),
        ("config", doc! { "create": name, "viewOn": "c" }),
        ("config", doc! { "dropDatabase": 1 }),
        (
            "admin",
            doc! { "renameCollection": "orders.c", "to": format!("config.{name}") },
        ),
        (
            "orders",
            doc! {
                "aggregate": "c", "pipeline": [{ "$out": { "db": "config", "coll": name } }],
                "cursor": {},
            },
        ),
    ] {
        let reply = send(&mut world, conn, to(database, command));
        fail(&reply, 238, &[]);
    }
    let find = to("config", doc! { "find": name });
    succeed(&send(&mut world, conn, find));
}

#[test]
fn a_coordinator_that_has_lost_its_part_makes_the_others_abort() {
    let (mut world, conn, other) = shards();
    let one = client(conn, 1);
    write_both(&mut world, one);
    world.deployment.kill_shard(world.now, 0);
    world.deployment.restart_shard(world.now, 0);
    world.drain();
    fail(&one.commit(&mut world), 251, TRANSIENT);
    for database in ["left", "right"] {
        let mut insert = to(database, one_document());
        insert.insert("maxTimeMS", 100);
        succeed(&send(&mut world, other, insert));
    }
}

#[test]
fn a_transaction_with_a_failed_statement_cannot_commit() {
    let (mut world, conn, other) = shards();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, to("left", one_document())));
    world.deployment.kill_shard(world.now, 1);
    world.drain();
    let find = to("right", doc! { "find": "c" });
    fail(&one.go_on(&mut world, find), 6, TRANSIENT);
    world.deployment.restart_shard(world.now, 1);
    world.drain();
    fail(&one.commit(&mut world), 251, TRANSIENT);
    fail(&one.commit(&mut world), 251, TRANSIENT);
    assert_eq!(counts(&mut world, other), (0, 0));
}

#[test]
fn a_large_prepared_transaction_leaves_the_records_of_other_sessions() {
    let addresses = vec![Address::tcp("router", 27017)];
    let mut options = DeploymentOptions::sharded(addresses);
    options.shards = 2;
    options.limits.max_session_bytes = 10_000;
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let mut write = to("left", insert(&[doc! { "_id": "retried" }]));
    write.extend(doc! { "lsid": lsid(9), "txnNumber": 1_i64 });
    succeed(&send(&mut world, conn, write.clone()));
    let one = client(conn, 1);
    let large = || insert(&[doc! { "_id": "large", "text": "x".repeat(100_000) }]);
    succeed(&one.start(&mut world, to("left", large())));
    succeed(&one.go_on(&mut world, to("right", large())));
    succeed(&one.commit(&mut world));
    let again = send(&mut world, conn, write);
    succeed(&again);
    assert_eq!(again.get_i32("n").ok(), Some(1), "it was done before");
    assert_eq!(counts(&mut world, conn), (2, 1));
}

#[test]
fn replies_that_come_together_are_told_apart() {
    let (mut world, conn, other) = shards();
    let blocker = client(other, 1);
    succeed(&blocker.start(&mut world, to("left", one_document())));
    // The write waits for the transaction, and what follows on the connection to shard 0 for it.
    let body = bson::RawDocumentBuf::try_from(&to("left", one_document())).expect("a command");
    let mut unanswered = Vec::new();
    MessageWriter::begin(&mut unanswered, 99, 0)
        .flags(Flags::MORE_TO_COME)
        .body(&body)
        .end();
    world.send_bytes(conn, &unanswered);
    world.deployment.kill_shard(world.now, 1);
    world.drain();
    let list = doc! { "listDatabases": 1, "$db": "admin" };
    fail(&send(&mut world, conn, list), 6, &[]);
    world.send(conn, &to("left", doc! { "count": "c" }));
    succeed(&blocker.abort(&mut world));
    let (_, _, counted) = world.reply(conn).expect("a reply");
    assert_eq!(counted.get_i32("n").ok(), Some(1), "{counted}");
}
