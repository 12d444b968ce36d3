//! The timers of the client, and what happens when they expire.

use crate::{
    client::{Client, DRAIN_LIMIT, questions::question::QuestionId, recording::Kind},
    connection::SocketId,
    error::{Error, Wait},
    operation::OperationId,
    time::{Instant, Timers, deadline_after_freeze, earliest},
};

/// The highest number of rounds in one call of `handle_timeout`. Work that is done in one round may
/// make further work due at the same time.
const MAX_TIMEOUT_ROUNDS: usize = 16;

/// The reason of a timer of the client. The topology and the pools have timers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The time limit of the current step of a pool's connection that is being established:
    /// connecting, one command of the handshake, or one derivation of keys.
    Step(SocketId),
    /// The end of an operation's wait or pause, or its deadline while it has a grant.
    Wait(OperationId),
    /// The time at which grants are examined. This time may be earlier than that of the first
    /// grant, never later: one timer for all grants costs less than one timer for each.
    Grants,
    /// The deadline of the exchange on this socket. After it, the time until which the holder of
    /// the exchange has to check it in.
    Exchange(SocketId),
    /// The end of the wait for the late reply on this socket.
    Drain(SocketId),
    /// The end of the wait for the answer to this question.
    Question(QuestionId),
    /// The next rescan of the SRV records. In a client that scans, the end of the wait of a scan
    /// for the rescan that precedes it.
    Rescan,
    /// The time at which a delayed call of a callback for tokens is due.
    Callback,
    /// The time at which further operations select a server again. Server selection of many waiting
    /// operations has pauses, in which the lock of the client is free.
    Reselection,
}

/// The timers of a client, and the time of the next call of [`Client::handle_timeout`].
#[derive(Debug, Default)]
pub(in crate::client) struct Clock {
    pub(in crate::client) timers: Timers<Timer>,
    /// The time at which `handle_timeout` is to be called; `None` for never. May be earlier than
    /// the earliest deadline of the parts, never later. Each `handle_timeout` sets the exact value.
    pub(in crate::client) armed: Option<Instant>,
}

impl Client {
    /// Handles everything whose deadline has passed. Changes nothing before
    /// [`deadline`](Self::deadline).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.begin_entry(now, Kind::Timeout, |_| Ok(()));
        // What expires in one part can make another part due at once: a check that times out clears
        // a pool, and the background work of that pool is due then.
        for _ in 0..MAX_TIMEOUT_ROUNDS {
            let connections = &self.connections;
            self.topology
                .handle_timeout_of(now, &|monitor| connections.unopened(monitor));
            self.settle(now);
            self.pools.handle_timeout(now);
            self.carry(now);
            while let Some((at, timer)) = self.clock.timers.pop_expired(now) {
                self.on_timer(now, timer, at);
                self.carry(now);
            }
            self.settle(now);
            self.clock.armed = self.exact_deadline();
            if self.clock.armed.is_none_or(|at| at > now) {
                break;
            }
        }
        self.end_entry(|_| {});
    }

    fn on_timer(&mut self, now: Instant, timer: Timer, at: Instant) {
        match timer {
            Timer::Step(socket) => {
                let is_queued = self.questions.is_queued(socket);
                self.connections.handle_limit(now, socket, is_queued);
            }
            Timer::Wait(operation) => self.on_wait_over(now, operation),
            Timer::Grants => self.examine_grants(now),
            Timer::Exchange(socket) => self.on_exchange_deadline(now, socket, at),
            Timer::Drain(socket) => match deadline_after_freeze(at, now) {
                Some(later) => self.clock.timers.set(timer, later),
                None => {
                    let message = format!(
                        "the late reply to an operation that had ended did not arrive within {} s",
                        DRAIN_LIMIT.as_secs()
                    );
                    let error = Error::timeout(Wait::Exchange, message);
                    self.connections.give_up_drain(socket, error);
                }
            },
            Timer::Question(question) => match deadline_after_freeze(at, now) {
                Some(later) => self.clock.timers.set(timer, later),
                None => self.on_question_limit(now, question),
            },
            Timer::Rescan => self.on_rescan_timer(now),
            Timer::Callback => self.on_callback_due(now),
            Timer::Reselection => self.continue_reselection(now),
        }
    }

    /// Arms or moves a timer. Without a deadline, disarms it.
    pub(in crate::client) fn arm(&mut self, timer: Timer, deadline: Option<Instant>) {
        self.clock.timers.renew(timer, deadline);
        self.note_deadline(deadline);
    }

    /// Lowers the client's deadline to `at`, if `at` is earlier.
    #[inline]
    pub(in crate::client) fn note_deadline(&mut self, at: Option<Instant>) {
        self.clock.armed = earliest(self.clock.armed, at.filter(|&at| at < Instant::MAX));
    }

    /// Returns the earliest deadline of all parts.
    pub(in crate::client) fn exact_deadline(&self) -> Option<Instant> {
        let parts = earliest(self.topology.deadline(), self.pools.deadline());
        let timer = self.clock.timers.next().map(|(at, _)| at);
        // `Instant::MAX` means that there is no deadline.
        earliest(parts, timer).filter(|&at| at < Instant::MAX)
    }
}
