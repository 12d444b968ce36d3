//! Tests of replies to `bulkWrite` that do not fit together.

use super::{
    batches::{answer, end, limited, next_exchange},
    *,
};
use crate::{
    error::{BulkWriteError, ErrorKind, PartialBulkWriteResult},
    operation::{
        Abandoned, Runner, Step,
        crud::{BulkWrite, BulkWriteOptions, EncodedModels, InsertOneModel, Namespace, WriteModel},
    },
    results::VerboseBulkWriteResult,
    wire::Section,
};
use bson::{Bson, doc, oid::ObjectId};
use std::sync::Arc;

type Verbose = VerboseBulkWriteResult;

const URI: &str = "mongodb://a/?replicaSet=rs";

/// Returns a program that inserts three documents.
fn bulk_write(is_ordered: bool) -> Runner<BulkWrite<Verbose>> {
    let model = |id: i32| {
        let namespace = Namespace::new("d", "c");
        let model = InsertOneModel::builder().namespace(namespace);
        WriteModel::from(model.document(doc! { "_id": id }).build())
    };
    let models = EncodedModels::of((0..3).map(model), ObjectId::new);
    let options = BulkWriteOptions::builder().ordered(is_ordered).build();
    let models = models.expect("valid models");
    Runner::new(BulkWrite::new(models, true, options, Arc::default()))
}

/// Returns the result after this reply to the first command.
fn result_of(is_ordered: bool, reply: &RawDocument) -> Result<Verbose, Error> {
    let mut world = World::new(URI, primary());
    let mut runner = bulk_write(is_ordered);
    let step = runner.start();
    let exchange = next_exchange(&mut world, &mut runner, step);
    match answer(&mut world, &mut runner, exchange, reply) {
        Step::Done(result) => result,
        step => panic!("it has one command: {step:?}"),
    }
}

/// Returns the error of the bulk write, and that of its cause if this is a protocol error.
fn failure(error: &Error) -> (&BulkWriteError, Option<String>) {
    let ErrorKind::BulkWrite(failure) = error.kind() else {
        panic!("{error:?}");
    };
    let cause = std::error::Error::source(error).map(ToString::to_string);
    (failure, cause)
}

#[test]
fn fewer_errors_than_failed_operations_end_the_bulk_write() {
    let succeeded = |index: i32| rawdoc! { "ok": 1, "idx": index, "n": 1 };
    let failed = |index: i32| rawdoc! { "ok": 0, "idx": index, "code": 1, "errmsg": "no" };
    let reply = |errors: i32, entries: &[RawDocumentBuf]| {
        let batch = bson::RawArrayBuf::from_iter(entries.iter().cloned());
        rawdoc! {
            "ok": 1, "nErrors": errors, "nInserted": 3 - errors,
            "cursor": { "id": 0_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": batch },
        }
    };
    // No error is listed, so it is not known that an operation of the ordered bulk write succeeded.
    let error = result_of(true, &reply(1, &[])).expect_err("an operation failed");
    assert!(matches!(error.kind(), ErrorKind::InvalidResponse { .. }));

    // Repeated errors are those of one operation.
    for entries in [vec![failed(1)], vec![failed(1), failed(1)]] {
        let error = result_of(false, &reply(2, &entries)).expect_err("two operations failed");
        let (failure, cause) = failure(&error);
        assert!(cause.is_some_and(|cause| cause.contains("fewer errors")));
        assert_eq!(failure.write_errors.keys().collect::<Vec<_>>(), [&1]);
        let Some(PartialBulkWriteResult::Verbose(result)) = &failure.partial_result else {
            panic!("{failure:?}");
        };
        assert_eq!(result.summary.inserted_count, 1);
    }

    let error = result_of(false, &reply(1, &[succeeded(0), failed(1), succeeded(2)]));
    let error = error.expect_err("an operation failed");
    let (failure, cause) = failure(&error);
    assert_eq!((failure.write_errors.len(), cause), (1, None));
}

#[test]
fn a_malformed_number_of_errors_ends_the_bulk_write() {
    let reply = rawdoc! {
        "ok": 1, "nErrors": "0", "nInserted": 3,
        "cursor": { "id": 0_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": [] },
    };
    let error = result_of(true, &reply).expect_err("it is malformed");
    assert!(matches!(error.kind(), ErrorKind::InvalidResponse { .. }));
}

#[test]
fn a_malformed_reply_with_a_write_concern_error_keeps_that_error() {
    let reply = rawdoc! {
        "ok": 1, "nErrors": "0", "nInserted": 3,
        "cursor": { "id": 0_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": [] },
        "writeConcernError": { "code": 64, "errmsg": "not in time" },
    };
    let error = result_of(false, &reply).expect_err("it is malformed");
    let (failure, cause) = failure(&error);
    assert!(cause.is_some_and(|cause| cause.contains("nErrors")));
    assert_eq!(failure.write_concern_errors.len(), 1);
    assert_eq!(failure.partial_result, None, "nothing is known");
}

#[test]
fn errors_of_an_open_cursor_that_are_lost_are_no_fault_of_the_server() {
    // The command might have been retried, so its cursor was not opened.
    let reply = rawdoc! {
        "ok": 1, "nErrors": 2, "nInserted": 1,
        "cursor": { "id": 5_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": [
            { "ok": 0, "idx": 0, "code": 1, "errmsg": "no" },
        ] },
        "writeConcernError": { "code": 64, "errmsg": "not in time" },
        "errorLabels": ["RetryableError"],
    };
    let error = result_of(false, &reply).expect_err("operations failed");
    let (failure, cause) = failure(&error);
    assert_eq!((failure.write_errors.len(), cause), (1, None));
    assert_eq!(failure.write_concern_errors.len(), 1);
}

#[test]
fn the_cursor_is_closed_before_the_error_of_its_get_more_is_raised() {
    let first = rawdoc! {
        "ok": 1, "nErrors": 0, "nInserted": 3,
        "cursor": { "id": 5_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": [
            { "ok": 1, "idx": 0, "n": 1 },
        ] },
    };
    let fault = |code: i32| rawdoc! { "ok": 0, "code": code, "errmsg": "no" };
    for (killed, codes) in [
        (rawdoc! { "ok": 1, "cursorsKilled": [5_i64] }, vec![8]),
        (fault(13), vec![8, 13]),
    ] {
        let mut world = World::new(URI, primary());
        let mut runner = bulk_write(true);
        let mut step = runner.start();
        for (name, reply) in [
            ("bulkWrite", &first),
            ("getMore", &fault(8)),
            ("killCursors", &killed),
        ] {
            let exchange = next_exchange(&mut world, &mut runner, step);
            assert!(World::request(&exchange).contains_key(name));
            step = answer(&mut world, &mut runner, exchange, reply);
        }
        let Step::Done(Err(error)) = step else {
            panic!("the bulk write has failed: {step:?}");
        };
        let mut causes = Vec::new();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause.and_then(|cause| cause.downcast_ref::<Error>()) {
            causes.extend(error.code());
            cause = std::error::Error::source(error);
        }
        assert_eq!(causes, codes);
        assert_eq!(world.client.snapshot().sessions_in_use, 0);
    }
}

#[test]
fn a_cursor_whose_kill_cursors_was_not_sent_is_closed_in_the_background() {
    let first = rawdoc! {
        "ok": 1, "nErrors": 0, "nInserted": 3,
        "cursor": { "id": 5_i64, "ns": "admin.$cmd.bulkWrite", "firstBatch": [
            { "ok": 1, "idx": 0, "n": 1 },
        ] },
    };
    let fault = rawdoc! { "ok": 0, "code": 8, "errmsg": "no" };
    for (is_sent, fails) in [(false, false), (false, true), (true, false)] {
        let mut world = World::new(URI, primary());
        let mut runner = bulk_write(true);
        let mut step = runner.start();
        for reply in [&first, &fault] {
            let exchange = next_exchange(&mut world, &mut runner, step);
            step = answer(&mut world, &mut runner, exchange, reply);
        }
        if is_sent {
            let exchange = next_exchange(&mut world, &mut runner, step);
            world.check_in(exchange, Outcome::Abandoned);
        } else if fails {
            let late = Error::timeout(crate::error::Wait::CheckOut, "too late");
            assert!(matches!(runner.handle_error(late), Step::Done(Err(_))));
        }
        let left = runner.abandon();
        assert_eq!(matches!(left, Abandoned::Run(_)), !is_sent, "{left:?}");
    }
}

#[test]
fn results_that_were_read_before_a_get_more_fails_are_kept() {
    let mut world = World::new(URI, primary());
    let mut runner = bulk_write(true);
    let step = runner.start();
    let exchange = next_exchange(&mut world, &mut runner, step);
    let first = rawdoc! {
        "ok": 1, "nErrors": 1, "nInserted": 2, "nMatched": 0, "nModified": 0, "nUpserted": 0,
        "nDeleted": 0,
        "cursor": {
            "id": 5_i64, "ns": "admin.$cmd.bulkWrite",
            "firstBatch": [{ "ok": 1, "idx": 0, "n": 1 }],
        },
    };
    let step = answer(&mut world, &mut runner, exchange, &first);
    let more = next_exchange(&mut world, &mut runner, step);
    let refused = rawdoc! { "ok": 0, "code": 1, "errmsg": "no" };
    let step = answer(&mut world, &mut runner, more, &refused);
    let kill = next_exchange(&mut world, &mut runner, step);
    let step = answer(&mut world, &mut runner, kill, &rawdoc! { "ok": 1 });
    let Step::Done(Err(error)) = step else {
        panic!("{step:?}");
    };
    let (failure, _) = failure(&error);
    let Some(PartialBulkWriteResult::Verbose(result)) = &failure.partial_result else {
        panic!("{failure:?}");
    };
    assert!(result.insert_results.contains_key(&0), "{result:?}");
}

#[test]
fn large_operations_are_sent_apart_unless_their_namespaces_have_other_places() {
    let noise = "x".repeat(50_000);
    let model = |id: i32, collection: &str| {
        let namespace = Namespace::new("d", collection);
        let model = InsertOneModel::builder().namespace(namespace);
        model.document(doc! { "noise": &noise, "_id": id }).build()
    };
    let models = [model(0, "a"), model(1, "b"), model(2, "b"), model(3, "b")];
    let mut world = World::new(URI, limited(2));
    let models = EncodedModels::of(models, ObjectId::new).expect("valid models");
    let options = BulkWriteOptions::default();
    let mut runner = Runner::new(BulkWrite::<Verbose>::new(
        models,
        true,
        options,
        Arc::default(),
    ));
    let mut step = runner.start();
    // The second command has another namespace in the first place, so its operations are copied.
    let commands = [
        ([(0, 0), (1, 1)], vec!["d.a", "d.b"], true),
        ([(0, 2), (0, 3)], vec!["d.b"], false),
    ];
    for (inserts, namespaces, is_apart) in commands {
        let mut exchange = next_exchange(&mut world, &mut runner, step);
        let head = exchange.output().len();
        let entries = [0, 1].map(|at| rawdoc! { "ok": 1, "idx": at, "n": 1 });
        let reply = rawdoc! {
            "ok": 1, "nErrors": 0, "nInserted": 2,
            "cursor": {
                "id": 0_i64, "ns": "admin.$cmd.bulkWrite",
                "firstBatch": bson::RawArrayBuf::from_iter(entries),
            },
        };
        let request = World::answer(&mut exchange, &reply);
        assert_eq!(head < request.len(), is_apart);
        let namespaces = namespaces.into_iter().map(|name| rawdoc! { "ns": name });
        let operations = inserts.map(|(place, id)| {
            rawdoc! { "insert": place, "document": { "_id": id, "noise": noise.as_str() } }
        });
        let bytes = |all: Vec<RawDocumentBuf>| -> Vec<u8> {
            all.into_iter()
                .flat_map(RawDocumentBuf::into_bytes)
                .collect()
        };
        let expected = [namespaces.collect(), operations.to_vec()].map(bytes);
        let message = Message::decode(&request).expect("a message");
        let sent = message.sections().filter_map(|section| match section {
            Section::Sequence { documents, .. } => Some(documents.to_vec()),
            Section::Body(_) => None,
        });
        assert!(sent.eq(expected));
        step = end(&mut world, &mut runner, exchange);
    }
    let Step::Done(Ok(result)) = step else {
        panic!("{step:?}");
    };
    let ids = result.insert_results.into_values();
    assert!(
        ids.map(|insert| insert.inserted_id)
            .eq((0..4).map(Bson::Int32))
    );
}
