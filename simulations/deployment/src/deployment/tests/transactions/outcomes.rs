//! The end of transactions, and their members.

use super::{
    super::world::{World, send, with_primary},
    Client, TRANSIENT, check_members, client, fail, find_all, insert, lsid, seen, set, succeed,
};
use crate::deployment::ConnId;
use bson::{Document, doc};
use std::time::Duration;

fn fail_command(world: &mut World, conn: ConnId, name: &str, effect: Document) {
    let mut data = doc! { "failCommands": [name] };
    data.extend(effect);
    let point = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data, "$db": "admin",
    };
    succeed(&send(world, conn, point));
}

/// Kills the primary, and returns the next one with a connection to it.
fn fail_over(world: &mut World, primary: usize) -> (usize, ConnId) {
    world.deployment.kill(world.now, primary);
    world.drain();
    let (next, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(next);
    (next, conn)
}

fn on(client: Client, conn: ConnId) -> Client {
    Client { conn, ..client }
}

#[test]
fn a_new_primary_knows_committed_transactions() {
    let (mut world, primary, conn) = with_primary();
    let (one, two, read) = (client(conn, 1), client(conn, 2), client(conn, 3));
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
    succeed(&one.commit(&mut world));
    succeed(&two.start(&mut world, insert(&[doc! { "_id": 2 }])));
    succeed(&read.start(&mut world, find_all()));
    let (_, conn) = fail_over(&mut world, primary);
    succeed(&on(one, conn).commit(&mut world));
    fail(&on(one, conn).go_on(&mut world, find_all()), 256, &[]);
    fail(&on(one, conn).start(&mut world, find_all()), 117, &[]);
    fail(&on(two, conn).go_on(&mut world, find_all()), 251, TRANSIENT);
    fail(&on(two, conn).commit(&mut world), 251, TRANSIENT);
    fail(&on(read, conn).commit(&mut world), 251, TRANSIENT);
    assert_eq!(seen(&mut world, conn), [doc! { "_id": 1 }]);
    world.deployment.restart(world.now, primary);
    check_members(&mut world);
}

#[test]
fn only_retryable_writes_have_a_number_without_a_transaction() {
    let (mut world, _, conn) = with_primary();
    let number = doc! { "lsid": lsid(1), "txnNumber": 1_i64 };
    let mut find = find_all();
    find.extend(number);
    fail(&send(&mut world, conn, find), 50768, &[]);
}

#[test]
fn a_step_down_aborts_open_transactions() {
    let (mut world, primary, conn) = with_primary();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
    let other = world.connect(primary);
    world.send(
        other,
        &doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" },
    );
    world.run_for(Duration::from_secs(1));
    assert!(world.reply(other).is_none(), "the insert waits");
    assert!(world.deployment.step_down(world.now));
    world.run_for(Duration::from_secs(5));
    fail(&world.reply(other).expect("a reply").2, 10107, &[]);
    fail(&one.go_on(&mut world, find_all()), 10107, TRANSIENT);
    let (next, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(next);
    fail(&on(one, conn).commit(&mut world), 251, TRANSIENT);
    assert!(seen(&mut world, conn).is_empty());
    check_members(&mut world);
}

#[test]
fn a_commit_that_no_majority_has_can_be_lost() {
    let (mut world, primary, conn) = with_primary();
    send(&mut world, conn, insert(&[doc! { "_id": 1 }]));
    let one = client(conn, 1);
    succeed(&one.start(&mut world, set(1, "a", 1)));
    world.deployment.partition(world.now, &[primary]);
    let commit = doc! {
        "commitTransaction": 1, "writeConcern": { "w": "majority" }, "$db": "admin",
    };
    world.send(conn, &one.part(commit));
    world.run_for(Duration::from_secs(30));
    let (_, _, reply) = world.reply(conn).expect("a reply");
    let error = reply.get_document("writeConcernError").expect("an error");
    assert_eq!(error.get_i32("code").ok(), Some(189), "{reply}");
    let labels = reply.get_array("errorLabels").expect("labels");
    assert_eq!(labels[0].as_str(), Some("RetryableWriteError"), "{reply}");
    let (next, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    assert_ne!(next, primary);
    let conn = world.connect(next);
    fail(&on(one, conn).commit(&mut world), 251, TRANSIENT);
    world.deployment.heal(world.now);
    check_members(&mut world);
    assert_eq!(seen(&mut world, conn), [doc! { "_id": 1 }], "rolled back");
    // The member that committed knows no more of it than the others.
    let mut again = next;
    for _ in 0..20 {
        if again == primary {
            break;
        }
        assert!(world.deployment.step_down(world.now));
        world.run_for(Duration::from_secs(5));
        let elected = world.until_primary(Duration::from_secs(60));
        again = elected.expect("a primary").0;
    }
    assert_eq!(again, primary);
    let conn = world.connect(again);
    fail(&on(one, conn).commit(&mut world), 251, TRANSIENT);
}

#[test]
fn a_commit_waits_for_its_write_concern() {
    let (mut world, primary, conn) = with_primary();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
    let others: Vec<usize> = (0..3).filter(|m| *m != primary).collect();
    for member in &others {
        world.deployment.cut(world.now, primary, *member);
    }
    let concern = doc! { "w": 3, "wtimeout": 100 };
    let commit = doc! { "commitTransaction": 1, "writeConcern": concern, "$db": "admin" };
    let reply = one.go_on(&mut world, commit.clone());
    let error = reply.get_document("writeConcernError").expect("an error");
    assert_eq!(error.get_i32("code").ok(), Some(64), "{reply}");
    world.deployment.heal(world.now);
    let mut again = commit;
    again.insert("writeConcern", doc! { "w": 3, "wtimeout": 30_000 });
    succeed(&one.go_on(&mut world, again));
    check_members(&mut world);
}

#[test]
fn fail_points_concern_the_end_of_a_transaction() {
    let (mut world, primary, conn) = with_primary();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
    fail_command(
        &mut world,
        conn,
        "commitTransaction",
        doc! { "errorCode": 10107 },
    );
    fail(&one.commit(&mut world), 10107, &["RetryableWriteError"]);
    let concern = doc! { "code": 91, "errmsg": "shutdown" };
    fail_command(
        &mut world,
        conn,
        "commitTransaction",
        doc! { "writeConcernError": concern },
    );
    let reply = one.commit(&mut world);
    assert!(reply.contains_key("writeConcernError"), "{reply}");
    assert_eq!(
        reply.get_array("errorLabels").map(Vec::len).ok(),
        Some(1),
        "{reply}"
    );
    succeed(&one.commit(&mut world));
    let two = one.numbered(2);
    fail_command(&mut world, conn, "insert", doc! { "errorCode": 251 });
    fail(
        &two.start(&mut world, insert(&[doc! { "_id": 2 }])),
        251,
        TRANSIENT,
    );
    let labels = doc! { "errorCode": 11, "errorLabels": ["Own"] };
    fail_command(&mut world, conn, "find", labels);
    fail(&two.start(&mut world, find_all()), 11, &["Own"]);
    succeed(&two.start(&mut world, find_all()));
    fail_command(
        &mut world,
        conn,
        "abortTransaction",
        doc! { "closeConnection": true },
    );
    let abort = two.part(doc! { "abortTransaction": 1, "$db": "admin" });
    assert_eq!(world.send_command(conn, &abort), None);
    let conn = world.connect(primary);
    succeed(&on(two, conn).abort(&mut world));
    let blocked = doc! { "blockConnection": true, "blockTimeMS": 700 };
    fail_command(&mut world, conn, "commitTransaction", blocked);
    let three = on(one, conn).numbered(3);
    succeed(&three.start(&mut world, find_all()));
    let start = world.now;
    succeed(&three.commit(&mut world));
    assert!(world.now.saturating_since(start) >= Duration::from_millis(700));
}

#[test]
fn commands_on_sessions_abort_their_transactions() {
    let (mut world, _, conn) = with_primary();
    let commands = [
        doc! { "killSessions": [lsid(1)], "$db": "admin" },
        doc! { "endSessions": [lsid(1)], "$db": "admin" },
        doc! { "killAllSessions": [], "$db": "admin" },
    ];
    for (command, number) in commands.into_iter().zip(1..) {
        let (one, other) = (
            client(conn, 1).numbered(number),
            client(conn, 2).numbered(number),
        );
        succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
        succeed(&other.start(&mut world, find_all()));
        let kills_all = command.contains_key("killAllSessions");
        succeed(&send(&mut world, conn, command));
        fail(&one.commit(&mut world), 251, TRANSIENT);
        let reply = other.commit(&mut world);
        assert_eq!(
            reply.get_f64("ok").ok(),
            Some(f64::from(u8::from(!kills_all))),
            "{reply}"
        );
    }
}

#[test]
fn a_restart_aborts_open_transactions() {
    let (mut world, primary, conn) = with_primary();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
    world.deployment.kill(world.now, primary);
    world.deployment.restart(world.now, primary);
    world.drain();
    let (next, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(next);
    fail(&on(one, conn).commit(&mut world), 251, TRANSIENT);
    check_members(&mut world);
}
