//! The checks of a server on a monitor's connection, one after the other.

use super::{Connection, State};
use crate::{
    connection::Output,
    error::TopologyVersion,
    hello::{HelloAnswer, HelloCommand, ServerApiFields},
    time::Instant,
    wire::Flags,
};
use bson::RawDocumentBuf;
use std::time::Duration;

impl Connection {
    /// Queues a check, with the legacy hello if `legacy` is true. Ignored unless the connection is
    /// a monitor's, its first hello was answered, and no check is outstanding.
    ///
    /// With `awaitable`, the server may delay its reply until its topology version differs from the
    /// given one, for the given time at most. The server may also send more replies without a
    /// request, because the check has the flag `exhaustAllowed` ([MON-34], [MON-36]).
    ///
    /// [MON-34]: crate::requirements::monitoring#MON-34
    /// [MON-36]: crate::requirements::monitoring#MON-36
    pub fn check(
        &mut self,
        now: Instant,
        legacy: bool,
        awaitable: Option<(TopologyVersion, Duration)>,
    ) {
        if !matches!(self.state, State::Idle) {
            return;
        }
        let streaming = awaitable.is_some();
        let flags = if streaming {
            Flags::EXHAUST_ALLOWED
        } else {
            Flags::default()
        };
        let server_api = self.options.server_api;
        let hello = HelloCommand {
            legacy,
            load_balanced: false,
            metadata: None,
            compressors: &[],
            sasl_supported_mechs: None,
            speculative_authenticate: None,
            awaitable,
            server_api: server_api.as_ref().map(ServerApiFields::from),
        };
        self.send(|message| message.flags(flags).body_with(|body| hello.write(body)));
        self.enter(State::Checking {
            sent: now,
            streaming,
        });
    }

    /// Handles the reply to a check, or another reply of a stream.
    pub(super) fn on_check_reply(
        &mut self,
        now: Instant,
        reply: RawDocumentBuf,
        round_trip: Duration,
        more_to_come: bool,
    ) {
        self.enter(if more_to_come {
            State::Checking {
                sent: now,
                streaming: true,
            }
        } else {
            State::Idle
        });
        self.output.push_back(Output::Checked {
            answer: Box::new(HelloAnswer::new(reply)),
            round_trip,
            more_to_come,
        });
    }
}
