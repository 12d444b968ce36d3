//! Decodes requests from bytes, and encodes replies.

use super::{
    Member, Output, compression,
    connection::{Arrival, Connection, Request},
    document::owned,
    fault::{Fault, fault, is_final, is_not_primary, is_shutdown},
    overload,
    reply::{Envelope, ErrorFields, Reply, Times},
    transaction::labels,
};
use crate::{
    deployment::{ConnId, DeploymentOptions},
    legacy::LegacyQuery,
};
use bson::{Bson, Document, RawDocument, doc};
use onionskin_core::{
    options::Compressor,
    time::Instant,
    unstable::wire::{Flags, FrameDecoder, Header, Message, OpCode, Section},
};
use std::collections::BTreeSet;

/// The number of bytes that a client may send while its request waits, beyond one message of the
/// largest size.
const MAX_BUFFERED_BYTES: usize = 1024 * 1024;

/// The advice of a server that does not take a legacy message.
pub(super) const UPGRADE: &str = "The client driver may require an upgrade. For more details see \
                                  https://dochub.mongodb.org/core/legacy-opcode-removal";

/// The code of the error `IllegalOperation`.
const ILLEGAL_OPERATION: i32 = 20;

/// The content of a frame.
enum Frame {
    Request(Request),
    /// A valid message that is not a valid command. The reply is an error.
    Refused(Request, Fault),
}

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
            self.on_frame(now, conn, header, frame);
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
    fn limit_buffered(&mut self) {
        while self.buffered > self.options.limits.max_unfinished_bytes {
            let most = self.connections.iter().max_by_key(|(_, c)| c.buffered);
            let Some((&conn, _)) = most.filter(|(_, c)| c.buffered > 0) else {
                return;
            };
            if let Some(connection) = self.connections.get_mut(&conn) {
                self.buffered -= std::mem::take(&mut connection.buffered);
                connection.decoder = FrameDecoder::new();
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
            // A turn that came during the pause had no effect.
            if self.connections.get(&id).is_some_and(|c| c.is_resting) {
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
            self.on_frame(now, conn, header, &buffer[range]);
        }
    }

    /// Handles the next buffered message if the previous one was answered. Returns false if nothing
    /// was done.
    pub(crate) fn next_turn(&mut self, now: Instant, conn: ConnId) -> bool {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return false;
        };
        if self.is_frozen || !connection.is_resting || connection.closing {
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

    fn on_frame(&mut self, now: Instant, conn: ConnId, header: Header, frame: &[u8]) {
        // Nobody gives turns to the connection of another member.
        if self.takes_turns
            && let Some(connection) = self.connections.get_mut(&conn)
            && connection.arrival != Arrival::Internal
        {
            connection.is_resting = true;
        }
        let negotiated = self.connections.get(&conn).map(|c| &*c.compressors);
        let limit = self.message_limit(conn);
        let frame = match header.op_code {
            OpCode::Compressed => read_compressed(&header, frame, negotiated, limit),
            _ => read_frame(header, frame),
        };
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
                envelope.write(&mut connection.out, &reply);
            }
            Err(fault) => {
                let code = fault.error.code;
                let labels = fault.labels.clone().unwrap_or_else(|| {
                    let labels = labels(request, Some(code), None, retryable);
                    match labels.is_empty() {
                        true => overload::labels(code).unwrap_or_default(),
                        false => labels,
                    }
                });
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

/// Decodes a compressed message. Returns `None` if the message violates the protocol. A command
/// that must not be compressed is refused (COMP-18).
fn read_compressed(
    header: &Header,
    frame: &[u8],
    negotiated: Option<&[Compressor]>,
    limit: usize,
) -> Option<Frame> {
    let (header, message, id) =
        compression::unpack(header, frame, negotiated.unwrap_or_default(), limit)?;
    let mut frame = read_frame(header, &message)?;
    let (Frame::Request(request) | Frame::Refused(request, _)) = &mut frame;
    request.compressor = Some(id);
    match frame {
        Frame::Request(request) if compression::is_forbidden(&request.name) => {
            let text = format!("{} must not be compressed", request.name);
            Some(Frame::Refused(request, fault(ILLEGAL_OPERATION, text)))
        }
        frame => Some(frame),
    }
}

/// Decodes a message. Returns `None` if the message violates the protocol or is compressed.
fn read_frame(header: Header, frame: &[u8]) -> Option<Frame> {
    match header.op_code {
        OpCode::Msg => {
            let message = Message::decode(frame).ok()?;
            Some(read_message(header, &message))
        }
        OpCode::Query => {
            let query = LegacyQuery::decode(frame).ok()?;
            let (database, rest) = query.collection.split_once('.')?;
            if rest != "$cmd" {
                let command = doc! { "find": rest };
                let request = request(header, command, Some(database), Flags::default())?;
                let text = format!("OP_QUERY is no longer supported. {UPGRADE}");
                return Some(Frame::Refused(request, fault(5_739_101, text)));
            }
            let command = owned(query.command)?;
            let request = request(header, command, Some(database), Flags::default())?;
            Some(Frame::Request(request))
        }
        OpCode::Compressed | OpCode::Reply => None,
    }
}

fn read_message(header: Header, message: &Message<'_>) -> Frame {
    let empty = |name: &str| Request {
        id: header.request_id,
        bytes: header.length,
        compressor: None,
        legacy: false,
        reply_wanted: !message.flags.contains(Flags::MORE_TO_COME),
        exhaust: false,
        name: name.to_owned(),
        database: String::new(),
        command: Document::new(),
        progress: None,
    };
    let Some(mut command) = owned(message.body) else {
        return Frame::Refused(empty(""), fault(22, "malformed or too deeply nested BSON"));
    };
    if let Some(name) = duplicate(message.body, command.len()) {
        let text = format!("BSON field '{name}' is a duplicate field");
        return Frame::Refused(empty(name), fault(40413, text));
    }
    for section in message.sections() {
        let Section::Sequence {
            identifier,
            documents,
        } = section
        else {
            continue;
        };
        let Some(documents) = sequence(documents) else {
            return Frame::Refused(empty(""), fault(22, "malformed or too deeply nested BSON"));
        };
        if command.contains_key(identifier) {
            let text = format!("BSON field '{identifier}' is a duplicate field");
            return Frame::Refused(empty(""), fault(40413, text));
        }
        command.insert(identifier, documents);
    }
    request(header, command, None, message.flags).map_or_else(
        || {
            let text = "OP_MSG requests require a $db argument";
            Frame::Refused(empty(""), fault(40571, text))
        },
        Frame::Request,
    )
}

/// Returns the name of a field that a document has twice. `distinct` is the number of its names.
fn duplicate(body: &RawDocument, distinct: usize) -> Option<&str> {
    let names = || body.iter().flatten().map(|(name, _)| name.as_str());
    if names().count() == distinct {
        return None;
    }
    let mut seen = BTreeSet::new();
    names().find(|name| !seen.insert(*name))
}

fn sequence(mut bytes: &[u8]) -> Option<Vec<Bson>> {
    let mut documents = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>() {
        let length = usize::try_from(i32::from_le_bytes(*length)).ok()?;
        let (document, rest) = bytes.split_at_checked(length)?;
        documents.push(Bson::Document(owned(
            RawDocument::from_bytes(document).ok()?,
        )?));
        bytes = rest;
    }
    Some(documents)
}

fn request(
    header: Header,
    command: Document,
    database: Option<&str>,
    flags: Flags,
) -> Option<Request> {
    let database = match database {
        Some(database) => database.to_owned(),
        None => command.get_str("$db").ok()?.to_owned(),
    };
    let name = command.keys().next()?.clone();
    Some(Request {
        id: header.request_id,
        bytes: header.length,
        compressor: None,
        legacy: header.op_code == OpCode::Query,
        reply_wanted: !flags.contains(Flags::MORE_TO_COME),
        exhaust: flags.contains(Flags::EXHAUST_ALLOWED),
        name,
        database,
        command,
        progress: None,
    })
}
