//! Tests of replies that no honest server sends, and of errors after a success.

use super::{super::InsertOneModel, *};
use crate::error::CommandError;
use bson::{RawDocumentBuf, doc, rawdoc};

/// Returns a bulk write whose first command, of two inserts, was sent.
fn sent(is_ordered: bool) -> CollectionBulkWrite {
    let insert = |id: i32| {
        InsertOneModel::builder()
            .document(doc! { "_id": id })
            .build()
    };
    let options = BulkWriteOptions::builder().ordered(is_ordered).build();
    let mut program = CollectionBulkWrite::new(
        SharedNamespace::unchecked("d".into(), "c".into()),
        &[insert(0).into(), insert(1).into()],
        options,
        Arc::default(),
        ObjectId::new,
    )
    .expect("valid models");
    assert!(matches!(program.start(), Step::Run(_)));
    let bytes = program.groups[0].statements.size_bytes();
    program.batch = Portion {
        documents: 2,
        bytes,
    };
    program
}

fn write_error(reply: &RawDocumentBuf) -> Error {
    let fault = InsertManyError::from_reply(reply)
        .expect("valid")
        .expect("it has errors");
    Error::new(ErrorKind::InsertMany(fault))
}

#[test]
fn a_write_error_without_a_valid_index_fails_the_bulk_write() {
    for index in [7, -1] {
        for is_ordered in [true, false] {
            let mut program = sent(is_ordered);
            let entry = rawdoc! { "index": index, "code": 11_000, "errmsg": "duplicate" };
            let reply = rawdoc! { "ok": 1, "n": 0, "writeErrors": [entry] };
            let step = program.handle_error(write_error(&reply));
            let Step::Done(Err(error)) = step else {
                panic!("{index} {is_ordered}: it did not fail");
            };
            assert!(error.to_string().contains("no valid index"), "{error}");
        }
    }
}

#[test]
fn an_error_after_a_success_does_not_state_that_nothing_was_written() {
    let mut program = sent(true);
    program.add(
        BatchResult {
            n: 1,
            ..BatchResult::default()
        },
        &[],
    );
    program.end_batch(&[]);
    let refusal = CommandError::from_reply(&rawdoc! { "ok": 0, "code": 462 });
    let refusal = Error::new(ErrorKind::Command(refusal));
    let step = program.handle_error(refusal.with_label(Label::NoWritesPerformed));
    let Step::Done(Err(error)) = step else {
        panic!("it did not fail");
    };
    assert!(!error.has_label(&Label::NoWritesPerformed), "{error:?}");
}

/// Returns a reply to the first command, as it is held until it is not retried.
fn held(reply: &RawDocumentBuf) -> Held<BatchResult> {
    Held {
        results: BatchResult::from_reply(reply, 2, Upserted::of_statements(0)),
        error: write_error(reply),
    }
}

#[test]
fn the_results_of_an_attempt_survive_the_error_of_its_retry() {
    let concern = rawdoc! { "code": 91, "errmsg": "shutdown" };
    let reply = rawdoc! { "ok": 1, "n": 2, "writeConcernError": concern };
    let mut program = sent(true);
    program.held = Some(held(&reply));
    let refusal = CommandError::from_reply(&rawdoc! { "ok": 0, "code": 13 });
    let step = program.handle_error(Error::new(ErrorKind::Command(refusal)));
    let Step::Done(Err(error)) = step else {
        panic!("it did not fail");
    };
    let ErrorKind::BulkWrite(failure) = error.kind() else {
        panic!("{error:?}");
    };
    assert_eq!(failure.write_concern_errors.len(), 1);
    let Some(result) = &failure.collection_result else {
        panic!("{failure:?}");
    };
    assert_eq!((result.inserted_count, result.inserted_ids.len()), (2, 2));
}

#[test]
fn a_reply_with_malformed_results_is_no_success() {
    for reply in [
        rawdoc! { "ok": 1, "n": "2" },
        rawdoc! { "ok": 1, "n": -1 },
        rawdoc! { "ok": 1, "n": 2, "upserted": { "0": 1 } },
    ] {
        let result = BatchResult::from_reply(&reply, 2, Upserted::of_statements(0));
        assert!(result.is_err(), "{reply:?}");
    }
}

#[test]
fn upserted_ids_that_a_retry_returns_again_count_once() {
    let entry = rawdoc! { "index": 0, "_id": "x".repeat(700_000) };
    let reply = rawdoc! { "ok": 1, "n": 1, "upserted": [entry] };
    let mut program = sent(true);
    let attempts = [0; 3].map(|_| BatchResult::from_reply(&reply, 2, program.upserted));
    let [.., Ok(last)] = attempts else {
        panic!("each attempt has the whole bound");
    };
    program.add(last, &[]);
    assert!(BatchResult::from_reply(&reply, 2, program.upserted).is_err());
}
