//! Tests of unexpected messages on a connection that waits for the reply to a hello or a check, or
//! that is idle.

use super::*;
use crate::{
    error::ErrorKind,
    wire::{Flags, HEADER_BYTES, Header, MessageWriter},
};
use bson::{RawDocumentBuf, rawdoc};

/// Returns the first 20 bytes of several messages, each with a name. None of the messages is a
/// valid single reply to the request with this id.
pub(crate) fn wrong_heads(id: i32) -> Vec<(&'static str, Vec<u8>)> {
    let head = |length: i32, response_to: i32, op_code: i32, flags: u32| {
        let mut bytes = Vec::new();
        for field in [length, 7, response_to, op_code] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes
    };
    vec![
        ("another request", head(1000, id.wrapping_add(1), 2013, 0)),
        ("more to come", head(1000, id, 2013, 2)),
        // An unknown required flag is an error (MSG-15).
        ("an unknown required flag", head(1000, id, 2013, 1 << 5)),
        ("another kind", head(1000, id, 1, 0)),
        ("no such kind", head(1000, id, 77, 0)),
        ("no room for flags", head(16, id, 2013, 0)),
        ("part of the flags", head(19, id, 2013, 0)),
        ("too large", head(50_000_000, id, 2013, 0)),
        ("a negative length", head(-1, id, 2013, 0)),
    ]
}

fn hello() -> RawDocumentBuf {
    rawdoc! { "ok": 1, "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 21 }
}

fn reply(id: i32, flags: Flags) -> Vec<u8> {
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 77, id)
        .flags(flags)
        .body(&hello())
        .end();
    bytes
}

/// Returns the id of the request that a connection sends.
fn request(connection: &mut Connection) -> i32 {
    let mut bytes = Vec::new();
    assert!(connection.poll_transmit(&mut bytes), "a request");
    let header = Header::decode(&bytes, 1 << 20).expect("a header");
    assert!(header.length >= HEADER_BYTES);
    header.request_id
}

fn receive(connection: &mut Connection, bytes: &[u8]) {
    let mut auth = auth();
    connection.handle_received(Instant::ZERO, bytes, &mut auth);
}

/// A function that brings a new connection to a step in which it waits for a reply. Returns the
/// connection and the id of the request.
type Step = &'static dyn Fn() -> (Connection, i32);

/// Returns a connection that waits for the reply to its hello, and the id of the hello.
fn awaiting_hello(purpose: ConnectionPurpose) -> (Connection, i32) {
    let mut connection = dialled(purpose, options());
    connection.handle_connected(Instant::ZERO, &mut auth());
    let id = request(&mut connection);
    (connection, id)
}

/// Returns a monitor's connection whose first hello was answered, and the id of that hello.
fn idle() -> (Connection, i32) {
    let (mut connection, id) = awaiting_hello(ConnectionPurpose::Monitor);
    receive(&mut connection, &reply(id, Flags::default()));
    assert!(matches!(
        connection.poll_output(),
        Some(Output::HelloAnswered { .. })
    ));
    (connection, id)
}

/// Returns a monitor's connection whose check was sent, and the id of the check.
fn checking(streaming: bool) -> (Connection, i32) {
    let (mut connection, _) = idle();
    let version = crate::error::TopologyVersion {
        process_id: bson::oid::ObjectId::from_bytes([1; 12]),
        counter: 1,
    };
    let awaitable = streaming.then_some((version, Duration::from_secs(10)));
    connection.check(Instant::ZERO, false, awaitable);
    let id = request(&mut connection);
    (connection, id)
}

fn failure(connection: &mut Connection) -> Option<Error> {
    match connection.poll_output()? {
        Output::Failed { error, .. } => Some(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_step_refuses_an_unexpected_message_by_its_first_bytes() {
    let steps: [(&str, Step); 4] = [
        ("hello", &|| awaiting_hello(ConnectionPurpose::Operations)),
        ("a monitor's hello", &|| {
            awaiting_hello(ConnectionPurpose::Monitor)
        }),
        ("a check", &|| checking(false)),
        ("a stream", &|| checking(true)),
    ];
    for (step, connection) in steps {
        for case in 0..wrong_heads(0).len() {
            let (mut connection, id) = connection();
            let (name, head) = wrong_heads(id).swap_remove(case);
            receive(&mut connection, &head);
            let failed = failure(&mut connection);
            if (step, name) == ("a stream", "more to come") {
                // A check with `exhaustAllowed` accepts several replies (MSG-23).
                assert!(failed.is_none());
                continue;
            }
            let error = failed.unwrap_or_else(|| panic!("{step} accepts {name}"));
            assert!(
                matches!(error.kind(), ErrorKind::InvalidResponse { .. }),
                "{step}, {name}: {error}"
            );
        }
    }
}

#[test]
fn a_streamed_reply_must_answer_the_previous_reply() {
    // After a reply with `moreToCome`, more replies follow without a request, until one has no
    // `moreToCome` (MSG-20). Each of them answers the reply before it (MSG-21). The server may end
    // the stream with any reply (MSG-22).
    let (mut connection, id) = checking(true);
    for (answered, flags, more) in [
        (id, Flags::MORE_TO_COME, true),
        (77, Flags::MORE_TO_COME, true),
        (77, Flags::default(), false),
    ] {
        receive(&mut connection, &reply(answered, flags));
        let checked = connection.poll_output();
        assert!(
            matches!(checked, Some(Output::Checked { more_to_come, .. }) if more_to_come == more),
            "{checked:?}"
        );
    }
    let (mut connection, id) = checking(true);
    receive(&mut connection, &reply(id, Flags::MORE_TO_COME));
    connection.poll_output().expect("the first reply");
    receive(&mut connection, &reply(id, Flags::MORE_TO_COME));
    assert!(
        failure(&mut connection).is_some(),
        "the first request again"
    );
}

#[test]
fn an_idle_connection_refuses_any_message_by_its_first_bytes() {
    let (mut connection, id) = idle();
    receive(&mut connection, &reply(id, Flags::default())[..20]);
    let error = failure(&mut connection).expect("no request is outstanding");
    assert!(
        matches!(error.kind(), ErrorKind::InvalidResponse { .. }),
        "{error}"
    );
}
