//! The lifetime and the memory of transactions.

use super::{
    super::world::{World, send, set_of, with_primary},
    TRANSIENT, check_members, client, fail, find_all, insert, seen, set, succeed,
};
use bson::{Document, doc};
use std::time::Duration;

#[test]
fn a_transaction_that_lasts_too_long_is_aborted() {
    let (mut world, _, conn) = with_primary();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
    world.run_for(Duration::from_secs(59));
    succeed(&one.go_on(&mut world, find_all()));
    world.run_for(Duration::from_secs(2));
    fail(&one.go_on(&mut world, find_all()), 251, TRANSIENT);
    let parameter = doc! {
        "setParameter": 1, "transactionLifetimeLimitSeconds": 3, "$db": "admin",
    };
    let reply = send(&mut world, conn, parameter);
    assert_eq!(reply.get_i32("was").ok(), Some(60), "{reply}");
    let get = doc! { "getParameter": 1, "transactionLifetimeLimitSeconds": 1, "$db": "admin" };
    let reply = send(&mut world, conn, get);
    assert_eq!(
        reply.get_i32("transactionLifetimeLimitSeconds").ok(),
        Some(3)
    );
    let two = one.numbered(2);
    succeed(&two.start(&mut world, find_all()));
    world.run_for(Duration::from_secs(4));
    fail(&two.commit(&mut world), 251, TRANSIENT);
    let wrong = doc! {
        "setParameter": 1, "transactionLifetimeLimitSeconds": 0, "$db": "admin",
    };
    fail(&send(&mut world, conn, wrong), 2, &[]);
}

fn limited(count: usize, bytes: usize) -> World {
    let mut options = set_of(1);
    options.limits.max_transactions = count;
    options.limits.max_transaction_bytes = bytes;
    let mut world = World::new(options, 1);
    world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    world
}

fn large(id: i32) -> Document {
    doc! { "_id": id, "text": "x".repeat(10_000) }
}

#[test]
fn the_number_of_open_transactions_is_limited() {
    let mut world = limited(2, usize::MAX);
    let conn = world.connect(0);
    for session in 1..=2 {
        succeed(&client(conn, session).start(&mut world, find_all()));
    }
    fail(&client(conn, 3).start(&mut world, find_all()), 146, &[]);
    // The next transaction of a session replaces the former one.
    succeed(&client(conn, 2).numbered(2).start(&mut world, find_all()));
    succeed(&client(conn, 1).commit(&mut world));
    succeed(&client(conn, 3).numbered(2).start(&mut world, find_all()));
}

#[test]
fn the_memory_of_a_transaction_is_limited() {
    let mut world = limited(10, 100_000);
    let conn = world.connect(0);
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[large(0)])));
    let more: Vec<Document> = (1..20).map(large).collect();
    fail(&one.go_on(&mut world, insert(&more)), 388, &[]);
    fail(&one.commit(&mut world), 251, TRANSIENT);
    assert!(seen(&mut world, conn).is_empty());
}

#[test]
fn an_old_snapshot_that_keeps_much_data_is_aborted() {
    let mut world = limited(10, 100_000);
    let conn = world.connect(0);
    let documents: Vec<Document> = (0..20).map(large).collect();
    succeed(&send(&mut world, conn, insert(&documents)));
    let one = client(conn, 1);
    succeed(&one.start(&mut world, find_all()));
    succeed(&one.go_on(&mut world, find_all()));
    succeed(&send(&mut world, conn, set(0, "text", "")));
    fail(&one.go_on(&mut world, find_all()), 251, TRANSIENT);
    check_members(&mut world);
}

#[test]
fn many_sessions_are_forgotten() {
    let mut options = set_of(1);
    options.limits.max_sessions = 3;
    let mut world = World::new(options, 1);
    world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(0);
    let open = client(conn, 200);
    succeed(&open.start(&mut world, find_all()));
    for session in 0..50 {
        let one = client(conn, session);
        succeed(&one.start(&mut world, insert(&[doc! { "_id": i32::from(session) }])));
        succeed(&one.commit(&mut world));
    }
    succeed(&open.commit(&mut world));
    assert_eq!(seen(&mut world, conn).len(), 50);
}
