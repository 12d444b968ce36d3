//! A connection that outlives an operation: behind a load balancer, what a cursor or a transaction
//! began can only go on where it began (LB-30).

use super::{Command, Exchange};
use crate::{
    connection::SocketId,
    description::TopologyId,
    error::{Error, Label},
    pool::PinnedFor,
};

/// The right to go on using one connection.
///
/// It is made by [`Exchange::pin`] and goes back by
/// [`Client::release`](crate::client::Client::release) or with the last command that uses it
/// ([`Command::set_last_use`](super::Command::set_last_use)). One that is dropped instead keeps its
/// connection from everybody until the client closes.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the connection is kept until the pin is released"]
pub struct Pin(pub(crate) PinHolder);

/// Which pin of whose connection: no other pin is ever the same, so that one which went back says
/// nothing about those who keep the connection later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PinId {
    /// The client to which the other numbers belong.
    pub(crate) client: TopologyId,
    pub(crate) socket: SocketId,
    /// The request whose exchange it was made from, and its place among the pins of that.
    request: i32,
    nth: usize,
}

/// Somebody who keeps a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PinHolder {
    pub(crate) id: PinId,
    pub(crate) pinned_for: PinnedFor,
}

/// How a command uses a pinned connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PinUse {
    /// Somebody else keeps the pin.
    Borrowed(PinId),
    /// The pin is released when the operation is over, however it ends (LB-35).
    Last(Pin),
}

impl PinUse {
    pub(crate) fn id(&self) -> PinId {
        match self {
            Self::Borrowed(id) => *id,
            Self::Last(pin) => pin.0.id,
        }
    }
}

impl Exchange {
    /// Keeps the connection for a cursor or a transaction after the exchange is given back (LB-31,
    /// LB-32). `None` where there is no need: every connection of the pool leads to the same server
    /// unless there is a load balancer.
    ///
    /// A connection may be pinned more than once, as by a transaction and the cursors that were
    /// opened in it (LB-42); it is free again when all pins were released. A command whose
    /// connection is kept is not tried again on another (LB-39).
    pub fn pin(&mut self, pinned_for: PinnedFor) -> Option<Pin> {
        let facts = &self.connection.facts;
        if facts.service.is_none() || self.is_preliminary() {
            return None;
        }
        let id = PinId {
            client: facts.client,
            socket: facts.socket,
            request: self.context.request_id,
            nth: self.pinned.len(),
        };
        let holder = PinHolder { id, pinned_for };
        self.pinned.push(holder);
        let command = &mut self.operation.command;
        command.pin.get_or_insert(PinUse::Borrowed(id));
        Some(Pin(holder))
    }
}

impl Exchange {
    /// Lets a pinned connection go when this exchange goes back (LB-32): its owner needs it no
    /// more.
    pub(super) fn release(&mut self, pin: Pin) {
        self.operation.command.pin = Some(PinUse::Last(pin));
    }
}

/// The connection of a session's transaction, and when it is given up: at the points where a
/// sharded transaction lets go of its server (LB-39, LB-40).
///
/// ```
/// use onionskin_core::operation::{TransactionPin, TransactionStep};
///
/// let mut pin = TransactionPin::default();
/// // Where there is no load balancer nothing is ever pinned.
/// assert_eq!(pin.after(TransactionStep::Abort, Ok(())), None);
/// ```
#[derive(Debug, Default)]
pub struct TransactionPin(Option<Pin>);

/// What a session with a transaction just did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStep {
    /// An operation of the transaction came to its end.
    Operation,
    /// An attempt to commit came to its end.
    Commit,
    /// An attempt to abort came to its end, or none was needed.
    Abort,
    /// A new transaction starts.
    Start,
    /// An operation outside of the transaction begins.
    Outside,
    /// The session ends.
    End,
}

impl TransactionPin {
    /// Keeps the connection of this exchange, unless one is kept already: to be called for the
    /// first command of a transaction, before anything is sent, so that it is kept whatever comes
    /// of it.
    pub fn keep(&mut self, exchange: &mut Exchange) {
        if self.0.is_none() {
            self.0 = exchange.pin(PinnedFor::Transaction);
        }
    }

    /// Lets a command of the transaction run on its connection, if one is kept.
    pub fn apply(&self, command: &mut Command) {
        if let Some(pin) = &self.0 {
            command.set_pin(pin);
        }
    }

    /// The pin that is to be released now, before anything else is done in the session. A commit
    /// that succeeded keeps it, because it may be repeated.
    #[must_use = "what is given up goes back to the client"]
    pub fn after(&mut self, step: TransactionStep, result: Result<(), &Error>) -> Option<Pin> {
        let failed_with = |label| result.is_err_and(|error| error.has_label(&label));
        let gives_up = match step {
            TransactionStep::Operation => failed_with(Label::TransientTransactionError),
            TransactionStep::Commit => {
                failed_with(Label::UnknownTransactionCommitResult)
                    || failed_with(Label::TransientTransactionError)
            }
            TransactionStep::Abort
            | TransactionStep::Start
            | TransactionStep::Outside
            | TransactionStep::End => true,
        };
        if gives_up { self.0.take() } else { None }
    }
}
