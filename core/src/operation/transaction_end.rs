//! The operations that end a transaction.

use super::{Abandoned, Command, Exchange, Program, Step};
use crate::error::Error;

/// The program of a commit or an abort. It runs one command, or none if no operation has run in the
/// transaction.
#[derive(Debug)]
pub struct EndTransaction {
    command: Option<Command>,
    /// True for an abort, whose errors mean nothing to the application: the server aborts by itself
    /// what it is not told to commit.
    ignores_errors: bool,
}

impl EndTransaction {
    /// Returns the program of a commit ([`Client::commit_transaction`]).
    ///
    /// [`Client::commit_transaction`]: crate::client::Client::commit_transaction
    #[must_use]
    pub const fn commit(command: Option<Command>) -> Self {
        Self {
            command,
            ignores_errors: false,
        }
    }

    /// Returns the program of an abort ([`Client::abort_transaction`]).
    ///
    /// [`Client::abort_transaction`]: crate::client::Client::abort_transaction
    #[must_use]
    pub const fn abort(command: Option<Command>) -> Self {
        Self {
            command,
            ignores_errors: true,
        }
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
        match self.ignores_errors {
            true => Step::Done(Ok(())),
            false => Step::Done(Err(error.of_one_write())),
        }
    }

    fn abandon(&mut self) -> Abandoned {
        match self.command.take() {
            Some(command) => Abandoned::Release(command.into_resources()),
            None => Abandoned::Nothing,
        }
    }
}
