//! Tests of batches of documents: what a retry sends, and how the limits of a server divide
//! documents.

use super::*;
use crate::{
    error::{ErrorKind, Label},
    operation::{
        Portion, Program, Runner, Step,
        crud::{InsertMany, InsertManyOptions, SharedNamespace},
    },
    wire::Section,
};
use bson::{Bson, doc};
use std::{collections::BTreeMap, error::Error as _, sync::Arc, time::Duration};

const URI: &str = "mongodb://a/?replicaSet=rs";

/// Returns the hello reply of a primary that accepts this number of documents in a command.
pub(super) fn limited(documents: i32) -> RawDocumentBuf {
    let mut hello = Document::try_from(&primary()).expect("BSON");
    hello.insert("maxWriteBatchSize", documents);
    RawDocumentBuf::try_from(&hello).expect("BSON")
}

/// Returns a program that inserts this number of documents.
fn insert_many(documents: i32, options: InsertManyOptions) -> Runner<InsertMany> {
    let all = (0..documents).map(|id| rawdoc! { "_id": id });
    let bytes = all.flat_map(RawDocumentBuf::into_bytes).collect();
    let ids: BTreeMap<usize, Bson> = (0..).zip((0..documents).map(Bson::Int32)).collect();
    let namespace = SharedNamespace::new("db", "c").expect("names");
    let insert = InsertMany::new(namespace, bytes, ids, options, Arc::default());
    Runner::new(insert.expect("there are documents"))
}

/// Returns the documents that an exchange sends.
fn documents(exchange: &Exchange) -> Vec<u8> {
    let mut decoder = FrameDecoder::new();
    decoder.extend(exchange.output());
    let (_, frame) = decoder.frame().expect("a message").expect("whole");
    let message = Message::decode(frame).expect("a message");
    let mut sections = message.sections();
    let found = sections.find_map(|section| match section {
        Section::Sequence {
            identifier: "documents",
            documents,
        } => Some(documents.to_vec()),
        _ => None,
    });
    found.expect("documents")
}

/// Starts a command of a program and runs it until its exchange begins.
pub(super) fn next_exchange<P: Program>(
    world: &mut World,
    runner: &mut Runner<P>,
    step: Step<P::Output>,
) -> Exchange {
    let Step::Run(command) = step else {
        panic!("it goes on");
    };
    let start = world.client.start_in(world.now, runner.span(), command);
    let exchange = exchange_of(world, start);
    begin(world, runner, exchange).unwrap_or_else(|(_, outcome)| panic!("{outcome:?}"))
}

/// Runs a command until it has an exchange, which has no request yet.
fn exchange_of(world: &mut World, start: Progress) -> Exchange {
    world.run();
    match start {
        Progress::Exchange(exchange) => exchange,
        Progress::Waiting(id) => {
            // After a failure the server has to be checked first.
            world.wait(Duration::from_millis(500));
            match world.client.resume(world.now, id) {
                Progress::Exchange(exchange) => exchange,
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
}

fn begin<P: Program>(
    world: &World,
    runner: &mut Runner<P>,
    mut exchange: Exchange,
) -> Result<Exchange, (Box<Exchange>, Outcome)> {
    match runner.begin(world.now, &mut exchange) {
        Ok(()) => Ok(exchange),
        Err(outcome) => Err((Box::new(exchange), outcome)),
    }
}

/// Answers the command of an exchange, and returns the next step of the program.
pub(super) fn answer<P: Program>(
    world: &mut World,
    runner: &mut Runner<P>,
    mut exchange: Exchange,
    reply: &RawDocument,
) -> Step<P::Output> {
    World::answer(&mut exchange, reply);
    end(world, runner, exchange)
}

/// Ends an exchange that was answered, and returns the next step of the program.
pub(super) fn end<P: Program>(
    world: &mut World,
    runner: &mut Runner<P>,
    mut exchange: Exchange,
) -> Step<P::Output> {
    let step = runner.handle_end(&mut exchange, &Outcome::Completed);
    match (world.check_in(exchange, Outcome::Completed), step) {
        (AfterExchange::Done(Ok(())), Some(step)) => step,
        (AfterExchange::Done(Err(error)), None) => runner.handle_error(error),
        (after, _) => panic!("{after:?}"),
    }
}

#[test]
fn a_retry_of_a_batch_sends_the_same_documents_and_transaction_number() {
    // A retry sends the same documents with the same transaction number (RW-19). The connection of
    // the retry permits more documents, which changes nothing.
    let mut world = World::new(URI, limited(3));
    let mut runner = insert_many(7, InsertManyOptions::default());
    let step = runner.start();
    let first = next_exchange(&mut world, &mut runner, step);
    let expected = Portion {
        documents: 3,
        bytes: 3 * rawdoc! { "_id": 0 }.as_bytes().len(),
    };
    assert_eq!(first.portion(), Some(expected));
    let number = |exchange: &Exchange| {
        let request = World::request(exchange);
        let session = request.get_document("lsid").expect("a session").clone();
        (session, request.get_i64("txnNumber").expect("a number"))
    };
    let (sent, first_number) = (documents(&first), number(&first));
    assert_eq!(sent.len(), expected.bytes);
    world.hello = limited(100);
    let AfterExchange::Again(start) = world.check_in(first, reset()) else {
        panic!("it is retried");
    };
    let again = exchange_of(&mut world, start);
    assert_eq!(again.facts().max_write_batch_size, 100);
    let again = begin(&world, &mut runner, again).unwrap_or_else(|(_, error)| panic!("{error:?}"));
    assert_eq!(documents(&again), sent);
    assert_eq!(number(&again), first_number);
    // The next batch is another command. This command has all remaining documents, which the new
    // limit permits.
    let step = answer(&mut world, &mut runner, again, &rawdoc! { "ok": 1, "n": 3 });
    let next = next_exchange(&mut world, &mut runner, step);
    assert_eq!(next.portion().map(|portion| portion.documents), Some(4));
    assert_ne!(number(&next), first_number);
    let step = answer(&mut world, &mut runner, next, &rawdoc! { "ok": 1, "n": 4 });
    let Step::Done(Ok(result)) = step else {
        panic!("{step:?}");
    };
    assert_eq!(result.inserted_ids.len(), 7);
}

#[test]
fn a_retry_over_the_limit_of_its_server_fails_with_the_first_error_as_cause() {
    let mut world = World::new(URI, limited(3));
    let mut runner = insert_many(7, InsertManyOptions::default());
    let step = runner.start();
    let first = next_exchange(&mut world, &mut runner, step);
    world.hello = limited(2);
    let AfterExchange::Again(start) = world.check_in(first, reset()) else {
        panic!("it is retried");
    };
    let again = exchange_of(&mut world, start);
    let socket = again.socket();
    let Err((again, outcome)) = begin(&world, &mut runner, again) else {
        panic!("three documents are too many");
    };
    assert!(again.output().is_empty(), "nothing is sent");
    let AfterExchange::Done(Err(error)) = world.check_in(*again, outcome) else {
        panic!("it is not split anew");
    };
    let expected = "the size or number of documents of a retry, which must equal that of the first \
                    attempt, is 3, but the limit is 2 (server a:27017) (labels: \
                    RetryableWriteError)";
    assert_eq!(error.to_string(), expected);
    let source = error
        .source()
        .expect("the first attempt failed")
        .to_string();
    assert!(source.contains("reset"), "{source}");
    // The result of the first attempt is unknown, so the error has the label of a write that can be
    // retried.
    assert!(error.has_label(&Label::RetryableWriteError));
    let Step::Done(Err(error)) = runner.handle_error(error) else {
        panic!("it is over");
    };
    let partial = error.partial_insert().expect("an insert_many");
    assert!(partial.inserted_ids.is_empty());
    assert!(!world.closed.contains(&socket), "its connection is well");
    assert_eq!(world.client.counts().in_use, 0);
}

#[test]
fn a_batch_with_the_label_retryable_write_error_ends_an_unordered_insert() {
    // If an error with the label `RetryableWriteError` reaches the program, no retry is left. In
    // this test `retryWrites=false` permits none. The error ends even an unordered insert (RW-29).
    // After an error without the label, the unordered insert continues.
    let options = InsertManyOptions::builder().ordered(false).build();
    for (label, goes_on) in [(Some("RetryableWriteError"), false), (None, true)] {
        let mut world = World::new("mongodb://a/?replicaSet=rs&retryWrites=false", limited(3));
        let mut runner = insert_many(7, options.clone());
        let step = runner.start();
        let first = next_exchange(&mut world, &mut runner, step);
        let mut reply = doc! {
            "ok": 1, "n": 2, "writeErrors": [{ "index": 1, "code": 11000, "errmsg": "E11000" }],
        };
        if let Some(label) = label {
            reply.insert(
                "writeConcernError",
                doc! { "code": 91, "errmsg": "going away" },
            );
            reply.insert("errorLabels", [label]);
        }
        let reply = RawDocumentBuf::try_from(&reply).expect("BSON");
        match answer(&mut world, &mut runner, first, &reply) {
            Step::Run(_) => assert!(goes_on),
            Step::Done(Err(error)) => {
                assert!(!goes_on && error.has_label(&Label::RetryableWriteError));
                let partial = error.partial_insert().expect("an insert_many");
                assert!(partial.inserted_ids.keys().eq(&[0, 2]));
            }
            step => panic!("a document failed: {step:?}"),
        }
    }
}

#[test]
fn a_batch_that_was_confirmed_counts_although_its_retry_fails() {
    let refusal = rawdoc! { "ok": 0, "code": 13, "errorLabels": ["RetryableError"] };
    for refusal in [None, Some(refusal)] {
        let mut world = World::new(URI, limited(2));
        let mut runner = insert_many(3, InsertManyOptions::default());
        let step = runner.start();
        let mut first = next_exchange(&mut world, &mut runner, step);
        let reply = rawdoc! {
            "ok": 1, "n": 2, "errorLabels": ["RetryableWriteError"],
            "writeConcernError": { "code": 91, "errmsg": "going away" },
        };
        World::answer(&mut first, &reply);
        let step = runner.handle_end(&mut first, &Outcome::Completed);
        assert!(step.is_none());
        let AfterExchange::Again(start) = world.check_in(first, Outcome::Completed) else {
            panic!("it is retried");
        };
        let again = exchange_of(&mut world, start);
        let again =
            begin(&world, &mut runner, again).unwrap_or_else(|(_, error)| panic!("{error:?}"));
        let step = match &refusal {
            Some(refusal) => answer(&mut world, &mut runner, again, refusal),
            None => match world.check_in(again, reset()) {
                AfterExchange::Done(Err(error)) => runner.handle_error(error),
                after => panic!("{after:?}"),
            },
        };
        let Step::Done(Err(error)) = step else {
            panic!("{step:?}");
        };
        assert_eq!(error.is_network(), refusal.is_none());
        assert!(!error.has_label(&Label::RetryableError));
        let partial = error.partial_insert().expect("an insert_many");
        assert!(partial.inserted_ids.keys().eq(&[0, 1]));
        let earlier = partial.earlier.as_ref().expect("the first attempt");
        assert_eq!(earlier.code(), Some(91));
    }
}

#[test]
fn the_batches_of_an_insert_share_its_operation_id_and_its_time_limit() {
    let mut world = World::new(URI, limited(3));
    let options = InsertManyOptions::builder()
        .timeout(Duration::from_secs(1))
        .build();
    let mut runner = insert_many(9, options);
    // The first command waits for its connection.
    let step = runner.start();
    let first = next_exchange(&mut world, &mut runner, step);
    let end = first.operation.deadline;
    let mut ids = vec![first.operation()];
    let mut step = answer(&mut world, &mut runner, first, &rawdoc! { "ok": 1, "n": 3 });
    world.now = world.now + Duration::from_millis(400);
    let second = next_exchange(&mut world, &mut runner, step);
    assert!(end.is_some() && second.operation.deadline == end);
    ids.push(second.operation());
    world.now = world.now + Duration::from_millis(400);
    step = answer(
        &mut world,
        &mut runner,
        second,
        &rawdoc! { "ok": 1, "n": 3 },
    );
    assert_eq!(ids[0], ids[1]);
    world.now = world.now + Duration::from_millis(400);
    let Step::Run(last) = step else {
        panic!("three documents are left");
    };
    let start = world.client.start_in(world.now, runner.span(), last);
    let Progress::Failed(error) = start else {
        panic!("its time is over");
    };
    assert!(
        matches!(error.kind(), ErrorKind::Timeout { .. }),
        "{error:?}"
    );
    let Step::Done(Err(error)) = runner.handle_error(error) else {
        panic!("it is over");
    };
    let partial = error.partial_insert().expect("an insert_many");
    assert_eq!(partial.inserted_ids.len(), 6);
    assert_eq!(world.client.counts().in_use, 0);
}

#[test]
fn after_a_write_error_index_outside_of_the_batch_none_of_it_counts_as_inserted() {
    // The server sends the indexes in a reply, so they can have any value. Then it is not known
    // which documents have failed.
    let options = InsertManyOptions::builder().ordered(false).build();
    let mut world = World::new(URI, limited(3));
    let mut runner = insert_many(3, options);
    let step = runner.start();
    let batch = next_exchange(&mut world, &mut runner, step);
    let reply = rawdoc! {
        "ok": 1, "n": 3, "writeErrors": [
            { "index": 7, "code": 1, "errmsg": "x" },
            { "index": i32::MAX, "code": 1, "errmsg": "x" },
            { "index": 1, "code": 1, "errmsg": "x" },
        ],
    };
    let Step::Done(Err(error)) = answer(&mut world, &mut runner, batch, &reply) else {
        panic!("something failed");
    };
    let partial = error.partial_insert().expect("an insert_many");
    assert!(partial.inserted_ids.is_empty());
}

/// Begins the insert of documents that are so large that they are sent apart from the message.
fn large_insert(world: &mut World) -> (Runner<InsertMany>, Exchange, Vec<u8>) {
    let noise = "x".repeat(50_000);
    let all = (0..3).map(|id| rawdoc! { "_id": id, "noise": noise.as_str() });
    let bytes: Vec<u8> = all.flat_map(RawDocumentBuf::into_bytes).collect();
    let ids: BTreeMap<usize, Bson> = (0..).zip((0..3).map(Bson::Int32)).collect();
    let namespace = SharedNamespace::new("db", "c").expect("names");
    let options = InsertManyOptions::default();
    let insert = InsertMany::new(namespace, bytes.clone(), ids, options, Arc::default());
    let mut runner = Runner::new(insert.expect("there are documents"));
    let step = runner.start();
    let exchange = next_exchange(world, &mut runner, step);
    (runner, exchange, bytes)
}

#[test]
fn large_documents_follow_the_message_and_are_not_copied_into_it() {
    let mut world = World::new(URI, primary());
    let (_, mut exchange, documents) = large_insert(&mut world);
    let mut whole = Vec::new();
    let mut pieces = 0;
    while !exchange.output().is_empty() {
        let output = exchange.output();
        // A socket can accept fewer bytes than it is given.
        let count = output.len().min(40_000);
        whole.extend_from_slice(&output[..count]);
        exchange.sent(count);
        pieces += 1;
    }
    assert_eq!(pieces, 1 + documents.len().div_ceil(40_000));
    let header = Header::decode(&whole, 1 << 20).expect("a header");
    assert_eq!(header.length, whole.len());
    let message = Message::decode(&whole).expect("a message");
    let identifier = "documents";
    let sequence = Section::Sequence {
        identifier,
        documents: &documents,
    };
    assert_eq!(message.sections().last(), Some(sequence));
}

#[test]
fn a_retry_of_large_documents_sends_all_of_them_again() {
    let mut world = World::new(URI, primary());
    let (mut runner, mut first, documents) = large_insert(&mut world);
    first.sent(first.output().len());
    first.sent(70_000);
    let AfterExchange::Again(start) = world.check_in(first, reset()) else {
        panic!("it is retried");
    };
    let again = exchange_of(&mut world, start);
    let mut again =
        begin(&world, &mut runner, again).unwrap_or_else(|(_, error)| panic!("{error:?}"));
    again.sent(again.output().len());
    assert_eq!(again.output(), documents);
}

#[test]
fn a_connection_with_a_part_of_large_documents_is_closed() {
    for sent in [0, 1, 100_000] {
        let mut world = World::new(URI, primary());
        let (_, mut exchange, _) = large_insert(&mut world);
        let connection = exchange.socket();
        exchange.sent(exchange.output().len());
        exchange.sent(sent);
        world.check_in(exchange, Outcome::Abandoned);
        assert!(world.closed.contains(&connection), "{sent} bytes were sent");
    }
    // Nothing was sent, so the request is withdrawn.
    let mut world = World::new(URI, primary());
    let (_, exchange, _) = large_insert(&mut world);
    let connection = exchange.socket();
    world.check_in(exchange, Outcome::Abandoned);
    assert!(!world.closed.contains(&connection), "it can be used");
}

#[test]
fn a_time_limit_that_passes_among_large_documents_closes_the_connection() {
    let mut world = World::new(URI, primary());
    let (_, mut exchange, _) = large_insert(&mut world);
    let connection = exchange.socket();
    exchange.operation.deadline = Some(world.now);
    exchange.sent(exchange.output().len());
    exchange.sent(100_000);
    let error = Error::timeout(crate::error::Wait::Exchange, "the request was not written");
    world.check_in(exchange, Outcome::Failed(error));
    assert!(world.closed.contains(&connection));
}

#[test]
fn an_unacknowledged_write_ends_after_the_last_of_its_large_documents() {
    let mut world = World::new(URI, primary());
    let (_, mut exchange, documents) = large_insert(&mut world);
    exchange.operation.request.acknowledged = false;
    exchange.sent(exchange.output().len());
    exchange.sent(documents.len() - 1);
    assert!(exchange.operation.exchange.is_under_way);
    exchange.sent(1);
    assert!(exchange.output().is_empty());
    assert!(!exchange.operation.exchange.is_under_way);
}
