//! Pins: the right of a cursor or a transaction to one connection. Behind a load balancer, all
//! commands of a cursor or a transaction must use one connection (LB-30).

use super::{Command, Exchange};
use crate::{
    connection::SocketId,
    description::TopologyId,
    error::{Error, Label},
    pool::PinnedFor,
};

/// The right of a cursor or a transaction to use one connection.
///
/// [`Exchange::pin`] makes a pin. Release a pin with
/// [`Client::release`](crate::client::Client::release), or give the pin to the last command that
/// uses it ([`Command::set_last_use`](super::Command::set_last_use)). If a pin is dropped instead,
/// its connection stays checked out until the client closes.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the connection is kept until the pin is released"]
pub struct Pin(pub(crate) PinHolder);

/// The id of a pin. No two pins have the same id, not even two pins of the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PinId {
    /// The id of the client that made the pin. The other fields are valid for this client only.
    pub(crate) client: TopologyId,
    pub(crate) socket: SocketId,
    /// The `requestID` of the exchange that made the pin.
    request: i32,
    /// The number of pins that the same exchange had made before.
    nth: usize,
}

/// A cursor or transaction that holds a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PinHolder {
    pub(crate) id: PinId,
    pub(crate) pinned_for: PinnedFor,
}

/// How a command uses a pinned connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PinUse {
    /// The caller keeps the pin.
    Borrowed(PinId),
    /// The pin is released when the operation is over, also after an error (LB-35).
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
    /// Pins the connection for a cursor or a transaction, so that it stays checked out after the
    /// exchange is given back ([LB-31], [LB-32]). Returns `None` without a load balancer, because
    /// then every connection of the pool leads to the same server. Also returns `None` for a
    /// preliminary ping.
    ///
    /// A connection can have several pins, such as those of a transaction and of cursors that were
    /// opened in it ([LB-42]). The connection is checked in when all pins are released. While a
    /// command has a pin, it is not retried on another connection ([LB-39]).
    ///
    /// [LB-31]: crate::requirements::load_balancers#LB-31
    /// [LB-32]: crate::requirements::load_balancers#LB-32
    /// [LB-42]: crate::requirements::load_balancers#LB-42
    /// [LB-39]: crate::requirements::load_balancers#LB-39
    pub fn pin(&mut self, pinned_for: PinnedFor) -> Option<Pin> {
        let facts = &self.lease.facts;
        if facts.service.is_none() || self.is_preliminary() {
            return None;
        }
        let id = PinId {
            client: facts.client,
            socket: facts.socket,
            request: self.operation.exchange.context.request_id,
            nth: self.operation.exchange.pinned.len(),
        };
        let holder = PinHolder { id, pinned_for };
        self.operation.exchange.pinned.push(holder);
        let command = &mut self.operation.request;
        command.pin.get_or_insert(PinUse::Borrowed(id));
        Some(Pin(holder))
    }
}

impl Exchange {
    /// Makes the operation of this exchange release the pin at its end (LB-34).
    pub(super) fn release(&mut self, pin: Pin) {
        self.operation.request.pin = Some(PinUse::Last(pin));
    }
}

/// The pin of a session's transaction. The pin is released at the same steps at which a sharded
/// transaction unpins its server ([LB-39], [LB-40]).
///
/// ```
/// use onionskin_core::operation::{TransactionPin, TransactionStep};
///
/// let mut pin = TransactionPin::default();
/// // Without a load balancer, no connection is pinned.
/// assert_eq!(pin.after(TransactionStep::Abort, Ok(())), None);
/// ```
///
/// [LB-39]: crate::requirements::load_balancers#LB-39
/// [LB-40]: crate::requirements::load_balancers#LB-40
#[derive(Debug, Default)]
pub struct TransactionPin(Option<Pin>);

/// A step of a session that has a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStep {
    /// An operation of the transaction ended.
    Operation,
    /// An attempt to commit ended.
    Commit,
    /// An attempt to abort ended, or no attempt was needed.
    Abort,
    /// A new transaction starts.
    Start,
    /// An operation outside of the transaction begins.
    Outside,
    /// The session ends.
    End,
}

impl TransactionPin {
    /// Pins the connection of this exchange, unless the transaction has a pin. Call this for the
    /// first command of a transaction before anything is sent, so that the connection stays pinned
    /// also after an error.
    pub fn keep(&mut self, exchange: &mut Exchange) {
        if self.0.is_none() {
            self.0 = exchange.pin(PinnedFor::Transaction);
        }
    }

    /// Sets the pinned connection of the transaction on `command`; changes nothing if there is
    /// none.
    pub fn apply(&self, command: &mut Command) {
        if let Some(pin) = &self.0 {
            command.set_pin(pin);
        }
    }

    /// Returns the pin to release after `step`, before anything else happens in the session; `None`
    /// if there is no pin or it is kept. `result` is that of the step. After a successful commit
    /// the pin is kept, because the commit may be repeated.
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
