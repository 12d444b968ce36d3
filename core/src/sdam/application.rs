//! What an error of an operation or of a pool's connection says about its server: matrix A.8, with
//! the newer rules, where the label tells overload from failure.

use super::{Phase, action::ApplicationError};
use crate::error::{CommandError, Error, ErrorKind, Label, NetworkFault, TopologyVersion};

/// A server that says that its state has changed (SDAM-89 to SDAM-91).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateChange {
    /// It can no longer be written to.
    NotPrimary,
    /// It cannot be used for now.
    Recovering,
    /// It goes away.
    ShuttingDown,
}

/// What becomes of the server's monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonitorOrder {
    /// It goes on.
    Leave,
    /// It is to check at once (SDAM-96).
    Check,
    /// Its check and its connection are given up (SDAM-109).
    Cancel,
}

/// What an error leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Consequence {
    /// The server becomes unknown; never so for a load balancer.
    pub(super) mark_unknown: bool,
    /// Its pool is cleared.
    pub(super) clear_pool: bool,
    /// Its monitor.
    pub(super) monitor: MonitorOrder,
    /// A client that scans does so before its next operation (SDAM-97). It does not for a server
    /// that is recovering, which may take some time (A.12, point 6).
    pub(super) rescan: bool,
}

const NOTHING: Consequence = Consequence {
    mark_unknown: false,
    clear_pool: false,
    monitor: MonitorOrder::Leave,
    rescan: false,
};

const LOST: Consequence = Consequence {
    mark_unknown: true,
    clear_pool: true,
    monitor: MonitorOrder::Cancel,
    rescan: false,
};

/// The consequence on an error that passed the tests of staleness.
pub(super) fn judge(error: &ApplicationError, load_balanced: bool) -> Consequence {
    if load_balanced && error.phase <= Phase::Hello {
        // SDAM-112: before the reply it is not even known which service was meant.
        return NOTHING;
    }
    let consequence = match error.phase {
        Phase::Proxy | Phase::Hello | Phase::Authentication => {
            judge_handshake(&error.error, load_balanced)
        }
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

/// SDAM-103, SDAM-104: whatever prevents a connection makes the server unknown, unless it is
/// overload.
fn judge_handshake(error: &Error, load_balanced: bool) -> Consequence {
    if error.has_label(&Label::SystemOverloadedError) || is_own(error) {
        return NOTHING;
    }
    match state_change(error) {
        // The pool is cleared for any of them: it cannot make connections (A.12, point 3). Behind a
        // load balancer only for a service that shuts down, as in operations.
        Some(change) => Consequence {
            mark_unknown: true,
            clear_pool: !load_balanced || change == StateChange::ShuttingDown,
            monitor: MonitorOrder::Check,
            rescan: change != StateChange::Recovering,
        },
        None => LOST,
    }
}

/// SDAM-95 to SDAM-101, SDAM-110.
fn judge_operation(error: &Error) -> Consequence {
    match error.kind() {
        ErrorKind::Network { .. } | ErrorKind::Tls { .. }
            if !error.has_label(&Label::SystemOverloadedError) =>
        {
            LOST
        }
        ErrorKind::Command(_) | ErrorKind::Write(_) => match state_change(error) {
            Some(change) => Consequence {
                mark_unknown: true,
                clear_pool: change == StateChange::ShuttingDown,
                monitor: MonitorOrder::Check,
                rescan: change != StateChange::Recovering,
            },
            None => NOTHING,
        },
        // A timeout says that the operation was slow, not that the server is gone; the rest is the
        // client's own or concerns one connection only.
        _ => NOTHING,
    }
}

/// The `topologyVersion` that came with the error (SDAM-87).
pub(super) fn topology_version(error: &Error) -> Option<TopologyVersion> {
    match error.kind() {
        ErrorKind::Write(fault) => fault.topology_version,
        _ => command_error(error)?.topology_version,
    }
}

fn command_error(error: &Error) -> Option<&CommandError> {
    match error.kind() {
        ErrorKind::Command(fault) => Some(fault),
        ErrorKind::Authentication { cause, .. } => cause.as_deref(),
        _ => None,
    }
}

/// True for errors that the client made for itself: they say nothing about a server (SDAM-116). So
/// does a process that has no descriptors left: the connections that there are go on.
fn is_own(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Network { fault, .. } => *fault == NetworkFault::OutOfSockets,
        ErrorKind::InvalidUri { .. }
        | ErrorKind::InvalidOption { .. }
        | ErrorKind::InvalidArgument { .. }
        | ErrorKind::Bson { .. }
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::Discovery { .. }
        | ErrorKind::PoolCleared { .. }
        | ErrorKind::PoolClosed { .. }
        | ErrorKind::WaitQueueTimeout { .. }
        | ErrorKind::Interrupted { .. }
        | ErrorKind::ClientClosed
        | ErrorKind::Runtime { .. }
        | ErrorKind::Abandoned => true,
        ErrorKind::Timeout { wait, .. } => !wait.is_network(),
        ErrorKind::Tls { .. }
        | ErrorKind::Protocol { .. }
        | ErrorKind::Authentication { .. }
        | ErrorKind::Command(_)
        | ErrorKind::Write(_)
        | ErrorKind::Incompatible { .. }
        | ErrorKind::Limit { .. } => false,
    }
}

pub(super) fn state_change(error: &Error) -> Option<StateChange> {
    // Errors of single statements are not looked at (SDAM-94).
    let (code, message) = match error.kind() {
        ErrorKind::Write(fault) => {
            let concern = fault.write_concern.as_ref()?;
            (
                Some(concern.code).filter(|&code| code != 0),
                &concern.message,
            )
        }
        _ => {
            let fault = command_error(error)?;
            (fault.code, &fault.message)
        }
    };
    match code {
        // InterruptedAtShutdown, ShutdownInProgress
        Some(11600 | 91) => Some(StateChange::ShuttingDown),
        // NotWritablePrimary, NotPrimaryNoSecondaryOk, LegacyNotPrimary
        Some(10107 | 13435 | 10058) => Some(StateChange::NotPrimary),
        // InterruptedDueToReplStateChange, NotPrimaryOrSecondary, PrimarySteppedDown
        Some(11602 | 13436 | 189) => Some(StateChange::Recovering),
        // A code, even an unknown one, switches the text off (SDAM-88, SDAM-92).
        Some(_) => None,
        None if message.contains("node is recovering")
            || message.contains("not master or secondary") =>
        {
            Some(StateChange::Recovering)
        }
        None => message
            .contains("not master")
            .then_some(StateChange::NotPrimary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{TlsFault, Wait, WriteFailure};
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
        Error::new(ErrorKind::Command(Box::new(CommandError::from_reply(
            &reply,
        ))))
    }

    fn code(code: i32) -> Error {
        command(rawdoc! { "ok": 0, "code": code, "errmsg": "not master" })
    }

    fn write(reply: RawDocumentBuf) -> Error {
        let fault = WriteFailure::from_reply(&reply).expect("it has errors");
        Error::new(ErrorKind::Write(Box::new(fault)))
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
    fn operations_follow_the_matrix() {
        // A.8, phase operation
        for (error, expected) in [
            (network(), LOST),
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
            // SDAM-88: an unrelated code decides against the text.
            (code(1), NOTHING),
            // SDAM-110
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
            // SDAM-93
            (
                write(rawdoc! { "ok": 1, "writeConcernError": { "code": 91, "errmsg": "x" } }),
                SHUT_DOWN,
            ),
            (
                write(rawdoc! { "ok": 1, "writeConcernError": { "code": 64, "errmsg": "x" } }),
                NOTHING,
            ),
            // SDAM-93: the code that users see is that of the statement, and it hides nothing.
            (
                write(rawdoc! {
                    "ok": 1,
                    "writeErrors": [{ "code": 11000, "errmsg": "E11000" }],
                    "writeConcernError": { "code": 91, "errmsg": "x" },
                }),
                SHUT_DOWN,
            ),
            // SDAM-94
            (
                write(
                    rawdoc! { "ok": 1, "writeErrors": [{ "code": 10107, "errmsg": "not master" }] },
                ),
                NOTHING,
            ),
            (
                Error::new(ErrorKind::PoolCleared {
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
    fn handshakes_follow_the_matrix_and_the_label_decides() {
        // A.8, phases connect, hello and authentication; SDAM-104
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
                (network(), LOST),
                (labelled(network()), NOTHING),
                (Error::timeout(Wait::Handshake, "slow"), LOST),
                (labelled(Error::timeout(Wait::Connect, "slow")), NOTHING),
                (tls.clone(), LOST),
                (refused.clone(), LOST),
                (code(18), LOST),
                (labelled(code(18)), NOTHING),
                (code(91), SHUT_DOWN),
                (code(10107), SHUT_DOWN),
                (
                    Error::new(ErrorKind::PoolClosed {
                        message: "x".into(),
                    }),
                    NOTHING,
                ),
                (Error::timeout(Wait::CheckOut, "queue"), NOTHING),
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
        // SDAM-112 to SDAM-114
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
            (Phase::Authentication, code(10107), NOTHING),
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
