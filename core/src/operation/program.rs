//! Programs: operations of one or more commands, without I/O.

use super::{Command, CursorResources, Exchange, Operation, OperationId, Outcome};
use crate::{
    auth::{Finding, Inquiry},
    error::{Error, ErrorKind},
    event::{OperationEvent, OperationFacts},
    time::Instant,
};
use std::{sync::Arc, time::Duration};

/// An operation of one or more commands. A program returns a command, takes its reply or its error,
/// and then returns the next command or the result.
///
/// A shell runs a program with a [`Runner`], one command at a time. Each command has its own
/// retries, and also its own server selection, check-out and session if no server, pin or session
/// is set on the command. All steps share one operation id and one time limit ([`Span`]), which the
/// first command or question sets. The message of a command is framed once its connection is
/// checked out.
///
/// ```
/// use onionskin_core::{
///     error::Error,
///     operation::{Command, CommandKind, Exchange, Program, Step},
/// };
///
/// /// Runs `ping` this many times.
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

    /// Starts the program. Returns the first command, or the result if no command is needed.
    fn start(&mut self) -> Step<Self::Output>;

    /// Handles an attempt whose request was framed and not yet sent. The program can read which
    /// documents are sent ([`Exchange::portion`]) and on which connection. Called for each such
    /// attempt of a command, retries included. The default does nothing.
    fn handle_begun(&mut self, exchange: &mut Exchange) {
        let _ = exchange;
    }

    /// Reads the successful reply of the command, in place with [`Exchange::reply`] or moved out
    /// with [`Exchange::take_reply`]. Also called for a command without a reply (`w: 0`), once its
    /// request is written.
    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<Self::Output>;

    /// Looks at a reply that reports an error, before it is decided whether the command is retried.
    /// If it is not, [`handle_error`](Self::handle_error) follows. The default does nothing.
    fn handle_failed_reply(&mut self, exchange: &mut Exchange) {
        let _ = exchange;
    }

    /// Handles the error of a command that is not retried any more, or of a question: its time
    /// limit has passed, the client was closed, or the process has forked. The program can continue
    /// with another command, or end with another error or a partial result. By default the error
    /// ends the operation.
    fn handle_error(&mut self, error: Error) -> Step<Self::Output> {
        Step::Done(Err(error.of_one_write()))
    }

    /// Reads the answer to the inquiry of [`Step::Ask`], or the reason why there is none. The
    /// reason contains no secrets. The exchange is the one whose reply the program was reading when
    /// it asked ([`handle_reply`](Self::handle_reply)); `None` if it asked at another time.
    /// By default the answer fails the operation, because a program that asks nothing gets none.
    fn handle_answer(
        &mut self,
        answer: Result<Finding, String>,
        exchange: Option<&mut Exchange>,
    ) -> Step<Self::Output> {
        let _ = (answer, exchange);
        Step::Done(Err(Error::argument("the program has asked nothing")))
    }

    /// Continues after [`Step::Wait`]: the holder of the program has given it input, by a method of
    /// the program. By default the operation fails.
    fn handle_input(&mut self) -> Step<Self::Output> {
        Step::Done(Err(Error::argument("the program waits for no input")))
    }

    /// Gives the program up. Call this before dropping a program, whether or not it has ended.
    /// Returns the work that remains to be done in the background. By default no work remains.
    fn abandon(&mut self) -> Abandoned {
        Abandoned::Nothing
    }
}

/// The next step of a program.
#[derive(Debug)]
#[must_use = "a command is to be run, a result to be returned"]
pub enum Step<T> {
    /// A command to run next. The program gets its reply or its error.
    Run(Command),
    /// Something to ask the outside world. The program gets the answer, or the reason why there is
    /// none ([`Program::handle_answer`]), or an error ([`Program::handle_error`]). If it asks while
    /// it reads a reply, the connection stays checked out until it goes on, so that it can [replace
    /// the reply](Exchange::replace_reply) before it is decoded.
    Ask(Box<Ask>),
    /// Nothing to do before the holder of the program has given it input
    /// ([`Program::handle_input`]). The program holds no connection meanwhile. The time limit of
    /// the operation goes on, and the next command fails if it has passed.
    Wait,
    /// The operation is over, with this result.
    Done(Result<T, Error>),
}

/// A question of a program.
#[derive(Debug)]
pub struct Ask {
    /// The question.
    pub inquiry: Inquiry,
    /// The time limit of the operation if this is its first step; `None` for `timeoutMS` of the
    /// client, zero for no limit. Ignored in later steps.
    pub timeout: Option<Duration>,
}

/// The work that remains after a program was given up.
#[derive(Debug)]
#[must_use = "what is left concerns the client or a server"]
pub enum Abandoned {
    /// No work remains.
    Nothing,
    /// The session and the pin, if there are any, to give back to the client with
    /// [`Client::release_cursor`](crate::client::Client::release_cursor).
    Release(CursorResources),
    /// A command to run in the background, such as `killCursors`. Its result is ignored.
    Run(Command),
}

/// The operation id and the time limit that all commands of a program share. The first command or
/// question sets both, in [`Client::start_in`](crate::client::Client::start_in). Command events
/// carry the operation id ([RW-30]).
///
/// [RW-30]: crate::requirements::retries#RW-30
#[derive(Clone, Debug, Default)]
pub struct Span(Option<Bounds>);

#[derive(Clone, Debug)]
struct Bounds {
    id: OperationId,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    /// The facts for operation events, and when the operation began. `None` if no operation events
    /// are published, and once the ended event was returned.
    observed: Option<(Arc<OperationFacts>, Instant)>,
}

impl Span {
    /// Sets the time limit of the first command on a later `command`, and returns their operation
    /// id. For the first command, changes nothing and returns `None`.
    #[inline]
    pub(crate) fn apply(&self, command: &mut Command) -> Option<OperationId> {
        let bounds = self.0.as_ref()?;
        // In a program without a time limit, a `killCursors` has its own limit, because it must not
        // hold up the commands after it.
        if bounds.deadline.is_some() || command.name() != "killCursors" {
            command.set_limits(bounds.timeout, bounds.deadline);
        }
        Some(bounds.id)
    }

    /// Keeps the id and the time limit of the first command. Does nothing for a later command.
    #[inline]
    pub(crate) fn note(&mut self, operation: &Operation) {
        if self.0.is_none() {
            self.open(operation.id, operation.request.timeout, operation.deadline);
        }
    }

    /// Sets the id and the time limit of the operation.
    pub(crate) fn open(
        &mut self,
        id: OperationId,
        timeout: Option<Duration>,
        deadline: Option<Instant>,
    ) {
        self.0 = Some(Bounds {
            id,
            timeout,
            deadline,
            observed: None,
        });
    }

    /// Returns the id and the deadline of the operation; `None` before its first step.
    pub(crate) fn bounds(&self) -> Option<(OperationId, Option<Instant>)> {
        self.0.as_ref().map(|bounds| (bounds.id, bounds.deadline))
    }

    /// Returns the id, the time limit and the deadline of the operation; `None` before its first
    /// step.
    pub(crate) fn limits(&self) -> Option<(OperationId, Option<Duration>, Option<Instant>)> {
        let bounds = self.0.as_ref()?;
        Some((bounds.id, bounds.timeout, bounds.deadline))
    }

    /// Returns the started event of the operation, for the first command; `None` for later
    /// commands. Afterwards [`end`](Self::end) returns the ended event.
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
            name: operation.request.name().into(),
            database: operation.request.database.clone(),
        });
        bounds.observed = Some((facts.clone(), now));
        Some(OperationEvent::Started { facts })
    }

    /// Returns the ended event of the operation if the started event was returned; `None` on
    /// further calls.
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

/// A program that is being run, with its span.
///
/// [`start`](Self::start), [`handle_end`](Self::handle_end), [`handle_error`](Self::handle_error),
/// [`handle_answer`](Self::handle_answer) and [`handle_input`](Self::handle_input) return the next
/// step. The shell starts a command with
/// [`Client::start_in`](crate::client::Client::start_in), and asks a question with
/// [`Client::ask_in`](crate::client::Client::ask_in), with the [span](Self::span) of the runner.
/// For each exchange of the command the shell calls [`begin`](Self::begin), moves bytes, and calls
/// [`Exchange::end`] and [`handle_end`](Self::handle_end) before it gives the exchange back. If the
/// client ends the command with an error, the shell calls [`handle_error`](Self::handle_error).
#[derive(Debug)]
pub struct Runner<P> {
    program: P,
    span: Span,
    /// The end of an operation whose started event was published: `Some(None)` for success,
    /// `Some(Some(error))` for a failure. `None` before the end and once the ended event was taken.
    ended: Option<Option<Error>>,
}

impl<P: Program> Runner<P> {
    /// Returns a runner for `program`. Nothing happens before [`start`](Self::start).
    pub fn new(program: P) -> Self {
        Self {
            program,
            span: Span::default(),
            ended: None,
        }
    }

    /// Starts the program. A program that permits it, such as a cursor, can be started again after
    /// its end, as a new operation.
    pub fn start(&mut self) -> Step<P::Output> {
        self.span = Span::default();
        self.program.start()
    }

    /// Frames the request of an attempt. An error is the outcome of the attempt: nothing was sent,
    /// and the shell gives the exchange back with that outcome.
    pub fn begin(&mut self, now: Instant, exchange: &mut Exchange) -> Result<(), Outcome> {
        exchange.begin(now).map_err(Outcome::Failed)?;
        if !exchange.is_preliminary() {
            self.program.handle_begun(exchange);
        }
        Ok(())
    }

    /// Passes a successful reply to the program. Call [`Exchange::end`] before, because the program
    /// can move the reply out of the exchange. Returns `None` after a preliminary ping or a failed
    /// attempt: when the exchange is given back, the client decides how the operation continues.
    #[inline]
    pub fn handle_end(
        &mut self,
        exchange: &mut Exchange,
        outcome: &Outcome,
    ) -> Option<Step<P::Output>> {
        let is_completed = matches!(outcome, Outcome::Completed);
        if !is_completed || exchange.is_preliminary() {
            return None;
        }
        if !exchange.is_successful() {
            self.program.handle_failed_reply(exchange);
            return None;
        }
        let step = self.program.handle_reply(exchange);
        Some(self.note_end(step))
    }

    /// Passes an answer to the program, with the exchange during which it asked.
    pub fn handle_answer(
        &mut self,
        answer: Result<Finding, String>,
        exchange: Option<&mut Exchange>,
    ) -> Step<P::Output> {
        let step = self.program.handle_answer(answer, exchange);
        self.note_end(step)
    }

    /// Continues a program that has got input.
    pub fn handle_input(&mut self) -> Step<P::Output> {
        let step = self.program.handle_input();
        self.note_end(step)
    }

    /// Passes the error of a command to the program.
    pub fn handle_error(&mut self, error: Error) -> Step<P::Output> {
        let step = self.program.handle_error(error);
        self.note_end(step)
    }

    /// Records that the caller dropped the operation, for its ended event. Does nothing after the
    /// end of the operation.
    pub fn handle_abandoned(&mut self) {
        if self.span.is_observed() && self.ended.is_none() {
            self.ended = Some(Some(ErrorKind::Abandoned.into()));
        }
    }

    /// Takes the ended event of the operation; `None` before the end, and if no started event was
    /// published. Call this once the operation is over and its exchange was given back, so that the
    /// event is the last one of the operation.
    pub fn poll_event(&mut self, now: Instant) -> Option<OperationEvent> {
        let failure = self.ended.take()?;
        self.span.end(now, failure)
    }

    /// True if [`poll_event`](Self::poll_event) has an event. If there is none, the caller need not
    /// read the clock.
    #[must_use]
    pub fn has_event(&self) -> bool {
        self.ended.is_some()
    }

    #[inline]
    fn note_end(&mut self, step: Step<P::Output>) -> Step<P::Output> {
        if let Step::Done(result) = &step
            && self.span.is_observed()
        {
            self.ended = Some(result.as_ref().err().cloned());
        }
        step
    }

    /// Gives the program up, and returns the work that remains to be done in the background.
    pub fn abandon(&mut self) -> Abandoned {
        self.program.abandon()
    }

    /// Returns the operation id and the time limit that the commands of the program share.
    pub fn span(&mut self) -> &mut Span {
        &mut self.span
    }

    /// Returns the program.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// Returns the program, to change it between its end and its next start.
    pub fn program_mut(&mut self) -> &mut P {
        &mut self.program
    }
}
