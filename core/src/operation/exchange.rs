//! One attempt of an operation on a connection in use: frame the request, move bytes, know the
//! reply.

use super::{
    Assessment, ClusterTime, Operation, OperationId, PinHolder, Portion,
    command_events::Observation,
    documents::{COMMAND_OVERHEAD_BYTES, over},
    request::write_body,
};
use crate::{
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

/// What an attempt needs to know of the moment it was begun in.
#[derive(Debug)]
pub(crate) struct Context {
    /// The newest cluster time known to the client.
    pub(crate) cluster_time: Option<Arc<ClusterTime>>,
    /// Decides, with the server's type, what `$readPreference` says.
    pub(crate) topology_type: TopologyType,
    /// The wire's number of the request.
    pub(crate) request_id: i32,
    /// When the reply must be there.
    pub(crate) deadline: Option<Instant>,
    /// The declared API version.
    pub(crate) server_api: Option<ServerApi>,
    /// Somebody listens to command events.
    pub(crate) observed: bool,
}

/// How the exchange of an exchange ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The whole reply is there, or the request went out and no reply is due.
    Completed,
    /// The exchange failed: the socket broke, the bytes were no reply, or the deadline passed.
    Failed(Error),
    /// The caller left before the exchange ended.
    Abandoned,
}

/// A connection and an operation, leased to whoever moves the bytes.
///
/// Call [`begin`](Self::begin); write [`output`](Self::output) until it is empty; if a reply is
/// [expected](Self::expects_reply), read into [`input`](Self::input) until
/// [`received`](Self::received) says that the reply is whole; call [`end`](Self::end); look at the
/// reply; give the exchange back to the client, whatever happened. Nothing else may use the
/// connection in between. After each call take the command events by
/// [`poll_event`](Self::poll_event).
#[derive(Debug)]
pub struct Exchange {
    pub(crate) connection: Box<Established>,
    pub(crate) operation: Box<Operation>,
    pub(crate) context: Context,
    pub(crate) assessment: Option<Assessment>,
    /// True from the first byte of the request until the whole reply is there.
    pub(crate) is_under_way: bool,
    /// The connection was idle for long enough to be looked at first.
    pub(crate) needs_probe: bool,
    /// Bytes that were read from it since.
    pub(crate) probed_bytes: usize,
    /// Who is to keep the connection.
    pub(crate) pinned: Vec<PinHolder>,
    /// What listeners are told of the attempt; none while nobody listens.
    pub(super) observation: Option<Box<Observation>>,
    /// Where the reply stands in the connection's buffer.
    reply: Option<Place>,
}

/// A reply that was moved out of its connection with the buffer it arrived in.
#[derive(Clone, Debug)]
pub struct Reply {
    bytes: Vec<u8>,
    body: Range<usize>,
}

impl Reply {
    /// The reply document.
    #[must_use]
    pub fn document(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.bytes[self.body.clone()])
            .expect("the frame was decoded when it arrived")
    }

    /// Where in the buffer the document starts.
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

    /// The buffer, and where in it the document stands.
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

    /// The operation that runs on the exchange.
    #[must_use]
    pub fn operation(&self) -> OperationId {
        self.operation.id
    }

    /// True if the reply does not answer the operation: it is that of a ping by which the client
    /// asks whether the connection still stands. It is not to be decoded; the operation follows.
    #[must_use]
    pub fn is_preliminary(&self) -> bool {
        self.operation.behind.is_some()
    }

    /// The socket to move bytes on.
    #[must_use]
    pub fn socket(&self) -> SocketId {
        self.connection.facts.socket
    }

    /// What is known of the connection and its server.
    #[must_use]
    pub fn facts(&self) -> &ConnectionFacts {
        &self.connection.facts
    }

    /// Frames the request, and queues the started event if somebody listens.
    ///
    /// A command with a deadline carries `maxTimeMS`: the time that is left, less the server's
    /// shortest round trip time (SEL-59). Where no more is left than that, nothing is sent: the
    /// reply would come too late, and nobody would learn what a write had done.
    pub fn begin(&mut self, now: Instant) -> Result<(), Error> {
        self.operation.limit_time(now)?;
        self.write_request()?;
        self.is_under_way = true;
        if self.context.observed {
            self.observe_start(now);
        }
        Ok(())
    }

    /// The documents that the command sends, once its request is framed; `None` for a command
    /// without a document sequence.
    #[must_use]
    pub fn portion(&self) -> Option<Portion> {
        self.operation.portion
    }

    /// Bytes to be written to the socket.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.connection.transport.output()
    }

    /// Says that the first `count` bytes of the output were written.
    pub fn sent(&mut self, count: usize) {
        self.connection.transport.sent(count);
        if self.output().is_empty() && !self.expects_reply() {
            self.is_under_way = false;
        }
    }

    /// Takes the request back if nothing of it was sent.
    pub(crate) fn retract_request(&mut self) {
        if self.is_under_way && self.connection.transport.retract_request() {
            self.is_under_way = false;
        }
    }

    /// False for an unacknowledged write: it is done once its bytes are out.
    #[must_use]
    pub fn expects_reply(&self) -> bool {
        self.operation.command.acknowledged
    }

    /// Room for the next read. Never empty.
    pub fn input(&mut self) -> Result<&mut [u8], Error> {
        Ok(self.connection.transport.input()?)
    }

    /// Takes in `count` bytes that were read; true once the reply is whole.
    pub fn received(&mut self, count: usize) -> Result<bool, Error> {
        let transport = &mut self.connection.transport;
        transport.received(count)?;
        let mut awaited = Awaited::Reply(self.context.request_id);
        let Arrival::Whole(reply) = transport.next(&mut awaited)? else {
            return Ok(false);
        };
        self.assessment = Some(Assessment::new(
            reply.body,
            self.operation.command.kind,
            self.context.cluster_time.as_deref(),
        ));
        self.reply = Some(reply.place);
        self.is_under_way = false;
        Ok(true)
    }

    /// The reply, once it is whole; `None` before, and after it was taken.
    #[must_use]
    pub fn reply(&self) -> Option<&RawDocument> {
        let place = self.reply.as_ref()?;
        self.connection.transport.body(place)
    }

    /// Moves the reply out, so that it outlives the exchange without being copied.
    pub fn take_reply(&mut self) -> Option<Reply> {
        let place = self.reply.take()?;
        let (bytes, frame) = self.connection.transport.take_frame(place.length);
        let body = frame.start + place.body.start..frame.start + place.body.end;
        Some(Reply { bytes, body })
    }

    /// True if the reply is no error. `true` also before the reply is there.
    pub(super) fn is_successful(&self) -> bool {
        let assessment = self.assessment.as_ref();
        assessment.is_none_or(|assessment| assessment.result.is_ok())
    }

    /// The error that the reply is, if it is one. `Ok` also before the reply is there.
    pub fn outcome(&self) -> Result<(), Error> {
        match &self.assessment {
            Some(Assessment {
                result: Err(error), ..
            }) => Err(error.clone().with_server(&self.connection.facts.address)),
            _ => Ok(()),
        }
    }

    /// Keeps the session of the operation for the caller, as an open cursor does: it does not end
    /// with the operation. `None` where there is none.
    pub fn keep_session(&mut self) -> Option<SessionId> {
        self.operation.ends_session = false;
        self.operation.session
    }

    /// Lets a session that was kept end with the operation.
    pub(crate) fn end_session(&mut self, session: Option<SessionId>) {
        if session.is_some() {
            self.operation.session = session;
            self.operation.ends_session = true;
        }
    }

    /// Drops the reply, so that the connection is empty again.
    pub(crate) fn finish(&mut self) {
        if let Some(place) = self.reply.take() {
            self.connection.transport.consume(place.length);
        }
        self.connection.transport.rest();
    }

    /// Writes the message, with as many documents as it takes.
    fn write_request(&mut self) -> Result<(), Error> {
        let Self {
            connection,
            operation,
            context,
            ..
        } = self;
        let facts = &connection.facts;
        let body = operation.command.elements.len();
        let max_body = facts.max_bson_object_size + COMMAND_OVERHEAD_BYTES;
        if body > max_body {
            let what = "the size of a command's document in bytes";
            return Err(over(what, max_body, body));
        }
        let flags = if operation.command.acknowledged {
            Flags::default()
        } else {
            Flags::MORE_TO_COME
        };
        connection.transport.send(|buffer| {
            let start = buffer.len();
            let mut message = MessageWriter::begin(buffer, context.request_id, 0)
                .flags(flags)
                .body_with(|body| write_body(body, operation, context, facts));
            let size = message.size();
            let fits = match &operation.command.sequence {
                Some(sequence) => sequence
                    .choose(operation.portion, size, facts)
                    .map(|portion| operation.portion = Some(portion)),
                None if size > facts.max_message_size => {
                    let what = "the size of a message in bytes";
                    Err(over(what, facts.max_message_size, size)) // MSG-4
                }
                None => Ok(()),
            };
            if let Err(error) = fits {
                buffer.truncate(start);
                return Err(error);
            }
            if let Some(sequence) = &operation.command.sequence {
                message =
                    message.sequence(sequence.identifier, sequence.documents(operation.portion));
            }
            message.end();
            Ok(())
        })
    }
}
