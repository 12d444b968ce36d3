//! Commits whose result is unknown.

use super::{
    transactions::{Play, none},
    *,
};
use crate::{
    error::Label,
    operation::{SessionOptions, TransactionOptions, crud::Defaults},
    options::SelectionCriteria,
};
use std::{sync::Arc, time::Duration};

/// Returns the exchange of the commit of a transaction in which a document was inserted.
fn committing() -> (Play, Exchange) {
    let mut play = Play::of(&none());
    play.run(insert());
    let commit = play.commit();
    let commit = commit
        .expect("it is permitted")
        .expect("something was sent");
    let exchange = play.world.begin_exchange(commit);
    (play, exchange)
}

#[test]
fn a_commit_whose_retries_meet_an_overloaded_server_has_an_unknown_result() {
    let overloaded = rawdoc! {
        "ok": 0, "code": 462, "errorLabels": ["SystemOverloadedError", "RetryableError"],
    };
    for is_first_lost in [true, false] {
        let (mut play, mut exchange) = committing();
        let mut outcome = Some(reset()).filter(|_| is_first_lost);
        let error = loop {
            let outcome = outcome.take().unwrap_or_else(|| {
                World::answer(&mut exchange, &overloaded);
                Outcome::Completed
            });
            match play.world.check_in(exchange, outcome) {
                AfterExchange::Again(Progress::Waiting(id)) => {
                    play.world.wait(Duration::from_secs(2));
                    exchange = play.world.exchange_of(Progress::Waiting(id));
                }
                AfterExchange::Done(Err(error)) => break error,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(error.code(), Some(462));
        let is_unknown = error.has_label(&Label::UnknownTransactionCommitResult);
        assert_eq!(is_unknown, is_first_lost, "{error}");
    }
}

#[test]
fn a_commit_whose_client_is_closed_before_its_retry_has_an_unknown_result() {
    let (mut play, exchange) = committing();
    let AfterExchange::Again(Progress::Waiting(id)) = play.world.check_in(exchange, reset()) else {
        panic!("the retry waits for a server");
    };
    play.world.client.close(play.world.now);
    play.world.run();
    let Progress::Failed(error) = play.world.client.resume(play.world.now, id) else {
        panic!("the client is closed");
    };
    assert!(
        error.has_label(&Label::UnknownTransactionCommitResult),
        "{error}"
    );
}

#[test]
fn a_commit_whose_reply_is_malformed_has_an_unknown_result() {
    let (mut play, mut exchange) = committing();
    exchange.sent(exchange.output().len());
    let malformed = Error::protocol("the reply is not valid BSON");
    let after = play.world.check_in(exchange, Outcome::Failed(malformed));
    let AfterExchange::Done(Err(error)) = after else {
        panic!("the reply says nothing: {after:?}");
    };
    assert!(
        error.has_label(&Label::UnknownTransactionCommitResult),
        "{error}"
    );
}

#[test]
fn the_core_keeps_no_function_of_the_application_for_transactions() {
    // A function that is kept would be dropped while the client is locked.
    let function: crate::options::Predicate = Arc::new(|_| true);
    let options = TransactionOptions::builder()
        .selection_criteria(SelectionCriteria::Predicate(function.clone()))
        .build();
    let mut world = World::new("mongodb://a/?replicaSet=rs", primary());
    let of_session = SessionOptions::builder()
        .default_transaction_options(options.clone())
        .build();
    let session = world.client.start_session(world.now, &of_session);
    let session = session.expect("the client is open").id;
    let started =
        world
            .client
            .start_transaction(world.now, session, &options, &Defaults::default());
    started.expect("no transaction is in progress");
    drop((options, of_session));
    assert_eq!(Arc::strong_count(&function), 1);
}
