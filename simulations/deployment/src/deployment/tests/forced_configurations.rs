//! Tests of configurations that are installed by force.

use super::world::{World, send, set_of};
use crate::{
    deployment::{ConnId, MemberState},
    store::Namespace,
};
use bson::{Bson, Document, doc};
use std::time::Duration;

const ELECTION_TIMEOUT: Duration = Duration::from_secs(10);

fn settled(members: usize, seed: u8) -> World {
    let mut world = World::new(set_of(members), seed);
    world.run_for(Duration::from_secs(5));
    world
}

fn version(world: &mut World, member: usize) -> i32 {
    let conn = world.connect(member);
    let hello = send(world, conn, doc! { "hello": 1, "$db": "admin" });
    hello.get_i32("setVersion").expect("a version")
}

/// Inserts a document with the write concern `majority`, and returns the code of its error.
fn insert(world: &mut World, conn: ConnId, id: i32) -> Option<i32> {
    let insert = doc! {
        "insert": "c", "documents": [{ "_id": id }],
        "writeConcern": { "w": "majority", "wtimeout": 3_000 },
    };
    let reply = send(world, conn, insert);
    let error = reply.get_document("writeConcernError").ok();
    error.unwrap_or(&reply).get_i32("code").ok()
}

/// Returns the ids of the documents of a member.
fn ids(world: &World, member: usize) -> Vec<Bson> {
    let store = world.deployment.store(member).expect("a member");
    let collection = store.collection(&Namespace::new("d", "c"));
    let documents = collection.into_iter().flat_map(|found| found.documents());
    let ids = documents.filter_map(|document| document.get("_id"));
    ids.cloned().collect()
}

/// Makes a world of three members, of which the last one alone runs and is primary by force.
/// Returns it with the version of the configuration.
fn forced(seed: u8) -> (World, i32) {
    let mut world = settled(3, seed);
    for member in [0, 1] {
        world.deployment.kill(world.now, member);
    }
    let now = world.now;
    let installed = world.deployment.force_configuration(now, 2, &[0, 1]);
    assert_eq!(installed, Ok(()));
    let version = version(&mut world, 2);
    world
        .until_primary(3 * ELECTION_TIMEOUT)
        .expect("its own vote is a majority");
    (world, version)
}

#[test]
fn a_member_without_a_majority_leads_by_force() {
    let (mut world, forced) = forced(1);
    assert_eq!(world.deployment.primary(), Some(2));
    assert!((10_001..=110_000).contains(&forced), "{forced}");
    assert_eq!(version(&mut world, 2), forced + 1, "the one of its primary");
    let conn = world.connect(2);
    assert_eq!(insert(&mut world, conn, 1), None);
    for member in [0, 1] {
        world.deployment.restart(world.now, member);
    }
    world.run_for(3 * ELECTION_TIMEOUT);
    for member in [0, 1] {
        let state = world.deployment.state(member);
        assert_eq!(state, Some(MemberState::Removed), "{member}");
    }
    assert_eq!(world.deployment.primary(), Some(2));
}

#[test]
fn the_version_is_drawn_from_the_seed() {
    let drawn = [1, 1, 2].map(|seed| forced(seed).1);
    assert_eq!(drawn[0], drawn[1]);
    assert_ne!(drawn[0], drawn[2]);
}

#[test]
fn other_members_take_over_a_forced_configuration() {
    let mut world = settled(5, 1);
    for member in [0, 1, 2] {
        world.deployment.kill(world.now, member);
    }
    let now = world.now;
    let installed = world.deployment.force_configuration(now, 3, &[0, 1, 2]);
    assert_eq!(installed, Ok(()));
    world.run_for(Duration::from_secs(1));
    assert!(version(&mut world, 4) > 10_000);
    let elected = world.until_primary(3 * ELECTION_TIMEOUT);
    let (primary, _) = elected.expect("two of two");
    let conn = world.connect(primary);
    assert_eq!(insert(&mut world, conn, 1), None);
    world.deployment.kill(world.now, 7 - primary);
    assert_eq!(insert(&mut world, conn, 2), Some(64), "one of two");
}

#[test]
fn a_secondary_installs_a_configuration_by_command_only_by_force() {
    let mut world = settled(3, 1);
    for member in [0, 1] {
        world.deployment.kill(world.now, member);
    }
    let conn = world.connect(2);
    let get = doc! { "replSetGetConfig": 1, "$db": "admin" };
    let reply = send(&mut world, conn, get);
    let mut new = reply.get_document("config").expect("it").clone();
    let members = new.get_array_mut("members").expect("members");
    let kept = members.split_off(2);
    *members = kept;
    let mut install = |force: bool| -> Document {
        let command = doc! { "replSetReconfig": &new, "force": force, "$db": "admin" };
        send(&mut world, conn, command)
    };
    assert_eq!(install(false).get_i32("code").ok(), Some(10107));
    // The version need not be higher.
    assert_eq!(install(true).get_f64("ok").ok(), Some(1.0));
    assert!(world.until_primary(3 * ELECTION_TIMEOUT).is_some());
    assert_eq!(world.deployment.primary(), Some(2));
}

#[test]
fn a_member_with_committed_writes_that_were_lost_by_force_drops_its_data() {
    let mut world = settled(3, 1);
    world.deployment.partition(world.now, &[2]);
    let conn = world.connect(0);
    assert_eq!(insert(&mut world, conn, 1), None);
    world.run_for(Duration::from_secs(3));
    for member in [0, 1] {
        world.deployment.kill(world.now, member);
    }
    world.deployment.heal(world.now);
    let now = world.now;
    let installed = world.deployment.force_configuration(now, 2, &[0, 1]);
    assert_eq!(installed, Ok(()));
    let elected = world.until_primary(3 * ELECTION_TIMEOUT);
    assert!(elected.is_some());
    let conn = world.connect(2);
    assert_eq!(insert(&mut world, conn, 2), None);
    for member in [0, 1] {
        world.deployment.restart(world.now, member);
        assert_eq!(ids(&world, member), [Bson::Int32(1)]);
        world.run_for(Duration::from_secs(5));
        assert_eq!(world.deployment.add_member(world.now, member), Ok(()));
        world.run_for(3 * ELECTION_TIMEOUT);
        assert_eq!(ids(&world, member), [Bson::Int32(2)], "{member}");
    }
    world.deployment.check_members().expect("the same data");
    world.deployment.kill(world.now, 2);
    assert!(world.until_primary(3 * ELECTION_TIMEOUT).is_some());
}

#[test]
fn a_member_with_a_trimmed_oplog_does_not_acknowledge_entries_that_it_lacks() {
    let mut options = set_of(3);
    options.limits.max_oplog_entries = 5;
    let mut world = World::new(options, 1);
    world.run_for(Duration::from_secs(5));
    world.deployment.partition(world.now, &[2]);
    let conn = world.connect(0);
    for id in 0..40 {
        assert_eq!(insert(&mut world, conn, id), None, "{id}");
    }
    world.run_for(Duration::from_secs(3));
    for member in [0, 1] {
        world.deployment.kill(world.now, member);
    }
    world.deployment.heal(world.now);
    let now = world.now;
    let installed = world.deployment.force_configuration(now, 2, &[0, 1]);
    assert_eq!(installed, Ok(()));
    let elected = world.until_primary(3 * ELECTION_TIMEOUT);
    assert_eq!(elected.map(|(primary, _)| primary), Some(2));
    for member in [0, 1] {
        world.deployment.restart(world.now, member);
        world.run_for(Duration::from_secs(5));
        assert_eq!(world.deployment.add_member(world.now, member), Ok(()));
        world.run_for(3 * ELECTION_TIMEOUT);
    }
    let conn = world.connect(2);
    let insert = doc! {
        "insert": "c", "documents": [{ "_id": 100 }],
        "writeConcern": { "w": 3, "wtimeout": 30_000 },
    };
    let reply = send(&mut world, conn, insert);
    assert_eq!(reply.get("writeConcernError"), None, "{reply}");
    for member in 0..3 {
        assert_eq!(ids(&world, member), [Bson::Int32(100)], "{member}");
    }
    world.deployment.check_members().expect("the same data");
}

#[test]
fn forced_configurations_that_are_not_possible_are_refused() {
    let mut world = settled(3, 1);
    world.deployment.kill(world.now, 1);
    for (member, removed) in [(2, &[2][..]), (1, &[0]), (9, &[0]), (2, &[9])] {
        let installed = world
            .deployment
            .force_configuration(world.now, member, removed);
        assert!(installed.is_err(), "{member} {removed:?}");
    }
    assert_eq!(version(&mut world, 2), 1);
}
