//! One connection: its layers and messages, the way from dialling to ready, and for monitors the
//! checks that follow.

mod facts;
mod handshake;
mod late;
mod layer;
mod messages;
mod stack;
mod transport;
mod types;

#[cfg(test)]
pub(crate) mod tests;

pub use facts::{ConnectionFacts, Established};
pub use handshake::Connection;
pub(crate) use late::LateReply;
pub use layer::{Layer, LayerPlan, Layers, Progress};
pub(crate) use messages::{Arrival, Awaited, Place};
pub use transport::Transport;
pub use types::{HandshakeOptions, Output, Phase, Purpose, closed_by_peer};

use std::fmt;

/// The core's number of a socket. An adapter dials, moves bytes and closes under this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// A connection of one pool: 1 for the first, and so on (CMAP-21). Events show the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PooledId(pub u64);

impl fmt::Display for PooledId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection#{}", self.0)
    }
}
