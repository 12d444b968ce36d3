//! The errors of commands that a transaction cannot have.

use super::{
    super::world::{World, send, set_of, standalone, with_primary},
    TRANSIENT, client, fail, find_all, insert, lsid, succeed,
};
use crate::deployment::{ServerVersion, tests::transactions::Client};
use bson::{Document, doc};
use std::time::Duration;

#[test]
fn a_standalone_refuses_transactions() {
    let (mut world, conn) = standalone();
    let reply = client(conn, 1).start(&mut world, find_all());
    fail(&reply, 20, &[]);
    let text = "Transaction numbers are only allowed on a replica set member or mongos";
    assert_eq!(reply.get_str("errmsg").ok(), Some(text));
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    let (mut world, _, conn) = with_primary();
    let id = lsid(1);
    let cases = [
        doc! { "lsid": id.clone(), "autocommit": false },
        doc! { "txnNumber": 1_i64, "autocommit": false },
        doc! { "lsid": id.clone(), "txnNumber": 1_i64, "startTransaction": true },
        doc! { "lsid": id.clone(), "txnNumber": 1_i64, "autocommit": true },
        doc! { "lsid": id.clone(), "txnNumber": -1_i64, "autocommit": false },
        doc! {
            "lsid": id.clone(), "txnNumber": 1_i64, "autocommit": false,
            "startTransaction": false,
        },
    ];
    for fields in cases {
        let mut command = find_all();
        command.extend(fields.clone());
        let reply = send(&mut world, conn, command);
        assert_eq!(reply.get_i32("code").ok(), Some(72), "{fields}: {reply}");
    }
    let commit = doc! { "commitTransaction": 1, "$db": "admin" };
    fail(&send(&mut world, conn, commit.clone()), 125, &[]);
    let mut numbered = commit;
    numbered.extend(doc! { "lsid": id, "txnNumber": 1_i64 });
    fail(&send(&mut world, conn, numbered), 50768, &[]);
    let elsewhere = client(conn, 1).part(doc! { "commitTransaction": 1 });
    fail(&send(&mut world, conn, elsewhere), 13, &[]);
}

#[test]
fn numbers_are_used_once_and_in_order() {
    let (mut world, _, conn) = with_primary();
    let one = client(conn, 1);
    let five = one.numbered(5);
    fail(&five.go_on(&mut world, find_all()), 251, TRANSIENT);
    fail(&five.commit(&mut world), 251, TRANSIENT);
    fail(&five.abort(&mut world), 251, TRANSIENT);
    succeed(&five.start(&mut world, find_all()));
    fail(&five.start(&mut world, find_all()), 117, &[]);
    fail(&one.numbered(4).start(&mut world, find_all()), 225, &[]);
    fail(
        &one.numbered(6).go_on(&mut world, find_all()),
        251,
        TRANSIENT,
    );
    succeed(&five.go_on(&mut world, find_all()));
    succeed(&one.numbered(6).start(&mut world, find_all()));
    fail(&five.commit(&mut world), 225, &[]);
}

#[test]
fn retryable_writes_and_transactions_share_their_numbers() {
    let (mut world, _, conn) = with_primary();
    let one = client(conn, 1);
    let retryable = |number: i64| {
        let mut command = insert(&[doc! { "_id": number }]);
        command.extend(doc! { "lsid": lsid(1), "txnNumber": number });
        command
    };
    succeed(&send(&mut world, conn, retryable(3)));
    fail(&one.numbered(3).start(&mut world, find_all()), 117, &[]);
    fail(
        &one.numbered(3).go_on(&mut world, find_all()),
        251,
        TRANSIENT,
    );
    fail(&one.numbered(2).start(&mut world, find_all()), 225, &[]);
    let four = one.numbered(4);
    succeed(&four.start(&mut world, insert(&[doc! { "_id": 40 }])));
    fail(&send(&mut world, conn, retryable(3)), 225, &[]);
    fail(&send(&mut world, conn, retryable(4)), 72, &[]);
    succeed(&send(&mut world, conn, retryable(5)));
    fail(&four.commit(&mut world), 225, &[]);
}

#[test]
fn a_transaction_that_has_ended_has_no_further_statements() {
    let (mut world, _, conn) = with_primary();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
    succeed(&one.commit(&mut world));
    fail(&one.go_on(&mut world, find_all()), 256, &[]);
    fail(&one.abort(&mut world), 256, &[]);
    succeed(&one.commit(&mut world));
    let two = one.numbered(2);
    succeed(&two.start(&mut world, find_all()));
    succeed(&two.abort(&mut world));
    fail(&two.abort(&mut world), 251, TRANSIENT);
    fail(&two.commit(&mut world), 251, TRANSIENT);
}

#[test]
fn commands_that_no_transaction_can_have() {
    let (mut world, _, conn) = with_primary();
    let one = client(conn, 1);
    let cases = [
        doc! { "count": "c" },
        doc! { "listCollections": 1 },
        doc! { "drop": "c" },
        doc! { "explain": find_all() },
        doc! { "ping": 1 },
        doc! { "killCursors": "c", "cursors": [1_i64] },
        doc! { "find": "c", "$db": "config" },
        doc! { "find": "c", "$db": "admin" },
        doc! { "find": "c", "$db": "local" },
        doc! { "commitTransaction": 1, "$db": "admin" },
    ];
    for command in cases {
        fail(&one.start(&mut world, command), 263, &[]);
    }
    // None of these commands has started the transaction.
    succeed(&one.start(&mut world, find_all()));
    let stages = [
        doc! { "$out": "o" },
        doc! { "$merge": "o" },
        doc! { "$collStats": {} },
        doc! { "$facet": { "a": [{ "$indexStats": {} }] } },
    ];
    for (stage, number) in stages.into_iter().zip(2..) {
        let command = doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
        let one = one.numbered(number);
        fail(&one.start(&mut world, command), 263, &[]);
        fail(&one.go_on(&mut world, find_all()), 251, TRANSIENT);
    }
}

#[test]
fn concerns_belong_to_the_first_and_the_last_command() {
    let (mut world, _, conn) = with_primary();
    let one = client(conn, 1);
    let with = |field: &str, value: Document| {
        let mut command = find_all();
        command.insert(field, value);
        command
    };
    let linearizable = with("readConcern", doc! { "level": "linearizable" });
    fail(&one.start(&mut world, linearizable), 72, &[]);
    let available = with("readConcern", doc! { "level": "available" });
    fail(&one.start(&mut world, available), 72, &[]);
    let mut write = insert(&[doc! { "_id": 1 }]);
    write.insert("writeConcern", doc! { "w": 1 });
    fail(&one.start(&mut world, write), 72, &[]);
    for (level, number) in ["local", "majority", "snapshot"].into_iter().zip(1..) {
        let one = one.numbered(number);
        let read = with("readConcern", doc! { "level": level });
        succeed(&one.start(&mut world, read.clone()));
        fail(&one.go_on(&mut world, read), 72, &[]);
        let commit = doc! { "commitTransaction": 1, "$db": "admin" };
        let mut wrong = commit.clone();
        wrong.insert("readConcern", doc! { "level": level });
        fail(&one.go_on(&mut world, wrong), 72, &[]);
        let mut commit = commit;
        commit.insert("writeConcern", doc! { "w": "majority", "wtimeout": 10_000 });
        succeed(&one.go_on(&mut world, commit));
    }
}

#[test]
fn a_failed_statement_aborts_the_transaction() {
    let (mut world, _, conn) = with_primary();
    send(&mut world, conn, insert(&[doc! { "_id": 1 }]));
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 2 }])));
    let mut unordered = insert(&[doc! { "_id": 1 }, doc! { "_id": 3 }]);
    unordered.insert("ordered", false);
    let reply = one.go_on(&mut world, unordered);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert_eq!(
        reply.get_i32("n").ok(),
        Some(0),
        "the first error ends it: {reply}"
    );
    assert_eq!(
        reply.get_array("writeErrors").map(Vec::len).ok(),
        Some(1),
        "{reply}"
    );
    fail(&one.commit(&mut world), 251, TRANSIENT);
    let two = one.numbered(2);
    let wrong = doc! { "find": "c", "filter": { "$nothing": 1 } };
    succeed(&two.start(&mut world, find_all()));
    let reply = two.go_on(&mut world, wrong);
    assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{reply}");
    fail(&two.commit(&mut world), 251, TRANSIENT);
}

#[test]
fn secondaries_have_no_transactions() {
    let (mut world, primary, _) = with_primary();
    let conn = world.connect((primary + 1) % 3);
    fail(
        &client(conn, 1).start(&mut world, find_all()),
        10107,
        TRANSIENT,
    );
    let labels = ["RetryableWriteError"];
    fail(&client(conn, 1).commit(&mut world), 10107, &labels);
}

#[test]
fn before_4_4_transactions_create_no_collections() {
    let mut options = set_of(1);
    options.version = ServerVersion::named("4.2").expect("a version");
    let mut world = World::new(options, 1);
    world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(0);
    let one: Client = client(conn, 1);
    fail(
        &one.start(&mut world, insert(&[doc! { "_id": 1 }])),
        263,
        &[],
    );
    fail(
        &one.numbered(2).start(&mut world, doc! { "create": "c" }),
        263,
        &[],
    );
    succeed(&send(&mut world, conn, doc! { "create": "c" }));
    let three = one.numbered(3);
    succeed(&three.start(&mut world, insert(&[doc! { "_id": 1 }])));
    succeed(&three.commit(&mut world));
}

#[test]
fn the_code_of_an_error_decides_whether_a_transaction_is_tried_again() {
    let (mut world, _, conn) = with_primary();
    let mut fails = |session: u8, data: Document, labels: &[&str]| {
        let point = doc! {
            "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data,
            "$db": "admin",
        };
        succeed(&send(&mut world, conn, point));
        let mut read = find_all();
        read.insert("maxTimeMS", 100);
        let reply = client(conn, session).start(&mut world, read);
        let code = reply.get_i32("code").unwrap_or_default();
        fail(&reply, code, labels);
        code
    };
    let block = doc! { "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 500 };
    assert_eq!(fails(1, block, &[]), 50);
    for (session, code) in (2..).zip([50, 290, 64]) {
        let data = doc! { "failCommands": ["find"], "errorCode": code };
        assert_eq!(fails(session, data, &[]), code);
    }
    for (session, code) in (5..).zip([24, 112, 150, 189, 246, 262, 272]) {
        let data = doc! { "failCommands": ["find"], "errorCode": code };
        assert_eq!(fails(session, data, TRANSIENT), code);
    }
}
