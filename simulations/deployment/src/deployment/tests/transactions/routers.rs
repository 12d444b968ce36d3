//! Transactions through routers.

use super::{
    super::world::{World, send},
    Client, TRANSIENT, batch, client, fail, find_all, insert, seen, set, succeed,
};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Document, doc};
use onionskin_core::address::Address;

/// Makes a world of two routers, and a connection to each.
fn routers() -> (World, ConnId, ConnId) {
    let addresses = (0..2).map(|i| Address::tcp(&format!("router{i}"), 27017));
    let mut world = World::new(DeploymentOptions::sharded(addresses.collect()), 1);
    let (one, other) = (world.connect(0), world.connect(1));
    (world, one, other)
}

fn token(reply: &Document) -> Document {
    let token = reply.get_document("recoveryToken").expect("a token");
    assert!(!reply.contains_key("readOnly"), "{reply}");
    token.clone()
}

fn commit_with(world: &mut World, client: Client, token: Document) -> Document {
    let commit = doc! { "commitTransaction": 1, "recoveryToken": token, "$db": "admin" };
    client.go_on(world, commit)
}

fn on(client: Client, conn: ConnId) -> Client {
    Client { conn, ..client }
}

#[test]
fn a_router_has_the_shard_execute_a_transaction() {
    let (mut world, conn, other) = routers();
    let one = client(conn, 1);
    let reply = one.start(&mut world, find_all());
    assert_eq!(token(&reply), doc! {}, "nothing is written");
    let reply = one.go_on(&mut world, insert(&[doc! { "_id": 1 }]));
    let shard = doc! { "recoveryShardId": "shard0" };
    assert_eq!(token(&reply), shard);
    assert_eq!(token(&one.go_on(&mut world, find_all())), shard);
    assert!(seen(&mut world, other).is_empty());
    succeed(&commit_with(&mut world, one, shard));
    assert_eq!(seen(&mut world, other), [doc! { "_id": 1 }]);
    succeed(&one.commit(&mut world));
    fail(&one.abort(&mut world), 256, &[]);
    fail(&one.start(&mut world, find_all()), 117, &[]);
    fail(&one.numbered(0).start(&mut world, find_all()), 225, &[]);
    let (one, two) = (one.numbered(2), client(conn, 2));
    succeed(&one.start(&mut world, set(1, "a", 1)));
    fail(&two.start(&mut world, set(1, "a", 2)), 112, TRANSIENT);
    succeed(&one.abort(&mut world));
}

#[test]
fn another_router_does_not_continue_a_transaction() {
    let (mut world, conn, other) = routers();
    let one = client(conn, 1);
    let reply = one.start(&mut world, insert(&[doc! { "_id": 1 }]));
    let token = token(&reply);
    fail(
        &on(one, other).go_on(&mut world, find_all()),
        251,
        TRANSIENT,
    );
    fail(&on(one, other).abort(&mut world), 251, TRANSIENT);
    succeed(&commit_with(&mut world, one, token.clone()));
    fail(&on(one, other).commit(&mut world), 50940, &[]);
    fail(
        &commit_with(&mut world, on(one, other), doc! {}),
        251,
        TRANSIENT,
    );
    let unknown = doc! { "recoveryShardId": "shard9" };
    fail(&commit_with(&mut world, on(one, other), unknown), 70, &[]);
    succeed(&commit_with(&mut world, on(one, other), token.clone()));
    succeed(&commit_with(&mut world, on(one, other), token));
    let internal = doc! { "coordinateCommitTransaction": 1, "$db": "admin" };
    fail(&one.go_on(&mut world, internal), 59, &[]);
}

#[test]
fn a_transaction_without_an_outcome_is_aborted_when_it_is_asked_for() {
    let (mut world, conn, other) = routers();
    let one = client(conn, 1);
    let reply = one.start(&mut world, insert(&[doc! { "_id": 1 }]));
    let token = token(&reply);
    fail(
        &commit_with(&mut world, on(one, other), token.clone()),
        251,
        TRANSIENT,
    );
    fail(&one.go_on(&mut world, find_all()), 251, TRANSIENT);
    fail(&commit_with(&mut world, one, token), 251, TRANSIENT);
    assert!(seen(&mut world, conn).is_empty());
}

#[test]
fn a_router_that_has_restarted_knows_no_transactions() {
    let (mut world, conn, other) = routers();
    let one = client(conn, 1);
    let reply = one.start(&mut world, insert(&[doc! { "_id": 1 }]));
    let token = token(&reply);
    world.deployment.kill(world.now, 0);
    world.deployment.restart(world.now, 0);
    world.drain();
    let conn = world.connect(0);
    fail(&on(one, conn).go_on(&mut world, find_all()), 251, TRANSIENT);
    fail(
        &commit_with(&mut world, on(one, conn), token),
        251,
        TRANSIENT,
    );
    // The documents are free again.
    succeed(&send(&mut world, other, insert(&[doc! { "_id": 1 }])));
}

#[test]
fn commands_on_sessions_reach_the_shard() {
    let (mut world, conn, other) = routers();
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
    let kill = doc! { "killAllSessions": [], "$db": "admin" };
    succeed(&send(&mut world, other, kill));
    fail(&one.commit(&mut world), 251, TRANSIENT);
    succeed(&send(&mut world, other, insert(&[doc! { "_id": 1 }])));
    let parameter = doc! {
        "setParameter": 1, "transactionLifetimeLimitSeconds": 3, "$db": "admin",
    };
    fail(&send(&mut world, conn, parameter), 72, &[]);
}

#[test]
fn a_transaction_through_a_load_balancer_outlives_its_connection() {
    let balancer = Address::tcp("balancer", 27017);
    let services = (0..2).map(|i| Address::tcp(&format!("service{i}"), 27017));
    let options = DeploymentOptions::load_balanced(balancer, services.collect());
    let mut world = World::new(options, 1);
    let hello = doc! { "hello": 1, "loadBalanced": true, "$db": "admin" };
    let connect = |world: &mut World| {
        let (_, conn) = world.connect_balanced().expect("a service runs");
        succeed(&send(world, conn, hello.clone()));
        conn
    };
    let (conn, other) = (connect(&mut world), connect(&mut world));
    let one = client(conn, 1);
    succeed(&one.start(&mut world, insert(&[doc! { "_id": 1 }])));
    fail(
        &on(one, other).go_on(&mut world, find_all()),
        251,
        TRANSIENT,
    );
    assert_eq!(batch(&one.go_on(&mut world, find_all())).len(), 1);
    succeed(&one.commit(&mut world));
    let two = one.numbered(2);
    succeed(&two.start(&mut world, set(1, "a", 1)));
    world.deployment.handle_disconnected(world.now, conn);
    world.drain();
    // The load balancer chooses the router of the first connection again.
    let conn = connect(&mut world);
    succeed(&on(two, conn).commit(&mut world));
    assert_eq!(seen(&mut world, other), [doc! { "_id": 1, "a": 1 }]);
}
