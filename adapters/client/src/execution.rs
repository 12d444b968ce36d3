//! The future of an operation: the one loop that runs programs.

use crate::{
    Client, Runtime,
    shared::{ActiveExchange, Shared},
};
use onionskin_core::{
    client::{Outcome, Progress},
    error::Error,
    event::{Event, EventKind},
    operation::{Abandoned, Exchange, OperationId, Program, Runner, Step},
};
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// An operation on its way.
///
/// It keeps its client open. It may be dropped at any point: the client hears of it, the connection
/// and the wait-queue place go where they belong, and no other operation is disturbed. So a
/// connection is always used for as long as something lives, and never fetched by hand (CMAP-112).
#[must_use = "an operation does nothing unless it is awaited"]
pub struct Execution<R: Runtime, P: Program> {
    /// Kept open until the operation is over.
    client: Client<R>,
    state: State<R>,
    runner: Runner<P>,
}

enum State<R: Runtime> {
    /// The program is to be started.
    Ready,
    Waiting(OperationId),
    Exchanging(ActiveExchange<R::Stream>),
    Over,
}

// Nothing in here is ever pinned: all polled parts are `Unpin` themselves.
impl<R: Runtime, P: Program> Unpin for Execution<R, P> {}

impl<R: Runtime, P: Program> Execution<R, P> {
    pub(crate) fn new(client: Client<R>, program: P) -> Self {
        Self {
            client,
            state: State::Ready,
            runner: Runner::new(program),
        }
    }

    /// The program of an operation that is over already, to be started by
    /// [`restart`](Self::restart).
    pub(crate) fn at_rest(client: Client<R>, program: P) -> Self {
        Self {
            client,
            state: State::Over,
            runner: Runner::new(program),
        }
    }

    /// The runtime that it needs.
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.client.runtime()
    }

    pub(crate) fn client(&self) -> &Client<R> {
        &self.client
    }

    pub(crate) fn program_mut(&mut self) -> &mut P {
        self.runner.program_mut()
    }

    /// True once the operation is over.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Starts the program anew at the next poll. What was under way is left.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.state = State::Ready;
    }

    /// Leaves what is under way; the program stays.
    pub(crate) fn stop(&mut self) {
        if self.is_over() {
            return;
        }
        self.runner.handle_abandoned();
        match std::mem::replace(&mut self.state, State::Over) {
            State::Waiting(id) => self.client.shared().cancel(id),
            State::Exchanging(mut active) => {
                let outcome = Outcome::Abandoned;
                active.exchange.end(&outcome);
                publish_events(self.client.shared(), &mut active.exchange);
                // There is nobody left to tell.
                let _ = self.client.shared().check_in(active, outcome);
            }
            State::Ready | State::Over => {}
        }
        self.publish_end();
    }

    /// Publishes the event that ends the operation.
    fn publish_end(&mut self) {
        if self.runner.has_event() {
            let shared = self.client.shared();
            let at = shared.now();
            if let Some(event) = self.runner.poll_event(at) {
                let kind = EventKind::Operation(event);
                shared.publish(Event { at, kind });
            }
        }
    }

    /// Does what the program wants, until something has to be waited for (`None`) or the operation
    /// is over.
    fn follow(&mut self, mut step: Step<P::Output>) -> Option<Result<P::Output, Error>> {
        loop {
            match step {
                Step::Done(result) => return Some(result),
                Step::Run(command) => {
                    let progress = self.client.shared().begin(command, self.runner.span());
                    let error = self.on_progress(progress)?;
                    step = self.runner.handle_error(error);
                }
            }
        }
    }

    /// Goes on with a command until something has to be waited for (`None`) or the command has
    /// failed.
    fn on_progress(&mut self, mut progress: Progress<ActiveExchange<R::Stream>>) -> Option<Error> {
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
                    // The application's code: whatever it does, the operation has its place.
                    self.state = State::Waiting(id);
                    let answer = question.ask();
                    progress = self.client.shared().narrowed(id, answer);
                    self.state = State::Over;
                    continue;
                }
                Progress::Failed(error) => return Some(error),
                // In its place already, so that a stream that panics loses no exchange.
                Progress::Exchange(active) => self.state = State::Exchanging(active),
            }
            let State::Exchanging(active) = &mut self.state else {
                return None;
            };
            let refused = match active.probe() {
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
            State::Ready | State::Waiting(_) | State::Over => None,
        }
    }

    /// Frames the request of an exchange that was just taken.
    fn frame(&mut self) -> Result<(), Outcome> {
        let State::Exchanging(active) = &mut self.state else {
            return Ok(());
        };
        let now = self.client.shared().now();
        self.runner.begin(now, &mut active.exchange)?;
        publish_events(self.client.shared(), &mut active.exchange);
        Ok(())
    }

    /// The exchange is over: the program reads the reply, and everything is given back. `None`:
    /// something has to be waited for.
    fn finish(&mut self, outcome: Outcome) -> Option<Result<P::Output, Error>> {
        // The exchange stays in its place while the caller's code runs, listeners and decoding, so
        // that a panic there gives it back like any other end.
        let State::Exchanging(active) = &mut self.state else {
            return None;
        };
        active.exchange.end(&outcome);
        publish_events(self.client.shared(), &mut active.exchange);
        let answered = self.runner.handle_end(&mut active.exchange, &outcome);
        let active = self.take_active()?;
        let error = match self.client.shared().check_in(active, outcome) {
            Ok(None) => match answered {
                Some(Step::Done(result)) => return Some(result),
                Some(step) => return self.follow(step),
                None => abandoned_error(),
            },
            Ok(Some(progress)) => self.on_progress(progress)?,
            Err(error) => error,
        };
        let step = self.runner.handle_error(error);
        self.follow(step)
    }
}

/// The error of a command whose exchange went back without an end.
fn abandoned_error() -> Error {
    Error::argument("the operation was left")
}

/// Publishes the events of an exchange.
fn publish_events<R: Runtime>(shared: &Shared<R>, exchange: &mut Exchange) {
    while exchange.has_events() {
        let at = shared.now();
        if let Some(event) = exchange.poll_event(at) {
            let kind = EventKind::Command(event);
            shared.publish(Event { at, kind });
        }
    }
}

impl<R: Runtime, P: Program> Future for Execution<R, P> {
    type Output = Result<P::Output, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let result = match &mut this.state {
                State::Ready => {
                    this.state = State::Over;
                    let step = this.runner.start();
                    this.follow(step)
                }
                State::Waiting(id) => match this.client.shared().resume(*id, context.waker()) {
                    Progress::Waiting(_) => return Poll::Pending,
                    progress => {
                        this.state = State::Over;
                        this.on_progress(progress).and_then(|error| {
                            let step = this.runner.handle_error(error);
                            this.follow(step)
                        })
                    }
                },
                State::Exchanging(active) => {
                    let Poll::Ready(outcome) = active.poll_exchange(context) else {
                        return Poll::Pending;
                    };
                    this.finish(outcome)
                }
                State::Over => {
                    let message = "the operation was polled after it had ended";
                    return Poll::Ready(Err(Error::argument(message)));
                }
            };
            if let Some(result) = result {
                this.publish_end();
                return Poll::Ready(result);
            }
        }
    }
}

impl<R: Runtime, P: Program> Drop for Execution<R, P> {
    fn drop(&mut self) {
        self.stop();
        match self.runner.abandon() {
            Abandoned::Nothing => {}
            Abandoned::GiveBack(resources) => self.client.release_cursor(resources),
            Abandoned::Run(command) => self.client.run_in_background(command),
        }
    }
}
