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

/// The core's number of a socket. An adapter dials, moves bytes and closes under this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);
