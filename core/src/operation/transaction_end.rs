//! The operations that end a transaction.

use super::{Abandoned, Command, Exchange, Program, Step};
use crate::error::Error;

/// The program of a commit or an abort. It runs one command, or none if no operation has run in the
/// transaction.
#[derive(Debug)]
pub struct EndTransaction {
    command: Option<Command>,
    raised: Raised,
}

/// The errors that the program returns.
#[derive(Clone, Copy, Debug)]
enum Raised {
    All,
    /// No error, because the server aborts by itself what it is not told to commit.
    None,
    Timeouts,
}

impl EndTransaction {
    /// Returns the program of a commit ([`Client::commit_transaction`]).
    ///
    /// [`Client::commit_transaction`]: crate::client::Client::commit_transaction
    #[must_use]
    pub const fn commit(command: Option<Command>) -> Self {
        Self {
            command,
            raised: Raised::All,
        }
    }

    /// Returns the program of an abort ([`Client::abort_transaction`]), which never fails.
    ///
    /// [`Client::abort_transaction`]: crate::client::Client::abort_transaction
    #[must_use]
    pub const fn abort(command: Option<Command>) -> Self {
        Self {
            command,
            raised: Raised::None,
        }
    }

    /// Returns the program of the abort of a session that ends. The program fails only if the time
    /// limit of the command passes, and never if there is none.
    #[must_use]
    pub fn abort_at_end(command: Option<Command>) -> Self {
        let raised = match command.as_ref().is_some_and(Command::has_limit) {
            true => Raised::Timeouts,
            false => Raised::None,
        };
        Self { command, raised }
    }
}

impl Program for EndTransaction {
    type Output = ();

    fn start(&mut self) -> Step<()> {
        match self.command.take() {
            Some(command) => Step::Run(command),
            None => Step::Done(Ok(())),
        }
    }

    fn handle_reply(&mut self, _: &mut Exchange) -> Step<()> {
        Step::Done(Ok(()))
    }

    fn handle_error(&mut self, error: Error) -> Step<()> {
        let error = error.of_one_write();
        match self.raised {
            Raised::All => Step::Done(Err(error)),
            Raised::Timeouts if error.is_timeout() => Step::Done(Err(error)),
            Raised::Timeouts | Raised::None => Step::Done(Ok(())),
        }
    }

    fn abandon(&mut self) -> Abandoned {
        match self.command.take() {
            Some(command) => Abandoned::Release(command.into_resources()),
            None => Abandoned::Nothing,
        }
    }
}
