//! Tests with random inputs in any order behind a load balancer, with cursors, transactions,
//! several services and forks. The client leaks nothing.

mod driver;

use super::{super::adaptive::overloaded, *};
use crate::{
    operation::{SessionOptions, TransactionOptions, crud::Defaults},
    options::Monitoring,
};
use driver::{Purpose, RandomHarness, nth};
use proptest::prelude::*;
use std::time::Duration;

/// One input. A number of type `usize` selects the object that the input concerns, such as a
/// socket.
#[derive(Clone, Debug)]
enum Input {
    Start { kind: u8, timeout: Option<u16> },
    More { which: usize, timeout: Option<u16> },
    EndCursor { which: usize, runs: bool },
    Transact { which: usize, opens_cursor: bool },
    Step { which: usize, step: u8 },
    Resume(usize),
    Cancel(usize),
    CheckIn { which: usize, outcome: u8 },
    Connect(usize),
    Answer { which: usize, hello: u8 },
    Break(usize),
    Late { which: usize, what: u8 },
    Wait(u16),
    IdleCheck(u8),
    Fork,
    Close,
    CloseNow,
    Abandon,
}

fn input() -> impl Strategy<Value = Input> {
    let which = any::<usize>;
    let timeout = || prop::option::of(0..5000_u16);
    let rare = prop::bool::weighted(0.05);
    prop_oneof![
        4 => (0..3_u8, timeout()).prop_map(|(kind, timeout)| Input::Start { kind, timeout }),
        4 => (which(), timeout()).prop_map(|(which, timeout)| Input::More { which, timeout }),
        2 => (which(), any::<bool>()).prop_map(|(which, runs)| Input::EndCursor { which, runs }),
        3 => (which(), any::<bool>())
            .prop_map(|(which, opens_cursor)| Input::Transact { which, opens_cursor }),
        2 => (which(), 0..6_u8).prop_map(|(which, step)| Input::Step { which, step }),
        6 => which().prop_map(Input::Resume),
        2 => which().prop_map(Input::Cancel),
        8 => (which(), 0..16_u8).prop_map(|(which, outcome)| Input::CheckIn { which, outcome }),
        6 => which().prop_map(Input::Connect),
        9 => (which(), 0..40_u8).prop_map(|(which, hello)| Input::Answer { which, hello }),
        1 => which().prop_map(Input::Break),
        3 => (which(), 0..6_u8).prop_map(|(which, what)| Input::Late { which, what }),
        3 => prop_oneof![4 => 0..500_u16, 1 => 0..12_000_u16].prop_map(Input::Wait),
        1 => (0..4_u8).prop_map(Input::IdleCheck),
        1 => (rare, 0..8_u8).prop_map(|(rare, what)| match (rare, what) {
            (true, 0..4) => Input::Fork,
            (true, 4 | 5) => Input::Close,
            (true, 6) => Input::CloseNow,
            (true, _) => Input::Abandon,
            (false, _) => Input::Wait(1),
        }),
    ]
}

impl RandomHarness {
    fn apply(&mut self, input: Input) {
        match input {
            Input::Start { kind, timeout } => match kind {
                0 => self.begin(ping(), timeout, Purpose::Plain),
                1 => self.begin(insert(), timeout, Purpose::Plain),
                _ => self.begin(find(), timeout, Purpose::Open),
            },
            Input::More { which, timeout } => self.fetch(which, timeout),
            Input::EndCursor { which, runs } => self.end_cursor(which, runs),
            Input::Transact {
                which,
                opens_cursor,
            } => self.transact(which, opens_cursor),
            Input::Step { which, step } => self.step(which, step),
            Input::Resume(which) => {
                if let Some(id) = nth(&self.waiting, which) {
                    let purpose = self.waiting.remove(&id).expect("it waits");
                    let start = self.client.resume(self.now, id);
                    self.started(start, purpose);
                }
            }
            Input::Cancel(which) => {
                if let Some(id) = nth(&self.waiting, which) {
                    let purpose = self.waiting.remove(&id).expect("it waits");
                    self.client.cancel(self.now, id);
                    self.failed(purpose, &crate::error::ErrorKind::Abandoned.into());
                }
            }
            Input::CheckIn { which, outcome } if !self.exchanges.is_empty() => {
                let (mut exchange, purpose) = self.exchanges.remove(which % self.exchanges.len());
                self.left.insert(
                    exchange.socket(),
                    exchange.operation.exchange.context.request_id,
                );
                let outcome = finish(&mut exchange, purpose, outcome);
                self.check_in(exchange, purpose, outcome);
            }
            Input::Connect(which) if !self.dialling.is_empty() => {
                let socket = self.dialling.remove(which % self.dialling.len());
                self.client.handle_connected(self.now, socket);
            }
            Input::Answer { which, hello } if !self.unanswered.is_empty() => {
                let (socket, id) = self.unanswered.remove(which % self.unanswered.len());
                let bytes = hello_reply(id, hello);
                self.client.handle_received(self.now, socket, &bytes);
            }
            Input::Break(which) => {
                let sockets = driven(&self.client);
                if let Some(&socket) = sockets.get(which % sockets.len().max(1)) {
                    self.client.handle_received(self.now, socket, &[]);
                }
            }
            Input::Late { which, what } => self.late(which, what),
            Input::Wait(ms) => {
                self.now = self.now + Duration::from_millis(ms.into());
                harness::time_out(self);
            }
            Input::Fork => self.fork(),
            Input::IdleCheck(what) => self.idle_check = what,
            Input::Close => self.client.close(self.now),
            Input::CloseNow => self.client.close_now(self.now),
            Input::Abandon => self.abandon(),
            _ => {}
        }
        self.drain();
    }

    fn fetch(&mut self, which: usize, timeout: Option<u16>) {
        if let Some(key) = nth(&self.cursors, which)
            && let Some(kept) = self.cursors.get_mut(&key)
            && !kept.is_busy
            && let Some(command) = kept.cursor.more()
        {
            kept.is_busy = true;
            let socket = kept.socket;
            self.begin(command, timeout, Purpose::More { key, socket });
        }
    }

    fn end_cursor(&mut self, which: usize, runs: bool) {
        let Some(key) = nth(&self.cursors, which) else {
            return;
        };
        // The exchange of a batch may be under way.
        let mut kept = self.cursors.remove(&key).expect("it was just looked at");
        match kept.cursor.end() {
            Ok(command) if runs => self.begin(command, None, Purpose::Kill(Some(kept.socket))),
            Ok(command) => self.client.discard(self.now, command),
            Err(resources) => self.client.release_cursor(self.now, resources),
        }
    }

    fn transact(&mut self, which: usize, opens_cursor: bool) {
        let key = match nth(&self.transactions, which % 3) {
            Some(key) if which % 3 < self.transactions.len() => key,
            _ => match self.start_transaction() {
                Some(key) => key,
                None => return,
            },
        };
        let Some(transaction) = self.transactions.get(&key) else {
            return;
        };
        let mut command = if opens_cursor { find() } else { insert() };
        command.use_explicit_session(transaction.session);
        self.begin(command, None, Purpose::Transact { key, opens_cursor });
    }

    /// Starts a session with a transaction, unless the client is closed.
    fn start_transaction(&mut self) -> Option<u32> {
        let session = self
            .client
            .start_session(self.now, &SessionOptions::default());
        let session = session.ok()?.id;
        let (options, defaults) = (TransactionOptions::default(), Defaults::default());
        let started = self
            .client
            .start_transaction(self.now, session, &options, &defaults);
        started.expect("the session is new");
        self.next_key += 1;
        let (key, socket) = (self.next_key, None);
        let transaction = driver::Transaction { session, socket };
        self.transactions.insert(key, transaction);
        Some(key)
    }

    /// Ends a transaction and its session. One of its commands may be under way.
    fn step(&mut self, which: usize, step: u8) {
        let Some(key) = nth(&self.transactions, which) else {
            return;
        };
        let Some(transaction) = self.transactions.remove(&key) else {
            return;
        };
        let session = transaction.session;
        let end = match step % 3 {
            0 => self.client.abort_transaction(self.now, session, None),
            1 => self.client.commit_transaction(self.now, session, None),
            _ => Ok(None),
        };
        if let Ok(Some(command)) = end {
            self.begin(command, None, Purpose::Plain);
        }
        let resources = CursorResources::of_session(session);
        self.client.release_cursor(self.now, resources);
        self.drain();
    }

    /// Reports that the runtime has ended. Asserts that all exchanges are interrupted, unless the
    /// client was terminated or abandoned before.
    fn abandon(&mut self) {
        self.interrupted.clear();
        let was_over = self.client.is_terminated() || self.client.life.lost().is_some();
        let why = Error::runtime("the runtime has ended");
        self.client.abandon(self.now, &why);
        self.drain();
        assert!(was_over || self.in_use().is_subset(&self.interrupted));
    }

    fn fork(&mut self) {
        self.parent_sockets = self.open.clone();
        self.unanswered.clear();
        self.interrupted.clear();
        // Each process has a seed of its own. Otherwise the child would draw the session ids of its
        // parent again.
        self.forks += 1;
        let mut seed = [9; 32];
        (seed[0], seed[1]) = (0, self.forks);
        self.client.handle_forked(self.now, &Seed::new(seed));
        self.drain();
        // Sessions stay with the parent. A command in one of them fails, after a connection was
        // chosen for it and pinged.
        for transaction in self.transactions.values_mut() {
            transaction.socket = None;
        }
        // Each exchange on a connection of the parent is interrupted. All other connections of the
        // parent are closed.
        assert!(self.in_use().is_subset(&self.interrupted));
        let in_use = self.in_use().len();
        assert_eq!(self.open.intersection(&self.parent_sockets).count(), in_use);
    }

    /// Reports bytes on a draining connection: the end of the stream, a wrong message or the late
    /// reply.
    fn late(&mut self, which: usize, what: u8) {
        let place = which % self.draining.len().max(1);
        let Some((&socket, &id)) = self.draining.iter().nth(place) else {
            return;
        };
        let answered = if what == 1 { id + 1 } else { id };
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, 1, answered)
            .body(&cursor_reply(5, "nextBatch"))
            .end();
        self.draining.remove(&socket);
        if what == 0 {
            bytes.clear();
        }
        self.client.handle_received(self.now, socket, &bytes);
    }

    /// Cancels all operations, and ends all exchanges, cursors and transactions. Does not close the
    /// client.
    fn end_all(&mut self) {
        while let Some((&id, _)) = self.waiting.first_key_value() {
            self.waiting.remove(&id);
            self.client.cancel(self.now, id);
            self.drain();
        }
        while !self.exchanges.is_empty() {
            let (which, outcome) = (0, 0);
            self.apply(Input::CheckIn { which, outcome });
        }
        while let Some((_, mut kept)) = self.cursors.pop_first() {
            match kept.cursor.end() {
                Ok(command) => self.client.discard(self.now, command),
                Err(resources) => self.client.release_cursor(self.now, resources),
            }
        }
        while !self.transactions.is_empty() {
            self.apply(Input::Step { which: 0, step: 2 });
        }
        self.drain();
        assert!(
            self.client.snapshot().pins.is_empty(),
            "{:?}",
            self.client.snapshot().pins
        );
        assert_eq!(self.client.counts().in_use, 0);
        assert_eq!(self.client.counts().waiting, 0);
        assert!(wait_limits(&self.client).is_empty() && exchange_limits(&self.client).is_empty());
    }

    /// Asserts that all connections can be checked out, and that the pool counts none as pinned
    /// (LB-43).
    fn fill(&mut self) {
        // Waits until every drain has ended. Time passes in small steps, because a long step would
        // look like a frozen process.
        for _ in 0..20 {
            self.apply(Input::Wait(500));
        }
        for _ in 0..3 {
            self.begin(ping(), None, Purpose::Plain);
            self.drain();
        }
        for _ in 0..20 {
            self.apply(Input::Connect(0));
            self.apply(Input::Answer { which: 0, hello: 9 });
            self.apply(Input::Resume(0));
        }
        assert_eq!(self.exchanges.len(), 3);
        let Progress::Waiting(id) = self.client.start(self.now, ping()) else {
            panic!("there are no more");
        };
        self.waiting.insert(id, Purpose::Plain);
        self.apply(Input::Wait(3000));
        self.waiting.remove(&id);
        let Progress::Failed(error) = self.client.resume(self.now, id) else {
            panic!("its time is over");
        };
        let expected = "maxPoolSize: 3, connections in use by cursors: 0, connections in use by \
                        transactions: 0, connections in use by other operations: 3";
        assert!(error.to_string().contains(expected), "{error}");
    }

    fn end(mut self) {
        self.end_all();
        if !self.client.life.is_closed() {
            self.fill();
            self.end_all();
        }
        self.client.close(self.now);
        self.drain();
        assert!(self.client.is_terminated() && self.open.is_empty());
        assert_empty(&self.client);
    }
}

/// Ends an exchange in one of several ways, and returns its outcome.
fn finish(exchange: &mut Exchange, purpose: Purpose, outcome: u8) -> Outcome {
    let batch = match purpose {
        Purpose::More { .. } => "nextBatch",
        _ => "firstBatch",
    };
    let reply = match outcome {
        0 => return Outcome::Abandoned,
        1 | 2 => {
            // The whole request is sent, or only its first byte.
            let whole = exchange.output().len();
            exchange.sent(if outcome == 1 { whole } else { 1 });
            return Outcome::Abandoned;
        }
        3 => return reset(),
        4 => rawdoc! { "ok": 0, "code": 7, "errmsg": "x" },
        5 => shutting_down(),
        6 => rawdoc! { "ok": 0, "code": 43, "errmsg": "no such cursor" },
        7 => rawdoc! { "ok": 1 },
        8 => cursor_reply(0, batch),
        9 => cursor_reply(-3, batch),
        10 => overloaded(),
        12 => {
            exchange.sent(exchange.output().len());
            let message = "the reply did not arrive";
            return Outcome::Failed(Error::timeout(crate::error::Wait::Exchange, message));
        }
        13 => return answer_oddly(exchange, &cursor_reply(5, batch), 1, &[]),
        14 => return answer_oddly(exchange, &cursor_reply(5, batch), 0, &[1]),
        _ => cursor_reply(5, batch),
    };
    World::answer(exchange, &reply);
    Outcome::Completed
}

/// Lets the server reply to another request, or append bytes to its reply.
fn answer_oddly(exchange: &mut Exchange, reply: &RawDocument, off: i32, more: &[u8]) -> Outcome {
    exchange.sent(exchange.output().len());
    let mut bytes = Vec::new();
    MessageWriter::begin(
        &mut bytes,
        9,
        exchange.operation.exchange.context.request_id + off,
    )
    .body(reply)
    .end();
    bytes.extend_from_slice(more);
    let mut rest = &bytes[..];
    loop {
        let room = exchange.input().expect("room");
        let count = room.len().min(rest.len());
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        match exchange.received(count) {
            Ok(true) => return Outcome::Completed,
            Ok(false) => {}
            Err(error) => return Outcome::Failed(error),
        }
    }
}

/// Returns the reply to a hello: an error, a reply without a valid service, or the reply of a
/// service, once or twice.
fn hello_reply(id: i32, hello: u8) -> Vec<u8> {
    let reply = match hello {
        0 => shutting_down(),
        1 => mongos(),
        2 => {
            let mut odd = mongos();
            odd.append(bson::cstr!("serviceId"), "text");
            odd
        }
        n => service(n % 3),
    };
    let mut bytes = Vec::new();
    let times = if hello == 3 { 2 } else { 1 };
    for _ in 0..times {
        MessageWriter::begin(&mut bytes, 1, id).body(&reply).end();
    }
    bytes
}

fn run(monitoring: Monitoring, seed: u8, inputs: Vec<Input>) {
    let mut play = RandomHarness::new(monitoring, seed);
    for input in inputs {
        play.apply(input);
    }
    play.end();
}

proptest! {
    #[test]
    fn random_inputs_behind_a_load_balancer_leave_no_state_in_a_closed_client(
        seed in any::<u8>(),
        inputs in prop::collection::vec(input(), 0..200),
    ) {
        run(Monitoring::Background, seed, inputs);
    }

    #[test]
    fn random_inputs_behind_a_load_balancer_leave_no_state_in_a_single_threaded_client(
        seed in any::<u8>(),
        inputs in prop::collection::vec(input(), 0..200),
    ) {
        run(Monitoring::Scanning, seed, inputs);
    }
}
