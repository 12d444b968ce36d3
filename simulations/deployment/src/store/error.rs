//! Errors of commands and of single statements, as a MongoDB server reports them.

use bson::{Bson, Document, doc};
use std::borrow::Cow;

/// The length at which a longer message is cut off, in bytes. An appended `...` is not counted.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The failure of a command or of a statement, with the server's code, code name and message.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreError {
    /// The error code, for the field `code` of a reply.
    pub code: i32,
    /// The symbolic name of the code, for the field `codeName` of a reply.
    pub code_name: Cow<'static, str>,
    /// The message, for the field `errmsg` of a reply.
    pub message: String,
    /// Further fields of a reply or of an entry of `writeErrors`, such as `keyPattern` and
    /// `keyValue` of a duplicate key.
    pub details: Box<Document>,
}

impl StoreError {
    /// Creates an error. The code name follows from the code.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        let mut message = message.into();
        // The length is limited, because messages quote documents, and each of up to 100,000
        // statements of a command can fail.
        if message.len() > MAX_MESSAGE_BYTES {
            let mut end = MAX_MESSAGE_BYTES;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
            message.push_str("...");
        }
        Self {
            code,
            code_name: code_name(code),
            message,
            details: Box::default(),
        }
    }

    /// Returns the body of the reply to a failed command: `ok`, `errmsg`, `code`, `codeName` and
    /// the details.
    #[must_use]
    pub fn to_reply(&self) -> Document {
        let mut reply = doc! {
            "ok": 0.0,
            "errmsg": self.message.as_str(),
            "code": self.code,
            "codeName": &*self.code_name,
        };
        reply.extend(Document::clone(&self.details));
        reply
    }

    pub(crate) fn bad_value(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    pub(crate) fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::new(9, message)
    }

    pub(crate) fn type_mismatch(message: impl Into<String>) -> Self {
        Self::new(14, message)
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Bson>) -> Self {
        self.details.insert(key, value);
        self
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.code_name, self.code, self.message)
    }
}

impl std::error::Error for StoreError {}

/// The failure of one statement of a write command, which is an entry of `writeErrors`.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteError {
    /// The statement's position in the command, from 0.
    pub index: usize,
    /// The error of the statement.
    pub error: StoreError,
}

impl WriteError {
    /// Returns this error as an entry of `writeErrors`.
    #[must_use]
    pub fn to_document(&self) -> Document {
        let index = i32::try_from(self.index).unwrap_or(i32::MAX);
        let mut entry = doc! { "index": index, "code": self.error.code };
        entry.extend(Document::clone(&self.error.details));
        entry.insert("errmsg", self.error.message.as_str());
        entry
    }
}

/// The codes with names of their own, in ascending order.
const NAMES: [(i32, &str); 109] = [
    (1, "InternalError"),
    (2, "BadValue"),
    (6, "HostUnreachable"),
    (7, "HostNotFound"),
    (9, "FailedToParse"),
    (11, "UserNotFound"),
    (13, "Unauthorized"),
    (14, "TypeMismatch"),
    (15, "Overflow"),
    (16, "InvalidLength"),
    (17, "ProtocolError"),
    (18, "AuthenticationFailed"),
    (20, "IllegalOperation"),
    (22, "InvalidBSON"),
    (24, "LockTimeout"),
    (26, "NamespaceNotFound"),
    (27, "IndexNotFound"),
    (28, "PathNotViable"),
    (31, "RoleNotFound"),
    (40, "ConflictingUpdateOperators"),
    (43, "CursorNotFound"),
    (47, "NoMatchingDocument"),
    (48, "NamespaceExists"),
    (50, "MaxTimeMSExpired"),
    (52, "DollarPrefixedFieldName"),
    (53, "InvalidIdField"),
    (54, "NotSingleValueField"),
    (56, "EmptyFieldName"),
    (57, "DottedFieldName"),
    (59, "CommandNotFound"),
    (61, "ShardKeyNotFound"),
    (64, "WriteConcernFailed"),
    (66, "ImmutableField"),
    (67, "CannotCreateIndex"),
    (68, "IndexAlreadyExists"),
    (70, "ShardNotFound"),
    (72, "InvalidOptions"),
    (73, "InvalidNamespace"),
    (76, "NoReplicationEnabled"),
    (79, "UnknownReplWriteConcern"),
    (85, "IndexOptionsConflict"),
    (86, "IndexKeySpecsConflict"),
    (89, "NetworkTimeout"),
    (91, "ShutdownInProgress"),
    (93, "InvalidReplicaSetConfig"),
    (95, "NotSecondary"),
    (100, "UnsatisfiableWriteConcern"),
    (103, "NewReplicaSetConfigurationIncompatible"),
    (112, "WriteConflict"),
    (117, "ConflictingOperationInProgress"),
    (121, "DocumentValidationFailure"),
    (123, "NotAReplicaSet"),
    (125, "CommandFailed"),
    (133, "FailedToSatisfyReadPreference"),
    (134, "ReadConcernMajorityNotAvailableYet"),
    (136, "CappedPositionLost"),
    (146, "ExceededMemoryLimit"),
    (161, "IncompatibleCollationVersion"),
    (165, "ViewDepthLimitExceeded"),
    (166, "CommandNotSupportedOnView"),
    (167, "OptionNotSupportedOnView"),
    (168, "InvalidPipelineOperator"),
    (171, "CannotIndexParallelArrays"),
    (175, "QueryPlanKilled"),
    (181, "AmbiguousIndexKeyPattern"),
    (189, "PrimarySteppedDown"),
    (197, "InvalidIndexSpecificationOption"),
    (201, "CannotBuildIndexKeys"),
    (205, "ClusterTimeFailsRateLimiter"),
    (207, "InvalidUUID"),
    (224, "QueryFeatureNotAllowed"),
    (225, "TransactionTooOld"),
    (234, "RetryChangeStream"),
    (237, "CursorKilled"),
    (238, "NotImplemented"),
    (239, "SnapshotTooOld"),
    (241, "ConversionFailure"),
    (246, "SnapshotUnavailable"),
    (251, "NoSuchTransaction"),
    (256, "TransactionCommitted"),
    (257, "TransactionTooLarge"),
    (260, "InvalidResumeToken"),
    (262, "ExceededTimeLimit"),
    (263, "OperationNotSupportedInTransaction"),
    (266, "FailPointSetFailed"),
    (267, "PreparedTransactionInProgress"),
    (280, "ChangeStreamFatalError"),
    (286, "ChangeStreamHistoryLost"),
    (292, "QueryExceededMemoryLimitNoDiskUseAllowed"),
    (308, "CurrentConfigNotCommittedYet"),
    (322, "APIVersionError"),
    (323, "APIStrictError"),
    (324, "APIDeprecationError"),
    (334, "MechanismUnavailable"),
    (352, "UnsupportedOpQueryCommand"),
    (354, "LoadBalancerSupportMismatch"),
    (359, "CannotConvertIndexToUnique"),
    (361, "CollectionUUIDMismatch"),
    (388, "TransactionTooLargeForCache"),
    (391, "ReauthenticationRequired"),
    (462, "IngressRequestRateLimitExceeded"),
    (9001, "SocketException"),
    (10107, "NotWritablePrimary"),
    (10334, "BSONObjectTooLarge"),
    (11000, "DuplicateKey"),
    (11600, "InterruptedAtShutdown"),
    (11601, "Interrupted"),
    (11602, "InterruptedDueToReplStateChange"),
    (13435, "NotPrimaryNoSecondaryOk"),
    (13436, "NotPrimaryOrSecondary"),
];

/// Returns the server's name of an error code. The server calls a code without a name of its own
/// `Location<code>`.
pub(crate) fn code_name(code: i32) -> Cow<'static, str> {
    match NAMES.binary_search_by_key(&code, |(code, _)| *code) {
        Ok(place) => Cow::Borrowed(NAMES[place].1),
        Err(_) => Cow::Owned(format!("Location{code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_named_code_is_found() {
        for (code, name) in NAMES {
            assert_eq!(code_name(code), name);
        }
        assert_eq!(code_name(40324), "Location40324");
    }
}
