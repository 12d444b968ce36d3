//! Time: the timers of the composition, and what happens when they expire.

use super::{Action, Client, questions::QuestionId};
use crate::{
    connection::SocketId,
    error::{Error, Wait},
    operation::OperationId,
    time::{Instant, deadline_after_freeze, earliest},
};

/// Rounds that one call of `handle_timeout` makes at most, until no part of the client is due.
const MAX_TIMEOUT_ROUNDS: usize = 16;

/// Why the composition wants to be woken. Topology and pools have timers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A connection that is made must have taken its next step.
    Step(SocketId),
    /// An operation that waits has waited long enough, or may begin its next attempt.
    Wait(OperationId),
    /// A exchange must be over.
    Exchange(SocketId),
    /// A reply that nobody waits for must have come.
    Drain(SocketId),
    /// A question must be answered.
    Question(QuestionId),
}

impl Client {
    /// Time has passed. Harmless before the deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        // When time is up for one part, that may be news for another: a handshake that took too
        // long makes its server unknown, and wants it checked at once.
        for _ in 0..MAX_TIMEOUT_ROUNDS {
            self.topology.handle_timeout(now);
            self.settle(now);
            self.pools.handle_timeout(now);
            self.carry(now);
            while let Some((at, timer)) = self.timers.pop_expired(now) {
                self.on_timer(now, timer, at);
                self.carry(now);
            }
            self.settle(now);
            self.armed = self.exact_deadline();
            if self.armed.is_none_or(|at| at > now) {
                break;
            }
        }
    }

    fn on_timer(&mut self, now: Instant, timer: Timer, at: Instant) {
        match timer {
            Timer::Step(socket) => self.connections.handle_limit(now, socket),
            Timer::Wait(operation) => self.on_wait_over(now, operation),
            Timer::Exchange(socket) => {
                let error = exchange_timeout();
                self.out.act(Action::Interrupt { socket, error });
            }
            Timer::Drain(socket) => match deadline_after_freeze(at, now) {
                Some(later) => self.timers.set(timer, later),
                None => {
                    let message = "the reply to an operation that had ended did not come";
                    let error = Error::timeout(Wait::Exchange, message);
                    self.connections.give_up_drain(socket, error);
                }
            },
            Timer::Question(question) => {
                let waiting = self.questions.handle_limit(now, question);
                self.connections.handle_no_answer(&waiting);
            }
        }
    }

    /// Arms a timer, or moves it; disarms it where there is no deadline.
    pub(super) fn arm(&mut self, timer: Timer, deadline: Option<Instant>) {
        self.timers.renew(timer, deadline);
        self.note_deadline(deadline);
    }

    /// Remembers a deadline if it is earlier than all known.
    #[inline]
    pub(super) fn note_deadline(&mut self, at: Option<Instant>) {
        self.armed = earliest(self.armed, at.filter(|&at| at < Instant::MAX));
    }

    /// The earliest deadline of all parts.
    pub(super) fn exact_deadline(&self) -> Option<Instant> {
        let parts = earliest(self.topology.deadline(), self.pools.deadline());
        let timer = self.timers.next().map(|(at, _)| at);
        // The end of time never comes: what would be due then is never due.
        earliest(parts, timer).filter(|&at| at < Instant::MAX)
    }
}

fn exchange_timeout() -> Error {
    Error::timeout(
        Wait::Exchange,
        "the reply did not come within the operation's time limit, or where it has none within \
         socketTimeoutMS",
    )
}
