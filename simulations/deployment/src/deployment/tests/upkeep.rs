//! Tests of the changes between two tests.

use super::{
    connection_rate_limit::limited,
    world::{World, send, set_of, standalone, with_primary},
};
use crate::{
    deployment::{DeploymentOptions, MemberState},
    store::Namespace,
};
use bson::{Document, doc};
use onionskin_core::address::Address;
use std::time::Duration;

fn restore(world: &mut World) {
    world.deployment.restore(world.now);
    world.drain();
}

fn fail_point(name: &str, mut data: Document) -> Document {
    data.insert("failCommands", [name]);
    doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data, "$db": "admin" }
}

#[test]
fn a_delayed_request_ends_before_the_data_is_dropped() {
    let (mut world, conn) = standalone();
    let data = doc! { "blockConnection": true, "blockTimeMS": 30_000 };
    send(&mut world, conn, fail_point("insert", data));
    world.send(
        conn,
        &doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" },
    );
    assert!(world.reply(conn).is_none());
    restore(&mut world);
    assert!(world.reply(conn).is_some());
    assert!(world.deployment.drop_data(world.now));
    world.run_for(Duration::from_secs(60));
    let count = send(&mut world, conn, doc! { "count": "c" });
    assert_eq!(count.get_i32("n").ok(), Some(0));
}

#[test]
fn connections_that_wait_for_a_token_are_admitted() {
    let (mut world, _) = limited();
    let [_, _, queued] = [(); 3].map(|()| world.connect(0));
    world.send(queued, &doc! { "ping": 1, "$db": "admin" });
    assert!(world.reply(queued).is_none());
    restore(&mut world);
    assert!(world.reply(queued).is_some());
}

#[test]
fn routers_forget_cursors_and_keep_the_list_of_shards() {
    let mut world = World::new(DeploymentOptions::sharded(vec![Address::tcp("r", 1)]), 1);
    let conn = world.connect(0);
    let documents: Vec<_> = (0..9).map(|id| doc! { "_id": id }).collect();
    let inserted = world
        .deployment
        .insert(world.now, &Namespace::new("d", "c"), &documents);
    assert_eq!(inserted, Ok(true));
    let shards = doc! { "find": "shards", "$db": "config" };
    let before = send(&mut world, conn, shards.clone());
    send(
        &mut world,
        conn,
        doc! { "create": "other", "$db": "config" },
    );
    let find = send(&mut world, conn, doc! { "find": "c", "batchSize": 2 });
    let cursor = find.get_document("cursor").expect("a cursor");
    let cursor = cursor.get_i64("id").expect("its id");
    restore(&mut world);
    assert!(world.deployment.drop_data(world.now));
    let more = send(
        &mut world,
        conn,
        doc! { "getMore": cursor, "collection": "c" },
    );
    assert_eq!(more.get_i32("code").ok(), Some(43), "{more}");
    let after = send(&mut world, conn, shards);
    let batch = |reply: &Document| reply.get_document("cursor").expect("a cursor").clone();
    assert_eq!(batch(&before), batch(&after));
    assert_eq!(
        send(&mut world, conn, doc! { "count": "c" })
            .get_i32("n")
            .ok(),
        Some(0)
    );
    let others = send(&mut world, conn, doc! { "count": "other", "$db": "config" });
    assert_eq!(others.get_i32("n").ok(), Some(0));
}

#[test]
fn changes_of_users_are_undone() {
    let (mut world, conn) = standalone();
    let create = doc! { "createUser": "eve", "pwd": "apple", "roles": [] };
    for _ in 0..2 {
        let created = send(&mut world, conn, create.clone());
        assert_eq!(created.get_f64("ok").ok(), Some(1.0), "{created}");
        restore(&mut world);
    }
}

#[test]
fn members_that_have_stepped_down_can_be_elected_again() {
    let (mut world, _, _) = with_primary();
    let start = world.now;
    for _ in 0..4 {
        restore(&mut world);
        world
            .until_primary(Duration::from_secs(60))
            .expect("a primary");
        assert!(world.deployment.step_down(world.now));
        world.run_for(Duration::from_secs(1));
    }
    assert!(
        world.now - start < Duration::from_secs(55),
        "{:?}",
        world.now - start
    );
}

/// A member that shuts down refuses hellos for a time and then ends.
#[test]
fn a_member_that_shuts_down_goes_on() {
    let (mut world, primary, _) = with_primary();
    let other = (primary + 1) % 3;
    world.deployment.shut_down(world.now, other);
    world.run_for(Duration::from_secs(1));
    restore(&mut world);
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.deployment.state(other), Some(MemberState::Secondary));
    let conn = world.connect(other);
    assert_eq!(
        send(&mut world, conn, doc! { "hello": 1 })
            .get_f64("ok")
            .ok(),
        Some(1.0)
    );
}

/// Without a majority of members with data no entry becomes one of the majority.
#[test]
fn members_are_level_also_without_a_majority_that_holds_data() {
    let mut options = set_of(3);
    if let crate::deployment::Shape::ReplicaSet(set) = &mut options.shape {
        set.members[2] = crate::deployment::MemberOptions::arbiter();
    }
    let mut world = World::new(options, 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let other = 1 - primary;
    for (killed, id) in [(false, 1), (true, 2)] {
        if killed {
            world.deployment.kill(world.now, other);
            world.run_for(Duration::from_secs(1));
        }
        let name = Namespace::new("d", "c");
        let inserted = world
            .deployment
            .insert(world.now, &name, &[doc! { "_id": id }]);
        assert_eq!(inserted, Ok(true), "the arbiter's vote keeps the primary");
        assert_eq!(
            world.deployment.is_level(),
            killed,
            "the secondary lacks the entry"
        );
        world.run_for(Duration::from_secs(5));
        assert!(world.deployment.is_level());
    }
    restore(&mut world);
    assert!(!world.deployment.is_level());
    world.run_for(Duration::from_secs(30));
    let progress: Vec<_> = (0..3)
        .map(|member| world.deployment.progress(member))
        .collect();
    assert!(
        world.deployment.is_level(),
        "{progress:?} {:?}",
        world.events
    );
}
