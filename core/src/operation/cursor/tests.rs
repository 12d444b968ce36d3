//! Tests of cursors.

use super::*;
use crate::operation::batch::MAX_NAMESPACE_BYTES;
use bson::{RawDocumentBuf, rawdoc};

fn reply(document: &RawDocumentBuf) -> Reply {
    Reply::for_test(document.as_bytes())
}

fn open(document: &RawDocumentBuf) -> Result<Cursor, Error> {
    Cursor::open(reply(document), "db".into(), Address::tcp("a", 1), None)
        .map_err(|(error, _)| error)
}

#[test]
fn a_cursor_returns_its_first_batch_and_then_sends_get_more() {
    // A cursor id other than zero means that the server may have more documents. The client
    // continues such a cursor with a `getMore` (MSG-22).
    let first = rawdoc! {
        "cursor": { "firstBatch": [{ "a": 1 }, { "a": 2 }], "id": 7_i64, "ns": "db.c.d" },
        "ok": 1,
    };
    let mut cursor = open(&first).expect("a cursor");
    let mut seen = Vec::new();
    while let Some(result) = cursor.advance() {
        assert!(result.is_ok());
        let document = cursor.current().expect("a document");
        seen.push(document.get_i32("a").expect("a number"));
    }
    assert_eq!(seen, [1, 2]);
    assert!(cursor.is_open() && cursor.is_batch_empty());
    let Step::Run(command) = cursor.start() else {
        panic!("it is open");
    };
    assert_eq!(command.name(), "getMore");
}

#[test]
fn a_reply_without_cursor_is_an_error() {
    // A reply without a `cursor` field is an error (RUN-26), and so is a cursor without a
    // batch.
    assert!(open(&rawdoc! { "ok": 1 }).is_err());
    assert!(open(&rawdoc! { "cursor": { "id": 0 }, "ok": 1 }).is_err());
}

#[test]
fn a_resume_token_that_is_not_a_document_is_refused() {
    let reply = |token| {
        rawdoc! { "cursor": { "id": 0, "firstBatch": [], "postBatchResumeToken": token } }
    };
    assert!(open(&reply(bson::RawBson::Int32(1))).is_err());
    let cursor = open(&reply(rawdoc! { "_data": 1 }.into())).expect("a cursor");
    assert!(cursor.post_batch_resume_token().is_some());
}

#[test]
fn a_cursor_with_an_oversized_namespace_is_refused() {
    let ns = "x".repeat(MAX_NAMESPACE_BYTES + 1);
    assert!(open(&rawdoc! { "cursor": { "id": 0, "ns": ns, "firstBatch": [] } }).is_err());
    let ns = "x".repeat(MAX_NAMESPACE_BYTES);
    assert!(open(&rawdoc! { "cursor": { "id": 0, "ns": ns, "firstBatch": [] } }).is_ok());
}

#[test]
fn a_batch_ends_at_an_entry_that_is_not_a_document() {
    let odd = rawdoc! { "cursor": { "id": 0_i64, "firstBatch": [1, { "a": 1 }] }, "ok": 1 };
    let mut cursor = open(&odd).expect("a cursor");
    assert!(cursor.advance().is_some_and(|result| result.is_err()));
    assert!(cursor.current().is_none() && cursor.current_bytes().is_empty());
    assert!(cursor.advance().is_none());
}

#[test]
fn a_cursor_ends_with_a_malformed_batch_and_is_closed() {
    // Documents of the batch are lost, so the next batch would follow a gap.
    let odd = rawdoc! {
        "cursor": { "id": 7_i64, "ns": "db.c", "firstBatch": [1, { "a": 1 }] }, "ok": 1,
    };
    let mut cursor = open(&odd).expect("a cursor");
    assert!(cursor.advance().is_some_and(|result| result.is_err()));
    assert!(!cursor.is_open() && matches!(cursor.start(), Step::Done(Ok(false))));
    assert!(matches!(cursor.end(), Ok(kill) if kill.name() == "killCursors"));
}

#[test]
fn a_batch_ends_at_a_document_whose_size_is_wrong() {
    for (length, terminator) in [(4, 0), (13, 0), (-1, 0), (0, 0), (12, 1)] {
        let reply = rawdoc! { "cursor": { "id": 0_i64, "firstBatch": [{ "a": 1 }] } };
        let mut bytes = reply.into_bytes();
        let place = bytes.len() - 15;
        bytes[place..place + 4].copy_from_slice(&i32::to_le_bytes(length));
        bytes[place + 11] = terminator;
        let reply = RawDocumentBuf::from_bytes(bytes).expect("its own size is right");
        let mut cursor = open(&reply).expect("a cursor");
        assert!(
            cursor.advance().is_some_and(|result| result.is_err()),
            "{length}"
        );
        assert!(cursor.advance().is_none());
    }
}
