//! Tests of MONGODB-AWS, with a small client.

use super::{binary, code, options, payload, proceed, start, user};
use crate::{
    deployment::{AuthMechanism, DeploymentOptions, tests::world::World},
    identity::{AwsIdentity, SignedRequest, compact},
};
use bson::{Document, doc};
use onionskin_core::time::WallTime;
use std::time::Duration;

const MECHANISM: AuthMechanism = AuthMechanism::Aws;

fn aws_options() -> DeploymentOptions {
    let identity = AwsIdentity::new("AKIA", "secret");
    let mut options = options();
    options.users.push(identity.user());
    options.auth.aws.add(identity);
    options
}

fn wall(world: &World) -> WallTime {
    let start = world.deployment.options().started_at.as_unix_millis();
    WallTime::from_unix_millis(start + world.now.as_nanos() / 1_000_000)
}

fn first() -> Document {
    doc! { "r": binary(vec![7; 32]), "p": 110 }
}

fn bytes(document: &Document) -> Vec<u8> {
    document.to_vec().expect("BSON")
}

/// Authenticates with credentials. `skew` is added to the signed date in milliseconds, and `change`
/// changes the client's second message. Returns the code of the error, or `None` for success.
fn log_in_with(
    world: &mut World,
    identity: &AwsIdentity,
    skew: i64,
    change: impl FnOnce(&mut Document),
) -> Option<i32> {
    let conn = world.connect(0);
    let reply = start(world, conn, MECHANISM, "$external", &bytes(&first()));
    let server = Document::from_reader(&mut payload(&reply).as_slice()).expect("BSON");
    let nonce = server.get_binary_generic("s").expect("a nonce");
    assert_eq!((nonce.len(), &nonce[..32]), (64, &[7; 32][..]));
    let millis = wall(world).as_unix_millis().checked_add_signed(skew);
    let date = compact(WallTime::from_unix_millis(millis.expect("a time")));
    let request = SignedRequest {
        access_key_id: &identity.access_key_id,
        secret_access_key: &identity.secret_access_key,
        session_token: identity.session_token.as_deref(),
        date: &date,
        host: server.get_str("h").expect("a host"),
        server_nonce: nonce,
    };
    let mut second = doc! { "a": request.authorization().expect("a header"), "d": &date };
    let token = identity.session_token.as_ref();
    second.extend(token.map(|token| ("t".to_owned(), token.into())));
    change(&mut second);
    let reply = proceed(world, conn, "$external", &bytes(&second));
    if code(&reply).is_none() {
        assert!(user(world, conn).is_some_and(|name| name.starts_with("arn:")));
    }
    code(&reply)
}

fn log_in(world: &mut World, identity: &AwsIdentity) -> Option<i32> {
    log_in_with(world, identity, 0, |_| {})
}

#[test]
fn a_signature_by_the_secret_key_identifies_the_user() {
    for host in [
        "sts.amazonaws.com",
        "sts.us-west-2.amazonaws.com",
        "localhost",
    ] {
        let mut options = aws_options();
        options.auth.sts_host = host.to_owned();
        let mut world = World::new(options, 1);
        let right = AwsIdentity::new("AKIA", "secret");
        assert_eq!(log_in(&mut world, &right), None);
        let mut with_token = right.clone();
        with_token.session_token = Some("token".to_owned());
        for wrong in [
            AwsIdentity::new("AKIA", "other"),
            AwsIdentity::new("AKIB", "secret"),
            with_token,
        ] {
            assert_eq!(log_in(&mut world, &wrong), Some(18));
        }
    }
}

#[test]
fn temporary_credentials_need_their_token_and_expire() {
    let mut options = aws_options();
    let identity = options
        .auth
        .aws
        .issue("app", "s", options.started_at, Duration::from_secs(60));
    let stranger = options
        .auth
        .aws
        .issue("other", "s", options.started_at, Duration::MAX);
    options.users.push(identity.user());
    let mut world = World::new(options, 1);
    assert_eq!(log_in(&mut world, &identity), None);
    let without = log_in_with(&mut world, &identity, 0, |second| {
        second.remove("t");
    });
    assert_eq!(without, Some(18));
    assert_eq!(
        log_in(&mut world, &stranger),
        Some(18),
        "there is no such user"
    );
    world.run_for(Duration::from_secs(60));
    assert_eq!(log_in(&mut world, &identity), Some(18));
}

#[test]
fn the_signed_date_differs_by_at_most_five_minutes() {
    let mut world = World::new(aws_options(), 1);
    let identity = AwsIdentity::new("AKIA", "secret");
    for (minutes, expected) in [(-5, None), (5, None), (-6, Some(18)), (6, Some(18))] {
        let found = log_in_with(&mut world, &identity, minutes * 60_000, |_| {});
        assert_eq!(found, expected, "{minutes}");
    }
}

#[test]
fn malformed_messages_of_mongodb_aws_are_refused() {
    let mut world = World::new(aws_options(), 1);
    let conn = world.connect(0);
    let nonce = |length: usize| binary(vec![7; length]);
    for wrong in [
        doc! { "r": nonce(31), "p": 110 },
        doc! { "r": nonce(33), "p": 110 },
        doc! { "r": nonce(32), "p": 121 },
        doc! { "r": nonce(32) },
        doc! { "r": nonce(32), "p": 110, "x": 1 },
        doc! { "r": "text", "p": 110 },
    ] {
        let reply = start(&mut world, conn, MECHANISM, "$external", &bytes(&wrong));
        assert_eq!(code(&reply), Some(18), "{wrong}");
    }
    assert_eq!(
        code(&start(&mut world, conn, MECHANISM, "$external", b"x")),
        Some(18)
    );
    let reply = start(&mut world, conn, MECHANISM, "admin", &bytes(&first()));
    assert_eq!(code(&reply), Some(18));
    let identity = AwsIdentity::new("AKIA", "secret");
    let changes: [fn(&mut Document); 5] = [
        |second| _ = second.remove("a"),
        |second| _ = second.insert("d", "20250101T000000Z"),
        |second| _ = second.insert("a", "AWS4-HMAC-SHA256"),
        |second| _ = second.insert("t", 1),
        |second| _ = second.insert("x", 1),
    ];
    for change in changes {
        assert_eq!(log_in_with(&mut world, &identity, 0, change), Some(18));
    }
}
