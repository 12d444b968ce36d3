//! Tests of the SCRAM mechanisms and PLAIN, with a small client.

use super::{code, options, payload, proceed, start, user};
use crate::deployment::{AuthMechanism, ConnId, User, tests::world::World};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bson::{Document, doc};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// Authenticates with a SCRAM mechanism. Returns the code of the error, or `None` for success.
pub(super) fn log_in(
    world: &mut World,
    conn: ConnId,
    mechanism: AuthMechanism,
    (database, name, password): (&str, &str, &str),
) -> Option<i32> {
    let escaped = name.replace('=', "=3D").replace(',', "=2C");
    let bare = format!("n={escaped},r=abcdef");
    let first = start(
        world,
        conn,
        mechanism,
        database,
        format!("n,,{bare}").as_bytes(),
    );
    if code(&first).is_some() {
        return code(&first);
    }
    let server = String::from_utf8(payload(&first)).expect("text");
    let mut fields = server.split(',').map(|field| &field[2..]);
    let nonce = fields.next().expect("a nonce");
    let salt = STANDARD
        .decode(fields.next().expect("a salt"))
        .expect("base64");
    let rounds = fields.next().expect("a count").parse().expect("a number");
    let last = format!("c=biws,r={nonce}");
    let message = format!("{bare},{server},{last}");
    let proof = proof(mechanism, (name, password), (&salt, rounds), &message);
    let last = format!("{last},p={proof}");
    let reply = proceed(world, conn, database, last.as_bytes());
    if code(&reply).is_none() {
        assert!(reply.get_bool("done").expect("a field"), "{reply}");
        assert!(payload(&reply).starts_with(b"v="));
    }
    code(&reply)
}

fn proof(
    mechanism: AuthMechanism,
    (name, password): (&str, &str),
    (salt, rounds): (&[u8], u32),
    message: &str,
) -> String {
    let mixed: Vec<u8> = if mechanism == AuthMechanism::ScramSha1 {
        let digest = md5::Md5::digest(format!("{name}:mongo:{password}").as_bytes());
        let digest: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        let mut salted = [0; 20];
        pbkdf2::pbkdf2_hmac::<Sha1>(digest.as_bytes(), salt, rounds, &mut salted);
        let hmac = |key: &[u8], text: &[u8]| {
            let mac = <Hmac<Sha1> as Mac>::new_from_slice(key).expect("a key");
            mac.chain_update(text).finalize().into_bytes()
        };
        let client = hmac(&salted, b"Client Key");
        let signature = hmac(&Sha1::digest(client), message.as_bytes());
        client.iter().zip(signature).map(|(a, b)| a ^ b).collect()
    } else {
        let mut salted = [0; 32];
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, rounds, &mut salted);
        let hmac = |key: &[u8], text: &[u8]| {
            let mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("a key");
            mac.chain_update(text).finalize().into_bytes()
        };
        let client = hmac(&salted, b"Client Key");
        let signature = hmac(&Sha256::digest(client), message.as_bytes());
        client.iter().zip(signature).map(|(a, b)| a ^ b).collect()
    };
    STANDARD.encode(mixed)
}

#[test]
fn each_mechanism_accepts_only_the_right_password() {
    let mut world = World::new(options(), 1);
    for mechanism in [AuthMechanism::ScramSha1, AuthMechanism::ScramSha256] {
        let conn = world.connect(0);
        let wrong = ("admin", "ada", "chalk");
        assert_eq!(log_in(&mut world, conn, mechanism, wrong), Some(18));
        assert_eq!(user(&mut world, conn), None);
        let right = ("admin", "ada", "pencil");
        assert_eq!(log_in(&mut world, conn, mechanism, right), None);
        assert_eq!(user(&mut world, conn).as_deref(), Some("ada"));
        let other = ("test", "ada", "pencil");
        assert_eq!(log_in(&mut world, conn, mechanism, other), Some(18));
    }
}

#[test]
fn a_user_with_one_mechanism_cannot_use_the_other() {
    let mut options = options();
    options.users[0].mechanisms = vec![AuthMechanism::ScramSha1];
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let ada = ("admin", "ada", "pencil");
    let modern = AuthMechanism::ScramSha256;
    assert_eq!(log_in(&mut world, conn, modern, ada), Some(18));
    assert_eq!(
        log_in(&mut world, conn, AuthMechanism::ScramSha1, ada),
        None
    );
    let hello = |name: &str| doc! { "hello": 1, "saslSupportedMechs": name, "$db": "admin" };
    let reply = world
        .send_command(conn, &hello("admin.ada"))
        .expect("a reply");
    let listed = reply.get_array("saslSupportedMechs").expect("a list");
    assert_eq!(listed, &vec!["SCRAM-SHA-1".into()]);
    let reply = world
        .send_command(conn, &hello("admin.eve"))
        .expect("a reply");
    assert!(!reply.contains_key("saslSupportedMechs"));
}

#[test]
fn a_mechanism_that_is_not_enabled_is_unavailable() {
    let mut options = options();
    options.auth.mechanisms = vec![AuthMechanism::ScramSha256];
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    for mechanism in AuthMechanism::ALL {
        let expected = match mechanism {
            AuthMechanism::ScramSha256 => Some(18),
            _ => Some(334),
        };
        assert_eq!(
            code(&start(&mut world, conn, mechanism, "admin", b"")),
            expected
        );
    }
    let authenticate = doc! {
        "authenticate": 1, "mechanism": "MONGODB-X509", "$db": "$external",
    };
    let reply = world.send_command(conn, &authenticate).expect("a reply");
    assert_eq!(code(&reply), Some(334));
    let hello = doc! { "hello": 1, "saslSupportedMechs": "admin.ada", "$db": "admin" };
    let reply = world.send_command(conn, &hello).expect("a reply");
    assert_eq!(
        reply.get_array("saslSupportedMechs").map(Vec::len).ok(),
        Some(1)
    );
    let parameter = doc! { "getParameter": 1, "authenticationMechanisms": 1, "$db": "admin" };
    let ada = ("admin", "ada", "pencil");
    assert_eq!(
        log_in(&mut world, conn, AuthMechanism::ScramSha256, ada),
        None
    );
    let reply = world.send_command(conn, &parameter).expect("a reply");
    let listed = reply.get_array("authenticationMechanisms").expect("a list");
    assert_eq!(listed, &vec!["SCRAM-SHA-256".into()]);
}

#[test]
fn a_continued_conversation_needs_its_id_and_a_start() {
    let mut world = World::new(options(), 1);
    let conn = world.connect(0);
    assert_eq!(code(&proceed(&mut world, conn, "admin", b"")), Some(17));
    let first = b"n,,n=ada,r=abc";
    start(&mut world, conn, AuthMechanism::ScramSha256, "admin", first);
    let other = doc! {
        "saslContinue": 1, "conversationId": 7, "payload": super::binary(*b"c"), "$db": "admin",
    };
    let reply = world.send_command(conn, &other).expect("a reply");
    assert_eq!(code(&reply), Some(17));
    // The wrong message has ended the conversation.
    assert_eq!(code(&proceed(&mut world, conn, "admin", b"")), Some(17));
}

#[test]
fn payloads_of_wrong_types_are_errors_and_strings_are_base64() {
    let mut world = World::new(options(), 1);
    let conn = world.connect(0);
    let with = |payload: bson::Bson| -> Document {
        doc! {
            "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload, "$db": "admin",
        }
    };
    let text = STANDARD.encode("n,,n=ada,r=abc");
    for (payload, expected) in [
        (text.into(), None),
        ("%".into(), Some(18)),
        (1.into(), Some(14)),
        (bson::Bson::Null, Some(14)),
    ] {
        let reply = world.send_command(conn, &with(payload)).expect("a reply");
        assert_eq!(code(&reply), expected, "{reply}");
        // The reply to a string is a string (AUTH-40), which PyMongo expects with GSSAPI.
        let is_text = reply.get_str("payload").is_ok();
        assert_eq!(is_text, expected.is_none(), "{reply}");
    }
    let mut missing = with(1.into());
    missing.remove("payload");
    let reply = world.send_command(conn, &missing).expect("a reply");
    assert_eq!(code(&reply), Some(40414));
    let huge = vec![b'x'; 100_000];
    let reply = start(&mut world, conn, AuthMechanism::Plain, "$external", &huge);
    assert_eq!(code(&reply), Some(18));
}

#[test]
fn plain_and_mongodb_aws_have_no_speculative_authentication() {
    let mut options = options();
    options.users.push(User::ldap("lea", "pencil"));
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let start = doc! {
        "saslStart": 1, "mechanism": "PLAIN", "payload": super::binary(*b"\0lea\0pencil"),
        "db": "$external",
    };
    let hello = doc! { "hello": 1, "speculativeAuthenticate": start, "$db": "admin" };
    let reply = world.send_command(conn, &hello).expect("a reply");
    assert!(!reply.contains_key("speculativeAuthenticate"), "{reply}");
    assert_eq!(user(&mut world, conn), None);
}

#[test]
fn a_hello_needs_the_database_of_the_user() {
    let mut world = World::new(options(), 1);
    let conn = world.connect(0);
    let hello = doc! { "hello": 1, "saslSupportedMechs": "ada", "$db": "admin" };
    let reply = world.send_command(conn, &hello).expect("a reply");
    assert_eq!(code(&reply), Some(2), "{reply}");
}

#[test]
fn plain_is_done_after_one_message_on_any_database() {
    let mut options = options();
    options.users.push(User::ldap("lea", "pencil"));
    let mut of_app = User::ldap("max", "pencil");
    of_app.database = "app".to_owned();
    options.users.push(of_app);
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let plain = AuthMechanism::Plain;
    for (database, message, expected) in [
        ("$external", &b"\0lea\0pencil"[..], None),
        ("$external", b"lea\0lea\0pencil", None),
        ("app", b"\0max\0pencil", None),
        ("$external", b"\0lea\0chalk", Some(18)),
        ("$external", b"ada\0lea\0pencil", Some(18)),
        ("admin", b"\0ada\0pencil", Some(18)),
        ("$external", b"\0max\0pencil", Some(18)),
    ] {
        let reply = start(&mut world, conn, plain, database, message);
        assert_eq!(code(&reply), expected, "{reply}");
        assert_eq!(
            reply.get_bool("done").ok(),
            expected.is_none().then_some(true)
        );
    }
    assert_eq!(user(&mut world, conn).as_deref(), Some("max"));
}

#[test]
fn the_subject_of_the_certificate_is_the_user_of_mongodb_x509() {
    const SUBJECT: &str = "CN=client,OU=Drivers,O=MongoDB";
    let mut options = options();
    options.users.push(User::external(SUBJECT));
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let command = |user: Option<&str>, database: &str| {
        let mut command = doc! { "authenticate": 1, "mechanism": "MONGODB-X509" };
        command.extend(user.map(|user| ("user".to_owned(), user.into())));
        command.insert("$db", database);
        command
    };
    let mut run = |conn, user: Option<&str>, database: &str| {
        world
            .send_command(conn, &command(user, database))
            .expect("a reply")
    };
    assert_eq!(code(&run(conn, None, "$external")), Some(18));
    world.deployment.handle_certificate(conn, SUBJECT);
    let mut run = |conn, user: Option<&str>, database: &str| {
        world
            .send_command(conn, &command(user, database))
            .expect("a reply")
    };
    assert_eq!(code(&run(conn, Some("CN=other"), "$external")), Some(18));
    assert_eq!(code(&run(conn, None, "admin")), Some(17));
    let reply = run(conn, None, "$external");
    assert_eq!(reply.get_str("user").ok(), Some(SUBJECT), "{reply}");
    assert_eq!(reply.get_str("dbname").ok(), Some("$external"));
    assert_eq!(code(&run(conn, Some(SUBJECT), "$external")), None);
    assert_eq!(user(&mut world, conn).as_deref(), Some(SUBJECT));

    let stranger = world.connect(0);
    world.deployment.handle_certificate(stranger, "CN=stranger");
    let reply = world
        .send_command(stranger, &command(None, "$external"))
        .expect("a reply");
    assert_eq!(code(&reply), Some(18));
}

#[test]
fn speculative_authentication_of_mongodb_x509_is_done_at_once() {
    let mut options = options();
    options.users.push(User::external("CN=client"));
    options.auth.certificate_subject = Some("CN=client".to_owned());
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let speculative = doc! {
        "authenticate": 1, "mechanism": "MONGODB-X509",
    };
    let hello = doc! { "hello": 1, "speculativeAuthenticate": speculative, "$db": "admin" };
    let reply = world.send_command(conn, &hello).expect("a reply");
    let step = reply
        .get_document("speculativeAuthenticate")
        .expect("a field");
    assert_eq!(step.get_str("user").ok(), Some("CN=client"));
    assert_eq!(user(&mut world, conn).as_deref(), Some("CN=client"));
}
