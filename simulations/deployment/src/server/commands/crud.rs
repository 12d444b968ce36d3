//! The commands that read and write documents.

use super::{Field, Kind, Row, field, row};

const CURSOR: &[Field] = &[field("batchSize", Kind::Whole).natural()];

const UPDATE: &[Field] = &[
    field("q", Kind::Object).required(),
    field("u", Kind::Any).required(),
    field("c", Kind::Object),
    field("sort", Kind::Object).since(8, 0),
    field("arrayFilters", Kind::ArrayOf(&Kind::Object)),
    field("hint", Kind::TextOrObject),
    field("multi", Kind::Bool),
    field("upsert", Kind::Bool),
    field("upsertSupplied", Kind::Bool).since(4, 4),
    field("collation", Kind::Object),
    field("sampleId", Kind::Binary).since(7, 0),
];

const DELETE: &[Field] = &[
    field("q", Kind::Object).required(),
    field("limit", Kind::Any).required(),
    field("hint", Kind::TextOrObject).since(4, 4),
    field("collation", Kind::Object),
    field("sampleId", Kind::Binary).since(7, 0),
];

/// The operations of a `bulkWrite`, by the field that names them.
const OPERATIONS: &[(&str, &[Field])] = &[
    (
        "insert",
        &[
            field("insert", Kind::Int),
            field("document", Kind::Object).required(),
        ],
    ),
    (
        "update",
        &[
            field("update", Kind::Int),
            field("filter", Kind::Object).required(),
            field("updateMods", Kind::Any).required(),
            field("multi", Kind::Bool),
            field("upsert", Kind::Bool),
            field("upsertSupplied", Kind::Flag),
            field("arrayFilters", Kind::ArrayOf(&Kind::Object)),
            field("sort", Kind::Object),
            field("hint", Kind::TextOrObject),
            field("constants", Kind::Object),
            field("collation", Kind::Object),
            field("sampleId", Kind::Binary),
        ],
    ),
    (
        "delete",
        &[
            field("delete", Kind::Int),
            field("filter", Kind::Object).required(),
            field("multi", Kind::Bool),
            field("hint", Kind::TextOrObject),
            field("collation", Kind::Object),
            field("sampleId", Kind::Binary),
        ],
    ),
];

/// The fields of a collection of a `bulkWrite`.
const NAMESPACE: &[Field] = &[
    field("ns", Kind::Text).required(),
    field("collectionUUID", Kind::Uuid).refused(),
    field("encryptionInformation", Kind::Object).refused(),
    field("isTimeseriesNamespace", Kind::Bool),
];

/// The fields of all commands that write documents, after their own.
macro_rules! write_fields {
    ($($field:expr),* $(,)?) => {
        &[
            $($field,)*
            field("bypassDocumentValidation", Kind::Flag),
            field("stmtId", Kind::Int),
            field("stmtIds", Kind::ArrayOf(&Kind::Int)),
            field("isTimeseriesNamespace", Kind::Bool).since(5, 0),
            field("collectionUUID", Kind::Uuid).since(6, 0).refused(),
            field("encryptionInformation", Kind::Object).since(6, 0).refused(),
            field("bypassEmptyTsReplacement", Kind::Bool).since(5, 0),
        ]
    };
}

pub(super) const ROWS: &[Row] = &[
    row(
        &["find"],
        Kind::CollectionOrUuid,
        &[
            field("filter", Kind::Object),
            field("projection", Kind::Object),
            field("sort", Kind::Object),
            field("hint", Kind::TextOrObject),
            field("collation", Kind::Object),
            field("skip", Kind::Whole).natural(),
            field("limit", Kind::Whole).natural(),
            field("batchSize", Kind::Whole).natural(),
            field("singleBatch", Kind::Bool),
            field("allowDiskUse", Kind::Bool).since(4, 4),
            field("min", Kind::Object),
            field("max", Kind::Object),
            field("returnKey", Kind::Bool),
            field("showRecordId", Kind::Bool),
            field("tailable", Kind::Bool),
            field("oplogReplay", Kind::Bool),
            field("noCursorTimeout", Kind::Bool),
            field("awaitData", Kind::Bool),
            field("allowPartialResults", Kind::Bool),
            field("let", Kind::Object).since(5, 0),
            field("term", Kind::Whole),
            field("readOnce", Kind::Bool),
            field("allowSpeculativeMajorityRead", Kind::Bool),
            field("$_requestResumeToken", Kind::Bool)
                .since(4, 4)
                .refused(),
            field("$_resumeAfter", Kind::Object).since(4, 4).refused(),
            field("runtimeConstants", Kind::Object),
            field("collectionUUID", Kind::Uuid).since(6, 0),
            field("encryptionInformation", Kind::Object)
                .since(6, 0)
                .refused(),
            field("mirrored", Kind::Bool).since(6, 1),
            field("sampleId", Kind::Binary).since(7, 0),
            field("includeQueryStatsMetrics", Kind::Bool).since(8, 0),
            field("querySettings", Kind::Object).since(8, 0).refused(),
        ],
    )
    .prefix("FindCommandRequest")
    .api(),
    row(
        &["getMore"],
        Kind::Long,
        &[
            field("collection", Kind::Text).required(),
            field("batchSize", Kind::Whole).natural(),
            field("term", Kind::Long),
            field("lastKnownCommittedOpTime", Kind::Object),
            field("includeQueryStatsMetrics", Kind::Bool).since(8, 0),
        ],
    )
    .api(),
    row(
        &["killCursors"],
        Kind::Collection,
        &[field("cursors", Kind::ArrayOf(&Kind::Long)).required()],
    )
    .api(),
    row(
        &["insert"],
        Kind::Collection,
        write_fields![
            field("documents", Kind::ArrayOf(&Kind::Object)).required(),
            field("ordered", Kind::Bool)
        ],
    )
    .api(),
    row(
        &["update"],
        Kind::Collection,
        write_fields![
            field("updates", Kind::ArrayOf(&Kind::Nested(UPDATE))).required(),
            field("ordered", Kind::Bool),
            field("let", Kind::Object).since(5, 0),
            field("runtimeConstants", Kind::Object),
        ],
    )
    .api(),
    row(
        &["delete"],
        Kind::Collection,
        write_fields![
            field("deletes", Kind::ArrayOf(&Kind::Nested(DELETE))).required(),
            field("ordered", Kind::Bool),
            field("let", Kind::Object).since(5, 0),
            field("runtimeConstants", Kind::Object).since(5, 0),
        ],
    )
    .api(),
    row(
        &["findAndModify", "findandmodify"],
        Kind::Collection,
        write_fields![
            field("query", Kind::Object),
            field("fields", Kind::Object),
            field("sort", Kind::Object),
            field("batchSize", Kind::Int).since(5, 0),
            field("singleBatch", Kind::Bool).since(5, 0),
            field("hint", Kind::TextOrObject).since(4, 4),
            field("collation", Kind::Object),
            field("arrayFilters", Kind::ArrayOf(&Kind::Object)),
            field("remove", Kind::Flag),
            field("update", Kind::Any),
            field("upsert", Kind::Flag),
            field("new", Kind::Flag),
            field("let", Kind::Object).since(5, 0),
            field("runtimeConstants", Kind::Object),
            field("sampleId", Kind::Binary).since(7, 0),
        ],
    )
    .api(),
    row(
        &["bulkWrite"],
        Kind::Whole,
        &[
            field("ops", Kind::ArrayOf(&Kind::Tagged(OPERATIONS))).required(),
            field("nsInfo", Kind::ArrayOf(&Kind::Nested(NAMESPACE))).required(),
            field("cursor", Kind::Nested(CURSOR)),
            field("bypassDocumentValidation", Kind::Flag),
            field("ordered", Kind::Bool),
            field("let", Kind::Object),
            field("errorsOnly", Kind::Bool),
            field("stmtId", Kind::Int),
            field("stmtIds", Kind::ArrayOf(&Kind::Int)),
            field("bypassEmptyTsReplacement", Kind::Bool),
        ],
    )
    .admin()
    .api()
    .since(8, 0),
    row(
        &["aggregate"],
        Kind::CollectionOrOne,
        &[
            field("pipeline", Kind::Pipeline).required(),
            field("explain", Kind::Bool),
            field("allowDiskUse", Kind::Bool),
            field("cursor", Kind::Nested(CURSOR)),
            field("bypassDocumentValidation", Kind::Flag),
            field("collation", Kind::Object),
            field("hint", Kind::TextOrObject),
            field("let", Kind::Object).since(5, 0),
            field("fromMongos", Kind::Bool),
            field("needsMerge", Kind::Bool).refused(),
            field("exchange", Kind::Object).refused(),
            field("runtimeConstants", Kind::Object),
            field("isMapReduceCommand", Kind::Bool).since(4, 4),
            field("collectionUUID", Kind::Uuid).since(6, 0),
            field("encryptionInformation", Kind::Object)
                .since(6, 0)
                .refused(),
            field("sampleId", Kind::Binary).since(7, 0),
            field("stmtId", Kind::Int).since(7, 0),
            field("includeQueryStatsMetrics", Kind::Bool).since(8, 0),
            field("querySettings", Kind::Object).since(8, 0).refused(),
        ],
    )
    .api(),
    row(
        &["count"],
        Kind::CollectionOrUuid,
        &[
            field("query", Kind::Object),
            field("limit", Kind::Whole),
            field("skip", Kind::Whole).natural(),
            field("hint", Kind::TextOrObject),
            field("collation", Kind::Object),
            field("fields", Kind::Object),
            field("encryptionInformation", Kind::Object)
                .since(6, 0)
                .refused(),
            field("mirrored", Kind::Bool).since(6, 1),
            field("sampleId", Kind::Binary).since(7, 0),
        ],
    )
    .api(),
    row(
        &["distinct"],
        Kind::CollectionOrUuid,
        &[
            field("key", Kind::Text).required(),
            field("query", Kind::Object),
            field("collation", Kind::Object),
            field("hint", Kind::TextOrObject).since(7, 1),
            field("mirrored", Kind::Bool).since(6, 1),
            field("sampleId", Kind::Binary).since(7, 0),
            field("querySettings", Kind::Object).since(8, 0).refused(),
        ],
    ),
];
