//! The commands on collections, indexes and databases.

use super::{Field, Kind, Row, field, row};

const CURSOR: &[Field] = &[field("batchSize", Kind::Whole).natural()];

const LEVELS: Kind = Kind::OneOf(&["off", "strict", "moderate"]);

const ACTIONS: Kind = Kind::OneOf(&["error", "warn"]);

const UUID: Field = field("collectionUUID", Kind::Uuid).since(6, 0);

const SERIES: &[Field] = &[
    field("timeField", Kind::Text).required(),
    field("metaField", Kind::Text),
    field("granularity", Kind::OneOf(&["seconds", "minutes", "hours"])),
    field("bucketMaxSpanSeconds", Kind::Whole),
    field("bucketRoundingSeconds", Kind::Whole).since(6, 3),
];

/// The images of documents before and after a change, for change streams.
const IMAGES: &[Field] = &[field("enabled", Kind::Flag).required()];

/// The defaults of the options of indexes.
const DEFAULTS: &[Field] = &[field("storageEngine", Kind::Object)];

/// The configuration of encrypted fields.
const ENCRYPTED: &[Field] = &[
    field("escCollection", Kind::Text),
    field("eccCollection", Kind::Text),
    field("ecocCollection", Kind::Text),
    field("fields", Kind::ArrayOf(&Kind::Object)).required(),
    field("strEncodeVersion", Kind::Int).since(8, 2),
];

const INDEX_CHANGE: &[Field] = &[
    field("name", Kind::Text),
    field("keyPattern", Kind::Object),
    field("expireAfterSeconds", Kind::Whole),
    field("hidden", Kind::Flag).since(4, 4),
    field("unique", Kind::Flag).since(6, 0),
    field("prepareUnique", Kind::Flag).since(6, 0),
];

pub(super) const ROWS: &[Row] = &[
    row(
        &["create"],
        Kind::Collection,
        &[
            field("capped", Kind::Flag),
            field("autoIndexId", Kind::Flag),
            field("idIndex", Kind::Object),
            field("size", Kind::Whole),
            field("max", Kind::Whole),
            field("storageEngine", Kind::Object),
            field("validator", Kind::Object),
            field("validationLevel", LEVELS),
            field("validationAction", ACTIONS),
            field("indexOptionDefaults", Kind::Nested(DEFAULTS)),
            field("viewOn", Kind::Text),
            field("pipeline", Kind::Pipeline),
            field("collation", Kind::Object),
            field("recordPreImages", Kind::Flag).since(4, 4).until(6, 0),
            field("changeStreamPreAndPostImages", Kind::Nested(IMAGES)).since(6, 0),
            field("timeseries", Kind::Nested(SERIES)).since(5, 0),
            field("clusteredIndex", Kind::FlagOrObject).since(5, 3),
            field("expireAfterSeconds", Kind::Whole).since(5, 0),
            field("encryptedFields", Kind::Nested(ENCRYPTED)).since(6, 0),
            field("temp", Kind::Flag),
            field("flags", Kind::Whole),
        ],
    )
    .api(),
    row(
        &["createIndexes"],
        Kind::Collection,
        &[
            field("indexes", Kind::ArrayOf(&Kind::Object)).required(),
            field("v", Kind::Whole).since(5, 0),
            field("ignoreUnknownIndexOptions", Kind::Flag),
            field("commitQuorum", Kind::Any).since(4, 4),
            field("isTimeseriesNamespace", Kind::Bool).since(5, 0),
            UUID,
        ],
    )
    .api(),
    row(&["drop"], Kind::Collection, &[UUID]).api(),
    row(&["dropDatabase"], Kind::Whole, &[]).api(),
    row(
        &["dropIndexes", "deleteIndexes"],
        Kind::Collection,
        &[
            field("index", Kind::TextOrArrayOrObject).required(),
            field("isTimeseriesNamespace", Kind::Bool).since(5, 0),
            UUID,
        ],
    )
    .api(),
    row(
        &["listCollections"],
        Kind::Any,
        &[
            field("cursor", Kind::Nested(CURSOR)),
            field("filter", Kind::Object),
            field("nameOnly", Kind::Bool),
            field("authorizedCollections", Kind::Bool),
            field("includePendingDrops", Kind::Flag),
        ],
    )
    .api(),
    row(
        &["listIndexes"],
        Kind::CollectionOrUuid,
        &[
            field("cursor", Kind::Nested(CURSOR)),
            field("includeBuildUUIDs", Kind::Flag).since(4, 4),
            field("includeIndexBuildInfo", Kind::Flag).since(7, 0),
            field("isTimeseriesNamespace", Kind::Bool).since(5, 0),
        ],
    )
    .api(),
    row(
        &["listDatabases"],
        Kind::Any,
        &[
            field("nameOnly", Kind::Flag),
            field("authorizedDatabases", Kind::Bool),
            field("filter", Kind::Object),
        ],
    )
    .api()
    .admin(),
    row(
        &["renameCollection"],
        Kind::Text,
        &[
            field("to", Kind::Text).required(),
            field("dropTarget", Kind::BoolOrUuid),
            field("stayTemp", Kind::Bool),
            UUID,
        ],
    )
    .api()
    .admin(),
    row(
        &["collMod"],
        Kind::Collection,
        &[
            field("index", Kind::Nested(INDEX_CHANGE)),
            field("validator", Kind::Object),
            field("validationLevel", LEVELS),
            field("validationAction", ACTIONS),
            field("viewOn", Kind::Text),
            field("pipeline", Kind::Pipeline),
            field("recordPreImages", Kind::Bool).since(4, 4).until(6, 0),
            field("changeStreamPreAndPostImages", Kind::Nested(IMAGES)).since(6, 0),
            field("expireAfterSeconds", Kind::TextOrWhole).since(5, 0),
            field("timeseries", Kind::Object).since(5, 0).refused(),
            field("cappedSize", Kind::Whole).since(6, 0),
            field("cappedMax", Kind::Whole).since(6, 0),
            field("dryRun", Kind::Flag).since(6, 0).refused(),
            UUID,
        ],
    )
    .api(),
    row(
        &["collStats", "collstats"],
        Kind::Collection,
        &[field("scale", Kind::Whole).at_least(1)],
    )
    .lax(),
    row(
        &["dbStats", "dbstats"],
        Kind::Any,
        &[field("scale", Kind::Whole)],
    )
    .lax(),
    row(
        &["validate"],
        Kind::Collection,
        &[
            field("full", Kind::Flag),
            field("repair", Kind::Flag).since(4, 4),
            field("metadata", Kind::Flag).since(5, 0),
            field("checkBSONConformance", Kind::Flag).since(6, 2),
            field("background", Kind::Flag).since(4, 4),
            field("scandata", Kind::Flag),
        ],
    )
    .lax(),
    row(
        &["explain"],
        Kind::Object,
        &[field(
            "verbosity",
            Kind::OneOf(&["queryPlanner", "executionStats", "allPlansExecution"]),
        )],
    )
    .api(),
];
