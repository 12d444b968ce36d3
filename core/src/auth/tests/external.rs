//! Tests of MONGODB-X509, PLAIN and MONGODB-AWS.

use super::*;
use crate::{
    auth::{AwsKeys, Caches, Need, Provided},
    time::WallTime,
};

fn of_mechanism(mechanism: AuthMechanism, username: Option<&str>) -> Credential {
    let mut credential = Credential::builder().source("$external".to_owned()).build();
    credential.mechanism = Some(mechanism);
    credential.username = username.map(str::to_owned);
    credential
}

/// Returns the command of a step that goes to `$external`.
fn external(step: Step) -> RawDocumentBuf {
    match step {
        Step::Send { database, command } => {
            assert_eq!(database, "$external");
            command
        }
        other => panic!("{other:?} where a command was expected"),
    }
}

fn bytes(command: &RawDocumentBuf) -> Vec<u8> {
    let binary = command.get_binary("payload").expect("a payload");
    assert_eq!(binary.subtype, BinarySubtype::Generic);
    binary.bytes.to_vec()
}

fn reply_with(payload: &[u8], done: bool) -> RawDocumentBuf {
    let payload = Binary {
        subtype: BinarySubtype::Generic,
        bytes: payload.to_vec(),
    };
    rawdoc! { "conversationId": 7, "done": done, "payload": payload, "ok": 1.0 }
}

#[test]
fn x509_sends_the_user_only_if_the_credential_names_one() {
    // AUTH-62: no error and no `user` without a user name.
    let subject = "C=IS,ST=Reykjavik,L=Reykjavik,O=MongoDB,OU=Drivers,CN=client";
    for (username, expected) in [
        (
            None,
            rawdoc! { "authenticate": 1, "mechanism": "MONGODB-X509" },
        ),
        (
            Some(""),
            rawdoc! { "authenticate": 1, "mechanism": "MONGODB-X509" },
        ),
        (
            Some(subject),
            rawdoc! { "authenticate": 1, "mechanism": "MONGODB-X509", "user": subject },
        ),
    ] {
        let mut caches = Caches::new();
        let credential = of_mechanism(AuthMechanism::MongoDbX509, username);
        let mut conversation = conversation_of(&credential).expect("usable");
        assert_eq!(conversation.sasl_supported_mechs(), None);
        // The hello carries the same command, with `db` (AUTH-33).
        let mut with_db = expected.clone();
        with_db.append(bson::cstr!("db"), "$external");
        assert_eq!(speculative(&mut conversation), with_db);
        let step = conversation.handle_hello(Instant::ZERO, None, None, &mut caches);
        assert_eq!(external(step), expected);
        let reply = rawdoc! { "dbname": "$external", "user": subject, "ok": 1 };
        let step = conversation.handle_reply(Instant::ZERO, &reply, &mut caches);
        assert!(matches!(step, Step::Done));
    }
}

#[test]
fn a_speculative_reply_ends_x509() {
    // AUTH-34: the reply in the hello is that of the command.
    let credential = of_mechanism(AuthMechanism::MongoDbX509, None);
    let mut conversation = conversation_of(&credential).expect("usable");
    let reply = rawdoc! { "dbname": "$external", "user": "CN=client" };
    let mut caches = Caches::new();
    let step = conversation.handle_hello(Instant::ZERO, None, Some(&reply), &mut caches);
    assert!(matches!(step, Step::Done));
}

#[test]
fn plain_sends_user_name_and_password_once() {
    // AUTH-65, with the vector of AUTH-66.
    let mut credential = of_mechanism(AuthMechanism::Plain, Some("user"));
    credential.password = Some(Secret::new("pencil"));
    let mut conversation = conversation_of(&credential).expect("usable");
    let mut caches = Caches::new();
    // The password is never in a hello (AUTH-33).
    assert!(conversation.speculative(&caches).is_none());
    let command = external(conversation.handle_hello(Instant::ZERO, None, None, &mut caches));
    assert_eq!(command.get_str("mechanism").ok(), Some("PLAIN"));
    assert_eq!(BASE64.encode(bytes(&command)), "AHVzZXIAcGVuY2ls");
    let step = conversation.handle_reply(Instant::ZERO, &reply_with(b"", true), &mut caches);
    assert!(matches!(step, Step::Done));
    let mut conversation = conversation_of(&credential).expect("usable");
    external(conversation.handle_hello(Instant::ZERO, None, None, &mut caches));
    let endless = reply_with(b"", false);
    failed(conversation.handle_reply(Instant::ZERO, &endless, &mut caches));
}

const NONCE: &[u8; 32] = b"dzw1U2IwSEtgaWI0IUxZMVJqc2xuQzNC";

const NOW: WallTime = WallTime::from_unix_millis(1_573_086_367_000);

fn aws_keys(token: Option<&str>, expires_at: Option<WallTime>) -> Arc<AwsKeys> {
    Arc::new(AwsKeys::for_test("AKID", "hush", token, expires_at))
}

/// Returns a conversation that waits for credentials, and the caches.
fn aws() -> (Conversation, Caches) {
    let credential = of_mechanism(AuthMechanism::MongoDbAws, None);
    let mut conversation = conversation_of(&credential).expect("usable");
    conversation.set_nonce(std::str::from_utf8(NONCE).expect("text"));
    let mut caches = Caches::new();
    caches.set_wall_time(Instant::ZERO, NOW);
    assert!(conversation.speculative(&caches).is_none());
    let step = conversation.handle_hello(Instant::ZERO, None, None, &mut caches);
    assert!(matches!(step, Step::Fetch(Need::AwsKeys)), "{step:?}");
    (conversation, caches)
}

fn provide(conversation: &mut Conversation, caches: &mut Caches, keys: &Arc<AwsKeys>) -> Step {
    let provided = Provided::AwsKeys(keys.clone());
    caches.keep(Instant::ZERO, &provided);
    conversation.handle_provided(Instant::ZERO, &provided, caches, &mut random())
}

fn challenge(nonce: &[u8], host: &str) -> RawDocumentBuf {
    let nonce = Binary {
        subtype: BinarySubtype::Generic,
        bytes: nonce.to_vec(),
    };
    let message = rawdoc! { "s": nonce, "h": host };
    reply_with(message.as_bytes(), false)
}

fn nonce() -> Vec<u8> {
    [NONCE.as_slice(), &[9; 32]].concat()
}

#[test]
fn aws_proves_its_identity_in_two_messages() {
    // AUTH-77 to AUTH-81.
    for token in [None, Some("session")] {
        let (mut conversation, mut caches) = aws();
        let first = external(provide(
            &mut conversation,
            &mut caches,
            &aws_keys(token, None),
        ));
        assert_eq!(first.get_str("mechanism").ok(), Some("MONGODB-AWS"));
        let payload = bytes(&first);
        assert_eq!(payload.len(), 52);
        let message = RawDocument::from_bytes(&payload).expect("BSON");
        assert_eq!(message.get_binary("r").expect("a nonce").bytes, NONCE);
        assert_eq!(message.get_i32("p").ok(), Some(110));
        let reply = challenge(&nonce(), "sts.us-west-2.amazonaws.com");
        // The signature has the time at which it is made: 5 seconds after the time was set.
        let later = Instant::ZERO + std::time::Duration::from_millis(5_999);
        let second = external(conversation.handle_reply(later, &reply, &mut caches));
        assert_eq!(second.get_i32("conversationId").ok(), Some(7));
        let payload = bytes(&second);
        let message = RawDocument::from_bytes(&payload).expect("BSON");
        assert_eq!(message.get_str("d").ok(), Some("20191107T002612Z"));
        let header = message.get_str("a").expect("a header");
        let scope = "AWS4-HMAC-SHA256 Credential=AKID/20191107/us-west-2/sts/aws4_request, ";
        assert!(header.starts_with(scope), "{header}");
        assert_eq!(message.get_str("t").ok(), token);
        let end = reply_with(b"", true);
        assert!(matches!(
            conversation.handle_reply(later, &end, &mut caches),
            Step::Done
        ));
    }
}

#[test]
fn a_wrong_challenge_of_the_server_fails_aws() {
    // AUTH-79 and AUTH-80.
    let long = "a".repeat(256);
    let mut other = nonce();
    other[31] ^= 1;
    let good = "sts.amazonaws.com";
    let short = &nonce()[..63];
    let extended = [nonce(), vec![1]].concat();
    for (nonce, host, expected) in [
        (other.as_slice(), good, "does not continue"),
        (short, good, "does not continue"),
        (&extended, good, "does not continue"),
        (&nonce(), "", "invalid STS host"),
        (&nonce(), &long, "invalid STS host"),
        (&nonce(), "sts..amazonaws.com", "empty label"),
        (&nonce(), ".amazonaws.com", "empty label"),
        (&nonce(), "sts.amazonaws.", "empty label"),
        (&nonce(), "a\r\nX: y", "invalid STS host"),
    ] {
        let (mut conversation, mut caches) = aws();
        provide(&mut conversation, &mut caches, &aws_keys(None, None));
        let reply = challenge(nonce, host);
        let step = conversation.handle_reply(Instant::ZERO, &reply, &mut caches);
        let (message, _) = failed(step);
        assert!(message.contains(expected), "{message}");
    }
    for reply in [
        reply_with(b"", false),
        reply_with(b"n,,", false),
        reply_with(rawdoc! { "s": "x", "h": good }.as_bytes(), false),
        reply_with(rawdoc! { "h": good }.as_bytes(), false),
        reply_with(b"", true),
    ] {
        let (mut conversation, mut caches) = aws();
        provide(&mut conversation, &mut caches, &aws_keys(None, None));
        failed(conversation.handle_reply(Instant::ZERO, &reply, &mut caches));
    }
}

#[test]
fn cached_aws_credentials_are_used_until_they_are_cleared() {
    // AUTH-98. The client clears them if an authentication fails.
    let hour = WallTime::from_unix_millis(NOW.as_unix_millis() + 3_600_000);
    let (mut conversation, mut caches) = aws();
    provide(
        &mut conversation,
        &mut caches,
        &aws_keys(Some("t"), Some(hour)),
    );
    let credential = of_mechanism(AuthMechanism::MongoDbAws, None);
    let begin = |caches: &mut Caches| {
        let mut conversation = conversation_of(&credential).expect("usable");
        conversation.handle_hello(Instant::ZERO, None, None, caches)
    };
    external(begin(&mut caches));
    caches.clear_aws();
    let step = begin(&mut caches);
    assert!(matches!(step, Step::Fetch(Need::AwsKeys)), "{step:?}");
}

#[test]
fn aws_without_a_calendar_time_fails() {
    let (mut conversation, _) = aws();
    let mut caches = Caches::new();
    let provided = Provided::AwsKeys(aws_keys(None, None));
    conversation.handle_provided(Instant::ZERO, &provided, &mut caches, &mut random());
    let reply = challenge(&nonce(), "sts.amazonaws.com");
    let (message, _) = failed(conversation.handle_reply(Instant::ZERO, &reply, &mut caches));
    assert!(message.contains("calendar time"), "{message}");
}
