//! Tests of wall clocks that jump.

use super::world::{World, send, set_of, with_primary};
use crate::deployment::MemberEvent;
use bson::{DateTime, Document, Timestamp, doc};
use onionskin_core::time::Instant;
use std::time::Duration;

const HOUR_MILLIS: i64 = 3_600_000;

const LIMIT: Duration = Duration::from_secs(60);

/// Returns by how many milliseconds a member's `localTime` is ahead of the right time.
fn ahead(world: &mut World, member: usize) -> i64 {
    let conn = world.connect(member);
    let hello = send(world, conn, doc! { "hello": 1, "$db": "admin" });
    let local = hello.get_datetime("localTime").expect("a time");
    let passed = i64::try_from((world.now - Instant::ZERO).as_millis()).expect("a short run");
    let start = world.deployment.options().started_at.as_unix_millis();
    local.timestamp_millis() - start.cast_signed() - passed
}

/// Inserts a document and returns the cluster time of the write.
fn insert(world: &mut World, member: usize) -> Timestamp {
    let conn = world.connect(member);
    let insert = doc! { "insert": "c", "documents": [{}], "writeConcern": { "w": 1 } };
    let reply = send(world, conn, insert);
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    reply.get_timestamp("operationTime").expect("a time")
}

fn last_write(world: &mut World, member: usize) -> DateTime {
    let conn = world.connect(member);
    let hello = send(world, conn, doc! { "hello": 1, "$db": "admin" });
    let last = hello.get_document("lastWrite").expect("the last write");
    *last.get_datetime("lastWriteDate").expect("a time")
}

#[test]
fn the_clock_of_one_member_jumps_and_stays_so_when_it_starts_again() {
    let (mut world, primary, _) = with_primary();
    let other = (primary + 1) % 3;
    world.deployment.jump_clock(world.now, primary, HOUR_MILLIS);
    world
        .deployment
        .jump_clock(world.now, other, -2 * HOUR_MILLIS);
    // There is no such member.
    world.deployment.jump_clock(world.now, 3, HOUR_MILLIS);
    assert_eq!(ahead(&mut world, primary), HOUR_MILLIS);
    assert_eq!(ahead(&mut world, other), -2 * HOUR_MILLIS);
    assert_eq!(ahead(&mut world, (primary + 2) % 3), 0);
    world.deployment.kill(world.now, other);
    world.deployment.restart(world.now, other);
    assert_eq!(ahead(&mut world, other), -2 * HOUR_MILLIS);
    world.deployment.restore(world.now);
    for member in 0..3 {
        assert_eq!(ahead(&mut world, member), 0, "member {member}");
    }
}

#[test]
fn cluster_times_increase_while_the_clock_of_the_primary_goes_back() {
    let (mut world, primary, _) = with_primary();
    let mut last = insert(&mut world, primary);
    for millis in [HOUR_MILLIS, -3 * HOUR_MILLIS, -60_000, 5 * HOUR_MILLIS] {
        let dates = [last_write(&mut world, primary), {
            world.deployment.jump_clock(world.now, primary, millis);
            let next = insert(&mut world, primary);
            assert!(next > last, "{next:?} comes after {last:?}");
            last = next;
            last_write(&mut world, primary)
        }];
        let [before, after] = dates.map(DateTime::timestamp_millis);
        // The date of a write is that of the wall clock, which goes back.
        assert_eq!((after - before).signum(), millis.signum(), "{millis}");
    }
}

#[test]
fn the_next_primary_gives_later_times_than_a_primary_whose_clock_was_ahead() {
    let (mut world, primary, _) = with_primary();
    world.deployment.jump_clock(world.now, primary, HOUR_MILLIS);
    // The write is lost, but its client has seen its time.
    world.deployment.partition(world.now, &[primary]);
    let seen = insert(&mut world, primary);
    world.deployment.kill(world.now, primary);
    let (next, _) = world.until_primary(LIMIT).expect("another primary");
    assert_ne!(next, primary);
    let conn = world.connect(next);
    let find = doc! {
        "find": "c", "readConcern": { "afterClusterTime": seen },
        "$clusterTime": { "clusterTime": seen }, "maxTimeMS": 1000,
    };
    let reply: Document = send(&mut world, conn, find);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let read = reply.get_timestamp("operationTime").expect("a time");
    assert!(read >= seen, "{read:?} and {seen:?}");
    assert!(insert(&mut world, next) > read);
}

#[test]
fn cluster_times_increase_after_the_largest_jumps() {
    let (mut world, primary, _) = with_primary();
    let mut last = insert(&mut world, primary);
    for millis in [i64::MAX, i64::MIN, i64::MAX, i64::MAX, 0] {
        world.deployment.jump_clock(world.now, primary, millis);
        let next = insert(&mut world, primary);
        assert!(next > last, "{next:?} comes after {last:?}");
        last = next;
    }
}

#[test]
fn cluster_times_do_not_go_back_after_a_rollback() {
    let (mut world, primary, _) = with_primary();
    world.deployment.jump_clock(world.now, primary, HOUR_MILLIS);
    world.deployment.partition(world.now, &[primary]);
    let seen = insert(&mut world, primary);
    world.run_for(Duration::from_secs(15));
    let (next, _) = world.until_primary(LIMIT).expect("another primary");
    assert_ne!(next, primary);
    world.deployment.heal(world.now);
    world.run_for(Duration::from_secs(30));
    let is_rollback = |event: &MemberEvent| matches!(event, MemberEvent::RolledBack { .. });
    let has_rolled_back = world.events.iter().any(|(_, event)| is_rollback(event));
    assert!(has_rolled_back);
    assert_eq!(world.deployment.primary(), Some(next));
    assert!(insert(&mut world, next) > seen);
}

#[test]
fn members_learn_the_times_of_a_clock_that_was_ahead_from_each_other() {
    let (mut world, primary, _) = with_primary();
    world.deployment.jump_clock(world.now, primary, HOUR_MILLIS);
    world.deployment.partition(world.now, &[primary]);
    let seen = insert(&mut world, primary);
    world.deployment.kill(world.now, primary);
    let (next, _) = world.until_primary(LIMIT).expect("another primary");
    let secondary = (0..3).find(|member| ![primary, next].contains(member));
    let conn = world.connect(secondary.expect("there are three"));
    let ping = doc! { "ping": 1, "$clusterTime": { "clusterTime": seen } };
    send(&mut world, conn, ping);
    // It takes an exchange of messages between the secondary and the primary.
    world.run_for(Duration::from_secs(12));
    assert!(insert(&mut world, next) > seen);
}

#[test]
fn documents_expire_early_after_a_jump_forward() {
    let mut world = World::new(set_of(3), 1);
    let (primary, _) = world.until_primary(LIMIT).expect("a primary");
    let conn = world.connect(primary);
    let now = world.deployment.options().started_at.as_unix_millis();
    let at = DateTime::from_millis(now.cast_signed());
    let index = doc! { "key": { "at": 1 }, "name": "at_1", "expireAfterSeconds": 3600 };
    send(
        &mut world,
        conn,
        doc! { "createIndexes": "c", "indexes": [index] },
    );
    send(
        &mut world,
        conn,
        doc! { "insert": "c", "documents": [{ "at": at }] },
    );
    let count = |world: &mut World| {
        world.run_for(Duration::from_secs(65));
        let reply = send(world, conn, doc! { "count": "c" });
        reply.get_i32("n").ok()
    };
    assert_eq!(count(&mut world), Some(1));
    world.deployment.jump_clock(world.now, primary, HOUR_MILLIS);
    assert_eq!(count(&mut world), Some(0));
}
