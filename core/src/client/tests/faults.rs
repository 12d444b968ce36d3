//! Tests of replies with `writeErrors` and a `writeConcernError`: which of the two the application,
//! the topology and the retries use.

use super::*;
use crate::{description::ServerType, error::Label};

const URI: &str = "mongodb://a/?replicaSet=rs";

/// Returns the reply to an insert of a duplicate key, from a server that shuts down.
fn reply() -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "n": 0,
        "writeErrors": [{ "index": 0, "code": 11000, "errmsg": "E11000 duplicate key" }],
        "writeConcernError": { "code": 91, "errmsg": "shutdown in progress" },
    }
}

#[test]
fn a_write_error_is_returned_and_the_write_concern_error_updates_the_topology() {
    // The topology uses the code of the `writeConcernError` (SDAM-93).
    let mut world = World::new(URI, primary());
    let mut exchange = world.begin_exchange(insert());
    World::answer(&mut exchange, &reply());
    let AfterExchange::Done(Err(error)) = world.check_in(exchange, Outcome::Completed) else {
        panic!("it failed");
    };
    assert_eq!(error.code(), Some(11000));
    assert!(!error.has_label(&Label::RetryableWriteError));
    let servers = &world.client.topology().servers;
    assert!(
        servers
            .values()
            .all(|s| s.server_type == ServerType::Unknown)
    );
}

#[test]
fn the_write_concern_error_code_decides_about_retries_before_server_4_4() {
    // A server older than 4.4 sets no labels. The driver adds the label `RetryableWriteError`
    // itself, by the code of the `writeConcernError` (RW-16).
    let old = rawdoc! {
        "ok": 1, "isWritablePrimary": true, "setName": "rs", "hosts": ["a:27017"],
        "maxWireVersion": 8, "logicalSessionTimeoutMinutes": 30,
    };
    let mut world = World::new(URI, old);
    let mut exchange = world.begin_exchange(insert());
    World::answer(&mut exchange, &reply());
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Again(_)), "{after:?}");
}
