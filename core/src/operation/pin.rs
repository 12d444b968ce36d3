//! Pins: the right of a cursor or a transaction to one connection. Behind a load balancer, all
//! commands of a cursor or a transaction must use one connection (LB-30).

use super::Exchange;
use crate::{connection::SocketId, description::TopologyId, pool::PinnedFor};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PinId {
    /// The id of the client that made the pin. The other fields are valid for this client only.
    pub(crate) client: TopologyId,
    pub(crate) socket: SocketId,
    /// The `requestID` of the exchange that made the pin.
    pub(crate) request: i32,
    /// The number of pins that the same exchange had made before.
    pub(crate) nth: usize,
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
    /// exchange is given back ([LB-31], [LB-32]).
    ///
    /// Returns `None` without a load balancer, because then every connection of the pool leads to
    /// the same server. Also returns `None` for a preliminary ping.
    ///
    /// A connection can have several pins, such as those of a transaction and of cursors that were
    /// opened in it. The connection is checked in when all pins are released. While a command has a
    /// pin, it is not retried on another connection ([LB-42], [LB-39]).
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
