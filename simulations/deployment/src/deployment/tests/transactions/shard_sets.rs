//! Transactions on two shards of three members, whose databases are `left` and `right`.

use super::{
    super::{
        parts::go_on,
        shard_sets::catch_up,
        world::{World, send},
    },
    Client, TRANSIENT, client, fail, insert, set, succeed,
};
use crate::{
    deployment::{ConnId, DeploymentOptions, MemberState},
    store::Namespace,
};
use bson::{Document, doc};
use onionskin_core::address::Address;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Makes a world of two routers and two shards of three members, and a connection to each router.
fn cluster() -> (World, ConnId, ConnId) {
    cluster_with(5, 20)
}

/// Makes such a world with these latencies between members, in milliseconds.
fn cluster_with(min: u64, max: u64) -> (World, ConnId, ConnId) {
    let addresses = (0..2).map(|i| Address::tcp(&format!("router{i}"), 27017));
    let mut options = DeploymentOptions::sharded(addresses.collect());
    (options.shards, options.shard_members) = (2, 3);
    options.shard_election_timeout = SECOND;
    options.network.min_latency = Duration::from_millis(min);
    options.network.max_latency = Duration::from_millis(max);
    let mut world = World::new(options, 1);
    let (one, other) = (world.connect(0), world.connect(1));
    world.run_for(SECOND);
    (world, one, other)
}

fn to(database: &str, mut command: Document) -> Document {
    command.insert("$db", database);
    command
}

/// Starts a transaction that inserts a document on each shard.
fn write_both(world: &mut World, client: Client) {
    let document = || insert(&[doc! { "_id": 1 }]);
    succeed(&client.start(world, to("left", document())));
    succeed(&client.go_on(world, to("right", document())));
}

/// Returns the number of documents that both databases have.
fn counts(world: &mut World, conn: ConnId) -> (i32, i32) {
    let mut count = |database| {
        let reply = send(world, conn, to(database, doc! { "count": "c" }));
        reply.get_i32("n").expect("a number")
    };
    (count("left"), count("right"))
}

fn primary(world: &World, shard: usize) -> usize {
    world.deployment.primary_of_shard(shard).expect("a primary")
}

/// Returns the documents of the commits that the primary of a shard has not completed.
fn kept_commits(world: &World, shard: usize) -> Vec<Document> {
    let name = Namespace::new("config", "transaction_coordinators");
    let store = world.deployment.store(primary(world, shard));
    let collection = store.and_then(|store| store.collection(&name));
    let documents = collection.into_iter().flat_map(|c| c.documents());
    documents
        .map(|document| Document::clone(document))
        .collect()
}

/// Returns the number of commits that the primaries have not completed.
fn coordinated(world: &World) -> usize {
    (0..2).map(|shard| kept_commits(world, shard).len()).sum()
}

/// Cuts the primary of a shard off from the other members of the shard, and runs until one of them
/// is primary. Returns the former primary, which does not know that yet.
fn depose(world: &mut World, shard: usize) -> usize {
    let old = primary(world, shard);
    for other in world.deployment.places_of_shard(shard) {
        if other != old {
            world.deployment.cut(world.now, old, other);
            world.deployment.cut(world.now, other, old);
        }
    }
    while primary(world, shard) == old {
        world.run_for(Duration::from_millis(1));
    }
    assert_eq!(world.deployment.state(old), Some(MemberState::Primary));
    old
}

/// An event that strikes the primary of a shard during a commit.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Crash,
    StepDown,
    Isolation,
}

fn strike(world: &mut World, trouble: Trouble, shard: usize) {
    let (now, primary) = (world.now, primary(world, shard));
    match trouble {
        Trouble::Crash => world.deployment.kill(now, primary),
        Trouble::StepDown => assert!(world.deployment.step_down_shard(now, shard)),
        Trouble::Isolation => world.deployment.partition(now, &[primary]),
    }
    world.drain();
}

/// Commits a transaction on two shards, and lets the primary of one of them fail at a time. Sends
/// the commit again until its outcome is known, as a client does. Returns true if it has committed.
fn commit_despite(trouble: Trouble, shard: usize, at: u64) -> bool {
    let (mut world, conn, other) = cluster();
    let one = client(conn, 1);
    write_both(&mut world, one);
    let commit = one.part(doc! { "commitTransaction": 1, "$db": "admin" });
    world.send(conn, &commit);
    world.run_for(Duration::from_millis(at));
    let old = primary(&world, shard);
    strike(&mut world, trouble, shard);
    world.run_for(10 * SECOND);
    if matches!(trouble, Trouble::Isolation) {
        world.deployment.heal(world.now);
    }
    world.deployment.restart(world.now, old);
    world.drain();
    world.run_for(10 * SECOND);
    let (_, _, mut reply) = world.reply(conn).expect("a reply");
    if reply.get_i32("code").ok() == Some(6) || reply.contains_key("writeConcernError") {
        reply = one.commit(&mut world);
    }
    let committed = reply.get_f64("ok").ok() == Some(1.0);
    if !committed {
        fail(&reply, 251, TRANSIENT);
    }
    let documents = i32::from(committed);
    let found = counts(&mut world, other);
    assert_eq!(
        found,
        (documents, documents),
        "{trouble:?} {shard} {at}: {reply}"
    );
    assert_eq!(coordinated(&world), 0);
    // Nothing stays locked: the next transaction can write the same documents.
    let next = one.numbered(2);
    succeed(&next.start(&mut world, to("left", set(1, "a", 1))));
    succeed(&next.go_on(&mut world, to("right", set(1, "a", 1))));
    succeed(&next.commit(&mut world));
    super::check_members(&mut world);
    catch_up(&mut world);
    committed
}

#[test]
fn a_commit_has_one_outcome_whatever_happens_to_a_primary_in_the_middle() {
    for trouble in [Trouble::Crash, Trouble::StepDown, Trouble::Isolation] {
        for shard in 0..2 {
            let outcomes: Vec<bool> = (0..150)
                .step_by(10)
                .map(|at| commit_despite(trouble, shard, at))
                .collect();
            assert!(outcomes.contains(&true), "{trouble:?} of shard {shard}");
        }
    }
    assert!(
        !commit_despite(Trouble::Crash, 1, 0),
        "shard 1 was not asked yet"
    );
}

#[test]
fn a_primary_of_an_earlier_term_does_not_end_a_commit() {
    let (mut world, conn, other) = cluster_with(1, 1);
    let old = depose(&mut world, 1);
    let one = client(conn, 1);
    write_both(&mut world, one);
    let commit = one.part(doc! { "commitTransaction": 1, "$db": "admin" });
    world.send(conn, &commit);
    let is_decided = |world: &World| {
        let mut kept = kept_commits(world, 0).into_iter();
        kept.any(|commit| commit.contains_key("decision"))
    };
    for _ in 0..30 {
        if !is_decided(&world) {
            world.run_for(Duration::from_millis(1));
        }
    }
    assert!(is_decided(&world), "all have prepared");
    // The decision is sent to the former primary, which does not know the transaction.
    let new = primary(&world, 1);
    world.deployment.kill(world.now, new);
    world.drain();
    assert_eq!(primary(&world, 1), old);
    world.run_for(Duration::from_millis(10));
    world.deployment.heal(world.now);
    world.run_for(5 * SECOND);
    world.deployment.restart(world.now, new);
    world.drain();
    world.run_for(5 * SECOND);
    let (_, _, reply) = world.reply(conn).expect("a reply");
    succeed(&reply);
    assert_eq!(counts(&mut world, other), (1, 1));
    assert_eq!(coordinated(&world), 0);
    super::check_members(&mut world);
}

#[test]
fn a_primary_of_an_earlier_term_does_not_deny_a_commit() {
    let (mut world, conn, other) = cluster_with(1, 1);
    depose(&mut world, 0);
    let new = primary(&world, 0);
    // The other router only reaches the former primary.
    world.deployment.cut(world.now, 1, new);
    let one = client(conn, 1);
    succeed(&one.start(&mut world, to("left", insert(&[doc! { "_id": 1 }]))));
    let committed = one.commit(&mut world);
    succeed(&committed);
    let token = committed.get_document("recoveryToken").expect("a token");
    let commit = doc! {
        "commitTransaction": 1, "recoveryToken": token.clone(), "writeConcern": { "w": 1 },
        "$db": "admin",
    };
    let recovery = Client { conn: other, ..one };
    let reply = recovery.go_on(&mut world, commit);
    fail(&reply, 251, &["RetryableWriteError"]);
    assert!(reply.contains_key("writeConcernError"), "{reply}");
}

#[test]
fn a_transaction_that_is_not_prepared_ends_with_its_primary() {
    let (mut world, conn, other) = cluster();
    let one = client(conn, 1);
    write_both(&mut world, one);
    strike(&mut world, Trouble::Crash, 1);
    let statement = to("right", insert(&[doc! { "_id": 2 }]));
    fail(&one.go_on(&mut world, statement), 251, TRANSIENT);
    assert_eq!(counts(&mut world, other), (0, 0));
    let next = one.numbered(2);
    write_both(&mut world, next);
    succeed(&next.commit(&mut world));
    assert_eq!(counts(&mut world, other), (1, 1));
}

#[test]
fn a_commit_on_one_shard_is_repeated_at_the_next_primary() {
    let (mut world, conn, other) = cluster();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, to("left", insert(&[doc! { "_id": 1 }]))));
    let commit = one.part(doc! { "commitTransaction": 1, "$db": "admin" });
    world.send(conn, &commit);
    // The other members have the commit, and the primary does not know it yet.
    world.run_for(Duration::from_millis(21));
    strike(&mut world, Trouble::Crash, 0);
    world.run_for(10 * SECOND);
    let (_, _, reply) = world.reply(conn).expect("a reply");
    succeed(&reply);
    assert_eq!(counts(&mut world, other), (1, 0));
}

/// Commits a transaction with many changes on shard 0 and one on shard 1, whose commit has parts.
/// The primary of shard 0 ends after this number of steps. Returns true if the transaction has
/// committed.
fn commit_in_parts(steps: usize) -> bool {
    let (mut world, conn, other) = cluster();
    world.deployment.run_jobs();
    let documents: Vec<Document> = (0..1500).map(|n| doc! { "_id": n + 10 }).collect();
    succeed(&send(&mut world, conn, to("left", insert(&documents))));
    let one = client(conn, 1);
    write_both(&mut world, one);
    let all = doc! { "q": {}, "u": { "$set": { "t": 1 } }, "multi": true };
    let all = to("left", doc! { "update": "c", "updates": [all] });
    succeed(&one.go_on(&mut world, all));
    world.send(
        conn,
        &one.part(doc! { "commitTransaction": 1, "$db": "admin" }),
    );
    for _ in 0..steps {
        go_on(&mut world);
    }
    strike(&mut world, Trouble::Crash, 0);
    let mut waited = 0;
    let mut reply = loop {
        if let Some((_, _, reply)) = world.reply(conn) {
            break reply;
        }
        waited += 1;
        assert!(waited < 100_000, "the commit goes on after {steps} steps");
        go_on(&mut world);
    };
    if reply.get_i32("code").ok() == Some(6) || reply.contains_key("writeConcernError") {
        reply = one.commit(&mut world);
    }
    let committed = reply.get_f64("ok").ok() == Some(1.0);
    if !committed {
        fail(&reply, 251, TRANSIENT);
    }
    let changed = to("left", doc! { "count": "c", "query": { "t": 1 } });
    let left = send(&mut world, other, changed);
    let (_, right) = counts(&mut world, other);
    let expected = if committed { (1501, 1) } else { (0, 0) };
    let found = (left.get_i32("n").expect("a number"), right);
    assert_eq!(found, expected, "{steps}: {reply}");
    committed
}

#[test]
fn a_commit_in_parts_has_one_outcome_although_its_primary_ends() {
    let outcomes: Vec<bool> = (0..400).step_by(40).map(commit_in_parts).collect();
    assert!(outcomes.contains(&true), "{outcomes:?}");
}
