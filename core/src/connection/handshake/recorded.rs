//! The messages of a recorded connection without secrets, and the inputs of a replayed one.

use super::{Connection, State};
use crate::{
    auth::{AuthState, Mode},
    connection::{ConnectionPurpose, Output},
    error::Error,
    time::Instant,
    wire::{Flags, MessageWriter},
};
use bson::{RawDocument, RawDocumentBuf, cstr};

/// A message that a recorded connection is about to handle.
pub(super) struct Taken {
    content: Content,
    request_id: i32,
    response_to: i32,
    more_to_come: bool,
}

/// The part of a message that is kept.
enum Content {
    /// Of a reply to a command of authentication: only the step that follows.
    Step,
    /// The hello reply of a connection that can authenticate, without the reply to the first
    /// command of authentication. The step that follows takes its place.
    Hello(RawDocumentBuf),
    /// All of the message.
    Whole(RawDocumentBuf),
}

impl Connection {
    /// Returns what is kept of a message that was taken and not handled. `response_to` is the id of
    /// the message that it answers.
    pub(super) fn taken(&self, reply: &RawDocument, response_to: i32, more_to_come: bool) -> Taken {
        let content = match self.state {
            State::Authenticating { .. } => Content::Step,
            State::AwaitingHello { .. } if self.purpose != ConnectionPurpose::Monitor => {
                Content::Hello(without_secrets(reply))
            }
            _ => Content::Whole(reply.to_owned()),
        };
        Taken {
            content,
            // The next reply of a stream answers this one.
            request_id: if more_to_come { self.awaited_id } else { 0 },
            response_to,
            more_to_come,
        }
    }

    /// Keeps a message that was handled.
    pub(super) fn keep(&self, taken: Taken, auth: &mut AuthState) {
        let Mode::Recorded(kept) = &mut auth.mode else {
            return;
        };
        let has_failed = matches!(self.output.back(), Some(Output::Failed { .. }));
        let step = kept.take_step(has_failed);
        let body = match taken.content {
            Content::Step => {
                let mut body = step;
                body.append(cstr!("ok"), 1_i32);
                body
            }
            Content::Hello(mut body) => {
                body.append(cstr!("speculativeAuthenticate"), step);
                body
            }
            Content::Whole(body) => body,
        };
        let flags = match taken.more_to_come {
            true => Flags::MORE_TO_COME,
            false => Flags::default(),
        };
        MessageWriter::begin(&mut kept.messages, taken.request_id, taken.response_to)
            .flags(flags)
            .body(&body)
            .end();
    }

    /// Processes the messages of a recording, as [`handle_received`](Self::handle_received) does.
    /// `is_open` is true once the TLS handshake of the recorded connection was over.
    pub(crate) fn replay_received(
        &mut self,
        now: Instant,
        is_open: bool,
        messages: &[u8],
        auth: &mut AuthState,
    ) {
        if !self.options.layers.encrypt() {
            return self.handle_received(now, messages, auth);
        }
        // The layer in place of TLS takes this form.
        let bytes = [&[u8::from(is_open)][..], messages].concat();
        self.handle_received(now, &bytes, auth);
    }

    /// Fails the connection with the error that ended the recorded one. Ignored if the connection
    /// has failed by itself.
    pub(crate) fn replay_failure(&mut self, error: Error) {
        if !matches!(self.state, State::Over) {
            self.fail(error);
        }
    }
}

/// Returns a hello reply without the reply to the first command of authentication, and without the
/// text of an error, in which a server can repeat that command.
fn without_secrets(reply: &RawDocument) -> RawDocumentBuf {
    let mut kept = RawDocumentBuf::new();
    for (key, value) in reply.iter().map_while(Result::ok) {
        if key != "speculativeAuthenticate" && key != "errmsg" {
            kept.append(key, value);
        }
    }
    kept
}
