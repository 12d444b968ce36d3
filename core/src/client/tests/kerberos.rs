//! Tests of steps of Kerberos, which may never return: how many run at once, which connections wait
//! for them, and what ends the wait.

use super::*;
use crate::{
    auth::KerberosStep,
    description::{ServerId, ServerType},
    options::{CanonicalizeHostName, Kerberos, KerberosTarget, SecurityContext},
};
use bson::{Binary, spec::BinarySubtype};
use std::{sync::Arc, time::Duration};

/// A Kerberos library whose contexts exchange tokens without end.
pub(super) struct Library;

impl Kerberos for Library {
    fn canonical_name(&self, _: &str, _: CanonicalizeHostName) -> Result<String, String> {
        Err("no name is made canonical in these tests".to_owned())
    }

    fn begin(&self, _: &KerberosTarget) -> Result<Box<dyn SecurityContext>, String> {
        Ok(Box::new(Endless))
    }
}

struct Endless;

impl SecurityContext for Endless {
    fn step(&mut self, _: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(b"token".to_vec()))
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn unwrap(&mut self, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("the context is not complete".to_owned())
    }

    fn wrap(&mut self, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("the context is not complete".to_owned())
    }
}

/// A client that authenticates by GSSAPI, and its servers.
struct KerberosScene {
    client: Client,
    contract: Contract,
    now: Instant,
    /// The steps that the client asked for and the test has not run.
    steps: Vec<(QuestionId, KerberosStep)>,
    /// The number of steps that the client asked for.
    asked: usize,
    withdrawn: Vec<QuestionId>,
    /// The connections on which the client sent a token, once for each token.
    tokens: Vec<SocketId>,
    closed: Vec<SocketId>,
    /// True if the server answers tokens with tokens.
    replies: bool,
    /// The reply to hello.
    hello: RawDocumentBuf,
}

impl KerberosScene {
    fn new(more: &str) -> Self {
        Self::with_hosts("a", more)
    }

    fn with_hosts(hosts: &str, more: &str) -> Self {
        let text = "?authMechanism=GSSAPI&maxConnecting=8&retryReads=false";
        let text = format!("mongodb://ada%40R@{hosts}/{text}{more}");
        let mut options = uri::parse(&text).expect("valid").options;
        options.set_kerberos(Some(Arc::new(Library)));
        let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
        let mut scene = Self {
            client: Client::new(config),
            contract: Contract::default(),
            now: Instant::ZERO,
            steps: Vec::new(),
            asked: 0,
            withdrawn: Vec::new(),
            tokens: Vec::new(),
            closed: Vec::new(),
            replies: false,
            hello: match hosts.contains(',') {
                true => mongos(),
                false => primary(),
            },
        };
        scene.client.open(scene.now);
        harness::drain(&mut scene);
        scene
    }

    fn start(&mut self, count: usize) -> Vec<OperationId> {
        let started = (0..count).map(|_| match self.client.start(self.now, ping()) {
            Progress::Waiting(id) => id,
            other => panic!("{other:?} before a connection is ready"),
        });
        let started = started.collect();
        harness::drain(self);
        started
    }

    fn answer(&mut self, id: QuestionId, answer: Answer) {
        self.client.handle_answer(self.now, id, answer);
        harness::drain(self);
    }

    fn run_next(&mut self) {
        let (id, step) = self.steps.remove(0);
        self.answer(id, Answer::KerberosStep(step.run()));
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        harness::time_out(self);
        harness::drain(self);
    }

    fn error_of(&mut self, id: OperationId) -> Error {
        match self.client.resume(self.now, id) {
            Progress::Failed(error) => error,
            other => panic!("{other:?} where an error was expected"),
        }
    }

    fn waits_for_steps(&self) -> bool {
        let snapshot = self.client.snapshot();
        !snapshot.questions.is_empty() || snapshot.waiting_for_answers > 0
    }
}

impl Peer for KerberosScene {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: Some(&mut self.contract),
            now: self.now,
        }
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        let message = Message::decode(&bytes).expect("a message");
        let name = message
            .body
            .iter()
            .next()
            .expect("a field")
            .expect("BSON")
            .0;
        if !name.as_str().starts_with("sasl") {
            let hello = self.hello.clone();
            self.respond(socket, &bytes, &hello);
            return;
        }
        self.tokens.push(socket);
        if self.replies {
            let payload = Binary {
                subtype: BinarySubtype::Generic,
                bytes: b"server".to_vec(),
            };
            let reply = rawdoc! {
                "ok": 1, "conversationId": 1, "done": false, "payload": payload,
            };
            self.respond(socket, &bytes, &reply);
        }
    }

    fn closed(&mut self, socket: SocketId) {
        self.closed.push(socket);
    }

    fn asked(&mut self, id: QuestionId, question: Question) {
        let Question::KerberosStep(step) = question else {
            panic!("{question:?} of another kind");
        };
        self.asked += 1;
        self.steps.push((id, step));
    }

    fn withdrawn(&mut self, question: QuestionId) {
        self.withdrawn.push(question);
    }
}

/// Returns a scene in which each server of six has one connection, for `minPoolSize`.
fn six_servers() -> KerberosScene {
    let more = "&minPoolSize=1&connectTimeoutMS=1000&heartbeatFrequencyMS=100000";
    let mut scene = KerberosScene::with_hosts("a,b,c,d,e,f", more);
    scene.wait(Duration::ZERO);
    scene
}

#[test]
fn at_most_four_steps_run_at_once() {
    let mut scene = six_servers();
    assert_eq!(scene.steps.len(), MAX_KERBEROS_STEPS);
    for done in 1..=6 {
        scene.run_next();
        assert_eq!(scene.tokens.len(), done);
        assert_eq!(scene.steps.len(), MAX_KERBEROS_STEPS.min(6 - done));
    }
    assert!(!scene.waits_for_steps() && scene.closed.is_empty());
}

#[test]
fn a_server_whose_step_waits_for_those_of_others_stays_known() {
    let mut scene = six_servers();
    assert_eq!(scene.steps.len(), MAX_KERBEROS_STEPS);
    scene.wait(Duration::from_millis(1000));
    let servers = scene.client.topology().servers.values();
    let known = servers.filter(|server| server.server_type == ServerType::Mongos);
    assert_eq!(known.count(), 2);
}

#[test]
fn the_time_limit_of_a_step_begins_when_the_step_begins() {
    let mut scene = KerberosScene::new("&connectTimeoutMS=1000");
    scene.replies = true;
    scene.start(2);
    scene.wait(Duration::from_millis(900));
    assert_eq!(scene.asked, 1);
    scene.run_next();
    assert_eq!(scene.asked, 2);
    scene.wait(Duration::from_millis(900));
    assert!(scene.closed.is_empty());
    scene.wait(Duration::from_millis(100));
    assert!(!scene.closed.is_empty());
}

#[test]
fn servers_take_turns_and_one_of_them_occupies_one_thread() {
    let now = Instant::ZERO;
    let socket = |number: u64| SocketId::new(number, 0);
    let mut all = Questions::new(Seed::new([0; 32]).random());
    for (number, server) in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 3), (6, 4)] {
        let mut scene = KerberosScene::new("");
        scene.start(1);
        let (_, step) = scene.steps.remove(0);
        all.ask_kerberos(now, ServerId(server), socket(number), step);
    }
    let mut begun = Vec::new();
    let mut ids = Vec::new();
    for ended in [None, Some(0), Some(4), Some(5)] {
        if let Some(ended) = ended {
            all.end(now, ids[ended], true);
        }
        while let Some(order) = all.poll_order() {
            match order {
                questions::table::Order::Begun(socket) => begun.push(socket),
                questions::table::Order::Act(Action::Ask { id, .. }) => ids.push(id),
                _ => {}
            }
        }
    }
    assert_eq!(begun, [0, 3, 4, 5, 1, 6, 2].map(socket));
}

#[test]
fn steps_that_never_return_cost_errors_and_one_thread_of_each_server() {
    let mut scene = KerberosScene::new("&connectTimeoutMS=1000&heartbeatFrequencyMS=100000");
    for round in 0..5 {
        let operations = scene.start(6);
        scene.wait(Duration::from_millis(1000));
        if round == 0 {
            let of_monitor = 1;
            assert_eq!(scene.closed.len(), 6 + of_monitor);
        }
        for operation in operations {
            let error = scene.error_of(operation);
            assert!(!error.to_string().is_empty());
        }
        // The server is checked again, and operations wait for steps that are in the queue.
        scene.wait(Duration::from_secs(1));
        assert_eq!(scene.asked, 1, "in round {round}");
    }
    // The late result reaches no connection. After it, another step may run.
    scene.start(6);
    scene.run_next();
    assert!(scene.tokens.is_empty());
    assert_eq!(scene.asked, 2);
    scene.run_next();
    assert_eq!(scene.tokens.len(), 1);
}

#[test]
fn the_error_of_a_step_that_takes_too_long_names_the_key_distribution_center() {
    let mut scene = KerberosScene::new("&connectTimeoutMS=1000");
    let operations = scene.start(1);
    scene.wait(Duration::from_millis(1000));
    let error = scene.error_of(operations[0]).to_string();
    assert!(
        error.contains("key distribution center") && error.contains("1000 ms"),
        "{error}"
    );
}

#[test]
fn a_step_without_a_result_fails_its_connection_only() {
    let mut scene = KerberosScene::new("");
    scene.start(2);
    let (id, _) = scene.steps.remove(0);
    scene.answer(id, Answer::None);
    assert_eq!(scene.closed.len(), 1);
    scene.answer(id, Answer::None);
    assert_eq!(scene.closed.len(), 1, "the second answer is ignored");
    scene.run_next();
    assert_eq!(scene.tokens.len(), 1);
    assert!(!scene.closed.contains(&scene.tokens[0]));
}

#[test]
fn the_queued_step_of_a_failed_connection_is_dropped() {
    let mut scene = KerberosScene::new("");
    scene.start(5);
    assert_eq!(scene.asked, 1);
    let sockets = driven(&scene.client);
    let last = *sockets.last().expect("the socket of the fifth operation");
    let error = Error::network(NetworkFault::Closed, "closed");
    scene.client.handle_failed(scene.now, last, error);
    harness::drain(&mut scene);
    while !scene.steps.is_empty() {
        scene.run_next();
    }
    assert_eq!(scene.asked, 4);
    assert!(!scene.waits_for_steps());
}

#[test]
fn a_connection_without_connect_timeout_waits_until_the_question_limit() {
    let mut scene = KerberosScene::new("&connectTimeoutMS=0&heartbeatFrequencyMS=1000000");
    scene.start(1);
    scene.wait(QUESTION_LIMIT);
    assert_eq!(scene.closed.len(), 1, "it took a place of maxConnecting");
    assert!(scene.withdrawn.is_empty());
    // The step still counts, because its thread runs.
    scene.start(4);
    assert_eq!(scene.asked, 1);
    scene.run_next();
    assert_eq!(scene.asked, 2);
    assert!(scene.tokens.is_empty());
}

#[test]
fn a_terminated_client_withdraws_its_steps() {
    for is_abandoned in [false, true] {
        let mut scene = KerberosScene::new("");
        scene.start(6);
        let asked: Vec<_> = scene.steps.iter().map(|(id, _)| *id).collect();
        if is_abandoned {
            let why = Error::runtime("the runtime has ended");
            scene.client.abandon(scene.now, &why);
        } else {
            scene.client.close(scene.now);
        }
        harness::drain(&mut scene);
        assert_eq!(scene.withdrawn, asked);
        assert!(scene.client.is_terminated() && !scene.waits_for_steps());
        assert_eq!(scene.client.deadline(), None);
        scene.run_next();
        assert!(scene.tokens.is_empty() && scene.asked == 1);
    }
}

#[test]
fn a_forked_child_asks_for_steps_of_its_own() {
    // The threads of the steps exist in the parent only.
    let mut scene = KerberosScene::new("");
    scene.start(6);
    scene.client.handle_forked(scene.now, &Seed::new([9; 32]));
    harness::drain(&mut scene);
    assert_eq!(scene.withdrawn.len(), 1);
    scene.steps.clear();
    scene.asked = 0;
    scene.start(1);
    assert_eq!(scene.asked, 1);
    scene.run_next();
    assert_eq!(scene.tokens.len(), 1);
}

#[test]
fn a_server_that_never_completes_the_context_fails_its_connection() {
    let mut scene = KerberosScene::new("");
    scene.replies = true;
    let operations = scene.start(1);
    while !scene.steps.is_empty() {
        scene.run_next();
    }
    assert_eq!(scene.tokens.len(), 10);
    assert!(scene.closed.contains(&scene.tokens[0]));
    let error = scene.error_of(operations[0]).to_string();
    assert!(error.contains("did not end after 10 commands"), "{error}");
}
