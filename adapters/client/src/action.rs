//! The future of an operation.

use crate::{
    Client, Decode, Runtime,
    shared::{Begun, Held, Shared},
};
use onionskin_core::{
    client::Outcome,
    error::Error,
    event::{Event, EventKind},
    operation::{Command, Lease, OperationId},
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
pub struct Execution<R: Runtime, D: Decode> {
    /// Kept open until the operation is over.
    client: Client<R>,
    state: State<R>,
    decode: D,
}

enum State<R: Runtime> {
    Ready(Command),
    Refused(Error),
    Waiting(OperationId),
    Exchanging(Held<R::Stream>),
    Over,
}

// Nothing in here is ever pinned: all polled parts are `Unpin` themselves.
impl<R: Runtime, D: Decode> Unpin for Execution<R, D> {}

impl<R: Runtime, D: Decode> Execution<R, D> {
    pub(crate) fn new(client: Client<R>, command: Result<Command, Error>, decode: D) -> Self {
        let state = match command {
            Ok(command) => State::Ready(command),
            Err(error) => State::Refused(error),
        };
        Self {
            client,
            state,
            decode,
        }
    }

    /// The runtime that it needs.
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.client.runtime()
    }

    fn on_begun(&mut self, mut begun: Begun<R::Stream>) -> Option<Error> {
        loop {
            match begun {
                Begun::Waiting(id) => {
                    self.state = State::Waiting(id);
                    return None;
                }
                Begun::Asking(id, question) => {
                    // The application's code: whatever it does, the operation has its place.
                    self.state = State::Waiting(id);
                    let answer = question.ask();
                    begun = self.client.shared().narrowed(id, answer);
                    self.state = State::Over;
                    continue;
                }
                Begun::Failed(error) => return Some(error),
                Begun::Held(held) => self.state = State::Exchanging(held),
            }
            // In its place already, so that a stream that panics loses no lease.
            let State::Exchanging(held) = &mut self.state else {
                return None;
            };
            let Err(error) = held.probe() else {
                return None;
            };
            let State::Exchanging(held) = std::mem::replace(&mut self.state, State::Over) else {
                return None;
            };
            begun = self.client.shared().refuse(held, error);
        }
    }

    /// Frames the request of a lease that was just taken.
    fn frame(&mut self) -> Result<(), Outcome> {
        let State::Exchanging(held) = &mut self.state else {
            return Ok(());
        };
        let now = self.client.shared().now();
        match held.lease.begin(now) {
            Ok(()) => {
                tell(self.client.shared(), &mut held.lease);
                Ok(())
            }
            Err(error) => Err(Outcome::Failed(error)),
        }
    }

    /// Frames the request of each lease that is given until one goes out; the result, where the
    /// operation ends before.
    fn frame_until_sent(&mut self) -> Option<Result<D::Output, Error>> {
        while let Err(outcome) = self.frame() {
            if let Some(result) = self.finish(outcome) {
                return Some(result);
            }
        }
        None
    }

    /// The exchange is over: decode, give everything back. `None`: it is tried again.
    fn finish(&mut self, outcome: Outcome) -> Option<Result<D::Output, Error>> {
        // The lease stays in its place while the caller's code runs, listeners and decoding, so
        // that a panic there gives it back like any other end.
        let State::Exchanging(held) = &mut self.state else {
            return None;
        };
        let result = match &outcome {
            Outcome::Completed => held.lease.outcome(),
            Outcome::Failed(error) => Err(error.clone()),
            Outcome::Abandoned => Ok(()),
        };
        held.lease.end(&outcome);
        tell(self.client.shared(), &mut held.lease);
        let output = match result {
            // What the client asked for itself is no answer to this operation.
            Ok(()) if held.lease.is_preliminary() => None,
            Ok(()) => Some(self.decode.decode(&mut held.lease)),
            Err(_) => None,
        };
        let State::Exchanging(held) = std::mem::replace(&mut self.state, State::Over) else {
            return None;
        };
        match self.client.shared().give_back(held, outcome) {
            Err(error) => Some(Err(error)),
            Ok(None) => output.or_else(|| Some(Err(Error::argument("the operation was left")))),
            Ok(Some(begun)) => self.on_begun(begun).map(Err),
        }
    }
}

/// Publishes the events of an exchange.
fn tell<R: Runtime>(shared: &Shared<R>, lease: &mut Lease) {
    while lease.has_events() {
        let at = shared.now();
        if let Some(event) = lease.poll_event(at) {
            let kind = EventKind::Command(event);
            shared.publish(Event { at, kind });
        }
    }
}

impl<R: Runtime, D: Decode> Future for Execution<R, D> {
    type Output = Result<D::Output, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let begun = match &mut this.state {
                State::Ready(_) => {
                    let State::Ready(command) = std::mem::replace(&mut this.state, State::Over)
                    else {
                        unreachable!("it was just looked at")
                    };
                    this.client.shared().begin(command)
                }
                State::Refused(error) => {
                    let error = error.clone();
                    this.state = State::Over;
                    return Poll::Ready(Err(error));
                }
                State::Waiting(id) => match this.client.shared().resume(*id, context.waker()) {
                    Begun::Waiting(_) => return Poll::Pending,
                    begun => begun,
                },
                State::Exchanging(held) => {
                    let Poll::Ready(outcome) = held.poll_exchange(context) else {
                        return Poll::Pending;
                    };
                    let result = this.finish(outcome).or_else(|| this.frame_until_sent());
                    match result {
                        Some(result) => return Poll::Ready(result),
                        None => continue,
                    }
                }
                State::Over => {
                    let message = "the operation was polled after it had ended";
                    return Poll::Ready(Err(Error::argument(message)));
                }
            };
            this.state = State::Over;
            if let Some(error) = this.on_begun(begun) {
                return Poll::Ready(Err(error));
            }
            if let Some(result) = this.frame_until_sent() {
                return Poll::Ready(result);
            }
        }
    }
}

impl<R: Runtime, D: Decode> Drop for Execution<R, D> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Waiting(id) => self.client.shared().cancel(id),
            State::Exchanging(mut held) => {
                held.lease.end(&Outcome::Abandoned);
                tell(self.client.shared(), &mut held.lease);
                // There is nobody left to tell.
                let _ = self.client.shared().give_back(held, Outcome::Abandoned);
            }
            State::Ready(command) => {
                let shared = self.client.shared();
                shared.with(|inner, now| inner.core.discard(now, command));
            }
            State::Refused(_) | State::Over => {}
        }
    }
}
