//! Programs of one command, and programs whose preparation can fail.

use super::{Abandoned, Command, Exchange, Program, Step};
use crate::{auth::Finding, error::Error};

/// Turns the successful reply of a command into the result of an operation.
pub trait Decode {
    /// The result of the operation.
    type Output;

    /// Reads the reply that the exchange holds.
    fn decode(&mut self, exchange: &mut Exchange) -> Result<Self::Output, Error>;

    /// Returns the result of an operation whose command failed. By default that is the error.
    fn decode_error(&mut self, error: Error) -> Result<Self::Output, Error> {
        Err(error)
    }
}

/// A program of one command.
#[derive(Debug)]
pub struct Single<D> {
    /// The command to run, or the error of its preparation; `None` once the program has started.
    command: Option<Result<Command, Error>>,
    decode: D,
}

impl<D: Decode> Single<D> {
    /// Returns a program that runs `command`, or fails with the error that `command` holds.
    pub fn new(command: Result<Command, Error>, decode: D) -> Self {
        Self {
            command: Some(command),
            decode,
        }
    }
}

impl<D: Decode> Program for Single<D> {
    type Output = D::Output;

    fn start(&mut self) -> Step<D::Output> {
        match self.command.take() {
            Some(Ok(command)) => Step::Run(command),
            Some(Err(error)) => Step::Done(Err(error)),
            None => {
                let message = "the operation was started already; build a new one";
                Step::Done(Err(Error::argument(message)))
            }
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<D::Output> {
        Step::Done(self.decode.decode(exchange))
    }

    fn handle_error(&mut self, error: Error) -> Step<D::Output> {
        Step::Done(self.decode.decode_error(error.of_one_write()))
    }

    fn abandon(&mut self) -> Abandoned {
        // In the common case the command was started. This check then avoids the move of a large
        // value.
        if self.command.is_none() {
            return Abandoned::Nothing;
        }
        match self.command.take() {
            Some(Ok(command)) => Abandoned::Release(command.into_resources()),
            Some(Err(_)) | None => Abandoned::Nothing,
        }
    }
}

/// A program, or the error that its preparation ended with. With an error, the operation fails
/// before any command.
#[derive(Debug)]
pub struct Prepared<P>(Result<P, Error>);

impl<P: Program> Prepared<P> {
    /// Wraps a program or the error of its preparation.
    pub fn new(program: Result<P, Error>) -> Self {
        Self(program)
    }
}

impl<P: Program> Program for Prepared<P> {
    type Output = P::Output;

    fn start(&mut self) -> Step<P::Output> {
        match &mut self.0 {
            Ok(program) => program.start(),
            Err(error) => Step::Done(Err(error.clone())),
        }
    }

    fn handle_begun(&mut self, exchange: &mut Exchange) {
        if let Ok(program) = &mut self.0 {
            program.handle_begun(exchange);
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<P::Output> {
        match &mut self.0 {
            Ok(program) => program.handle_reply(exchange),
            Err(error) => Step::Done(Err(error.clone())),
        }
    }

    fn handle_failed_reply(&mut self, exchange: &mut Exchange) {
        if let Ok(program) = &mut self.0 {
            program.handle_failed_reply(exchange);
        }
    }

    fn handle_error(&mut self, error: Error) -> Step<P::Output> {
        match &mut self.0 {
            Ok(program) => program.handle_error(error),
            Err(_) => Step::Done(Err(error)),
        }
    }

    fn handle_answer(
        &mut self,
        answer: Result<Finding, String>,
        exchange: Option<&mut Exchange>,
    ) -> Step<P::Output> {
        match &mut self.0 {
            Ok(program) => program.handle_answer(answer, exchange),
            Err(error) => Step::Done(Err(error.clone())),
        }
    }

    fn handle_input(&mut self) -> Step<P::Output> {
        match &mut self.0 {
            Ok(program) => program.handle_input(),
            Err(error) => Step::Done(Err(error.clone())),
        }
    }

    fn abandon(&mut self) -> Abandoned {
        match &mut self.0 {
            Ok(program) => program.abandon(),
            Err(_) => Abandoned::Nothing,
        }
    }
}
