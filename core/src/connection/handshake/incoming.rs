//! The messages that arrive before a connection is established, and on a monitor's connection.

use super::{Connection, State};
use crate::{
    auth::AuthState,
    connection::{Arrival, transport::MAX_HANDSHAKE_UNPACKED_BYTES},
    error::Error,
    time::Instant,
};
use bson::RawDocumentBuf;

impl Connection {
    /// Handles the messages that have arrived. `received` is the number of bytes of the input.
    pub(super) fn take_messages(&mut self, now: Instant, received: usize, auth: &mut AuthState) {
        // Compressed messages can have thousands of times the size of their input.
        let mut left = received + MAX_HANDSHAKE_UNPACKED_BYTES;
        while !matches!(self.state, State::Over) {
            if left == 0 {
                return self.fail(Error::protocol(
                    "the server sent more compressed replies at once than are accepted",
                ));
            }
            let answered = self.awaited_id;
            match self.next_message() {
                Ok(Some((reply, more_to_come))) => {
                    left = left.saturating_sub(reply.as_bytes().len());
                    let is_recorded = auth.mode.is_recorded();
                    let taken = is_recorded.then(|| self.taken(&reply, answered, more_to_come));
                    self.on_message(now, reply, more_to_come, auth);
                    if let Some(taken) = taken {
                        self.keep(taken, auth);
                    }
                }
                Ok(None) => break,
                Err(error) => return self.fail(error),
            }
        }
        self.free_if_monitor();
    }

    /// Removes the next complete message from the buffer. Returns its body, and true if another
    /// message follows without a request; `None` if no complete message has arrived.
    fn next_message(&mut self) -> Result<Option<(RawDocumentBuf, bool)>, Error> {
        let mut awaited = self.state.awaited(self.awaited_id);
        let (body, request_id, more_to_come, length) = loop {
            match self.transport.next(&mut awaited)? {
                Arrival::Whole(message) => {
                    let body = message.body.to_owned();
                    let length = message.place.length;
                    break (body, message.request_id, message.more_to_come, length);
                }
                // Messages of a handshake are so small that all slices are decompressed at once.
                Arrival::Unpacking => {}
                Arrival::Pending | Arrival::Dropped => return Ok(None),
            }
        };
        if more_to_come {
            // The next reply of a stream answers this reply (MSG-21).
            self.awaited_id = request_id;
        }
        self.transport.consume(length);
        Ok(Some((body, more_to_come)))
    }

    /// Passes a message to the function that handles messages in the current state.
    fn on_message(
        &mut self,
        now: Instant,
        reply: RawDocumentBuf,
        more_to_come: bool,
        auth: &mut AuthState,
    ) {
        match self.state {
            State::AwaitingHello { sent } => self.on_hello_reply(now, reply, now - sent, auth),
            State::Authenticating { rounds } => {
                self.on_authentication_reply(now, &reply, rounds, auth);
            }
            State::Checking { sent, .. } => {
                self.on_check_reply(now, reply, now - sent, more_to_come);
            }
            // Not reached: a connection in these states expects `Awaited::Nothing`, so that
            // `next_message` has refused the message.
            State::Dialling
            | State::OpeningLayers
            | State::AwaitingLogin
            | State::DerivingKeys { .. }
            | State::Fetching { .. }
            | State::AwaitingKerberos { .. }
            | State::Idle
            | State::Over => {}
        }
    }
}
