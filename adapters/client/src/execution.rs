//! The future of an operation, which runs the program of the operation.

mod poll;

use crate::{
    Client, Runtime,
    exchange::{ActiveExchange, Started},
    shared::Shared,
    workspace::Lent,
};
use onionskin_core::{
    client::{Outcome, Progress},
    error::Error,
    event::{Event, EventKind},
    operation::{Abandoned, Ask, Exchange, OperationId, Program, Runner, Step},
    options::ServerSelector,
    time::Instant,
};
use std::{sync::Arc, task::Waker};

/// The future of a running operation.
///
/// The future keeps its client open. The future can be dropped at any time: the client then takes
/// back the connection of the operation, or its place in the wait queue. So a connection cannot
/// stay checked out by mistake ([CMAP-112]).
///
/// A program that takes input piece by piece is not awaited: see
/// [`poll_program`](Self::poll_program).
///
/// [CMAP-112]: onionskin_core::requirements::pool#CMAP-112
#[must_use = "an operation does nothing unless it is awaited"]
pub struct Execution<R: Runtime, P: Program> {
    /// The client, which this handle keeps open.
    client: Client<R>,
    state: State<R>,
    runner: Runner<P>,
    /// The application's function of the last command. The core must not drop its last copy: the
    /// core works under the lock of the client, and the function may own any value.
    selector: Option<ServerSelector>,
}

enum State<R: Runtime> {
    /// The next poll starts the program.
    Ready,
    Waiting(OperationId),
    /// The operation waits, and this poll has left its waker with the client.
    Begun(OperationId),
    Exchanging(ActiveExchange<R::Stream>),
    /// The program has asked a question. If it asked while it read a reply, its exchange is kept.
    Asking(OperationId, Option<Box<ActiveExchange<R::Stream>>>),
    /// The program needs input of its holder.
    Paused,
    /// The next poll continues the program, which has got input.
    Resumed,
    Over,
}

// No field is pinned: every polled field is `Unpin`.
impl<R: Runtime, P: Program> Unpin for Execution<R, P> {}

impl<R: Runtime, P: Program> Execution<R, P> {
    pub(crate) fn new(client: Client<R>, program: P) -> Self {
        Self {
            client,
            state: State::Ready,
            runner: Runner::new(program),
            selector: None,
        }
    }

    /// Creates an execution in which no operation runs yet. [`restart`](Self::restart) starts the
    /// program.
    pub(crate) fn at_rest(client: Client<R>, program: P) -> Self {
        Self {
            client,
            state: State::Over,
            runner: Runner::new(program),
            selector: None,
        }
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Execution, Runtime, program::Program};
    /// # fn example<R: Runtime + Clone, P: Program>(execution: Execution<R, P>) {
    /// // A runtime that blocks polls the operation with an executor of its own.
    /// let runtime = execution.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.client.runtime()
    }

    pub(crate) fn client(&self) -> &Client<R> {
        &self.client
    }

    pub(crate) fn program(&self) -> &P {
        self.runner.program()
    }

    pub(crate) fn program_mut(&mut self) -> &mut P {
        self.runner.program_mut()
    }

    /// True if no operation runs: the operation has ended, was abandoned, or was not started.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// True if a command or a question of the program runs, or is about to.
    pub(crate) const fn is_running(&self) -> bool {
        !matches!(self.state, State::Ready | State::Paused | State::Over)
    }

    /// Starts the program again at the next poll. A running operation is abandoned.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.state = State::Ready;
    }

    /// Abandons a running operation. The program stays.
    pub(crate) fn stop(&mut self) {
        if self.is_over() {
            return;
        }
        self.runner.handle_abandoned();
        match std::mem::replace(&mut self.state, State::Over) {
            State::Waiting(id) | State::Begun(id) => self.client.shared().cancel(id),
            State::Asking(id, held) => {
                self.client.shared().cancel(id);
                if let Some(active) = held {
                    // The operation is abandoned, so its error has no receiver.
                    let _ = self.client.shared().check_in(*active, Outcome::Abandoned);
                }
            }
            State::Exchanging(mut active) => {
                let outcome = Outcome::Abandoned;
                active.exchange.end(&outcome);
                publish_events(self.client.shared(), &mut active.exchange);
                // The operation is abandoned, so its error has no receiver.
                let _ = self.client.shared().check_in(active, outcome);
            }
            State::Ready | State::Paused | State::Resumed | State::Over => {}
        }
        self.publish_end();
    }

    /// Gives input to a program that waits for it: `give` calls a method of the program. Returns
    /// `None`, and does not call `give`, if the program does not wait for input.
    ///
    /// ```no_run
    /// # use onionskin::{Execution, Runtime, program::Program};
    /// # fn example<R: Runtime, P: Program + Extend<u8>>(mut execution: Execution<R, P>) {
    /// let is_taken = execution.supply(|program| program.extend([1, 2, 3])).is_some();
    /// # }
    /// ```
    pub fn supply<T>(&mut self, give: impl FnOnce(&mut P) -> T) -> Option<T> {
        if !matches!(self.state, State::Paused) {
            return None;
        }
        let value = give(self.runner.program_mut());
        self.state = State::Resumed;
        Some(value)
    }

    /// Delivers the event for the end of the operation, if there is one.
    fn publish_end(&mut self) {
        if self.runner.has_event() {
            let shared = self.client.shared();
            let at = shared.now();
            if let Some(event) = self.runner.poll_event(at) {
                let kind = EventKind::Operation(event);
                shared.publish(Event::new(at, kind));
            }
        }
    }

    /// Runs the steps of the program until the operation has to be polled again (`None`) or is
    /// over.
    fn follow(
        &mut self,
        mut step: Step<P::Output>,
        waker: &Waker,
    ) -> Option<Result<P::Output, Error>> {
        loop {
            match step {
                Step::Done(result) => return Some(result),
                Step::Run(command) => {
                    self.selector = command.server_selector().cloned();
                    let shared = self.client.shared();
                    let (progress, is_left) = shared.begin(command, self.runner.span(), waker);
                    if is_left && let Progress::Waiting(id) = progress {
                        self.state = State::Begun(id);
                        return None;
                    }
                    let error = self.on_progress(progress)?;
                    step = self.runner.handle_error(error);
                }
                Step::Ask(ask) => {
                    let progress = self.ask(*ask);
                    step = self.on_asked(progress)?;
                }
                Step::Wait => {
                    self.state = State::Paused;
                    return None;
                }
            }
        }
    }

    /// Asks a question of the program. An exchange that runs is kept meanwhile.
    fn ask(&mut self, ask: Ask) -> Started<R::Stream> {
        let held = match &mut self.state {
            State::Exchanging(active) => Some(&mut active.exchange),
            _ => None,
        };
        let shared = self.client.shared();
        shared.ask(ask, self.runner.span(), held)
    }

    /// Continues a program that has asked until it takes another step, or has to be polled again
    /// (`None`). An exchange that is kept stays in the state while code of the program runs, so
    /// that a panic does not lose it.
    fn on_asked(&mut self, mut progress: Started<R::Stream>) -> Option<Step<P::Output>> {
        loop {
            let mut outcome = Outcome::Completed;
            let step = match progress {
                Progress::Waiting(id) => {
                    let held = self.take_active().map(Box::new);
                    self.state = State::Asking(id, held);
                    return None;
                }
                Progress::Answered(answer) => {
                    let exchange = match &mut self.state {
                        State::Exchanging(active) => Some(&mut active.exchange),
                        _ => None,
                    };
                    self.runner.handle_answer(answer, exchange)
                }
                Progress::Failed(error) => {
                    // The program does not read the reply any more.
                    outcome = Outcome::Abandoned;
                    self.runner.handle_error(error)
                }
                // These belong to no question.
                Progress::Exchange(_) | Progress::Asking { .. } => {
                    self.runner.handle_error(abandoned_error())
                }
            };
            match step {
                Step::Ask(ask) => progress = self.ask(*ask),
                step => {
                    let Some(active) = self.take_active() else {
                        return Some(step);
                    };
                    return match self.give_back(active, outcome)? {
                        Ok(()) => Some(step),
                        Err(error) => Some(self.runner.handle_error(error)),
                    };
                }
            }
        }
    }

    /// Continues a command until the operation has to be polled again (`None`) or the command has
    /// failed.
    fn on_progress(&mut self, mut progress: Started<R::Stream>) -> Option<Error> {
        loop {
            match progress {
                Progress::Waiting(id) => {
                    self.state = State::Waiting(id);
                    return None;
                }
                Progress::Asking {
                    operation: id,
                    question,
                } => {
                    // The state is set before code of the application runs, so that the operation
                    // is cancelled even if that code unwinds out of this function.
                    self.state = State::Waiting(id);
                    let answer = question.ask();
                    progress = self.client.shared().answer_selector(id, answer);
                    self.state = State::Over;
                    continue;
                }
                Progress::Failed(error) => return Some(error),
                // No question was asked.
                Progress::Answered(_) => return Some(abandoned_error()),
                // The exchange is stored before its stream is used, so that a panic of the stream
                // does not lose the exchange.
                Progress::Exchange(active) => self.state = State::Exchanging(active),
            }
            let State::Exchanging(active) = &mut self.state else {
                return None;
            };
            let refused = match active.check_idle() {
                Ok(()) => match self.frame() {
                    Ok(()) => return None,
                    Err(outcome) => Err(outcome),
                },
                Err(error) => Ok(error),
            };
            let active = self.take_active()?;
            progress = match refused {
                Ok(error) => self.client.shared().refuse(active, error),
                Err(outcome) => match self.client.shared().check_in(active, outcome) {
                    Ok(Some(progress)) => progress,
                    Ok(None) => return Some(abandoned_error()),
                    Err(error) => return Some(error),
                },
            };
        }
    }

    fn take_active(&mut self) -> Option<ActiveExchange<R::Stream>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Exchanging(active) => Some(active),
            _ => None,
        }
    }

    /// Encodes the request of the exchange.
    fn frame(&mut self) -> Result<(), Outcome> {
        let State::Exchanging(active) = &mut self.state else {
            return Ok(());
        };
        let workspace = Lent::to(&mut active.exchange);
        // Listeners can have run since the core gave the exchange, so that time would be too early.
        let now = match active.exchange.begin_uses_time() {
            true => self.client.shared().now(),
            false => Instant::ZERO,
        };
        let result = self.runner.begin(now, &mut active.exchange);
        workspace.take_back(&mut active.exchange);
        result?;
        publish_events(self.client.shared(), &mut active.exchange);
        Ok(())
    }

    /// Ends the exchange: the program reads the reply, and the exchange is checked in. Returns
    /// `None` if the operation continues and has to be polled again.
    fn finish(&mut self, outcome: Outcome, waker: &Waker) -> Option<Result<P::Output, Error>> {
        // The exchange stays in `state` while code of the caller runs, such as a decoder. So the
        // exchange is checked in also after a panic in that code.
        let State::Exchanging(active) = &mut self.state else {
            return None;
        };
        active.exchange.end(&outcome);
        publish_events(self.client.shared(), &mut active.exchange);
        let step = self.runner.handle_end(&mut active.exchange, &outcome);
        if let Some(Step::Ask(ask)) = step {
            let progress = self.ask(*ask);
            let step = self.on_asked(progress)?;
            return self.follow(step, waker);
        }
        let active = self.take_active()?;
        let error = match self.give_back(active, outcome)? {
            Ok(()) => match step {
                Some(Step::Done(result)) => return Some(result),
                Some(step) => return self.follow(step, waker),
                None => abandoned_error(),
            },
            Err(error) => error,
        };
        let step = self.runner.handle_error(error);
        self.follow(step, waker)
    }

    /// Checks an exchange in. Returns the error of its command; `None` if the operation has to be
    /// polled again.
    fn give_back(
        &mut self,
        active: ActiveExchange<R::Stream>,
        outcome: Outcome,
    ) -> Option<Result<(), Error>> {
        match self.client.shared().check_in(active, outcome) {
            Ok(None) => Some(Ok(())),
            Ok(Some(progress)) => self.on_progress(progress).map(Err),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Returns the error of a command that ended without a result or an error.
fn abandoned_error() -> Error {
    Error::argument("the operation was abandoned before it had a result")
}

/// Delivers the events of an exchange.
fn publish_events<R: Runtime>(shared: &Arc<Shared<R>>, exchange: &mut Exchange) {
    while exchange.has_events() {
        let at = shared.now();
        if let Some(event) = exchange.poll_event(at) {
            let kind = EventKind::Command(event);
            shared.publish(Event::new(at, kind));
        }
    }
}

impl<R: Runtime, P: Program> Drop for Execution<R, P> {
    fn drop(&mut self) {
        self.stop();
        match self.runner.abandon() {
            Abandoned::Nothing => {}
            Abandoned::Release(resources) => self.client.release_cursor(resources),
            Abandoned::Run(command) => self.client.run_in_background(command),
        }
    }
}
