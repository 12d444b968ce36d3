//! Commands, before a server and a connection are selected for them.

use super::{CursorResources, DocumentList, Pin, PinId, PinUse, documents::Sequence};
use crate::{
    address::Address, bson::DocumentWriter, error::Error, options::ReadPreference,
    session::SessionId, time::Instant,
};
use bson::Document;
use std::{fmt, sync::Arc, time::Duration};

/// The kind of operation that a command belongs to. The kind decides how a server is selected,
/// whether a failed attempt is retried, and whether write errors in a reply fail the operation.
///
/// Commands of every kind can be retried after retryable overload errors ([BP-2]). The descriptions
/// of the variants are about other errors.
///
/// [BP-2]: crate::requirements::retries#BP-2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// A read. The read preference selects the server. With `retryReads`, the read is retried after
    /// a retryable error ([RR-5]): once or, with a time limit, until the time is over ([RR-18]).
    ///
    /// [RR-5]: crate::requirements::retries#RR-5
    /// [RR-18]: crate::requirements::retries#RR-18
    Read,
    /// A write whose statements each affect at most one document. With `retryWrites`, an
    /// acknowledged write of this kind carries a transaction number ([RW-7], [RW-8]) and is retried
    /// as often as a read ([RW-24]), if the server supports retryable writes.
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
    /// is selected as for a read ([RUN-6]), and the command is not retried ([RUN-21]).
    ///
    /// [RUN-6]: crate::requirements::messages#RUN-6
    /// [RUN-21]: crate::requirements::messages#RUN-21
    Run,
    /// An aggregation with `$out` or `$merge`, which is not retried. Its read preference selects
    /// the server. If an available server is older than 5.0, the primary runs the aggregation
    /// ([SEL-34]). A write concern error in the reply fails the operation.
    ///
    /// [SEL-34]: crate::requirements::server_selection#SEL-34
    WritingAggregate,
    /// A `getMore` or `killCursors`, which runs on the server of its cursor ([SEL-2]) and is not
    /// retried ([RR-7]).
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
pub struct Command {
    /// The name of the command; `None` if the name has to be read from the first key of `elements`.
    name: Option<&'static str>,
    pub(crate) database: Arc<str>,
    pub(crate) kind: CommandKind,
    /// The elements of the body as BSON, the command name first.
    pub(crate) elements: Vec<u8>,
    pub(crate) sequence: Option<Sequence>,
    pub(crate) read_preference: Option<Arc<ReadPreference>>,
    pub(crate) target: Option<Target>,
    pub(crate) pin: Option<PinUse>,
    pub(crate) session: SessionUse,
    pub(crate) acknowledged: bool,
    pub(crate) timeout: Option<Duration>,
    /// The deadline that an earlier command set, such as the command that opened the cursor.
    pub(crate) deadline: Option<Instant>,
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
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("name", &self.name())
            .field("database", &self.database)
            .field("kind", &self.kind)
            .field("body_bytes", &self.elements.len())
            .finish_non_exhaustive()
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
        Self {
            name: Some(name),
            database: database.into(),
            kind,
            elements: Vec::with_capacity(128),
            sequence: None,
            read_preference: None,
            target: None,
            pin: None,
            session: SessionUse::Implicit,
            acknowledged: true,
            timeout: None,
            deadline: None,
        }
    }

    /// Returns a command of the kind [`CommandKind::Run`] with the elements of `document`. Fails if
    /// `document` is empty, because the command then has no name, or if `document` cannot be
    /// encoded, for example because a key has a zero byte.
    pub fn from_document(
        document: &Document,
        database: impl Into<Arc<str>>,
    ) -> Result<Self, Error> {
        if document.is_empty() {
            let message = "a command's document is empty, so it has no name";
            return Err(Error::argument(message));
        }
        let mut command = Self::new("", database, CommandKind::Run);
        command.name = None;
        command.body().tree(document)?;
        Ok(command)
    }

    /// True for the commands that this function lists, which servers answer before authentication.
    /// False for a command with a document sequence.
    pub(crate) fn is_allowed_unauthenticated(&self) -> bool {
        let name = self.name();
        let all = ["hello", "isMaster", "ping", "buildInfo", "connectionStatus"];
        self.sequence.is_none() && all.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Returns the name of the command.
    #[must_use]
    pub fn name(&self) -> &str {
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

    /// Returns a writer that appends elements to the body.
    pub fn body(&mut self) -> DocumentWriter<'_> {
        DocumentWriter::bare(&mut self.elements)
    }

    /// Sets the document sequence of the argument `identifier` to `documents`, which are stored one
    /// after the other ([MSG-11], [MSG-12]). The command fails if the documents exceed the limits
    /// that the server has for one command.
    ///
    /// [MSG-11]: crate::requirements::messages#MSG-11
    /// [MSG-12]: crate::requirements::messages#MSG-12
    pub fn set_sequence(&mut self, identifier: &'static str, documents: Vec<u8>) {
        self.sequence = Some(Sequence::whole(identifier, documents));
    }

    /// Sets the document sequence of the argument `identifier` to documents of `list`, from the
    /// byte offset `start` on. The limits of the server decide how many documents are sent.
    /// [`Exchange::portion`](super::Exchange::portion) returns their number once the request is
    /// framed.
    ///
    /// Retries of the command send the same documents. A retry fails if they exceed the limits of
    /// its server.
    pub fn set_batch(&mut self, identifier: &'static str, list: DocumentList, start: usize) {
        self.sequence = Some(Sequence::rest(identifier, list, start));
    }

    /// Sets the read preference. Writes ignore the read preference.
    pub fn set_read_preference(&mut self, preference: Arc<ReadPreference>) {
        self.read_preference = Some(preference);
    }

    /// Restricts the command to this server ([SEL-2]). While the server is unavailable, the command
    /// waits as in server selection. The command fails if the server is not in the topology.
    ///
    /// [SEL-2]: crate::requirements::server_selection#SEL-2
    pub fn set_target(&mut self, target: Address) {
        self.target = Some(Target {
            address: target,
            is_awaited: true,
        });
    }

    /// Restricts the command to this server. The command fails if the server is unavailable.
    pub fn set_target_without_wait(&mut self, target: Address) {
        self.target = Some(Target {
            address: target,
            is_awaited: false,
        });
    }

    /// Makes the command run on this pinned connection, without server selection and check-out
    /// ([LB-33]).
    ///
    /// [LB-33]: crate::requirements::load_balancers#LB-33
    pub fn set_pin(&mut self, pin: &Pin) {
        self.pin = Some(PinUse::Borrowed(pin.0.id));
    }

    /// Makes the command run on this pinned connection and release the pin at its end, also after
    /// an error ([LB-35]).
    ///
    /// [LB-35]: crate::requirements::load_balancers#LB-35
    pub fn set_last_use(&mut self, pin: Pin) {
        self.pin = Some(PinUse::Last(pin));
    }

    /// Returns the session and the pin that this command, which is not run, would have released.
    pub(crate) fn into_resources(self) -> CursorResources {
        CursorResources {
            session: match self.session {
                SessionUse::Last(session) => Some(session),
                SessionUse::Kept(_) | SessionUse::Implicit | SessionUse::None => None,
            },
            pin: match self.pin {
                Some(PinUse::Last(pin)) => Some(pin),
                Some(PinUse::Borrowed(_)) | None => None,
            },
        }
    }

    /// Returns the id of the pin whose connection runs the command; `None` without a pin.
    pub(crate) fn pinned(&self) -> Option<PinId> {
        self.pin.as_ref().map(PinUse::id)
    }

    /// Sets the session that the command runs in.
    pub fn set_session(&mut self, session: SessionUse) {
        self.session = session;
    }

    /// Marks the command as unacknowledged (`w: 0`): no reply follows ([MSG-18]), and no session is
    /// used.
    ///
    /// [MSG-18]: crate::requirements::messages#MSG-18
    pub fn set_unacknowledged(&mut self) {
        self.acknowledged = false;
        self.session = SessionUse::None;
    }

    /// Sets the time limit of the whole operation: server selection, check-out, exchange and
    /// retries together. Zero means no limit, and `None` means `timeoutMS` of the client. With a
    /// limit, [`Exchange::begin`](super::Exchange::begin) adds `maxTimeMS` to a command other than
    /// `getMore`. The body of such a command must not have that field.
    ///
    /// In a [program](super::Program) the time limit of the first command counts for all commands.
    /// Time limits of later commands are ignored.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
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

    #[test]
    fn a_command_without_a_name_is_refused() {
        assert!(Command::from_document(&doc! {}, "admin").is_err());
    }
}
