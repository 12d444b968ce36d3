//! Tests of authentication.

mod choice;
mod echoes;
mod external;
mod gssapi;
mod hostile;
mod login;
mod oidc;
mod passwords;

use super::*;
use crate::{
    error::{Error, ErrorKind, Label},
    options::{AuthMechanism, Credential, Secret},
    random::{Random, Seed},
    time::Instant,
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bson::{Binary, RawDocument, RawDocumentBuf, rawdoc, spec::BinarySubtype};
use std::sync::Arc;

/// A conversation that the specification publishes as an example.
struct Vector {
    mechanism: AuthMechanism,
    nonce: &'static str,
    start: &'static str,
    suffix: &'static str,
    salt: &'static str,
    iterations: u32,
    proof: &'static str,
    signature: &'static str,
}

const VECTORS: [Vector; 2] = [
    Vector {
        mechanism: AuthMechanism::ScramSha1,
        nonce: "fyko+d2lbbFgONRv9qkxdawL",
        start: "biwsbj11c2VyLHI9ZnlrbytkMmxiYkZnT05Sdjlxa3hkYXdM",
        suffix: "Ho+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE",
        salt: "rQ9ZY3MntBeuP3E1TDVC4w==",
        iterations: 10_000,
        proof: "MC2T8BvbmWRckDw8oWl5IVghwCY=",
        signature: "UMWeI25JD1yNYZRMpZ4VHvhZ9e0=",
    },
    Vector {
        mechanism: AuthMechanism::ScramSha256,
        nonce: "rOprNGfwEbeRWgbNEkqO",
        start: "biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=",
        suffix: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        salt: "W22ZaJ0SNY7soEsUEjb6gQ==",
        iterations: 4096,
        proof: "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        signature: "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    },
];

impl Vector {
    fn conversation(&self) -> Conversation {
        let mut conversation = conversation(Some(self.mechanism), "user", "pencil");
        conversation.set_nonce(self.nonce);
        conversation
    }

    fn server_first(&self) -> String {
        let Self {
            nonce,
            suffix,
            salt,
            iterations,
            ..
        } = self;
        format!("r={nonce}{suffix},s={salt},i={iterations}")
    }

    fn server_final(&self) -> String {
        format!("v={}", self.signature)
    }

    fn client_final(&self) -> String {
        format!("c=biws,r={}{},p={}", self.nonce, self.suffix, self.proof)
    }
}

fn random() -> Random {
    Seed::new([5; 32]).random()
}

fn conversation(mechanism: Option<AuthMechanism>, user: &str, password: &str) -> Conversation {
    let mut credential = Credential::password(user, password);
    credential.mechanism = mechanism;
    conversation_of(&credential).expect("a usable credential")
}

fn conversation_of(credential: &Credential) -> Result<Conversation, Error> {
    let credential = Arc::new(credential.clone());
    Conversation::new(&credential, "localhost", None, &mut random())
}

/// Returns the command that the hello carries.
fn speculative(conversation: &mut Conversation) -> RawDocumentBuf {
    let command = conversation.speculative(&Caches::new());
    command.expect("the mechanism speculates")
}

fn reply(payload: &str, done: bool) -> RawDocumentBuf {
    let payload = Binary {
        subtype: BinarySubtype::Generic,
        bytes: payload.as_bytes().to_vec(),
    };
    rawdoc! { "conversationId": 7, "done": done, "payload": payload, "ok": 1.0 }
}

fn sent(step: Step) -> RawDocumentBuf {
    match step {
        Step::Send { database, command } => {
            assert_eq!(database, "admin");
            command
        }
        other => panic!("{other:?} where a command was expected"),
    }
}

fn payload(command: &RawDocumentBuf) -> String {
    let binary = command.get_binary("payload").expect("a payload");
    assert_eq!(binary.subtype, BinarySubtype::Generic);
    String::from_utf8(binary.bytes.to_vec()).expect("SCRAM is text")
}

/// If `step` asks for keys, derives them and returns the step after that. Otherwise returns `step`.
fn with_keys(conversation: &mut Conversation, step: Step) -> Step {
    match step {
        Step::Derive(derivation) => {
            conversation.handle_keys(&derivation.derive(), &mut Caches::new())
        }
        step => step,
    }
}

/// Gives the conversation a reply and, if the next step asks for keys, the derived keys.
fn answer(conversation: &mut Conversation, reply: &RawDocument, keys: &mut Caches) -> Step {
    let step = conversation.handle_reply(Instant::ZERO, reply, keys);
    with_keys(conversation, step)
}

fn failed(step: Step) -> (String, Error) {
    match step {
        Step::Failed(error) => match error.kind() {
            ErrorKind::Authentication { message, .. } => (message.clone(), error.clone()),
            other => panic!("{other} is not an authentication error"),
        },
        other => panic!("{other:?} where a failure was expected"),
    }
}

/// Runs a conversation until the client has sent its proof.
fn after_client_final(vector: &Vector, keys: &mut Caches) -> Conversation {
    let mut conversation = vector.conversation();
    sent(conversation.handle_hello(Instant::ZERO, None, None, keys));
    let command = sent(answer(
        &mut conversation,
        &reply(&vector.server_first(), false),
        keys,
    ));
    assert_eq!(payload(&command), vector.client_final());
    conversation
}

#[test]
fn the_published_scram_conversations_are_reproduced() {
    for vector in &VECTORS {
        let mut keys = Caches::new();
        let mut conversation = vector.conversation();
        let command = sent(conversation.handle_hello(Instant::ZERO, None, None, &mut keys));
        let expected = rawdoc! {
            "saslStart": 1, "mechanism": vector.mechanism.name(),
            "payload": Binary {
                subtype: BinarySubtype::Generic,
                bytes: BASE64.decode(vector.start).expect("base64"),
            },
            "autoAuthorize": 1, "options": { "skipEmptyExchange": true },
        };
        assert_eq!(command, expected);
        let first = reply(&vector.server_first(), false);
        let command = sent(answer(&mut conversation, &first, &mut keys));
        let expected = rawdoc! {
            "saslContinue": 1, "conversationId": 7,
            "payload": Binary {
                subtype: BinarySubtype::Generic,
                bytes: vector.client_final().into_bytes(),
            },
        };
        assert_eq!(command, expected);
        assert!(keys.keys.is_empty(), "not before the server proved itself");
        let last = reply(&vector.server_final(), true);
        assert!(matches!(
            answer(&mut conversation, &last, &mut keys),
            Step::Done
        ));
        assert_eq!(keys.keys.len(), 1);
    }
}

#[test]
fn an_empty_message_is_sent_if_the_server_is_not_done_after_its_signature() {
    // `done: false` with the server's proof asks for one empty `saslContinue` (AUTH-43).
    for vector in &VECTORS {
        let mut keys = Caches::new();
        let mut conversation = after_client_final(vector, &mut keys);
        let last = reply(&vector.server_final(), false);
        let command = sent(answer(&mut conversation, &last, &mut keys));
        assert_eq!(payload(&command), "");
        assert!(matches!(
            answer(&mut conversation, &reply("", true), &mut keys),
            Step::Done
        ));
    }
}

#[test]
fn the_reply_to_the_empty_message_must_be_empty_and_done() {
    for (payload, done) in [("", false), ("v=x", true)] {
        let mut keys = Caches::new();
        let mut conversation = after_client_final(&VECTORS[1], &mut keys);
        sent(answer(
            &mut conversation,
            &reply(&VECTORS[1].server_final(), false),
            &mut keys,
        ));
        failed(answer(&mut conversation, &reply(payload, done), &mut keys));
    }
}

#[test]
fn cached_keys_give_the_same_proof() {
    // The second conversation finds the keys in the cache (AUTH-35).
    let vector = &VECTORS[1];
    let mut keys = Caches::new();
    for _ in 0..2 {
        let mut conversation = after_client_final(vector, &mut keys);
        let last = reply(&vector.server_final(), true);
        assert!(matches!(
            answer(&mut conversation, &last, &mut keys),
            Step::Done
        ));
        assert_eq!(keys.keys.len(), 1);
    }
}

#[test]
fn a_wrong_server_signature_fails_authentication() {
    // A wrong or malformed signature of the server fails the conversation (AUTH-60).
    for vector in &VECTORS {
        for value in [
            "v=AAAA",
            "v=",
            "v=%",
            "",
            "x=1",
            &format!("v={}", vector.proof),
        ] {
            for done in [true, false] {
                let mut keys = Caches::new();
                let mut conversation = after_client_final(vector, &mut keys);
                failed(answer(&mut conversation, &reply(value, done), &mut keys));
                assert!(keys.keys.is_empty());
            }
        }
    }
}

#[test]
fn done_before_the_server_signature_fails_authentication() {
    // `done: true` before the server's proof is a failure (AUTH-61).
    let mut keys = Caches::new();
    let mut conversation = VECTORS[1].conversation();
    sent(conversation.handle_hello(Instant::ZERO, None, None, &mut keys));
    let early = reply(&VECTORS[1].server_first(), true);
    let (message, _) = failed(answer(&mut conversation, &early, &mut keys));
    assert!(message.contains("without a proof"), "{message}");
}

#[test]
fn an_invalid_first_message_of_the_server_fails_authentication() {
    // A low iteration count (AUTH-56), a wrong nonce, a malformed message and an error (AUTH-60)
    // fail the conversation. The upper limits of iteration count and salt are this driver's own.
    let nonce = VECTORS[1].nonce;
    let salt = VECTORS[1].salt;
    let long_salt = BASE64.encode([0; 1025]);
    let cases = [
        (format!("r={nonce}x,s={salt},i=4095"), "outside"),
        (format!("r={nonce}x,s={salt},i=0"), "outside"),
        (
            format!("r={nonce}x,s={salt},i={}", MAX_ITERATIONS + 1),
            "outside",
        ),
        (format!("r={nonce}x,s={salt},i=99999999999999"), "outside"),
        (format!("r={nonce}x,s={salt},i=-4096"), "no number"),
        (format!("r={nonce}x,s={salt},i=+4096"), "no number"),
        (format!("r={nonce}x,s={salt},i="), "outside"),
        (format!("r={nonce},s={salt},i=4096"), "nonce"),
        (format!("r=x{nonce},s={salt},i=4096"), "nonce"),
        (format!("r={nonce} ,s={salt},i=4096"), "nonce"),
        (format!("r={nonce}x,s=%,i=4096"), "salt"),
        (format!("r={nonce}x,s=,i=4096"), "salt"),
        (format!("r={nonce}x,s={long_salt},i=4096"), "salt"),
        (format!("m=ext,r={nonce}x,s={salt},i=4096"), "r="),
        (format!("r={nonce}x,i=4096,s={salt}"), "s="),
        (format!("r={nonce}x"), "s="),
        (String::new(), "r="),
        ("e=unknown-user".to_owned(), "unknown-user"),
    ];
    for (text, expected) in cases {
        let mut keys = Caches::new();
        let mut conversation = VECTORS[1].conversation();
        sent(conversation.handle_hello(Instant::ZERO, None, None, &mut keys));
        let (message, _) = failed(answer(&mut conversation, &reply(&text, false), &mut keys));
        assert!(message.contains(expected), "{text:?}: {message}");
    }
}

#[test]
fn an_error_in_the_final_message_of_the_server_is_reported() {
    let mut keys = Caches::new();
    let mut conversation = after_client_final(&VECTORS[0], &mut keys);
    let (message, _) = failed(answer(
        &mut conversation,
        &reply("e=other-error", true),
        &mut keys,
    ));
    assert!(message.contains("other-error"), "{message}");
}

#[test]
fn an_invalid_sasl_reply_fails_authentication() {
    // A reply without a valid `conversationId`, `done` or payload fails the conversation (AUTH-40,
    // AUTH-41), and so does one with an error code.
    let first = VECTORS[1].server_first();
    for bad in [
        rawdoc! { "ok": 1 },
        rawdoc! { "ok": 1, "conversationId": "x", "done": false, "payload": first.as_str() },
        rawdoc! { "ok": 1, "conversationId": 1, "payload": BASE64.encode(&first) },
        rawdoc! { "ok": 1, "conversationId": 1, "done": false, "payload": 5 },
        rawdoc! { "ok": 1, "conversationId": 1, "done": false, "payload": "%%" },
        rawdoc! { "ok": 1, "conversationId": 1, "done": false, "payload": "A".repeat(40_000) },
        rawdoc! {
            "ok": 1, "conversationId": 1, "done": false, "code": 18,
            "payload": BASE64.encode(&first),
        },
        rawdoc! {
            "ok": 1, "conversationId": 1, "done": false, "code": "18",
            "payload": BASE64.encode(&first),
        },
    ] {
        let mut keys = Caches::new();
        let mut conversation = VECTORS[1].conversation();
        sent(conversation.handle_hello(Instant::ZERO, None, None, &mut keys));
        failed(answer(&mut conversation, &bad, &mut keys));
        // Later replies cannot revive the conversation.
        failed(answer(&mut conversation, &reply("", true), &mut keys));
    }
}

#[test]
fn a_changed_conversation_id_fails_authentication() {
    let mut keys = Caches::new();
    let mut conversation = after_client_final(&VECTORS[1], &mut keys);
    let mut other = rawdoc! { "ok": 1, "conversationId": 8, "done": true };
    let text = BASE64.encode(VECTORS[1].server_final());
    other.append(bson::cstr!("payload"), text);
    failed(answer(&mut conversation, &other, &mut keys));
}

#[test]
fn a_payload_in_a_base64_string_is_accepted() {
    // The payload may be binary or a base64 string (AUTH-40).
    let mut keys = Caches::new();
    let mut conversation = VECTORS[1].conversation();
    sent(conversation.handle_hello(Instant::ZERO, None, None, &mut keys));
    let text = BASE64.encode(VECTORS[1].server_first());
    let reply = rawdoc! { "conversationId": 7_i64, "done": false, "payload": text, "ok": 1 };
    let command = sent(answer(&mut conversation, &reply, &mut keys));
    assert_eq!(payload(&command), VECTORS[1].client_final());
}

#[test]
fn an_authentication_error_has_the_code_and_labels_of_the_reply() {
    // The error keeps the label `SystemOverloadedError`, with which the pool is not cleared
    // (AUTH-19).
    let mut keys = Caches::new();
    let mut conversation = VECTORS[1].conversation();
    sent(conversation.handle_hello(Instant::ZERO, None, None, &mut keys));
    let refusal = rawdoc! {
        "ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": "Authentication failed.",
        "errorLabels": ["SystemOverloadedError"],
    };
    let (_, error) = failed(answer(&mut conversation, &refusal, &mut keys));
    assert!(error.has_label(&Label::SystemOverloadedError));
    let ErrorKind::Authentication {
        cause, mechanism, ..
    } = error.kind()
    else {
        panic!("{error}");
    };
    assert_eq!(*mechanism, "SCRAM-SHA-256");
    assert_eq!(cause.as_ref().and_then(|fault| fault.code()), Some(18));
}

#[test]
fn each_conversation_has_a_new_nonce_of_24_bytes() {
    // Two conversations have different nonces. A nonce is 24 bytes in base64 from a
    // cryptographically strong generator (AUTH-55), which has a fixed seed here.
    let credential = Arc::new(Credential::password("user", "pencil"));
    let mut random = random();
    let mut draw = || {
        let conversation = Conversation::new(&credential, "localhost", None, &mut random);
        payload(&speculative(&mut conversation.expect("usable")))
    };
    let (first, second) = (draw(), draw());
    assert_ne!(first, second);
    assert_eq!(first.len(), "n,,n=user,r=".len() + 32);
}

#[test]
fn an_error_names_the_missing_field() {
    // The error names the missing field (AUTH-9).
    let error = |credential: &Credential| conversation_of(credential).expect_err("not usable");
    let mut credential = Credential::builder().source("admin".to_owned()).build();
    assert!(error(&credential).to_string().contains("user name"));
    credential.username = Some("user".to_owned());
    assert!(error(&credential).to_string().contains("password"));
    credential.password = Some(Secret::new("pencil"));
    assert!(conversation_of(&credential).is_ok());
}

#[test]
fn debug_output_contains_no_secrets() {
    let mut keys = Caches::new();
    let mut conversation = conversation(Some(AuthMechanism::ScramSha256), "user", "pencil");
    let step = conversation.handle_hello(Instant::ZERO, None, None, &mut keys);
    let first = payload(&sent(conversation.handle_hello(
        Instant::ZERO,
        None,
        None,
        &mut keys,
    )));
    let nonce = first.rsplit("r=").next().expect("a nonce").to_owned();
    let shown = format!("{conversation:?} {step:?} {keys:?}");
    for secret in ["pencil", nonce.as_str(), "saslStart"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
