//! Tests of the initial sync of members.

use super::world::{World, send, set_of};
use crate::{
    deployment::{ConnId, MemberEvent, MemberState, Shape},
    store::Namespace,
};
use bson::{Document, doc};
use std::time::Duration;

const ELECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes a world of three members, of which the set has the first two or all, and a connection to
/// the primary.
fn settled(is_whole: bool) -> (World, ConnId) {
    let mut options = set_of(3);
    if let Shape::ReplicaSet(set) = &mut options.shape {
        set.members[2].absent = !is_whole;
    }
    let mut world = World::new(options, 1);
    world.run_for(Duration::from_secs(5));
    let conn = world.connect(0);
    (world, conn)
}

/// Inserts a document with the write concern `majority`, and returns the code of its error.
fn insert(world: &mut World, conn: ConnId, document: Document) -> Option<i32> {
    let insert = doc! {
        "insert": "c", "documents": [document],
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

#[test]
fn a_member_that_joins_is_no_secondary_until_it_has_the_data() {
    let (mut world, conn) = settled(false);
    for id in 0..10 {
        assert_eq!(insert(&mut world, conn, doc! { "_id": id }), None);
    }
    assert_eq!(world.deployment.add_member(world.now, 2), Ok(()));
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.deployment.state(2), Some(MemberState::Syncing));
    let joining = world.connect(2);
    let hello = send(&mut world, joining, doc! { "hello": 1, "$db": "admin" });
    assert_eq!(hello.get_f64("ok").ok(), Some(1.0));
    assert_eq!(hello.get_str("setName").ok(), Some("rs0"));
    assert_eq!(hello.get_bool("isWritablePrimary").ok(), Some(false));
    assert_eq!(hello.get_bool("secondary").ok(), Some(false));
    let find = doc! { "find": "c", "$readPreference": { "mode": "nearest" } };
    let refused = send(&mut world, joining, find.clone());
    assert_eq!(refused.get_i32("code").ok(), Some(13436), "{refused}");
    for conn in [joining, conn] {
        let status = doc! { "replSetGetStatus": 1, "$db": "admin" };
        let status = send(&mut world, conn, status);
        let members = status.get_array("members").expect("members");
        let member = members[2].as_document().expect("a member");
        assert_eq!(member.get_str("stateStr").ok(), Some("STARTUP2"));
    }
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.deployment.state(2), Some(MemberState::Secondary));
    assert_eq!(count(&world, 2), 10);
    assert!(send(&mut world, joining, find).contains_key("cursor"));
    let has_copied = |event: &MemberEvent| *event == MemberEvent::Resynced { member: 2 };
    assert!(world.events.iter().any(|(_, event)| has_copied(event)));
    world.deployment.check_members().expect("the same data");
}

#[test]
fn the_time_of_an_initial_sync_depends_on_the_data() {
    let (mut world, conn) = settled(false);
    for id in 0..40 {
        let text = "x".repeat(100 * 1024);
        let document = doc! { "_id": id, "text": text };
        assert_eq!(insert(&mut world, conn, document), None);
    }
    assert_eq!(world.deployment.add_member(world.now, 2), Ok(()));
    world.run_for(Duration::from_secs(7));
    assert_eq!(world.deployment.state(2), Some(MemberState::Syncing));
    world.run_for(Duration::from_secs(6));
    assert_eq!(world.deployment.state(2), Some(MemberState::Secondary));
    assert_eq!(count(&world, 2), 40);
}

#[test]
fn a_member_in_its_initial_sync_acknowledges_nothing() {
    let (mut world, conn) = settled(true);
    assert_eq!(world.deployment.resync(world.now, 2), Ok(()));
    assert_eq!(count(&world, 2), 0);
    world.deployment.kill(world.now, 1);
    assert_eq!(insert(&mut world, conn, doc! { "_id": 1 }), Some(64));
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.deployment.state(2), Some(MemberState::Secondary));
    assert_eq!(world.deployment.primary(), Some(0));
    assert_eq!(insert(&mut world, conn, doc! { "_id": 2 }), None);
    assert_eq!(count(&world, 2), 2);
}

#[test]
fn a_member_in_its_initial_sync_neither_votes_nor_leads() {
    let (mut world, _) = settled(true);
    assert_eq!(world.deployment.resync(world.now, 2), Ok(()));
    world.deployment.kill(world.now, 0);
    world.run_for(4 * ELECTION_TIMEOUT);
    assert_eq!(world.deployment.state(2), Some(MemberState::Syncing));
    assert_eq!(world.deployment.primary(), None);
    world.deployment.restart(world.now, 0);
    assert!(world.until_primary(3 * ELECTION_TIMEOUT).is_some());
    world.run_for(Duration::from_secs(15));
    assert_eq!(world.deployment.state(2), Some(MemberState::Secondary));
}

#[test]
fn an_initial_sync_begins_anew_after_a_restart() {
    let (mut world, conn) = settled(true);
    assert_eq!(insert(&mut world, conn, doc! { "_id": 1 }), None);
    // By then the primary knows that all members have the document.
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.deployment.resync(world.now, 2), Ok(()));
    world.run_for(Duration::from_secs(4));
    world.deployment.kill(world.now, 2);
    world.deployment.restart(world.now, 2);
    world.run_for(Duration::from_secs(4));
    assert_eq!(world.deployment.state(2), Some(MemberState::Syncing));
    world.run_for(Duration::from_secs(6));
    assert_eq!(world.deployment.state(2), Some(MemberState::Secondary));
    assert_eq!(count(&world, 2), 1);
}

#[test]
fn data_that_the_set_needs_are_kept() {
    let (mut world, conn) = settled(true);
    assert!(
        world.deployment.resync(world.now, 0).is_err(),
        "the primary"
    );
    assert!(world.deployment.resync(world.now, 3).is_err(), "nobody");
    world.deployment.partition(world.now, &[1]);
    assert_eq!(insert(&mut world, conn, doc! { "_id": 1 }), None);
    let refused = world.deployment.resync(world.now, 2);
    assert!(refused.is_err(), "only this one and the primary have it");
    world.deployment.heal(world.now);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.deployment.resync(world.now, 2), Ok(()));
    let second = world.deployment.resync(world.now, 2);
    assert!(second.is_err(), "it has no data");
}
