//! The shell of a client in random tests: its state, and the invariants between two inputs.

use super::{server::Servers, *};
use crate::{
    auth::KeyDerivation,
    operation::{Ask, OperationId, Span},
    sdam::MIN_HEARTBEAT_FREQUENCY,
    selection::{SelectorQuestion, suitable},
};

/// A client and the state of its shell: sockets, unanswered requests, operations and exchanges.
pub(super) struct RandomHarness {
    pub(super) client: Client,
    contract: Contract,
    pub(super) now: Instant,
    /// Sockets that were dialled and are not connected.
    pub(super) dialling: Vec<SocketId>,
    /// Requests without a reply, each with its socket.
    pub(super) unanswered: Vec<(SocketId, Vec<u8>)>,
    /// Sockets that were not closed.
    pub(super) open: BTreeSet<SocketId>,
    /// For each socket, the request id of the exchange that was checked in last. A drain removes
    /// the entry.
    pub(super) left: BTreeMap<SocketId, i32>,
    /// Draining sockets, each with the id of the request whose reply is outstanding.
    pub(super) draining: BTreeMap<SocketId, i32>,
    /// Operations that wait.
    pub(super) waiting: Vec<OperationId>,
    pub(super) exchanges: Vec<Exchange>,
    /// After a fork, the sockets of the parent process.
    parent_sockets: BTreeSet<SocketId>,
    interrupted: BTreeSet<SocketId>,
    pub(super) servers: Servers,
    /// Questions of the client that are not answered. Those of programs have no derivation.
    pub(super) questions: BTreeMap<QuestionId, Option<KeyDerivation>>,
    /// The part of `questions` that the client has withdrawn.
    withdrawn: BTreeSet<QuestionId>,
    /// Server selector questions that are not answered.
    pub(super) asking: BTreeMap<OperationId, SelectorQuestion>,
    /// Operations that were woken and have not resumed.
    pub(super) woken: BTreeSet<OperationId>,
    /// The result of the next idle checks. The function `check_idle_connection` defines the
    /// numbers.
    pub(super) idle_check: u8,
    extra: Extra,
}

impl Peer for RandomHarness {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: Some(&mut self.contract),
            now: self.now,
        }
    }

    fn dialled(&mut self, socket: SocketId, _: Address) {
        assert!(self.open.insert(socket));
        self.dialling.push(socket);
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        assert!(!self.parent_sockets.contains(&socket), "it is the parent's");
        self.unanswered.push((socket, bytes));
    }

    fn closed(&mut self, socket: SocketId) {
        assert!(self.open.remove(&socket), "it is closed twice");
        self.dialling.retain(|&s| s != socket);
        self.unanswered.retain(|(s, _)| *s != socket);
        self.draining.remove(&socket);
    }

    fn interrupted(&mut self, socket: SocketId, _: Error) {
        let mut exchanges = self.exchanges.iter();
        let is_in_use = exchanges.any(|exchange| exchange.socket() == socket);
        assert!(is_in_use, "it is no exchange's");
        self.interrupted.insert(socket);
    }

    fn drained(&mut self, socket: SocketId) {
        assert!(!self.parent_sockets.contains(&socket), "it is the parent's");
        let id = self.left.remove(&socket).expect("it was left in its midst");
        self.draining.insert(socket, id);
    }

    fn asked(&mut self, id: QuestionId, question: Question) {
        let derivation = match question {
            Question::DeriveKeys(derivation) => Some(derivation),
            Question::Inquire(_) => None,
            _ => panic!("no seed list is looked up"),
        };
        assert!(self.questions.insert(id, derivation).is_none());
    }

    fn withdrawn(&mut self, question: QuestionId) {
        let is_new = self.withdrawn.insert(question);
        assert!(is_new && self.questions.contains_key(&question));
    }

    fn woken(&mut self, operation: OperationId) {
        assert!(self.client.attempts.operations.get(operation).is_some());
        self.woken.insert(operation);
    }
}

impl RandomHarness {
    pub(super) fn new(client: Client, extra: Extra) -> Self {
        let mut play = Self {
            client,
            contract: Contract::default(),
            now: Instant::ZERO,
            dialling: Vec::new(),
            unanswered: Vec::new(),
            open: BTreeSet::new(),
            left: BTreeMap::new(),
            draining: BTreeMap::new(),
            waiting: Vec::new(),
            exchanges: Vec::new(),
            parent_sockets: BTreeSet::new(),
            interrupted: BTreeSet::new(),
            servers: Servers::default(),
            questions: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            asking: BTreeMap::new(),
            woken: BTreeSet::new(),
            idle_check: 0,
            extra,
        };
        play.client.open(play.now);
        play.drain();
        play
    }

    pub(super) fn drain(&mut self) {
        harness::drain(self);
        assert_eq!(
            self.client.counts().in_use.saturating_sub(self.granted()),
            self.in_use().len()
        );
        let drains = draining(&self.client);
        assert!(self.draining.keys().all(|socket| drains.contains(socket)));
        assert_eq!(self.client.counts().waiting, self.waiting.len());
        let asked = self.questions.keys();
        let wanted = asked.filter(|id| !self.withdrawn.contains(id)).copied();
        assert!(self.client.snapshot().questions.into_iter().eq(wanted));
        assert!(exchange_limits(&self.client).len() <= self.exchanges.len());
        invariants::assert_agree(&self.client);
        self.check_wakes();
        self.check_waits();
    }

    /// Asserts that each operation whose task has to act was woken, or that its task has a server
    /// selector question.
    fn check_wakes(&mut self) {
        let snapshot = self.client.snapshot();
        for waiting in &snapshot.operations {
            let is_reported = match waiting.state {
                OperationState::Granted(_) | OperationState::Answered | OperationState::Failed => {
                    false
                }
                OperationState::Asking => self.asking.contains_key(&waiting.id),
                _ => continue,
            };
            assert!(
                is_reported || self.woken.contains(&waiting.id),
                "{waiting:?}"
            );
        }
    }

    /// Asserts that no operation waits for server selection while a known server is suitable
    /// (SEL-36, MON-18), or longer than its limit (SEL-35). While an operation waits, the servers
    /// are checked again (SDAM-119).
    fn check_waits(&self) {
        let client = &self.client;
        if client.settings.scanning.is_some() {
            // A client that checks servers on demand waits for scans, even while a suitable server
            // is known (MON-25).
            return;
        }
        let selection = client.settings.selection;
        let all = wait_limits(client);
        let mut limited = BTreeSet::new();
        let mut is_asking = false;
        for waiting in client.snapshot().operations {
            let id = waiting.id;
            let in_time =
                |limit: Instant| waiting.deadline.is_none_or(|deadline| limit <= deadline);
            if let (OperationState::Granted(_), Some(deadline)) = (&waiting.state, waiting.deadline)
            {
                assert_eq!(all.get(&id), Some(&deadline));
                limited.insert(id);
            }
            let is_paused = matches!(waiting.state, OperationState::Paused(_));
            if !is_paused && waiting.state != OperationState::ForServer {
                continue;
            }
            is_asking |= !is_paused;
            let limit = *all.get(&id).expect("there is one by default");
            if is_paused {
                // A pause between two attempts lasts at most 500 ms in this test.
                assert!(limit <= self.now + MIN_HEARTBEAT_FREQUENCY);
            } else {
                let criteria = waiting.criteria.as_ref().expect("it did not fail");
                let suitable = suitable(client.topology(), criteria, selection, &[]);
                let suits = suitable.map(|servers| servers.len());
                assert!(
                    suits == Ok(0) || self.extra == Extra::Selector,
                    "{criteria}"
                );
            }
            assert!(limit <= self.now + selection, "it was renewed");
            assert!(in_time(limit));
            limited.insert(id);
        }
        assert!(all.keys().eq(&limited));
        let pace = self.now + MIN_HEARTBEAT_FREQUENCY;
        let is_asked = client.topology.deadline().is_some_and(|at| at <= pace);
        assert!(!is_asking || client.topology().servers.is_empty() || is_asked);
    }

    fn granted(&self) -> usize {
        let operations = self.client.snapshot().operations.into_iter();
        operations
            .filter(|waiting| matches!(waiting.state, OperationState::Granted(_)))
            .count()
    }

    pub(super) fn started(&mut self, start: Progress) {
        match start {
            Progress::Asking {
                operation,
                question,
            } => {
                assert_eq!(self.extra, Extra::Selector);
                self.waiting.push(operation);
                self.asking.insert(operation, question);
            }
            Progress::Exchange(mut exchange) => {
                assert!(self.open.contains(&exchange.socket()));
                assert!(!self.parent_sockets.contains(&exchange.socket()));
                assert!(
                    self.exchanges
                        .iter()
                        .all(|l| l.socket() != exchange.socket())
                );
                if let Err(error) = self.check_idle_connection(&mut exchange) {
                    let start = self.client.refuse(self.now, exchange, error);
                    return self.started(start);
                }
                match exchange.begin(self.now) {
                    Ok(_) => self.exchanges.push(exchange),
                    // The time limit passed while the operation waited. Nothing was sent, so the
                    // connection can be used again.
                    Err(error) => {
                        assert!(error.is_timeout(), "{error}");
                        let outcome = Outcome::Failed(error);
                        let after = self.client.check_in(self.now, exchange, outcome);
                        assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
                    }
                }
            }
            Progress::Waiting(id) => self.waiting.push(id),
            Progress::Answered(_) | Progress::Failed(_) => {}
        }
    }

    /// Reports a fork. Asserts that of the parent's connections, only those in use are open
    /// afterwards.
    pub(super) fn fork(&mut self) {
        self.parent_sockets = self.open.clone();
        self.client.handle_forked(self.now, &Seed::new([9; 32]));
        self.drain();
        let in_use = self.in_use();
        let left = self.open.intersection(&self.parent_sockets).copied();
        assert!(left.eq(in_use));
    }

    /// Reports bytes on a draining connection: the end of the stream, a wrong message or the late
    /// reply.
    pub(super) fn late(&mut self, which: usize, what: u8) {
        let place = which % self.draining.len().max(1);
        let Some((&socket, &id)) = self.draining.iter().nth(place) else {
            return;
        };
        let mut bytes = Vec::new();
        let answered = if what == 1 { id + 1 } else { id };
        MessageWriter::begin(&mut bytes, 1, answered)
            .body(&primary())
            .end();
        let socket_use = match what {
            0 => self.client.handle_received(self.now, socket, &[]),
            1 => self.client.handle_received(self.now, socket, &bytes),
            _ => {
                let (head, tail) = bytes.split_at(30);
                let socket_use = self.client.handle_received(self.now, socket, head);
                assert_eq!(socket_use, SocketUse::Open);
                self.client.handle_received(self.now, socket, tail)
            }
        };
        let connections = self.client.snapshot().connections;
        let is_closed = connections.iter().all(|(open, _)| *open != socket);
        assert_eq!(socket_use == SocketUse::Closed, is_closed);
        // After a complete reply, the connection is closed if a clear has made it stale.
        assert!(
            is_closed || (what >= 2 && socket_use == SocketUse::Parked),
            "{socket_use:?}"
        );
        self.draining.remove(&socket);
    }

    pub(super) fn end(&mut self) {
        self.client.close(self.now);
        self.drain();
        while !self.exchanges.is_empty() {
            self.apply(Input::CheckIn {
                which: 0,
                outcome: 5,
            });
        }
        while let Some(id) = self.waiting.pop() {
            let start = self.client.resume(self.now, id);
            let is_over = matches!(start, Progress::Failed(_) | Progress::Answered(_));
            assert!(is_over, "{start:?}");
        }
        self.drain();
        assert!(self.client.is_terminated() && self.open.is_empty());
        assert_empty(&self.client);
    }

    /// Probes a connection that was idle.
    fn check_idle_connection(&self, exchange: &mut Exchange) -> Result<(), Error> {
        if !exchange.wants_idle_check() {
            return Ok(());
        }
        match self.idle_check {
            0 => exchange.handle_idle_check(None),
            1 => exchange.handle_idle_check(Some(&[])),
            2 => exchange.handle_idle_check(Some(&[1, 2, 3])),
            // A shell may omit the idle check.
            _ => Ok(()),
        }
    }

    /// Asks a question for a program, which can occupy a thread.
    pub(super) fn ask(&mut self, is_held: bool, is_blocking: bool, timeout: Option<u16>) {
        let inquiry = match is_blocking {
            true => Inquiry::File("a".to_owned()),
            false => Inquiry::Environment(&["A"]),
        };
        let timeout = timeout.map(|ms| Duration::from_millis(ms.into()));
        let ask = Ask { inquiry, timeout };
        // A question can be asked while a program reads a reply.
        let mut held = self.exchanges.pop_if(|_| is_held);
        let span = &mut Span::default();
        let start = self.client.ask_in(self.now, span, ask, held.as_mut());
        self.exchanges.extend(held);
        self.started(start);
    }

    /// Answers a question, possibly twice or after the client has withdrawn it.
    pub(super) fn answer(&mut self, which: usize, what: u8) {
        let place = which % self.questions.len();
        let id = *self.questions.keys().nth(place).expect("it is one of them");
        let derivation = self.questions.remove(&id).expect("it was asked");
        self.withdrawn.remove(&id);
        let answer = match (what, derivation) {
            (0, _) => Answer::None,
            (_, Some(derivation)) => Answer::Keys(derivation.derive()),
            (_, None) => Answer::Found(Err("nothing was found".to_owned())),
        };
        self.client.handle_answer(self.now, id, answer);
        if what == 1 {
            self.client.handle_answer(self.now, id, Answer::None);
        }
    }

    /// Answers a server selector question, possibly after its operation was cancelled.
    pub(super) fn narrow(&mut self, which: usize) {
        let place = which % self.asking.len();
        let id = *self.asking.keys().nth(place).expect("it is one of them");
        let question = self.asking.remove(&id).expect("it was asked");
        let start = self
            .client
            .handle_selector_answer(self.now, id, question.ask());
        match self.waiting.iter().position(|&waiting| waiting == id) {
            Some(place) => {
                self.waiting.remove(place);
                self.started(start);
            }
            None => assert!(matches!(start, Progress::Failed(_)), "{start:?}"),
        }
    }

    /// Returns the sockets of the exchanges, except those whose connections were taken back.
    fn in_use(&self) -> BTreeSet<SocketId> {
        let sockets = self.exchanges.iter().map(Exchange::socket);
        sockets.filter(|s| self.open.contains(s)).collect()
    }

    pub(super) fn abandon(&mut self) {
        self.interrupted.clear();
        let was_over = self.client.is_terminated();
        let why = Error::runtime("the runtime has ended");
        let is_first = self.client.life.lost().is_none();
        self.client.abandon(self.now, &why);
        self.drain();
        if is_first && !was_over {
            assert!(self.in_use().is_subset(&self.interrupted));
        }
    }
}
