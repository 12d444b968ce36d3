//! The questions part: the table of the questions that the client asked, and the connections that
//! wait for answers.
//!
//! Some work of a machine cannot be done in the core. The client asks a question for such work
//! ([`Action::Ask`]), and the shell answers by
//! [`Client::handle_answer`](crate::client::Client::handle_answer). The table says who asked each
//! question ([`Asker`]), and the answer goes there. A question has a limit, for example
//! [`QUESTION_LIMIT`]. No asker waits for an answer that comes later. The question is then
//! withdrawn, unless it occupies a thread that cannot be stopped.
//!
//! A derivation of keys from a password takes long, because the server chooses how many iterations
//! it has. Connections that need the same keys share one derivation. The keys of one server are
//! derived one after the other, and at most [`MAX_DERIVATIONS`] derivations run at once. Of those
//! in the queue, the shortest and the oldest begin by turns. A step of Kerberos may block until the
//! key distribution center answers, so at most [`MAX_KERBEROS_STEPS`] steps run at once, and one
//! for each server. The servers take turns. The time limit of a derivation or a step begins when it
//! is asked for. Lookups of DNS records are for the seed list. Inquiries, for example to an
//! endpoint that has AWS credentials, are for the fetches of credentials, the checks of
//! certificates and the programs of operations.

use super::{
    fetches::Fetches,
    programs::ProgramQuestions,
    question::{Question, QuestionId},
};
use crate::{
    auth::{Inquiry, KerberosStep, KeyDerivation, KeyName},
    client::Action,
    connection::SocketId,
    description::ServerId,
    dns::DnsQuery,
    operation::OperationId,
    random::Random,
    revocation::StatusChecks,
    time::Instant,
    tls::CertId,
};
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

/// The highest number of steps of Kerberos of one client that run at once: 4, and one for each
/// server. Each occupies a thread until the Kerberos library returns, even if the connection has
/// failed meanwhile.
pub const MAX_KERBEROS_STEPS: usize = 4;

/// An order of the questions part.
#[derive(Debug)]
pub(in crate::client) enum Order {
    /// An action for the shell.
    Act(Action),
    /// Set the limit of the answer to this question; `None` removes the limit.
    Limit(QuestionId, Option<Instant>),
    /// The work that the authentication of this connection waits for has left the queue.
    Begun(SocketId),
}

/// The part of the client, or the connections, that wait for an answer.
#[derive(Debug)]
pub(in crate::client) enum Asker {
    /// The connections to this server that need the keys of this name.
    Keys {
        name: KeyName,
        server: ServerId,
        waiting: Vec<SocketId>,
    },
    /// The connection that needs a step of Kerberos.
    KerberosStep(SocketId),
    /// The seed list, which needs DNS records.
    Seeds,
    /// The fetch of a part of the credential.
    Fetch,
    /// The check of this certificate.
    Revocation(CertId),
    /// The program of this operation.
    Operation(OperationId),
}

/// The work of the shell for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// A processor, for a derivation.
    Derivation,
    /// A thread that cannot be stopped, for a step of Kerberos with this server.
    KerberosStep(ServerId),
    /// A thread that cannot be stopped: for a call of a provider that may block, or for a file,
    /// which may be a pipe or lie on a network.
    Blocking,
    /// Nothing that has a bound here.
    Other,
}

impl Work {
    const fn is_stoppable(self) -> bool {
        matches!(self, Self::Derivation | Self::Other)
    }
}

/// A question that was asked and not answered.
#[derive(Debug)]
struct Asked {
    work: Work,
    /// `None` if nobody waits for the answer any more, and the question only occupies its thread.
    asker: Option<Asker>,
}

/// A derivation or a step of Kerberos that waits until another one has ended.
#[derive(Debug)]
struct Queued<T> {
    server: ServerId,
    socket: SocketId,
    work: T,
}

/// The questions of a client: those that were asked, and those in the queues.
#[derive(Debug)]
pub(in crate::client) struct Questions {
    asked: BTreeMap<QuestionId, Asked>,
    last: u64,
    /// The derivations that were not asked for yet, oldest first.
    queued_keys: Vec<Queued<KeyDerivation>>,
    /// True if the next question of `queued_keys` is the oldest one instead of the shortest.
    prefers_oldest: bool,
    /// The steps of Kerberos that were not asked for yet, in the order of their turns.
    queued_steps: Vec<Queued<KerberosStep>>,
    pub(in crate::client) fetches: Fetches,
    /// The checks of certificates.
    pub(in crate::client) checks: StatusChecks<SocketId>,
    programs: ProgramQuestions,
    orders: VecDeque<Order>,
}

impl Questions {
    pub(in crate::client) fn new(random: Random) -> Self {
        Self {
            asked: BTreeMap::new(),
            last: 0,
            queued_keys: Vec::new(),
            prefers_oldest: false,
            queued_steps: Vec::new(),
            fetches: Fetches::new(random),
            checks: StatusChecks::default(),
            programs: ProgramQuestions::default(),
            orders: VecDeque::new(),
        }
    }

    /// True if [`poll_order`](Self::poll_order) has an order.
    #[inline]
    pub(in crate::client) fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    #[inline]
    pub(in crate::client) fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Asks for the keys that a connection to `server` needs, now or when other derivations have
    /// ended.
    pub(in crate::client) fn derive(
        &mut self,
        now: Instant,
        server: ServerId,
        socket: SocketId,
        derivation: KeyDerivation,
    ) {
        let wanted = derivation.name();
        for asked in self.asked.values_mut() {
            if let Some(Asker::Keys { name, waiting, .. }) = &mut asked.asker
                && *name == wanted
            {
                return waiting.push(socket);
            }
        }
        self.queued_keys.push(Queued {
            server,
            socket,
            work: derivation,
        });
        if self.may_derive(server) {
            let last = self.queued_keys.len() - 1;
            self.ask_for_keys(now, last);
        }
    }

    /// Asks for a step of Kerberos with `server`, now or when other steps have ended.
    pub(in crate::client) fn ask_kerberos(
        &mut self,
        now: Instant,
        server: ServerId,
        socket: SocketId,
        work: KerberosStep,
    ) {
        self.queued_steps.push(Queued {
            server,
            socket,
            work,
        });
        self.ask_for_steps(now);
    }

    /// True if the derivation or the step that a connection waits for is in a queue.
    pub(in crate::client) fn is_queued(&self, socket: SocketId) -> bool {
        let keys = self.queued_keys.iter().map(|queued| queued.socket);
        let mut queued = keys.chain(self.queued_steps.iter().map(|queued| queued.socket));
        queued.any(|queued| queued == socket)
    }

    /// Asks for DNS records.
    pub(in crate::client) fn look_up(
        &mut self,
        now: Instant,
        query: DnsQuery,
        limit: Duration,
    ) -> QuestionId {
        let question = Question::LookUp { query, limit };
        let limit = limit.saturating_add(LOOKUP_GRACE);
        self.ask(now, Work::Other, Asker::Seeds, question, limit)
    }

    /// Makes an inquiry.
    pub(in crate::client) fn inquire(
        &mut self,
        now: Instant,
        asker: Asker,
        inquiry: Inquiry,
        limit: Duration,
    ) -> QuestionId {
        let work = match inquiry.occupies_thread() {
            true => Work::Blocking,
            false => Work::Other,
        };
        self.ask(now, work, asker, Question::Inquire(inquiry), limit)
    }

    /// Makes an inquiry for the program of an operation. Fails with the reason if it would occupy a
    /// thread and no further one may be occupied.
    pub(in crate::client) fn ask_for_program(
        &mut self,
        now: Instant,
        operation: OperationId,
        inquiry: Inquiry,
        limit: Duration,
    ) -> Result<QuestionId, String> {
        let is_blocking = inquiry.occupies_thread();
        if is_blocking {
            self.programs.check_room()?;
        }
        let id = self.announce(now, Question::Inquire(inquiry), limit);
        self.programs.add(id, operation, is_blocking);
        Ok(id)
    }

    /// True if the client itself asked this question, for example for a connection, and needs its
    /// answer.
    pub(in crate::client) fn is_asked(&self, id: QuestionId) -> bool {
        self.asked.contains_key(&id)
    }

    fn ask(
        &mut self,
        now: Instant,
        work: Work,
        asker: Asker,
        question: Question,
        limit: Duration,
    ) -> QuestionId {
        let id = self.announce(now, question, limit);
        let asker = Some(asker);
        self.asked.insert(id, Asked { work, asker });
        id
    }

    fn announce(&mut self, now: Instant, question: Question, limit: Duration) -> QuestionId {
        self.last += 1;
        let id = QuestionId(self.last);
        self.orders
            .push_back(Order::Act(Action::Ask { id, question }));
        self.orders
            .push_back(Order::Limit(id, now.checked_add(limit)));
        id
    }

    /// Ends a question, because of its answer or because its limit has passed. Returns who waits
    /// for it; `None` if nobody does. A question that occupies a thread is not withdrawn when its
    /// limit has passed: it counts as running until it is answered.
    pub(in crate::client) fn end(
        &mut self,
        now: Instant,
        id: QuestionId,
        is_answered: bool,
    ) -> Option<Asker> {
        if let Some(ended) = self.programs.end(id, is_answered) {
            if ended.is_withdrawn {
                let withdraw = Action::Withdraw { question: id };
                self.orders.push_back(Order::Act(withdraw));
            }
            let operation = ended.operation?;
            self.orders.push_back(Order::Limit(id, None));
            return Some(Asker::Operation(operation));
        }
        let asked = self.asked.get_mut(&id)?;
        let mut asker = asked.asker.take();
        if asker.is_some() {
            self.orders.push_back(Order::Limit(id, None));
        }
        if is_answered || asked.work.is_stoppable() {
            self.asked.remove(&id);
            if !is_answered {
                let withdraw = Action::Withdraw { question: id };
                self.orders.push_back(Order::Act(withdraw));
            }
        }
        if let (true, Some(Asker::Keys { name, waiting, .. })) = (is_answered, &mut asker) {
            self.take_queued_keys(*name, waiting);
        }
        self.ask_next(now);
        asker
    }

    /// Withdraws the questions of the askers for which `wanted` is true.
    pub(in crate::client) fn withdraw(&mut self, wanted: impl Fn(&Asker) -> bool) {
        let is_wanted = |asked: &Asked| asked.asker.as_ref().is_some_and(&wanted);
        let wanted = self.asked.iter().filter(|(_, asked)| is_wanted(asked));
        let withdrawn: Vec<QuestionId> = wanted.map(|(&id, _)| id).collect();
        for id in withdrawn {
            self.asked.remove(&id);
            self.forget_question(id);
        }
    }

    /// Withdraws all questions, and forgets the connections that wait for answers.
    pub(in crate::client) fn withdraw_all(&mut self) {
        self.queued_keys.clear();
        self.queued_steps.clear();
        self.fetches.give_up();
        self.checks.give_up();
        let asked = std::mem::take(&mut self.asked).into_keys();
        for id in asked.chain(self.programs.take_all()) {
            self.forget_question(id);
        }
    }

    /// Withdraws all questions in a forked child process, whose fetches use `random` from now on.
    pub(in crate::client) fn reseed(&mut self, random: Random) {
        self.withdraw_all();
        self.fetches.reseed(random);
    }

    fn forget_question(&mut self, question: QuestionId) {
        self.orders
            .push_back(Order::Act(Action::Withdraw { question }));
        self.orders.push_back(Order::Limit(question, None));
    }

    /// Removes a connection that is no longer driven. A derivation, a fetch or a check that runs
    /// for this connection continues, and the next connection can use its result.
    pub(in crate::client) fn forget(&mut self, socket: SocketId) {
        self.queued_keys.retain(|queued| queued.socket != socket);
        self.queued_steps.retain(|queued| queued.socket != socket);
        for (&id, asked) in &mut self.asked {
            match &mut asked.asker {
                Some(Asker::Keys { waiting, .. }) => waiting.retain(|&waiting| waiting != socket),
                Some(Asker::KerberosStep(waiting)) if *waiting == socket => {
                    asked.asker = None;
                    self.orders.push_back(Order::Limit(id, None));
                }
                _ => {}
            }
        }
        self.fetches.forget(socket);
        self.checks.forget(&socket);
    }

    /// Asks the questions of the queues for which there is room.
    fn ask_next(&mut self, now: Instant) {
        self.ask_for_steps(now);
        let queued = self.queued_keys.iter().enumerate();
        let mut permitted = queued.filter(|(_, queued)| self.may_derive(queued.server));
        // By turns the shortest and the oldest. So servers that demand many iterations do not delay
        // those that demand few, and no question waits for ever.
        let next = if self.prefers_oldest {
            permitted.next()
        } else {
            permitted.min_by_key(|(_, queued)| queued.work.iterations())
        };
        if let Some((place, _)) = next {
            self.prefers_oldest = !self.prefers_oldest;
            self.ask_for_keys(now, place);
        }
    }

    /// True if a derivation for this server may begin while the others run.
    fn may_derive(&self, server: ServerId) -> bool {
        let asked = self.asked.values();
        let mut running = asked.filter(|asked| asked.work == Work::Derivation);
        let is_same = |asked: &Asked| match &asked.asker {
            Some(Asker::Keys { server: other, .. }) => *other == server,
            _ => false,
        };
        running.clone().count() < MAX_DERIVATIONS && !running.any(is_same)
    }

    fn ask_for_keys(&mut self, now: Instant, place: usize) {
        let next = self.queued_keys.remove(place);
        let (name, server) = (next.work.name(), next.server);
        let mut waiting = vec![next.socket];
        self.take_queued_keys(name, &mut waiting);
        self.orders
            .extend(waiting.iter().copied().map(Order::Begun));
        let asker = Asker::Keys {
            name,
            server,
            waiting,
        };
        let question = Question::DeriveKeys(next.work);
        self.ask(now, Work::Derivation, asker, question, QUESTION_LIMIT);
    }

    /// Moves the connections in the queue that need these keys to `waiting`.
    fn take_queued_keys(&mut self, name: KeyName, waiting: &mut Vec<SocketId>) {
        let is_same = |queued: &mut Queued<KeyDerivation>| queued.work.name() == name;
        let same = self.queued_keys.extract_if(.., is_same);
        waiting.extend(same.map(|queued| queued.socket));
    }

    fn ask_for_steps(&mut self, now: Instant) {
        while let Some(place) = self.next_step() {
            let next = self.queued_steps.remove(place);
            // The other servers come first at the next turn.
            self.queued_steps
                .sort_by_key(|queued| queued.server == next.server);
            self.orders.push_back(Order::Begun(next.socket));
            let work = Work::KerberosStep(next.server);
            let asker = Asker::KerberosStep(next.socket);
            let question = Question::KerberosStep(next.work);
            self.ask(now, work, asker, question, QUESTION_LIMIT);
        }
    }

    /// Returns the place of the first step in the queue that may begin while the others run.
    fn next_step(&self) -> Option<usize> {
        let running = self.asked.values().filter_map(|asked| match asked.work {
            Work::KerberosStep(server) => Some(server),
            _ => None,
        });
        let running: BTreeSet<ServerId> = running.collect();
        let mut queued = self.queued_steps.iter();
        let place = queued.position(|queued| !running.contains(&queued.server));
        place.filter(|_| running.len() < MAX_KERBEROS_STEPS)
    }

    /// True if a thread is still occupied by an inquiry whose limit has passed.
    pub(in crate::client) fn has_overdue_inquiry(&self) -> bool {
        let is_overdue = |asked: &Asked| asked.work == Work::Blocking && asked.asker.is_none();
        self.asked.values().any(is_overdue)
    }

    /// Returns the questions that were asked and not answered.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(in crate::client) fn asked(&self) -> Vec<QuestionId> {
        let asked = self.asked.keys().copied();
        let mut asked: Vec<_> = asked.chain(self.programs.ids()).collect();
        asked.sort();
        asked
    }

    /// Returns the number of connections that wait for an answer.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(in crate::client) fn waiting(&self) -> usize {
        let waiting = self.asked.values().map(|asked| match &asked.asker {
            Some(Asker::Keys { waiting, .. }) => waiting.len(),
            Some(Asker::KerberosStep(_)) => 1,
            _ => 0,
        });
        let queued = self.queued_keys.len() + self.queued_steps.len();
        waiting.sum::<usize>() + queued + self.fetches.waiting() + self.checks.waiting()
    }

    #[cfg(test)]
    pub(in crate::client) fn is_empty(&self) -> bool {
        self.asked().is_empty() && self.queued_keys.is_empty() && self.queued_steps.is_empty()
    }
}
