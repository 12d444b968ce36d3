//! A test in which one server requires the highest permitted iteration count for each connection.
//! Operations on other servers are not delayed.

use super::*;
use crate::{address::Address, auth::MAX_ITERATIONS};
use bson::{Binary, spec::BinarySubtype};
use std::time::Duration;

/// The time that a derivation with the highest permitted iteration count takes in this test.
const COSTLY: Duration = Duration::from_secs(4);
/// The time that a derivation with a low iteration count takes in this test.
const CHEAP: Duration = Duration::from_millis(1);

/// A client of two mongos servers, `cheap` and `costly`. `costly` sends a different salt on each
/// connection.
struct Routers {
    client: Client,
    contract: Contract,
    now: Instant,
    dialled: BTreeMap<SocketId, Address>,
    /// Questions, each with the time at which it is answered.
    asked: Vec<(Instant, QuestionId, Question)>,
    /// The number of connections on which the server `costly` sent a salt.
    conversations: u8,
}

impl Routers {
    fn new() -> Self {
        let text = "mongodb://user:pencil@cheap,costly/?authMechanism=SCRAM-SHA-256\
                    &heartbeatFrequencyMS=100000&maxConnecting=5";
        let options = uri::parse(text).expect("a connection string").options;
        let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
        let mut routers = Self {
            client: Client::new(config),
            contract: Contract::default(),
            now: Instant::ZERO,
            dialled: BTreeMap::new(),
            asked: Vec::new(),
            conversations: 0,
        };
        routers.client.open(routers.now);
        routers.run();
        routers
    }

    fn run(&mut self) {
        harness::drain(self);
    }

    fn reply(&mut self, socket: SocketId, bytes: &[u8]) {
        let message = Message::decode(bytes).expect("a message");
        let mut reply = mongos();
        if message.body.get("saslContinue").expect("BSON").is_some() {
            // The server does not reply to the proof, so the connection is never established.
            return;
        }
        if let Ok(start) = message.body.get_document("speculativeAuthenticate") {
            let payload = start.get_binary("payload").expect("a payload").bytes;
            let text = std::str::from_utf8(payload).expect("text");
            let (_, nonce) = text.split_once(",r=").expect("a nonce");
            let is_costly = self.dialled[&socket].host() == "costly";
            self.conversations += u8::from(is_costly);
            let salts = ["c2FsdDA=", "c2FsdDE=", "c2FsdDI=", "c2FsdDM=", "c2FsdDQ="];
            let (salt, iterations) = match is_costly {
                true => (salts[usize::from(self.conversations) % 5], MAX_ITERATIONS),
                false => ("c2FsdDk=", 4096),
            };
            let first = format!("r={nonce}server,s={salt},i={iterations}");
            let payload = Binary {
                subtype: BinarySubtype::Generic,
                bytes: first.into_bytes(),
            };
            let challenge = rawdoc! { "conversationId": 1, "done": false, "payload": payload };
            reply.append(bson::cstr!("speculativeAuthenticate"), challenge);
        }
        self.respond(socket, bytes, &reply);
    }

    /// Advances the time to the next answer, and returns how long that took. Only a cheap
    /// derivation is carried out. A costly one is answered without keys.
    fn answer_next(&mut self) -> Duration {
        let next = (0..self.asked.len()).min_by_key(|&place| self.asked[place].0);
        let (at, id, question) = self.asked.remove(next.expect("a question"));
        let took = at - self.now;
        self.now = self.now.max(at);
        let Question::DeriveKeys(derivation) = question else {
            panic!("no seed list is looked up");
        };
        let answer = if derivation.iterations() == MAX_ITERATIONS {
            Answer::None
        } else {
            Answer::Keys(derivation.derive())
        };
        self.client.handle_answer(self.now, id, answer);
        self.run();
        took
    }

    fn start_on(&mut self, host: &str) -> Progress {
        let mut command = ping();
        command.set_target(Address::tcp(host, 27017));
        let start = self.client.start(self.now, command);
        self.run();
        start
    }
}

impl Peer for Routers {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: Some(&mut self.contract),
            now: self.now,
        }
    }

    fn dialled(&mut self, socket: SocketId, address: Address) {
        self.dialled.insert(socket, address);
        self.connect(socket);
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        self.reply(socket, &bytes);
    }

    fn asked(&mut self, id: QuestionId, question: Question) {
        let Question::DeriveKeys(derivation) = &question else {
            panic!("no seed list is looked up");
        };
        let is_costly = derivation.iterations() == MAX_ITERATIONS;
        let takes = if is_costly { COSTLY } else { CHEAP };
        self.asked.push((self.now + takes, id, question));
    }
}

#[test]
fn a_server_with_costly_authentication_delays_no_other_server() {
    let mut routers = Routers::new();
    // Each of the five connections to the costly server needs a key of its own.
    for _ in 0..5 {
        let start = routers.start_on("costly");
        assert!(matches!(start, Progress::Waiting(_)), "{start:?}");
    }
    assert_eq!(
        routers.asked.len(),
        1,
        "its keys are derived one after the other"
    );
    // The key of the other server is derived at the same time.
    let start = routers.start_on("cheap");
    assert!(matches!(start, Progress::Waiting(_)), "{start:?}");
    assert_eq!(routers.asked.len(), 2);
    assert_eq!(routers.answer_next(), CHEAP);
    let proofs = |routers: &Routers| {
        let snapshot = routers.client.snapshot();
        snapshot.waiting_for_answers
    };
    assert_eq!(
        proofs(&routers),
        5,
        "only connections to the costly server wait"
    );
    // Later connections find the key in the cache, so the client asks no further question.
    for _ in 0..20 {
        let asked = routers.asked.len();
        let start = routers.start_on("cheap");
        assert!(!matches!(start, Progress::Failed(_)), "{start:?}");
        assert_eq!(routers.asked.len(), asked);
    }
    assert_eq!(proofs(&routers), 5);
    // The costly server occupies one processor at a time.
    for left in (0..5).rev() {
        assert!(routers.answer_next() <= COSTLY);
        assert_eq!(proofs(&routers), left);
        assert!(routers.asked.len() <= 1);
    }
}
