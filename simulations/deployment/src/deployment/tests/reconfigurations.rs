//! Tests of changes of the configuration of a replica set.

use super::world::{World, send, set_of, with_primary};
use crate::deployment::{ConnId, MemberOptions, MemberState};
use bson::{Bson, Document, doc};
use std::time::Duration;

fn hello(world: &mut World, member: usize) -> Document {
    let conn = world.connect(member);
    send(world, conn, doc! { "hello": 1, "$db": "admin" })
}

fn config(world: &mut World, conn: ConnId) -> Document {
    let reply = send(world, conn, doc! { "replSetGetConfig": 1, "$db": "admin" });
    reply
        .get_document("config")
        .expect("a configuration")
        .clone()
}

/// Changes a member of a configuration.
fn change(config: &mut Document, member: usize, options: Document) {
    let version = config.get_i32("version").expect("a version");
    config.insert("version", version + 1);
    let members = config.get_array_mut("members").expect("members");
    let member = members[member].as_document_mut().expect("a member");
    member.extend(options);
}

#[test]
fn all_members_follow_a_new_configuration_and_awaited_hellos_are_answered() {
    let (mut world, primary, conn) = with_primary();
    let other = (primary + 1) % 3;
    let waiting = world.connect(primary);
    let seen = send(&mut world, waiting, doc! { "hello": 1, "$db": "admin" });
    let version = seen.get_document("topologyVersion").expect("a version");
    let awaited = doc! {
        "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 30_000, "$db": "admin",
    };
    world.send(waiting, &awaited);

    let mut new = config(&mut world, conn);
    let hidden = doc! { "priority": 0, "hidden": true, "tags": { "dc": "east" } };
    change(&mut new, other, hidden);
    let reply = send(
        &mut world,
        conn,
        doc! { "replSetReconfig": &new, "$db": "admin" },
    );
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let (_, _, answer) = world.reply(waiting).expect("the hello is answered");
    assert_eq!(answer.get_i32("setVersion").ok(), Some(2));
    new.insert("version", 10);
    send(
        &mut world,
        conn,
        doc! { "replSetReconfig": new, "$db": "admin" },
    );

    world.run_for(Duration::from_secs(5));
    for member in 0..3 {
        let hello = hello(&mut world, member);
        assert_eq!(hello.get_i32("setVersion").ok(), Some(10), "{member}");
        assert_eq!(
            hello.get_array("hosts").map(Vec::len).ok(),
            Some(2),
            "{member}"
        );
        assert_eq!(hello.get("hidden").is_some(), member == other);
        let tags = hello.get_document("tags").ok();
        assert_eq!(tags.is_some(), member == other);
    }
}

#[test]
fn a_configuration_that_nobody_got_is_lost_with_its_primary() {
    let mut world = World::new(set_of(3), 1);
    world.run_for(Duration::from_secs(5));
    world.deployment.partition(world.now, &[0]);
    let hidden = MemberOptions {
        priority: 0,
        hidden: true,
        ..MemberOptions::default()
    };
    let changed = world.deployment.reconfigure(world.now, 1, hidden);
    assert_eq!(changed, Ok(()));
    assert_eq!(hello(&mut world, 0).get_i32("setVersion").ok(), Some(2));
    world.run_for(Duration::from_secs(40));
    world.deployment.heal(world.now);
    world.run_for(Duration::from_secs(5));
    for member in 0..3 {
        let hello = hello(&mut world, member);
        assert_eq!(hello.get_i32("setVersion").ok(), Some(1), "{member}");
        assert_eq!(
            hello.get_array("hosts").map(Vec::len).ok(),
            Some(3),
            "{member}"
        );
    }
}

#[test]
fn a_member_of_a_higher_priority_is_elected_and_one_without_is_not() {
    let mut world = World::new(set_of(3), 1);
    world.run_for(Duration::from_secs(5));
    let of_priority = |priority| MemberOptions {
        priority,
        ..MemberOptions::default()
    };
    for (member, priority) in [(1, 0), (2, 5)] {
        let changed = world
            .deployment
            .reconfigure(world.now, member, of_priority(priority));
        assert_eq!(changed, Ok(()));
    }
    world.run_for(Duration::from_secs(5));
    world.deployment.kill(world.now, 0);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    assert_eq!(primary, 2);
    world.deployment.restart(world.now, 0);
    world.run_for(Duration::from_secs(5));
    world.deployment.kill(world.now, 2);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    assert_eq!(primary, 0);
}

#[test]
fn configurations_that_are_not_possible_are_refused() {
    let (mut world, primary, conn) = with_primary();
    let other = (primary + 1) % 3;
    let mut refused = |code: i32, edit: &dyn Fn(&mut Document)| {
        let mut new = config(&mut world, conn);
        change(&mut new, other, doc! {});
        edit(&mut new);
        let reply = send(
            &mut world,
            conn,
            doc! { "replSetReconfig": &new, "$db": "admin" },
        );
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{new}: {reply}");
    };
    refused(103, &|new| drop(new.insert("version", 1)));
    refused(93, &|new| change(new, other, doc! { "votes": 0 }));
    refused(93, &|new| change(new, other, doc! { "arbiterOnly": true }));
    refused(103, &|new| {
        change(new, other, doc! { "arbiterOnly": true, "priority": 0 })
    });
    refused(93, &|new| change(new, other, doc! { "hidden": true }));
    refused(93, &|new| change(new, other, doc! { "priority": "high" }));
    refused(93, &|new| change(new, other, doc! { "priority": 1001 }));
    refused(238, &|new| change(new, other, doc! { "priority": 0.5 }));
    refused(93, &|new| change(new, other, doc! { "priority": -0.5 }));
    refused(93, &|new| change(new, other, doc! { "hidden": 1 }));
    refused(93, &|new| change(new, other, doc! { "tags": { "dc": 1 } }));
    refused(93, &|new| change(new, other, doc! { "votes": 2 }));
    refused(103, &|new| change(new, other, doc! { "_id": 7 }));
    refused(93, &|new| {
        change(new, other, doc! { "secondaryDelaySecs": 60_i64 })
    });
    refused(103, &|new| drop(new.insert("_id", "other")));
    refused(238, &|new| {
        drop(new.insert("settings", doc! { "chainingAllowed": false }))
    });
    refused(93, &|new| drop(new.insert("version", 1_i64 << 40)));
    refused(238, &|new| drop(new.insert("version", i32::MAX)));
    refused(238, &|new| drop(new.insert("version", i32::MAX - 999_999)));
    refused(103, &|new| change(new, primary, doc! { "priority": 0 }));
    refused(238, &|new| {
        change(new, other, doc! { "host": "elsewhere:27017" })
    });
    refused(103, &|new| drop(new.insert("members", Vec::<Bson>::new())));
    refused(238, &|new| {
        let members = new.get_array_mut("members").expect("members");
        members.push(Bson::from(doc! { "_id": 3, "host": "m3:27017" }));
    });

    let new = config(&mut world, conn);
    let on_secondary = world.connect(other);
    let command = doc! { "replSetReconfig": new, "$db": "admin" };
    let reply = send(&mut world, on_secondary, command);
    assert_eq!(reply.get_i32("code").ok(), Some(10107));
    let unchanged = hello(&mut world, primary);
    assert_eq!(unchanged.get_i32("setVersion").ok(), Some(1));
    world.deployment.kill(world.now, primary);
    let nobody = world
        .deployment
        .reconfigure(world.now, other, MemberOptions::default());
    assert!(nobody.is_err());
    assert_eq!(world.deployment.state(primary), Some(MemberState::Down));
}

#[test]
fn malformed_configurations_are_refused() {
    let (mut world, primary, conn) = with_primary();
    let right = config(&mut world, conn);
    let mut refused = |code: i32, force: bool, edit: &dyn Fn(&mut Document)| {
        let mut new = right.clone();
        change(&mut new, primary, doc! {});
        edit(&mut new);
        let command = doc! { "replSetReconfig": &new, "force": force, "$db": "admin" };
        let reply = send(&mut world, conn, command);
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{new}: {reply}");
    };
    for force in [false, true] {
        for field in ["_id", "version", "members"] {
            refused(93, force, &|new| drop(new.remove(field)));
            refused(14, force, &|new| drop(new.insert(field, doc! {})));
        }
        for version in [-5, 0] {
            refused(93, force, &|new| drop(new.insert("version", version)));
        }
        let first = |new: &mut Document, value: Bson| {
            let members = new.get_array_mut("members").expect("members");
            members[0] = value;
        };
        for value in [Bson::Null, Bson::from("m0:27017"), Bson::from(1)] {
            refused(14, force, &|new| first(new, value.clone()));
        }
        refused(93, force, &|new| first(new, doc! { "_id": 0 }.into()));
        refused(93, force, &|new| {
            first(new, doc! { "host": "m0:27017" }.into())
        });
        refused(14, force, &|new| {
            first(new, doc! { "_id": 0, "host": 1 }.into())
        });
    }
    let hello = hello(&mut world, primary);
    assert_eq!(hello.get_i32("setVersion").ok(), Some(1));
}
