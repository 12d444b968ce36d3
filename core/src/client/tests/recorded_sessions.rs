//! Tests of recordings of sessions that applications start, of their transactions, of bulk writes
//! and of the questions of programs.

use super::{
    recordings::{URI, WHOLE, assert_same, config, entries, file_of, has_text, recorded},
    *,
};
use crate::{
    client::{Finding, Inquiry},
    error::Label,
    operation::{
        Ask, ClusterTime, CursorResources, DocumentList, MultiOffsets, SessionOptions, Span,
        TransactionOptions, crud::Defaults,
    },
    options::{ReadPreference, Secret, SelectionCriteria, ServerSelector, WriteConcern},
    session::SessionId,
};
use bson::{Timestamp, cstr};
use std::{sync::Arc, time::Duration};

const ROUTERS: &str = "mongodb://a,b/";

fn at(time: u32) -> Timestamp {
    Timestamp { time, increment: 3 }
}

/// Returns a reply with the times of a server, and with a recovery token.
fn reply_at(time: u32) -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "n": 1, "operationTime": at(time), "$clusterTime": { "clusterTime": at(time) },
        "recoveryToken": { "recoveryShardId": "a secret" },
    }
}

fn started(world: &mut World, options: &SessionOptions) -> SessionId {
    let started = world.client.start_session(world.now, options);
    started.expect("the client is open").id
}

fn start_transaction(world: &mut World, session: SessionId) {
    let (now, options) = (world.now, TransactionOptions::default());
    let client = &mut world.client;
    let started = client.start_transaction(now, session, &options, &Defaults::default());
    started.expect("no transaction is in progress");
}

fn in_session(mut command: Command, session: SessionId) -> Command {
    command.use_explicit_session(session);
    command
}

/// Inserts a document in a new transaction of the session.
fn insert_in_transaction(world: &mut World, session: SessionId, time: u32) {
    start_transaction(world, session);
    let after = world.perform(in_session(insert(), session), &reply_at(time));
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
}

fn commit(world: &mut World, session: SessionId) -> Command {
    let commit = world.client.commit_transaction(world.now, session, None);
    let commit = commit.expect("it is permitted");
    commit.expect("an operation has run")
}

fn end_session(world: &mut World, session: SessionId) {
    let resources = CursorResources::of_session(session);
    world.client.release_cursor(world.now, resources);
    world.run();
}

/// Returns the recording of a client whose session commits, repeats a commit, and aborts.
fn file_with_transactions(uri: &str, hello: RawDocumentBuf) -> Vec<u8> {
    let mut world = World::with_config(config(uri, WHOLE), hello);
    let limit = Duration::from_secs(5);
    let options = SessionOptions::builder().default_timeout(limit).build();
    let session = started(&mut world, &options);
    let time = ClusterTime::from_document(&rawdoc! { "clusterTime": at(4) });
    world.client.advance_operation_time(session, at(4));
    world
        .client
        .advance_cluster_time(session, &time.expect("a time"));
    world.perform(in_session(find(), session), &reply_at(5));

    insert_in_transaction(&mut world, session, 6);
    let command = commit(&mut world, session);
    let mut exchange = world.begin_exchange(command);
    exchange.sent(exchange.output().len());
    let AfterExchange::Again(again) = world.check_in(exchange, reset()) else {
        panic!("a commit is repeated");
    };
    world.wait(Duration::from_secs(1));
    let mut exchange = world.exchange_of(again);
    World::answer(&mut exchange, &reply_at(7));
    world.check_in(exchange, Outcome::Completed);
    let command = commit(&mut world, session);
    world.perform(command, &reply_at(8));

    let run = world
        .client
        .begin_transaction_run(world.now, session, Some(limit));
    insert_in_transaction(&mut world, session, 9);
    let conflict = rawdoc! {
        "ok": 0, "code": 112, "errorLabels": ["TransientTransactionError"],
    };
    let after = world.perform(in_session(insert(), session), &conflict);
    let AfterExchange::Done(Err(error)) = after else {
        panic!("there was a conflict: {after:?}");
    };
    assert!(error.has_label(&Label::TransientTransactionError));
    let abort = world.client.abort_transaction(world.now, session, None);
    let abort = abort.expect("it is permitted").expect("it has begun");
    world.perform(abort, &rawdoc! { "ok": 1 });
    world.client.jitter();
    world.client.end_transaction_run(session, &run);
    end_session(&mut world, session);
    file_of(&world)
}

#[test]
fn the_times_and_transactions_of_a_session_replay_to_the_same_actions() {
    for (uri, hello) in [(URI, primary()), (ROUTERS, mongos())] {
        let file = file_with_transactions(uri, hello);
        assert!(!has_text(&file, "a secret"));
        assert_same(&file);
    }
}

#[test]
fn the_choices_of_server_selectors_in_a_session_replay_to_the_same_actions() {
    let mut options = uri::parse(ROUTERS).expect("a connection string").options;
    options.server_selector = Some(ServerSelector::new(|_| {}));
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let config = config.with_recording(WHOLE).expect("it can be recorded");
    let mut world = World::with_config(config, mongos());
    let session = started(&mut world, &SessionOptions::default());
    insert_in_transaction(&mut world, session, 5);
    let command = commit(&mut world, session);
    world.perform(command, &reply_at(6));
    let mut read = in_session(find(), session);
    let accepts = |server: &crate::description::ServerDescription| server.address.port().is_some();
    read.set_criteria(&SelectionCriteria::Predicate(Arc::new(accepts)));
    world.perform(read, &reply_at(7));
    end_session(&mut world, session);
    let file = file_of(&world);
    assert_same(&file);
    let recording = Recording::read(&file).expect("a recording");
    let steps = recording.print();
    let chosen = steps.filter(|step| step.input.starts_with("the server selector of operation"));
    assert_eq!(
        chosen.count(),
        2,
        "the transaction and the read are asked about"
    );
}

#[test]
fn the_abort_of_a_session_that_is_dropped_replays_to_the_same_actions() {
    let mut world = World::with_config(config(ROUTERS, WHOLE), mongos());
    let session = started(&mut world, &SessionOptions::default());
    insert_in_transaction(&mut world, session, 1);
    end_session(&mut world, session);
    let abort = world.background.pop().expect("the transaction is aborted");
    assert_eq!(abort.name(), "abortTransaction");
    world.perform(abort, &rawdoc! { "ok": 1 });
    let other = started(&mut world, &SessionOptions::default());
    start_transaction(&mut world, other);
    let nothing = world.client.abort_at_end(world.now, other, None);
    assert!(nothing.expect("it is permitted").is_none());
    let nothing = world.client.abort_at_end(world.now, other, None);
    assert!(nothing.expect("it is permitted").is_none());
    end_session(&mut world, other);
    assert_same(&file_of(&world));
}

#[test]
fn a_refused_cluster_time_replays_to_the_same_actions() {
    for (code, text, is_repeated) in [
        (4, "Missing expected field \"signature\"", true),
        (205, "too far", true),
        (205, "a shard failed :: caused by :: too far", false),
    ] {
        let mut world = recorded(WHOLE);
        let session = started(&mut world, &SessionOptions::default());
        world.perform(in_session(find(), session), &reply_at(5));
        let refusal = rawdoc! { "ok": 0, "code": code, "errmsg": text };
        let after = world.perform(in_session(find(), session), &refusal);
        match after {
            AfterExchange::Again(start) => {
                assert!(is_repeated, "{text}");
                let mut exchange = world.exchange_of(start);
                World::answer(&mut exchange, &rawdoc! { "ok": 1 });
                world.check_in(exchange, Outcome::Completed);
            }
            AfterExchange::Done(result) => {
                assert!(!is_repeated, "{text}");
                result.expect_err("it was refused");
            }
        }
        assert_same(&file_of(&world));
    }
}

#[test]
fn a_snapshot_session_replays_to_the_same_actions() {
    let mut world = recorded(WHOLE);
    let options = SessionOptions::builder().snapshot(true).build();
    let session = started(&mut world, &options);
    let cursor = rawdoc! { "id": 0_i64, "ns": "db.c", "firstBatch": [], "atClusterTime": at(5) };
    world.perform(
        in_session(find(), session),
        &rawdoc! { "ok": 1, "cursor": cursor },
    );
    let times = world.client.session_times(session).expect("it is in use");
    assert_eq!(times.snapshot, Some(at(5)));
    world.perform(in_session(find(), session), &rawdoc! { "ok": 1 });
    end_session(&mut world, session);
    assert_same(&file_of(&world));
}

/// Returns the digest of the exchange that the command begins.
fn digest_of(world: &mut World, command: Command) -> Vec<u8> {
    // The connection exists then.
    world.perform(ping(), &rawdoc! { "ok": 1 });
    let begun = world.client.start(world.now, command);
    assert!(matches!(begun, Progress::Exchange(_)), "{begun:?}");
    let file = file_of(world);
    assert_same(&file);
    file[file.len() - 4..].to_vec()
}

/// Returns the digest of the exchange that a session begins with these times.
fn digest_with_times(operation: u32, cluster: u32, snapshot: Option<u32>) -> Vec<u8> {
    let mut world = recorded(WHOLE);
    let options = SessionOptions {
        snapshot: snapshot.map(|_| true),
        snapshot_time: snapshot.map(at),
        ..SessionOptions::default()
    };
    let session = started(&mut world, &options);
    let time = ClusterTime::from_document(&rawdoc! { "clusterTime": at(cluster) });
    let client = &mut world.client;
    client.advance_operation_time(session, at(operation));
    client.advance_cluster_time(session, &time.expect("a time"));
    digest_of(&mut world, in_session(find(), session))
}

#[test]
fn the_times_that_a_session_adds_to_a_command_are_compared() {
    let digest = digest_with_times(4, 4, None);
    assert_eq!(digest, digest_with_times(4, 4, None));
    assert_ne!(digest, digest_with_times(9, 4, None));
    assert_ne!(digest, digest_with_times(4, 9, None));
    let snapshot = |time| digest_with_times(4, 4, Some(time));
    assert_ne!(snapshot(4), snapshot(9));
}

#[test]
fn the_start_of_a_transaction_is_compared() {
    // The write outside of a transaction has the same number, so that it can be retried.
    let [outside, inside] = [false, true].map(|is_in_transaction| {
        let mut world = recorded(WHOLE);
        let session = started(&mut world, &SessionOptions::default());
        if is_in_transaction {
            start_transaction(&mut world, session);
        }
        digest_of(&mut world, in_session(insert(), session))
    });
    assert_ne!(outside, inside);
}

#[test]
fn calls_of_a_session_that_are_refused_are_recorded_with_their_errors() {
    let mut world = recorded(WHOLE);
    let both = SessionOptions::builder()
        .snapshot(true)
        .causal_consistency(true)
        .build();
    let refused = world.client.start_session(world.now, &both);
    refused.expect_err("the options exclude each other");
    let defaults = TransactionOptions::builder()
        .selection_criteria(SelectionCriteria::from(ReadPreference::nearest(None)))
        .build();
    let options = SessionOptions::builder()
        .default_transaction_options(defaults)
        .build();
    let session = started(&mut world, &options);
    let refused = world.client.commit_transaction(world.now, session, None);
    refused.expect_err("there is no transaction");
    let unacknowledged = TransactionOptions::builder()
        .write_concern(WriteConcern::nodes(0))
        .build();
    let (now, of_client) = (world.now, Defaults::default());
    let refused = world
        .client
        .start_transaction(now, session, &unacknowledged, &of_client);
    refused.expect_err("it is not acknowledged");
    start_transaction(&mut world, session);
    let command = in_session(find(), session);
    let refused = world.client.start(world.now, command);
    assert!(matches!(refused, Progress::Failed(_)), "{refused:?}");
    assert_same(&file_of(&world));
}

#[test]
fn the_limits_of_the_server_decide_about_the_statements_of_a_bulk_write_in_a_replay() {
    for (limit, has_number) in [(2, true), (3, false)] {
        let mut hello = primary();
        hello.append(cstr!("maxWriteBatchSize"), limit);
        let mut world = World::with_config(config(URI, WHOLE), hello);
        let statement = rawdoc! { "q": {}, "u": { "$set": { "a": 1 } } }.into_bytes();
        let mut multi = MultiOffsets::default();
        multi.push(2 * statement.len());
        let list = DocumentList::with_multi(statement.repeat(3), multi);
        let mut update = Command::new("update", "db", CommandKind::RetryableWrite);
        update.body().str("update", "c");
        update.set_batch("updates", list, 0);
        let mut exchange = world.begin_exchange(update);
        let number = exchange.operation.request.txn_number;
        assert_eq!(number.is_some(), has_number, "{limit}");
        World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 2 });
        world.check_in(exchange, Outcome::Completed);
        assert_same(&file_of(&world));
    }
}

fn ask(inquiry: Inquiry) -> Ask {
    let timeout = Some(Duration::from_secs(5));
    Ask { inquiry, timeout }
}

/// Asks a question. Returns the ids of the operation and the question.
fn asked(
    world: &mut World,
    span: &mut Span,
    inquiry: Inquiry,
    held: Option<&mut Exchange>,
) -> (OperationId, QuestionId) {
    let progress = world.client.ask_in(world.now, span, ask(inquiry), held);
    let Progress::Waiting(id) = progress else {
        panic!("it is not asked: {progress:?}");
    };
    world.run();
    (id, *world.inquiries.last().expect("a question"))
}

fn answer(world: &mut World, id: OperationId, question: QuestionId, answer: Answer) {
    world.client.handle_answer(world.now, question, answer);
    world.run();
    let progress = world.client.resume(world.now, id);
    assert!(matches!(progress, Progress::Answered(_)), "{progress:?}");
}

fn found() -> Answer {
    let secret = Some(Secret::new("a secret"));
    Answer::Found(Ok(Finding::Environment(vec![secret])))
}

#[test]
fn the_questions_of_programs_replay_without_their_content() {
    let mut world = recorded(WHOLE);
    let file = || Inquiry::File("a secret".to_owned());
    let reason = Answer::Found(Err("a secret".to_owned()));
    for (inquiry, answered) in [
        (Inquiry::Environment(&["A"]), found()),
        (file(), reason),
        (file(), Answer::None),
    ] {
        let (id, question) = asked(&mut world, &mut Span::default(), inquiry, None);
        answer(&mut world, id, question, answered);
    }
    // A program asks while it reads a reply.
    let mut span = Span::default();
    let start = world.client.start_in(world.now, &mut span, find());
    let mut exchange = world.exchange_of(start);
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    let (id, question) = asked(&mut world, &mut span, file(), Some(&mut exchange));
    answer(&mut world, id, question, found());
    world.check_in(exchange, Outcome::Completed);
    // The answer comes after the operation was cancelled.
    for inquiry in [Inquiry::Environment(&["A"]), file()] {
        let (id, question) = asked(&mut world, &mut Span::default(), inquiry, None);
        world.client.cancel(world.now, id);
        world.run();
        world.client.handle_answer(world.now, question, found());
        world.run();
    }
    let recording = file_of(&world);
    assert!(!has_text(&recording, "a secret"));
    assert_same(&recording);
}

#[test]
fn a_question_whose_limit_passes_replays_to_the_same_actions() {
    let mut world = recorded(WHOLE);
    let inquiry = Inquiry::Environment(&["A"]);
    let (id, question) = asked(&mut world, &mut Span::default(), inquiry, None);
    world.wait(Duration::from_secs(5));
    assert_eq!(world.withdrawn, [question]);
    let progress = world.client.resume(world.now, id);
    assert!(matches!(progress, Progress::Failed(_)), "{progress:?}");
    assert_same(&file_of(&world));
}

#[test]
fn a_damaged_recording_of_a_session_is_an_error_and_no_panic() {
    let file = file_with_transactions(ROUTERS, mongos());
    let entries = entries(&file);
    for place in (0..file.len()).step_by(5) {
        let mut other = file.clone();
        other[place] ^= 0x55;
        let Ok(recording) = Recording::read(&other) else {
            continue;
        };
        if let Ok(replay) = recording.replay() {
            let steps = replay.count() as u64;
            assert!(steps <= entries + 1, "{place}");
        }
        let Ok(recording) = Recording::read(&file[..place]) else {
            continue;
        };
        let last = recording.print().last();
        let verdict = last.map(|step| step.verdict);
        assert!(matches!(verdict, Some(Verdict::Unknown(_))), "{place}");
    }
}
