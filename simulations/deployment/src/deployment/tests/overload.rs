//! Tests of the errors of an overloaded server.

use super::world::World;
use crate::deployment::{DeploymentOptions, Shedding};
use bson::{Bson, Document, doc};
use onionskin_core::address::Address;

#[test]
fn an_overload_error_has_both_labels_and_the_configured_base_backoff() {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("s", 1)), 1);
    let conn = world.connect(0);
    let mut send_command = |command: &Document| world.send_command(conn, command).expect("a reply");
    let fail = |code: i32| {
        doc! {
            "configureFailPoint": "failCommand", "mode": "alwaysOn", "$db": "admin",
            "data": { "failCommands": ["ping"], "errorCode": code },
        }
    };
    let ping = doc! { "ping": 1, "$db": "admin" };
    send_command(&fail(462));
    let shed = send_command(&ping);
    assert_eq!(
        shed.get_str("codeName").ok(),
        Some("IngressRequestRateLimitExceeded")
    );
    let labels = [Bson::from("SystemOverloadedError"), "RetryableError".into()];
    let reported = shed.get_array("errorLabels").expect("labels");
    assert_eq!(reported[..], labels);
    assert!(!shed.contains_key("baseBackoffMS"), "{shed}");
    let set = |value: Bson| {
        doc! { "setParameter": 1, "externalClientBaseBackoffMS": value, "$db": "admin" }
    };
    assert_eq!(send_command(&set(50.into())).get_i32("was").ok(), Some(0));
    assert_eq!(send_command(&ping).get_i32("baseBackoffMS").ok(), Some(50));
    // `baseBackoffMS` is only in overload errors.
    send_command(&fail(91));
    assert!(!send_command(&ping).contains_key("baseBackoffMS"));
    for value in [Bson::from(-1), "much".into()] {
        assert_eq!(send_command(&set(value)).get_i32("code").ok(), Some(2));
    }
    assert_eq!(send_command(&set(0.into())).get_i32("was").ok(), Some(50));
}

fn first_hello() -> Document {
    doc! { "hello": 1, "client": { "driver": { "name": "d", "version": "1" } }, "$db": "admin" }
}

#[test]
fn an_overloaded_server_refuses_requests_for_data_and_executes_none_of_them() {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("s", 1)), 1);
    let conn = world.connect(0);
    let overload = Shedding {
        requests_per_mille: 400,
        ..Shedding::default()
    };
    world.deployment.set_shedding(0, overload);
    let (mut refused, mut stored) = (0, 0);
    for id in 0..200 {
        let insert = doc! { "insert": "c", "documents": [{ "_id": id }], "$db": "d" };
        let reply = world.send_command(conn, &insert).expect("a reply");
        match reply.get_i32("code") {
            Ok(462) => {
                assert_eq!(reply.get_array("errorLabels").map(Vec::len).ok(), Some(2));
                refused += 1;
            }
            _ => stored += reply.get_i32("n").expect("an insert"),
        }
    }
    assert!((40..160).contains(&refused), "{refused} of 200");
    // Only requests for data are refused.
    let ping = world.send_command(conn, &doc! { "ping": 1, "$db": "admin" });
    assert!(ping.is_some_and(|reply| !reply.contains_key("code")));
    world.deployment.set_shedding(0, Shedding::default());
    let count = doc! { "count": "c", "$db": "d" };
    let counted = world.send_command(conn, &count).expect("a reply");
    assert_eq!(counted.get_i32("n").ok(), Some(stored));
}

#[test]
fn an_overloaded_server_closes_new_connections_and_keeps_those_that_are_open() {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("s", 1)), 1);
    let open = world.connect(0);
    assert!(world.send_command(open, &first_hello()).is_some());
    let overload = Shedding {
        handshakes_per_mille: 1000,
        ..Shedding::default()
    };
    world.deployment.set_shedding(0, overload);
    let new = world.connect(0);
    assert!(world.send_command(new, &first_hello()).is_none());
    assert_eq!(world.closed, [new]);
    let check = doc! { "hello": 1, "$db": "admin" };
    assert!(world.send_command(open, &check).is_some());
    // A process begins without overload.
    let now = world.now;
    world.deployment.kill(now, 0);
    world.deployment.set_shedding(0, overload);
    world.deployment.restart(now, 0);
    let next = world.connect(0);
    assert!(world.send_command(next, &first_hello()).is_some());
}
