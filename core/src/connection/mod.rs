//! One connection: from dialling to ready, and for monitors the checks that follow.

mod facts;
mod handshake;
mod late;
mod transport;
mod types;

#[cfg(test)]
mod tests;

pub use facts::{ConnectionFacts, Established};
pub use handshake::Connection;
pub(crate) use late::LateReply;
pub use transport::Transport;
pub use types::{HandshakeOptions, Output, Purpose, closed_by_peer};

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
