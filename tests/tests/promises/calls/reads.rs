//! The options of reads.

use super::{ANY, Calls, MINUTE, collation, is, secondary, sends};
use bson::{Document, doc};
use onionskin::{
    Runtime,
    options::{CursorType, Hint},
};
use onionskin_core::options::{ReadConcern, WriteConcern};

pub(super) async fn finds<R: Runtime>(calls: &mut Calls<R>) {
    let things = calls.things.clone();

    sends!(calls, "find", Find: things.find(doc! {}), {
        allow_disk_use(true) => "allowDiskUse" = is(true);
        allow_partial_results(true) => "allowPartialResults" = is(true);
        batch_size(3) => "batchSize" = is(3);
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        limit(-4) => "singleBatch" = is(true);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        no_cursor_timeout(true) => "noCursorTimeout" = is(true);
        projection(doc! { "a": 1 }) => "projection.a" = is(1);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        return_key(true) => "returnKey" = is(true);
        selection_criteria(secondary().into()) => "$readPreference.mode" = is("secondary");
        show_record_id(true) => "showRecordId" = is(true);
        skip(2) => "skip" = is(2_i64);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    // Bounds are those of an index, which the hint names.
    let hinted = || things.find(doc! {}).hint(Hint::from("a_1"));
    sends!(calls, "find", Find: hinted(), {
        max(doc! { "a": 9 }) => "max.a" = is(9);
        min(doc! { "a": 1 }) => "min.a" = is(1);
    });
    let log = calls.database.collection::<Document>("log");
    sends!(calls, "find", Find: log.find(doc! {}), {
        cursor_type(CursorType::TailableAwait) => "awaitData" = is(true);
    });
    sends!(calls, "find", FindOne: things.find_one(doc! {}), {
        allow_partial_results(true) => "allowPartialResults" = is(true);
        collation(collation()) => "collation.locale" = is("en");
        comment(doc! { "a": 1 }) => "comment.a" = is(1);
        hint(Hint::Keys(doc! { "a": 1 })) => "hint.a" = is(1);
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        projection(doc! { "a": 1 }) => "projection.a" = is(1);
        read_concern(ReadConcern::majority()) => "readConcern.level" = is("majority");
        return_key(true) => "returnKey" = is(true);
        selection_criteria(secondary().into()) => "$readPreference.mode" = is("secondary");
        show_record_id(true) => "showRecordId" = is(true);
        skip(2) => "skip" = is(2_i64);
        sort(doc! { "a": -1 }) => "sort.a" = is(-1);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    // Bounds are those of an index, which the hint names.
    let hinted = || things.find_one(doc! {}).hint(Hint::from("a_1"));
    sends!(calls, "find", FindOne: hinted(), {
        max(doc! { "a": 9 }) => "max.a" = is(9);
        min(doc! { "a": 1 }) => "min.a" = is(1);
    });
}

pub(super) async fn other_reads<R: Runtime>(calls: &mut Calls<R>) {
    let things = calls.things.clone();

    let out = || things.aggregate([doc! { "$out": "elsewhere" }]);
    sends!(calls, "aggregate", Aggregate: things.aggregate([]), {
        allow_disk_use(true) => "allowDiskUse" = is(true);
        batch_size(3) => "cursor.batchSize" = is(3_i64);
        bypass_document_validation(true) => "bypassDocumentValidation" = is(true);
        collation(collation()) => "collation.locale" = is("en");
        comment(7) => "comment" = is(7);
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        let_vars(doc! { "a": 1 }) => "let.a" = is(1);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(secondary().into()) => "$readPreference.mode" = is("secondary");
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "aggregate", Aggregate: out(), {
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(calls, "aggregate", CountDocuments: things.count_documents(doc! {}), {
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        limit(5) => "pipeline.1.$limit" = is(5_i64);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(secondary().into()) => "$readPreference.mode" = is("secondary");
        skip(6) => "pipeline.1.$skip" = is(6_i64);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    let estimate = || things.estimated_document_count();
    sends!(calls, "count", EstimatedDocumentCount: estimate(), {
        comment("why") => "comment" = is("why");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(secondary().into()) => "$readPreference.mode" = is("secondary");
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "distinct", Distinct: things.distinct("a", doc! {}), {
        collation(collation()) => "collation.locale" = is("en");
        comment("why") => "comment" = is("why");
        hint(Hint::Name("a_1".into())) => "hint" = is("a_1");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(secondary().into()) => "$readPreference.mode" = is("secondary");
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}
