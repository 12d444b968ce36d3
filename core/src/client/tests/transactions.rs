//! Tests of transactions: what their commands send, which calls are refused, and what remains after
//! failures.

use super::*;
use crate::{
    error::Label,
    operation::{
        CursorResources, SessionOptions, TransactionOptions, TransactionState, crud::Defaults,
    },
    options::{ReadConcern, ReadMode, ReadPreference, WriteConcern},
    session::SessionId,
};
use bson::doc;
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs";
const ROUTERS: &str = "mongodb://a,b/";
const NONE: &str = "No transaction started; call start_transaction first";

/// A client and its session with a transaction.
pub(super) struct Play {
    pub(super) world: World,
    session: SessionId,
}

impl Play {
    fn new(uri: &str, hello: RawDocumentBuf, options: &TransactionOptions) -> Self {
        let mut world = World::new(uri, hello);
        let session = world
            .client
            .start_session(world.now, &SessionOptions::default());
        let session = session.expect("the client is open").id;
        let mut play = Self { world, session };
        play.start(options).expect("no transaction is in progress");
        play
    }

    pub(super) fn of(options: &TransactionOptions) -> Self {
        Self::new(URI, primary(), options)
    }

    fn start(&mut self, options: &TransactionOptions) -> Result<(), Error> {
        let (now, defaults) = (self.world.now, Defaults::default());
        let client = &mut self.world.client;
        client.start_transaction(now, self.session, options, &defaults)
    }

    fn state(&self) -> TransactionState {
        self.world.client.transaction_state(self.session)
    }

    pub(super) fn commit(&mut self) -> Result<Option<Command>, Error> {
        let now = self.world.now;
        self.world
            .client
            .commit_transaction(now, self.session, None)
    }

    fn abort(&mut self) -> Result<Option<Command>, Error> {
        let now = self.world.now;
        self.world.client.abort_transaction(now, self.session, None)
    }

    /// Begins a command of the session.
    fn begin(&mut self, mut command: Command) -> Exchange {
        command.use_explicit_session(self.session);
        self.world.begin_exchange(command)
    }

    /// Runs a command of the session that succeeds, and returns what was sent.
    pub(super) fn run(&mut self, command: Command) -> Document {
        let exchange = self.begin(command);
        self.answer(exchange, &rawdoc! { "ok": 1, "n": 1 })
    }

    /// Runs a command that ends the transaction and succeeds, and returns what was sent.
    fn end(&mut self, command: Result<Option<Command>, Error>) -> Document {
        let command = command
            .expect("it is permitted")
            .expect("something was sent");
        let exchange = self.world.begin_exchange(command);
        self.answer(exchange, &rawdoc! { "ok": 1 })
    }

    fn answer(&mut self, mut exchange: Exchange, reply: &RawDocument) -> Document {
        let sent = World::request(&exchange);
        World::answer(&mut exchange, reply);
        let after = self.world.check_in(exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
        sent
    }

    /// Starts a command that is refused before anything is sent.
    fn refused(&mut self, mut command: Command) -> Error {
        command.use_explicit_session(self.session);
        match self.world.client.start(self.world.now, command) {
            Progress::Failed(error) => error,
            other => panic!("it is not refused: {other:?}"),
        }
    }
}

pub(super) fn none() -> TransactionOptions {
    TransactionOptions::default()
}

#[test]
fn only_the_first_command_starts_the_transaction_and_has_its_read_concern() {
    let options = TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .write_concern(WriteConcern::nodes(1))
        .build();
    let mut play = Play::of(&options);
    let first = play.run(insert());
    assert_eq!(first.get_bool("startTransaction").ok(), Some(true));
    assert_eq!(first.get_bool("autocommit").ok(), Some(false));
    let concern = first.get_document("readConcern").expect("it has one");
    assert_eq!(concern.get_str("level").ok(), Some("snapshot"));
    assert!(!first.contains_key("writeConcern"));
    let second = play.run(find());
    assert_eq!(second.get("txnNumber"), first.get("txnNumber"));
    assert_eq!(second.get_bool("autocommit").ok(), Some(false));
    for field in ["startTransaction", "readConcern", "writeConcern"] {
        assert!(!second.contains_key(field), "{second}");
    }
    let commit = play.commit();
    let commit = play.end(commit);
    assert_eq!(commit.get("txnNumber"), first.get("txnNumber"));
    assert_eq!(
        commit.get_document("writeConcern").ok(),
        Some(&doc! { "w": 1 })
    );
    assert_eq!(play.state(), TransactionState::Committed);
    // Something else in the session ends the state of the transaction, and gets another number.
    let outside = play.run(insert());
    assert!(!outside.contains_key("autocommit"));
    assert_ne!(outside.get("txnNumber"), first.get("txnNumber"));
    assert_eq!(play.state(), TransactionState::None);
}

#[test]
fn calls_that_do_not_fit_the_state_of_the_transaction_are_refused_and_change_nothing() {
    let text = |result: Result<Option<Command>, Error>| {
        result.map(|_| ()).expect_err("it is refused").to_string()
    };
    let mut play = Play::of(&none());
    let again = play.start(&none()).expect_err("it is refused").to_string();
    assert_eq!(
        again,
        "Transaction already in progress; commit or abort it first"
    );
    assert_eq!(play.state(), TransactionState::Starting);
    assert!(
        play.abort().expect("it is permitted").is_none(),
        "nothing was sent"
    );
    assert_eq!(text(play.abort()), "Cannot call abortTransaction twice");
    let after_abort = "Cannot call commitTransaction after calling abortTransaction";
    assert_eq!(text(play.commit()), after_abort);
    play.start(&none()).expect("the transaction is over");
    assert!(
        play.commit().expect("it is permitted").is_none(),
        "nothing was sent"
    );
    assert!(
        play.commit().expect("it is permitted").is_none(),
        "nothing was sent"
    );
    let after_commit = "Cannot call abortTransaction after calling commitTransaction";
    assert_eq!(text(play.abort()), after_commit);
    play.run(insert());
    assert_eq!(text(play.commit()), NONE);
    assert_eq!(text(play.abort()), NONE);
}

#[test]
fn settings_that_a_transaction_does_not_allow_are_refused_before_anything_is_sent() {
    type Set = fn(&mut Command);
    let mut play = Play::of(&none());
    let own = |set: Set| {
        let mut command = find();
        set(&mut command);
        command
    };
    let cases: [(Set, &str); 3] = [
        (
            |command| command.0.request.own.read_concern = true,
            "Cannot set read concern after starting a transaction",
        ),
        (
            |command| command.0.request.own.write_concern = true,
            "Cannot set write concern after starting a transaction; set one that is acknowledged \
             when the transaction starts",
        ),
        (
            |command| {
                let preference = ReadPreference::new(ReadMode::Secondary);
                command.set_read_preference(Arc::new(preference));
            },
            "read preference in a transaction must be primary",
        ),
    ];
    for (set, expected) in cases {
        let error = play.refused(own(set)).to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(play.state(), TransactionState::Starting);
    }
    let unacknowledged = WriteConcern::nodes(0);
    play.abort().expect("it is permitted");
    let options = TransactionOptions::builder()
        .write_concern(unacknowledged)
        .build();
    let error = play.start(&options).expect_err("it is refused").to_string();
    assert!(error.contains("transactions do not support unacknowledged write concerns"));
}

#[test]
fn the_write_concern_of_a_collection_has_no_effect_in_a_transaction() {
    let mut play = Play::of(&none());
    let unacknowledged = || {
        let mut command = insert();
        command
            .0
            .request
            .set_write_concern(Some(&WriteConcern::nodes(0)));
        command.set_unacknowledged();
        command
    };
    let sent = play.run(unacknowledged());
    assert!(!sent.contains_key("writeConcern"), "{sent}");
    let commit = play.commit();
    play.end(commit);
    let error = play.refused(unacknowledged()).to_string();
    assert!(error.contains("(w: 0) cannot run in a session"), "{error}");
}

#[test]
fn a_repeated_commit_asks_for_a_majority_and_keeps_the_rest_of_its_write_concern() {
    let mut concern = WriteConcern::nodes(1);
    concern.journal = Some(true);
    let options = TransactionOptions::builder().write_concern(concern).build();
    let mut play = Play::of(&options);
    play.run(insert());
    let commit = play.commit();
    let first = play.end(commit);
    let sent = first.get_document("writeConcern").expect("it has one");
    assert_eq!(sent, &doc! { "w": 1, "j": true });
    let commit = play.commit();
    let second = play.end(commit);
    let sent = second.get_document("writeConcern").expect("it has one");
    assert_eq!(
        sent,
        &doc! { "w": "majority", "j": true, "wtimeout": 10_000_i64 }
    );
    // A time limit takes the place of `wtimeout`.
    let limit = Some(Duration::from_secs(3));
    let now = play.world.now;
    let commit = play
        .world
        .client
        .commit_transaction(now, play.session, limit);
    let third = play.end(commit);
    let sent = third.get_document("writeConcern").expect("it has one");
    assert_eq!(sent, &doc! { "w": "majority", "j": true });
}

#[test]
fn a_commit_that_was_sent_and_dropped_is_repeated_with_a_majority() {
    let mut play = Play::of(&none());
    play.run(insert());
    // Nothing of the first commit is sent, so the second one is not a repetition.
    for is_sent in [false, true] {
        let commit = play.commit();
        let commit = commit
            .expect("it is permitted")
            .expect("something was sent");
        let mut exchange = play.world.begin_exchange(commit);
        let request = World::request(&exchange);
        assert!(!request.contains_key("writeConcern"), "{request}");
        if is_sent {
            exchange.sent(exchange.output().len());
        }
        play.world.check_in(exchange, Outcome::Abandoned);
    }
    let commit = play.commit();
    let sent = play.end(commit);
    let concern = sent.get_document("writeConcern").expect("it has one");
    assert_eq!(concern, &doc! { "w": "majority", "wtimeout": 10_000_i64 });
}

#[test]
fn a_commit_is_repeated_although_retryable_writes_are_off_and_a_statement_is_not() {
    let mut play = Play::new(
        "mongodb://a/?replicaSet=rs&retryWrites=false",
        primary(),
        &none(),
    );
    play.run(insert());
    let commit = play
        .commit()
        .expect("it is permitted")
        .expect("something was sent");
    let exchange = play.world.begin_exchange(commit);
    let AfterExchange::Again(start) = play.world.check_in(exchange, reset()) else {
        panic!("a commit is repeated");
    };
    play.world.wait(Duration::from_secs(1));
    let exchange = play.world.exchange_of(start);
    let sent = play.answer(exchange, &rawdoc! { "ok": 1 });
    let concern = sent.get_document("writeConcern").expect("it has one");
    assert_eq!(concern, &doc! { "w": "majority", "wtimeout": 10_000_i64 });

    let mut play = Play::of(&none());
    let exchange = play.begin(insert());
    let AfterExchange::Done(Err(error)) = play.world.check_in(exchange, reset()) else {
        panic!("a statement is not repeated");
    };
    assert!(error.has_label(&Label::TransientTransactionError));
    assert!(!error.has_label(&Label::RetryableWriteError));
    assert_eq!(play.state(), TransactionState::InProgress);
}

#[test]
fn the_retry_of_the_first_statement_uses_another_router_if_the_transaction_is_over_there() {
    let mut play = Play::new(ROUTERS, mongos(), &none());
    let mut exchange = play.begin(insert());
    let first = exchange.facts().address.clone();
    let busy = rawdoc! {
        "ok": 0, "code": 462, "errmsg": "busy",
        "errorLabels": ["SystemOverloadedError", "RetryableError", "TransientTransactionError"],
    };
    World::answer(&mut exchange, &busy);
    let after = play.world.check_in(exchange, Outcome::Completed);
    let AfterExchange::Again(start) = after else {
        panic!("it is tried again: {after:?}");
    };
    assert_eq!(play.world.client.transaction_server(play.session), None);
    play.world.wait(Duration::from_secs(1));
    let exchange = play.world.exchange_of(start);
    let second = exchange.facts().address.clone();
    assert_ne!(first, second, "the router that failed is avoided (RW-23)");
    let sent = play.answer(exchange, &rawdoc! { "ok": 1, "n": 1 });
    assert_eq!(sent.get_bool("startTransaction").ok(), Some(true));
    assert_eq!(
        play.world.client.transaction_server(play.session),
        Some(&second)
    );
}

#[test]
fn the_latest_recovery_token_is_sent_and_the_router_of_the_first_command_is_kept() {
    let mut play = Play::new(ROUTERS, mongos(), &none());
    let mut addresses = Vec::new();
    for token in 1..=3 {
        let exchange = play.begin(insert());
        addresses.push(exchange.facts().address.clone());
        play.answer(
            exchange,
            &rawdoc! { "ok": 1, "n": 1, "recoveryToken": { "t": token } },
        );
        let pinned = play.world.client.transaction_server(play.session);
        assert_eq!(pinned, addresses.first());
    }
    addresses.dedup();
    assert_eq!(addresses.len(), 1);
    let commit = play.commit();
    let sent = play.end(commit);
    assert_eq!(
        sent.get_document("recoveryToken").ok(),
        Some(&doc! { "t": 3 })
    );
    // The next transaction begins without the token and the router of the one before.
    play.start(&none()).expect("the transaction is over");
    assert_eq!(play.world.client.transaction_server(play.session), None);
    play.run(insert());
    let abort = play.abort();
    let sent = play.end(abort);
    assert!(!sent.contains_key("recoveryToken"), "{sent}");
}

#[test]
fn a_transaction_with_a_dropped_operation_can_only_be_aborted() {
    let mut play = Play::of(&none());
    let mut exchange = play.begin(insert());
    let all = exchange.output().len();
    exchange.sent(all);
    play.world.check_in(exchange, Outcome::Abandoned);
    assert_eq!(play.state(), TransactionState::InProgress);
    for error in [
        play.refused(find()),
        play.commit().map(|_| ()).expect_err("it is refused"),
    ] {
        assert!(
            error.to_string().contains("was dropped before its end"),
            "{error}"
        );
    }
    assert!(play.abort().expect("it is permitted").is_some());
    // An operation that was dropped before its command was sent leaves no trace.
    let mut play = Play::of(&none());
    let exchange = play.begin(insert());
    play.world.check_in(exchange, Outcome::Abandoned);
    assert_eq!(play.state(), TransactionState::Starting);
    let first = play.run(insert());
    assert_eq!(first.get_bool("startTransaction").ok(), Some(true));
}

#[test]
fn a_transaction_runs_one_operation_at_a_time() {
    let mut play = Play::of(&none());
    let first = play.begin(insert());
    assert!(
        play.refused(find())
            .to_string()
            .contains("one operation at a time")
    );
    assert!(play.commit().is_err());
    play.answer(first, &rawdoc! { "ok": 1, "n": 1 });
    play.run(find());
}

#[test]
fn a_session_that_is_dropped_in_a_transaction_aborts_it_before_it_is_used_again() {
    let mut play = Play::of(&none());
    let sent = play.run(insert());
    let (world, session) = (&mut play.world, play.session);
    world
        .client
        .release_cursor(world.now, CursorResources::of_session(session));
    world.run();
    let mut commands = std::mem::take(&mut world.background);
    let abort = commands.pop().expect("it is aborted");
    assert!(commands.is_empty() && world.client.snapshot().idle_sessions == 0);
    let exchange = world.begin_exchange(abort);
    let abort = play.answer(exchange, &rawdoc! { "ok": 1 });
    assert_eq!(abort.get_i32("abortTransaction").ok(), Some(1));
    for field in ["lsid", "txnNumber", "autocommit"] {
        assert_eq!(abort.get(field), sent.get(field));
    }
    assert_eq!(play.world.client.snapshot().idle_sessions, 1);
}

#[test]
fn a_run_limits_the_operations_of_its_session_until_it_ends() {
    let second = Duration::from_secs(1);
    let mut play = Play::of(&none());
    let (now, session) = (play.world.now, play.session);
    let client = &mut play.world.client;
    let outer = client.begin_transaction_run(now, session, Some(10 * second));
    let inner = client.begin_transaction_run(now, session, Some(second));
    let limit = |play: &mut Play| {
        let exchange = play.begin(find());
        let deadline = exchange.operation.deadline;
        play.answer(exchange, &rawdoc! { "ok": 1 });
        deadline
    };
    assert_eq!(limit(&mut play), Some(now + second));
    play.world.client.end_transaction_run(session, &inner);
    assert_eq!(limit(&mut play), Some(now + 10 * second));
    // A commit with a time limit of its own is refused, and the transaction goes on.
    let commit = play
        .world
        .client
        .commit_transaction(now, session, Some(second));
    assert!(commit.is_err());
    assert_eq!(play.state(), TransactionState::InProgress);
    let mut limited = find();
    limited.0.request.own.timeout = true;
    assert!(
        play.refused(limited)
            .to_string()
            .contains("none of its own")
    );
    play.world.client.end_transaction_run(session, &outer);
    assert_eq!(limit(&mut play), None);
    // Zero means no limit, also if the session has one.
    let _ = play
        .world
        .client
        .begin_transaction_run(now, session, Some(Duration::ZERO));
    assert_eq!(limit(&mut play), None);
    let commit = play.world.client.commit_transaction(now, session, None);
    let commit = commit
        .expect("it is permitted")
        .expect("something was sent");
    let exchange = play.world.begin_exchange(commit);
    assert_eq!(exchange.operation.deadline, None);
    play.answer(exchange, &rawdoc! { "ok": 1 });
}
