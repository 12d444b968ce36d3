//! Tests of the errors of an overloaded server.

use super::world::World;
use crate::deployment::DeploymentOptions;
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
