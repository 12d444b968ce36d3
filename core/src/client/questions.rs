//! The questions part: what was asked of the world outside, and who waits for the answers.
//!
//! A machine of the core that needs something it cannot do itself has the client ask
//! ([`Action::Ask`]): whoever drives the client answers by
//! [`Client::handle_answer`](super::Client::handle_answer). Each question has a deadline; one that
//! was not answered by then is withdrawn, and an answer that comes later changes nothing.
//!
//! The first questions are derivations of keys from passwords. A server chooses how many iterations
//! that takes. A key is derived once at a time, however many connections wait for it; the keys of
//! one server are derived one after the other, and [`MAX_DERIVATIONS`] derivations run at once.

use super::Action;
use crate::{
    auth::{DerivedKeys, KeyDerivation, KeyName},
    connection::SocketId,
    description::ServerId,
    time::Instant,
};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// How long the answer to a question may take. The highest permitted iteration count takes a few
/// seconds on a slow processor.
pub const QUESTION_LIMIT: Duration = Duration::from_secs(300);

/// Derivations of one client that run at the same time at most. Each occupies a processor.
pub const MAX_DERIVATIONS: usize = 2;

/// The core's number of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u64);

/// What the client asks of the world outside.
#[derive(Debug)]
pub enum Question {
    /// Derive these keys ([`KeyDerivation::derive`]), where it delays nothing else: it may take
    /// seconds. To be answered with [`Answer::Keys`].
    DeriveKeys(KeyDerivation),
}

/// The answer to a [`Question`].
#[derive(Debug)]
pub enum Answer {
    /// The keys that were derived.
    Keys(DerivedKeys),
    /// There is no answer and there will be none: the work panicked, or was given up.
    None,
}

/// What the part orders.
#[derive(Debug)]
pub(super) enum Order {
    /// An action for whoever drives the client.
    Act(Action),
    /// The question has to be answered by then.
    Limit(QuestionId, Option<Instant>),
}

/// A derivation that was asked for.
#[derive(Debug)]
struct Running {
    name: KeyName,
    server: ServerId,
    waiting: Vec<SocketId>,
}

/// A derivation for a server that has one running, or that finds no processor.
#[derive(Debug)]
struct Queued {
    server: ServerId,
    socket: SocketId,
    derivation: KeyDerivation,
}

/// The questions of a client that were not answered.
#[derive(Debug, Default)]
pub(super) struct Questions {
    running: BTreeMap<QuestionId, Running>,
    /// Oldest first.
    queued: Vec<Queued>,
    last: u64,
    orders: VecDeque<Order>,
}

impl Questions {
    #[inline]
    pub(super) fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// A connection to `server` needs keys.
    pub(super) fn derive(
        &mut self,
        now: Instant,
        server: ServerId,
        socket: SocketId,
        derivation: KeyDerivation,
    ) {
        let name = derivation.name();
        let mut running = self.running.values_mut();
        if let Some(running) = running.find(|running| running.name == name) {
            running.waiting.push(socket);
        } else if self.may_run(server) {
            self.ask(now, server, vec![socket], derivation);
        } else {
            self.queued.push(Queued {
                server,
                socket,
                derivation,
            });
        }
    }

    /// Takes an answer; returns the connections that wait for it. Nobody waits for the answer to a
    /// question that was withdrawn.
    pub(super) fn handle_answer(&mut self, now: Instant, id: QuestionId) -> Vec<SocketId> {
        let Some(running) = self.running.remove(&id) else {
            return Vec::new();
        };
        self.orders.push_back(Order::Limit(id, None));
        let mut waiting = running.waiting;
        let is_same = |queued: &mut Queued| queued.derivation.name() == running.name;
        let same = self.queued.extract_if(.., is_same);
        waiting.extend(same.map(|queued| queued.socket));
        self.ask_next(now);
        waiting
    }

    /// The time for an answer is over: the question is withdrawn. Returns the connections that wait
    /// for its answer; those may have no limits of their own.
    pub(super) fn handle_limit(&mut self, now: Instant, id: QuestionId) -> Vec<SocketId> {
        let Some(running) = self.running.remove(&id) else {
            return Vec::new();
        };
        let withdraw = Action::Withdraw { question: id };
        self.orders.push_back(Order::Act(withdraw));
        self.ask_next(now);
        running.waiting
    }

    /// Withdraws all questions: no connection waits for an answer any more.
    pub(super) fn withdraw_all(&mut self) {
        self.queued.clear();
        for id in std::mem::take(&mut self.running).into_keys() {
            let withdraw = Action::Withdraw { question: id };
            self.orders.push_back(Order::Act(withdraw));
            self.orders.push_back(Order::Limit(id, None));
        }
    }

    /// A connection is gone. A derivation that runs goes on, for the next connection: it cannot be
    /// stopped, and occupies its processor until it ends.
    pub(super) fn forget(&mut self, socket: SocketId) {
        self.queued.retain(|queued| queued.socket != socket);
        for running in self.running.values_mut() {
            running.waiting.retain(|&waiting| waiting != socket);
        }
    }

    /// True if a derivation for this server may run beside those that do.
    fn may_run(&self, server: ServerId) -> bool {
        let mut running = self.running.values();
        self.running.len() < MAX_DERIVATIONS && running.all(|running| running.server != server)
    }

    /// Asks the oldest question that may be asked.
    fn ask_next(&mut self, now: Instant) {
        let mut queued = self.queued.iter();
        let Some(place) = queued.position(|queued| self.may_run(queued.server)) else {
            return;
        };
        let next = self.queued.remove(place);
        let name = next.derivation.name();
        let is_same = |queued: &mut Queued| queued.derivation.name() == name;
        let mut waiting = vec![next.socket];
        let same = self.queued.extract_if(.., is_same);
        waiting.extend(same.map(|queued| queued.socket));
        self.ask(now, next.server, waiting, next.derivation);
    }

    fn ask(
        &mut self,
        now: Instant,
        server: ServerId,
        waiting: Vec<SocketId>,
        derivation: KeyDerivation,
    ) {
        self.last += 1;
        let id = QuestionId(self.last);
        let running = Running {
            name: derivation.name(),
            server,
            waiting,
        };
        self.running.insert(id, running);
        let question = Question::DeriveKeys(derivation);
        self.orders
            .push_back(Order::Act(Action::Ask { id, question }));
        let limit = now.checked_add(QUESTION_LIMIT);
        self.orders.push_back(Order::Limit(id, limit));
    }

    /// The questions that were asked and not answered.
    pub(super) fn asked(&self) -> impl Iterator<Item = QuestionId> {
        self.running.keys().copied()
    }

    /// Connections that wait for an answer.
    pub(super) fn waiting(&self) -> usize {
        let running = self.running.values().map(|running| running.waiting.len());
        running.sum::<usize>() + self.queued.len()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.queued.is_empty()
    }
}
