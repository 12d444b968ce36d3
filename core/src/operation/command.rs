//! What an operation asks of a server, before a server and a connection are chosen.

use super::{CursorResources, DocumentList, Pin, PinId, PinUse, documents::Sequence};
use crate::{
    address::Address, bson::DocumentWriter, error::Error, options::ReadPreference,
    session::SessionId, time::Instant,
};
use bson::Document;
use std::{fmt, sync::Arc, time::Duration};

/// What kind of operation a command serves. It decides how a server is chosen and what may be done
/// after a failure. After an error of an overloaded server a command of every kind is repeated
/// (BP-2), which is left out below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// A read helper: the read preference chooses, and a failed attempt is repeated (RR-5), once
    /// or, with a time limit, as often as that allows (RR-18).
    Read,
    /// A write whose every statement touches one document at most: it carries a transaction number
    /// and a failed attempt is repeated, as that of a read is (RW-7, RW-8, RW-24).
    RetryableWrite,
    /// Any other write (RW-10).
    Write,
    /// A command of the user's: chosen as a read, never inspected, never repeated (RUN-6, RUN-21).
    Run,
    /// An aggregation that ends in `$out` or `$merge`: chosen as a read, but by the primary as long
    /// as some server is too old (SEL-34); never repeated, and its write concern errors are its
    /// own.
    WritingAggregate,
    /// The follow-up of a cursor: runs where the cursor lives, never repeated (SEL-2, RR-7).
    CursorFollowUp,
}

impl CommandKind {
    /// True if a server must be writable to be chosen.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::RetryableWrite | Self::Write)
    }

    /// True if the operation fails where the server reports errors of writing or of its
    /// confirmation beside `ok: 1`.
    #[must_use]
    pub const fn has_write_errors(self) -> bool {
        self.is_write() || matches!(self, Self::WritingAggregate)
    }
}

/// A command as an operation carries it from attempt to attempt: what the user wants, without what
/// depends on the server, the connection or the moment (`$db`, `lsid`, `$clusterTime`,
/// `$readPreference`, `txnNumber`).
///
/// ```
/// use onionskin_core::operation::{Command, CommandKind};
///
/// let mut ping = Command::new("ping", "admin", CommandKind::Run);
/// ping.body().i32("ping", 1);
/// assert_eq!(ping.name(), "ping");
/// ```
pub struct Command {
    /// `None`: the first key of the elements.
    name: Option<&'static str>,
    pub(crate) database: Arc<str>,
    pub(crate) kind: CommandKind,
    /// The elements of the body, the command's name first.
    pub(crate) elements: Vec<u8>,
    pub(crate) sequence: Option<Sequence>,
    pub(crate) read_preference: Option<Arc<ReadPreference>>,
    pub(crate) target: Option<Target>,
    pub(crate) pin: Option<PinUse>,
    pub(crate) session: SessionUse,
    pub(crate) acknowledged: bool,
    pub(crate) timeout: Option<Duration>,
    /// A deadline that an earlier command set, such as the one that opened the cursor.
    pub(crate) deadline: Option<Instant>,
}

/// The one server that may run a command.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    /// Whether to wait for it.
    pub(crate) is_awaited: bool,
}

/// The body may hold secrets, as `createUser` does, so only its size is shown.
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

/// Which session a command runs in.
#[derive(Debug, Default)]
pub enum SessionUse {
    /// One of the client's, for this command only, where the deployment knows sessions (RUN-10).
    #[default]
    Implicit,
    /// One that the caller holds, such as an open cursor (RUN-28).
    Held(SessionId),
    /// One that its holder gives up with this command: it goes back when the operation is over,
    /// however it ends.
    Last(SessionId),
    /// None.
    None,
}

impl Command {
    /// A command of this name on this database, still without body. The first element appended
    /// must be the name itself (MSG-13).
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

    /// A user's command, as it is. Refused if it is empty and so has no name.
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

    /// True for commands that servers answer before a login, and that tell them nothing of the
    /// application's.
    pub(crate) fn needs_no_login(&self) -> bool {
        let name = self.name();
        let all = ["hello", "isMaster", "ping", "buildInfo", "connectionStatus"];
        self.sequence.is_none() && all.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The command's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.name {
            Some(name) => name,
            None => {
                // A type byte, then the key up to its NUL.
                let key = self.elements.get(1..).unwrap_or_default();
                let end = key.iter().position(|&b| b == 0).unwrap_or(0);
                std::str::from_utf8(&key[..end]).unwrap_or_default()
            }
        }
    }

    /// Appends to the body.
    pub fn body(&mut self) -> DocumentWriter<'_> {
        DocumentWriter::bare(&mut self.elements)
    }

    /// Moves documents, back to back, out of the argument `identifier` into a sequence of their own
    /// (MSG-11, MSG-12). The command fails where they do not go in one message.
    pub fn set_sequence(&mut self, identifier: &'static str, documents: Vec<u8>) {
        self.sequence = Some(Sequence::whole(identifier, documents));
    }

    /// Sends documents of a list, from the byte `start` on, as a sequence of the argument
    /// `identifier`: as many as the server takes in one command.
    /// [`Exchange::portion`](super::Exchange::portion) tells how many, once the request is framed.
    /// Retries of the command send the same documents, and fail where the server does not take
    /// them.
    pub fn set_batch(&mut self, identifier: &'static str, list: DocumentList, start: usize) {
        self.sequence = Some(Sequence::rest(identifier, list, start));
    }

    /// Chooses which servers may answer; ignored by writes.
    pub fn set_read_preference(&mut self, preference: Arc<ReadPreference>) {
        self.read_preference = Some(preference);
    }

    /// Runs the command on this server only (SEL-2). If it cannot be used for now, the command
    /// waits for it as for any server.
    pub fn set_target(&mut self, target: Address) {
        self.target = Some(Target {
            address: target,
            is_awaited: true,
        });
    }

    /// Runs the command on this server only, and fails if that cannot be used for now.
    pub fn set_target_without_wait(&mut self, target: Address) {
        self.target = Some(Target {
            address: target,
            is_awaited: false,
        });
    }

    /// Runs the command on this pinned connection: no server is selected and no connection checked
    /// out (LB-33).
    pub fn set_pin(&mut self, pin: &Pin) {
        self.pin = Some(PinUse::Borrowed(pin.0.id));
    }

    /// Runs the command on this pinned connection, which is free afterwards, whatever comes of the
    /// command (LB-35).
    pub fn set_last_use(&mut self, pin: Pin) {
        self.pin = Some(PinUse::Last(pin));
    }

    /// Takes the session and the pin of which the command was to be the last use, where it is not
    /// run.
    pub(crate) fn into_resources(self) -> CursorResources {
        CursorResources {
            session: match self.session {
                SessionUse::Last(session) => Some(session),
                SessionUse::Held(_) | SessionUse::Implicit | SessionUse::None => None,
            },
            pin: match self.pin {
                Some(PinUse::Last(pin)) => Some(pin),
                Some(PinUse::Borrowed(_)) | None => None,
            },
        }
    }

    /// The pin of the connection to run on.
    pub(crate) fn pinned(&self) -> Option<PinId> {
        self.pin.as_ref().map(PinUse::id)
    }

    /// Runs the command in this session.
    pub fn set_session(&mut self, session: SessionUse) {
        self.session = session;
    }

    /// Says that no reply is wanted: `w: 0` (MSG-18).
    pub fn set_unacknowledged(&mut self) {
        self.acknowledged = false;
        self.session = SessionUse::None;
    }

    /// Bounds the whole operation: selection, check-out, handshake, exchange and retries together.
    /// The command carries what is left as `maxTimeMS`; it must not have that field of its own.
    /// In a [program](super::Program) the limit of the first command counts for all; those of
    /// later commands are ignored.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn a_commands_body_is_not_shown() {
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
