//! The execution of one command from server selection to reply, with its retries. An operation, as
//! users see it, is a [`Program`] of one or more such executions, which share an [`OperationId`].
//!
//! A [`Command`] says what is wanted. The client chooses a server and a connection for it and
//! exchanges both out as a [`Exchange`]; whoever performs the operation moves bytes for the
//! exchange until the reply is there, and gives it back. What a failed attempt means is decided in
//! `retry.rs`, and nowhere else.

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
mod limit;
mod pin;
mod program;
mod request;
mod retry;
mod sensitive;

pub use batch::Batch;
pub use cluster_time::{ClusterTime, MAX_CLUSTER_TIME_BYTES};
pub use command::{Command, CommandKind, SessionUse};
pub use cursor::{ABANDON_LIMIT, CLOSE_LIMIT, Cursor, CursorResources};
pub use documents::{DocumentList, Portion};
pub use exchange::{Exchange, Outcome, Reply};
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

/// The core's number of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// What was told of an operation's selection so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Emitted {
    /// A selection was said to have started and has not ended.
    pub(crate) started: bool,
    /// The operation was said to wait, in this selection or in an earlier one.
    pub(crate) waiting: bool,
}

/// What an operation carries from attempt to attempt.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    pub(crate) command: Command,
    /// When the program that the command belongs to must be over, retries included.
    pub(crate) deadline: Option<Instant>,
    /// The shortest round trip time of the selected server, as the topology description of the
    /// selection had it (SEL-59); zero without a deadline, and while it is not known.
    pub(crate) min_round_trip: Duration,
    /// The server was chosen by the primary's read preference instead of the command's (SEL-34).
    pub(crate) is_for_primary: bool,
    /// The documents that the first attempt sent, and that its retries send.
    pub(crate) portion: Option<Portion>,
    /// The time limit that the present attempt gives the server, in milliseconds.
    pub(crate) max_time_ms: Option<i32>,
    /// When the present attempt began to look for a server; none before the first attempt and
    /// between two.
    pub(crate) selection_began: Option<Instant>,
    /// Attempts that were begun, failed check-outs included.
    pub(crate) attempts: u32,
    /// Attempts that failed since the operation last waited for anything, or had a connection.
    pub(crate) unwaited: u32,
    /// An attempt failed with an overload error, so that `maxAdaptiveRetries` bounds all retries
    /// (BP-8).
    pub(crate) was_overloaded: bool,
    /// When the next attempt may begin, where it comes after a pause.
    pub(crate) paused_until: Option<Instant>,
    /// The session it runs in, once a server that knows sessions was chosen.
    pub(crate) session: Option<SessionId>,
    /// True if the session ends with the operation; otherwise somebody holds it.
    pub(crate) ends_session: bool,
    /// The id of the session on the wire, for the present attempt.
    pub(crate) lsid: Option<[u8; 16]>,
    /// The transaction number, taken once and kept for retries (RW-19).
    pub(crate) txn_number: Option<i64>,
    /// Servers that retries avoid where others suit (RR-13, RW-23); each is there once.
    pub(crate) deprioritized: Vec<Address>,
    /// The error to raise if a retry gets nowhere (RR-15, RR-19, RW-26).
    pub(crate) kept_error: Option<Error>,
    /// How many scans had come to their end when the selection under way began; none where servers
    /// are not scanned.
    pub(crate) scans_before: Option<u64>,
    /// The application's answer to the question which servers it wants, until it is used.
    pub(crate) narrowed: Option<SelectorAnswer>,
    /// This is a ping of the client's own, for the sake of that operation (SEL-72).
    pub(crate) behind: Option<Box<Self>>,
    /// What listeners know of its selection.
    pub(crate) emitted: Emitted,
}

impl Operation {
    /// Boxed, because it moves from hand to hand while it lives.
    pub(crate) fn new(id: OperationId, mut command: Command, now: Instant) -> Box<Self> {
        let session = std::mem::replace(&mut command.session, SessionUse::None);
        let (session, ends_session) = match session {
            SessionUse::Implicit => (None, true),
            SessionUse::Held(session) => (Some(session), false),
            SessionUse::Last(session) => (Some(session), true),
            SessionUse::None => (None, false),
        };
        // Zero is a limit without end, which still switches off the older ones.
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
            unwaited: 0,
            was_overloaded: false,
            paused_until: None,
            session,
            ends_session,
            lsid: None,
            txn_number: None,
            deprioritized: Vec::new(),
            kept_error: None,
            scans_before: None,
            narrowed: None,
            behind: None,
            emitted: Emitted::default(),
        })
    }
}
