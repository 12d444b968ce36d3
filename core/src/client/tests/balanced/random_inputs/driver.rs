//! The shell of a client behind a load balancer in random tests: its state, and the invariants
//! between two inputs.

use super::*;
use crate::{
    client::attempts::operations::Waiting,
    error::{ErrorKind, Label},
    operation::{OperationId, Program, Step},
    options::Monitoring,
    pool::PoolState,
    session::SessionId,
};

const TEXT: &str = "mongodb://lb/?loadBalanced=true&maxPoolSize=3&minPoolSize=1\
                    &connectTimeoutMS=2000&waitQueueTimeoutMS=3000";

/// The kind of an operation, which decides how the harness handles the reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Purpose {
    Plain,
    Open,
    /// A `getMore` of the cursor with this key, which is pinned to this socket.
    More {
        key: u32,
        socket: SocketId,
    },
    /// A `killCursors` of a cursor that is pinned to this socket, if one is given.
    Kill(Option<SocketId>),
    Transact {
        key: u32,
        opens_cursor: bool,
    },
}

/// An open cursor and the socket that it is pinned to.
pub(super) struct PinnedCursor {
    pub(super) cursor: Cursor,
    pub(super) socket: SocketId,
    /// True while a `getMore` is under way.
    pub(super) is_busy: bool,
}

/// A session with a transaction.
pub(super) struct Transaction {
    pub(super) session: SessionId,
    /// The socket to which the transaction is pinned; `None` before its first command.
    pub(super) socket: Option<SocketId>,
}

/// The numbers of pool events so far.
#[derive(Debug, Default)]
pub(super) struct PoolEventTotals {
    pub(super) started: usize,
    pub(super) out: usize,
    pub(super) failed: usize,
    pub(super) back: usize,
    pub(super) created: usize,
    pub(super) closed: usize,
}

/// A client and the state of its shell: sockets, operations, exchanges, cursors and transactions.
pub(super) struct RandomHarness {
    pub(super) client: Client,
    contract: Contract,
    pub(super) now: Instant,
    pub(super) dialling: Vec<SocketId>,
    pub(super) unanswered: Vec<(SocketId, i32)>,
    pub(super) open: BTreeSet<SocketId>,
    pub(super) left: BTreeMap<SocketId, i32>,
    pub(super) draining: BTreeMap<SocketId, i32>,
    pub(super) waiting: BTreeMap<OperationId, Purpose>,
    pub(super) exchanges: Vec<(Exchange, Purpose)>,
    pub(super) cursors: BTreeMap<u32, PinnedCursor>,
    pub(super) transactions: BTreeMap<u32, Transaction>,
    pub(super) next_key: u32,
    /// After a fork, the sockets of the parent process.
    pub(super) parent_sockets: BTreeSet<SocketId>,
    pub(super) interrupted: BTreeSet<SocketId>,
    /// The number of forks so far.
    pub(super) forks: u8,
    pub(super) event_counts: PoolEventTotals,
    /// The result of the next idle checks. The function `exchange_of` defines the numbers.
    pub(super) idle_check: u8,
}

pub(super) fn nth<K: Copy + Ord, V>(map: &BTreeMap<K, V>, which: usize) -> Option<K> {
    map.keys().nth(which % map.len().max(1)).copied()
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
        assert!(!self.parent_sockets.contains(&socket));
        let header = Header::decode(&bytes, 1 << 20).expect("a request");
        self.unanswered.push((socket, header.request_id));
    }

    fn closed(&mut self, socket: SocketId) {
        assert!(self.open.remove(&socket), "it is closed twice");
        self.dialling.retain(|&s| s != socket);
        self.unanswered.retain(|&(s, _)| s != socket);
        self.draining.remove(&socket);
    }

    fn interrupted(&mut self, socket: SocketId, _: Error) {
        self.interrupted.insert(socket);
    }

    fn ran(&mut self, command: Command) {
        // The abort of a session that was dropped.
        self.client.discard(self.now, command);
    }

    fn drained(&mut self, socket: SocketId) {
        assert!(!self.parent_sockets.contains(&socket));
        let id = self.left.remove(&socket).expect("it was left in its midst");
        self.draining.insert(socket, id);
    }
}

impl RandomHarness {
    pub(super) fn new(monitoring: Monitoring, seed: u8) -> Self {
        let parsed = uri::parse_for(TEXT, monitoring).expect("a connection string");
        let config = ClientConfig::new(parsed.options, Seed::new([seed; 32]))
            .expect("options")
            .with_subscriptions(Subscriptions::all());
        let mut play = Self {
            client: Client::new(config),
            contract: Contract::default(),
            now: Instant::ZERO,
            dialling: Vec::new(),
            unanswered: Vec::new(),
            open: BTreeSet::new(),
            left: BTreeMap::new(),
            draining: BTreeMap::new(),
            waiting: BTreeMap::new(),
            exchanges: Vec::new(),
            cursors: BTreeMap::new(),
            transactions: BTreeMap::new(),
            next_key: 0,
            parent_sockets: BTreeSet::new(),
            interrupted: BTreeSet::new(),
            forks: 0,
            event_counts: PoolEventTotals::default(),
            idle_check: 0,
        };
        play.client.open(play.now);
        play.drain();
        play
    }

    pub(super) fn drain(&mut self) {
        harness::drain(self);
        self.listen();
        self.check_counts_and_pins();
        invariants::assert_agree(&self.client);
    }

    pub(super) fn listen(&mut self) {
        while let Some(event) = self.client.poll_event() {
            let event_counts = &mut self.event_counts;
            let EventKind::Pool(event) = event.kind else {
                continue;
            };
            match event {
                PoolEvent::CheckOutStarted { .. } => event_counts.started += 1,
                PoolEvent::CheckedOut { .. } => event_counts.out += 1,
                PoolEvent::CheckOutFailed { .. } => event_counts.failed += 1,
                PoolEvent::CheckedIn { .. } => event_counts.back += 1,
                PoolEvent::ConnectionCreated { .. } => event_counts.created += 1,
                PoolEvent::ConnectionClosed { .. } => event_counts.closed += 1,
                PoolEvent::Cleared { service, .. } => assert!(service.is_some(), "all of it"),
                _ => {}
            }
        }
    }

    /// Asserts the invariants between two inputs.
    pub(super) fn check_counts_and_pins(&self) {
        let client = &self.client;
        let due = client.exact_deadline();
        let armed = client.deadline();
        assert!(due.is_none() || armed.is_some_and(|at| Some(at) <= due));
        let snapshot = client.snapshot();
        let waiting = snapshot.operations.iter().map(|waiting| &waiting.id);
        assert!(waiting.eq(self.waiting.keys()));
        assert_eq!(client.counts().sockets, self.open.len());
        assert!(exchange_limits(client).len() <= self.exchanges.len());
        let pinned: BTreeSet<SocketId> = snapshot.pins.iter().map(|pin| pin.socket).collect();
        let drains = draining(client);
        for socket in self.draining.keys() {
            // If the drain of a pinned connection fails, the connection stays pinned and is not
            // closed.
            assert!(drains.contains(socket) || pinned.contains(socket));
        }
        let asking = snapshot.operations.iter();
        let asking =
            asking.filter(|waiting| matches!(waiting.state, OperationState::ForConnection(_)));
        let PoolEventTotals {
            started,
            out,
            failed,
            back,
            created,
            closed,
        } = self.event_counts;
        assert_eq!(started, out + failed + asking.count());
        assert_eq!(client.counts().in_use, out - back);
        assert_eq!(created - closed, self.open.len());
        // Every connection in use has an exchange, a grant or a pin.
        let granted = |waiting: &&WaitingOperation| {
            waiting.pin.is_none() && matches!(waiting.state, OperationState::Granted(_))
        };
        let granted = snapshot.operations.iter().filter(granted).count();
        let in_use = self.in_use();
        let plain = in_use.difference(&pinned);
        assert_eq!(
            client.counts().in_use,
            granted + plain.count() + pinned.len()
        );
        self.check_pins(&snapshot);
    }

    /// Returns the sockets of the exchanges, except those whose connections were taken back.
    pub(super) fn in_use(&self) -> BTreeSet<SocketId> {
        let sockets = self.exchanges.iter().map(|(exchange, _)| exchange.socket());
        sockets
            .filter(|socket| self.open.contains(socket))
            .collect()
    }

    /// Asserts that the pins agree with the exchanges and with the waiting operations.
    pub(super) fn check_pins(&self, snapshot: &Snapshot) {
        for pinned in &snapshot.pins {
            let socket = pinned.socket;
            let in_use = self
                .exchanges
                .iter()
                .filter(|(exchange, _)| exchange.socket() == socket);
            let granted = snapshot.operations.iter().filter(|waiting| {
                waiting.pin == Some(socket) && matches!(waiting.state, OperationState::Granted(_))
            });
            let users = in_use.count() + granted.count();
            let is_in_use = pinned.state == PinState::InUse;
            assert_eq!(users, usize::from(is_in_use), "{pinned:?}");
            assert!(is_in_use || pinned.holders > 0, "{pinned:?}");
        }
        for waiting in &snapshot.operations {
            if let OperationState::ForPin(socket) = waiting.state {
                let mut pins = snapshot.pins.iter();
                let pinned = pins.find(|pinned| pinned.socket == socket);
                let state = pinned.map(|pinned| pinned.state);
                let is_taken = matches!(state, Some(PinState::Draining | PinState::InUse));
                assert!(is_taken, "{state:?}");
            }
        }
        let open = |pool: &&PoolSnapshot| pool.state != PoolState::Closed;
        let mut open = snapshot.pools.iter().filter(open);
        assert!(open.all(|pool| pool.state == PoolState::Ready));
    }

    pub(super) fn begin(&mut self, mut command: Command, timeout: Option<u16>, purpose: Purpose) {
        command.set_timeout(timeout.map(|ms| Duration::from_millis(ms.into())));
        let start = self.client.start(self.now, command);
        self.started(start, purpose);
    }

    pub(super) fn started(&mut self, start: Progress, purpose: Purpose) {
        match start {
            Progress::Asking { .. } | Progress::Answered(_) => {
                panic!("neither a selector nor a program asks here")
            }
            Progress::Exchange(exchange) => self.exchange_of(exchange, purpose),
            Progress::Waiting(id) => {
                self.waiting.insert(id, purpose);
            }
            Progress::Failed(error) => self.failed(purpose, &error),
        }
    }

    pub(super) fn exchange_of(&mut self, mut exchange: Exchange, purpose: Purpose) {
        let socket = exchange.socket();
        assert!(self.open.contains(&socket));
        assert!(!self.parent_sockets.contains(&socket), "it is the parent's");
        assert!(self.exchanges.iter().all(|(l, _)| l.socket() != socket));
        // A transaction runs one command at a time. Only its cursors can be closed meanwhile, and
        // it can be aborted.
        let session = |exchange: &Exchange| {
            let request = &exchange.operation.request;
            let is_end = matches!(request.name(), "killCursors" | "abortTransaction");
            request.lsid.filter(|_| !is_end)
        };
        let own = session(&exchange);
        let others = || {
            self.exchanges
                .iter()
                .filter_map(|(exchange, _)| session(exchange))
        };
        assert!(own.is_none_or(|own| others().all(|id| id != own)));
        self.unpin_failed();
        let expected = match purpose {
            Purpose::More { socket, .. } => Some(socket),
            Purpose::Kill(socket) => socket,
            Purpose::Transact { key, .. } => self.transactions.get(&key).and_then(|t| t.socket),
            Purpose::Plain | Purpose::Open => None,
        };
        match expected {
            Some(expected) => assert_eq!(socket, expected),
            // The owner may release the pin while a command waits to be resumed. The command then
            // runs on the pinned connection.
            None if exchange.operation.request.pinned().is_some() => {}
            None => self.assert_free(socket),
        }
        if exchange.wants_idle_check() {
            let found = [None, Some(&[][..]), Some(&[1, 2][..])];
            let found = found.get(usize::from(self.idle_check)).copied();
            if let Some(Err(error)) = found.map(|found| exchange.handle_idle_check(found)) {
                let start = self.client.refuse(self.now, exchange, error);
                return self.started(start, purpose);
            }
        }
        if let Purpose::Transact { key, .. } = purpose
            && !exchange.is_preliminary()
            && let Some(transaction) = self.transactions.get_mut(&key)
        {
            transaction.socket = Some(socket);
        }
        match exchange.begin(self.now) {
            Ok(_) => self.exchanges.push((exchange, purpose)),
            Err(error) => self.check_in(exchange, purpose, Outcome::Failed(error)),
        }
    }

    /// Asserts that no cursor and no transaction has pinned this connection (LB-41).
    pub(super) fn assert_free(&self, socket: SocketId) {
        assert!(self.cursors.values().all(|kept| kept.socket != socket));
        let mut transactions = self.transactions.values();
        assert!(transactions.all(|t| t.socket != Some(socket)));
    }

    pub(super) fn failed(&mut self, purpose: Purpose, error: &Error) {
        if let Purpose::More { key, .. } = purpose
            && let Some(kept) = self.cursors.get_mut(&key)
        {
            kept.is_busy = false;
            kept.cursor.handle_failure(error);
        }
        if error.has_label(&Label::TransientTransactionError) {
            self.unpin(purpose);
        }
    }

    fn unpin(&mut self, failed: Purpose) {
        // A `getMore` in a transaction unpins it as well.
        let pinned = match failed {
            Purpose::More { socket, .. } => Some(socket),
            _ => self.kept_by(failed),
        };
        let mut transactions = self.transactions.values_mut();
        if let Some(unpinned) = transactions.find(|t| pinned.is_some() && t.socket == pinned) {
            unpinned.socket = None;
        }
    }

    /// Unpins the transactions of operations that have failed and were not resumed yet.
    fn unpin_failed(&mut self) {
        let operations = &self.client.attempts.operations;
        let has_failed = |id: &OperationId| match operations.get(*id) {
            Some(Waiting::Failed(error)) => error.has_label(&Label::TransientTransactionError),
            _ => false,
        };
        let failed = self.waiting.iter().filter(|(id, _)| has_failed(id));
        let failed: Vec<_> = failed.map(|(_, purpose)| *purpose).collect();
        for purpose in failed {
            self.unpin(purpose);
        }
    }

    pub(super) fn check_in(&mut self, mut exchange: Exchange, purpose: Purpose, outcome: Outcome) {
        let is_well = outcome == Outcome::Completed && exchange.outcome().is_ok();
        let is_well = is_well && !exchange.is_preliminary();
        let socket = exchange.socket();
        let mut opened = None;
        let mut batch = None;
        match purpose {
            Purpose::Open
            | Purpose::Transact {
                opens_cursor: true, ..
            } if is_well => {
                opened = Cursor::from_exchange(&mut exchange, "db".into()).ok();
            }
            Purpose::More { key, .. } if is_well => {
                batch = self.take_batch(key, &mut exchange);
            }
            _ => {}
        }
        let is_left = outcome == Outcome::Abandoned;
        let error = exchange.outcome().err();
        let is_overload = error.is_some_and(|e| e.has_label(&Label::SystemOverloadedError));
        match self.client.check_in(self.now, exchange, outcome) {
            AfterExchange::Again(start) => {
                assert!(
                    is_overload || self.kept_by(purpose).is_none(),
                    "what is pinned is tried again after overload only"
                );
                self.started(start, purpose);
            }
            AfterExchange::Done(Err(error)) => self.failed(purpose, &error),
            AfterExchange::Done(Ok(())) if is_left => {
                self.failed(purpose, &ErrorKind::Abandoned.into());
            }
            AfterExchange::Done(Ok(())) => {
                if let Some(cursor) = opened {
                    self.keep(cursor, socket);
                } else if let Purpose::More { key, .. } = purpose {
                    self.go_on(key, batch);
                }
            }
        }
    }

    pub(super) fn kept_by(&self, purpose: Purpose) -> Option<SocketId> {
        match purpose {
            Purpose::Transact { key, .. } => self.transactions.get(&key)?.socket,
            _ => None,
        }
    }

    pub(super) fn keep(&mut self, mut cursor: Cursor, socket: SocketId) {
        if !cursor.is_open() {
            let resources = cursor.end().expect_err("the server has no cursor");
            return self.client.release_cursor(self.now, resources);
        }
        self.next_key += 1;
        let kept = PinnedCursor {
            cursor,
            socket,
            is_busy: false,
        };
        self.cursors.insert(self.next_key, kept);
    }

    fn take_batch(&mut self, key: u32, exchange: &mut Exchange) -> Option<Step<bool>> {
        Some(self.cursors.get_mut(&key)?.cursor.handle_reply(exchange))
    }

    /// Takes the next step of a cursor after a batch, possibly another `getMore`.
    fn go_on(&mut self, key: u32, step: Option<Step<bool>>) {
        let (Some(kept), Some(step)) = (self.cursors.get_mut(&key), step) else {
            return;
        };
        kept.is_busy = false;
        match step {
            Step::Run(command) => {
                kept.is_busy = true;
                let socket = kept.socket;
                self.begin(command, None, Purpose::More { key, socket });
            }
            // The cursor has released its connection.
            Step::Done(Ok(_)) if !kept.cursor.is_open() => {
                self.cursors.remove(&key);
            }
            Step::Done(_) => {}
            Step::Ask(_) | Step::Wait => panic!("a cursor asks nothing"),
        }
    }
}
