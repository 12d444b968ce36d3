//! Tests of elections and step-downs.

use super::world::{World, set_of};
use crate::{
    deployment::{MemberEvent, MemberOptions, MemberState, Shape},
    store::Namespace,
};
use bson::{Document, doc};
use std::time::Duration;

const ELECTION_TIMEOUT: Duration = Duration::from_secs(10);

fn hello(world: &mut World, member: usize) -> Document {
    let conn = world.connect(member);
    let hello = doc! { "hello": 1, "$db": "admin" };
    world
        .send_command(conn, &hello)
        .expect("a running member answers")
}

#[test]
fn a_killed_primary_is_replaced_within_two_election_timeouts() {
    for members in [3, 5] {
        for seed in 0..20 {
            let mut world = World::new(set_of(members), seed);
            world.run_for(Duration::from_secs(5));
            assert_eq!(world.deployment.primary(), Some(0));
            world.deployment.kill(world.now, 0);
            world.drain();
            assert_eq!(world.deployment.primary(), None);
            let (primary, took) = world
                .until_primary(2 * ELECTION_TIMEOUT)
                .expect("there is a new primary");
            assert_ne!(primary, 0);
            assert!(
                took > ELECTION_TIMEOUT / 2,
                "nobody stands while the primary may be alive"
            );
            assert!(world.deployment.term(primary) > 1);
        }
    }
}

/// A deployment on real sockets is late on a busy machine. Then the timers and messages of its
/// members take effect in their order, so that no member misses a primary that is there.
#[test]
fn a_late_deployment_holds_no_election() {
    for seed in 0..20 {
        let mut world = World::new(set_of(3), seed);
        world.run_for(Duration::from_secs(5));
        for pause in [11, 15, 60, 3600] {
            world.now = world.now + Duration::from_secs(pause);
            world.deployment.handle_timeout(world.now);
            world.run_for(Duration::from_secs(5));
            assert_eq!(world.deployment.primary(), Some(0), "{pause} seconds");
            assert_eq!(world.deployment.term(0), 1, "{pause} seconds");
        }
    }
}

#[test]
fn without_a_configured_primary_one_is_elected() {
    let mut options = set_of(3);
    if let Shape::ReplicaSet(set) = &mut options.shape {
        set.initial_primary = None;
    }
    let mut world = World::new(options, 7);
    assert_eq!(world.deployment.primary(), None);
    assert!(world.until_primary(2 * ELECTION_TIMEOUT).is_some());
}

#[test]
fn a_partitioned_primary_steps_down_and_follows_after_healing() {
    let mut world = World::new(set_of(3), 1);
    world.run_for(Duration::from_secs(5));
    world.deployment.partition(world.now, &[0]);
    world.run_for(3 * ELECTION_TIMEOUT);
    assert_eq!(world.deployment.state(0), Some(MemberState::Secondary));
    let primary = world.deployment.primary().expect("the majority elects");
    assert_ne!(primary, 0);
    world.deployment.heal(world.now);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.deployment.primary(), Some(primary));
    let seen = hello(&mut world, 0);
    assert_eq!(
        seen.get_str("primary").ok(),
        Some(&*format!("m{primary}:27017"))
    );
}

#[test]
fn a_primary_that_can_send_but_not_receive_steps_down() {
    // The network from the two other members to the primary is cut, but the primary's heartbeats
    // still arrive.
    let mut world = World::new(set_of(3), 2);
    world.run_for(Duration::from_secs(5));
    world.deployment.cut(world.now, 1, 0);
    world.deployment.cut(world.now, 2, 0);
    world.run_for(3 * ELECTION_TIMEOUT);
    assert_ne!(world.deployment.primary(), Some(0));
    assert!(world.deployment.primary().is_some());
}

#[test]
fn a_member_that_lacks_the_last_write_copies_it_from_another_member_and_leads() {
    for seed in 0..10 {
        let mut world = World::new(set_of(3), seed);
        world.run_for(Duration::from_secs(5));
        for from in [0, 1] {
            world.deployment.cut(world.now, from, 2);
        }
        let conn = world.connect(0);
        let insert = doc! {
            "insert": "c", "$db": "d", "documents": [{ "_id": 1 }], "writeConcern": { "w": 2 },
        };
        let inserted = world.send_command(conn, &insert).expect("a reply");
        assert_eq!(inserted.get_i32("n").ok(), Some(1), "{inserted}");
        // Member 0 must not lead for a minute, and member 1 leads until it ends.
        world.deployment.step_down(world.now);
        let (primary, _) = world.until_primary(ELECTION_TIMEOUT).expect("a primary");
        assert_eq!(primary, 1);
        world.deployment.kill(world.now, 1);
        world.deployment.heal(world.now);
        let limit = 4 * ELECTION_TIMEOUT;
        let (primary, _) = world.until_primary(limit).expect("a primary");
        assert_eq!(primary, 2);
        let store = world.deployment.store(2).expect("it runs");
        let collection = store.collection(&Namespace::new("d", "c"));
        assert_eq!(collection.map(|found| found.documents().count()), Some(1));
    }
}

#[test]
fn a_member_with_writes_that_nobody_else_has_copies_those_of_the_majority_and_leads() {
    for seed in 0..10 {
        let mut world = World::new(set_of(3), seed);
        world.run_for(Duration::from_secs(5));
        world.deployment.partition(world.now, &[0]);
        let insert = |world: &mut World, member: usize, ids: Vec<i32>| {
            let conn = world.connect(member);
            let documents: Vec<Document> = ids.into_iter().map(|id| doc! { "_id": id }).collect();
            let concern = doc! { "w": 1 };
            let insert = doc! {
                "insert": "c", "$db": "d", "documents": documents, "writeConcern": concern,
            };
            world.send_command(conn, &insert);
        };
        for id in 0..20 {
            insert(&mut world, 0, vec![id]);
        }
        world.run_for(3 * ELECTION_TIMEOUT);
        let first = world.deployment.primary().expect("the majority elects");
        insert(&mut world, first, (100..130).collect());
        world.run_for(Duration::from_secs(1));
        world.deployment.step_down(world.now);
        let (second, _) = world.until_primary(ELECTION_TIMEOUT).expect("a primary");
        assert_ne!(second, first);
        world.run_for(Duration::from_secs(1));
        world.deployment.kill(world.now, second);
        world.deployment.heal(world.now);
        let limit = 4 * ELECTION_TIMEOUT;
        let (primary, _) = world.until_primary(limit).expect("a primary");
        assert_eq!(primary, 0);
        let store = world.deployment.store(0).expect("it runs");
        let collection = store.collection(&Namespace::new("d", "c"));
        assert_eq!(collection.map(|found| found.documents().count()), Some(30));
    }
}

#[test]
fn two_of_five_members_elect_no_primary() {
    let mut world = World::new(set_of(5), 3);
    world.run_for(Duration::from_secs(5));
    for member in 0..3 {
        world.deployment.kill(world.now, member);
    }
    world.drain();
    world.run_for(5 * ELECTION_TIMEOUT);
    assert_eq!(world.deployment.primary(), None);
    world.deployment.restart(world.now, 1);
    assert!(world.until_primary(3 * ELECTION_TIMEOUT).is_some());
}

#[test]
fn an_arbiter_votes_but_does_not_become_primary() {
    let mut options = set_of(3);
    if let Shape::ReplicaSet(set) = &mut options.shape {
        set.members[1] = MemberOptions::arbiter();
    }
    for seed in 0..10 {
        let mut world = World::new(options.clone(), seed);
        world.run_for(Duration::from_secs(5));
        assert_eq!(world.deployment.state(1), Some(MemberState::Arbiter));
        world.deployment.kill(world.now, 0);
        let (primary, _) = world.until_primary(3 * ELECTION_TIMEOUT).expect("elected");
        assert_eq!(primary, 2);
        let arbiter = hello(&mut world, 1);
        assert_eq!(arbiter.get_bool("arbiterOnly").ok(), Some(true));
        assert_eq!(arbiter.get_array("arbiters").map(Vec::len).ok(), Some(1));
    }
}

#[test]
fn a_step_down_elects_a_new_primary_at_once_with_a_higher_election_id() {
    let mut world = World::new(set_of(3), 4);
    world.run_for(Duration::from_secs(5));
    let first = hello(&mut world, 0)
        .get_object_id("electionId")
        .expect("a primary's");
    let conn = world.connect(0);
    let start = world.now;
    let reply = world.send_command(conn, &doc! { "replSetStepDown": 60, "$db": "admin" });
    assert_eq!(reply.and_then(|r| r.get_f64("ok").ok()), Some(1.0));
    let (primary, _) = world
        .until_primary(Duration::from_secs(1))
        .expect("handed over");
    assert!(world.now - start < Duration::from_secs(1));
    assert_ne!(primary, 0);
    let second = hello(&mut world, primary)
        .get_object_id("electionId")
        .expect("a primary's");
    assert!(second > first);
    assert!(
        !world.closed.contains(&conn),
        "4.2 and later keep connections"
    );
    let steps = world.events.iter();
    let reported = steps.filter(|(_, s)| matches!(s, MemberEvent::SteppedDown { member: 0, .. }));
    assert_eq!(reported.count(), 1);
}

#[test]
fn after_two_step_downs_the_third_member_is_primary() {
    for latency in [Duration::ZERO, Duration::from_millis(1)] {
        for seed in 0..20 {
            let mut options = set_of(3);
            options.network.min_latency = latency;
            options.network.max_latency = latency;
            let mut world = World::new(options, seed);
            world.run_for(Duration::from_secs(5));
            for round in 0..2 {
                let primary = world.deployment.primary().expect("one leads");
                let conn = world.connect(primary);
                let insert = doc! {
                    "insert": "c", "documents": [{ "n": round }],
                    "writeConcern": { "w": "majority" }, "$db": "d",
                };
                assert!(world.send_command(conn, &insert).is_some());
                assert!(world.deployment.step_down(world.now));
                world.run_for(Duration::from_millis(100));
                let elected = world.until_primary(2 * ELECTION_TIMEOUT);
                assert!(elected.is_some(), "{latency:?}, seed {seed}, round {round}");
            }
            assert_eq!(world.deployment.primary(), Some(2));
        }
    }
}

#[test]
fn a_step_down_without_a_caught_up_secondary_is_refused() {
    let mut world = World::new(set_of(3), 5);
    world.run_for(Duration::from_secs(5));
    world.deployment.partition(world.now, &[0]);
    let conn = world.connect(0);
    let insert = doc! {
        "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 1 }, "$db": "d",
    };
    assert!(world.send_command(conn, &insert).is_some());
    let command = doc! {
        "replSetStepDown": 60, "secondaryCatchUpPeriodSecs": 2, "$db": "admin",
    };
    let reply = world.send_command(conn, &command).expect("an answer");
    assert_eq!(reply.get_i32("code").ok(), Some(262));
    assert_eq!(world.deployment.primary(), Some(0), "it goes on leading");
}

#[test]
fn the_same_seed_produces_the_same_messages_and_events() {
    let run = |seed| {
        let mut options = set_of(3);
        options.network.loss_per_mille = 50;
        let mut world = World::new(options, seed);
        for round in 0..30 {
            let member = world.deployment.primary().unwrap_or(0);
            let conn = world.connect(member);
            world.send_command(
                conn,
                &doc! { "insert": "c", "documents": [{ "n": round }], "$db": "d" },
            );
            match round % 10 {
                3 => world.deployment.kill(world.now, member),
                7 => (0..3).for_each(|m| world.deployment.restart(world.now, m)),
                _ => {}
            }
            world.run_for(Duration::from_millis(700));
        }
        (world.sent, world.events)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn a_member_enters_quiesce_mode_before_it_shuts_down() {
    let mut world = World::new(set_of(3), 5);
    world.run_for(Duration::from_secs(5));
    let conn = world.connect(0);
    let hello = doc! { "hello": 1, "$db": "admin" };
    let reply = world.send_command(conn, &hello).expect("a reply");
    let seen = reply
        .get_document("topologyVersion")
        .expect("a version")
        .clone();
    let counter = seen.get_i64("counter").expect("a number");
    let wait = doc! {
        "hello": 1, "topologyVersion": seen, "maxAwaitTimeMS": 60_000_i64, "$db": "admin",
    };
    world.send(conn, &wait);
    let now = world.now;
    world.deployment.shut_down(now, 0);
    world.drain();
    let (_, more, reply) = world.reply(conn).expect("the one that waits is told");
    let version = reply.get_document("topologyVersion").expect("a version");
    assert_eq!((more, reply.get_i32("code").ok()), (false, Some(91)));
    assert!(version.get_i64("counter").expect("a number") > counter);
    // In quiesce mode, the member still executes reads. Another member becomes primary meanwhile.
    let find = doc! { "find": "c", "$readPreference": { "mode": "nearest" }, "$db": "db" };
    let found = world.send_command(conn, &find).expect("a reply");
    assert!(found.contains_key("cursor"), "{found}");
    let next = world
        .until_primary(Duration::from_secs(14))
        .expect("a primary");
    assert_ne!(next.0, 0);
    world.run_for(Duration::from_secs(15));
    assert_eq!(world.deployment.state(0), Some(MemberState::Down));
    assert!(world.closed.contains(&conn));
}

#[test]
fn a_member_that_has_failed_does_not_start_again() {
    let mut world = World::new(set_of(3), 1);
    assert!(!world.deployment.has_failed(2));
    world.deployment.members[2].fail();
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.deployment.state(2), Some(MemberState::Down));
    world.deployment.restart(world.now, 2);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.deployment.state(2), Some(MemberState::Down));
    assert!(world.deployment.has_failed(2));
    assert!(!world.deployment.has_failed(3), "there is no such member");
}
