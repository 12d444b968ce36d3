//! The errors after which a change stream resumes, and the commands by which it does.

use super::{ChangeStream, Life, Phase};
use crate::{
    error::{Error, ErrorKind, Label},
    operation::{
        Cursor, CursorResources, Exchange, SessionUse, Step, retry::is_retryable_read_code,
    },
};

/// The codes of errors after which a change stream resumes, for servers before 4.4, which do not
/// label them (Change Streams, *Resumable Error*).
const RESUMABLE: [i32; 17] = [
    6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436,
];

/// The code of `CursorNotFound`.
const CURSOR_NOT_FOUND: i32 = 43;

/// True if a change stream resumes after this error of a `getMore`. `labels` is true if the server
/// labels such errors (from wire version 9 on).
///
/// If the `getMore` was not begun, its connection could not be established. The error of a server
/// is then one of the handshake, which has no label and says nothing about the stream. The stream
/// resumes if a read would be retried (RR-2).
pub(super) fn is_resumable(error: &Error, labels: bool, is_begun: bool) -> bool {
    match error.kind() {
        ErrorKind::Command(_) => match error.code() {
            Some(CURSOR_NOT_FOUND) => true,
            code if !is_begun => is_retryable_read_code(code),
            _ if labels => error.has_label(&Label::ResumableChangeStreamError),
            Some(code) => RESUMABLE.contains(&code),
            None => false,
        },
        ErrorKind::Authentication { .. } => is_retryable_read_code(error.code()),
        ErrorKind::Io(_)
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::Timeout { .. }
        | ErrorKind::Tls { .. }
        | ErrorKind::InvalidResponse { .. }
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::PoolClosed { .. }
        | ErrorKind::WaitQueueTimeout { .. }
        | ErrorKind::Interrupted { .. } => true,
        _ => false,
    }
}

impl ChangeStream {
    /// Handles the error of the command that runs. Only the error of a `getMore` resumes the
    /// stream. A time limit that passes leaves the stream alive, and the next run resumes it
    /// (Client Side Operations Timeout, *Change Streams*).
    pub(super) fn on_error(&mut self, error: Error) -> Step<bool> {
        let is_late = self.cursor.time_limit().is_some() && error.is_timeout();
        match self.phase {
            Phase::Fetching => {
                let labels = self.cursor.takes_comment();
                self.cursor.handle_failure(&error);
                if is_late {
                    self.life = Life::Interrupted;
                    return Step::Done(Err(error));
                }
                match is_resumable(&error, labels, self.is_begun) {
                    true => self.resume(),
                    false => self.fail(error),
                }
            }
            // The old cursor is closed as far as possible, and its error has no consequence.
            Phase::Killing => self.reopen(CursorResources::default()),
            Phase::Resuming if is_late => {
                self.life = Life::Interrupted;
                Step::Done(Err(error))
            }
            Phase::Resuming => self.fail(error),
        }
    }

    /// Begins to resume: closes the old cursor if its server can be reached, and keeps the session.
    pub(super) fn resume(&mut self) -> Step<bool> {
        // This error comes before the cursor ends, so that `abandon` gives back its connection.
        if let Err(error) = self.watch.command_at(self.position()) {
            return self.fail(error);
        }
        self.life = Life::Running;
        // The stream resumes before a split event of which it has only a part.
        self.fragments.clear();
        self.is_ready = false;
        self.session = self.session.or_else(|| self.cursor.take_session());
        match self.cursor.end() {
            Ok(mut kill) => {
                self.phase = Phase::Killing;
                kill.set_session(self.session_use());
                Step::Run(kill)
            }
            Err(resources) => self.reopen(resources),
        }
    }

    /// Opens another cursor. `released` is given back before.
    ///
    /// From the second resumption in a row on, a pause precedes. Otherwise a server whose
    /// `aggregate` succeeds and whose `getMore` fails at once would get commands without end.
    pub(super) fn reopen(&mut self, released: CursorResources) -> Step<bool> {
        self.phase = Phase::Resuming;
        match self.watch.command_at(self.position()) {
            Ok(mut command) => {
                command.set_released(released);
                command.set_pauses_before(self.resumed.checked_sub(1));
                self.resumed = self.resumed.saturating_add(1);
                if self.session.is_some() {
                    command.set_session(self.session_use());
                }
                Step::Run(command)
            }
            Err(error) => self.fail(error),
        }
    }

    /// Takes the cursor of the reply to the `aggregate`.
    pub(super) fn take_cursor(&mut self, exchange: &mut Exchange) -> Result<(), Error> {
        let cursor = Cursor::from_exchange(exchange, self.watch.database_name())?;
        let session = self.session.take();
        if !cursor.is_open()
            && let Some((session, false)) = session
        {
            exchange.end_session(Some(session));
        }
        self.cursor = cursor;
        Ok(())
    }

    const fn session_use(&self) -> SessionUse {
        match self.session {
            Some((session, false)) => SessionUse::Kept(session),
            Some((session, true)) => SessionUse::Explicit(session),
            None => SessionUse::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{CommandError, NetworkFault, Wait};
    use bson::rawdoc;

    fn failed(code: i32, label: Option<Label>) -> Error {
        let reply = rawdoc! { "ok": 0, "code": code };
        let error = Error::from(ErrorKind::Command(CommandError::from_reply(&reply)));
        label.into_iter().fold(error, Error::with_label)
    }

    #[test]
    fn the_label_decides_for_servers_that_have_it_and_the_code_for_others() {
        let label = Some(Label::ResumableChangeStreamError);
        for (code, label, of_old, of_new) in [
            (6, None, true, false),
            (6, label.clone(), true, true),
            (50, label, false, true),
            (50, None, false, false),
            (280, None, false, false),
            (CURSOR_NOT_FOUND, None, true, true),
        ] {
            let error = failed(code, label);
            assert_eq!(is_resumable(&error, false, true), of_old, "{error}");
            assert_eq!(is_resumable(&error, true, true), of_new, "{error}");
        }
    }

    #[test]
    fn errors_of_the_network_are_resumable_and_those_of_the_caller_are_not() {
        let lost = Error::network(NetworkFault::Reset, "lost");
        let late = Error::timeout(Wait::Exchange, "late");
        assert!(is_resumable(&lost, true, true) && is_resumable(&late, true, true));
        assert!(!is_resumable(&Error::argument("wrong"), true, true));
        assert!(!is_resumable(&ErrorKind::Shutdown.into(), true, true));
    }

    #[test]
    fn errors_of_a_server_in_the_handshake_are_resumable_if_a_read_would_be_retried() {
        for (code, expected) in [
            (91, true),
            (189, true),
            (11600, true),
            (18, false),
            (13, false),
        ] {
            let hello = failed(code, None);
            let ErrorKind::Command(fault) = hello.kind() else {
                panic!("an error of a command");
            };
            let refused = Error::new(ErrorKind::Authentication {
                mechanism: "SCRAM-SHA-256",
                message: "refused".to_owned(),
                cause: Some(Box::new(fault.clone())),
            });
            assert_eq!(is_resumable(&refused, true, false), expected, "{refused}");
            assert_eq!(is_resumable(&hello, true, false), expected, "{hello}");
            assert!(!is_resumable(&hello, true, true), "it has no label");
        }
        // The client did not verify the server, for example.
        let unverified = Error::new(ErrorKind::Authentication {
            mechanism: "SCRAM-SHA-256",
            message: "wrong proof".to_owned(),
            cause: None,
        });
        assert!(!is_resumable(&unverified, true, false));
    }
}
