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

#[test]
fn an_error_after_which_nothing_was_written_does_not_hide_the_first_one() {
    // The write concern error of the first attempt is raised (RW-P3).
    let mut world = World::new(URI, primary());
    let mut exchange = world.begin_exchange(insert());
    let first = rawdoc! {
        "ok": 1, "n": 1, "errorLabels": ["RetryableWriteError"],
        "writeConcernError": { "code": 91, "errmsg": "shutdown in progress" },
    };
    World::answer(&mut exchange, &first);
    let after = world.check_in(exchange, Outcome::Completed);
    let AfterExchange::Again(progress) = after else {
        panic!("{after:?}");
    };
    let mut exchange = world.exchange_of(progress);
    let second = rawdoc! {
        "ok": 0, "code": 10107, "errmsg": "not writable primary",
        "errorLabels": ["RetryableWriteError", "NoWritesPerformed"],
    };
    World::answer(&mut exchange, &second);
    let after = world.check_in(exchange, Outcome::Completed);
    let AfterExchange::Done(Err(error)) = after else {
        panic!("{after:?}");
    };
    assert_eq!(error.code(), Some(91));
    assert!(!error.has_label(&Label::NoWritesPerformed));
}
