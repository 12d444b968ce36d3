//! Any order of inputs: nothing leaks, nothing is closed twice, nothing hangs.

use super::{adaptive::overloaded, *};
use crate::{
    operation::OperationId,
    options::{Monitoring, ReadMode},
    sdam::MIN_HEARTBEAT_FREQUENCY,
    selection::suitable,
};
use proptest::prelude::*;
use std::time::Duration;

/// One input, with a number that picks whom it concerns.
#[derive(Clone, Debug)]
enum Input {
    Start { kind: u8, timeout: Option<u16> },
    Resume(usize),
    Cancel(usize),
    CheckIn { which: usize, outcome: u8 },
    Connect(usize),
    Answer { which: usize, hello: u8 },
    Break(usize),
    Late { which: usize, what: u8 },
    Wait(u16),
    Fork,
    Close,
}

fn input() -> impl Strategy<Value = Input> {
    let which = any::<usize>();
    prop_oneof![
        4 => (0..5_u8, prop::option::of(0..5000_u16))
            .prop_map(|(kind, timeout)| Input::Start { kind, timeout }),
        6 => which.prop_map(Input::Resume),
        2 => which.prop_map(Input::Cancel),
        2 => (which, 0..6_u8).prop_map(|(which, what)| Input::Late { which, what }),
        5 => (which, 0..9_u8).prop_map(|(which, outcome)| Input::CheckIn { which, outcome }),
        6 => which.prop_map(Input::Connect),
        10 => (which, 0..40_u8).prop_map(|(which, hello)| Input::Answer { which, hello }),
        1 => which.prop_map(Input::Break),
        3 => prop_oneof![4 => 0..500_u16, 1 => 0..12_000_u16].prop_map(Input::Wait),
        1 => (0..100_u8).prop_map(|rare| match rare {
            0 | 1 => Input::Close,
            2..=4 => Input::Fork,
            _ => Input::Wait(1),
        }),
    ]
}

/// What the driver of the client knows: sockets, unanswered requests, operations, leases.
struct Play {
    client: Client,
    now: Instant,
    dialling: Vec<SocketId>,
    unanswered: Vec<(SocketId, i32)>,
    open: BTreeSet<SocketId>,
    /// The latest request on each socket.
    left: BTreeMap<SocketId, i32>,
    /// Sockets that drain, with the number of the request.
    draining: BTreeMap<SocketId, i32>,
    waiting: Vec<OperationId>,
    leases: Vec<Lease>,
    /// Sockets of the process that this one was forked from.
    of_parent: BTreeSet<SocketId>,
}

impl Play {
    fn drain(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Ask { .. } => panic!("nobody logs in here"),
                Action::Dial { socket, .. } => {
                    assert!(self.open.insert(socket));
                    self.dialling.push(socket);
                }
                Action::Transmit { socket, bytes } => {
                    assert!(self.open.contains(&socket), "a closed socket is written to");
                    assert!(!self.of_parent.contains(&socket), "it is the parent's");
                    let header = Header::decode(&bytes, 1 << 20).expect("a request");
                    self.unanswered.push((socket, header.request_id));
                }
                Action::Close { socket } => {
                    assert!(self.open.remove(&socket), "it is closed twice");
                    self.dialling.retain(|&s| s != socket);
                    self.unanswered.retain(|&(s, _)| s != socket);
                    self.draining.remove(&socket);
                }
                Action::Drain { socket } => {
                    assert!(self.open.contains(&socket) && !self.of_parent.contains(&socket));
                    let id = self.left.remove(&socket).expect("it was left in its midst");
                    self.draining.insert(socket, id);
                }
                Action::Interrupt { .. } | Action::Wake { .. } | Action::Withdraw { .. } => {}
            }
        }
        let due = self.client.exact_deadline();
        let armed = self.client.deadline();
        assert!(
            due.is_none() || armed.is_some_and(|at| Some(at) <= due),
            "{armed:?} {due:?}"
        );
        assert_eq!(
            self.client.counts().leased.saturating_sub(self.granted()),
            self.leases.len()
        );
        let drains = draining(&self.client);
        assert!(self.draining.keys().all(|socket| drains.contains(socket)));
        assert_eq!(self.client.counts().waiting, self.waiting.len());
        assert_eq!(self.client.counts().sockets, self.open.len());
        assert!(exchange_limits(&self.client).len() <= self.leases.len());
        books::assert_agree(&self.client);
        self.watch_waits();
    }

    /// Nobody waits while a server is known that suits (SEL-36, MON-18), nor longer than allowed
    /// (SEL-35), and while somebody waits the servers are asked again (SDAM-119).
    fn watch_waits(&self) {
        let client = &self.client;
        if client.settings.scanning.is_some() {
            // There they wait for scans, also while a server is known (MON-25).
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
            if let OperationState::Granted(_) = waiting.state {
                let limit = *all.get(&id).expect("a grant has a limit");
                assert!(limit <= self.now + GRANT_LIMIT && in_time(limit));
                limited.insert(id);
            }
            let is_paused = matches!(waiting.state, OperationState::Paused(_));
            if !is_paused && waiting.state != OperationState::ForServer {
                continue;
            }
            is_asking |= !is_paused;
            let limit = *all.get(&id).expect("there is one by default");
            if is_paused {
                // It met a server that may be overloaded, and does not dial that at once again.
                assert!(limit <= self.now + MIN_HEARTBEAT_FREQUENCY);
            } else {
                let criteria = waiting.criteria.as_ref().expect("it did not fail");
                let suitable = suitable(client.topology(), criteria, selection, &[]);
                assert_eq!(suitable.map(|servers| servers.len()), Ok(0), "{criteria}");
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

    fn started(&mut self, start: Start) {
        match start {
            Start::Asking { .. } => panic!("the application has no say here"),
            Start::Leased(mut lease) => {
                assert!(self.open.contains(&lease.socket()));
                assert!(!self.of_parent.contains(&lease.socket()));
                assert!(self.leases.iter().all(|l| l.socket() != lease.socket()));
                match lease.begin(self.now) {
                    Ok(_) => self.leases.push(lease),
                    // Its time ran out while it waited: nothing was sent, the connection is whole.
                    Err(error) => {
                        assert!(error.is_timeout(), "{error}");
                        let outcome = Outcome::Failed(error);
                        let verdict = self.client.check_in(self.now, lease, outcome);
                        assert!(matches!(verdict, Verdict::Done(Err(_))), "{verdict:?}");
                    }
                }
            }
            Start::Waiting(id) => self.waiting.push(id),
            Start::Failed(_) => {}
        }
    }

    fn apply(&mut self, input: Input) {
        match input {
            Input::Start { kind, timeout } => {
                let mut command = match kind {
                    0 => ping(),
                    1 => insert(),
                    2 => find(),
                    3 => {
                        let mut elsewhere = find();
                        let preference = ReadPreference::new(ReadMode::SecondaryPreferred);
                        elsewhere.set_read_preference(Arc::new(preference));
                        elsewhere
                    }
                    _ => {
                        let mut unacknowledged = insert();
                        unacknowledged.set_unacknowledged();
                        unacknowledged
                    }
                };
                command.set_timeout(timeout.map(|ms| Duration::from_millis(ms.into())));
                let start = self.client.start(self.now, command);
                self.started(start);
            }
            Input::Resume(which) if !self.waiting.is_empty() => {
                let id = self.waiting.remove(which % self.waiting.len());
                let start = self.client.resume(self.now, id);
                self.started(start);
            }
            Input::Cancel(which) if !self.waiting.is_empty() => {
                let id = self.waiting.remove(which % self.waiting.len());
                self.client.cancel(self.now, id);
            }
            Input::CheckIn { which, outcome } if !self.leases.is_empty() => {
                let mut lease = self.leases.remove(which % self.leases.len());
                self.left.insert(lease.socket(), lease.context.request_id);
                let outcome = finish(&mut lease, outcome);
                if let Verdict::Again(start) = self.client.check_in(self.now, lease, outcome) {
                    self.started(start);
                }
            }
            Input::Connect(which) if !self.dialling.is_empty() => {
                let socket = self.dialling.remove(which % self.dialling.len());
                self.client.handle_connected(self.now, socket);
            }
            Input::Answer { which, hello } if !self.unanswered.is_empty() => {
                let (socket, id) = self.unanswered.remove(which % self.unanswered.len());
                let mut bytes = Vec::new();
                MessageWriter::begin(&mut bytes, 1, id)
                    .body(&answer(hello))
                    .end();
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
                self.client.handle_timeout(self.now);
            }
            Input::Fork => self.fork(),
            Input::Close => self.client.close(self.now),
            _ => {}
        }
        self.drain();
    }

    /// This is a child from here on: what is leased is its parent's, and nothing else is left open.
    fn fork(&mut self) {
        self.of_parent = self.open.clone();
        self.client.handle_forked(self.now, &Seed::new([9; 32]));
        self.drain();
        let leased = self.leases.iter().map(Lease::socket);
        let leased: BTreeSet<SocketId> = leased.collect();
        let left = self.open.intersection(&self.of_parent).copied();
        assert!(left.eq(leased));
    }

    /// Something comes on a connection that drains.
    fn late(&mut self, which: usize, what: u8) {
        let place = which % self.draining.len().max(1);
        let Some((&socket, &id)) = self.draining.iter().nth(place) else {
            return;
        };
        let mut bytes = Vec::new();
        let answered = if what == 1 { id + 1 } else { id };
        MessageWriter::begin(&mut bytes, 1, answered)
            .body(&primary())
            .end();
        let fate = match what {
            0 => self.client.handle_received(self.now, socket, &[]),
            1 => self.client.handle_received(self.now, socket, &bytes),
            _ => {
                let (head, tail) = bytes.split_at(30);
                let fate = self.client.handle_received(self.now, socket, head);
                assert_eq!(fate, Fate::Open);
                self.client.handle_received(self.now, socket, tail)
            }
        };
        let connections = self.client.snapshot().connections;
        let is_closed = connections.iter().all(|(open, _)| *open != socket);
        assert_eq!(fate == Fate::Closed, is_closed);
        // A whole reply closes what a clear has made stale.
        assert!(is_closed || (what >= 2 && fate == Fate::Parked), "{fate:?}");
        self.draining.remove(&socket);
    }

    fn end(&mut self) {
        self.client.close(self.now);
        self.drain();
        while !self.leases.is_empty() {
            self.apply(Input::CheckIn {
                which: 0,
                outcome: 5,
            });
        }
        while let Some(id) = self.waiting.pop() {
            let start = self.client.resume(self.now, id);
            assert!(matches!(start, Start::Failed(_)), "{start:?}");
        }
        self.drain();
        assert!(self.client.is_over() && self.open.is_empty());
        assert_empty(&self.client);
    }
}

/// Ends an exchange in one way or another.
fn finish(lease: &mut Lease, outcome: u8) -> Outcome {
    let reply = match outcome {
        0 => return Outcome::Abandoned,
        6 | 7 => {
            // The whole request goes out, or a part of it.
            let whole = lease.output().len();
            lease.sent(if outcome == 6 { whole } else { 1 });
            return Outcome::Abandoned;
        }
        1 => return reset(),
        2 => rawdoc! { "ok": 0, "code": 10107, "errmsg": "x" },
        3 => rawdoc! { "ok": 0, "code": 91, "errorLabels": ["RetryableWriteError"] },
        8 => overloaded(),
        _ => rawdoc! { "ok": 1 },
    };
    if lease.operation.command.acknowledged {
        World::answer(lease, &reply);
    } else {
        lease.sent(lease.output().len());
    }
    Outcome::Completed
}

fn answer(hello: u8) -> RawDocumentBuf {
    match hello {
        0 => rawdoc! { "ok": 0, "code": 91, "errmsg": "going away" },
        1 => rawdoc! { "ok": 1, "secondary": true, "setName": "rs", "hosts": ["a:27017", "b:1"] },
        2 => rawdoc! { "ok": 1, "secondary": true, "setName": "other", "hosts": ["a:27017"] },
        3 => {
            let mut more = primary();
            more.append(bson::cstr!("hosts"), RawDocumentBuf::new());
            more
        }
        _ => primary(),
    }
}

fn play(monitoring: Monitoring, seed: u8, inputs: Vec<Input>) {
    let text = "mongodb://a/?replicaSet=rs&maxPoolSize=3&minPoolSize=1&connectTimeoutMS=2000\
                &waitQueueTimeoutMS=3000&socketTimeoutMS=4000";
    let options = uri::parse_for(text, monitoring)
        .expect("a connection string")
        .options;
    let config = ClientConfig::new(options, Seed::new([seed; 32])).expect("options");
    let mut play = Play {
        client: Client::new(config),
        now: Instant::ZERO,
        dialling: Vec::new(),
        unanswered: Vec::new(),
        open: BTreeSet::new(),
        left: BTreeMap::new(),
        draining: BTreeMap::new(),
        waiting: Vec::new(),
        leases: Vec::new(),
        of_parent: BTreeSet::new(),
    };
    play.client.open(play.now);
    play.drain();
    if monitoring == Monitoring::Scanning {
        play.apply(Input::Start {
            kind: 0,
            timeout: None,
        });
    }
    // The first check succeeds, so that most of what follows concerns operations.
    play.apply(Input::Connect(0));
    play.apply(Input::Answer {
        which: 0,
        hello: u8::MAX,
    });
    for input in inputs {
        play.apply(input);
    }
    play.end();
}

proptest! {
    #[test]
    fn whatever_happens_nothing_is_left_behind(
        seed in any::<u8>(),
        inputs in prop::collection::vec(input(), 0..300),
    ) {
        play(Monitoring::Background, seed, inputs);
    }

    #[test]
    fn whatever_happens_to_a_client_that_scans_nothing_is_left_behind(
        seed in any::<u8>(),
        inputs in prop::collection::vec(input(), 0..300),
    ) {
        play(Monitoring::Scanning, seed, inputs);
    }
}
