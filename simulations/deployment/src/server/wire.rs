//! Receives the bytes of requests, and writes replies.

use super::{
    Member, Output,
    apart::{Encoded, LARGE, Task},
    connection::{Arrival, Connection, Request},
    decode::{self, Frame},
    fault::{Fault, is_final, is_not_primary, is_shutdown},
    overload,
    reply::{Envelope, ErrorFields, Reply, Times},
    transaction::labels,
};
use crate::deployment::{ConnId, DeploymentOptions};
use onionskin_core::{
    time::Instant,
    unstable::wire::{FrameDecoder, Header},
};
use std::{borrow::Cow, ops::Range};

/// The number of bytes that a client may send while its request waits, beyond one message of the
/// largest size. See [`Member::room`].
const MAX_BUFFERED_BYTES: usize = 1024 * 1024;

/// The advice of a server that does not take a legacy message.
pub(super) const UPGRADE: &str = "The client driver may require an upgrade. For more details see \
                                  https://dochub.mongodb.org/core/legacy-opcode-removal";

impl Member {
    pub(crate) fn handle_received(&mut self, now: Instant, conn: ConnId, mut bytes: &[u8]) {
        let limit = self.message_limit(conn);
        // Whole messages are decoded in place, without a copy into the decoder.
        while let Some(connection) = self.connections.get(&conn)
            && !(self.is_frozen || connection.is_busy())
            && connection.decoder.is_empty()
            && bytes.len() >= onionskin_core::unstable::wire::HEADER_BYTES
        {
            let Ok(header) = Header::decode(bytes, limit) else {
                return self.close(conn);
            };
            let Some((frame, rest)) = bytes.split_at_checked(header.length) else {
                break;
            };
            bytes = rest;
            self.on_frame(now, conn, header, frame.into(), 0..header.length);
        }
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        if connection.closing || bytes.is_empty() {
            return;
        }
        connection.decoder.extend(bytes);
        connection.buffered += bytes.len();
        self.buffered += bytes.len();
        let waits = self.is_frozen || connection.is_busy();
        if waits && connection.buffered > limit + MAX_BUFFERED_BYTES {
            return self.close(conn);
        }
        self.advance(now, conn);
        self.limit_buffered();
    }

    /// Closes the connections with the most unfinished bytes until the member's limit is kept.
    pub(super) fn limit_buffered(&mut self) {
        while self.buffered > self.options.limits.max_unfinished_bytes {
            let most = self.connections.iter().max_by_key(|(_, c)| c.unfinished());
            let Some((&conn, _)) = most.filter(|(_, c)| c.unfinished() > 0) else {
                return;
            };
            if let Some(connection) = self.connections.get_mut(&conn) {
                self.buffered -= connection.unfinished();
                (connection.buffered, connection.undecoded) = (0, 0);
                connection.decoder = FrameDecoder::new();
                connection.apart = None;
            }
            self.close(conn);
        }
    }

    /// Freezes the process, or lets it go on.
    pub(crate) const fn set_frozen(&mut self, is_frozen: bool) {
        self.is_frozen = is_frozen;
    }

    /// Handles the buffered messages of all connections, after a pause of the process.
    pub(crate) fn advance_all(&mut self, now: Instant) {
        let connections: Vec<ConnId> = self.connections.keys().copied().collect();
        for id in connections {
            self.advance(now, id);
            // A turn that came during the pause had no effect, and a full buffer has room again.
            let connection = self.connections.get(&id);
            if connection.is_some_and(|c| c.is_resting || !c.decoder.is_empty()) {
                self.outputs.push_back(Output::Turn(id));
            }
        }
    }

    /// Handles the buffered messages, until one has to wait.
    pub(super) fn advance(&mut self, now: Instant, conn: ConnId) {
        while !self.is_frozen {
            let Some(connection) = self.connections.get_mut(&conn) else {
                return;
            };
            if connection.is_busy() {
                if connection.is_resting && !connection.decoder.is_empty() {
                    self.outputs.push_back(Output::Turn(conn));
                }
                return;
            }
            let header = match connection.decoder.frame() {
                Ok(Some((header, _))) => header,
                Ok(None) => return,
                Err(_) => return self.close(conn),
            };
            let (buffer, range) = connection.decoder.take_frame(header.length);
            let taken = connection.buffered.min(header.length);
            connection.buffered -= taken;
            self.buffered -= taken;
            // The client of the other member can send its next message.
            if connection.arrival == Arrival::Internal {
                self.outputs.push_back(Output::Turn(conn));
            }
            self.on_frame(now, conn, header, buffer.into(), range);
        }
    }

    /// Handles the next buffered message if the previous one was answered. Returns false if nothing
    /// was done.
    pub(crate) fn next_turn(&mut self, now: Instant, conn: ConnId) -> bool {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return false;
        };
        let waits = self.is_frozen || connection.apart.is_some();
        if waits || !connection.is_resting || connection.closing {
            return false;
        }
        if connection.pending.is_none() {
            connection.is_resting = false;
            self.advance(now, conn);
        } else if !self.continue_stream(now, conn) {
            return false;
        }
        let connection = self.connections.get(&conn);
        connection.is_some_and(|connection| connection.is_resting || connection.closing)
    }

    /// Returns how many bytes of a connection this member takes now.
    pub(crate) fn room(&self, conn: ConnId) -> usize {
        let Some(connection) = self.connections.get(&conn) else {
            return usize::MAX;
        };
        let waits = self.is_frozen || connection.is_busy();
        // Another member sends its next message as a whole.
        if connection.arrival == Arrival::Internal {
            let is_full = waits && connection.buffered > 0;
            return if is_full { 0 } else { usize::MAX };
        }
        let is_scarce = self.buffered > self.options.limits.max_unfinished_bytes / 2;
        let limit = match waits && is_scarce {
            true => 0,
            false => self.message_limit(conn),
        };
        (limit + MAX_BUFFERED_BYTES).saturating_sub(connection.buffered)
    }

    /// Returns the largest size of a message on a connection, in bytes.
    fn message_limit(&self, conn: ConnId) -> usize {
        let arrival = self
            .connections
            .get(&conn)
            .map(|connection| connection.arrival);
        largest_message(&self.options, arrival.unwrap_or_default())
    }

    pub(crate) const fn take_turns(&mut self) {
        self.takes_turns = true;
    }

    pub(crate) const fn takes_turns(&self) -> bool {
        self.takes_turns
    }

    /// Handles a message: the range of a buffer.
    fn on_frame(
        &mut self,
        now: Instant,
        conn: ConnId,
        header: Header,
        buffer: Cow<'_, [u8]>,
        range: Range<usize>,
    ) {
        // Nobody gives turns to the connection of another member.
        if self.takes_turns
            && let Some(connection) = self.connections.get_mut(&conn)
            && connection.arrival != Arrival::Internal
        {
            connection.is_resting = true;
        }
        let negotiated = self.connections.get(&conn).map(|c| &*c.compressors);
        let negotiated = negotiated.unwrap_or_default();
        let limit = self.message_limit(conn);
        let frame = &buffer[range.clone()];
        if self.jobs.are_run() && decode::decoded_bytes(&header, frame) >= LARGE {
            let message = Encoded {
                header,
                negotiated: negotiated.to_vec(),
                limit,
                release: self.program.version.release,
                buffer: buffer.into_owned(),
                range,
            };
            return self.decode_apart(conn, message);
        }
        let frame = decode::read(header, frame, negotiated, limit);
        self.on_decoded(now, conn, frame);
    }

    /// Handles the content of a message. A message without one violates the protocol.
    pub(super) fn on_decoded(&mut self, now: Instant, conn: ConnId, frame: Option<Frame>) {
        match frame {
            Some(Frame::Request(request)) => {
                self.count_request(request.compressor, &request.name);
                self.start(now, conn, request);
            }
            Some(Frame::Refused(request, fault)) => {
                self.count_request(request.compressor, &request.name);
                self.respond(conn, &request, Err(fault));
            }
            None => self.close(conn),
        }
    }

    /// Writes the reply to a request, if the client expects one.
    pub(super) fn respond(
        &mut self,
        conn: ConnId,
        request: &Request,
        answer: Result<Reply, Fault>,
    ) {
        self.respond_with(conn, request, answer, None);
    }

    /// Writes the reply to a request. Returns the id of the reply, or 0 if the client expects none.
    /// With `chain`, the reply is part of a stream: it answers the message with that id, and more
    /// replies follow unless the reply is an error.
    pub(super) fn respond_with(
        &mut self,
        conn: ConnId,
        request: &Request,
        answer: Result<Reply, Fault>,
        chain: Option<i32>,
    ) -> i32 {
        if !request.reply_wanted {
            return 0;
        }
        self.next_request_id = self.next_request_id.wrapping_add(1).max(1);
        let id = self.next_request_id;
        let times = match self.is_set() {
            true => Some(Times::at(self.replica.last_time())),
            false => self.routing.times,
        };
        let mut envelope = Envelope::answer(request, id, times);
        if let Some(previous) = chain {
            envelope.more = true;
            envelope.response_to = previous;
        }
        let version = (self.process_id, self.counter);
        let (set, is_router) = (self.is_set(), self.is_router());
        let (streams, quiesces) = (self.program.streams(), self.quiesces());
        // Errors and write concern errors have it alike.
        let version = |code| {
            let is_sent = set && is_not_primary(code) || quiesces && is_shutdown(code);
            (streams && is_sent).then_some(version)
        };
        let may_be_apart = self.may_reply_apart(request);
        let Some(connection) = self.connections.get_mut(&conn) else {
            return id;
        };
        let start = connection.out.len();
        let is_final = matches!(&answer, Err(fault) if is_final(fault.error.code));
        // Servers before 4.4 do not label their errors (RW-16).
        let is_labelled = self.program.version.release >= [4, 4, 0];
        let retryable =
            is_labelled && request.command.contains_key("txnNumber") && (set || is_router);
        match answer {
            Ok(mut reply) => {
                let code = reply.concern.as_ref().and_then(|c| c.get_i32("code").ok());
                if reply.labels.is_empty() {
                    reply.labels = labels(request, None, code, retryable);
                }
                reply.version = code.and_then(version);
                if may_be_apart && reply.batch_bytes() >= LARGE {
                    let reply = Box::new((envelope, reply));
                    self.set_apart(conn, Task::Encode(reply, request.compressor));
                    return id;
                }
                envelope.write(&mut connection.out, &reply);
            }
            Err(fault) => {
                let code = fault.error.code;
                let labels = labels_of(&fault, request, retryable);
                let backoff = self.overload.base_backoff(&labels);
                envelope.more = false;
                let fields = ErrorFields {
                    labels: &labels,
                    backoff,
                    version: version(code),
                };
                envelope.write_fault(&mut connection.out, &fault, fields);
            }
        }
        if !std::mem::replace(&mut connection.announced, true) {
            self.outputs.push_back(Output::Transmit(conn));
        }
        self.pack_reply(conn, start, request.compressor);
        if is_final {
            self.close(conn);
        }
        id
    }

    /// True if a job may encode the reply to a request. The next reply of a stream could overtake
    /// this one, unless it waits for its turn.
    pub(super) const fn may_reply_apart(&self, request: &Request) -> bool {
        self.jobs.are_run() && (self.takes_turns || !request.exhaust)
    }

    /// Closes a connection after the written bytes are sent.
    pub(super) fn close(&mut self, conn: ConnId) {
        if let Some(connection) = self.connections.get_mut(&conn)
            && !std::mem::replace(&mut connection.closing, true)
        {
            self.outputs.push_back(Output::Close(conn));
        }
    }

    pub(super) fn connection(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.connections.get_mut(&conn)
    }
}

/// Returns the labels of an error.
fn labels_of(fault: &Fault, request: &Request, retryable: bool) -> Vec<String> {
    let code = fault.error.code;
    fault.labels.clone().unwrap_or_else(|| {
        let concern = fault.concern.as_ref();
        let concern = concern.and_then(|concern| concern.get_i32("code").ok());
        let labels = labels(request, Some(code), concern, retryable);
        match labels.is_empty() {
            true => overload::labels(code).unwrap_or_default(),
            false => labels,
        }
    })
}

/// Returns the largest size of a message of a client that has connected in this way, in bytes. A
/// router puts the documents of its client's message into an array, which is larger by the numbers
/// of its elements.
pub(super) fn largest_message(options: &DeploymentOptions, arrival: Arrival) -> usize {
    let limit = options.limits.max_message_bytes;
    match arrival {
        Arrival::Internal => limit.saturating_mul(2),
        Arrival::Direct | Arrival::Forwarded => limit,
    }
}
