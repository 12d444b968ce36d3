//! The questions part: the questions that the client asks, and the connections that wait for the
//! answers.
//!
//! Some work of a machine cannot be done in the core. The client asks a question for such work
//! ([`Action::Ask`]), and the shell answers by
//! [`Client::handle_answer`](super::Client::handle_answer). A question has a limit, for example
//! [`QUESTION_LIMIT`]. No connection waits for an answer that comes later. The question is then
//! withdrawn, unless it occupies a thread that cannot be stopped.
//!
//! There are four kinds of questions. A derivation of keys from a password takes long, because the
//! server chooses how many iterations it has. Connections that need the same keys share one
//! derivation. The keys of one server are derived one after the other, and at most
//! [`MAX_DERIVATIONS`] derivations run at once. Of those in the queue, the shortest and the oldest
//! begin by turns. A step of Kerberos may block until the key distribution center answers, so at
//! most [`MAX_KERBEROS_STEPS`] steps run at once. A DNS lookup is asked for by the seed list part.
//! An inquiry, for example to an endpoint that has AWS credentials, is asked for by the credentials
//! part or by the revocation part.

mod kerberos;

pub use kerberos::MAX_KERBEROS_STEPS;

use super::Action;
use crate::{
    auth::{
        DerivedKeys, Finding, Inquiry, KerberosStep, KerberosStepResult, KeyDerivation, KeyName,
    },
    connection::SocketId,
    description::ServerId,
    dns::{DnsAnswer, DnsQuery},
    error::Error,
    options::ProviderCall,
    time::Instant,
};
use kerberos::KerberosSteps;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// How long the answer to a question may take: 300 seconds. A derivation with the highest permitted
/// iteration count takes a few seconds on a slow processor.
pub const QUESTION_LIMIT: Duration = Duration::from_secs(300);

/// The additional time for the answer to a lookup. The resolver ends at the limit of the lookup,
/// and its error says which name server did not answer.
const LOOKUP_GRACE: Duration = Duration::from_secs(1);

/// The highest number of derivations of one client that run at once: 2. Each occupies a processor.
pub const MAX_DERIVATIONS: usize = 2;

/// The core's id of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u64);

/// A question of the client to its shell.
#[derive(Debug)]
pub enum Question {
    /// Derive these keys ([`KeyDerivation::derive`]) and answer with [`Answer::Keys`]. This may
    /// take seconds, and must not delay anything else.
    DeriveKeys(KeyDerivation),
    /// Run this step of the Kerberos library ([`KerberosStep::run`]) on a thread that may block,
    /// and answer with [`Answer::KerberosStep`]. Answer also if the step takes longer than the
    /// connection waits, because only [`MAX_KERBEROS_STEPS`] steps without an answer are permitted.
    /// The question is withdrawn only when the client is closed or its process has forked.
    KerberosStep(KerberosStep),
    /// Look up these DNS records and answer with [`Answer::Records`].
    /// [`dns::Lookup`](crate::dns::Lookup) is a resolver that does this.
    LookUp {
        /// The name and the type of the records.
        query: DnsQuery,
        /// The time limit of the lookup.
        limit: Duration,
    },
    /// Find the answer to this inquiry and answer with [`Answer::Found`]. The question is withdrawn
    /// when its time limit passes, except a call of a provider that may block and the reading of a
    /// file, which occupy a thread. Answer such a question also after its limit, because no other
    /// inquiry for credentials is made before.
    Inquire(Inquiry),
}

/// The answer to a [`Question`].
#[derive(Debug)]
pub enum Answer {
    /// The derived keys.
    Keys(DerivedKeys),
    /// The result of a step of the Kerberos library.
    KerberosStep(KerberosStepResult),
    /// The records of a lookup, or the reason why there are none.
    Records(Result<DnsAnswer, Error>),
    /// The answer to an inquiry, or the reason why there is none. The reason becomes part of an
    /// error message, so it must not contain secrets.
    Found(Result<Finding, String>),
    /// There will be no answer, because the work panicked or was given up.
    None,
}

/// An order of the questions part.
#[derive(Debug)]
pub(super) enum Order {
    /// An action for the shell.
    Act(Action),
    /// Set the limit of the answer to this question; `None` removes the limit.
    Limit(QuestionId, Option<Instant>),
}

/// A derivation that was asked for.
#[derive(Debug)]
struct Running {
    name: KeyName,
    server: ServerId,
    waiting: Vec<SocketId>,
}

/// A derivation that waits until another one has ended.
#[derive(Debug)]
struct Queued {
    server: ServerId,
    socket: SocketId,
    derivation: KeyDerivation,
}

/// The questions of a client: those that were asked, and those in the queue.
#[derive(Debug, Default)]
pub(super) struct Questions {
    running: BTreeMap<QuestionId, Running>,
    /// The DNS lookups that were asked for.
    lookups: BTreeSet<QuestionId>,
    /// The inquiries that were made.
    inquiries: BTreeSet<QuestionId>,
    /// The inquiries that occupy a thread: calls of a provider that may block, and files, which may
    /// be pipes or lie on a network.
    blocking: BTreeSet<QuestionId>,
    /// The inquiries of `blocking` whose limit has passed. Their threads cannot be stopped.
    overdue: BTreeSet<QuestionId>,
    kerberos: KerberosSteps,
    /// The derivations that were not asked for yet, oldest first.
    queued: Vec<Queued>,
    /// True if the next question of `queued` is the oldest one instead of the shortest.
    prefers_oldest: bool,
    last: u64,
    orders: VecDeque<Order>,
}

impl Questions {
    #[inline]
    pub(super) fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Asks for the keys that a connection to `server` needs, now or when other derivations have
    /// ended.
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

    /// Asks for DNS records.
    pub(super) fn look_up(&mut self, now: Instant, query: DnsQuery, limit: Duration) -> QuestionId {
        let id = self.next_id();
        self.lookups.insert(id);
        let question = Question::LookUp { query, limit };
        self.orders
            .push_back(Order::Act(Action::Ask { id, question }));
        let end = now.checked_add(limit.saturating_add(LOOKUP_GRACE));
        self.orders.push_back(Order::Limit(id, end));
        id
    }

    /// Ends the question for DNS records, because of its answer or because its limit has passed.
    /// False if `id` is no such question, or if it was withdrawn or answered before.
    pub(super) fn end_lookup(&mut self, id: QuestionId, is_answered: bool) -> bool {
        self.lookups.remove(&id) && self.end(id, is_answered)
    }

    fn end(&mut self, id: QuestionId, is_answered: bool) -> bool {
        if !is_answered {
            let withdraw = Action::Withdraw { question: id };
            self.orders.push_back(Order::Act(withdraw));
        }
        self.orders.push_back(Order::Limit(id, None));
        true
    }

    /// Makes an inquiry.
    pub(super) fn inquire(
        &mut self,
        now: Instant,
        inquiry: Inquiry,
        limit: Duration,
    ) -> QuestionId {
        let id = self.next_id();
        self.inquiries.insert(id);
        if matches!(
            inquiry,
            Inquiry::File(_) | Inquiry::Call(ProviderCall::Blocking(_))
        ) {
            self.blocking.insert(id);
        }
        let question = Question::Inquire(inquiry);
        self.orders
            .push_back(Order::Act(Action::Ask { id, question }));
        self.orders
            .push_back(Order::Limit(id, now.checked_add(limit)));
        id
    }

    /// Ends an inquiry, because of its answer or because its limit has passed. False if `id` is no
    /// inquiry, or one that was withdrawn or answered before. An inquiry that occupies a thread is
    /// not withdrawn when its limit has passed. It counts as running until it is answered.
    pub(super) fn end_inquiry(&mut self, id: QuestionId, is_answered: bool) -> bool {
        let is_blocking = self.blocking.remove(&id);
        if !self.inquiries.remove(&id) {
            self.overdue.remove(&id);
            return false;
        }
        if is_blocking && !is_answered {
            self.overdue.insert(id);
            return true;
        }
        self.end(id, is_answered)
    }

    /// True if a thread is still occupied by an inquiry whose limit has passed.
    pub(super) fn has_overdue_inquiry(&self) -> bool {
        !self.overdue.is_empty()
    }

    /// Withdraws all questions for DNS records.
    pub(super) fn withdraw_lookups(&mut self) {
        for id in std::mem::take(&mut self.lookups) {
            let withdraw = Action::Withdraw { question: id };
            self.orders.push_back(Order::Act(withdraw));
            self.orders.push_back(Order::Limit(id, None));
        }
    }

    /// Handles an answer. Returns the connections that wait for it; none if the question was
    /// withdrawn or answered before.
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

    /// Withdraws a question whose limit has passed. Returns the connections that wait for its
    /// answer. The caller has to fail them, because some have no time limit of their own.
    pub(super) fn handle_limit(&mut self, now: Instant, id: QuestionId) -> Vec<SocketId> {
        let Some(running) = self.running.remove(&id) else {
            return Vec::new();
        };
        let withdraw = Action::Withdraw { question: id };
        self.orders.push_back(Order::Act(withdraw));
        self.ask_next(now);
        running.waiting
    }

    /// Withdraws all questions and forgets the connections that wait for answers.
    pub(super) fn withdraw_all(&mut self) {
        self.queued.clear();
        let mut others = std::mem::take(&mut self.lookups);
        others.append(&mut self.inquiries);
        others.append(&mut self.overdue);
        self.blocking.clear();
        others.extend(self.kerberos.take_all());
        for id in std::mem::take(&mut self.running).into_keys().chain(others) {
            let withdraw = Action::Withdraw { question: id };
            self.orders.push_back(Order::Act(withdraw));
            self.orders.push_back(Order::Limit(id, None));
        }
    }

    /// Removes a connection that is no longer driven. A derivation that runs for this connection
    /// continues, and the next connection can use its keys.
    pub(super) fn forget(&mut self, socket: SocketId) {
        self.queued.retain(|queued| queued.socket != socket);
        for running in self.running.values_mut() {
            running.waiting.retain(|&waiting| waiting != socket);
        }
        for id in self.kerberos.forget(socket) {
            self.orders.push_back(Order::Limit(id, None));
        }
    }

    /// True if a derivation for this server may begin while the others run.
    fn may_run(&self, server: ServerId) -> bool {
        let mut running = self.running.values();
        self.running.len() < MAX_DERIVATIONS && running.all(|running| running.server != server)
    }

    /// Asks a question of the queue that may be asked now: by turns the shortest and the oldest. So
    /// servers that demand many iterations do not delay those that demand few, and no question
    /// waits for ever.
    fn ask_next(&mut self, now: Instant) {
        let queued = self.queued.iter().enumerate();
        let mut permitted = queued.filter(|(_, queued)| self.may_run(queued.server));
        let next = if self.prefers_oldest {
            permitted.next()
        } else {
            permitted.min_by_key(|(_, queued)| queued.derivation.iterations())
        };
        let Some((place, _)) = next else {
            return;
        };
        self.prefers_oldest = !self.prefers_oldest;
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
        let id = self.next_id();
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

    fn next_id(&mut self) -> QuestionId {
        self.last += 1;
        QuestionId(self.last)
    }

    /// Returns the questions that were asked and not answered.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(super) fn asked(&self) -> impl Iterator<Item = QuestionId> {
        let others = self.lookups.iter().chain(&self.inquiries);
        let others = others.chain(&self.overdue);
        let others = others.chain(self.kerberos.asked());
        self.running.keys().chain(others).copied()
    }

    /// Returns the number of connections that wait for an answer.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(super) fn waiting(&self) -> usize {
        let running = self.running.values().map(|running| running.waiting.len());
        running.sum::<usize>() + self.queued.len() + self.kerberos.waiting()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
            && self.queued.is_empty()
            && self.lookups.is_empty()
            && self.inquiries.is_empty()
            && self.overdue.is_empty()
    }
}
