//! Errors that the server raises in addition to those of the store, with their codes and code
//! names.

use crate::store::StoreError;

/// The error of a command that failed.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) error: StoreError,
    /// Error labels that replace the usual ones.
    pub(super) labels: Option<Vec<String>>,
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self {
            error,
            labels: None,
        }
    }
}

/// Returns an error with the given code.
pub(super) fn fault(code: i32, message: impl Into<String>) -> Fault {
    let mut error = StoreError {
        code,
        code_name: "",
        message: message.into(),
        details: Box::default(),
    };
    error.code_name = name_of(code);
    error.into()
}

/// Returns the code name of an error code. Codes that are not listed here have the code names of
/// [`StoreError`].
pub(super) fn name_of(code: i32) -> &'static str {
    match code {
        6 => "HostUnreachable",
        7 => "HostNotFound",
        11 => "UserNotFound",
        13 => "Unauthorized",
        18 => "AuthenticationFailed",
        17 => "ProtocolError",
        22 => "InvalidBSON",
        31 => "RoleNotFound",
        50 => "MaxTimeMSExpired",
        59 => "CommandNotFound",
        64 => "WriteConcernFailed",
        76 => "NoReplicationEnabled",
        79 => "UnknownReplWriteConcern",
        89 => "NetworkTimeout",
        91 => "ShutdownInProgress",
        95 => "InvalidReplicaSetConfig",
        100 => "UnsatisfiableWriteConcern",
        123 => "NotAReplicaSet",
        125 => "CommandFailed",
        134 => "ReadConcernMajorityNotAvailableYet",
        189 => "PrimarySteppedDown",
        225 => "TransactionTooOld",
        251 => "NoSuchTransaction",
        262 => "ExceededTimeLimit",
        263 => "OperationNotSupportedInTransaction",
        334 => "MechanismUnavailable",
        354 => "LoadBalancerSupportMismatch",
        391 => "ReauthenticationRequired",
        462 => "IngressRequestRateLimitExceeded",
        9001 => "SocketException",
        10107 => "NotWritablePrimary",
        11600 => "InterruptedAtShutdown",
        11601 => "Interrupted",
        11602 => "InterruptedDueToReplStateChange",
        13435 => "NotPrimaryNoSecondaryOk",
        13436 => "NotPrimaryOrSecondary",
        51003 => "Location51003",
        40324 => "Location40324",
        40352 => "Location40352",
        40415 => "Location40415",
        _ => StoreError::new(code, "").code_name,
    }
}

/// True for the codes that servers since 4.4 label `RetryableWriteError` if the command has a
/// transaction number. For clients, only the label decides (RW-13).
pub(super) const fn is_retryable(code: i32) -> bool {
    matches!(
        code,
        6 | 7 | 89 | 91 | 189 | 262 | 9001 | 10107 | 11600 | 11602 | 13435 | 13436
    )
}

/// True for the errors after which the server closes the connection.
pub(super) const fn is_final(code: i32) -> bool {
    code == 354
}

/// True for the errors of a member that is not primary or cannot be read from. A member of a
/// replica set adds its `topologyVersion` to them.
pub(super) const fn is_not_primary(code: i32) -> bool {
    matches!(code, 189 | 10107 | 11602 | 13435 | 13436 | 10058)
}

/// True for the errors of a server that shuts down. A server in quiesce mode adds its
/// `topologyVersion` to them.
pub(super) const fn is_shutdown(code: i32) -> bool {
    matches!(code, 91 | 11600)
}

pub(super) fn not_writable_primary() -> Fault {
    fault(10107, "not primary")
}

pub(super) fn bad_value(message: impl Into<String>) -> Fault {
    fault(2, message)
}

pub(super) fn type_mismatch(field: &str) -> Fault {
    fault(14, format!("BSON field '{field}' is the wrong type"))
}
