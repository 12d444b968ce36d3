//! Measures what authentication costs a client for each new connection, with cached keys,
//! credentials and tokens.
//!
//! The program prints the time of all calls of one conversation, without the hello. The last
//! message of a SCRAM server is wrong, which takes as long to find out as to confirm the right one.
//! `docs/performance.md` has the figures.

use bson::{Binary, RawDocument, RawDocumentBuf, rawdoc, spec::BinarySubtype};
use onionskin_core::{
    options::{AuthMechanism, Credential},
    random::{Random, Seed},
    time::Instant,
    unstable::auth::{Caches, Conversation, Step},
};
use std::{hint::black_box, sync::Arc, time};

/// The number of conversations of each mechanism.
const TIMES: u32 = 5_000;

/// The iteration count that servers request by default.
const ITERATIONS: [(AuthMechanism, u32); 2] = [
    (AuthMechanism::ScramSha1, 10_000),
    (AuthMechanism::ScramSha256, 15_000),
];

fn main() {
    for (mechanism, iterations) in ITERATIONS {
        let mut credential = Credential::password("user", "pencil");
        credential.mechanism = Some(mechanism);
        let credential = Arc::new(credential);
        let mut caches = Caches::new();
        scram(&credential, iterations, &mut caches);
        let took = per_connection(|| scram(&credential, iterations, &mut caches));
        println!("{mechanism}, cached keys: {took:.2} µs");
    }
    let mut plain = Credential::password("user", "pencil");
    plain.mechanism = Some(AuthMechanism::Plain);
    plain.source = Some("$external".to_owned());
    let mut x509 = Credential::builder().source("$external".to_owned()).build();
    x509.mechanism = Some(AuthMechanism::MongoDbX509);
    for credential in [plain, x509] {
        let credential = Arc::new(credential);
        let mut caches = Caches::new();
        let took = per_connection(|| one_command(&credential, &mut caches));
        let name = credential.mechanism.map_or("", AuthMechanism::name);
        println!("{name}: {took:.2} µs");
    }
}

/// Returns the average time of a conversation in microseconds.
fn per_connection(mut run: impl FnMut()) -> f64 {
    let began = time::Instant::now();
    for _ in 0..TIMES {
        run();
    }
    began.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
}

/// A generator whose first nonce is always the same, so that the replies can be made beforehand.
fn random() -> Random {
    Seed::new([5; 32]).random()
}

fn conversation(credential: &Arc<Credential>) -> Conversation {
    let made = Conversation::new(credential, "localhost", None, &mut random());
    made.expect("a usable credential")
}

fn reply(text: &str) -> RawDocumentBuf {
    let payload = Binary {
        subtype: BinarySubtype::Generic,
        bytes: text.as_bytes().to_vec(),
    };
    rawdoc! { "conversationId": 1, "done": false, "payload": payload, "ok": 1 }
}

/// Returns the payload of a command as text.
fn payload(command: &RawDocument) -> String {
    let payload = command.get_binary("payload").expect("a payload");
    String::from_utf8(payload.bytes.to_vec()).expect("text")
}

/// Runs a conversation in which the hello carries the first message.
fn scram(credential: &Arc<Credential>, iterations: u32, caches: &mut Caches) {
    let mut conversation = conversation(credential);
    let first = conversation.speculative(caches).expect("SCRAM speculates");
    let first = payload(&first);
    let nonce = first.rsplit("r=").next().unwrap_or_default();
    let first = reply(&format!(
        "r={nonce}abcdefgh,s=c2FsdHNhbHRzYWx0c2FsdA==,i={iterations}"
    ));
    let mut step = conversation.handle_hello(Instant::ZERO, None, Some(&first), caches);
    if let Step::Derive(derivation) = step {
        let keys = derivation.derive();
        caches.keys.keep_unproven(&keys);
        step = conversation.handle_keys(&keys, caches);
    }
    assert!(matches!(step, Step::Send { .. }), "{step:?}");
    let last = reply("v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    black_box(conversation.handle_reply(Instant::ZERO, &last, caches));
}

fn one_command(credential: &Arc<Credential>, caches: &mut Caches) {
    let mut conversation = conversation(credential);
    let step = conversation.handle_hello(Instant::ZERO, None, None, caches);
    assert!(matches!(step, Step::Send { .. }), "{step:?}");
    let end = rawdoc! { "conversationId": 1, "done": true, "payload": "", "ok": 1 };
    let step = black_box(conversation.handle_reply(Instant::ZERO, &end, caches));
    assert!(matches!(step, Step::Done), "{step:?}");
}
