//! Connections: their layers and messages, the handshake from dialling to ready, and the checks of
//! monitors.

mod facts;
mod handshake;
mod late_reply;
mod layer;
mod messages;
mod stack;
mod transport;
mod types;

#[cfg(test)]
pub(crate) mod tests;

pub use facts::{ConnectionFacts, Established};
pub use handshake::Connection;
pub(crate) use late_reply::LateReply;
pub(crate) use layer::RecordedTls;
pub use layer::{Layer, LayerPlan, LayerProgress, Layers};
pub(crate) use messages::{Arrival, Awaited, Place};
pub use transport::Transport;
pub use types::{ConnectionPurpose, HandshakeOptions, Output, Phase, closed_by_peer};

use std::fmt;

/// The id of a socket. A shell dials, moves bytes and closes under this id.
///
/// An id consists of a number, which no other socket of the client has, and of the slot of the
/// connection's record in the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    number: u64,
    slot: u32,
}

impl SocketId {
    pub(crate) const fn new(number: u64, slot: u32) -> Self {
        Self { number, slot }
    }

    /// Returns the number: 1 for the first socket of the client, and so on.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    pub(crate) const fn slot(self) -> u32 {
        self.slot
    }
}

/// The id of a connection in its pool.
///
/// An id consists of the number that events show, and of the connection's slot in the pool. With
/// the slot, the pool finds the connection without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    number: u64,
    slot: u32,
}

impl ConnectionId {
    /// Returns the id of a connection with this number in this slot. A pool makes the ids of its
    /// connections itself.
    #[must_use]
    pub const fn new(number: u64, slot: u32) -> Self {
        Self { number, slot }
    }

    /// Returns the number that events show: 1 for the first connection of the pool, and so on.
    ///
    /// See [CMAP-21].
    ///
    /// [CMAP-21]: crate::requirements::pool#CMAP-21
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Returns the slot of the connection in its pool. Another connection may have the same slot
    /// later.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.slot
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection#{}", self.number)
    }
}
