//! Operations: their commands, the exchange of each attempt with a server, and their retries.
//!
//! An operation that an application calls is a [`Program`] of one or more commands. All commands of
//! a program share an [`OperationId`] and a time limit.
//!
//! A [`Command`] is a request without the fields that each attempt adds. The client selects a
//! server, checks out a connection and returns the connection with the command as an [`Exchange`].
//! The shell moves the bytes of the exchange until the reply is complete, then gives the exchange
//! back to the client. `retry.rs` decides whether a failed attempt is retried.

mod assess;
mod backoff;
mod batch;
mod cluster_time;
mod command;
mod command_events;
pub mod crud;
mod cursor;
mod documents;
mod exchange;
mod kill_cursors;
mod limit;
mod pin;
mod program;
mod request;
mod retry;
mod sensitive;

pub use crate::{compression::Workspace, pool::PinnedFor};
pub use batch::Batch;
pub use cluster_time::{ClusterTime, IGNORED_FOR, MAX_CLUSTER_TIME_BYTES};
pub(crate) use cluster_time::{ClusterTimes, refuses_cluster_time};
pub use command::{Command, CommandKind, SessionUse};
pub use cursor::{ABANDON_LIMIT, CLOSE_LIMIT, Cursor, CursorResources};
pub use documents::{DocumentList, Portion};
pub use exchange::{Exchange, Outcome, Reply};
pub(crate) use kill_cursors::kill_unowned;
pub use pin::{Pin, TransactionPin, TransactionStep};
pub use program::{Abandoned, Decode, Prepared, Program, Runner, Single, Span, Step};

pub(crate) use assess::Assessment;
pub(crate) use exchange::Context;
pub(crate) use pin::{PinHolder, PinId, PinUse};
pub(crate) use retry::{AfterFailure, FailedAttempt, RetryPolicy, error_at_end};

use crate::{
    address::Address, error::Error, selection::SelectorAnswer, session::SessionId, time::Instant,
};
use std::time::Duration;

/// The id of an operation. No other operation of the same client has this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// The server selection events that were published for an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SelectionEvents {
    /// True from the event that a selection started to the event that the selection ended.
    pub(crate) started: bool,
    /// True once the event that the operation waits for a server was published, in this selection
    /// or in that of an earlier attempt.
    pub(crate) waiting: bool,
}

/// One command of an operation, with the state that is kept from one attempt to the next.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    pub(crate) command: Command,
    /// The time at which the program of the command must be over, retries included; `None` without
    /// a time limit.
    pub(crate) deadline: Option<Instant>,
    /// The minimum round trip time of the selected server, from the topology description that the
    /// selection used (SEL-59). Zero without a deadline, while the time is unknown, and if no
    /// server was selected, as for a pinned connection.
    pub(crate) min_round_trip: Duration,
    /// True if server selection used the read preference `primary` instead of the command's own
    /// (SEL-34).
    pub(crate) is_for_primary: bool,
    /// The documents that the first attempt framed; `None` before, and without a document sequence.
    /// Retries send the same documents.
    pub(crate) portion: Option<Portion>,
    /// The `maxTimeMS` of the current attempt, in milliseconds; `None` if the attempt sends none.
    pub(crate) max_time_ms: Option<i32>,
    /// The time at which server selection began for the current attempt; `None` before that time,
    /// and on a pinned connection.
    pub(crate) selection_began: Option<Instant>,
    /// The number of attempts so far, failed check-outs included. An attempt counts from the start
    /// of its check-out. An attempt whose connection is lost or withdrawn before the exchange
    /// begins does not count.
    pub(crate) attempts: u32,
    /// The number of attempts that failed since the operation last waited or had a connection.
    pub(crate) attempts_without_wait: u32,
    /// True once an attempt failed with an overload error. From then on `maxAdaptiveRetries` limits
    /// all retries (BP-8).
    pub(crate) was_overloaded: bool,
    /// The time before which the next attempt must not begin; `None` if the attempt may begin at
    /// once.
    pub(crate) paused_until: Option<Instant>,
    /// The session of the operation. An implicit session is `None` until an attempt has a
    /// connection that supports sessions.
    pub(crate) session: Option<SessionId>,
    /// True if the session ends with the operation; false if the caller keeps the session, as an
    /// open cursor does, and if the command runs without a session.
    pub(crate) ends_session: bool,
    /// The session id that the current attempt sends as `lsid`; `None` if the attempt sends none.
    pub(crate) lsid: Option<[u8; 16]>,
    /// The transaction number of a retryable write, which is kept for retries (RW-19). `None` if
    /// the command carries none.
    pub(crate) txn_number: Option<i64>,
    /// Addresses of servers that retries avoid if other servers suit (RR-13, RW-23), without
    /// duplicates.
    pub(crate) deprioritized: Vec<Address>,
    /// The error of an earlier attempt, to raise if a retry sends no request or its error proves no
    /// attempt (RR-15, RR-19, RW-26).
    pub(crate) kept_error: Option<Error>,
    /// True once the connection of the operation had to authenticate again (AUTH-37).
    pub(crate) has_authenticated_again: bool,
    /// True once a server refused the `$clusterTime` of an attempt. The next attempts send none.
    pub(crate) without_cluster_time: bool,
    /// The value of `Sdam::scans_begun_before` at the start of the selection. With
    /// `serverSelectionTryOnce`, the selection fails if no server suits although more scans than
    /// this number are complete. `None` while no selection by scans runs.
    pub(crate) scans_before: Option<u64>,
    /// The answer of the application's server selector for the next selection; `None` if there is
    /// no answer.
    pub(crate) selector_answer: Option<SelectorAnswer>,
    /// The operation that uses the connection next, if this operation is a preliminary ping
    /// (SEL-72).
    pub(crate) after_ping: Option<Box<Self>>,
    /// The server selection events that were published for the operation.
    pub(crate) selection_events: SelectionEvents,
}

impl Operation {
    /// Returns the operation of `command`, which begins at `now`. The operation is boxed because
    /// its owner changes often.
    pub(crate) fn new(id: OperationId, mut command: Command, now: Instant) -> Box<Self> {
        let session = std::mem::replace(&mut command.session, SessionUse::None);
        let (session, ends_session) = match session {
            SessionUse::Implicit => (None, true),
            SessionUse::Kept(session) => (Some(session), false),
            SessionUse::Last(session) => (Some(session), true),
            SessionUse::None => (None, false),
        };
        // `timeoutMS=0` sets no deadline. `command.timeout` stays `Some`, which disables older time
        // limits such as `socketTimeoutMS`.
        let timeout = command.timeout.filter(|timeout| !timeout.is_zero());
        let deadline = command
            .deadline
            .or_else(|| timeout.map(|timeout| now + timeout));
        Box::new(Self {
            id,
            command,
            deadline,
            min_round_trip: Duration::ZERO,
            is_for_primary: false,
            portion: None,
            max_time_ms: None,
            selection_began: None,
            attempts: 0,
            attempts_without_wait: 0,
            was_overloaded: false,
            paused_until: None,
            session,
            ends_session,
            lsid: None,
            txn_number: None,
            deprioritized: Vec::new(),
            kept_error: None,
            has_authenticated_again: false,
            without_cluster_time: false,
            scans_before: None,
            selector_answer: None,
            after_ping: None,
            selection_events: SelectionEvents::default(),
        })
    }
}
