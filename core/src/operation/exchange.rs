//! Exchanges. An exchange frames the request of one attempt, takes the bytes that a shell reads
//! from the socket, and recognizes the reply.

use super::{
    Assessment, ClusterTime, Operation, OperationId, PinHolder, Portion,
    command_events::Observation,
    documents::{COMMAND_OVERHEAD_BYTES, limit_exceeded},
    request::write_body,
};
use crate::{
    compression::{Workspace, is_compressible},
    connection::{Arrival, Awaited, ConnectionFacts, Established, Place, SocketId},
    description::TopologyType,
    error::Error,
    options::ServerApi,
    session::SessionId,
    time::Instant,
    wire::{Flags, MessageWriter},
};
use bson::RawDocument;
use std::{ops::Range, sync::Arc};

/// The state of the client that an attempt uses, as of the creation of its exchange.
#[derive(Debug)]
pub(crate) struct Context {
    /// The newest cluster time that the client knows, to send as `$clusterTime`; `None` if the
    /// client knows none, and for a standalone server.
    pub(crate) cluster_time: Option<Arc<ClusterTime>>,
    /// The type of the topology. Together with the type of the server, it decides which
    /// `$readPreference` is sent.
    pub(crate) topology_type: TopologyType,
    /// The `requestID` of the message.
    pub(crate) request_id: i32,
    /// The time by which the reply must be complete; `None` for no limit.
    pub(crate) deadline: Option<Instant>,
    /// The API version that every command declares; `None` if the client declares none.
    pub(crate) server_api: Option<ServerApi>,
    /// True if command events are published for this attempt.
    pub(crate) observed: bool,
}

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The reply is complete, or the request was written and no reply is expected.
    Completed,
    /// The exchange failed. For example, the request exceeded a limit of the server, the socket
    /// failed, the bytes were not the expected reply, or
    /// [`Action::Interrupt`](crate::client::Action::Interrupt) ended the exchange.
    Failed(Error),
    /// The caller dropped the operation before the exchange ended.
    Abandoned,
}

/// The use of one connection by one attempt of an operation, or by a preliminary ping
/// ([`is_preliminary`](Self::is_preliminary)). An exchange holds the request, the reply and the
/// connection.
///
/// The holder of an exchange can first probe the connection ([`wants_probe`](Self::wants_probe)).
/// Then the holder moves the bytes in these steps:
///
/// 1. Call [`begin`](Self::begin).
/// 2. Write [`output`](Self::output) to the socket and report the written bytes by
///    [`sent`](Self::sent), until the output is empty.
/// 3. If a reply is [expected](Self::expects_reply), read into [`input`](Self::input) and report
///    the bytes by [`received`](Self::received), until that returns `true`. While
///    [`is_unpacking`](Self::is_unpacking), call [`unpack`](Self::unpack) instead.
/// 4. Call [`end`](Self::end), then read the reply.
/// 5. Give the exchange back to the client, also after an error.
///
/// With a [`Runner`](super::Runner), call [`Runner::begin`](super::Runner::begin) in place of
/// `begin`, and [`Runner::handle_end`](super::Runner::handle_end) in place of `end` or after it.
///
/// Nothing else may use the connection between these steps. After each call, take the command
/// events with [`poll_event`](Self::poll_event).
#[derive(Debug)]
pub struct Exchange {
    pub(crate) connection: Box<Established>,
    pub(crate) operation: Box<Operation>,
    pub(crate) context: Context,
    pub(crate) assessment: Option<Assessment>,
    /// True from [`begin`](Self::begin) until the reply is complete, until a request without a
    /// reply is written, or until the request is retracted.
    pub(crate) is_under_way: bool,
    /// True while the connection, which was idle for a time, has to be probed before its use.
    pub(crate) needs_probe: bool,
    /// The number of bytes that the probe has read so far.
    pub(crate) probed_bytes: usize,
    /// The holders of the pins that this exchange made.
    pub(crate) pinned: Vec<PinHolder>,
    /// The command events of the attempt; `None` before the request is framed, and if no command
    /// events are published.
    pub(super) observation: Option<Box<Observation>>,
    /// The position of the reply in the connection's buffer; `None` before the reply is complete
    /// and after it was taken.
    reply: Option<Place>,
}

/// A reply, together with the buffer in which it arrived.
#[derive(Clone, Debug)]
pub struct Reply {
    bytes: Vec<u8>,
    body: Range<usize>,
}

impl Reply {
    /// Returns the reply document.
    #[must_use]
    pub fn document(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.bytes[self.body.clone()])
            .expect("the frame was decoded when it arrived")
    }

    /// Returns the offset of the document in the buffer.
    pub(crate) fn body_start(&self) -> usize {
        self.body.start
    }

    #[cfg(test)]
    pub(crate) fn for_test(document: &[u8]) -> Self {
        Self {
            bytes: document.to_vec(),
            body: 0..document.len(),
        }
    }

    /// Returns the buffer, and the range of the document in the buffer.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Range<usize>) {
        (self.bytes, self.body)
    }
}

impl Exchange {
    pub(crate) fn new(
        connection: Box<Established>,
        operation: Box<Operation>,
        context: Context,
    ) -> Self {
        Self {
            connection,
            operation,
            context,
            assessment: None,
            is_under_way: false,
            needs_probe: false,
            probed_bytes: 0,
            pinned: Vec::new(),
            observation: None,
            reply: None,
        }
    }

    /// Returns the id of the operation.
    #[must_use]
    pub fn operation(&self) -> OperationId {
        self.operation.id
    }

    /// True if the exchange is a preliminary ping. The reply is then not that of the operation and
    /// must not be decoded. The operation runs in a later exchange.
    #[must_use]
    pub fn is_preliminary(&self) -> bool {
        self.operation.after_ping.is_some()
    }

    /// Returns the id of the connection's socket.
    #[must_use]
    pub fn socket(&self) -> SocketId {
        self.connection.facts.socket
    }

    /// Returns the facts of the connection and its server.
    #[must_use]
    pub fn facts(&self) -> &ConnectionFacts {
        &self.connection.facts
    }

    /// Frames the request, and queues the started event if command events are published.
    ///
    /// With a deadline, the request carries `maxTimeMS`: the remaining time minus the minimum round
    /// trip time of the server ([SEL-59]). A `getMore` does not carry this value, and neither does
    /// a request for which the value exceeds an `i32`. If the value would not be positive, the call
    /// fails: the reply would come too late, and the caller could not know whether a write took
    /// effect. The call also fails if the request exceeds a limit of the server, or if its
    /// documents are not valid BSON.
    ///
    /// [SEL-59]: crate::requirements::server_selection#SEL-59
    pub fn begin(&mut self, now: Instant) -> Result<(), Error> {
        self.operation.limit_time(now)?;
        self.write_request()?;
        self.is_under_way = true;
        if self.context.observed {
            self.observe_start(now);
        }
        Ok(())
    }

    /// Returns the number and the size of the documents that the command sends. `None` before the
    /// request of its first attempt is framed, and for a command without a document sequence.
    #[must_use]
    pub fn portion(&self) -> Option<Portion> {
        self.operation.request.portion
    }

    /// Returns the bytes to write to the socket.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.connection.transport.output()
    }

    /// Records that the first `count` bytes of [`output`](Self::output) were written.
    pub fn sent(&mut self, count: usize) {
        self.connection.transport.sent(count);
        if self.output().is_empty() && !self.expects_reply() {
            self.is_under_way = false;
        }
    }

    /// Withdraws the request if none of its bytes were written and the connection has no layers.
    pub(crate) fn retract_request(&mut self) {
        if self.is_under_way && self.connection.transport.retract_request() {
            self.is_under_way = false;
        }
    }

    /// True unless the command is an unacknowledged write, which is complete once its bytes are
    /// written.
    #[must_use]
    pub fn expects_reply(&self) -> bool {
        self.operation.request.acknowledged
    }

    /// True if messages of the connection can be compressed. Then the exchange uses a
    /// [`Workspace`] in [`begin`](Self::begin), [`received`](Self::received) and
    /// [`unpack`](Self::unpack).
    #[must_use]
    pub const fn has_compression(&self) -> bool {
        self.connection.transport.has_compression()
    }

    /// Exchanges the workspace of the exchange with another one. Before [`begin`](Self::begin),
    /// [`received`](Self::received) and [`unpack`](Self::unpack), a shell can lend a workspace to
    /// the exchange, and take it back after the call. Does nothing if the connection [has no
    /// compression](Self::has_compression).
    pub fn swap_workspace(&mut self, other: &mut Workspace) {
        self.connection.transport.swap_workspace(other);
    }

    /// Returns the buffer for the next read, which is never empty. Fails while the reply [has to be
    /// decompressed](Self::is_unpacking).
    pub fn input(&mut self) -> Result<&mut [u8], Error> {
        if self.is_unpacking() {
            return Err(Error::argument(
                "the reply has to be decompressed with `unpack` before the next read",
            ));
        }
        Ok(self.connection.transport.input()?)
    }

    /// Processes `count` bytes that were read into [`input`](Self::input). Returns `true` once the
    /// reply is complete. If the reply has arrived and [has to be
    /// decompressed](Self::is_unpacking), the next call is [`unpack`](Self::unpack).
    pub fn received(&mut self, count: usize) -> Result<bool, Error> {
        self.connection.transport.received(count)?;
        self.unpack()
    }

    /// True while the reply was decompressed in part. A large reply is decompressed in slices of
    /// about a millisecond, so that a peer can block neither a thread nor a time limit. Snappy
    /// decompresses a reply at once.
    #[must_use]
    pub fn is_unpacking(&self) -> bool {
        self.connection.transport.is_unpacking()
    }

    /// Decompresses the next slice of the reply. Returns `true` once the reply is complete. Other
    /// tasks should run before each call.
    pub fn unpack(&mut self) -> Result<bool, Error> {
        let transport = &mut self.connection.transport;
        let mut awaited = Awaited::Reply(self.context.request_id);
        let Arrival::Whole(reply) = transport.next(&mut awaited)? else {
            return Ok(false);
        };
        self.assessment = Some(Assessment::new(
            reply.body,
            self.operation.request.kind,
            self.context.cluster_time.as_deref(),
        ));
        self.reply = Some(reply.place);
        self.is_under_way = false;
        Ok(true)
    }

    /// Returns the reply; `None` before the reply is complete and after it was taken.
    #[must_use]
    pub fn reply(&self) -> Option<&RawDocument> {
        let place = self.reply.as_ref()?;
        self.connection.transport.body(place)
    }

    /// Moves the reply out of the exchange with its buffer; `None` before the reply is complete and
    /// after it was taken. The reply is copied only if more bytes follow it.
    pub fn take_reply(&mut self) -> Option<Reply> {
        let place = self.reply.take()?;
        let (bytes, frame) = self.connection.transport.take_frame(place.length);
        let body = frame.start + place.body.start..frame.start + place.body.end;
        Some(Reply { bytes, body })
    }

    /// True if the reply is not an error, or is not complete yet.
    pub(super) fn is_successful(&self) -> bool {
        let assessment = self.assessment.as_ref();
        assessment.is_none_or(|assessment| assessment.result.is_ok())
    }

    /// Returns the error of the command if the reply is not valid BSON or has no `ok: 1`, or if
    /// write errors or a write concern error in the reply fail the command
    /// ([`CommandKind::has_write_errors`](super::CommandKind::has_write_errors)). Returns `Ok` for
    /// any other reply, and before the reply is complete.
    pub fn outcome(&self) -> Result<(), Error> {
        match &self.assessment {
            Some(Assessment {
                result: Err(error), ..
            }) => Err(error.clone().with_server(&self.connection.facts.address)),
            _ => Ok(()),
        }
    }

    /// Leaves the session of the operation to the caller, as for an open cursor: the session no
    /// longer ends with the operation. Returns the id of the session; `None` if the operation has
    /// no session.
    pub fn keep_session(&mut self) -> Option<SessionId> {
        self.operation.request.ends_session = false;
        self.operation.request.session
    }

    /// Makes a session that a caller kept end with the operation. Does nothing for `None`.
    pub(crate) fn end_session(&mut self, session: Option<SessionId>) {
        if session.is_some() {
            self.operation.request.session = session;
            self.operation.request.ends_session = true;
        }
    }

    /// Drops the reply, and frees buffers that an idle connection does not need.
    pub(crate) fn finish(&mut self) {
        if let Some(place) = self.reply.take() {
            self.connection.transport.consume(place.length);
        }
        self.connection.transport.free_idle_buffers();
    }

    /// Appends the request to the output of the connection. Appends nothing and fails if the
    /// request exceeds a limit of the server, or if its documents are not valid BSON.
    fn write_request(&mut self) -> Result<(), Error> {
        let Self {
            connection,
            operation,
            context,
            ..
        } = self;
        let facts = &connection.facts;
        let body = operation.request.elements.len();
        let max_body = facts.max_bson_object_size + COMMAND_OVERHEAD_BYTES;
        if body > max_body {
            let what = "the size of a command's document in bytes";
            return Err(limit_exceeded(what, max_body, body));
        }
        let flags = if operation.request.acknowledged {
            Flags::default()
        } else {
            Flags::MORE_TO_COME
        };
        let is_compressed = connection.transport.compressor().is_some()
            && is_compressible(operation.request.name());
        let write = |buffer: &mut Vec<u8>| {
            let start = buffer.len();
            let mut message = MessageWriter::begin(buffer, context.request_id, 0)
                .flags(flags)
                .body_with(|body| write_body(body, &operation.request, context, facts));
            let size = message.size();
            let fits = match &operation.request.sequence {
                Some(sequence) => sequence
                    .choose(operation.request.portion, size, facts)
                    .map(|portion| operation.request.portion = Some(portion)),
                None if size > facts.max_message_size => {
                    // A message is never larger than `maxMessageSizeBytes` (MSG-4).
                    let what = "the size of a message in bytes";
                    Err(limit_exceeded(what, facts.max_message_size, size))
                }
                None => Ok(()),
            };
            if let Err(error) = fits {
                buffer.truncate(start);
                return Err(error);
            }
            if let Some(sequence) = &operation.request.sequence {
                message = message.sequence(
                    sequence.identifier,
                    sequence.documents(operation.request.portion),
                );
            }
            message.end();
            Ok(())
        };
        if is_compressed {
            let max_bytes = facts.max_message_size;
            connection.transport.send_compressed(max_bytes, write)
        } else {
            connection.transport.send(write)
        }
    }
}
