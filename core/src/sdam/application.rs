//! The consequences of application errors: of operations, and of a pool's connections that could
//! not be made (table A.8). The label `SystemOverloadedError` distinguishes overload from failure.

use super::{Phase, order::ApplicationError};
use crate::error::{
    CommandError, Error, ErrorKind, IoError, Label, NetworkFault, TopologyVersion, Wait,
};

/// The state that a state change error reports for its server (SDAM-89 to SDAM-91).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateChange {
    /// "Not writable primary": the server does not accept writes.
    NotPrimary,
    /// "Node is recovering": the server cannot be used for some time.
    Recovering,
    /// "Node is shutting down", a special case of "node is recovering".
    ShuttingDown,
}

/// The consequence of an error for the monitor of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonitorOrder {
    /// The monitor gets no order.
    Leave,
    /// An immediate check of the server is requested (SDAM-96).
    Check,
    /// The running check is cancelled, and the monitor's connections are closed (SDAM-109).
    Cancel,
}

/// The consequences of an application error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Consequence {
    /// True if the server becomes Unknown. Always false behind a load balancer.
    pub(super) mark_unknown: bool,
    /// True if the pool of the server is cleared, behind a load balancer only for one service.
    pub(super) clear_pool: bool,
    /// The order to the monitor of the server.
    pub(super) monitor: MonitorOrder,
    /// True if the topology of a client that checks servers on demand becomes stale: after "not
    /// writable primary" and "node is shutting down" (SDAM-97; A.12, point 6).
    pub(super) rescan: bool,
}

/// The consequences of an error that changes nothing.
const NOTHING: Consequence = Consequence {
    mark_unknown: false,
    clear_pool: false,
    monitor: MonitorOrder::Leave,
    rescan: false,
};

/// The consequences of an error that makes the server Unknown and is no state change error.
const UNREACHABLE: Consequence = Consequence {
    mark_unknown: true,
    clear_pool: true,
    monitor: MonitorOrder::Cancel,
    rescan: false,
};

/// Returns the consequences of an error that is not stale by its generation or `topologyVersion`.
pub(super) fn judge(error: &ApplicationError, load_balanced: bool) -> Consequence {
    if load_balanced && error.phase <= Phase::Hello {
        // Until the reply to `hello`, the service is not known, so the error is ignored (SDAM-112).
        return NOTHING;
    }
    let consequence = match error.phase {
        Phase::Proxy | Phase::Hello | Phase::Authentication => judge_handshake(&error.error),
        Phase::Operation => judge_operation(&error.error),
    };
    if load_balanced {
        Consequence {
            mark_unknown: false,
            monitor: MonitorOrder::Leave,
            rescan: false,
            ..consequence
        }
    } else {
        consequence
    }
}

/// Returns the consequences of an error in connecting, `hello` or authentication. The error makes
/// the server Unknown (SDAM-103), unless it has the label `SystemOverloadedError` (SDAM-104) or was
/// caused by the client.
fn judge_handshake(error: &Error) -> Consequence {
    if error.has_label(&Label::SystemOverloadedError) || is_caused_by_client(error) {
        return NOTHING;
    }
    match state_change(error) {
        // The pool cannot make connections, so every state change clears it (A.12, point 3).
        Some(change) => Consequence {
            mark_unknown: true,
            clear_pool: true,
            monitor: MonitorOrder::Check,
            rescan: change != StateChange::Recovering,
        },
        None => UNREACHABLE,
    }
}

/// Returns the consequences of an error in an operation. State change errors make the server
/// Unknown (SDAM-95 to SDAM-99), and so do network and TLS errors without the label
/// `SystemOverloadedError` (SDAM-100, SDAM-104). Timeouts and other errors do not (SDAM-101,
/// SDAM-110).
fn judge_operation(error: &Error) -> Consequence {
    match error.kind() {
        ErrorKind::Io(_) | ErrorKind::Tls { .. }
            if !error.has_label(&Label::SystemOverloadedError) =>
        {
            UNREACHABLE
        }
        ErrorKind::Command(_) | ErrorKind::InsertMany(_) => match state_change(error) {
            Some(change) => Consequence {
                mark_unknown: true,
                clear_pool: change == StateChange::ShuttingDown,
                monitor: MonitorOrder::Check,
                rescan: change != StateChange::Recovering,
            },
            None => NOTHING,
        },
        // The other kinds include timeouts: a slow operation does not show that the server is
        // unreachable.
        _ => NOTHING,
    }
}

/// Returns the `topologyVersion` of the server's reply in the error, if there is one (SDAM-87).
pub(super) fn topology_version(error: &Error) -> Option<TopologyVersion> {
    match error.kind() {
        ErrorKind::InsertMany(fault) => fault.topology_version,
        _ => command_error(error)?.topology_version,
    }
}

/// Returns the command error in an error, also if it is the cause of an authentication error.
fn command_error(error: &Error) -> Option<&CommandError> {
    match error.kind() {
        ErrorKind::Command(fault) => Some(fault),
        ErrorKind::Authentication { cause, .. } => cause.as_deref(),
        _ => None,
    }
}

/// True for an error that the client itself caused and that says nothing about the server, for
/// example a cleared pool (SDAM-116) or a lack of local sockets.
fn is_caused_by_client(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Io(IoError { fault, .. }) => *fault == NetworkFault::OutOfSockets,
        ErrorKind::InvalidArgument { .. }
        | ErrorKind::Custom(_)
        | ErrorKind::BulkWrite(_)
        | ErrorKind::Bson(_)
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::Discovery { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::PoolClosed { .. }
        | ErrorKind::WaitQueueTimeout { .. }
        | ErrorKind::Interrupted { .. }
        | ErrorKind::Transaction { .. }
        | ErrorKind::SessionsNotSupported
        | ErrorKind::GridFs(_)
        | ErrorKind::Shutdown
        | ErrorKind::Runtime { .. }
        | ErrorKind::MissingResumeToken
        | ErrorKind::Abandoned => true,
        ErrorKind::Timeout { wait, .. } => *wait == Wait::Queue || !wait.is_network(),
        ErrorKind::DnsResolve { .. }
        | ErrorKind::Tls { .. }
        | ErrorKind::InvalidResponse { .. }
        | ErrorKind::Authentication { .. }
        | ErrorKind::Command(_)
        | ErrorKind::InsertMany(_)
        | ErrorKind::Write(_)
        | ErrorKind::IncompatibleServer { .. }
        | ErrorKind::Limit { .. } => false,
    }
}

/// True if a server reports by this error that it cannot serve, for example as a primary that has
/// stepped down.
pub(crate) fn is_state_change(error: &Error) -> bool {
    state_change(error).is_some()
}

/// Returns the state change that an error reports, by its code, or without a code by its message.
/// For an error with `ok: 1` ([`ErrorKind::InsertMany`]), only the write concern error counts
/// (SDAM-93).
pub(super) fn state_change(error: &Error) -> Option<StateChange> {
    // `writeErrors` are not examined for state changes (SDAM-94). Code 0 means no code.
    let (code, message) = match error.kind() {
        ErrorKind::InsertMany(fault) => {
            let concern = fault.write_concern_error.as_ref()?;
            (
                Some(concern.code).filter(|&code| code != 0),
                &concern.message,
            )
        }
        _ => {
            let fault = command_error(error)?;
            (fault.code(), &fault.message)
        }
    };
    match code {
        // The codes of InterruptedAtShutdown and ShutdownInProgress (SDAM-91).
        Some(11600 | 91) => Some(StateChange::ShuttingDown),
        // The codes of NotWritablePrimary, NotPrimaryNoSecondaryOk and LegacyNotPrimary (SDAM-90).
        Some(10107 | 13435 | 10058) => Some(StateChange::NotPrimary),
        // The codes of InterruptedDueToReplStateChange, NotPrimaryOrSecondary and
        // PrimarySteppedDown (SDAM-89).
        Some(11602 | 13436 | 189) => Some(StateChange::Recovering),
        // Any other code means that the message is not examined (SDAM-88, SDAM-92).
        Some(_) => None,
        None => match words_of_state_change(message)? {
            NOT_MASTER => Some(StateChange::NotPrimary),
            _ => Some(StateChange::Recovering),
        },
    }
}

const NOT_MASTER: &str = "not master";

/// Returns the words of an error without a code that report a state change.
pub(crate) fn words_of_state_change(message: &str) -> Option<&'static str> {
    let all = ["node is recovering", "not master or secondary", NOT_MASTER];
    all.into_iter().find(|words| message.contains(*words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{InsertManyError, TlsFault};
    use bson::{RawDocumentBuf, rawdoc};

    const MOVED: Consequence = Consequence {
        mark_unknown: true,
        clear_pool: false,
        monitor: MonitorOrder::Check,
        rescan: true,
    };
    const RECOVERING: Consequence = Consequence {
        rescan: false,
        ..MOVED
    };
    const SHUT_DOWN: Consequence = Consequence {
        clear_pool: true,
        ..MOVED
    };

    fn command(reply: RawDocumentBuf) -> Error {
        Error::new(ErrorKind::Command(CommandError::from_reply(&reply)))
    }

    fn code(code: i32) -> Error {
        command(rawdoc! { "ok": 0, "code": code, "errmsg": "not master" })
    }

    fn write(reply: RawDocumentBuf) -> Error {
        let fault = InsertManyError::from_reply(&reply)
            .expect("valid")
            .expect("it has errors");
        Error::new(ErrorKind::InsertMany(fault))
    }

    fn network() -> Error {
        Error::network(NetworkFault::Reset, "reset")
    }

    fn consequence(phase: Phase, error: Error, load_balanced: bool) -> Consequence {
        let error = ApplicationError {
            error,
            phase,
            is_stale: false,
            service: None,
        };
        judge(&error, load_balanced)
    }

    #[test]
    fn operation_errors_have_the_specified_consequences() {
        // Errors of operations have the consequences of table A.8.
        for (error, expected) in [
            (network(), UNREACHABLE),
            (network().with_label(Label::SystemOverloadedError), NOTHING),
            (Error::timeout(Wait::Exchange, "slow"), NOTHING),
            (code(10107), MOVED),
            (code(13435), MOVED),
            (code(10058), MOVED),
            (code(11602), RECOVERING),
            (code(13436), RECOVERING),
            (code(189), RECOVERING),
            (code(11600), SHUT_DOWN),
            (code(91), SHUT_DOWN),
            // With an unrelated code, the text does not count (SDAM-88).
            (code(1), NOTHING),
            // Other transient errors do not make the server Unknown (SDAM-110).
            (code(6), NOTHING),
            (command(rawdoc! { "ok": 0, "errmsg": "not master" }), MOVED),
            (
                command(rawdoc! { "errmsg": "not master or secondary", "ok": 0 }),
                RECOVERING,
            ),
            (
                command(rawdoc! { "ok": 0, "errmsg": "node is recovering" }),
                RECOVERING,
            ),
            (
                command(rawdoc! { "ok": 0, "errmsg": "no such command" }),
                NOTHING,
            ),
            // A write concern error is examined like a command error (SDAM-93).
            (
                write(rawdoc! { "ok": 1, "writeConcernError": { "code": 91, "errmsg": "x" } }),
                SHUT_DOWN,
            ),
            (
                write(rawdoc! { "ok": 1, "writeConcernError": { "code": 64, "errmsg": "x" } }),
                NOTHING,
            ),
            // A code in `writeErrors` does not hide that of the write concern error (SDAM-93).
            (
                write(rawdoc! {
                    "ok": 1,
                    "writeErrors": [{ "code": 11000, "errmsg": "E11000" }],
                    "writeConcernError": { "code": 91, "errmsg": "x" },
                }),
                SHUT_DOWN,
            ),
            // Errors of single statements are not examined (SDAM-94).
            (
                write(
                    rawdoc! { "ok": 1, "writeErrors": [{ "code": 10107, "errmsg": "not master" }] },
                ),
                NOTHING,
            ),
            (
                Error::new(ErrorKind::ConnectionPoolCleared {
                    message: "x".into(),
                }),
                NOTHING,
            ),
            (
                Error::new(ErrorKind::Interrupted {
                    message: "x".into(),
                }),
                NOTHING,
            ),
        ] {
            assert_eq!(
                consequence(Phase::Operation, error.clone(), false),
                expected,
                "{error:?}"
            );
        }
    }

    #[test]
    fn handshake_errors_have_the_specified_consequences() {
        // Errors of `hello` and of authentication have the consequences of table A.8. An error with
        // the label `SystemOverloadedError` has none (SDAM-104).
        let labelled = |error: Error| error.with_label(Label::SystemOverloadedError);
        let tls = Error::new(ErrorKind::Tls {
            fault: TlsFault::Certificate,
            message: "expired".into(),
        });
        let refused = Error::new(ErrorKind::Authentication {
            mechanism: "SCRAM-SHA-256",
            message: "refused".into(),
            cause: None,
        });
        let shuts_down = Error::new(ErrorKind::Authentication {
            mechanism: "SCRAM-SHA-256",
            message: "refused".into(),
            cause: Some(Box::new(CommandError::from_reply(
                &rawdoc! { "ok": 0, "code": 91 },
            ))),
        });
        for phase in [Phase::Hello, Phase::Authentication] {
            for (error, expected) in [
                (shuts_down.clone(), SHUT_DOWN),
                (network(), UNREACHABLE),
                (labelled(network()), NOTHING),
                (Error::timeout(Wait::Handshake, "slow"), UNREACHABLE),
                (labelled(Error::timeout(Wait::Connect, "slow")), NOTHING),
                (tls.clone(), UNREACHABLE),
                (refused.clone(), UNREACHABLE),
                (code(18), UNREACHABLE),
                (labelled(code(18)), NOTHING),
                (code(91), SHUT_DOWN),
                (code(10107), SHUT_DOWN),
                (
                    Error::new(ErrorKind::PoolClosed {
                        message: "x".into(),
                    }),
                    NOTHING,
                ),
                (Error::timeout(Wait::CheckOut, "pin"), NOTHING),
                (Error::timeout(Wait::Queue, "queue"), NOTHING),
                (
                    Error::network(NetworkFault::OutOfSockets, "EMFILE"),
                    NOTHING,
                ),
            ] {
                assert_eq!(
                    consequence(phase, error.clone(), false),
                    expected,
                    "{phase:?} {error:?}"
                );
            }
        }
    }

    #[test]
    fn a_load_balancer_never_becomes_unknown() {
        // Before the reply to `hello`, errors are ignored. Later errors can clear a service's
        // connections, and none makes the server Unknown (SDAM-112 to SDAM-114).
        let clear = Consequence {
            clear_pool: true,
            ..NOTHING
        };
        for (phase, error, expected) in [
            (Phase::Hello, network(), NOTHING),
            (Phase::Hello, code(91), NOTHING),
            (Phase::Authentication, network(), clear),
            (
                Phase::Authentication,
                Error::timeout(Wait::Handshake, "slow"),
                clear,
            ),
            (Phase::Authentication, code(18), clear),
            (Phase::Authentication, code(91), clear),
            (Phase::Authentication, code(10107), clear),
            (Phase::Operation, network(), clear),
            (Phase::Operation, code(11600), clear),
            (Phase::Operation, code(10107), NOTHING),
            (
                Phase::Operation,
                Error::timeout(Wait::Exchange, "slow"),
                NOTHING,
            ),
        ] {
            assert_eq!(
                consequence(phase, error.clone(), true),
                expected,
                "{phase:?} {error:?}"
            );
        }
    }
}
