//! Tests of replica sets whose members differ in release, and of upgrades.

use super::world::{World, send, set_of};
use crate::deployment::{DeploymentOptions, MemberEvent, MemberOptions, ServerVersion, Shape};
use bson::{Document, doc};
use std::time::Duration;

fn named(release: &str) -> ServerVersion {
    ServerVersion::named(release).expect("it is known")
}

/// Returns the options of a set whose members have these releases.
fn set_with(releases: &[&str]) -> DeploymentOptions {
    let mut options = set_of(releases.len());
    if let Shape::ReplicaSet(set) = &mut options.shape {
        for (member, release) in set.members.iter_mut().zip(releases) {
            member.version = Some(named(release));
        }
    }
    options
}

/// Sends a command to a member on a new connection, and returns the reply.
fn ask(world: &mut World, member: usize, command: Document) -> Document {
    let conn = world.connect(member);
    send(world, conn, command)
}

fn code(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

fn wire_version(world: &mut World, member: usize) -> Option<i32> {
    let hello = ask(world, member, doc! { "hello": 1, "$db": "admin" });
    hello.get_i32("maxWireVersion").ok()
}

fn restart(world: &mut World, member: usize) {
    world.deployment.kill(world.now, member);
    world.run_for(Duration::from_secs(1));
    world.deployment.restart(world.now, member);
    world.drain();
}

#[test]
fn each_member_has_the_wire_version_and_the_commands_of_its_own_release() {
    let mut world = World::new(set_with(&["8.0", "7.0", "8.0"]), 1);
    world.run_for(Duration::from_secs(5));
    for (member, release, wire) in [(0, "8.0.", 25), (1, "7.0.", 21), (2, "8.0.", 25)] {
        assert_eq!(wire_version(&mut world, member), Some(wire), "{member}");
        let build = ask(&mut world, member, doc! { "buildInfo": 1, "$db": "admin" });
        let version = build.get_str("version").expect("a version");
        assert!(version.starts_with(release), "{member}: {version}");
        let bulk = doc! {
            "bulkWrite": 1, "ops": [{ "insert": 0, "document": {} }],
            "nsInfo": [{ "ns": "d.c" }], "$db": "admin",
        };
        let expected = match member {
            0 => None,
            1 => Some(59),
            _ => Some(10107),
        };
        let reply = ask(&mut world, member, bulk);
        assert_eq!(code(&reply), expected, "{member}: {reply}");
        let parameter = doc! {
            "getParameter": 1, "featureCompatibilityVersion": 1, "$db": "admin",
        };
        let reply = ask(&mut world, member, parameter);
        let compatible = reply.get_document("featureCompatibilityVersion");
        assert_eq!(compatible.ok(), Some(&doc! { "version": "7.0" }), "{reply}");
    }
}

#[test]
fn a_member_without_streaming_neither_sends_nor_accepts_a_topology_version() {
    let mut options = set_of(3);
    if let Shape::ReplicaSet(set) = &mut options.shape {
        set.members[1].streaming = false;
    }
    let mut world = World::new(options, 1);
    world.run_for(Duration::from_secs(5));
    let hello = doc! { "hello": 1, "$db": "admin" };
    let seen = ask(&mut world, 0, hello.clone());
    let version = seen.get_document("topologyVersion").expect("a version");
    for member in 0..3 {
        let reply = ask(&mut world, member, hello.clone());
        let streams = member != 1;
        assert_eq!(reply.contains_key("topologyVersion"), streams, "{reply}");
        let awaited = doc! {
            "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 1_000_i64, "$db": "admin",
        };
        let expected = if streams { None } else { Some(40415) };
        let reply = ask(&mut world, member, awaited);
        assert_eq!(code(&reply), expected, "{member}: {reply}");
    }
    let write = doc! { "insert": "c", "documents": [{}], "$db": "d" };
    for (member, has_version) in [(1, false), (2, true)] {
        let refused = ask(&mut world, member, write.clone());
        assert_eq!(code(&refused), Some(10107), "{refused}");
        assert_eq!(refused.contains_key("topologyVersion"), has_version);
    }
}

#[test]
fn releases_that_do_not_follow_each_other_are_refused() {
    for releases in [
        &["4.2", "4.4"] as &[&str],
        &["7.0", "8.0", "7.0"],
        &["8.0", "8.2"],
    ] {
        assert_eq!(set_with(releases).check(), Ok(()), "{releases:?}");
    }
    for releases in [
        &["4.2", "5.0"] as &[&str],
        &["7.0", "8.2"],
        &["6.0", "7.0", "8.0"],
    ] {
        let error = set_with(releases).check().expect_err("too far apart");
        assert!(error.to_string().contains("follow"), "{error}");
    }
    // The members without a release of their own have 7.0.
    let mut options = set_of(3);
    let Shape::ReplicaSet(set) = &mut options.shape else {
        unreachable!("it is a set");
    };
    set.members[2].version = Some(named("5.0"));
    let error = options.check().expect_err("too far apart");
    assert!(error.to_string().contains("follow"), "{error}");
    let mut options = set_with(&["7.0", "7.0"]);
    let Shape::ReplicaSet(set) = &mut options.shape else {
        unreachable!("it is a set");
    };
    set.members[1].version = Some(ServerVersion {
        release: [7, 4, 0],
        ..named("7.0")
    });
    let error = options.check().expect_err("an unknown release");
    assert!(error.to_string().contains("NAMES"), "{error}");
}

#[test]
fn an_upgrade_takes_effect_when_the_member_starts_again() {
    let mut world = World::new(set_with(&["6.0", "6.0", "6.0"]), 1);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.deployment.upgrade(1, named("7.0")), Ok(()));
    assert_eq!(wire_version(&mut world, 1), Some(17));
    restart(&mut world, 1);
    assert_eq!(wire_version(&mut world, 1), Some(21));
    assert_eq!(world.deployment.version(1), Some(named("7.0")));
    restart(&mut world, 2);
    assert_eq!(wire_version(&mut world, 2), Some(17));
    for (member, release, reason) in [
        (1, "7.0", "not later"),
        (1, "6.0", "not later"),
        (1, "8.0", "follow"),
        (3, "7.0", "no such member"),
    ] {
        let refused = world.deployment.upgrade(member, named(release));
        let refused = refused.expect_err(reason);
        assert!(refused.contains(reason), "{member}, {release}: {refused}");
    }
    // One release after the other.
    for member in [0, 2] {
        assert_eq!(world.deployment.upgrade(member, named("7.0")), Ok(()));
    }
    assert!(world.deployment.upgrade(1, named("8.0")).is_err());
    restart(&mut world, 0);
    restart(&mut world, 2);
    assert_eq!(world.deployment.upgrade(1, named("8.0")), Ok(()));
}

#[test]
fn a_set_that_began_with_an_old_release_is_not_reconfigured() {
    let mut world = World::new(set_with(&["6.0", "5.0", "6.0"]), 1);
    world.run_for(Duration::from_secs(5));
    let hidden = MemberOptions {
        priority: 0,
        hidden: true,
        ..MemberOptions::default()
    };
    let refused = world.deployment.reconfigure(world.now, 2, hidden);
    let refused = refused.expect_err("one is of 5.0");
    assert!(refused.contains("6.0"), "{refused}");
}

#[test]
fn a_member_that_copies_all_data_keeps_its_release() {
    let mut options = set_with(&["5.0", "5.0", "4.4"]);
    options.limits.max_oplog_entries = 5;
    let mut world = World::new(options, 1);
    world.run_for(Duration::from_secs(5));
    world.deployment.kill(world.now, 2);
    let conn = world.connect(0);
    for number in 0..50 {
        let insert = doc! { "insert": "c", "documents": [{ "_id": number, "a": true }] };
        send(&mut world, conn, insert);
        world.run_for(Duration::from_millis(100));
    }
    world.deployment.restart(world.now, 2);
    world.run_for(Duration::from_secs(60));
    let copied = MemberEvent::Resynced { member: 2 };
    assert!(world.events.iter().any(|(_, event)| *event == copied));
    for (member, expected) in [(1, None), (2, Some(168))] {
        let find = doc! {
            "find": "c", "filter": { "$expr": { "$getField": "a" } },
            "$readPreference": { "mode": "secondary" }, "$db": "d",
        };
        let reply = ask(&mut world, member, find);
        assert_eq!(code(&reply), expected, "{member}: {reply}");
    }
}
