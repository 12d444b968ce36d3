//! Cluster times and snapshots of several shards.

use super::{
    super::{batch, client, insert, succeed},
    committing, counts, one_document, shards, to, write_both,
};
use crate::deployment::tests::world::send;
use bson::{Document, doc};
use std::time::Duration;

fn in_snapshot(mut command: Document) -> Document {
    command.insert("readConcern", doc! { "level": "snapshot" });
    command
}

fn found(reply: &Document) -> usize {
    batch(reply).len()
}

#[test]
fn a_snapshot_has_the_whole_of_a_commit_or_nothing() {
    let snapshot = doc! { "level": "snapshot" };
    for at in (0..90).step_by(3) {
        let (mut world, conn, other) = shards();
        let (one, reader) = (client(conn, 1), client(other, 2));
        write_both(&mut world, one);
        let commit = one.part(doc! { "commitTransaction": 1, "$db": "admin" });
        world.send(conn, &commit);
        world.run_for(Duration::from_millis(at));
        let mut find = to("left", doc! { "find": "c" });
        find.insert("readConcern", snapshot.clone());
        let left = batch(&reader.start(&mut world, find)).len();
        world.run_for(Duration::from_millis(at));
        let right = to("right", doc! { "find": "c" });
        let right = batch(&reader.go_on(&mut world, right)).len();
        assert_eq!(left, right, "at {at} ms");
        succeed(&reader.commit(&mut world));
    }
}

#[test]
fn a_causal_read_on_another_shard_does_not_wait_for_a_write_there() {
    let (mut world, conn, _) = shards();
    for _ in 0..3 {
        succeed(&send(&mut world, conn, to("left", insert(&[doc! {}]))));
    }
    let written = send(&mut world, conn, to("left", one_document()));
    let after = written.get_timestamp("operationTime").expect("a time");
    let mut find = to("right", doc! { "find": "c" });
    find.insert("readConcern", doc! { "afterClusterTime": after });
    find.insert("$clusterTime", doc! { "clusterTime": after });
    let found = send(&mut world, conn, find);
    succeed(&found);
    let read = found.get_timestamp("operationTime").expect("a time");
    assert!(read >= after, "{read} is before {after}");
}

/// The database `east` is on the same shard as `left`.
#[test]
fn a_snapshot_that_begins_in_another_database_has_the_whole_of_a_commit() {
    for at in (0..90).step_by(3) {
        let (mut world, conn, other) = shards();
        let (one, reader) = (client(conn, 1), client(other, 2));
        write_both(&mut world, one);
        world.send(conn, &committing(one));
        world.run_for(Duration::from_millis(at));
        let first = in_snapshot(to("east", doc! { "find": "c" }));
        succeed(&reader.start(&mut world, first));
        world.run_for(Duration::from_millis(100));
        let right = found(&reader.go_on(&mut world, to("right", doc! { "find": "c" })));
        let left = found(&reader.go_on(&mut world, to("left", doc! { "find": "c" })));
        assert_eq!(left, right, "at {at} ms");
    }
}

#[test]
fn a_snapshot_outside_of_transactions_has_the_whole_of_a_commit_or_nothing() {
    for at in (0..90).step_by(3) {
        let (mut world, conn, other) = shards();
        let one = client(conn, 1);
        write_both(&mut world, one);
        world.send(conn, &committing(one));
        world.run_for(Duration::from_millis(at));
        let first = send(
            &mut world,
            other,
            in_snapshot(to("left", doc! { "find": "c" })),
        );
        let time = first
            .get_document("cursor")
            .and_then(|c| c.get_timestamp("atClusterTime"));
        world.run_for(Duration::from_millis(at));
        let mut second = to("right", doc! { "find": "c" });
        let concern = doc! { "level": "snapshot", "atClusterTime": time.expect("a time") };
        second.insert("readConcern", concern);
        let second = send(&mut world, other, second);
        assert_eq!(found(&first), found(&second), "at {at} ms");
    }
}

#[test]
fn a_snapshot_keeps_the_documents_of_a_commit_whose_record_numbers_were_in_use() {
    let (mut world, conn, other) = shards();
    let old = insert(&[doc! { "_id": "old" }]);
    succeed(&send(&mut world, other, to("left", old)));
    let one = client(conn, 1);
    write_both(&mut world, one);
    world.send(conn, &committing(one));
    // Shard 0 hears nothing, so that it cannot decide.
    world.deployment.cut(world.now, 3, 2);
    world.run_for(Duration::from_millis(50));
    let later = send(&mut world, other, to("east", one_document()));
    let time = later.get_timestamp("operationTime").expect("a time");
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": "old" }, "limit": 1 }] };
    succeed(&send(&mut world, other, to("left", delete)));
    world.deployment.heal(world.now);
    world.run_for(Duration::from_secs(2));
    assert_eq!(counts(&mut world, other), (1, 1));
    for (database, expected) in [("left", 2), ("right", 1)] {
        let mut find = to(database, doc! { "find": "c" });
        let concern = doc! { "level": "snapshot", "atClusterTime": time };
        find.insert("readConcern", concern);
        find.insert("$clusterTime", doc! { "clusterTime": time });
        let seen = found(&send(&mut world, other, find));
        // The commit has the time of its preparation, which was before.
        assert_eq!(seen, expected, "{database}");
    }
}

#[test]
fn cluster_times_grow_after_one_whose_increment_is_the_largest() {
    let (mut world, conn, _) = shards();
    let written = send(&mut world, conn, to("left", one_document()));
    let time = written.get_timestamp("operationTime").expect("a time").time;
    let largest = bson::Timestamp {
        time: time + 1000,
        increment: u32::MAX,
    };
    let mut last = largest;
    for id in 2..5 {
        let mut insert = to("left", insert(&[doc! { "_id": id }]));
        insert.insert("$clusterTime", doc! { "clusterTime": largest });
        let written = send(&mut world, conn, insert);
        let time = written.get_timestamp("operationTime").expect("a time");
        assert!(time > last, "{time} is not after {last}");
        last = time;
    }
}

#[test]
fn the_reply_to_a_commit_has_the_time_of_the_commit() {
    for (written, read) in [("left", "right"), ("right", "left")] {
        let (mut world, conn, _) = shards();
        let one = client(conn, 1);
        succeed(&one.start(&mut world, to(written, one_document())));
        succeed(&one.go_on(&mut world, to(read, doc! { "find": "c" })));
        let committed = one.commit(&mut world);
        let time = committed.get_timestamp("operationTime").expect("a time");
        let ping = send(&mut world, conn, to(written, doc! { "count": "c" }));
        assert_eq!(
            ping.get_timestamp("operationTime").ok(),
            Some(time),
            "{written}"
        );
    }
}
