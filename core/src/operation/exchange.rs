//! Exchanges. An exchange frames the request of one attempt, takes the bytes that a shell reads
//! from the socket, and recognizes the reply.

use super::{
    Assessment, ClusterTime, Command, Lease, Operation, OperationId, PinHolder, Portion, Reply,
    Request, SessionReadConcern, command_events::Observation, reply::Received,
};
use crate::{
    compression::Workspace,
    connection::{Arrival, Awaited, ConnectionFacts, SocketId},
    description::TopologyType,
    error::{Error, ErrorKind, Wait},
    options::ServerApi,
    session::SessionId,
    time::Instant,
};
use bson::{RawDocument, RawDocumentBuf};
use std::sync::Arc;

/// The state of the client that an attempt uses, as of the creation of its exchange.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// The newest cluster time that the client knows, to send as `$clusterTime`; `None` if the
    /// client knows none, and for a standalone server.
    pub(crate) cluster_time: Option<Arc<ClusterTime>>,
    /// True if the cluster time is that of a session, which is later than that of the client.
    pub(crate) is_time_of_session: bool,
    /// The part of the read concern that the session adds.
    pub(crate) session_read_concern: SessionReadConcern,
    /// The type of the topology. Together with the type of the server, it decides which
    /// `$readPreference` is sent.
    pub(crate) topology_type: TopologyType,
    /// The `requestID` of the message.
    pub(crate) request_id: i32,
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

/// The rest that an exchange leaves on its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remains {
    /// Nothing. The connection can be used again.
    Nothing,
    /// The reply, which the operation no longer waits for.
    Reply,
    /// Part of the request or of the reply, or bytes that answer no request.
    Bytes,
}

/// The use of one connection by one attempt of an operation, or by a preliminary ping
/// ([`is_preliminary`](Self::is_preliminary)). An exchange holds the request, the reply and the
/// connection.
///
/// The holder of an exchange can first find out whether its idle connection is still open
/// ([`wants_idle_check`](Self::wants_idle_check)). Then the holder moves the bytes in these steps:
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
/// `begin`, and [`Runner::handle_end`](super::Runner::handle_end) after `end`.
///
/// Nothing else may use the connection between these steps. After each call, take the command
/// events with [`poll_event`](Self::poll_event).
#[derive(Debug)]
pub struct Exchange {
    pub(crate) lease: Lease,
    /// The operation, which holds the state of the exchange. So to move an exchange is to move
    /// three words.
    pub(crate) operation: Box<Operation>,
}

/// The state of the current exchange of an operation.
#[derive(Debug, Default)]
pub(crate) struct ExchangeState {
    pub(crate) context: Context,
    /// True from the first exchange of the operation on. Before, the other fields have their
    /// defaults.
    is_used: bool,
    /// The preliminary ping that the exchange runs instead of the operation (SEL-72).
    pub(super) ping: Option<Box<Request>>,
    pub(crate) assessment: Option<Assessment>,
    /// True from [`Exchange::begin`] until the reply is complete, until a request without a reply
    /// is written, or until the request is retracted.
    pub(crate) is_under_way: bool,
    /// True while the connection, which was idle for a time, has to be checked before its use.
    pub(crate) needs_idle_check: bool,
    /// True once the connection was kept during a question of the program. Its use ended when the
    /// question began.
    is_held: bool,
    /// The number of bytes that the idle check has read so far.
    pub(crate) idle_bytes: usize,
    /// Large documents are sent from the request, after the output of the transport. This is the
    /// number of their bytes that were sent so far; `None` if there are none, and at the end.
    pub(super) sent_apart: Option<usize>,
    /// The holders of the pins that this exchange made.
    pub(crate) pinned: Vec<PinHolder>,
    /// The command events of the attempt; `None` before the request is framed, and if no command
    /// events are published.
    pub(super) observation: Option<Box<Observation>>,
    /// The reply; `None` before it is complete and after it was taken.
    pub(super) reply: Option<Received>,
}

impl Exchange {
    #[inline]
    pub(crate) fn new(lease: Lease, mut operation: Box<Operation>, context: Context) -> Self {
        let state = &mut operation.exchange;
        if std::mem::replace(&mut state.is_used, true) {
            *state = ExchangeState::default();
            state.is_used = true;
        }
        state.context = context;
        Self { lease, operation }
    }

    /// Returns the id of the operation.
    #[must_use]
    pub fn operation(&self) -> OperationId {
        self.operation.id
    }

    /// True if the exchange is a preliminary ping. The reply is then not that of the operation and
    /// must not be decoded. The operation runs in a later exchange.
    #[must_use]
    #[inline]
    pub fn is_preliminary(&self) -> bool {
        self.operation.exchange.ping.is_some()
    }

    /// Makes the exchange run `ping` instead of its operation.
    pub(crate) fn make_preliminary(&mut self, ping: Command) {
        self.operation.exchange.ping = Some(Box::new(ping.0.request));
        let context = &mut self.operation.exchange.context;
        context.observed = false;
        // The ping runs outside of the session of the operation.
        context.session_read_concern = SessionReadConcern::Nothing;
    }

    /// Returns the request that the exchange sends.
    #[inline]
    fn request(&self) -> &Request {
        self.operation
            .exchange
            .ping
            .as_deref()
            .unwrap_or(&self.operation.request)
    }

    /// Returns the id of the connection's socket.
    #[must_use]
    #[inline]
    pub fn socket(&self) -> SocketId {
        self.lease.facts.socket
    }

    /// Returns the facts of the connection and its server.
    #[must_use]
    pub fn facts(&self) -> &ConnectionFacts {
        &self.lease.facts
    }

    /// True if [`begin`](Self::begin) uses the time: for an operation with a time limit, and if
    /// command events are published. Otherwise the shell need not read its clock for the call.
    #[must_use]
    #[inline]
    pub fn begin_uses_time(&self) -> bool {
        let is_limited = self.operation.deadline.is_some() && !self.is_preliminary();
        is_limited || self.operation.exchange.context.observed
    }

    /// Frames the request, and queues the started event if command events are published.
    ///
    /// With a deadline, the request carries `maxTimeMS`: the remaining time minus the minimum round
    /// trip time of the server ([SEL-59]).
    ///
    /// A `getMore` does not carry `maxTimeMS`, and neither does a request to mongocryptd, or one
    /// for which the value exceeds an `i32`. If the value would not be positive, the call fails:
    /// the reply would come too late, and the caller could not know whether a write took effect.
    /// The call also fails if the request exceeds a limit of the server, or if its documents are
    /// not valid BSON.
    ///
    /// [SEL-59]: crate::requirements::server_selection#SEL-59
    #[inline]
    pub fn begin(&mut self, now: Instant) -> Result<(), Error> {
        if !self.is_preliminary() {
            self.operation.limit_time(now, self.lease.facts.is_cryptd)?;
        }
        self.write_request()?;
        self.operation.exchange.is_under_way = true;
        if self.operation.exchange.context.observed {
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

    /// True unless the command is an unacknowledged write, which is complete once its bytes are
    /// written.
    #[must_use]
    #[inline]
    pub fn expects_reply(&self) -> bool {
        self.request().acknowledged
    }

    /// True if messages of the connection can be compressed. Then the exchange uses a
    /// [`Workspace`] in [`begin`](Self::begin), [`received`](Self::received) and
    /// [`unpack`](Self::unpack).
    #[must_use]
    #[inline]
    pub fn has_compression(&self) -> bool {
        self.lease.transport.has_compression()
    }

    /// Exchanges the workspace of the exchange with another one. Before [`begin`](Self::begin),
    /// [`received`](Self::received) and [`unpack`](Self::unpack), a shell can lend a workspace to
    /// the exchange, and take it back after the call. Does nothing if the connection [has no
    /// compression](Self::has_compression).
    pub fn swap_workspace(&mut self, other: &mut Workspace) {
        self.lease.transport.swap_workspace(other);
    }

    /// Returns the buffer for the next read, which is never empty. Fails while the reply [has to be
    /// decompressed](Self::is_unpacking).
    #[inline]
    pub fn input(&mut self) -> Result<&mut [u8], Error> {
        if self.is_unpacking() {
            return Err(Error::argument(
                "the reply has to be decompressed with `unpack` before the next read",
            ));
        }
        Ok(self.lease.transport.input()?)
    }

    /// Processes `count` bytes that were read into [`input`](Self::input). Returns `true` once the
    /// reply is complete. If the reply has arrived and [has to be
    /// decompressed](Self::is_unpacking), the next call is [`unpack`](Self::unpack).
    #[inline]
    pub fn received(&mut self, count: usize) -> Result<bool, Error> {
        self.lease.transport.received(count)?;
        self.unpack()
    }

    /// True while the reply was decompressed in part. A large reply is decompressed in slices of
    /// about a millisecond, so that a peer can block neither a thread nor a time limit. Snappy
    /// decompresses a reply at once.
    #[must_use]
    #[inline]
    pub fn is_unpacking(&self) -> bool {
        self.lease.transport.is_unpacking()
    }

    /// Decompresses the next slice of the reply. Returns `true` once the reply is complete. Other
    /// tasks should run before each call.
    #[inline]
    pub fn unpack(&mut self) -> Result<bool, Error> {
        let transport = &mut self.lease.transport;
        let mut awaited = Awaited::Reply(self.operation.exchange.context.request_id);
        let Arrival::Whole(reply) = transport.next(&mut awaited)? else {
            return Ok(false);
        };
        let request = self
            .operation
            .exchange
            .ping
            .as_deref()
            .unwrap_or(&self.operation.request);
        let context = &self.operation.exchange.context;
        // The client does not know the time of a session yet, so that it keeps an equal one.
        let known = context.cluster_time.as_deref();
        let known = known.filter(|_| !context.is_time_of_session);
        let assessment = Assessment::new(reply.body, request.kind, known);
        let assessment = assessment.with_times(reply.body, request.is_explicit);
        self.operation.exchange.assessment = Some(assessment);
        self.operation.exchange.reply = Some(Received::InPlace(reply.place));
        self.operation.exchange.is_under_way = false;
        Ok(true)
    }

    /// Returns the reply; `None` before the reply is complete and after it was taken.
    #[must_use]
    #[inline]
    pub fn reply(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(self.reply_bytes()?).ok()
    }

    /// Returns the bytes of the reply, which are one document; `None` before the reply is complete
    /// and after it was taken.
    #[inline]
    #[must_use]
    pub fn reply_bytes(&self) -> Option<&[u8]> {
        let reply = self.operation.exchange.reply.as_ref();
        reply?.bytes(&self.lease)
    }

    /// Puts a document in place of the reply, for example the decrypted reply. What was judged from
    /// the reply stays: its error, labels and cluster time. Does nothing before the reply is
    /// complete and after it was taken.
    pub fn replace_reply(&mut self, document: RawDocumentBuf) {
        let state = &mut self.operation.exchange;
        if let Some(old) = state
            .reply
            .replace(Received::Replaced(document.into_bytes()))
        {
            old.drop_from(&mut self.lease);
        } else {
            state.reply = None;
        }
    }

    /// Moves the reply out of the exchange with its buffer; `None` before the reply is complete and
    /// after it was taken. The reply is copied only if more bytes follow it.
    pub fn take_reply(&mut self) -> Option<Reply> {
        let reply = self.operation.exchange.reply.take()?;
        Some(reply.take_from(&mut self.lease))
    }

    /// True if the reply is not an error, or is not complete yet.
    pub(super) fn is_successful(&self) -> bool {
        let assessment = self.operation.exchange.assessment.as_ref();
        assessment.is_none_or(|assessment| assessment.result.is_ok())
    }

    /// Returns the error of the command if the reply is not valid BSON or has no `ok: 1`, or if
    /// write errors or a write concern error in the reply fail the command
    /// ([`CommandKind::has_write_errors`](super::CommandKind::has_write_errors)). Returns `Ok` for
    /// any other reply, and before the reply is complete.
    pub fn outcome(&self) -> Result<(), Error> {
        match &self.operation.exchange.assessment {
            Some(Assessment {
                result: Err(error), ..
            }) => Err(error.clone().with_server(&self.lease.facts.address)),
            _ => Ok(()),
        }
    }

    /// Notes that the reply has arrived, and that the connection is kept during a question.
    pub(crate) fn hold(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.operation.exchange.is_held, true) {
            self.lease.used = now;
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

    /// Ends the use of the connection: drops the reply, and frees buffers that an idle connection
    /// does not need. If the caller left or the operation's time limit passed, retracts a request
    /// of which nothing was sent. Returns what remains on the connection.
    #[inline]
    pub(crate) fn close(&mut self, now: Instant, outcome: &Outcome) -> Remains {
        if !self.operation.exchange.is_held {
            self.lease.used = now;
        }
        // A caller that leaves, or a time limit of the operation, shows nothing about the
        // connection. `socketTimeoutMS` is different: its purpose is to find dead connections.
        let is_left = match outcome {
            Outcome::Completed => false,
            Outcome::Abandoned => true,
            Outcome::Failed(error) => {
                let deadline = self.operation.deadline;
                deadline.is_some_and(|limit| limit <= now) && is_exchange_timeout(error)
            }
        };
        if let Some(reply) = self.operation.exchange.reply.take() {
            reply.drop_from(&mut self.lease);
        }
        let transport = &mut self.lease.transport;
        if is_left && self.operation.exchange.is_under_way && transport.retract_request() {
            self.operation.exchange.is_under_way = false;
            self.operation.exchange.sent_apart = None;
        }
        transport.free_idle_buffers();
        let is_written = self.output().is_empty();
        let transport = &self.lease.transport;
        if self.operation.exchange.is_under_way && is_left && is_written {
            Remains::Reply
        } else if self.operation.exchange.is_under_way || !is_written || transport.has_input() {
            Remains::Bytes
        } else {
            Remains::Nothing
        }
    }
}

fn is_exchange_timeout(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Timeout {
            wait: Wait::Exchange,
            ..
        }
    )
}
