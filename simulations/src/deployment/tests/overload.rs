//! Tests of the errors of an overloaded server.

use super::world::World;
use crate::deployment::DeploymentOptions;
use bson::{Bson, Document, doc};
use onionskin_core::address::Address;

#[test]
fn a_request_that_is_shed_has_both_labels_and_the_base_of_the_backoff() {
    let mut world = World::new(DeploymentOptions::standalone(Address::tcp("s", 1)), 1);
    let conn = world.connect(0);
    let mut ask = |command: &Document| world.ask(conn, command).expect("a reply");
    let fail = |code: i32| {
        doc! {
            "configureFailPoint": "failCommand", "mode": "alwaysOn", "$db": "admin",
            "data": { "failCommands": ["ping"], "errorCode": code },
        }
    };
    let ping = doc! { "ping": 1, "$db": "admin" };
    ask(&fail(462));
    let shed = ask(&ping);
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
    assert_eq!(ask(&set(50.into())).get_i32("was").ok(), Some(0));
    assert_eq!(ask(&ping).get_i32("baseBackoffMS").ok(), Some(50));
    // `baseBackoffMS` is only in overload errors.
    ask(&fail(91));
    assert!(!ask(&ping).contains_key("baseBackoffMS"));
    for value in [Bson::from(-1), "much".into()] {
        assert_eq!(ask(&set(value)).get_i32("code").ok(), Some(2));
    }
    assert_eq!(ask(&set(0.into())).get_i32("was").ok(), Some(50));
}
