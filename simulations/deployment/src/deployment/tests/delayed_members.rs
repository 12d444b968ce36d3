//! Tests of delayed members.

use super::world::{World, send, set_of};
use crate::{
    deployment::{Deployment, DeploymentOptions, MemberOptions, ServerVersion, Shape},
    store::Namespace,
};
use bson::{Document, doc};
use onionskin_core::random::Seed;
use std::time::Duration;

const DELAY: Duration = Duration::from_secs(30);

fn delayed(priority: u32, delay: Duration) -> MemberOptions {
    MemberOptions {
        priority,
        delay,
        ..MemberOptions::default()
    }
}

/// Returns the options of a set whose third member is of this kind.
fn set_with(member: MemberOptions) -> DeploymentOptions {
    let mut options = set_of(3);
    if let Shape::ReplicaSet(set) = &mut options.shape {
        set.members[2] = member;
    }
    options
}

fn hello(world: &mut World, member: usize) -> Document {
    let conn = world.connect(member);
    send(world, conn, doc! { "hello": 1, "$db": "admin" })
}

/// Returns the time since the last write that a member has.
fn age(world: &mut World, member: usize) -> Duration {
    let hello = hello(world, member);
    let last = hello.get_document("lastWrite").expect("a last write");
    let written = last.get_datetime("lastWriteDate").expect("a date");
    let present = hello.get_datetime("localTime").expect("a date");
    let millis = present.timestamp_millis() - written.timestamp_millis();
    Duration::from_millis(u64::try_from(millis).expect("not in the future"))
}

fn count(world: &World, member: usize) -> usize {
    let store = world.deployment.store(member).expect("a member");
    let collection = store.collection(&Namespace::new("d", "c"));
    collection.map_or(0, |found| found.documents().count())
}

#[test]
fn a_delayed_member_is_behind_by_its_delay() {
    let mut world = World::new(set_with(delayed(0, DELAY)), 1);
    world.run_for(Duration::from_secs(5));
    let conn = world.connect(0);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    let inserted = send(&mut world, conn, insert);
    assert!(!inserted.contains_key("writeConcernError"), "{inserted}");
    world.run_for(Duration::from_secs(25));
    assert_eq!((count(&world, 1), count(&world, 2)), (1, 0));
    world.run_for(Duration::from_secs(20));
    assert_eq!(count(&world, 2), 1);
    assert!(age(&mut world, 1) < Duration::from_secs(13));
    let age = age(&mut world, 2);
    assert!(
        age >= DELAY && age < DELAY + Duration::from_secs(13),
        "{age:?}"
    );
    let shown = hello(&mut world, 2);
    assert_eq!(shown.get_i64("secondaryDelaySecs").ok(), Some(30));
    assert!(!hello(&mut world, 1).contains_key("secondaryDelaySecs"));
    world.deployment.check_members().expect("the same data");
}

#[test]
fn a_delayed_member_acknowledges_late() {
    let mut world = World::new(set_with(delayed(0, DELAY)), 1);
    world.run_for(Duration::from_secs(5));
    let conn = world.connect(0);
    let all = doc! {
        "insert": "c", "documents": [{ "_id": 1 }],
        "writeConcern": { "w": 3, "wtimeout": 5_000 },
    };
    let inserted = send(&mut world, conn, all);
    let error = inserted.get_document("writeConcernError").expect("late");
    assert_eq!(error.get_i32("code").ok(), Some(64));
    // The delayed member is needed for a majority.
    world.deployment.kill(world.now, 1);
    let before = world.now;
    let majority = doc! {
        "insert": "c", "documents": [{ "_id": 2 }], "writeConcern": { "w": "majority" },
    };
    let inserted = send(&mut world, conn, majority);
    assert!(!inserted.contains_key("writeConcernError"), "{inserted}");
    let took = world.now - before;
    assert!(
        took >= DELAY && took < DELAY + Duration::from_secs(5),
        "{took:?}"
    );
    assert_eq!(world.deployment.primary(), Some(0), "a majority answers");
}

#[test]
fn a_delay_has_the_name_of_its_release() {
    let mut options = set_with(delayed(0, DELAY));
    options.version = ServerVersion::named("4.4").expect("it is known");
    let mut world = World::new(options, 1);
    let shown = hello(&mut world, 2);
    assert_eq!(shown.get_i64("slaveDelay").ok(), Some(30));
    assert!(!shown.contains_key("secondaryDelaySecs"));
}

#[test]
fn a_delay_needs_the_priority_0_and_whole_seconds() {
    for (priority, delay, reason) in [
        (
            1,
            DELAY,
            "priority must be 0 when secondaryDelaySecs is used",
        ),
        (0, Duration::from_millis(1_500), "a whole number of seconds"),
        (0, Duration::from_secs(31_622_401), "from 0 to 31622400"),
    ] {
        let options = set_with(delayed(priority, delay));
        let error = Deployment::new(options, &Seed::new([1; 32])).expect_err(reason);
        assert!(error.to_string().contains(reason), "{error}");
    }
    let options = set_with(delayed(0, Duration::from_secs(31_622_400)));
    assert!(Deployment::new(options, &Seed::new([1; 32])).is_ok());
}

#[test]
fn a_delay_changes_while_the_set_runs() {
    let mut world = World::new(set_of(3), 1);
    world.run_for(Duration::from_secs(5));
    let conn = world.connect(0);
    let changed = world
        .deployment
        .reconfigure(world.now, 2, delayed(0, DELAY));
    assert_eq!(changed, Ok(()));
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    send(&mut world, conn, insert);
    world.run_for(Duration::from_secs(15));
    assert_eq!((count(&world, 1), count(&world, 2)), (1, 0));
    let get = doc! { "replSetGetConfig": 1, "$db": "admin" };
    let reply = send(&mut world, conn, get);
    let mut config = reply.get_document("config").expect("it").clone();
    config.insert("version", 3);
    let members = config.get_array_mut("members").expect("members");
    let member = members[2].as_document_mut().expect("a member");
    assert_eq!(member.insert("secondaryDelaySecs", 0), Some(30_i64.into()));
    let command = doc! { "replSetReconfig": config, "$db": "admin" };
    let reply = send(&mut world, conn, command);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    world.run_for(Duration::from_secs(5));
    assert_eq!(count(&world, 2), 1);
}
