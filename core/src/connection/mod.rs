//! One connection: its layers and messages, the way from dialling to ready, and for monitors the
//! checks that follow.

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
pub use layer::{Layer, LayerPlan, LayerProgress, Layers};
pub(crate) use messages::{Arrival, Awaited, Place};
pub use transport::Transport;
pub use types::{ConnectionPurpose, HandshakeOptions, Output, Phase, closed_by_peer};

use std::fmt;

/// The core's id of a socket. An adapter dials, moves bytes and closes under this id.
///
/// It consists of a number, which no other socket of the client ever has, and of the place where
/// the client keeps the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    number: u64,
    slot: u32,
}

impl SocketId {
    pub(crate) const fn new(number: u64, slot: u32) -> Self {
        Self { number, slot }
    }

    /// 1 for the first socket of the client, and so on.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    pub(crate) const fn slot(self) -> u32 {
        self.slot
    }
}

/// A connection of one pool.
///
/// It consists of the connection's number, which events show, and of its place in the pool, so that
/// no pool searches for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    number: u64,
    slot: u32,
}

impl ConnectionId {
    /// The connection with this number in this place of its pool. Pools make their ids themselves;
    /// this is for records of them, and for tests.
    #[must_use]
    pub const fn new(number: u64, slot: u32) -> Self {
        Self { number, slot }
    }

    /// The number that events show: 1 for the first connection of the pool, and so on (CMAP-21).
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// The connection's place in its pool, which another connection may have later.
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
