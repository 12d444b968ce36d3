//! The commands that a transaction can have.

use super::{
    super::world::{World, send, set_of, with_primary},
    TRANSIENT, batch, check_members, client, fail, find_all, insert, lsid, seen, set, succeed,
};
use crate::deployment::{ConnId, ServerVersion};
use bson::doc;
use std::time::Duration;

/// Makes a world of three members of 8.0, which know `bulkWrite`, and a connection to the primary.
fn with_bulk_write() -> (World, ConnId) {
    let mut options = set_of(3);
    options.version = ServerVersion::named("8.0").expect("a version");
    let mut world = World::new(options, 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(primary);
    (world, conn)
}

#[test]
fn all_commands_on_documents_work() {
    let (mut world, conn) = with_bulk_write();
    let one = client(conn, 1);
    let documents = [doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": 2 }];
    succeed(&one.start(&mut world, insert(&documents)));
    let modify = doc! {
        "findAndModify": "c", "query": { "_id": 1 }, "update": { "$inc": { "n": 10 } },
        "new": true,
    };
    let reply = one.go_on(&mut world, modify);
    assert_eq!(
        reply.get_document("value").ok(),
        Some(&doc! { "_id": 1, "n": 11 })
    );
    let distinct = doc! { "distinct": "c", "key": "n" };
    let reply = one.go_on(&mut world, distinct);
    assert_eq!(
        reply.get_array("values").map(Vec::len).ok(),
        Some(2),
        "{reply}"
    );
    let bulk = doc! {
        "bulkWrite": 1, "nsInfo": [{ "ns": "d.c" }, { "ns": "d.other" }], "$db": "admin",
        "ops": [
            { "insert": 0, "document": { "_id": 3 } },
            { "insert": 1, "document": { "_id": 1 } },
            { "update": 0, "filter": { "_id": 2 }, "updateMods": { "$set": { "n": 0 } } },
        ],
    };
    let reply = one.go_on(&mut world, bulk);
    assert_eq!(reply.get_i32("nErrors").ok(), Some(0), "{reply}");
    let sum = doc! { "$group": { "_id": null, "sum": { "$sum": "$n" } } };
    let pipeline = doc! { "aggregate": "c", "pipeline": [sum], "cursor": {} };
    let reply = one.go_on(&mut world, pipeline);
    assert_eq!(batch(&reply)[0].get_i32("sum").ok(), Some(11), "{reply}");
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] };
    succeed(&one.go_on(&mut world, delete));
    succeed(&one.commit(&mut world));
    assert_eq!(
        seen(&mut world, conn),
        [doc! { "_id": 2, "n": 0 }, doc! { "_id": 3 }]
    );
    check_members(&mut world);
}

#[test]
fn a_failed_operation_of_bulk_write_aborts_the_transaction() {
    let (mut world, conn) = with_bulk_write();
    send(&mut world, conn, insert(&[doc! { "_id": 1 }]));
    let one = client(conn, 1);
    let bulk = doc! {
        "bulkWrite": 1, "nsInfo": [{ "ns": "d.c" }], "ordered": false, "$db": "admin",
        "ops": [
            { "insert": 0, "document": { "_id": 1 } },
            { "insert": 0, "document": { "_id": 3 } },
        ],
    };
    let reply = one.start(&mut world, bulk);
    assert_eq!(reply.get_i32("nErrors").ok(), Some(1), "{reply}");
    assert_eq!(reply.get_i32("nInserted").ok(), Some(0), "{reply}");
    fail(&one.commit(&mut world), 251, TRANSIENT);
}

#[test]
fn a_cursor_belongs_to_its_transaction() {
    let (mut world, _, conn) = with_primary();
    let documents: Vec<_> = (0..6).map(|id| doc! { "_id": id }).collect();
    send(&mut world, conn, insert(&documents));
    let one = client(conn, 1);
    let mut read = find_all();
    read.insert("batchSize", 2);
    let reply = one.start(&mut world, read.clone());
    let id_of = |reply: &bson::Document| {
        let cursor = reply.get_document("cursor").expect("a cursor");
        cursor.get_i64("id").expect("an id")
    };
    let id = id_of(&reply);
    succeed(&send(&mut world, conn, set(4, "a", 1)));
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 2 };
    let reply = one.go_on(&mut world, more.clone());
    assert_eq!(id_of(&reply), id, "{reply}");
    let mut outside = more.clone();
    outside.insert("lsid", lsid(1));
    fail(&send(&mut world, conn, outside), 50740, &[]);
    let reply = one.go_on(&mut world, more.clone());
    let cursor = reply.get_document("cursor").expect("a cursor");
    let last = cursor.get_array("nextBatch").expect("a batch");
    assert_eq!(
        last[0].as_document(),
        Some(&doc! { "_id": 4 }),
        "the snapshot"
    );
    succeed(&one.commit(&mut world));
    let mut after = more;
    after.insert("lsid", lsid(1));
    fail(&send(&mut world, conn, after), 43, &[]);
    read.insert("lsid", lsid(1));
    let reply = send(&mut world, conn, read);
    let more = doc! { "getMore": id_of(&reply), "collection": "c" };
    let two = one.numbered(2);
    succeed(&two.start(&mut world, find_all()));
    fail(&two.go_on(&mut world, more), 50739, &[]);
}

#[test]
fn collections_and_their_indexes_can_be_created() {
    let (mut world, _, conn) = with_primary();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, doc! { "create": "c" }));
    let index = doc! { "key": { "u": 1 }, "name": "u_1", "unique": true };
    let indexes = doc! { "createIndexes": "c", "indexes": [index] };
    succeed(&one.go_on(&mut world, indexes.clone()));
    let documents = [doc! { "_id": 1, "u": 1 }];
    succeed(&one.go_on(&mut world, insert(&documents)));
    let list = doc! { "listCollections": 1 };
    assert!(batch(&send(&mut world, conn, list.clone())).is_empty());
    succeed(&one.commit(&mut world));
    assert_eq!(batch(&send(&mut world, conn, list)).len(), 1);
    let (two, three) = (one.numbered(2), one.numbered(3));
    fail(&two.start(&mut world, indexes), 263, &[]);
    let create = doc! { "create": "c" };
    fail(&three.start(&mut world, create), 48, &[]);
    check_members(&mut world);
}

#[test]
fn capped_and_time_series_collections_are_not_written() {
    let (mut world, _, conn) = with_primary();
    let capped = doc! { "create": "c", "capped": true, "size": 4096 };
    succeed(&send(&mut world, conn, capped));
    let one = client(conn, 1);
    fail(
        &one.start(&mut world, insert(&[doc! { "_id": 1 }])),
        263,
        &[],
    );
    let series = doc! { "create": "s", "timeseries": { "timeField": "t" } };
    succeed(&send(&mut world, conn, series));
    let point = doc! { "t": bson::DateTime::from_millis(0) };
    let insert = doc! { "insert": "s", "documents": [point] };
    fail(&one.numbered(2).start(&mut world, insert), 263, &[]);
    let tail = doc! { "find": "c", "tailable": true };
    fail(&one.numbered(3).start(&mut world, tail), 72, &[]);
}

#[test]
fn the_results_of_bulk_write_are_read_in_its_transaction() {
    let (mut world, conn) = with_bulk_write();
    let one = client(conn, 1);
    let operations: Vec<_> = (0..3)
        .map(|id| doc! { "insert": 0, "document": { "_id": id } })
        .collect();
    let bulk = doc! {
        "bulkWrite": 1, "nsInfo": [{ "ns": "d.c" }], "ops": operations, "$db": "admin",
        "cursor": { "batchSize": 1 },
    };
    let reply = one.start(&mut world, bulk);
    let cursor = reply.get_document("cursor").expect("a cursor");
    let id = cursor.get_i64("id").expect("an id");
    let more = doc! { "getMore": id, "collection": "$cmd.bulkWrite", "$db": "admin" };
    let reply = one.go_on(&mut world, more);
    let cursor = reply.get_document("cursor").expect("a cursor");
    assert_eq!(
        cursor.get_array("nextBatch").map(Vec::len).ok(),
        Some(2),
        "{reply}"
    );
    succeed(&one.commit(&mut world));
    assert_eq!(seen(&mut world, conn).len(), 3);
}

#[test]
fn bulk_write_has_no_unknown_fields_and_no_ids_of_collections() {
    let (mut world, conn) = with_bulk_write();
    let uuid = bson::Binary {
        subtype: bson::spec::BinarySubtype::Uuid,
        bytes: vec![0; 16],
    };
    let plain = doc! { "insert": 0, "document": { "_id": 1 } };
    let known = doc! { "ns": "d.c" };
    for (operation, namespace, code) in [
        (
            plain.clone(),
            doc! { "ns": "d.c", "collectionUUID": uuid },
            40415,
        ),
        (plain.clone(), doc! { "ns": "d.c", "zork": 1 }, 40415),
        (plain.clone(), doc! {}, 40414),
        (
            doc! { "insert": 0, "document": {}, "zork": 1 },
            known.clone(),
            40415,
        ),
    ] {
        let bulk = doc! {
            "bulkWrite": 1, "ops": [operation], "nsInfo": [namespace], "$db": "admin",
        };
        let reply = send(&mut world, conn, bulk);
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
    }
    let bulk = doc! {
        "bulkWrite": 1, "ops": [plain], "nsInfo": [known], "bypassEmptyTsReplacement": true,
        "$db": "admin",
    };
    let reply = send(&mut world, conn, bulk);
    assert_eq!(reply.get_i32("nInserted").ok(), Some(1), "{reply}");
}
