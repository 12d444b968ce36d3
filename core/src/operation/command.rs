//! Commands, before a server and a connection are selected for them.

use super::{
    CursorResources, CursorSettings, DocumentList, ExchangeState, InTransaction, Operation,
    OperationId, OperationList, OwnSettings, Pin, PinId, PinUse, Portion, RetryState,
    SelectionState, TransactionStep, documents::Sequence,
};
use crate::{
    address::Address,
    bson::DocumentWriter,
    connection::ConnectionFacts,
    options::{ReadConcern, ReadPreference, SelectionCriteria, ServerSelector},
    session::SessionId,
    time::{Instant, whole_millis},
};
use std::{fmt, ops::Range, sync::Arc, time::Duration};

/// The kind of operation that a command belongs to. The kind decides how a server is selected,
/// whether a failed attempt is retried, and whether write errors in a reply fail the operation.
///
/// The descriptions of the variants are about other errors than overload errors. After retryable
/// overload errors, commands of every kind can be retried ([BP-2]).
///
/// [BP-2]: crate::requirements::retries#BP-2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// A read. The read preference selects the server. With `retryReads`, the read is retried after
    /// a retryable error: once or, with a time limit, until the time is over ([RR-5], [RR-18]).
    ///
    /// [RR-5]: crate::requirements::retries#RR-5
    /// [RR-18]: crate::requirements::retries#RR-18
    Read,
    /// A write whose statements each affect at most one document. With `retryWrites`, an
    /// acknowledged write of this kind carries a transaction number and is retried as often as a
    /// read, if the server supports retryable writes ([RW-7], [RW-8], [RW-24]).
    ///
    /// [RW-7]: crate::requirements::retries#RW-7
    /// [RW-8]: crate::requirements::retries#RW-8
    /// [RW-24]: crate::requirements::retries#RW-24
    RetryableWrite,
    /// Any other write. Such a write is not retried ([RW-10]).
    ///
    /// [RW-10]: crate::requirements::retries#RW-10
    Write,
    /// A command of the application. The driver does not inspect whether it is a write. The server
    /// is selected as for a read, and the command is not retried unless [`Command::retry_as`] says
    /// how ([RUN-6], [RUN-21]).
    ///
    /// [RUN-6]: crate::requirements::messages#RUN-6
    /// [RUN-21]: crate::requirements::messages#RUN-21
    Run,
    /// An aggregation with `$out` or `$merge`, which is not retried. A write concern error in the
    /// reply fails the operation. The read preference selects the server, but if an available
    /// server is older than 5.0, the primary runs the aggregation ([SEL-34]).
    ///
    /// [SEL-34]: crate::requirements::server_selection#SEL-34
    WritingAggregate,
    /// A `getMore` or `killCursors`, which runs on the server of its cursor and is not retried
    /// ([SEL-2], [RR-7]).
    ///
    /// [SEL-2]: crate::requirements::server_selection#SEL-2
    /// [RR-7]: crate::requirements::retries#RR-7
    CursorFollowUp,
}

impl CommandKind {
    /// True if the command needs a writable server.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::RetryableWrite | Self::Write)
    }

    /// True if write errors and write concern errors beside `ok: 1` fail the operation.
    #[must_use]
    pub const fn has_write_errors(self) -> bool {
        self.is_write() || matches!(self, Self::WritingAggregate)
    }
}

/// A command without the fields that each attempt adds: `maxTimeMS`, `$db`, `lsid`, `txnNumber`,
/// the fields of the declared API version, `$clusterTime` and `$readPreference`.
///
/// ```
/// use onionskin_core::operation::{Command, CommandKind};
///
/// let mut ping = Command::new("ping", "admin", CommandKind::Run);
/// ping.body().i32("ping", 1);
/// assert_eq!(ping.name(), "ping");
/// ```
pub struct Command(pub(crate) Box<Operation>);

/// The command of an operation, and what its current attempt adds to it.
pub(crate) struct Request {
    /// The name of the command; `None` if the name has to be read from the first key of `elements`.
    pub(super) name: Option<&'static str>,
    pub(crate) database: Arc<str>,
    pub(crate) kind: CommandKind,
    /// False for an unacknowledged write, which has no reply.
    pub(crate) acknowledged: bool,
    /// The elements of the body as BSON, the command name first.
    pub(crate) elements: Vec<u8>,
    /// The place of the write concern in `elements`; empty without one.
    pub(crate) write_concern: Range<usize>,
    pub(crate) sequence: Option<Sequence>,
    pub(crate) read_preference: Option<Arc<ReadPreference>>,
    /// The application's function that accepts the server. Without the read preference, any server
    /// that can serve reads suits then.
    pub(crate) narrowing: Option<ServerSelector>,
    pub(crate) read_concern: ReadConcernUse,
    /// True if server selection used the read preference `primary` instead of the command's own
    /// (SEL-34).
    pub(crate) is_for_primary: bool,
    pub(crate) own: OwnSettings,
    pub(crate) target: Option<Target>,
    pub(crate) pin: Option<PinUse>,
    /// The time limit of the program; `Some(Duration::ZERO)` for none.
    pub(crate) timeout: Option<Duration>,
    /// The session of the operation. An implicit session is `None` until an attempt has a
    /// connection that supports sessions.
    pub(crate) session: Option<SessionId>,
    /// True if the application has started the session.
    pub(crate) is_explicit: bool,
    /// True if the session ends with the operation; false if the caller keeps the session, as an
    /// open cursor does, and if the command runs without a session.
    pub(crate) ends_session: bool,
    /// The session id that the current attempt sends as `lsid`; `None` if the attempt sends none.
    pub(crate) lsid: Option<[u8; 16]>,
    /// The transaction number of a retryable write, which is kept for retries (RW-19), or of the
    /// transaction. `None` if the command carries none.
    pub(crate) txn_number: Option<i64>,
    /// The use of the transaction of the session; `None` outside of a transaction.
    pub(crate) transaction: Option<Box<InTransaction>>,
    /// The documents that the first attempt framed; `None` before, and without a document sequence.
    /// Retries send the same documents.
    pub(crate) portion: Option<Portion>,
    /// The `maxTimeMS` of the current attempt, in milliseconds; `None` if the attempt sends none.
    /// With a deadline, each attempt sets it.
    pub(crate) max_time_ms: Option<i32>,
    /// The field `rawData`, which only servers from 8.2 on get; `None` for none.
    pub(crate) raw_data: Option<bool>,
    /// The part of the command that servers before 4.4 do not know; `None` if there is none.
    pub(crate) needs_4_4: Option<&'static str>,
    /// The settings of the cursor that the command opens; `None` for other commands, and if none is
    /// set.
    pub(crate) cursor: Option<Box<CursorSettings>>,
    /// The session and the pin to give back before the command begins.
    pub(crate) released: Option<Box<CursorResources>>,
}

/// Whether and how a command sends a read concern.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReadConcernUse {
    /// The command takes none. In a snapshot session it gets one nevertheless, so that the server
    /// refuses it.
    None,
    /// The command takes one. `None` means the default of the server.
    Taken(Option<ReadConcern>),
}

/// The only server that may run a command.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    /// True if the command waits while the server is unavailable; false if the command then fails.
    pub(crate) is_awaited: bool,
}

/// Shows the size of the body instead of its content, which can be secret, such as a password in
/// `createUser`.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("name", &self.name())
            .field("database", &self.database)
            .field("kind", &self.kind)
            .field("body_bytes", &self.elements.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Command").field(&self.0.request).finish()
    }
}

/// The session that a command runs in.
#[derive(Debug, Default)]
pub enum SessionUse {
    /// An implicit session, which ends with the operation unless an open cursor keeps it. The
    /// command runs without a session if the server does not support sessions ([RUN-10]).
    ///
    /// [RUN-10]: crate::requirements::messages#RUN-10
    #[default]
    Implicit,
    /// A session that the caller keeps, such as that of an open cursor ([RUN-28]).
    ///
    /// [RUN-28]: crate::requirements::messages#RUN-28
    Kept(SessionId),
    /// A session that the caller gives up. The session ends with the operation, also after an
    /// error.
    Last(SessionId),
    /// A session that the application has started.
    Explicit(SessionId),
    /// The command runs without a session.
    None,
}

impl Command {
    /// Returns a command with an empty body. The first element appended must be the command name
    /// ([MSG-13]).
    ///
    /// [MSG-13]: crate::requirements::messages#MSG-13
    #[must_use]
    pub fn new(name: &'static str, database: impl Into<Arc<str>>, kind: CommandKind) -> Self {
        Self(Box::write(
            Box::new_uninit(),
            Operation {
                // The client sets the id when the operation begins.
                id: OperationId(0),
                deadline: None,
                request: Request {
                    name: Some(name),
                    database: database.into(),
                    kind,
                    acknowledged: true,
                    elements: Vec::with_capacity(128),
                    write_concern: 0..0,
                    sequence: None,
                    read_preference: None,
                    narrowing: None,
                    read_concern: ReadConcernUse::None,
                    is_for_primary: false,
                    own: OwnSettings::default(),
                    target: None,
                    pin: None,
                    timeout: None,
                    session: None,
                    is_explicit: false,
                    ends_session: true,
                    lsid: None,
                    txn_number: None,
                    transaction: None,
                    portion: None,
                    max_time_ms: None,
                    raw_data: None,
                    needs_4_4: None,
                    cursor: None,
                    released: None,
                },
                retry: RetryState::default(),
                selection: SelectionState::default(),
                exchange: ExchangeState::default(),
            },
        ))
    }

    /// Returns the name of the command.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.request.name()
    }

    /// Returns a writer that appends elements to the body.
    pub fn body(&mut self) -> DocumentWriter<'_> {
        DocumentWriter::bare(&mut self.0.request.elements)
    }

    /// Sets the document sequence of the argument `identifier` to `documents`, which are stored one
    /// after the other. The command fails if the documents exceed the limits that the server has
    /// for one command ([MSG-11], [MSG-12]).
    ///
    /// [MSG-11]: crate::requirements::messages#MSG-11
    /// [MSG-12]: crate::requirements::messages#MSG-12
    pub fn set_sequence(&mut self, identifier: &'static str, documents: Vec<u8>) {
        self.0.request.sequence = Some(Sequence::whole(identifier, documents));
    }

    /// Sets the document sequence of the argument `identifier` to documents of `list`, from the
    /// byte offset `start` on. The limits of the server decide how many documents are sent.
    /// [`Exchange::portion`](super::Exchange::portion) returns their number once the request is
    /// framed.
    ///
    /// Retries of the command send the same documents. A retry fails if they exceed the limits of
    /// its server.
    pub fn set_batch(&mut self, identifier: &'static str, list: DocumentList, start: usize) {
        self.0.request.sequence = Some(Sequence::rest(identifier, list, start));
    }

    /// Sets the operations of a bulk write, from the byte offset `start` on, which is that of the
    /// operation number `first`. The limits of the server decide how many operations are sent, as
    /// in [`set_batch`](Self::set_batch).
    pub(crate) fn set_operations(&mut self, list: OperationList, start: usize, first: usize) {
        self.0.request.sequence = Some(Sequence::operations(list, start, first));
    }

    /// Sets the read preference. Writes ignore the read preference.
    pub fn set_read_preference(&mut self, preference: Arc<ReadPreference>) {
        self.0.request.own.criteria = true;
        self.0.request.read_preference = Some(preference);
    }

    /// Sets how the server of a read is selected. Writes ignore it.
    pub fn set_criteria(&mut self, criteria: &SelectionCriteria) {
        self.set_read_preference(Arc::new(criteria.read_preference().clone()));
        self.0.request.set_narrowing(criteria);
    }

    /// Sets the read concern of a command that takes one; `None` for the default of the server.
    /// Each attempt sends it with what the session of the command adds.
    pub fn set_read_concern(&mut self, concern: Option<ReadConcern>) {
        self.0.request.read_concern = ReadConcernUse::Taken(concern);
    }

    /// Sets the `maxTimeMS` that is sent if the operation has no deadline. `None` sends none.
    pub fn set_max_time(&mut self, time: Option<Duration>) {
        let millis = time.map(whole_millis);
        self.0.request.max_time_ms = millis.map(|time| i32::try_from(time).unwrap_or(i32::MAX));
    }

    /// Restricts the command to this server. The command fails if the topology lacks the server.
    /// While the server is unavailable, the command waits as in server selection ([SEL-2]).
    ///
    /// [SEL-2]: crate::requirements::server_selection#SEL-2
    pub fn set_target(&mut self, target: Address) {
        self.0.request.bind_to(&target);
    }

    /// Restricts the command to this server. The command fails if the server is unavailable.
    pub fn set_target_without_wait(&mut self, target: Address) {
        self.0.request.target = Some(Target {
            address: target,
            is_awaited: false,
        });
    }

    /// Makes the command run on this pinned connection. A server is not selected ([LB-33]).
    ///
    /// [LB-33]: crate::requirements::load_balancers#LB-33
    pub fn set_pin(&mut self, pin: &Pin) {
        self.0.request.pin = Some(PinUse::Borrowed(pin.0.id));
    }

    /// Makes the command run on this pinned connection. The pin is released at the end of the
    /// command, also after an error ([LB-35]).
    ///
    /// [LB-35]: crate::requirements::load_balancers#LB-35
    pub fn set_last_use(&mut self, pin: Pin) {
        self.0.request.pin = Some(PinUse::Last(pin));
    }

    /// Gives these back before the command begins: what a cursor held that the program replaces by
    /// the one that this command opens. So the command can use the connection of the old cursor.
    pub fn set_released(&mut self, resources: CursorResources) {
        self.0.request.released = (!resources.is_empty()).then(|| Box::new(resources));
    }

    /// Takes what is to be given back before the command begins.
    #[inline]
    pub(crate) fn take_released(&mut self) -> Option<Box<CursorResources>> {
        self.0.request.released.take()
    }

    /// Returns what this command, which is not run, would have given back.
    pub(crate) fn into_resources(self) -> CursorResources {
        let request = self.0.request;
        CursorResources {
            session: request.session.filter(|_| request.ends_session),
            pin: match request.pin {
                Some(PinUse::Last(pin)) => Some(pin),
                Some(PinUse::Borrowed(_)) | None => None,
            },
            more: request.released,
        }
    }

    /// Sets the session that the command runs in.
    pub fn set_session(&mut self, session: SessionUse) {
        let request = &mut self.0.request;
        request.is_explicit = matches!(session, SessionUse::Explicit(_));
        (request.session, request.ends_session) = match session {
            SessionUse::Implicit => (None, true),
            SessionUse::Kept(session) | SessionUse::Explicit(session) => (Some(session), false),
            SessionUse::Last(session) => (Some(session), true),
            SessionUse::None => (None, false),
        };
    }

    /// Makes the command run in a session that the application has started. An unacknowledged write
    /// then fails unless the session is in a transaction, whose write concern counts.
    pub fn use_explicit_session(&mut self, session: SessionId) {
        self.set_session(SessionUse::Explicit(session));
    }

    /// Marks the command as unacknowledged (`w: 0`): no reply follows, and no session is used.
    ///
    /// See [MSG-18].
    ///
    /// [MSG-18]: crate::requirements::messages#MSG-18
    pub fn set_unacknowledged(&mut self) {
        self.0.request.acknowledged = false;
        self.set_session(SessionUse::None);
    }

    /// Sets the time limit of the whole operation: server selection, check-out, exchange and
    /// retries together. Zero means no limit, and `None` means `timeoutMS` of the client. With a
    /// limit, [`Exchange::begin`](super::Exchange::begin) adds `maxTimeMS`, except to a `getMore`
    /// and to a command whose cursor is limited per iteration and awaits no documents. The body of
    /// the command must not have that field.
    ///
    /// In a [program](super::Program) the time limit of the first command counts for all commands.
    /// Time limits of later commands are ignored.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.0.request.timeout = timeout;
    }

    /// True if the command has a time limit of its own.
    pub(super) fn has_limit(&self) -> bool {
        self.0.request.timeout.is_some_and(|limit| !limit.is_zero())
    }

    /// Sets the time limit and the deadline that an earlier command set, such as the command that
    /// opened the cursor.
    pub(super) fn set_limits(&mut self, timeout: Option<Duration>, deadline: Option<Instant>) {
        self.0.request.timeout = timeout;
        self.0.deadline = deadline;
    }
}

impl Request {
    /// Restricts the command to this server, for which it waits.
    pub(crate) fn bind_to(&mut self, address: &Address) {
        self.target = Some(Target {
            address: address.clone(),
            is_awaited: true,
        });
    }

    /// True if the command could send a statement to this server that can affect several documents.
    pub(crate) fn may_send_multi(&self, facts: &ConnectionFacts) -> bool {
        let sequence = self.sequence.as_ref();
        let (documents, bytes) = (facts.max_write_batch_size, facts.max_message_size);
        sequence.is_some_and(|sequence| sequence.may_send_multi(documents, bytes))
    }

    /// True for a retryable write with a transaction number, and for the commands that end a
    /// transaction. The number alone means nothing, because the other commands of a transaction
    /// have one as well.
    pub(crate) fn is_numbered_write(&self) -> bool {
        let is_write = self.kind == CommandKind::RetryableWrite && self.txn_number.is_some();
        is_write && self.transaction_step() != Some(TransactionStep::Statement)
    }

    /// Returns the name of the command.
    pub(crate) fn name(&self) -> &str {
        match self.name {
            Some(name) => name,
            None => {
                // The first element is a type byte and the key, which ends with a zero byte.
                let key = self.elements.get(1..).unwrap_or_default();
                let end = key.iter().position(|&b| b == 0).unwrap_or(0);
                std::str::from_utf8(&key[..end]).unwrap_or_default()
            }
        }
    }

    /// Returns the id of the pin whose connection runs the command; `None` without a pin.
    pub(crate) fn pinned(&self) -> Option<PinId> {
        self.pin.as_ref().map(PinUse::id)
    }

    /// True for the commands that this function lists, which servers answer before authentication.
    /// False for a command with a document sequence.
    pub(crate) fn is_allowed_unauthenticated(&self) -> bool {
        let name = self.name();
        let all = ["hello", "isMaster", "ping", "buildInfo", "connectionStatus"];
        self.sequence.is_none() && all.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn debug_output_of_a_command_hides_its_body() {
        let body = doc! { "createUser": "u", "pwd": "hunter2" };
        let command = Command::from_document(&body, "admin").expect("it has a name");
        let shown = format!("{command:?}");
        assert!(
            shown.contains("createUser") && !shown.contains("hunter2"),
            "{shown}"
        );
        let bytes = format!("{:?}", b"hunter2");
        assert!(!shown.contains(bytes.trim_matches(['[', ']'])), "{shown}");
    }
}
