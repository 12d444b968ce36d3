//! Tests of keys that take long to derive: which connections wait for them, and how often they are
//! derived.

use super::*;
use crate::{
    auth::{KeyDerivation, MAX_ITERATIONS},
    wire::OpCode,
};
use bson::{Binary, spec::BinarySubtype};

/// A client and its server, which requires authentication with `iterations` iterations.
struct ScramScene {
    client: Client,
    contract: Contract,
    now: Instant,
    /// The connections on which the server required authentication: all connections of the pool.
    sockets: Vec<SocketId>,
    /// The questions that the client asked and the test has not answered.
    derivations: Vec<(QuestionId, KeyDerivation)>,
    /// The questions that the client withdrew.
    withdrawn: Vec<QuestionId>,
    /// The connections on which the client sent a proof.
    proofs: Vec<SocketId>,
    /// The connections that the client closed.
    closed: Vec<SocketId>,
    /// True if the server sends a different salt on each connection.
    changes_salt: bool,
    iterations: u32,
}

impl ScramScene {
    fn new(changes_salt: bool, iterations: u32) -> Self {
        Self::with_options(changes_salt, iterations, "")
    }

    fn with_options(changes_salt: bool, iterations: u32, more: &str) -> Self {
        let text = "mongodb://user:pencil@a/?authMechanism=SCRAM-SHA-256&maxConnecting=3";
        let text = &format!("{text}{more}");
        let options = uri::parse(text).expect("a connection string").options;
        let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
        let mut scene = Self {
            client: Client::new(config),
            contract: Contract::default(),
            now: Instant::ZERO,
            sockets: Vec::new(),
            derivations: Vec::new(),
            withdrawn: Vec::new(),
            proofs: Vec::new(),
            closed: Vec::new(),
            changes_salt,
            iterations,
        };
        scene.client.open(scene.now);
        scene.run();
        scene
    }

    fn run(&mut self) {
        harness::drain(self);
    }

    fn reply(&mut self, socket: SocketId, command: &RawDocument) -> Option<RawDocumentBuf> {
        if command.get("saslContinue").expect("BSON").is_some() {
            self.proofs.push(socket);
            return None;
        }
        let mut hello = primary();
        if let Ok(start) = command.get_document("speculativeAuthenticate") {
            let payload = start.get_binary("payload").expect("a payload").bytes;
            let text = std::str::from_utf8(payload).expect("text");
            let (_, nonce) = text.split_once(",r=").expect("a nonce");
            let salt = if self.changes_salt {
                self.sockets.len()
            } else {
                0
            };
            let salt = ["c2FsdDA=", "c2FsdDE=", "c2FsdDI=", "c2FsdDM="][salt];
            let first = format!("r={nonce}server,s={salt},i={}", self.iterations);
            self.sockets.push(socket);
            let payload = Binary {
                subtype: BinarySubtype::Generic,
                bytes: first.into_bytes(),
            };
            let challenge = rawdoc! { "conversationId": 1, "done": false, "payload": payload };
            hello.append(bson::cstr!("speculativeAuthenticate"), challenge);
        }
        Some(hello)
    }

    fn start(&mut self, count: usize) {
        for _ in 0..count {
            let start = self.client.start(self.now, ping());
            assert!(matches!(start, Progress::Waiting(_)), "{start:?}");
        }
        self.run();
    }

    fn derive_next(&mut self) {
        let (id, derivation) = self.derivations.remove(0);
        self.answer(id, Answer::Keys(derivation.derive()));
    }

    fn answer(&mut self, id: QuestionId, answer: Answer) {
        self.client.handle_answer(self.now, id, answer);
        self.run();
    }

    fn waits_for_keys(&self) -> bool {
        let snapshot = self.client.snapshot();
        !snapshot.questions.is_empty() || snapshot.waiting_for_answers > 0
    }
}

impl Peer for ScramScene {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: Some(&mut self.contract),
            now: self.now,
        }
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        let header = Header::decode(&bytes, 1 << 20).expect("a request");
        assert_eq!(header.op_code, OpCode::Msg);
        let message = Message::decode(&bytes).expect("a message");
        if let Some(reply) = self.reply(socket, message.body) {
            self.respond(socket, &bytes, &reply);
        }
    }

    fn closed(&mut self, socket: SocketId) {
        self.closed.push(socket);
    }

    fn asked(&mut self, id: QuestionId, question: Question) {
        let Question::DeriveKeys(derivation) = question else {
            panic!("no seed list is looked up");
        };
        self.derivations.push((id, derivation));
    }

    fn withdrawn(&mut self, question: QuestionId) {
        self.withdrawn.push(question);
    }
}

#[test]
fn a_derivation_with_the_maximum_iteration_count_is_asked_as_a_question() {
    // The lowest iteration count is defined by AUTH-56, the highest one by this project. The client
    // asks a question and derives nothing itself.
    let mut scene = ScramScene::new(false, MAX_ITERATIONS);
    scene.start(1);
    assert_eq!(scene.derivations.len(), 1);
    assert_eq!(scene.derivations[0].1.iterations(), MAX_ITERATIONS);
    assert!(scene.proofs.is_empty() && scene.closed.is_empty());
}

#[test]
fn one_key_is_derived_once_for_all_connections_that_wait_for_it() {
    // Keys are cached (AUTH-35) and shared by all connections that need them.
    let mut scene = ScramScene::new(false, 4096);
    scene.start(3);
    assert_eq!(scene.sockets.len(), 3);
    assert_eq!(scene.derivations.len(), 1);
    scene.derive_next();
    assert_eq!(scene.proofs, scene.sockets);
    assert!(!scene.waits_for_keys());
}

#[test]
fn keys_of_one_server_are_derived_one_after_the_other() {
    let mut scene = ScramScene::new(true, 4096);
    scene.start(3);
    assert_eq!((scene.sockets.len(), scene.derivations.len()), (3, 1));
    for done in 1..=3 {
        scene.derive_next();
        assert_eq!(scene.proofs, scene.sockets[..done]);
        assert_eq!(scene.derivations.len(), usize::from(done < 3));
    }
    assert!(!scene.waits_for_keys());
}

#[test]
fn the_time_limit_of_a_derivation_begins_when_the_derivation_begins() {
    let mut scene = ScramScene::with_options(true, 4096, "&connectTimeoutMS=1000");
    scene.start(2);
    for wait in [900, 900, 100] {
        assert!(scene.closed.is_empty());
        scene.now = scene.now + std::time::Duration::from_millis(wait);
        harness::time_out(&mut scene);
        scene.run();
        if scene.proofs.is_empty() {
            scene.derive_next();
        }
    }
    assert!(scene.closed.contains(&scene.sockets[1]));
}

#[test]
fn a_key_that_was_derived_for_a_failed_connection_is_cached() {
    let mut scene = ScramScene::new(false, 4096);
    scene.start(1);
    let socket = scene.sockets[0];
    let error = Error::network(NetworkFault::Reset, "reset");
    scene.client.handle_failed(scene.now, socket, error);
    scene.run();
    scene.derive_next();
    assert!(scene.proofs.is_empty());
    assert!(!scene.waits_for_keys());
    // The server is checked again and requires the same key, which is in the cache.
    scene.now = scene.now + std::time::Duration::from_secs(11);
    harness::time_out(&mut scene);
    scene.run();
    scene.start(1);
    assert!(scene.derivations.is_empty());
    assert_eq!(scene.proofs.len(), 1);
}

#[test]
fn the_queued_derivation_of_a_failed_connection_is_dropped() {
    let mut scene = ScramScene::new(true, 4096);
    scene.start(2);
    let error = Error::network(NetworkFault::Reset, "reset");
    scene
        .client
        .handle_failed(scene.now, scene.sockets[1], error);
    scene.run();
    scene.derive_next();
    assert!(scene.derivations.is_empty(), "nobody wants the second key");
    assert!(!scene.waits_for_keys());
}

#[test]
fn duplicate_and_foreign_answers_to_a_question_are_ignored() {
    let mut scene = ScramScene::new(false, 4096);
    scene.start(1);
    let mut other = ScramScene::new(true, 4096);
    other.start(2);
    other.derive_next();
    let (foreign, derivation) = other.derivations.remove(0);
    scene.answer(foreign, Answer::Keys(derivation.derive()));
    assert!(scene.proofs.is_empty());
    let (id, derivation) = scene.derivations.remove(0);
    scene.answer(id, Answer::Keys(derivation.derive()));
    assert_eq!(scene.proofs, scene.sockets);
    scene.answer(id, Answer::None);
    assert_eq!(scene.proofs, scene.sockets);
    assert!(scene.closed.is_empty());
}

#[test]
fn an_answer_without_keys_closes_the_connections_that_wait_for_it() {
    for answer in [Answer::None, Answer::Found(Err("no keys".to_owned()))] {
        let mut scene = ScramScene::new(false, 4096);
        scene.start(3);
        let (id, _) = scene.derivations.remove(0);
        scene.answer(id, answer);
        assert_eq!(scene.closed, scene.sockets);
        assert!(!scene.waits_for_keys());
    }
}

#[test]
fn a_question_is_withdrawn_at_its_time_limit() {
    let mut scene = ScramScene::new(false, 4096);
    scene.start(1);
    let (id, derivation) = scene.derivations.remove(0);
    scene.now = scene.now + QUESTION_LIMIT;
    harness::time_out(&mut scene);
    scene.run();
    assert_eq!(scene.withdrawn, [id]);
    assert!(!scene.waits_for_keys());
    scene.answer(id, Answer::Keys(derivation.derive()));
    assert!(scene.proofs.is_empty(), "the answer comes too late");
}

#[test]
fn connections_without_connect_timeout_close_when_their_question_is_withdrawn() {
    let mut scene = ScramScene::with_options(false, 4096, "&connectTimeoutMS=0");
    scene.start(2);
    assert_eq!((scene.sockets.len(), scene.derivations.len()), (2, 1));
    scene.now = scene.now + QUESTION_LIMIT;
    scene.client.handle_timeout(scene.now);
    scene.run();
    assert_eq!(scene.withdrawn.len(), 1);
    assert_eq!(
        scene.closed, scene.sockets,
        "each took a place of maxConnecting"
    );
}

#[test]
fn a_terminated_client_withdraws_its_questions() {
    for is_abandoned in [false, true] {
        let mut scene = ScramScene::new(true, 4096);
        scene.start(3);
        let (id, derivation) = scene.derivations.remove(0);
        if is_abandoned {
            let why = Error::runtime("the runtime has ended");
            scene.client.abandon(scene.now, &why);
        } else {
            scene.client.close(scene.now);
        }
        scene.run();
        assert_eq!(scene.withdrawn, [id]);
        assert!(scene.client.is_terminated() && !scene.waits_for_keys());
        assert_eq!(scene.client.deadline(), None);
        scene.answer(id, Answer::Keys(derivation.derive()));
        assert!(scene.derivations.is_empty() && scene.proofs.is_empty());
    }
}

#[test]
fn a_forked_child_withdraws_the_questions_of_its_parent_and_asks_its_own() {
    // The derivation can run in another thread of the parent, which does not exist in the child.
    let mut scene = ScramScene::new(false, 4096);
    scene.start(1);
    let (of_parent, _) = scene.derivations.remove(0);
    scene.client.handle_forked(scene.now, &Seed::new([9; 32]));
    scene.run();
    assert_eq!(scene.withdrawn, [of_parent]);
    scene.start(1);
    assert_eq!(scene.derivations.len(), 1, "the child asks on its own");
    scene.derive_next();
    assert_eq!(scene.proofs.len(), 1);
}

#[test]
fn an_unanswered_question_is_asked_again_after_its_time_limit() {
    let mut scene = ScramScene::new(false, 4096);
    scene.start(1);
    scene.derivations.clear();
    // No answer comes, so each connection reaches its own time limit. After `QUESTION_LIMIT` the
    // client withdraws the question, and asks it again for the next connection.
    for _ in 0..31 {
        scene.now = scene.now + std::time::Duration::from_secs(10);
        harness::time_out(&mut scene);
        scene.run();
        scene.client.start(scene.now, ping());
        scene.run();
    }
    assert_eq!(scene.derivations.len(), 1);
}

#[test]
fn a_short_derivation_overtakes_the_long_ones_of_other_servers() {
    let now = Instant::ZERO;
    let key = |iterations| {
        let mut scene = ScramScene::new(false, iterations);
        scene.start(1);
        scene.derivations.remove(0).1
    };
    let socket = |number: u64| SocketId::new(number, 0);
    let mut all = Questions::new(Seed::new([0; 32]).random());
    for number in 0..40 {
        let long = key(MAX_ITERATIONS - number);
        all.derive(now, ServerId(number.into()), socket(number.into()), long);
    }
    all.derive(now, ServerId(100), socket(100), key(15_000));
    let asked = |all: &mut Questions| {
        let mut asked = Vec::new();
        while let Some(order) = all.poll_order() {
            if let questions::table::Order::Act(Action::Ask { id, .. }) = order {
                asked.push(id);
            }
        }
        asked
    };
    let mut running = asked(&mut all);
    let mut answered = Vec::new();
    for _ in 0..4 {
        answered.extend(waiting(&mut all, running.remove(0)));
        running.extend(asked(&mut all));
    }
    // The first two began at once. Then the shortest and the oldest of the queue begin by turns.
    assert_eq!(answered, [0, 1, 100, 2].map(socket));
}

/// Answers a question. Returns the connections that wait for the answer.
fn waiting(all: &mut Questions, id: QuestionId) -> Vec<SocketId> {
    match all.end(Instant::ZERO, id, true) {
        Some(questions::table::Asker::Keys { waiting, .. }) => waiting,
        other => panic!("no connection waits: {other:?}"),
    }
}

#[test]
fn at_most_two_derivations_run_at_the_same_time() {
    let now = Instant::ZERO;
    // The derivations of three keys.
    let mut keys = [4096, 4097, 4098].map(|iterations| {
        let mut scene = ScramScene::new(false, iterations);
        scene.start(1);
        Some(scene.derivations.remove(0))
    });
    let socket = |number: u64| SocketId::new(number, 0);
    let mut all = Questions::new(Seed::new([0; 32]).random());
    let mut asked = Vec::new();
    for number in 0..3 {
        let key = keys[number as usize].take().expect("each once");
        all.derive(now, ServerId(number), socket(number), key.1);
    }
    let mut collect = |all: &mut Questions| {
        while let Some(order) = all.poll_order() {
            if let questions::table::Order::Act(Action::Ask { id, .. }) = order {
                asked.push(id);
            }
        }
        asked.clone()
    };
    let first = collect(&mut all);
    assert_eq!(first.len(), 2, "the third waits for its turn");
    assert_eq!(waiting(&mut all, first[0]), [socket(0)]);
    let second = collect(&mut all);
    assert_eq!(second.len(), 3);
    assert_eq!(waiting(&mut all, second[2]), [socket(2)]);
    assert_eq!(waiting(&mut all, second[1]), [socket(1)]);
    assert!(all.is_empty());
}
