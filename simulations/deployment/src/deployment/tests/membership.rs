//! Tests of members that leave a replica set and join it, and of votes that change.

use super::world::{World, send, set_of};
use crate::{
    deployment::{ConnId, MemberEvent, MemberOptions, MemberState, Shape},
    store::Namespace,
};
use bson::{Document, doc};
use std::time::Duration;

const ELECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes a world of a set whose first member is primary, and a connection to it. All members know
/// the configuration.
fn settled(members: usize) -> (World, ConnId) {
    let mut world = World::new(set_of(members), 1);
    world.run_for(Duration::from_secs(5));
    let conn = world.connect(0);
    (world, conn)
}

fn hello(world: &mut World, member: usize) -> Document {
    let conn = world.connect(member);
    send(world, conn, doc! { "hello": 1, "$db": "admin" })
}

fn hosts(world: &mut World, member: usize) -> Vec<String> {
    let hello = hello(world, member);
    let hosts = hello.get_array("hosts").cloned().unwrap_or_default();
    let hosts = hosts.into_iter();
    hosts
        .filter_map(|host| host.as_str().map(str::to_owned))
        .collect()
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

fn count(world: &World, member: usize) -> usize {
    let store = world.deployment.store(member).expect("a member");
    let collection = store.collection(&Namespace::new("d", "c"));
    collection.map_or(0, |found| found.documents().count())
}

fn without_vote() -> MemberOptions {
    MemberOptions {
        votes: false,
        priority: 0,
        ..MemberOptions::default()
    }
}

#[test]
fn a_removed_member_is_no_member_until_it_is_added_again() {
    let (mut world, conn) = settled(3);
    let reader = world.connect(2);
    assert_eq!(world.deployment.remove_member(world.now, 2), Ok(()));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.deployment.state(2), Some(MemberState::Removed));
    assert!(world.closed.contains(&reader));
    let ghost = hello(&mut world, 2);
    assert_eq!(ghost.get_bool("isreplicaset").ok(), Some(true), "{ghost}");
    assert!(!ghost.contains_key("setName") && !ghost.contains_key("hosts"));
    for member in [0, 1] {
        assert_eq!(hosts(&mut world, member), ["m0:27017", "m1:27017"]);
    }
    let reader = world.connect(2);
    let find = doc! { "find": "c", "$readPreference": { "mode": "nearest" } };
    let refused = send(&mut world, reader, find);
    assert_eq!(refused.get_i32("code").ok(), Some(13436), "{refused}");
    assert_eq!(insert(&mut world, conn, 1), None);
    world.run_for(Duration::from_secs(1));
    assert_eq!(count(&world, 2), 0, "it does not follow the primary");

    assert_eq!(world.deployment.add_member(world.now, 2), Ok(()));
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.deployment.state(2), Some(MemberState::Secondary));
    assert_eq!(hosts(&mut world, 2).len(), 3);
    assert_eq!(count(&world, 2), 1);
    // One version for the removal, one for the addition, and one that counts the vote.
    let version = hello(&mut world, 0).get_i32("setVersion").ok();
    assert_eq!(version, Some(4));
    let events: Vec<&MemberEvent> = world.events.iter().map(|(_, event)| event).collect();
    let (removed, added) = (
        MemberEvent::Removed { member: 2 },
        MemberEvent::Added { member: 2 },
    );
    assert_eq!(events[events.len() - 2..], [&removed, &added]);
}

#[test]
fn a_member_that_is_cut_off_learns_of_its_removal_later_and_disturbs_nobody() {
    for is_passive in [false, true] {
        let (mut world, _) = settled(3);
        if is_passive {
            let passive = MemberOptions {
                priority: 0,
                ..MemberOptions::default()
            };
            assert_eq!(world.deployment.reconfigure(world.now, 2, passive), Ok(()));
            world.run_for(Duration::from_secs(5));
        }
        world.deployment.partition(world.now, &[2]);
        assert_eq!(world.deployment.remove_member(world.now, 2), Ok(()));
        world.run_for(4 * ELECTION_TIMEOUT);
        assert_eq!(world.deployment.state(2), Some(MemberState::Secondary));
        world.deployment.heal(world.now);
        world.run_for(2 * ELECTION_TIMEOUT);
        assert_eq!(world.deployment.state(2), Some(MemberState::Removed));
        assert_eq!(world.deployment.primary(), Some(0));
        assert_eq!(world.deployment.term(0), 1, "nobody stood for election");
    }
}

#[test]
fn a_member_that_is_absent_at_the_start_joins() {
    let mut options = set_of(3);
    if let Shape::ReplicaSet(set) = &mut options.shape {
        set.members[2].absent = true;
    }
    let mut world = World::new(options, 1);
    world.run_for(Duration::from_secs(5));
    let conn = world.connect(0);
    assert_eq!(world.deployment.state(2), Some(MemberState::Removed));
    assert_eq!(hosts(&mut world, 0).len(), 2);
    for id in 0..50 {
        assert_eq!(insert(&mut world, conn, id), None);
    }
    assert_eq!(world.deployment.add_member(world.now, 2), Ok(()));
    world.run_for(Duration::from_secs(60));
    assert_eq!(count(&world, 2), 50);
    world.deployment.check_members().expect("the same data");
    // With its vote, two of three members elect a primary.
    world.deployment.kill(world.now, 0);
    let elected = world.until_primary(3 * ELECTION_TIMEOUT);
    assert!(elected.is_some());
}

#[test]
fn majorities_are_those_of_the_present_members() {
    let (mut world, conn) = settled(5);
    for member in [3, 4] {
        world.deployment.kill(world.now, member);
        assert_eq!(world.deployment.remove_member(world.now, member), Ok(()));
        world.run_for(Duration::from_secs(3));
    }
    world.deployment.kill(world.now, 2);
    assert_eq!(insert(&mut world, conn, 1), None, "two of three have it");
    world.run_for(3 * ELECTION_TIMEOUT);
    assert_eq!(world.deployment.primary(), Some(0));
    world.deployment.kill(world.now, 1);
    world.run_for(3 * ELECTION_TIMEOUT);
    assert_eq!(
        world.deployment.primary(),
        None,
        "one of three is no majority"
    );
}

#[test]
fn a_set_does_not_start_with_members_that_no_configuration_can_have() {
    let hidden: fn(&mut MemberOptions) = |member| member.hidden = true;
    let without_vote: fn(&mut MemberOptions) = |member| member.votes = false;
    let too_high: fn(&mut MemberOptions) = |member| member.priority = 1001;
    for (change, expected) in [
        (hidden, "priority must be 0 when hidden=true"),
        (without_vote, "priority must be 0 when non-voting (votes:0)"),
        (too_high, "priority must be from 0 to 1000"),
    ] {
        let mut options = set_of(3);
        if let Shape::ReplicaSet(set) = &mut options.shape {
            change(&mut set.members[2]);
        }
        let fault = options.check().map_err(|error| error.to_string());
        assert_eq!(fault, Err(expected.to_owned()));
    }
}

#[test]
fn all_members_with_data_are_a_majority_of_writes() {
    let mut options = set_of(3);
    if let Shape::ReplicaSet(set) = &mut options.shape {
        set.members[1] = MemberOptions::arbiter();
    }
    let mut world = World::new(options, 1);
    world.run_for(Duration::from_secs(5));
    let conn = world.connect(0);
    assert_eq!(world.deployment.remove_member(world.now, 2), Ok(()));
    assert_eq!(insert(&mut world, conn, 1), None, "nobody else has data");
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.deployment.add_member(world.now, 2), Ok(()));
    world.run_for(Duration::from_secs(10));
    world.deployment.partition(world.now, &[2]);
    assert_eq!(insert(&mut world, conn, 2), Some(64), "member 2 lacks it");
}

#[test]
fn a_member_counts_only_while_it_has_a_vote() {
    let (mut world, conn) = settled(3);
    for member in [1, 2] {
        let changed = world
            .deployment
            .reconfigure(world.now, member, without_vote());
        assert_eq!(changed, Ok(()));
        world.run_for(Duration::from_secs(3));
        world.deployment.kill(world.now, member);
    }
    world.run_for(3 * ELECTION_TIMEOUT);
    assert_eq!(
        world.deployment.primary(),
        Some(0),
        "its vote is the only one"
    );
    assert_eq!(insert(&mut world, conn, 1), None);
    world.deployment.restart(world.now, 1);
    world.run_for(Duration::from_secs(5));
    let voting = MemberOptions::default();
    let changed = world.deployment.reconfigure(world.now, 1, voting);
    assert_eq!(changed, Ok(()));
    world.run_for(Duration::from_secs(5));
    world.deployment.partition(world.now, &[1]);
    assert_eq!(insert(&mut world, conn, 2), Some(64), "one of two");
}

#[test]
fn the_voters_change_one_after_the_other() {
    let (mut world, _) = settled(3);
    world.deployment.partition(world.now, &[0]);
    assert_eq!(world.deployment.remove_member(world.now, 1), Ok(()));
    let next = world.deployment.remove_member(world.now, 2);
    assert!(next.is_err_and(|text| text.contains("not yet that of a majority")));
    let shown = world.deployment.reconfigure(
        world.now,
        2,
        MemberOptions {
            priority: 2,
            ..MemberOptions::default()
        },
    );
    assert_eq!(shown, Ok(()), "the voters stay");
    // The other two never learn of it, and elect a primary by the former configuration.
    world.run_for(4 * ELECTION_TIMEOUT);
    world.deployment.heal(world.now);
    world.run_for(ELECTION_TIMEOUT);
    for member in 0..3 {
        assert_eq!(hosts(&mut world, member).len(), 3, "{member}");
    }
    assert!(world.deployment.remove_member(world.now, 9).is_err());
}

#[test]
fn a_command_removes_and_adds_members() {
    let (mut world, conn) = settled(4);
    let reply = send(
        &mut world,
        conn,
        doc! { "replSetGetConfig": 1, "$db": "admin" },
    );
    let whole = reply.get_document("config").expect("a configuration");
    let mut install = |version: i32, places: &[usize]| {
        let mut new = whole.clone();
        new.insert("version", version);
        let members = whole.get_array("members").expect("members");
        let kept: Vec<_> = places.iter().map(|place| members[*place].clone()).collect();
        new.insert("members", kept);
        let command = doc! { "replSetReconfig": new, "$db": "admin" };
        let code = send(&mut world, conn, command).get_i32("code").ok();
        world.run_for(Duration::from_secs(5));
        (code, hosts(&mut world, 0).len())
    };
    assert_eq!(install(2, &[0, 1]), (Some(103), 4), "two leave at once");
    assert_eq!(install(2, &[1, 2, 3]), (Some(103), 4), "the primary leaves");
    assert_eq!(
        install(2, &[0, 1, 2, 2]),
        (Some(103), 4),
        "one is there twice"
    );
    assert_eq!(install(2, &[0, 1, 2]), (None, 3));
    assert_eq!(install(9, &[0, 1]), (None, 2));
    assert_eq!(
        install(9, &[0, 1, 2]),
        (Some(103), 2),
        "the version is known"
    );
    assert_eq!(install(10, &[0, 1, 2]), (None, 3));
    assert_eq!(world.deployment.state(3), Some(MemberState::Removed));
    let removed = world.connect(3);
    let status = send(
        &mut world,
        removed,
        doc! { "replSetGetStatus": 1, "$db": "admin" },
    );
    assert_eq!(status.get_i32("code").ok(), Some(93), "{status}");
}
