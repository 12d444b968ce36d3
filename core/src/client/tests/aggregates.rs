//! Tests of aggregations: which servers run them, and which read preference they send.

use super::*;
use crate::{
    operation::crud::{AggregateOptions, Defaults, SharedNamespace, aggregate},
    options::{ReadMode, WriteConcern},
};
use bson::{Document, doc};

const URI: &str = "mongodb://a/?replicaSet=rs";

/// Returns the hello reply of the only member of a replica set, with this wire version.
fn member(writable: bool, max_wire_version: i32) -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "isWritablePrimary": writable, "secondary": !writable, "setName": "rs",
        "hosts": ["a:27017"], "maxWireVersion": max_wire_version,
        "logicalSessionTimeoutMinutes": 30,
    }
}

/// Returns an aggregation whose pipeline ends with this stage.
fn ending_in(stage: Document, mode: ReadMode) -> Command {
    let pipeline = [doc! { "$match": { "x": 1 } }, stage];
    let options = AggregateOptions {
        batch_size: Some(3),
        selection_criteria: Some(ReadPreference::new(mode).into()),
        write_concern: Some(WriteConcern::nodes(1)),
        ..AggregateOptions::default()
    };
    let namespace = SharedNamespace::new("db", "c").expect("names");
    let defaults = Defaults::default();
    let command = aggregate(&namespace, &pipeline, &options, &defaults);
    command.expect("it can be encoded")
}

fn writing_stages() -> [Document; 2] {
    [doc! { "$out": "d" }, doc! { "$merge": { "into": "d" } }]
}

#[test]
fn a_pipeline_with_a_write_stage_needs_the_primary_before_wire_version_13() {
    // A pipeline with a write stage needs the primary if a server is older than 5.0, which has wire
    // version 13. Otherwise the read preference of the command applies (SEL-34), as in the official
    // tests `aggregate-write-readPreference`.
    for stage in writing_stages() {
        for (max_wire_version, is_sent) in [(13, true), (12, false), (9, false)] {
            let mut world = World::new(URI, member(true, max_wire_version));
            let command = ending_in(stage.clone(), ReadMode::SecondaryPreferred);
            let sent = World::request(&world.begin_exchange(command));
            let preference = sent.get_document("$readPreference").ok();
            let expected = doc! { "mode": "secondaryPreferred" };
            assert_eq!(
                preference,
                is_sent.then_some(&expected),
                "{max_wire_version}"
            );
            let concern = sent.get_document("writeConcern").ok();
            assert_eq!(concern, Some(&doc! { "w": 1 }));

            let mut world = World::new(URI, member(false, max_wire_version));
            let command = ending_in(stage.clone(), ReadMode::Secondary);
            let start = world.client.start(world.now, command);
            world.run();
            let Progress::Waiting(id) = start else {
                panic!("{start:?}");
            };
            let resumed = world.client.resume(world.now, id);
            let is_in_use = matches!(resumed, Progress::Exchange(_));
            assert_eq!(is_in_use, is_sent, "{max_wire_version}: {resumed:?}");
        }
    }
}

#[test]
fn a_pipeline_without_a_write_stage_uses_its_read_preference() {
    // The read preference applies to a pipeline without a write stage (SEL-32). A field `$out`
    // inside of the last stage is no write stage.
    for stage in [
        doc! { "$sort": { "x": 1 } },
        doc! { "$match": { "$out": 1 } },
    ] {
        let mut world = World::new(URI, member(false, 12));
        let exchange = world.begin_exchange(ending_in(stage, ReadMode::Secondary));
        let sent = World::request(&exchange);
        let preference = sent.get_document("$readPreference").ok();
        assert_eq!(preference, Some(&doc! { "mode": "secondary" }));
        assert!(!sent.contains_key("writeConcern"), "{sent}");
        assert_eq!(
            sent.get_document("cursor").ok(),
            Some(&doc! { "batchSize": 3_i64 })
        );
        // An aggregation without a write stage is retried (RR-5).
        let after = world.check_in(exchange, reset());
        assert!(matches!(after, AfterExchange::Again(_)), "{after:?}");
    }
}

#[test]
fn a_pipeline_with_a_write_stage_is_not_retried_and_fails_on_write_concern_errors() {
    let reply = rawdoc! {
        "ok": 1, "cursor": { "firstBatch": [], "id": 0_i64, "ns": "db.c" },
        "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
    };
    for stage in writing_stages() {
        let mut world = World::new(URI, member(true, 21));
        let after = world.perform(ending_in(stage.clone(), ReadMode::Primary), &reply);
        let AfterExchange::Done(Err(error)) = after else {
            panic!("{after:?}");
        };
        assert_eq!(error.code(), Some(64));
        let exchange = world.begin_exchange(ending_in(stage, ReadMode::Primary));
        let sent = World::request(&exchange);
        assert!(!sent.contains_key("txnNumber"), "{sent}");
        assert_eq!(sent.get_document("cursor").ok(), Some(&doc! {}));
        let after = world.check_in(exchange, reset());
        assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
    }
}
