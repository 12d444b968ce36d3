//! The commands that do not concern the data, and the fields that all commands have.

use super::{Field, Kind, Row, field, row};

const CURSOR: &[Field] = &[field("batchSize", Kind::Whole).natural()];

/// The id of a session in `lsid`.
const SESSION: &[Field] = &[
    field("id", Kind::Uuid).required(),
    field("uid", Kind::Binary),
    field("txnNumber", Kind::Long).since(5, 1),
    field("txnUUID", Kind::Uuid).since(5, 1),
];

const WRITE_CONCERN: &[Field] = &[
    field("w", Kind::Any),
    field("j", Kind::Flag),
    field("wtimeout", Kind::Whole),
    field("fsync", Kind::Flag),
    field("provenance", Kind::Text),
    field("getLastError", Kind::Any),
    field("wElectionId", Kind::Any),
    field("wOpTime", Kind::Any),
];

/// The fields that every command has.
pub(super) const GENERIC: &[Field] = &[
    field("$db", Kind::Text),
    field("lsid", Kind::Nested(SESSION)),
    field("$clusterTime", Kind::Object),
    field("txnNumber", Kind::Long),
    field("autocommit", Kind::Bool),
    field("startTransaction", Kind::Bool),
    field("$readPreference", Kind::Object),
    field("readConcern", Kind::Object),
    field("writeConcern", Kind::Nested(WRITE_CONCERN)),
    field("maxTimeMS", Kind::Any).until(5, 0),
    field("maxTimeMS", Kind::Whole).since(5, 0),
    field("comment", Kind::Any),
    field("apiVersion", Kind::Text).since(5, 0),
    field("apiStrict", Kind::Bool).since(5, 0),
    field("apiDeprecationErrors", Kind::Bool).since(5, 0),
    field("$queryOptions", Kind::Object),
    field("$audit", Kind::Any),
    field("$client", Kind::Any),
    field("$configServerState", Kind::Any),
    field("$configTime", Kind::Any),
    field("$topologyTime", Kind::Any),
    field("$oplogQueryData", Kind::Any),
    field("$replData", Kind::Any),
    field("$impersonatedUser", Kind::Any),
    field("tracking_info", Kind::Any),
    field("coordinator", Kind::Any),
    field("allowImplicitCollectionCreation", Kind::Any),
    field("mayBypassWriteBlocking", Kind::Bool).since(6, 0),
    field("maxTimeMSOpOnly", Kind::Whole),
    field("shardVersion", Kind::Any),
    field("databaseVersion", Kind::Any),
    field("help", Kind::Any),
    field("rawData", Kind::Bool).since(8, 2),
];

const USER: &[Field] = &[
    field("pwd", Kind::Text),
    field("customData", Kind::Object),
    field("roles", Kind::Array),
    field("digestPassword", Kind::Bool),
    field("authenticationRestrictions", Kind::Array),
    field("mechanisms", Kind::ArrayOf(&Kind::Text)),
];

/// The fields of the commands that end a transaction.
const ENDED: &[Field] = &[field("recoveryToken", Kind::Object)];

const POINT: &[Field] = &[
    field("mode", Kind::TextOrObject),
    field("data", Kind::Object),
];

pub(super) const ROWS: &[Row] = &[
    row(&["ping"], Kind::Any, &[]).api(),
    row(&["endSessions"], Kind::ArrayOf(&Kind::Nested(SESSION)), &[]).api(),
    row(
        &["refreshSessions"],
        Kind::ArrayOf(&Kind::Nested(SESSION)),
        &[],
    )
    .api(),
    row(
        &["killSessions"],
        Kind::ArrayOf(&Kind::Nested(SESSION)),
        &[],
    ),
    row(&["killAllSessions"], Kind::ArrayOf(&Kind::Object), &[]),
    row(&["hello"], Kind::Any, &[]).api().lax(),
    row(
        &["saslStart", "saslContinue", "authenticate"],
        Kind::Any,
        &[],
    )
    .api()
    .lax(),
    row(&["commitTransaction"], Kind::Any, ENDED).admin().api(),
    row(&["abortTransaction"], Kind::Any, ENDED).admin().api(),
    row(&["configureFailPoint"], Kind::Text, POINT).admin(),
    row(&["setParameter", "getParameter"], Kind::Any, &[])
        .admin()
        .lax(),
    row(&["createUser", "updateUser"], Kind::Text, USER),
    row(&["dropUser"], Kind::Text, &[]),
    row(&["dropAllUsersFromDatabase"], Kind::Any, &[]),
    row(
        &["usersInfo"],
        Kind::Any,
        &[
            field("showPrivileges", Kind::Bool),
            field("showCredentials", Kind::Bool),
            field("showCustomData", Kind::Bool),
            field("showAuthenticationRestrictions", Kind::Bool),
            field("filter", Kind::Object),
        ],
    ),
    row(&["replSetStepDown", "replSetFreeze"], Kind::Any, &[])
        .admin()
        .lax(),
    row(
        &["replSetReconfig"],
        Kind::Object,
        &[field("force", Kind::Bool)],
    )
    .admin(),
    row(&["replSetGetStatus", "replSetGetConfig"], Kind::Any, &[])
        .admin()
        .lax(),
    row(&["currentOp"], Kind::Any, &[]).admin().lax(),
    row(&["killOp"], Kind::Any, &[field("op", Kind::Any).required()]).admin(),
    row(&["top"], Kind::Any, &[]).admin(),
    row(&["listShards"], Kind::Any, &[]).admin(),
    row(
        &["checkMetadataConsistency"],
        Kind::TextOrNumber,
        &[
            field("cursor", Kind::Nested(CURSOR)),
            field("checkIndexes", Kind::Bool).since(7, 1),
        ],
    )
    .since(7, 0),
    row(
        &["enableSharding"],
        Kind::Text,
        &[field("primaryShard", Kind::Text)],
    )
    .admin(),
    row(
        &["shardCollection"],
        Kind::Text,
        &[
            field("key", Kind::Object).required(),
            field("unique", Kind::Flag),
            field("numInitialChunks", Kind::Whole),
            field("presplitHashedZones", Kind::Flag).refused(),
            field("collation", Kind::Object),
            field("timeseries", Kind::Object).since(5, 1).refused(),
            field("implicitlyCreateIndex", Kind::Flag).since(6, 0),
            field("enforceUniquenessCheck", Kind::Flag).since(6, 0),
        ],
    )
    .admin(),
    row(
        &["profile"],
        Kind::Whole,
        &[
            field("slowms", Kind::Whole),
            field("sampleRate", Kind::Whole),
            field("filter", Kind::Any).since(4, 4).refused(),
        ],
    ),
    row(
        &["dataSize"],
        Kind::Text,
        &[
            field("keyPattern", Kind::Object).refused(),
            field("min", Kind::Object).refused(),
            field("max", Kind::Object).refused(),
            field("estimate", Kind::Flag),
        ],
    ),
    row(
        &["filemd5"],
        Kind::Any,
        &[
            field("root", Kind::Text),
            field("partialOk", Kind::Flag).refused(),
            field("md5state", Kind::Binary).refused(),
        ],
    ),
    row(
        &["fsync"],
        Kind::Any,
        &[
            field("lock", Kind::Flag),
            field("fsyncLockAcquisitionTimeoutMillis", Kind::Whole),
        ],
    )
    .admin(),
    row(&["getLog", "getCmdLineOpts"], Kind::Any, &[])
        .admin()
        .lax(),
];
