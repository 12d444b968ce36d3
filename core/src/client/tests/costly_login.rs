//! One server asks for the highest permitted iteration count on every connection: the client works
//! on with the others as before.

use super::*;
use crate::{address::Address, auth::MAX_ITERATIONS};
use bson::{Binary, spec::BinarySubtype};
use std::time::Duration;

/// How long the highest permitted count takes here, and how long the usual one.
const COSTLY: Duration = Duration::from_secs(4);
const CHEAP: Duration = Duration::from_millis(1);

/// Two routers; the one named `costly` has a salt of its own for each connection.
struct Routers {
    client: Client,
    contract: Contract,
    now: Instant,
    dialled: BTreeMap<SocketId, Address>,
    /// Questions with the instants at which they are answered.
    asked: Vec<(Instant, QuestionId, Question)>,
    logins: u8,
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
            logins: 0,
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
            // The proof is not checked here: the connection waits, which is enough.
            return;
        }
        if let Ok(start) = message.body.get_document("speculativeAuthenticate") {
            let payload = start.get_binary("payload").expect("a payload").bytes;
            let text = std::str::from_utf8(payload).expect("text");
            let (_, nonce) = text.split_once(",r=").expect("a nonce");
            let is_costly = self.dialled[&socket].host() == "costly";
            self.logins += u8::from(is_costly);
            let salts = ["c2FsdDA=", "c2FsdDE=", "c2FsdDI=", "c2FsdDM=", "c2FsdDQ="];
            let (salt, iterations) = match is_costly {
                true => (salts[usize::from(self.logins) % 5], MAX_ITERATIONS),
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

    /// Lets time pass until the next answer; says how long that took. A cheap derivation is really
    /// made, a costly one is never.
    fn answer_next(&mut self) -> Duration {
        let next = (0..self.asked.len()).min_by_key(|&place| self.asked[place].0);
        let (at, id, question) = self.asked.remove(next.expect("a question"));
        let took = at - self.now;
        self.now = self.now.max(at);
        let Question::DeriveKeys(derivation) = question;
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
        let Question::DeriveKeys(derivation) = &question;
        let is_costly = derivation.iterations() == MAX_ITERATIONS;
        let takes = if is_costly { COSTLY } else { CHEAP };
        self.asked.push((self.now + takes, id, question));
    }
}

#[test]
fn a_server_with_costly_logins_delays_no_other_server() {
    let mut routers = Routers::new();
    // Five connections to the costly server, each with a key of its own.
    for _ in 0..5 {
        let start = routers.start_on("costly");
        assert!(matches!(start, Progress::Waiting(_)), "{start:?}");
    }
    assert_eq!(
        routers.asked.len(),
        1,
        "its keys are derived one after the other"
    );
    // The other server's key is derived beside them, in its own time.
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
    // Later connections find the key in the cache: nothing is asked, whatever the costly one does.
    for _ in 0..20 {
        let asked = routers.asked.len();
        let start = routers.start_on("cheap");
        assert!(!matches!(start, Progress::Failed(_)), "{start:?}");
        assert_eq!(routers.asked.len(), asked);
    }
    assert_eq!(proofs(&routers), 5);
    // The costly server occupies one processor at a time, however long that goes on.
    for left in (0..5).rev() {
        assert!(routers.answer_next() <= COSTLY);
        assert_eq!(proofs(&routers), left);
        assert!(routers.asked.len() <= 1);
    }
}
