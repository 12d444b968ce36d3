//! Tests of writes when members fail: which writes survive, and that a retried write is executed
//! once.

use super::world::{World, set_of};
use crate::deployment::DeploymentOptions;
use bson::{Binary, Document, doc, spec::BinarySubtype};
use onionskin_core::{
    address::Address,
    random::{Random, Seed},
};
use std::{collections::BTreeSet, time::Duration};

/// Inserts a document on a new connection. Returns true if a majority acknowledged it.
fn insert(world: &mut World, member: usize, id: i32, retry: i64) -> bool {
    let conn = world.connect(member);
    let session = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![9; 16],
    };
    let command = doc! {
        "insert": "c", "documents": [{ "_id": id }], "lsid": { "id": session }, "txnNumber": retry,
        "writeConcern": { "w": "majority", "wtimeout": 2000 }, "$db": "d",
    };
    let reply = world.send_command(conn, &command).unwrap_or_default();
    let complaint = reply.contains_key("writeConcernError") || reply.contains_key("writeErrors");
    reply.get_i32("n").ok() == Some(1) && !complaint
}

fn disturb(world: &mut World, random: &mut Random, members: usize) {
    let member = random.below(members as u64) as usize;
    match random.below(10) {
        0 | 1 => world.deployment.kill(world.now, member),
        2 | 3 => (0..members).for_each(|m| world.deployment.restart(world.now, m)),
        4 => world.deployment.partition(world.now, &[member]),
        5 => {
            let other = (member + 1) % members;
            world.deployment.cut(world.now, member, other);
        }
        6..=8 => world.deployment.heal(world.now),
        _ => {
            world.deployment.step_down(world.now);
        }
    }
    world.drain();
}

fn stored(world: &mut World, member: usize) -> BTreeSet<i32> {
    let conn = world.connect(member);
    let find = doc! {
        "find": "c", "batchSize": 100_000, "$readPreference": { "mode": "nearest" }, "$db": "d",
    };
    let reply = world.send_command(conn, &find).expect("an answer");
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch").expect("a batch");
    let documents = batch.iter().filter_map(|d| d.as_document());
    documents.filter_map(|d| d.get_i32("_id").ok()).collect()
}

/// Writes while members fail, and checks that each member ends with every acknowledged write.
/// Returns the number of acknowledged writes.
fn write_during_faults(seed: u8, members: usize) -> usize {
    let mut options = set_of(members);
    options.network.loss_per_mille = if seed.is_multiple_of(2) { 0 } else { 30 };
    // With only 4 entries, members can fall behind the oplog and then copy all data.
    options.limits.max_oplog_entries = if seed.is_multiple_of(3) { 4 } else { 10_000 };
    let mut world = World::new(options, seed);
    let mut random = Seed::new([seed; 32]).split("disturbances").random();
    let mut acknowledged = BTreeSet::new();
    for id in 0..120 {
        if random.chance(1, 4) {
            disturb(&mut world, &mut random, members);
        }
        // The chosen member can be a secondary or a stale primary, which must not acknowledge the
        // write.
        let member = match world.deployment.primary() {
            Some(primary) if random.chance(9, 10) => primary,
            _ => random.below(members as u64) as usize,
        };
        if insert(&mut world, member, id, i64::from(id)) {
            acknowledged.insert(id);
        }
        world.run_for(Duration::from_millis(random.below(1500)));
    }
    world.deployment.heal(world.now);
    for member in 0..members {
        world.deployment.restart(world.now, member);
    }
    assert!(
        world.until_primary(Duration::from_secs(120)).is_some(),
        "seed {seed}, {members} members: no primary after healing"
    );
    world.run_for(Duration::from_secs(30));
    let first = stored(&mut world, 0);
    let lost: Vec<_> = acknowledged.difference(&first).collect();
    assert!(
        lost.is_empty(),
        "seed {seed}, {members} members: lost {lost:?}"
    );
    for member in 1..members {
        let same = stored(&mut world, member) == first;
        assert!(
            same,
            "seed {seed}, {members} members: member {member} differs"
        );
    }
    acknowledged.len()
}

#[test]
fn no_majority_acknowledged_write_is_lost_after_kills_and_partitions() {
    let mut acknowledged = 0;
    for seed in 0..24 {
        acknowledged += write_during_faults(seed, 3) + write_during_faults(seed, 5);
    }
    assert!(acknowledged > 48 * 30, "not all was outage: {acknowledged}");
}

#[test]
fn a_retried_write_is_executed_once_even_after_a_failover() {
    let mut world = World::new(set_of(3), 1);
    world.run_for(Duration::from_secs(3));
    let session = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![1; 16],
    };
    let update = doc! {
        "update": "c",
        "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } }, "upsert": true }],
        "lsid": { "id": session }, "txnNumber": 5_i64, "$db": "d",
    };
    let without_times = |mut reply: Document| {
        let own = ["electionId", "opTime", "retriedStmtIds"];
        for key in ["$clusterTime", "operationTime"].into_iter().chain(own) {
            reply.remove(key);
        }
        reply
    };
    let conn = world.connect(0);
    let first = world.send_command(conn, &update).expect("done");
    world.deployment.kill(world.now, 0);
    let (primary, _) = world
        .until_primary(Duration::from_secs(30))
        .expect("elected");
    let conn = world.connect(primary);
    let again = world.send_command(conn, &update).expect("answered");
    assert_eq!(without_times(first), without_times(again));
    let mut older = update.clone();
    older.insert("txnNumber", 4_i64);
    let refused = world.send_command(conn, &older).expect("answered");
    assert_eq!(refused.get_i32("code").ok(), Some(225));
    let find = doc! { "find": "c", "$db": "d" };
    let found = world.send_command(conn, &find).expect("answered");
    let text = found.to_string();
    assert!(text.contains("\"n\": 1"), "incremented once: {text}");
}

#[test]
fn a_write_without_a_majority_is_rolled_back() {
    let mut world = World::new(set_of(3), 2);
    world.run_for(Duration::from_secs(3));
    world.deployment.partition(world.now, &[0]);
    let conn = world.connect(0);
    let insert = doc! {
        "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 1 }, "$db": "d",
    };
    world
        .send_command(conn, &insert)
        .expect("acknowledged by one");
    assert_eq!(stored(&mut world, 0).len(), 1);
    world.run_for(Duration::from_secs(30));
    world.deployment.heal(world.now);
    world.run_for(Duration::from_secs(10));
    assert_eq!(stored(&mut world, 0).len(), 0);
}

#[test]
fn a_single_member_accepts_writes_immediately_after_a_restart() {
    let address = || Address::tcp("s", 1);
    for options in [
        DeploymentOptions::standalone(address()),
        DeploymentOptions::replica_set("alone", vec![address()]),
    ] {
        let mut world = World::new(options, 1);
        world.deployment.kill(world.now, 0);
        world.deployment.restart(world.now, 0);
        let conn = world.connect(0);
        let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "db" };
        let reply = world.send_command(conn, &insert).expect("a reply");
        assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
        assert_eq!(world.now.as_nanos(), 0, "{reply}");
    }
}

#[test]
fn a_write_that_fails_because_of_the_data_waits_for_its_write_concern_as_well() {
    let mut world = World::new(set_of(3), 4);
    world.run_for(Duration::from_secs(5));
    let conn = world.connect(0);
    for name in ["a", "b"] {
        let create = doc! { "create": name, "$db": "d" };
        world.send_command(conn, &create).expect("a reply");
    }
    let rename = |concern: Document| {
        doc! { "renameCollection": "d.a", "to": "d.b", "writeConcern": concern, "$db": "admin" }
    };
    let code = |reply: &Document| {
        let concern = reply.get_document("writeConcernError").ok();
        let of_concern = concern.and_then(|concern| concern.get_i32("code").ok());
        (reply.get_i32("code").ok(), of_concern)
    };
    let mut send = |concern| world.send_command(conn, &rename(concern)).expect("a reply");
    assert_eq!(code(&send(doc! { "w": "majority" })), (Some(48), None));
    assert_eq!(code(&send(doc! { "w": 9 })), (Some(48), Some(100)));
    assert_eq!(code(&send(doc! { "w": "x" })), (Some(48), Some(79)));
    for member in [1, 2] {
        world.deployment.cut(world.now, 0, member);
    }
    let insert = doc! {
        "insert": "a", "documents": [{}], "writeConcern": { "w": 1 }, "$db": "d",
    };
    world.send_command(conn, &insert).expect("a reply");
    let late = doc! { "w": "majority", "wtimeout": 100 };
    let reply = world.send_command(conn, &rename(late)).expect("a reply");
    assert_eq!(code(&reply), (Some(48), Some(64)), "{reply}");
}
