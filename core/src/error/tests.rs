//! Tests of errors: their codes, their predicates and their texts.

use super::*;
use bson::rawdoc;

#[test]
fn a_time_limit_that_passed_in_a_statement_of_a_bulk_write_is_a_timeout() {
    let error = |code: i32| WriteError {
        code,
        code_name: None,
        message: String::new(),
        details: None,
    };
    for (codes, is_timeout) in [(vec![11_000], false), (vec![11_000, 50], true)] {
        let write_errors = codes.iter().copied().map(error).enumerate().collect();
        let all = BulkWriteError {
            write_errors,
            ..BulkWriteError::default()
        };
        assert_eq!(
            Error::new(ErrorKind::BulkWrite(all)).is_timeout(),
            is_timeout
        );
        let errors: Vec<_> = codes
            .iter()
            .map(|code| rawdoc! { "index": 0, "code": *code, "errmsg": "" })
            .map(|error| IndexedWriteError::from_document(&error))
            .collect();
        let all = InsertManyError {
            write_errors: Some(errors),
            ..InsertManyError::default()
        };
        assert_eq!(
            Error::new(ErrorKind::InsertMany(all)).is_timeout(),
            is_timeout
        );
    }
}

#[test]
fn a_write_errors_code_precedes_that_of_a_write_concern_error() {
    let code = |reply: &bson::RawDocument| {
        let fault = InsertManyError::from_reply(reply)
            .expect("valid")
            .expect("it has errors");
        Error::new(ErrorKind::InsertMany(fault)).code()
    };
    let statement = rawdoc! { "index": 0, "code": 11000, "errmsg": "E11000" };
    let concern = rawdoc! { "code": 64, "errmsg": "waiting for replication timed out" };
    let both = rawdoc! {
        "ok": 1, "writeErrors": [statement], "writeConcernError": concern.clone(),
    };
    assert_eq!(code(&both), Some(11000));
    assert_eq!(
        code(&rawdoc! { "ok": 1, "writeConcernError": concern }),
        Some(64)
    );
}

#[test]
fn each_error_kind_with_a_reply_returns_its_base_backoff() {
    // Errors of the kinds `Command`, `Write` and `Authentication` return the `baseBackoffMS` of
    // the reply (BP-6).
    let reply = rawdoc! {
        "ok": 0, "baseBackoffMS": 50, "writeConcernError": { "code": 462 },
    };
    let fault = Box::new(CommandError::from_reply(&reply));
    let write = InsertManyError::from_reply(&reply)
        .expect("valid")
        .expect("it has an error");
    let refused = |cause| ErrorKind::Authentication {
        mechanism: "SCRAM-SHA-256",
        message: String::new(),
        cause,
    };
    for (kind, expected) in [
        (ErrorKind::Command((*fault).clone()), Some(50)),
        (ErrorKind::InsertMany(write), Some(50)),
        (refused(Some(fault)), Some(50)),
        (refused(None), None),
        (ErrorKind::Shutdown, None),
    ] {
        let base = Error::new(kind).base_backoff();
        assert_eq!(base, expected.map(Duration::from_millis));
    }
}

#[test]
fn copies_of_an_error_share_one_stored_reply() {
    let fault = CommandError::from_reply(&rawdoc! { "ok": 0, "errmsg": "no" });
    let error = Error::new(ErrorKind::Command(fault));
    let tied = error.clone().with_server(&Address::tcp("a", 1));
    let place = |error: &Error| match error.kind() {
        ErrorKind::Command(fault) => fault.reply.as_ref().map(|r| r.as_bytes().as_ptr()),
        _ => None,
    };
    assert!(place(&error).is_some());
    assert_eq!(place(&error), place(&tied));
}

#[test]
fn an_error_names_the_first_server_address_it_was_given() {
    let (a, b) = (Address::tcp("a", 1), Address::tcp("b", 1));
    let error = Error::protocol("nonsense").with_server(&a).with_server(&b);
    assert_eq!(error.server(), Some(&a));
    assert_eq!(
        error.to_string(),
        "the server violated the wire protocol: nonsense (server a:1)"
    );
}

#[test]
fn cleared_and_interrupted_errors_are_pool_cleared_errors() {
    // `is_pool_cleared` recognizes both errors of a cleared pool (CMAP-97, CMAP-142) by their
    // kind, which is the idiom of Rust (CMAP-144).
    let message = String::new();
    let cleared = ErrorKind::ConnectionPoolCleared {
        message: message.clone(),
    };
    let interrupted = ErrorKind::Interrupted {
        message: message.clone(),
    };
    for (kind, expected) in [
        (cleared, true),
        (interrupted, true),
        (ErrorKind::PoolClosed { message }, false),
    ] {
        assert_eq!(Error::new(kind).is_pool_cleared(), expected);
    }
}

#[test]
fn check_out_and_selection_timeouts_are_not_network_errors() {
    assert!(Error::timeout(Wait::Exchange, "x").is_network());
    assert!(!Error::timeout(Wait::Selection, "x").is_network());
    let queue = Error::new(ErrorKind::WaitQueueTimeout {
        message: "x".into(),
    });
    assert!(queue.is_timeout() && !queue.is_network());
}

#[test]
fn a_failed_selection_is_a_timeout_if_it_waited_and_a_network_error_if_the_network_failed() {
    let selection = |cause| {
        let message = "no server replied".to_owned();
        Error::new(ErrorKind::ServerSelection { message, cause })
    };
    let refused = Error::network(NetworkFault::Refused, "connection refused");
    let stranger = Error::new(ErrorKind::Discovery {
        message: "the set name is wrong".to_owned(),
    });
    for (cause, is_network) in [
        (Some(refused), true),
        (Some(stranger), false),
        (None, false),
    ] {
        let error = selection(cause);
        assert!(error.is_server_selection() && !error.is_timeout());
        assert_eq!(error.is_network(), is_network, "{error:?}");
        assert!(!error.is_connection_failure() && !error.is_deadline());
        let error = error.with_waited(Some(Duration::from_millis(2000)));
        assert!(error.is_timeout() && !error.is_deadline());
        assert_eq!(
            error.to_string(),
            "server selection failed after 2000 ms: no server replied"
        );
    }
    assert!(Error::timeout(Wait::Selection, "x").is_server_selection());
    assert!(!Error::timeout(Wait::CheckOut, "x").is_server_selection());
}

#[test]
fn a_cleared_pool_is_a_network_error_for_applications_only() {
    let message = "the pool was cleared".to_owned();
    let error = Error::new(ErrorKind::ConnectionPoolCleared { message });
    assert!(error.is_network() && !error.is_connection_failure());
}

#[test]
fn a_duplicate_key_is_recognized_in_each_kind_of_reply() {
    let write = |codes: &[i32]| {
        let mut errors = bson::RawArrayBuf::new();
        for code in codes {
            errors.push(rawdoc! { "index": 0, "code": *code, "errmsg": "x" });
        }
        let reply = rawdoc! { "ok": 1, "writeErrors": errors };
        let fault = InsertManyError::from_reply(&reply)
            .expect("valid")
            .expect("it has errors");
        Error::new(ErrorKind::InsertMany(fault))
    };
    assert!(write(&[11_000]).is_duplicate_key());
    assert!(write(&[121, 11_000]).is_duplicate_key());
    assert!(!write(&[121]).is_duplicate_key());
    let command = |code: i32| {
        let fault = CommandError::from_reply(&rawdoc! { "ok": 0, "code": code });
        Error::new(ErrorKind::Command(fault))
    };
    assert!(command(11_000).is_duplicate_key());
    assert!(!command(91).is_duplicate_key());
}

#[test]
fn a_bulk_write_that_ended_early_has_the_facts_of_the_error_that_ended_it() {
    let message = "x".to_owned();
    let ended_by = |cause: &Error| {
        let error = WriteError {
            code: 121,
            code_name: None,
            message: String::new(),
            details: None,
        };
        let all = BulkWriteError {
            write_errors: [(0, error)].into(),
            ..BulkWriteError::default()
        };
        Error::new(ErrorKind::BulkWrite(all)).with_cause(cause.clone())
    };
    let command = CommandError::from_reply(&rawdoc! { "ok": 0, "code": 11_000 });
    for cause in [
        Error::network(NetworkFault::Reset, "x"),
        Error::timeout(Wait::Selection, "x"),
        Error::new(ErrorKind::ConnectionPoolCleared { message }),
        Error::new(ErrorKind::Command(command)),
    ] {
        let facts = |error: &Error| {
            (
                [error.is_network(), error.is_server_selection()],
                [error.is_pool_cleared(), error.is_timeout()],
                (error.is_duplicate_key(), error.code()),
            )
        };
        assert_eq!(facts(&ended_by(&cause)), facts(&cause), "{cause:?}");
    }
}

#[test]
fn labels_that_cannot_be_printed_are_ignored_and_others_can_be_left_out() {
    let reply = rawdoc! {
        "errorLabels": ["SystemOverloadedError", "sesame", "two\nlines", "\u{202e}"],
    };
    let labels = Labels::from_reply(&reply);
    let names = |labels: &Labels| labels.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&labels), ["SystemOverloadedError", "sesame"]);
    assert_eq!(names(&labels.known()), ["SystemOverloadedError"]);
}

#[test]
fn the_size_of_an_event_counts_what_a_server_has_told_of_itself() {
    use crate::{
        description::{ServerDescription, TopologyId},
        event::{Event, EventKind, SdamEvent},
    };
    let unknown = ServerDescription::unknown(Address::tcp("a", 1));
    let mut told = unknown.clone();
    told.tags = [("dc".to_owned(), "x".repeat(5_000))].into();
    told.hosts = vec![Address::tcp(&"h".repeat(200), 1)];
    let event = |new: ServerDescription| {
        let kind = EventKind::Sdam(SdamEvent::ServerDescriptionChanged {
            topology: TopologyId(bson::oid::ObjectId::from_bytes([1; 12])),
            address: unknown.address.clone(),
            previous: unknown.clone().into(),
            new: new.into(),
        });
        Event::new(crate::time::Instant::ZERO, kind).document_bytes()
    };
    assert_eq!(event(unknown.clone()), 0);
    assert!((5_200..6_000).contains(&event(told)));
}
