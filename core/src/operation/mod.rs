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
mod change_stream;
mod cluster_time;
mod command;
mod command_events;
pub mod crud;
mod cursor;
mod cursor_resources;
mod cursor_settings;
mod documents;
mod exchange;
mod explicit_session;
pub mod gridfs;
mod in_transaction;
mod kill_cursors;
mod lease;
mod limit;
mod lists;
mod own_command;
mod pin;
mod program;
mod recorded;
mod reply;
mod request;
mod retry;
mod sending;
mod sensitive;
mod single;
mod transaction;
mod transaction_end;
mod transaction_labels;
mod transaction_options;
mod transaction_run;

pub use crate::{compression::Workspace, pool::PinnedFor};
pub use batch::{Batch, RawBatch};
pub use change_stream::ChangeStream;
pub use cluster_time::{ClusterTime, IGNORED_FOR, MAX_CLUSTER_TIME_BYTES};
pub(crate) use cluster_time::{ClusterTimes, is_refused_at_once, refuses_cluster_time};
pub use command::{Command, CommandKind, SessionUse};
pub use cursor::{ABANDON_LIMIT, CLOSE_LIMIT, Cursor};
pub use cursor_resources::CursorResources;
pub use cursor_settings::{CursorSettings, TimeoutMode};
pub use documents::Portion;
pub use exchange::{Exchange, Outcome};
pub(crate) use explicit_session::{ExplicitSession, ReplyTimes, RunLimit, SessionReadConcern};
pub use explicit_session::{SessionOptions, SessionOptionsBuilder, SessionTimes};
pub(crate) use kill_cursors::kill_unowned;
pub(crate) use lease::Lease;
pub use lists::DocumentList;
pub(crate) use lists::MultiOffsets;
pub(crate) use lists::{OperationList, Operations};
pub use own_command::RetryAs;
pub use pin::Pin;
pub use program::{Abandoned, Ask, Program, Runner, Span, Step};
pub use reply::Reply;
pub use single::{Decode, Prepared, Single};
pub use transaction::TransactionState;
pub use transaction_end::EndTransaction;
pub use transaction_options::{TransactionOptions, TransactionOptionsBuilder};
pub use transaction_run::{Repeat, TRANSACTION_RUN_LIMIT, TransactionRun};

pub(crate) use assess::Assessment;
pub(crate) use command::{ReadConcernUse, Request};
pub(crate) use exchange::{Context, ExchangeState, Remains};
pub(crate) use in_transaction::{InTransaction, OwnSettings, TransactionStep};
pub(crate) use pin::{PinHolder, PinId, PinUse};
pub(crate) use recorded::{ExchangeEnd, reply_with_cursor};
pub(crate) use retry::{
    AfterFailure, FailedAttempt, LastError, RetryPolicy, RetryState, error_at_end,
    is_retryable_overload,
};
pub(crate) use transaction::{MAX_RECOVERY_TOKEN_BYTES, Place, Transaction};
pub(crate) use transaction_labels::{
    label_in_transaction, label_refused_commit, transaction_label,
};

use crate::{selection::SelectorAnswer, time::Instant};
use std::time::Duration;

/// The id of an operation. No other operation of the same client has this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// One command of an operation, with the state that is kept from one attempt to the next.
///
/// An operation is boxed from the creation of its [`Command`] on, because its owner changes often.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    /// The time at which the program of the command must be over, retries included; `None` without
    /// a time limit.
    pub(crate) deadline: Option<Instant>,
    pub(crate) request: Request,
    pub(crate) retry: RetryState,
    pub(crate) selection: SelectionState,
    pub(crate) exchange: ExchangeState,
}

impl Operation {
    /// Returns the operation of `command`, which begins at `now`.
    pub(crate) fn new(id: OperationId, command: Command, now: Instant) -> Box<Self> {
        let Command(mut operation) = command;
        operation.id = id;
        // `timeoutMS=0` sets no deadline. `request.timeout` stays `Some`, which disables older time
        // limits such as `socketTimeoutMS`.
        let timeout = operation.request.timeout;
        operation.deadline = operation.deadline.or_else(|| deadline(now, timeout));
        operation
    }
}

/// Returns the deadline of an operation that begins now. A timeout of zero means no deadline.
pub(crate) fn deadline(now: Instant, timeout: Option<Duration>) -> Option<Instant> {
    let timeout = timeout.filter(|timeout| !timeout.is_zero());
    timeout.map(|timeout| now + timeout)
}

/// The state of the server selection of an operation.
#[derive(Debug, Default)]
pub(crate) struct SelectionState {
    /// The time at which server selection began for the current attempt; `None` before that time,
    /// and on a pinned connection.
    pub(crate) began: Option<Instant>,
    /// The minimum round trip time of the selected server, from the topology description that the
    /// selection used (SEL-59). Zero without a deadline, while the time is unknown, and if no
    /// server was selected, as for a pinned connection.
    pub(crate) min_round_trip: Duration,
    /// The value of `Sdam::scans_begun_before` at the start of the selection. With
    /// `serverSelectionTryOnce`, the selection fails if no server suits although more scans than
    /// this number are complete. `None` while no selection by scans runs.
    pub(crate) scans_before: Option<u64>,
    /// The answer of the application's server selector for the next selection; `None` if there is
    /// no answer.
    pub(crate) answer: Option<SelectorAnswer>,
    /// True if the server selector kept none of the servers that need not be avoided, so that it is
    /// asked about all.
    pub(crate) asks_about_avoided: bool,
    /// The server selection events that were published for the operation.
    pub(crate) events: SelectionEvents,
}

impl SelectionState {
    /// Prepares for the selection of another attempt.
    pub(crate) const fn begin_again(&mut self) {
        self.began = None;
        self.asks_about_avoided = false;
    }
}

/// The server selection events that were published for an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SelectionEvents {
    /// True from the event that a selection started to the event that the selection ended.
    pub(crate) started: bool,
    /// True once the event that the operation waits for a server was published, in this selection
    /// or in that of an earlier attempt.
    pub(crate) waiting: bool,
}
