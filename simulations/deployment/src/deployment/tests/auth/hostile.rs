//! Tests of the server's faults in authentication.

use super::{binary, code, options, scram::log_in, start};
use crate::{
    deployment::{AuthFault, AuthMechanism, ConnId, User, tests::world::World},
    identity::{IssuerOptions, TokenIssuer},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bson::{Bson, Document, doc};
use onionskin_core::random::Seed;
use std::{collections::BTreeSet, time::Duration};

const SHA256: AuthMechanism = AuthMechanism::ScramSha256;

/// Sends the first message of a mechanism, and returns the reply.
fn first(world: &mut World, conn: ConnId, mechanism: AuthMechanism) -> Document {
    let payload = match mechanism {
        AuthMechanism::Aws => doc! { "r": binary(vec![7; 32]), "p": 110 }
            .to_vec()
            .expect("BSON"),
        _ => b"n,,n=ada,r=abcdef".to_vec(),
    };
    let database = match mechanism {
        AuthMechanism::Aws => "$external",
        _ => "admin",
    };
    start(world, conn, mechanism, database, &payload)
}

fn faulty(fault: AuthFault, mechanism: AuthMechanism) -> (World, ConnId, Document) {
    let mut world = World::new(options(), 1);
    world.deployment.set_auth_fault(Some(fault));
    let conn = world.connect(0);
    let reply = first(&mut world, conn, mechanism);
    (world, conn, reply)
}

fn text(reply: &Document) -> String {
    String::from_utf8(super::payload(reply)).expect("text")
}

#[test]
fn scram_faults_change_the_first_message_of_the_server() {
    let (_, _, reply) = faulty(AuthFault::NoIterations, SHA256);
    assert!(text(&reply).ends_with(",i=0"));
    let (_, _, reply) = faulty(AuthFault::OneIteration, SHA256);
    assert!(text(&reply).ends_with(",i=1"));
    let (_, _, reply) = faulty(AuthFault::ManyIterations, SHA256);
    assert!(text(&reply).ends_with(",i=2147483648"));
    let (_, _, reply) = faulty(AuthFault::WrongNonce, SHA256);
    assert!(!text(&reply).starts_with("r=abcdef"));
    let (_, _, reply) = faulty(AuthFault::ShortNonce, SHA256);
    assert!(text(&reply).starts_with("r=abcde,"));
}

#[test]
fn a_client_that_overlooks_a_fault_authenticates() {
    // The client of these tests checks neither the nonce nor the iteration count.
    for fault in [
        AuthFault::OneIteration,
        AuthFault::WrongNonce,
        AuthFault::ShortNonce,
    ] {
        let mut world = World::new(options(), 1);
        world.deployment.set_auth_fault(Some(fault));
        let conn = world.connect(0);
        let ada = ("admin", "ada", "pencil");
        assert_eq!(log_in(&mut world, conn, SHA256, ada), None, "{fault:?}");
    }
}

#[test]
fn aws_faults_change_the_nonce_and_the_host() {
    let server = |fault| {
        let (_, _, reply) = faulty(fault, AuthMechanism::Aws);
        Document::from_reader(&mut super::payload(&reply).as_slice()).expect("BSON")
    };
    let nonce = |fault| {
        server(fault)
            .get_binary_generic("s")
            .expect("a nonce")
            .clone()
    };
    assert_ne!(nonce(AuthFault::WrongNonce)[..32], [7; 32]);
    assert_eq!(nonce(AuthFault::ShortNonce).len(), 63);
    assert_eq!(nonce(AuthFault::LongNonce).len(), 65);
    for (fault, length) in [
        (AuthFault::EmptyHost, 0),
        (AuthFault::EmptyLabel, 8),
        (AuthFault::LongHost, 300),
    ] {
        assert_eq!(server(fault).get_str("h").map(str::len).ok(), Some(length));
    }
}

#[test]
fn payloads_can_have_wrong_types_and_sizes() {
    let payload = |fault| faulty(fault, SHA256).2.get("payload").cloned();
    let Some(Bson::String(encoded)) = payload(AuthFault::TextPayload) else {
        panic!("the payload is a string");
    };
    assert!(
        STANDARD
            .decode(encoded)
            .is_ok_and(|text| text.starts_with(b"r=abcdef"))
    );
    assert_eq!(payload(AuthFault::IntegerPayload), Some(1.into()));
    assert_eq!(payload(AuthFault::NoPayload), None);
    let Some(Bson::Binary(huge)) = payload(AuthFault::HugePayload) else {
        panic!("the payload is binary");
    };
    assert_eq!(huge.bytes.len(), 1024 * 1024);
    let Some(Bson::Binary(cut)) = payload(AuthFault::CutPayload) else {
        panic!("the payload is binary");
    };
    assert!(cut.bytes.starts_with(b"r=abcdef") && !cut.bytes.ends_with(b",i=4096"));
    let Some(Bson::Binary(other)) = payload(AuthFault::OtherPayload) else {
        panic!("the payload is binary");
    };
    assert!(Document::from_reader(&mut other.bytes.as_slice()).is_ok());
}

#[test]
fn a_conversation_can_end_too_early_or_never() {
    let (mut world, conn, reply) = faulty(AuthFault::EarlyDone, SHA256);
    assert!(reply.get_bool("done").expect("a field"));
    let find = doc! { "find": "c", "$db": "d" };
    assert_eq!(
        code(&world.send_command(conn, &find).expect("a reply")),
        None
    );

    let mut options = options();
    options.users.push(User::ldap("lea", "pencil"));
    let mut world = World::new(options, 1);
    world.deployment.set_auth_fault(Some(AuthFault::Endless));
    let conn = world.connect(0);
    let plain = AuthMechanism::Plain;
    let reply = start(&mut world, conn, plain, "$external", b"\0lea\0pencil");
    assert!(!reply.get_bool("done").expect("a field"));
    for _ in 0..100 {
        let reply = super::proceed(&mut world, conn, "$external", b"");
        assert!(!reply.get_bool("done").expect("a field"));
    }
}

#[test]
fn the_id_of_a_conversation_can_change() {
    let (mut world, conn, reply) = faulty(AuthFault::OtherConversation, SHA256);
    assert_eq!(reply.get_i32("conversationId").ok(), Some(1));
    let ada = ("admin", "ada", "pencil");
    assert_eq!(log_in(&mut world, conn, SHA256, ada), None);
}

#[test]
fn the_server_can_stay_silent_or_close_the_connection() {
    for fault in [AuthFault::Silence, AuthFault::Close] {
        let mut world = World::new(options(), 1);
        world.deployment.set_auth_fault(Some(fault));
        let conn = world.connect(0);
        let start = doc! {
            "saslStart": 1, "mechanism": "SCRAM-SHA-256", "$db": "admin",
            "payload": binary(*b"n,,n=ada,r=abcdef"),
        };
        assert!(world.send_command(conn, &start).is_none());
        world.run_for(Duration::from_secs(3600));
        assert_eq!(world.closed.contains(&conn), fault == AuthFault::Close);
    }
}

#[test]
fn drawn_faults_have_the_given_rate() {
    let mut options = options();
    options.auth.fault_rate = 500;
    let mut world = World::new(options, 1);
    let mut replies = BTreeSet::new();
    for _ in 0..100 {
        let conn = world.connect(0);
        let start = doc! {
            "saslStart": 1, "mechanism": "SCRAM-SHA-256", "$db": "admin",
            "payload": binary(*b"n,,n=ada,r=abcdef"),
        };
        let reply = world.send_command(conn, &start);
        let kind = reply.as_ref().map(|reply| {
            let done = reply.get_bool("done").unwrap_or(false);
            (
                done,
                reply
                    .get("payload")
                    .map(Bson::element_type)
                    .map(|kind| kind as u8),
            )
        });
        replies.insert(kind);
    }
    assert!(replies.len() >= 5, "{replies:?}");
}

#[test]
fn random_payloads_never_authenticate() {
    let mut options = options();
    let seed = Seed::new([9; 32]);
    let issuer = TokenIssuer::new(IssuerOptions::default(), &seed);
    options.auth.issuers.push(issuer);
    let mut world = World::new(options, 1);
    let mut random = seed.random();
    let conn = world.connect(0);
    let valid = [
        b"n,,n=ada,r=abcdef".to_vec(),
        b"\0ada\0pencil".to_vec(),
        doc! { "r": binary(vec![7; 32]), "p": 110 }
            .to_vec()
            .expect("BSON"),
        doc! { "jwt": "a.b.c" }.to_vec().expect("BSON"),
    ];
    for round in 0..2_000 {
        let mut payload = valid[round % valid.len()].clone();
        for _ in 0..random.below(4) {
            let place = usize::try_from(random.below(payload.len() as u64)).expect("a place");
            payload[place] = random.next_u32() as u8;
        }
        let length = random.below(payload.len() as u64 * 2).max(1);
        payload.truncate(usize::try_from(length).expect("a length"));
        let mechanism = AuthMechanism::ALL[round % AuthMechanism::ALL.len()];
        start(&mut world, conn, mechanism, "$external", &payload);
        start(&mut world, conn, mechanism, "admin", &payload);
        super::proceed(&mut world, conn, "admin", &payload);
    }
    assert_eq!(super::user(&mut world, conn), None);
    assert_eq!(world.deployment.auth_counts().successes, 0);
}
