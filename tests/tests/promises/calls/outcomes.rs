//! The outcomes of the calls by deployment.

use onionskin::Error;
use std::collections::BTreeMap;

pub(super) const SIMULATED: &str = "simulated";
pub(super) const FERRETDB: &str = "FerretDB";

/// The outcome of a call with an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The option is sent, and the call succeeds.
    Done,
    /// The option is sent, and the server refuses the command with this code.
    Refused(i32),
    /// The option is not sent, and the call succeeds.
    Unsent,
    /// The option is not sent, and the server refuses the command with this code.
    RefusedWithout(i32),
}

use Outcome::{Done, Refused, RefusedWithout, Unsent};

impl Outcome {
    pub(super) fn new(is_sent: bool, result: Result<(), Error>) -> Self {
        let refused = result.err().map(|error| match error.code() {
            Some(code) => code,
            None => panic!("{error} is not from the server"),
        });
        match (is_sent, refused) {
            (true, None) => Done,
            (true, Some(code)) => Refused(code),
            (false, None) => Unsent,
            (false, Some(code)) => RefusedWithout(code),
        }
    }
}

/// The rows with another outcome than `Done`: deployment, outcome, reason, and the rows.
const OTHERS: &[(&str, Outcome, &str, &str)] = &[
    (
        SIMULATED,
        Refused(31082),
        "only Atlas has search indexes",
        "CreateSearchIndex::timeout DropSearchIndex::timeout UpdateSearchIndex::timeout",
    ),
    (
        SIMULATED,
        Refused(6047401),
        "only Atlas has search indexes",
        "ListSearchIndexes::timeout",
    ),
    (
        SIMULATED,
        Refused(67),
        "servers from 5.0 on have no such indexes",
        "IndexOptions::bucket_size",
    ),
    (
        SIMULATED,
        Refused(197),
        "only the index of a clustered collection has it",
        "IndexOptions::clustered",
    ),
    (
        FERRETDB,
        Unsent,
        "servers before 8.2 refuse `rawData`",
        "Aggregate::raw_data CollectionBulkWrite::raw_data CountDocuments::raw_data \
         CreateIndex::raw_data Delete::raw_data Distinct::raw_data DropIndex::raw_data \
         EstimatedDocumentCount::raw_data Find::raw_data FindOne::raw_data \
         FindOneAndDelete::raw_data FindOneAndReplace::raw_data FindOneAndUpdate::raw_data \
         InsertMany::raw_data InsertOne::raw_data ListCollections::raw_data \
         ListIndexes::raw_data Replace::raw_data Update::raw_data",
    ),
    (
        FERRETDB,
        Unsent,
        "a standalone gets no read preference",
        "Aggregate::selection_criteria CollectionOptions::selection_criteria \
         CountDocuments::selection_criteria DatabaseOptions::selection_criteria \
         Distinct::selection_criteria EstimatedDocumentCount::selection_criteria \
         Find::selection_criteria FindOne::selection_criteria RunCommand::selection_criteria \
         RunCursorCommand::selection_criteria",
    ),
    (
        FERRETDB,
        Refused(59),
        "it has no bulk writes of several collections",
        "BulkWrite::bypass_document_validation BulkWrite::comment BulkWrite::let_vars \
         BulkWrite::ordered BulkWrite::timeout BulkWrite::write_concern",
    ),
    (
        FERRETDB,
        RefusedWithout(59),
        "the same, and servers before 8.2 refuse `rawData`",
        "BulkWrite::raw_data",
    ),
    (
        FERRETDB,
        Refused(59),
        "it has no search indexes",
        "CreateSearchIndex::timeout DropSearchIndex::timeout UpdateSearchIndex::timeout",
    ),
    (
        FERRETDB,
        Refused(40234),
        "it has no search indexes",
        "ListSearchIndexes::timeout",
    ),
    (
        FERRETDB,
        Refused(238),
        "it has no change streams",
        "Watch::batch_size Watch::collation Watch::comment Watch::full_document \
         Watch::full_document_before_change Watch::join_split_events Watch::read_concern \
         Watch::resume_after Watch::show_expanded_events Watch::start_after \
         Watch::start_at_operation_time Watch::timeout",
    ),
    (
        FERRETDB,
        RefusedWithout(238),
        "the same, and a standalone gets no read preference",
        "Watch::selection_criteria",
    ),
    (
        FERRETDB,
        Refused(238),
        "it has no collations",
        "Aggregate::collation CountDocuments::collation CreateCollection::collation \
         Delete::collation DeleteManyModel::collation DeleteOneModel::collation \
         Distinct::collation Find::collation FindOne::collation FindOneAndDelete::collation \
         FindOneAndReplace::collation FindOneAndUpdate::collation IndexOptions::collation \
         Replace::collation ReplaceOneModel::collation Update::collation \
         UpdateManyModel::collation UpdateOneModel::collation",
    ),
    (
        FERRETDB,
        Refused(238),
        "it has no variables",
        "Aggregate::let_vars CollectionBulkWrite::let_vars Delete::let_vars Find::let_vars \
         FindOne::let_vars FindOneAndDelete::let_vars FindOneAndReplace::let_vars \
         FindOneAndUpdate::let_vars Replace::let_vars Update::let_vars",
    ),
    (
        FERRETDB,
        Refused(238),
        "it has no array filters",
        "FindOneAndUpdate::array_filters Update::array_filters UpdateManyModel::array_filters \
         UpdateOneModel::array_filters",
    ),
    (
        FERRETDB,
        Refused(238),
        "its `findAndModify` returns whole documents",
        "FindOneAndDelete::projection FindOneAndReplace::projection \
         FindOneAndUpdate::projection",
    ),
    (
        FERRETDB,
        Unsent,
        "it has no cluster times, so no read follows another one",
        "StartSession::causal_consistency",
    ),
    (
        FERRETDB,
        Refused(9),
        "it has no transactions",
        "StartTransaction::read_concern",
    ),
    (
        FERRETDB,
        RefusedWithout(9),
        "it has no transactions, so none is committed",
        "StartSession::default_timeout StartSession::default_transaction_options \
         StartTransaction::max_commit_time StartTransaction::write_concern",
    ),
    (
        FERRETDB,
        Refused(238),
        "it has no expiry of documents, time series, validators and views",
        "CreateCollection::expire_after_seconds CreateCollection::pipeline \
         CreateCollection::timeseries CreateCollection::validation_action \
         CreateCollection::validation_level CreateCollection::validator \
         CreateCollection::view_on TimeseriesOptions::bucket_max_span \
         TimeseriesOptions::bucket_rounding TimeseriesOptions::granularity \
         TimeseriesOptions::meta_field TimeseriesOptions::time_field",
    ),
    (
        FERRETDB,
        Refused(238),
        "it has only plain indexes",
        "IndexOptions::expire_after IndexOptions::hidden \
         IndexOptions::partial_filter_expression IndexOptions::storage_engine \
         IndexOptions::wildcard_projection",
    ),
    (
        FERRETDB,
        Refused(27),
        "it takes the kind of an index for a direction",
        "IndexOptions::bits IndexOptions::bucket_size IndexOptions::default_language \
         IndexOptions::language_override IndexOptions::max IndexOptions::min \
         IndexOptions::sphere_2d_index_version IndexOptions::text_index_version \
         IndexOptions::weights",
    ),
    (
        FERRETDB,
        Refused(2),
        "it does not know the field",
        "IndexOptions::clustered IndexOptions::version",
    ),
    (
        FERRETDB,
        Refused(9),
        "its `distinct` does not know the field",
        "Distinct::hint Distinct::max_time Distinct::timeout",
    ),
    (
        FERRETDB,
        Refused(9),
        "its updates have no order, as those of servers before 8.0",
        "Replace::sort ReplaceOneModel::sort Update::sort UpdateOneModel::sort",
    ),
    (
        FERRETDB,
        Refused(14),
        "its comments are texts",
        "FindOne::comment",
    ),
    (
        FERRETDB,
        Refused(238),
        "it does not have the option",
        "Aggregate::write_concern Find::allow_partial_results Find::no_cursor_timeout \
         Find::return_key FindOne::allow_partial_results FindOne::return_key \
         GridFsFind::no_cursor_timeout RenameCollection::drop_target",
    ),
];

/// Compares the outcomes on a deployment with those that are expected.
pub(super) fn assert_expected(deployment: &str, outcomes: &BTreeMap<String, Outcome>) {
    let mut expected: BTreeMap<_, _> = outcomes.keys().map(|row| (row.as_str(), Done)).collect();
    for (_, outcome, reason, rows) in OTHERS.iter().filter(|other| other.0 == deployment) {
        for row in rows.split(' ') {
            let earlier = expected.insert(row, *outcome);
            assert_eq!(
                earlier,
                Some(Done),
                "{row} is unknown or listed twice: {reason}"
            );
        }
    }
    let found = outcomes
        .iter()
        .map(|(row, outcome)| (row.as_str(), *outcome));
    let wrong: Vec<_> = found
        .filter(|(row, outcome)| expected[row] != *outcome)
        .collect();
    assert_eq!(
        wrong,
        [],
        "the outcomes on {deployment} that are not expected"
    );
}
