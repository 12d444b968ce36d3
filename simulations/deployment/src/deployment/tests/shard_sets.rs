//! Shards of three members behind a router, outside of transactions.

use super::{
    parts::go_on,
    world::{World, send},
};
use crate::deployment::{ConnId, DeploymentOptions, MemberEvent, MemberState};
use bson::{Binary, Document, doc, spec::BinarySubtype};
use onionskin_core::address::Address;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Makes a world of a router and two shards of three members, and a connection to the router. The
/// databases `left` and `right` are on different shards.
fn cluster() -> (World, ConnId) {
    let mut options = DeploymentOptions::sharded(vec![Address::tcp("router", 27017)]);
    (options.shards, options.shard_members) = (2, 3);
    options.shard_election_timeout = 2 * SECOND;
    options.network.min_latency = Duration::from_millis(1);
    options.network.max_latency = Duration::from_millis(20);
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    world.run_for(SECOND);
    (world, conn)
}

fn send_to(world: &mut World, conn: ConnId, database: &str, mut command: Document) -> Document {
    command.insert("$db", database);
    send(world, conn, command)
}

fn insert(id: i32) -> Document {
    doc! { "insert": "c", "documents": [{ "_id": id }] }
}

/// Returns an insert that is a retryable write.
fn retryable(id: i32) -> Document {
    let session = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![1; 16],
    };
    let mut insert = insert(id);
    insert.extend(doc! { "lsid": { "id": session }, "txnNumber": i64::from(id) });
    insert
}

fn primary(world: &World, shard: usize) -> usize {
    world.deployment.primary_of_shard(shard).expect("a primary")
}

fn others(world: &World, shard: usize) -> Vec<usize> {
    let primary = primary(world, shard);
    let places = world.deployment.places_of_shard(shard);
    places.filter(|place| *place != primary).collect()
}

#[track_caller]
fn succeed(reply: &Document) {
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
}

fn count(world: &mut World, conn: ConnId, mode: &str) -> Option<i32> {
    let count = doc! { "count": "c", "$readPreference": { "mode": mode } };
    send_to(world, conn, "left", count).get_i32("n").ok()
}

/// Runs until the members of each shard have the same data. A primary can have written an entry
/// just now, because it does so every 10 s.
pub(super) fn catch_up(world: &mut World) {
    for _ in 0..100 {
        if world.deployment.is_level() {
            return;
        }
        world.run_for(Duration::from_millis(10));
    }
    panic!("the members have not caught up");
}

/// Compares the members of each shard after some time.
fn check(world: &mut World) {
    world.run_for(30 * SECOND);
    catch_up(world);
    world.deployment.check_members().expect("equal members");
}

#[test]
fn each_shard_elects_another_primary_after_a_step_down() {
    let (mut world, conn) = cluster();
    succeed(&send_to(&mut world, conn, "left", insert(1)));
    let old = primary(&world, 0);
    assert_eq!((old, primary(&world, 1)), (1, 4));
    assert!(world.deployment.step_down_shard(world.now, 0));
    succeed(&send_to(&mut world, conn, "left", insert(2)));
    let new = primary(&world, 0);
    assert_ne!(new, old);
    assert_eq!(primary(&world, 1), 4, "the other shard goes on");
    let elected = MemberEvent::Elected {
        member: new,
        term: 2,
    };
    assert!(world.events.iter().any(|(_, event)| *event == elected));
    assert_eq!(count(&mut world, conn, "primary"), Some(2));
    check(&mut world);
}

#[test]
fn acknowledged_writes_survive_the_end_of_a_primary() {
    let (mut world, conn) = cluster();
    for id in 0..20 {
        succeed(&send_to(&mut world, conn, "left", insert(id)));
    }
    let old = primary(&world, 0);
    world.deployment.kill(world.now, old);
    world.drain();
    let before = world.now;
    succeed(&send_to(&mut world, conn, "left", insert(20)));
    assert!(
        world.now - before >= SECOND,
        "the router waited for an election"
    );
    assert_ne!(primary(&world, 0), old);
    assert_eq!(count(&mut world, conn, "primary"), Some(21));
    world.deployment.restart(world.now, old);
    world.drain();
    check(&mut world);
    assert_eq!(world.deployment.state(old), Some(MemberState::Secondary));
    let store = world.deployment.store(old).expect("a member");
    let name = crate::store::Namespace::new("left", "c");
    let documents = store.collection(&name).expect("it has the collection");
    assert_eq!(documents.documents().count(), 21);
}

#[test]
fn a_router_repeats_a_retryable_write_whose_primary_ends() {
    let (mut world, conn) = cluster();
    for (id, is_retryable) in [(1, true), (2, false)] {
        let old = primary(&world, 0);
        let mut command = match is_retryable {
            true => retryable(id),
            false => insert(id),
        };
        command.insert("$db", "left");
        // The write waits for its majority when the primary ends.
        world.send(conn, &command);
        assert!(world.reply(conn).is_none(), "it waits");
        world.deployment.kill(world.now, old);
        world.drain();
        world.run_for(10 * SECOND);
        let (_, _, reply) = world.reply(conn).expect("a reply");
        match is_retryable {
            true => succeed(&reply),
            false => assert_eq!(reply.get_i32("code").ok(), Some(6), "{reply}"),
        }
        world.deployment.restart(world.now, old);
        world.drain();
        world.run_for(10 * SECOND);
    }
    check(&mut world);
}

#[test]
fn a_large_write_that_jobs_forward_is_repeated_at_the_next_primary() {
    // The decoding and the forwarding on the router, and the decoding on the shard.
    for jobs in 0..=3 {
        let (mut world, conn) = cluster();
        world.deployment.run_jobs();
        let old = primary(&world, 0);
        let document = |n: i32| doc! { "_id": n, "text": "x".repeat(150) };
        let documents: Vec<Document> = (0..3000).map(document).collect();
        let mut write = retryable(1);
        write.insert("documents", documents);
        write.insert("$db", "left");
        world.send(conn, &write);
        for _ in 0..jobs {
            let job = world.deployment.poll_short_job().expect("a large message");
            world.deployment.handle_job_done(world.now, job.run());
            world.drain();
        }
        world.deployment.kill(world.now, old);
        world.drain();
        let mut steps = 0;
        let reply = loop {
            if let Some((_, _, reply)) = world.reply(conn) {
                break reply;
            }
            steps += 1;
            assert!(steps < 100_000, "the write goes on after {jobs} jobs");
            go_on(&mut world);
        };
        succeed(&reply);
        assert_eq!(reply.get_i32("n").ok(), Some(3000), "{jobs}: {reply}");
        assert_ne!(primary(&world, 0), old);
        assert_eq!(count(&mut world, conn, "primary"), Some(3000));
        assert!(world.closed.is_empty());
    }
}

#[test]
fn a_shard_without_a_primary_fails_after_the_patience_of_the_router() {
    let (mut world, conn) = cluster();
    succeed(&send_to(&mut world, conn, "left", insert(1)));
    world.deployment.kill_shard(world.now, 0);
    world.drain();
    let before = world.now;
    let reply = send_to(&mut world, conn, "left", insert(2));
    assert_eq!(reply.get_i32("code").ok(), Some(133), "{reply}");
    let text = "Could not find host matching read preference { mode: \"primary\" } for set shard0";
    assert_eq!(reply.get_str("errmsg").ok(), Some(text));
    assert_eq!(world.now - before, 20 * SECOND);
    let limited = doc! { "count": "c", "maxTimeMS": 1200 };
    let reply = send_to(&mut world, conn, "left", limited);
    assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
    succeed(&send_to(&mut world, conn, "right", insert(1)));
    world.deployment.restart_shard(world.now, 0);
    world.drain();
    assert_eq!(count(&mut world, conn, "primary"), Some(1));
    assert!(world.closed.is_empty());
}

#[test]
fn reads_go_to_members_that_suit_their_read_preference() {
    let (mut world, conn) = cluster();
    succeed(&send_to(&mut world, conn, "left", insert(1)));
    world.run_for(5 * SECOND);
    let (primary, secondaries) = (primary(&world, 0), others(&world, 0));
    for secondary in &secondaries {
        world.deployment.cut(world.now, primary, *secondary);
    }
    let mut write = insert(2);
    write.insert("writeConcern", doc! { "w": 1 });
    succeed(&send_to(&mut world, conn, "left", write));
    for (mode, seen) in [
        ("primary", 2),
        ("primaryPreferred", 2),
        ("secondary", 1),
        ("secondaryPreferred", 1),
    ] {
        assert_eq!(count(&mut world, conn, mode), Some(seen), "{mode}");
    }
    let mut nearest: Vec<_> = (0..3).map(|_| count(&mut world, conn, "nearest")).collect();
    nearest.sort_unstable();
    assert_eq!(nearest, [Some(1), Some(1), Some(2)], "each in turn");
    let tagged = doc! {
        "count": "c",
        "$readPreference": { "mode": "secondaryPreferred", "tags": [{ "dc": "east" }] },
    };
    let reply = send_to(&mut world, conn, "left", tagged);
    assert_eq!(
        reply.get_i32("n").ok(),
        Some(2),
        "only the primary: {reply}"
    );
}

#[test]
fn no_member_suits_tags() {
    let (mut world, conn) = cluster();
    for mode in ["secondary", "nearest"] {
        let tagged = doc! {
            "count": "c", "$readPreference": { "mode": mode, "tags": [{ "dc": "east" }] },
        };
        let reply = send_to(&mut world, conn, "left", tagged);
        assert_eq!(reply.get_i32("code").ok(), Some(133), "{reply}");
        let text = reply.get_str("errmsg").expect("a message");
        assert!(text.contains(&format!("{{ mode: \"{mode}\" }}")), "{text}");
    }
}

#[test]
fn a_read_that_waits_is_repeated_when_its_member_is_cut_off() {
    let (mut world, conn) = cluster();
    let primary = primary(&world, 0);
    let [near, far] = others(&world, 0)[..] else {
        panic!("two secondaries");
    };
    // The router reaches one secondary, which gets no further writes.
    world.deployment.cut(world.now, 0, far);
    world.deployment.cut(world.now, primary, near);
    let written = send_to(&mut world, conn, "left", insert(1));
    succeed(&written);
    let after = written.get_timestamp("operationTime").expect("a time");
    let count = doc! {
        "count": "c", "readConcern": { "afterClusterTime": after },
        "$readPreference": { "mode": "secondaryPreferred" }, "$db": "left",
    };
    world.send(conn, &count);
    world.run_for(SECOND);
    assert!(world.reply(conn).is_none(), "the secondary waits");
    world.deployment.cut(world.now, 0, near);
    world.drain();
    let (_, _, reply) = world.reply(conn).expect("the reply of the primary");
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
}

#[test]
fn a_cursor_stays_with_its_member() {
    let (mut world, conn) = cluster();
    for id in 0..3 {
        succeed(&send_to(&mut world, conn, "left", insert(id)));
    }
    world.run_for(5 * SECOND);
    for killed in [false, true] {
        let find = doc! {
            "find": "c", "batchSize": 1, "$readPreference": { "mode": "secondary" },
        };
        let found = send_to(&mut world, conn, "left", find);
        let id = found.get_document("cursor").and_then(|c| c.get_i64("id"));
        let id = id.expect("an open cursor");
        if killed {
            for secondary in others(&world, 0) {
                world.deployment.kill(world.now, secondary);
            }
            world.drain();
        }
        let more = doc! { "getMore": id, "collection": "c" };
        let more = send_to(&mut world, conn, "left", more);
        match killed {
            false => assert!(more.get_document("cursor").is_ok(), "{more}"),
            true => assert_eq!(more.get_i32("code").ok(), Some(6), "{more}"),
        }
    }
}

#[test]
fn cursors_are_closed_on_all_their_members() {
    let (mut world, conn) = cluster();
    let mut opened = Vec::new();
    for database in ["left", "right"] {
        for id in 0..3 {
            succeed(&send_to(&mut world, conn, database, insert(id)));
        }
        world.run_for(5 * SECOND);
        for _ in 0..2 {
            let find = doc! {
                "find": "c", "batchSize": 1, "$readPreference": { "mode": "secondary" },
            };
            let found = send_to(&mut world, conn, database, find);
            let id = found.get_document("cursor").and_then(|c| c.get_i64("id"));
            opened.push(id.expect("an open cursor"));
        }
    }
    let open = |world: &World| -> Vec<usize> {
        let members = world.deployment.members.iter();
        members.map(|member| member.open_cursors()).collect()
    };
    assert_eq!(open(&world), [4, 0, 1, 1, 0, 1, 1], "each in turn");
    let mut cursors = opened.clone();
    cursors.push(1234);
    let kill = doc! { "killCursors": "c", "cursors": cursors };
    let killed = send_to(&mut world, conn, "left", kill);
    succeed(&killed);
    let ids = |field: &str| -> Vec<i64> {
        let ids = killed.get_array(field).expect("an array").iter();
        ids.filter_map(bson::Bson::as_i64).collect()
    };
    let mut closed = ids("cursorsKilled");
    closed.sort_unstable();
    opened.sort_unstable();
    assert_eq!(closed, opened, "{killed}");
    assert_eq!(ids("cursorsNotFound"), [1234]);
    assert_eq!(open(&world), [0; 7]);
}

#[test]
fn writes_without_a_majority_are_rolled_back() {
    let (mut world, conn) = cluster();
    succeed(&send_to(&mut world, conn, "left", insert(1)));
    world.run_for(SECOND);
    let old = primary(&world, 0);
    for other in others(&world, 0) {
        world.deployment.cut(world.now, old, other);
        world.deployment.cut(world.now, other, old);
    }
    let mut lost = insert(2);
    lost.insert("writeConcern", doc! { "w": 1 });
    succeed(&send_to(&mut world, conn, "left", lost));
    world.run_for(10 * SECOND);
    let new = primary(&world, 0);
    assert_ne!(new, old);
    succeed(&send_to(&mut world, conn, "left", insert(3)));
    world.deployment.heal(world.now);
    world.drain();
    check(&mut world);
    let rolled_back = world.events.iter().filter_map(|(_, event)| match event {
        MemberEvent::RolledBack { member, .. } => Some(*member),
        _ => None,
    });
    assert!(rolled_back.collect::<Vec<_>>().contains(&old));
    assert_eq!(count(&mut world, conn, "primary"), Some(2));
}

#[test]
fn a_router_does_not_use_a_primary_of_an_earlier_term() {
    let (mut world, conn) = cluster();
    world.deployment.members[0].note_known_term(0, 2);
    let limited = doc! { "count": "c", "maxTimeMS": 700 };
    let reply = send_to(&mut world, conn, "left", limited);
    assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
    assert!(world.deployment.step_down_shard(world.now, 0));
    world.drain();
    assert_eq!(count(&mut world, conn, "primary"), Some(0));
}

#[test]
fn a_frozen_primary_is_replaced() {
    let (mut world, conn) = cluster();
    let old = primary(&world, 0);
    world.deployment.freeze(world.now, old, 30 * SECOND);
    succeed(&send_to(&mut world, conn, "left", insert(1)));
    assert_ne!(primary(&world, 0), old);
    world.run_for(30 * SECOND);
    check(&mut world);
}

#[test]
fn the_list_of_shards_has_all_members() {
    let (mut world, conn) = cluster();
    let reply = send_to(&mut world, conn, "admin", doc! { "listShards": 1 });
    let shards = reply.get_array("shards").expect("a list");
    let second = shards[1].as_document().expect("a document");
    let hosts = "shard1/shard:27021,shard:27022,shard:27023";
    assert_eq!(second.get_str("host").ok(), Some(hosts));
}

#[test]
fn numbers_of_members_that_shards_cannot_have_are_refused() {
    let mut options = DeploymentOptions::sharded(vec![Address::tcp("router", 27017)]);
    for members in [0, 8] {
        options.shard_members = members;
        let error = options.check().expect_err("too few or too many");
        assert!(error.to_string().contains("between 1 and 7"), "{error}");
    }
    (options.shards, options.shard_members) = (40, 3);
    let error = options.check().expect_err("too many");
    assert!(error.to_string().contains("100 members"), "{error}");
    let mut set = DeploymentOptions::replica_set("rs", vec![Address::tcp("m", 27017)]);
    set.shard_members = 3;
    let error = set.check().expect_err("a set has no shards");
    assert!(error.to_string().contains("routers"), "{error}");
}
