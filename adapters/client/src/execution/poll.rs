//! The poll of the future of an operation.

use super::{Execution, State};
use crate::Runtime;
use onionskin_core::{client::Progress, error::Error, operation::Program};
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

impl<R: Runtime, P: Program> Execution<R, P> {
    /// Runs the program until it is over or needs input
    /// ([`Step::Wait`](onionskin_core::operation::Step::Wait)). Returns its result, or `None` if it
    /// needs input: then call [`supply`](Self::supply) and poll again. While this returns
    /// `Poll::Pending`, the program takes no input, so its holder can make its own source wait.
    ///
    /// ```no_run
    /// # use onionskin::{Execution, Runtime, program::Program};
    /// # async fn example<R: Runtime, P: Program>(mut execution: Execution<R, P>) {
    /// let polled = std::future::poll_fn(|context| execution.poll_program(context)).await;
    /// let needs_input = polled.is_none();
    /// # }
    /// ```
    pub fn poll_program(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<P::Output, Error>>> {
        let (this, waker) = (self, context.waker());
        loop {
            let result = match &mut this.state {
                State::Ready => {
                    this.state = State::Over;
                    let step = this.runner.start();
                    this.follow(step, waker)
                }
                State::Begun(id) => {
                    this.state = State::Waiting(*id);
                    return Poll::Pending;
                }
                State::Waiting(id) => match this.client.shared().resume(*id, waker) {
                    Progress::Waiting(_) => return Poll::Pending,
                    progress => {
                        this.state = State::Over;
                        this.on_progress(progress).and_then(|error| {
                            let step = this.runner.handle_error(error);
                            this.follow(step, waker)
                        })
                    }
                },
                State::Asking(id, held) => match this.client.shared().resume(*id, waker) {
                    Progress::Waiting(_) => return Poll::Pending,
                    progress => {
                        this.state = match held.take() {
                            Some(active) => State::Exchanging(*active),
                            None => State::Over,
                        };
                        this.on_asked(progress)
                            .and_then(|step| this.follow(step, waker))
                    }
                },
                State::Resumed => {
                    this.state = State::Over;
                    let step = this.runner.handle_input();
                    this.follow(step, waker)
                }
                State::Paused => return Poll::Ready(None),
                State::Exchanging(active) => {
                    let Poll::Ready(outcome) = active.poll_exchange(context) else {
                        return Poll::Pending;
                    };
                    this.finish(outcome, waker)
                }
                State::Over => {
                    let message = "the future of the operation was polled after it had completed";
                    return Poll::Ready(Some(Err(Error::argument(message))));
                }
            };
            if let Some(result) = result {
                this.publish_end();
                return Poll::Ready(Some(result));
            }
        }
    }
}

impl<R: Runtime, P: Program> Future for Execution<R, P> {
    type Output = Result<P::Output, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(self.poll_program(context)) {
            Some(result) => Poll::Ready(result),
            None => {
                let message = "the operation waits for input: use `Execution::poll_program` and \
                               `Execution::supply`";
                Poll::Ready(Err(Error::argument(message)))
            }
        }
    }
}
