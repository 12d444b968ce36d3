//! A connection that outlives an operation: behind a load balancer, what a cursor or a transaction
//! began can only go on where it began (LB-30).

use super::Lease;
use crate::{connection::SocketId, pool::HeldFor};

/// The right to go on using one connection.
///
/// It is made by [`Lease::pin`] and goes back by
/// [`Client::release`](crate::client::Client::release) or with the last command that uses it
/// ([`Command::set_last_use`](super::Command::set_last_use)). One that is dropped instead keeps its
/// connection from everybody until the client closes.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the connection is kept until the pin is released"]
pub struct Pin {
    pub(crate) socket: SocketId,
    pub(crate) held_for: HeldFor,
}

/// How a command uses a pinned connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PinUse {
    /// Somebody else keeps the pin.
    Borrowed(SocketId),
    /// The pin is released when the operation is over, however it ends (LB-35).
    Last(Pin),
}

impl PinUse {
    pub(crate) fn socket(&self) -> SocketId {
        match self {
            Self::Borrowed(socket) => *socket,
            Self::Last(pin) => pin.socket,
        }
    }
}

impl Lease {
    /// Keeps the connection for a cursor or a transaction after the lease is given back (LB-31,
    /// LB-32). `None` where there is no need: every connection of the pool leads to the same server
    /// unless there is a load balancer.
    ///
    /// A connection may be pinned more than once, as by a transaction and the cursors that were
    /// opened in it (LB-42); it is free again when all pins were released.
    pub fn pin(&mut self, held_for: HeldFor) -> Option<Pin> {
        self.connection.facts.service?;
        self.pinned.push(held_for);
        Some(Pin {
            socket: self.connection.facts.socket,
            held_for,
        })
    }
}
