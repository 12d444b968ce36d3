//! Reads of earlier data: `majority`, `snapshot` and `linearizable`.

use super::world::{World, with_primary};
use crate::deployment::ConnId;
use bson::{Bson, Document, Timestamp, doc};

fn insert(world: &mut World, conn: ConnId, id: i32, w: impl Into<Bson>) -> Document {
    let insert = doc! {
        "insert": "c", "documents": [{ "_id": id }], "writeConcern": { "w": w.into() }, "$db": "d",
    };
    world.send_command(conn, &insert).expect("a reply")
}

/// Returns the number of documents that a read finds, and its `atClusterTime`.
fn read(world: &mut World, conn: ConnId, concern: Document) -> (usize, Option<Timestamp>) {
    let find = doc! { "find": "c", "readConcern": concern, "$db": "d" };
    let reply = world.send_command(conn, &find).expect("a reply");
    let cursor = reply
        .get_document("cursor")
        .unwrap_or_else(|_| panic!("{reply}"));
    let batch = cursor.get_array("firstBatch").expect("a batch");
    (batch.len(), cursor.get_timestamp("atClusterTime").ok())
}

#[test]
fn a_majority_read_sees_only_what_a_majority_has() {
    let (mut world, primary, conn) = with_primary();
    insert(&mut world, conn, 1, "majority");
    world.deployment.partition(world.now, &[primary]);
    insert(&mut world, conn, 2, 1);
    assert_eq!(read(&mut world, conn, doc! { "level": "majority" }).0, 1);
    assert_eq!(read(&mut world, conn, doc! { "level": "local" }).0, 2);
    assert_eq!(read(&mut world, conn, doc! {}).0, 2);
}

#[test]
fn a_snapshot_read_sees_the_data_of_its_time_also_later() {
    let (mut world, _, conn) = with_primary();
    insert(&mut world, conn, 1, "majority");
    let (count, at) = read(&mut world, conn, doc! { "level": "snapshot" });
    assert_eq!(count, 1);
    let at = at.expect("a time");
    insert(&mut world, conn, 2, "majority");
    let drop = doc! { "drop": "c", "$db": "d" };
    world.send_command(conn, &drop).expect("a reply");
    let again = doc! { "level": "snapshot", "atClusterTime": at };
    assert_eq!(read(&mut world, conn, again), (1, Some(at)));
    assert_eq!(read(&mut world, conn, doc! { "level": "snapshot" }).0, 0);
    let distinct = doc! {
        "distinct": "c", "key": "_id", "$db": "d",
        "readConcern": { "level": "snapshot", "atClusterTime": at },
    };
    let reply = world.send_command(conn, &distinct).expect("a reply");
    assert_eq!(
        reply.get_array("values").map(Vec::len).ok(),
        Some(1),
        "{reply}"
    );
    assert_eq!(reply.get_timestamp("atClusterTime").ok(), Some(at));
}

#[test]
fn a_linearizable_read_waits_for_a_majority() {
    let (mut world, primary, conn) = with_primary();
    insert(&mut world, conn, 1, "majority");
    let level = doc! { "level": "linearizable" };
    assert_eq!(read(&mut world, conn, level.clone()).0, 1);
    world.deployment.partition(world.now, &[primary]);
    let find = doc! { "find": "c", "readConcern": level, "maxTimeMS": 500, "$db": "d" };
    let reply = world.send_command(conn, &find).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
}

#[test]
fn a_time_that_no_member_has_reached_is_refused() {
    let (mut world, _, conn) = with_primary();
    insert(&mut world, conn, 1, "majority");
    let inserted = insert(&mut world, conn, 2, "majority");
    let now = inserted.get_timestamp("operationTime").expect("a time");
    let after = Timestamp {
        time: now.time + 1000,
        increment: 1,
    };
    let mut find = doc! { "find": "c", "readConcern": { "afterClusterTime": after }, "$db": "d" };
    let reply = world.send_command(conn, &find).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(72), "{reply}");
    // The time of another member is known by gossip, and the read waits for it.
    find.insert("$clusterTime", doc! { "clusterTime": after });
    find.insert("maxTimeMS", 100);
    let reply = world.send_command(conn, &find).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
    // A time that no member can have is refused.
    let far = Timestamp {
        time: u32::MAX,
        increment: 1,
    };
    find.insert("$clusterTime", doc! { "clusterTime": far });
    let reply = world.send_command(conn, &find).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(205), "{reply}");
}

#[test]
fn a_majority_read_after_a_time_waits_until_a_majority_has_it() {
    let (mut world, primary, conn) = with_primary();
    insert(&mut world, conn, 1, "majority");
    world.deployment.partition(world.now, &[primary]);
    let reply = insert(&mut world, conn, 2, 1);
    let own = reply.get_timestamp("operationTime").expect("a time");
    let concern = doc! { "level": "majority", "afterClusterTime": own };
    let find = doc! { "find": "c", "readConcern": concern.clone(), "maxTimeMS": 100, "$db": "d" };
    let reply = world.send_command(conn, &find).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(50), "{reply}");
    world.deployment.heal(world.now);
    assert_eq!(read(&mut world, conn, concern).0, 2);
}

#[test]
fn a_snapshot_of_another_member_is_waited_for() {
    let (mut world, primary, conn) = with_primary();
    for id in 0..20 {
        insert(&mut world, conn, id, "majority");
        let at = read(&mut world, conn, doc! { "level": "snapshot" })
            .1
            .expect("a time");
        let other = world.connect((primary + 1) % 3);
        let find = doc! {
            "find": "c", "$readPreference": { "mode": "secondary" }, "$db": "d",
            "readConcern": { "level": "snapshot", "atClusterTime": at },
            "$clusterTime": { "clusterTime": at },
        };
        let reply = world.send_command(other, &find).expect("a reply");
        let cursor = reply
            .get_document("cursor")
            .unwrap_or_else(|_| panic!("{reply}"));
        let batch = cursor.get_array("firstBatch").expect("a batch");
        assert_eq!(i32::try_from(batch.len()).ok(), Some(id + 1));
    }
}

#[test]
fn a_snapshot_of_the_future_is_refused() {
    let (mut world, _, conn) = with_primary();
    let now = insert(&mut world, conn, 1, "majority");
    let now = now.get_timestamp("operationTime").expect("a time");
    let future = Timestamp {
        time: now.time + 3600,
        increment: 1,
    };
    let concern = doc! { "level": "snapshot", "atClusterTime": future };
    let find = doc! { "find": "c", "readConcern": concern, "$db": "d" };
    assert_eq!(code(&mut world, conn, &find), Some(72));
}

fn code(world: &mut World, conn: ConnId, command: &Document) -> Option<i32> {
    let reply = world.send_command(conn, command).expect("a reply");
    reply.get_i32("code").ok()
}

fn with(field: &str, value: Document) -> Document {
    doc! { "find": "c", field: value, "$db": "d" }
}

fn write(concern: Document) -> Document {
    doc! { "insert": "c", "documents": [{}], "writeConcern": concern, "$db": "d" }
}

#[test]
fn malformed_read_concerns_are_refused() {
    let (mut world, _, conn) = with_primary();
    let time = |time| Timestamp {
        time,
        increment: time,
    };
    let (some, zero) = (time(5), time(0));
    let read = |concern| with("readConcern", concern);
    let snapshot = |at| doc! { "level": "snapshot", "atClusterTime": at };
    let mut both = snapshot(some);
    both.insert("afterClusterTime", some);
    let majority = doc! { "level": "majority" };
    for (command, expected) in [
        (read(doc! { "afterClusterTime": 5 }), 14),
        (read(doc! { "afterClusterTime": zero }), 72),
        (read(snapshot(zero)), 72),
        (read(snapshot(some)), 239),
        (read(both), 72),
        (
            doc! { "insert": "c", "documents": [{}], "readConcern": &majority, "$db": "d" },
            72,
        ),
        (
            doc! { "listCollections": 1, "readConcern": &majority, "$db": "d" },
            72,
        ),
        (doc! { "find": "c", "maxTimeMS": 1.5, "$db": "d" }, 2),
    ] {
        assert_eq!(
            code(&mut world, conn, &command),
            Some(expected),
            "{command}"
        );
    }
    for command in [
        read(majority.clone()),
        doc! { "count": "c", "readConcern": majority, "$db": "d" },
    ] {
        assert_eq!(code(&mut world, conn, &command), None, "{command}");
    }
}

#[test]
fn write_concerns_are_refused_if_they_are_malformed_or_nothing_is_written() {
    let (mut world, _, conn) = with_primary();
    let aggregate = |stages: Vec<Document>| {
        doc! {
            "aggregate": "c", "pipeline": stages, "cursor": {}, "writeConcern": { "w": 1 },
            "$db": "d",
        }
    };
    for (command, expected) in [
        (with("writeConcern", doc! { "w": 1 }), Some(72)),
        (aggregate(Vec::new()), Some(72)),
        (write(doc! { "wtimeout": "x" }), Some(14)),
        (write(doc! { "j": "x" }), Some(14)),
        (write(doc! { "w": 1, "jj": true }), Some(40415)),
        (
            write(doc! { "w": "majority", "wtimeout": 5_000_i64, "j": 1 }),
            None,
        ),
        (aggregate(vec![doc! { "$out": "e" }]), None),
    ] {
        assert_eq!(code(&mut world, conn, &command), expected, "{command}");
    }
}

#[test]
fn malformed_read_preferences_are_refused() {
    let (mut world, _, conn) = with_primary();
    for (preference, expected) in [
        (doc! { "mode": "fastest" }, Some(9)),
        (doc! { "tags": [] }, Some(40414)),
        (doc! { "mode": 5 }, Some(14)),
        (doc! { "mode": "primary", "tags": [{ "a": "b" }] }, Some(2)),
        (doc! { "mode": "primary", "tags": [{}] }, None),
        (doc! { "mode": "nearest", "tags": [{ "a": "b" }] }, None),
    ] {
        let command = with("$readPreference", preference);
        assert_eq!(code(&mut world, conn, &command), expected, "{command}");
    }
}

#[test]
fn commands_that_read_no_data_take_the_level_local_only() {
    let (mut world, _, conn) = with_primary();
    for name in ["ping", "buildInfo", "serverStatus", "killSessions"] {
        for (level, is_refused) in [("majority", true), ("available", true), ("local", false)] {
            let value = if name == "killSessions" {
                Bson::Array(vec![])
            } else {
                1.into()
            };
            let command = doc! { name: value, "readConcern": { "level": level }, "$db": "admin" };
            let reply = world.send_command(conn, &command).expect("a reply");
            let expected = is_refused.then(|| {
                format!(
                    "Command {name} does not support {{ readConcern: {{ level: \"{level}\", \
                     provenance: \"clientSupplied\" }} }} :: caused by :: read concern not \
                     supported"
                )
            });
            assert_eq!(reply.get_str("errmsg").ok(), expected.as_deref(), "{reply}");
        }
    }
    let unknown = doc! { "nope": 1, "readConcern": { "level": "majority" }, "$db": "d" };
    assert_eq!(code(&mut world, conn, &unknown), Some(59));
}
