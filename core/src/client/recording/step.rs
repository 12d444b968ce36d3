//! Steps of connections whose bytes have secrets. A recording has the messages of such a connection
//! without its secrets, in place of the bytes that it received.

use super::{
    bytes::{Bytes, Unread, put_bytes, put_socket},
    errors::{error, put_error},
};
use crate::{client::Client, connection::SocketId, error::Error, time::Instant};

const IS_CONNECT: u8 = 1;
const IS_OPEN: u8 = 2;
const HAS_FAILED: u8 = 4;

/// The effects of an input on a connection.
#[derive(Debug, Default)]
pub(in crate::client) struct ConnectionStep {
    /// True if the socket was connected, and false if bytes arrived.
    pub(in crate::client) is_connect: bool,
    /// True once the opening conversations of all layers, such as the TLS handshake, were over.
    pub(in crate::client) is_open: bool,
    /// The messages that the connection has taken, without secrets.
    pub(in crate::client) messages: Vec<u8>,
    /// The error that ended the connection.
    pub(in crate::client) failure: Option<Error>,
}

/// Writes the step of a connection. Fails with the name of the part that a recording cannot keep.
pub(in crate::client) fn put_step(
    out: &mut Vec<u8>,
    socket: SocketId,
    step: &ConnectionStep,
) -> Result<(), &'static str> {
    put_socket(out, socket);
    let flags = [
        (step.is_connect, IS_CONNECT),
        (step.is_open, IS_OPEN),
        (step.failure.is_some(), HAS_FAILED),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
    out.push(flags.fold(0, |all, (_, flag)| all | flag));
    put_bytes(out, &step.messages);
    let failure = step.failure.as_ref();
    failure.map_or(Ok(()), |failure| put_error(out, failure))
}

/// Reads a step that [`put_step`] has written.
pub(super) fn step(input: &mut Bytes<'_>) -> Result<(SocketId, ConnectionStep), Unread> {
    let socket = input.socket()?;
    let flags = input.byte("the state of a connection")?;
    let messages = input.bytes("the messages of a connection")?.to_vec();
    let failure = match flags & HAS_FAILED {
        0 => None,
        _ => Some(error(input)?),
    };
    let step = ConnectionStep {
        is_connect: flags & IS_CONNECT != 0,
        is_open: flags & IS_OPEN != 0,
        messages,
        failure,
    };
    Ok((socket, step))
}

impl ConnectionStep {
    /// Returns the step in words.
    pub(super) fn describe(&self, socket: SocketId) -> String {
        let socket = socket.number();
        match &self.failure {
            Some(error) => format!("the connection of socket {socket} failed: {error}"),
            None => format!(
                "socket {socket} received messages of {} bytes, which have no secrets",
                self.messages.len()
            ),
        }
    }
}

impl Client {
    /// Gives a recorded step to its connection.
    pub(super) fn replay_step(&mut self, now: Instant, socket: SocketId, step: &ConnectionStep) {
        self.begin_entry(now, super::Kind::Step, |_| Ok(()));
        self.connections.replay_step(now, socket, step);
        self.settle(now);
        let socket_use = self.socket_use(socket);
        self.end_entry(|digest| digest.socket_use(socket_use));
    }
}
