//! Programs: operations of one or more commands, without I/O.

use super::{Command, CursorResources, Exchange, Operation, OperationId, Outcome};
use crate::{
    error::{Error, ErrorKind},
    event::{OperationEvent, OperationFacts},
    time::Instant,
};
use std::{sync::Arc, time::Duration};

/// An operation of one or more commands: it emits a command, is given its reply or its error, and
/// emits the next command or the result.
///
/// A program does no I/O and knows no connection. A shell runs it by a [`Runner`], one command at a
/// time. Each command selects its own server, takes its own connection, session and transaction
/// number, and is retried by itself; all of them share one time limit and one operation id
/// ([`Span`]): those of the first command. A message is framed when its connection is known.
///
/// ```
/// use onionskin_core::{
///     error::Error,
///     operation::{Command, CommandKind, Exchange, Program, Step},
/// };
///
/// /// Runs `ping` so many times.
/// struct Pings(u32);
///
/// impl Program for Pings {
///     type Output = ();
///
///     fn start(&mut self) -> Step<()> {
///         let Some(left) = self.0.checked_sub(1) else {
///             return Step::Done(Ok(()));
///         };
///         self.0 = left;
///         let mut ping = Command::new("ping", "admin", CommandKind::Run);
///         ping.body().i32("ping", 1);
///         Step::Run(ping)
///     }
///
///     fn handle_reply(&mut self, _: &mut Exchange) -> Step<()> {
///         self.start()
///     }
/// }
/// ```
pub trait Program {
    /// The result of the operation.
    type Output;

    /// Starts the program: returns its first command, or the result where no command is needed.
    fn start(&mut self) -> Step<Self::Output>;

    /// Takes note of an attempt whose request was framed, and of which nothing was sent: which
    /// documents go ([`Exchange::portion`]), which connection it has. Called for each attempt of a
    /// command, retries included. The default does nothing.
    fn handle_begun(&mut self, exchange: &mut Exchange) {
        let _ = exchange;
    }

    /// Reads the successful reply of the command, while the exchange holds it: in place by
    /// [`Exchange::reply`], or moved out by [`Exchange::take_reply`]. A command without reply (`w:
    /// 0`) ends here, too.
    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<Self::Output>;

    /// Takes the error of a command that is not retried any more. The program may go on with
    /// another command, or end with another error or a partial result. By default the error ends
    /// the operation.
    fn handle_error(&mut self, error: Error) -> Step<Self::Output> {
        Step::Done(Err(error))
    }

    /// Gives the program up: called once, when its owner drops it, at its end or before. Returns
    /// what is left to be done without anybody who waits. By default nothing is.
    fn abandon(&mut self) -> Abandoned {
        Abandoned::Nothing
    }
}

/// What a program does next.
#[derive(Debug)]
#[must_use = "a command is to be run, a result to be returned"]
#[expect(
    clippy::large_enum_variant,
    reason = "each operation has one command at least, which a box would allocate for"
)]
pub enum Step<T> {
    /// Run this command and report its end.
    Run(Command),
    /// The operation is over.
    Done(Result<T, Error>),
}

/// What is left of a program that was given up.
#[derive(Debug)]
#[must_use = "what is left concerns the client or a server"]
pub enum Abandoned {
    /// Nothing.
    Nothing,
    /// A session or a pinned connection, which go back to the client
    /// ([`Client::release_cursor`](crate::client::Client::release_cursor)).
    GiveBack(CursorResources),
    /// A command that is run in the background, whatever comes of it, such as `killCursors`.
    Run(Command),
}

/// What all commands of a program share: one operation id, which command events carry (RW-30), and
/// one time limit. The first command sets both
/// ([`Client::start_in`](crate::client::Client::start_in)).
#[derive(Clone, Debug, Default)]
pub struct Span(Option<Bounds>);

#[derive(Clone, Debug)]
struct Bounds {
    id: OperationId,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    /// What listeners hear of the operation, and when it began; none where nobody listens.
    observed: Option<(Arc<OperationFacts>, Instant)>,
}

impl Span {
    /// Gives a command the time limit of the commands before it; returns their operation id, `None`
    /// for the first command.
    pub(crate) fn apply(&self, command: &mut Command) -> Option<OperationId> {
        let bounds = self.0.as_ref()?;
        command.timeout = bounds.timeout;
        command.deadline = bounds.deadline;
        Some(bounds.id)
    }

    /// Keeps the id and the time limit of the first command. Does nothing for a later one.
    pub(crate) fn note(&mut self, operation: &Operation) {
        if self.0.is_none() {
            self.0 = Some(Bounds {
                id: operation.id,
                timeout: operation.command.timeout,
                deadline: operation.deadline,
                observed: None,
            });
        }
    }

    /// Returns the event of an operation that begins, and remembers that its end is to be told;
    /// `None` for a later command of the operation.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        operation: &Operation,
    ) -> Option<OperationEvent> {
        let bounds = self.0.as_mut()?;
        if bounds.observed.is_some() {
            return None;
        }
        let facts = Arc::new(OperationFacts {
            operation_id: operation.id.0,
            name: operation.command.name().into(),
            database: operation.command.database.clone(),
        });
        bounds.observed = Some((facts.clone(), now));
        Some(OperationEvent::Started { facts })
    }

    /// Returns the event of an operation that is over, if its start was told; `None` when asked
    /// again.
    pub(crate) fn end(&mut self, now: Instant, failure: Option<Error>) -> Option<OperationEvent> {
        let (facts, began) = self.0.as_mut()?.observed.take()?;
        Some(OperationEvent::Ended {
            facts,
            duration: now - began,
            failure,
        })
    }

    fn is_observed(&self) -> bool {
        self.0.as_ref().is_some_and(|b| b.observed.is_some())
    }
}

/// A program in progress, as every shell runs it.
///
/// The shell starts each command that [`start`](Self::start), [`handle_end`](Self::handle_end) or
/// [`handle_error`](Self::handle_error) returns by
/// [`Client::start_in`](crate::client::Client::start_in), with the [span](Self::span) of the
/// runner. For each exchange that comes of it the shell calls [`begin`](Self::begin), moves bytes,
/// and calls [`handle_end`](Self::handle_end) before the exchange goes back. Where the client ends
/// the command with an error, the shell calls [`handle_error`](Self::handle_error).
#[derive(Debug)]
pub struct Runner<P> {
    program: P,
    span: Span,
    /// How the operation ended, where its start was told.
    ended: Option<Option<Error>>,
}

impl<P: Program> Runner<P> {
    /// Prepares a program; nothing happens before [`start`](Self::start).
    pub fn new(program: P) -> Self {
        Self {
            program,
            span: Span::default(),
            ended: None,
        }
    }

    /// Starts the program, or starts it again after its end: that is an operation of its own.
    pub fn start(&mut self) -> Step<P::Output> {
        self.span = Span::default();
        self.program.start()
    }

    /// Frames the request of an attempt. An error is the outcome of the attempt: nothing is sent,
    /// and the exchange goes back.
    pub fn begin(&mut self, now: Instant, exchange: &mut Exchange) -> Result<(), Outcome> {
        exchange.begin(now).map_err(Outcome::Failed)?;
        if !exchange.is_preliminary() {
            self.program.handle_begun(exchange);
        }
        Ok(())
    }

    /// Ends the exchange of an attempt, and gives a successful reply to the program. `None` where
    /// the client has to judge the attempt first: when the exchange goes back, it tries the command
    /// again or ends it with an error.
    pub fn handle_end(
        &mut self,
        exchange: &mut Exchange,
        outcome: &Outcome,
    ) -> Option<Step<P::Output>> {
        exchange.end(outcome);
        let is_completed = matches!(outcome, Outcome::Completed);
        if !is_completed || exchange.is_preliminary() || !exchange.is_successful() {
            return None;
        }
        let step = self.program.handle_reply(exchange);
        Some(self.note_end(step))
    }

    /// Gives the error of a command to the program.
    pub fn handle_error(&mut self, error: Error) -> Step<P::Output> {
        let step = self.program.handle_error(error);
        self.note_end(step)
    }

    /// Says that whoever waited for the operation has left it, before its end or after.
    pub fn handle_abandoned(&mut self) {
        if self.span.is_observed() && self.ended.is_none() {
            self.ended = Some(Some(ErrorKind::Abandoned.into()));
        }
    }

    /// The event that ends the operation, if its start was told. To be asked for once the operation
    /// is over and its exchange went back: then everything that it did was told before.
    pub fn poll_event(&mut self, now: Instant) -> Option<OperationEvent> {
        let failure = self.ended.take()?;
        self.span.end(now, failure)
    }

    /// True if [`poll_event`](Self::poll_event) has an event. Costs less than the time.
    #[must_use]
    pub fn has_event(&self) -> bool {
        self.ended.is_some()
    }

    fn note_end(&mut self, step: Step<P::Output>) -> Step<P::Output> {
        if let Step::Done(result) = &step
            && self.span.is_observed()
        {
            self.ended = Some(result.as_ref().err().cloned());
        }
        step
    }

    /// Gives the program up.
    pub fn abandon(&mut self) -> Abandoned {
        self.program.abandon()
    }

    /// What the commands of the program share.
    pub fn span(&mut self) -> &mut Span {
        &mut self.span
    }

    /// The program.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// The program, to be changed between its end and its next start.
    pub fn program_mut(&mut self) -> &mut P {
        &mut self.program
    }
}

/// Turns the successful reply of a command into the result of an operation.
pub trait Decode {
    /// The result.
    type Output;

    /// Reads the reply while the exchange holds it.
    fn decode(&mut self, exchange: &mut Exchange) -> Result<Self::Output, Error>;
}

/// The program of one command.
#[derive(Debug)]
pub struct Single<D> {
    /// Taken when the program starts.
    command: Option<Result<Command, Error>>,
    decode: D,
}

impl<D: Decode> Single<D> {
    /// A program that runs this command, or fails with the error that made it impossible.
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
                let message = "an operation of one command runs only once";
                Step::Done(Err(Error::argument(message)))
            }
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<D::Output> {
        Step::Done(self.decode.decode(exchange))
    }

    fn abandon(&mut self) -> Abandoned {
        // As mostly: it ran.
        if self.command.is_none() {
            return Abandoned::Nothing;
        }
        match self.command.take() {
            Some(Ok(command)) => Abandoned::GiveBack(command.into_resources()),
            Some(Err(_)) | None => Abandoned::Nothing,
        }
    }
}

/// A program that could perhaps not be prepared: it runs, or fails with the error that made it
/// impossible, before any command.
#[derive(Debug)]
pub struct Prepared<P>(Result<P, Error>);

impl<P: Program> Prepared<P> {
    /// Wraps a program, or the error that came instead of it.
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

    fn handle_error(&mut self, error: Error) -> Step<P::Output> {
        match &mut self.0 {
            Ok(program) => program.handle_error(error),
            Err(_) => Step::Done(Err(error)),
        }
    }

    fn abandon(&mut self) -> Abandoned {
        match &mut self.0 {
            Ok(program) => program.abandon(),
            Err(_) => Abandoned::Nothing,
        }
    }
}
