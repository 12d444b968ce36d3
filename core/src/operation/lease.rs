//! One attempt of an operation on a leased connection: frame the request, move bytes, know the
//! reply.

use super::{
    Assessment, ClusterTime, Keeper, Operation, OperationId,
    sensitive::{is_sensitive, without_words},
};
use crate::{
    bson::DocumentWriter,
    connection::{Arrival, Awaited, ConnectionFacts, Established, Place, SocketId},
    description::TopologyType,
    error::{Error, ErrorKind},
    event::{CommandEvent, CommandFacts},
    hello::ServerApiFields,
    options::ServerApi,
    selection::{read_preference_to_send, write_read_preference},
    time::Instant,
    wire::{Flags, MessageWriter},
};
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, cstr, rawdoc, spec::BinarySubtype};
use std::{ops::Range, sync::Arc};

/// Documents may exceed the server's limit for stored documents by this much, because a command
/// wraps the user's document.
const COMMAND_OVERHEAD_BYTES: usize = 16 * 1024;

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

/// A connection and an operation, leased to whoever moves the bytes.
///
/// Call [`begin`](Self::begin); write [`output`](Self::output) until it is empty; if a reply is
/// [expected](Self::expects_reply), read into [`input`](Self::input) until
/// [`received`](Self::received) says that the reply is whole; look at it; give the lease back to
/// the client, whatever happened. Nothing else may use the connection in between.
#[derive(Debug)]
pub struct Lease {
    pub(crate) connection: Box<Established>,
    pub(crate) operation: Box<Operation>,
    pub(crate) context: Context,
    pub(crate) assessment: Option<Assessment>,
    /// True from the first byte of the request until the whole reply is there.
    pub(crate) in_exchange: bool,
    /// The connection was idle for long enough to be looked at first.
    pub(crate) is_rested: bool,
    /// Bytes that were read from it since.
    pub(crate) probed_bytes: usize,
    /// Who is to keep the connection.
    pub(crate) pinned: Vec<Keeper>,
    /// Where the reply stands in the connection's buffer.
    reply: Option<Place>,
    facts: Option<Arc<CommandFacts>>,
    /// Events must not show documents.
    is_sensitive: bool,
    began: Instant,
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

impl Lease {
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
            in_exchange: false,
            is_rested: false,
            probed_bytes: 0,
            pinned: Vec::new(),
            reply: None,
            facts: None,
            is_sensitive: false,
            began: Instant::ZERO,
        }
    }

    /// The operation that runs on the lease.
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

    /// Frames the request. Gives the started event, if somebody listens.
    ///
    /// A command with a deadline carries `maxTimeMS`: the time that is left, less the server's
    /// shortest round trip time (SEL-59). Where no more is left than that, nothing is sent: the
    /// reply would come too late, and nobody would learn what a write had done.
    pub fn begin(&mut self, now: Instant) -> Result<Option<CommandEvent>, Error> {
        self.began = now;
        self.operation.limit_time(now)?;
        self.check_size()?;
        let Self {
            connection,
            operation,
            context,
            ..
        } = self;
        let command = &operation.command;
        let flags = if command.acknowledged {
            Flags::default()
        } else {
            Flags::MORE_TO_COME
        };
        connection.transport.send(|buffer| {
            let mut message = MessageWriter::begin(buffer, context.request_id, 0)
                .flags(flags)
                .body_with(|body| write_body(body, operation, context, &connection.facts));
            if let Some((identifier, documents)) = &command.sequence {
                message = message.sequence(identifier, documents);
            }
            message.end();
        });
        self.in_exchange = true;
        Ok(self.context.observed.then(|| self.started_event()))
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
            self.in_exchange = false;
        }
    }

    /// Takes the request back if nothing of it was sent.
    pub(crate) fn unsend(&mut self) {
        if self.in_exchange && self.connection.transport.unsend() {
            self.in_exchange = false;
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
        self.in_exchange = false;
        Ok(true)
    }

    /// The reply, once it is whole; `None` before, and after it was taken.
    #[must_use]
    pub fn reply(&self) -> Option<&RawDocument> {
        let place = self.reply.as_ref()?;
        self.connection.transport.body(place)
    }

    /// Moves the reply out, so that it outlives the lease without being copied.
    pub fn take_reply(&mut self) -> Option<Reply> {
        let place = self.reply.take()?;
        let (bytes, frame) = self.connection.transport.take_frame(place.length);
        let body = frame.start + place.body.start..frame.start + place.body.end;
        Some(Reply { bytes, body })
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

    /// The event that ends the attempt, if somebody listens: succeeded for any reply with `ok: 1`.
    #[must_use]
    pub fn ended_event(&mut self, now: Instant, failure: Option<&Error>) -> Option<CommandEvent> {
        let facts = self.facts.take()?;
        let duration = now - self.began;
        let failure = match failure {
            Some(error) if matches!(error.kind(), ErrorKind::Write(_)) => None,
            Some(error) if self.is_sensitive => Some(without_words(error)),
            other => other.cloned(),
        };
        Some(match failure {
            Some(failure) => CommandEvent::Failed {
                facts,
                duration,
                failure,
            },
            None => {
                let reply = match self.reply() {
                    _ if self.is_sensitive => RawDocumentBuf::new(),
                    Some(reply) => reply.to_owned(),
                    // What went out without wanting a reply counts as done (MSG-18).
                    None => rawdoc! { "ok": 1 },
                };
                CommandEvent::Succeeded {
                    facts,
                    duration,
                    reply,
                }
            }
        })
    }

    /// The event that ends an attempt whose caller leaves, if somebody listens: every command that
    /// started ends.
    #[must_use]
    pub fn abandoned_event(&mut self, now: Instant) -> Option<CommandEvent> {
        self.ended_event(now, Some(&ErrorKind::Abandoned.into()))
    }

    /// The server answered and the session's owner wants to keep it, as an open cursor does.
    pub fn take_session(&mut self) -> Option<crate::session::ServerSession> {
        self.operation.session_is_implicit = false;
        self.operation.session.take()
    }

    /// Puts back a session that was taken and is not kept after all.
    pub fn put_session(&mut self, session: Option<crate::session::ServerSession>) {
        self.operation.session = session;
        self.operation.session_is_implicit = true;
    }

    /// Drops the reply, so that the connection is empty again.
    pub(crate) fn finish(&mut self) {
        if let Some(place) = self.reply.take() {
            self.connection.transport.consume(place.length);
        }
        self.connection.transport.rest();
    }

    fn check_size(&self) -> Result<(), Error> {
        let facts = &self.connection.facts;
        let command = &self.operation.command;
        let fixed = command.database.len()
            + self
                .context
                .cluster_time
                .as_ref()
                .map_or(0, |t| t.document().as_bytes().len())
            + 512;
        let body = command.elements.len() + fixed;
        let over = |what, limit: usize, actual: usize| {
            let (limit, actual) = (limit as u64, actual as u64);
            Err(Error::new(ErrorKind::Limit {
                what,
                limit,
                actual,
            }))
        };
        let max_body = facts.max_bson_object_size + COMMAND_OVERHEAD_BYTES;
        if body > max_body + fixed {
            return over(
                "the size of a command's document in bytes",
                max_body,
                body - fixed,
            );
        }
        let sequence = command
            .sequence
            .as_ref()
            .map_or(0, |(name, d)| name.len() + d.len() + 6);
        let total = body + sequence + 64;
        if total > facts.max_message_size {
            // MSG-4
            return over(
                "the size of a message in bytes",
                facts.max_message_size,
                total,
            );
        }
        Ok(())
    }

    fn started_event(&mut self) -> CommandEvent {
        let connection = &self.connection.facts;
        let command = &self.operation.command;
        let facts = Arc::new(CommandFacts {
            name: command.name().into(),
            database: command.database.clone(),
            request_id: self.context.request_id,
            operation_id: self.operation.id.0,
            address: connection.address.clone(),
            driver_connection_id: connection.pooled.number(),
            server_connection_id: connection.server_connection_id,
            service: connection.service,
        });
        self.facts = Some(facts.clone());
        let document = command_document(&self.operation, &self.context, &self.connection.facts);
        self.is_sensitive = is_sensitive(command.name(), &document);
        let command = if self.is_sensitive {
            RawDocumentBuf::new()
        } else {
            document
        };
        CommandEvent::Started { facts, command }
    }
}

/// The body: what the user wants, then what the moment adds. The name stays first (MSG-13).
fn write_body(
    body: &mut DocumentWriter<'_>,
    operation: &Operation,
    context: &Context,
    facts: &ConnectionFacts,
) {
    let command = &operation.command;
    body.elements(&command.elements);
    if let Some(limit) = operation.max_time_ms {
        body.i32("maxTimeMS", limit);
    }
    body.str("$db", &command.database);
    if let Some(session) = &operation.session {
        body.nested("lsid", |lsid| {
            lsid.binary("id", BinarySubtype::Uuid, &session.id);
        });
    }
    if let Some(number) = operation.txn_number {
        body.i64("txnNumber", number);
    }
    if let Some(api) = &context.server_api {
        ServerApiFields::from(api).write(body);
    }
    if let Some(time) = &context.cluster_time {
        body.document("$clusterTime", time.document());
    }
    if !command.kind.is_write() {
        let wanted = command.read_preference.as_deref();
        let wanted = wanted.filter(|_| !operation.is_for_primary);
        if let Some(sent) =
            read_preference_to_send(context.topology_type, facts.server_type, wanted)
        {
            write_read_preference(body, sent);
        }
    }
}

/// The command as one document, for events: sequences become arrays again.
fn command_document(
    operation: &Operation,
    context: &Context,
    facts: &ConnectionFacts,
) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    let mut body = DocumentWriter::begin(&mut bytes);
    write_body(&mut body, operation, context, facts);
    if let Some((identifier, documents)) = &operation.command.sequence {
        let mut array = RawArrayBuf::new();
        let mut rest = documents.as_slice();
        while let Some(length) = rest.first_chunk::<4>() {
            let length = usize::try_from(i32::from_le_bytes(*length)).unwrap_or(rest.len());
            let Some((document, tail)) = rest.split_at_checked(length) else {
                break;
            };
            if let Ok(document) = RawDocument::from_bytes(document) {
                array.push(document.to_owned());
            }
            rest = tail;
        }
        body.array(identifier, &array);
    }
    body.end();
    RawDocumentBuf::from_bytes(bytes).unwrap_or_else(|_| {
        let mut none = RawDocumentBuf::new();
        none.append(cstr!("unreadable"), true);
        none
    })
}
