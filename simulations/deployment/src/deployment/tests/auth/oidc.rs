//! Tests of MONGODB-OIDC, and of reauthentication.

use super::{code, options, payload, proceed, start, user};
use crate::{
    deployment::{AuthMechanism, ConnId, DeploymentOptions, User, tests::world::World},
    identity::{IssuerOptions, TokenClaims, TokenIssuer},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bson::{Document, doc};
use onionskin_core::random::Seed;
use std::time::Duration;

const MECHANISM: AuthMechanism = AuthMechanism::Oidc;

const HOUR: Duration = Duration::from_secs(3600);

fn issuer(options: IssuerOptions) -> TokenIssuer {
    TokenIssuer::new(options, &Seed::new([3; 32]))
}

fn oidc_options(issuers: &[&TokenIssuer]) -> DeploymentOptions {
    let mut options = options();
    options.auth.issuers = issuers.iter().map(|&issuer| issuer.clone()).collect();
    options
}

fn token(world: &World, issuer: &TokenIssuer, subject: &str) -> String {
    let now = world.deployment.options().started_at;
    issuer.issue(&TokenClaims::new(subject, now, HOUR))
}

fn send(world: &mut World, conn: ConnId, message: &Document) -> Document {
    let bytes = message.to_vec().expect("BSON");
    start(world, conn, MECHANISM, "$external", &bytes)
}

fn find(world: &mut World, conn: ConnId) -> Option<i32> {
    let find = doc! { "find": "c", "$db": "d" };
    code(&world.send_command(conn, &find).expect("a reply"))
}

#[test]
fn a_token_authenticates_in_one_step() {
    let issuer = issuer(IssuerOptions::default());
    let mut world = World::new(oidc_options(&[&issuer]), 1);
    let conn = world.connect(0);
    assert_eq!(find(&mut world, conn), Some(13));
    let jwt = token(&world, &issuer, "eve");
    let reply = send(&mut world, conn, &doc! { "jwt": jwt });
    assert!(reply.get_bool("done").expect("a field"), "{reply}");
    assert_eq!(user(&mut world, conn).as_deref(), Some("test1/eve"));
    assert_eq!(find(&mut world, conn), None);
    for wrong in [
        doc! { "jwt": "abcd1234" },
        doc! { "jwt": 1 },
        doc! { "n": 1 },
        doc! { "x": 1 },
    ] {
        let reply = send(&mut world, conn, &wrong);
        assert_eq!(code(&reply), Some(18), "{wrong}");
    }
}

#[test]
fn a_client_without_a_token_learns_the_issuer() {
    let issuer = issuer(IssuerOptions {
        issuer: "https://issuer".to_owned(),
        client_id: Some("abcd".to_owned()),
        request_scopes: vec!["a".to_owned(), "b".to_owned()],
        ..IssuerOptions::default()
    });
    let mut world = World::new(oidc_options(&[&issuer]), 1);
    let conn = world.connect(0);
    let reply = send(&mut world, conn, &doc! { "n": "eve" });
    assert!(!reply.get_bool("done").expect("a field"), "{reply}");
    assert_eq!(
        STANDARD.encode(payload(&reply)),
        "WQAAAAJpc3N1ZXIADwAAAGh0dHBzOi8vaXNzdWVyAAJjbGllbnRJZAAFAAAAYWJjZAAEcmVxdWVzdFNjb3BlcwAX\
         AAAAAjAAAgAAAGEAAjEAAgAAAGIAAAA="
    );
    let jwt = doc! { "jwt": token(&world, &issuer, "eve") }
        .to_vec()
        .expect("BSON");
    let reply = proceed(&mut world, conn, "$external", &jwt);
    assert!(reply.get_bool("done").expect("a field"), "{reply}");
    // The token must belong to the user whom the client named.
    send(&mut world, conn, &doc! { "n": "max" });
    assert_eq!(
        code(&proceed(&mut world, conn, "$external", &jwt)),
        Some(18)
    );
    send(&mut world, conn, &doc! {});
    assert_eq!(code(&proceed(&mut world, conn, "$external", &jwt)), None);
}

#[test]
fn the_name_of_the_user_selects_the_issuer() {
    let of = |url: &str, suffix: &str| {
        issuer(IssuerOptions {
            issuer: url.to_owned(),
            client_id: None,
            principal_suffix: Some(suffix.to_owned()),
            ..IssuerOptions::default()
        })
    };
    let (one, two) = (of("https://one", "@one"), of("https://two", "@two"));
    let machine = issuer(IssuerOptions {
        supports_human_flows: false,
        ..IssuerOptions::default()
    });
    let mut world = World::new(oidc_options(&[&one, &two, &machine]), 1);
    let conn = world.connect(0);
    let reply = send(&mut world, conn, &doc! { "n": "eve@two" });
    let info = Document::from_reader(&mut payload(&reply).as_slice()).expect("BSON");
    assert_eq!(info, doc! { "issuer": "https://two" });
    for ambiguous in [doc! {}, doc! { "n": "eve" }] {
        assert_eq!(
            code(&send(&mut world, conn, &ambiguous)),
            Some(18),
            "{ambiguous}"
        );
    }
    let jwt = token(&world, &machine, "app");
    assert_eq!(code(&send(&mut world, conn, &doc! { "jwt": jwt })), None);
}

#[test]
fn an_expired_token_demands_reauthentication_which_replaces_the_user() {
    let issuer = issuer(IssuerOptions::default());
    let mut world = World::new(oidc_options(&[&issuer]), 1);
    let conn = world.connect(0);
    let first = doc! { "jwt": token(&world, &issuer, "eve") };
    send(&mut world, conn, &first);
    assert_eq!(find(&mut world, conn), None);
    world.run_for(HOUR);
    assert_eq!(find(&mut world, conn), Some(391));
    assert_eq!(find(&mut world, conn), Some(391));
    assert_eq!(code(&send(&mut world, conn, &first)), Some(18));
    let now = world.deployment.options().started_at;
    let claims = TokenClaims::new("max", now, HOUR * 2);
    send(&mut world, conn, &doc! { "jwt": issuer.issue(&claims) });
    assert_eq!(find(&mut world, conn), None);
    assert_eq!(user(&mut world, conn).as_deref(), Some("test1/max"));
    issuer.replace_keys();
    assert_eq!(find(&mut world, conn), Some(391));
}

#[test]
fn a_token_expires_early_after_a_jump_of_the_clock() {
    let issuer = issuer(IssuerOptions::default());
    let mut world = World::new(oidc_options(&[&issuer]), 1);
    let conn = world.connect(0);
    let jwt = doc! { "jwt": token(&world, &issuer, "eve") };
    send(&mut world, conn, &jwt);
    assert_eq!(find(&mut world, conn), None);
    let millis = i64::try_from(HOUR.as_millis()).expect("a small number");
    world.deployment.jump_clock(world.now, 0, millis);
    assert_eq!(find(&mut world, conn), Some(391));
    world.deployment.jump_clock(world.now, 0, -millis);
    assert_eq!(find(&mut world, conn), None);
}

#[test]
fn the_operator_can_demand_reauthentication() {
    let issuer = issuer(IssuerOptions::default());
    let mut world = World::new(oidc_options(&[&issuer]), 1);
    let conn = world.connect(0);
    let jwt = doc! { "jwt": token(&world, &issuer, "eve") };
    send(&mut world, conn, &jwt);
    world.deployment.require_reauthentication();
    assert_eq!(find(&mut world, conn), Some(391));
    send(&mut world, conn, &jwt);
    assert_eq!(find(&mut world, conn), None);
    let point = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 }, "$db": "admin",
        "data": { "failCommands": ["find"], "errorCode": 391 },
    };
    assert_eq!(
        code(&world.send_command(conn, &point).expect("a reply")),
        None
    );
    assert_eq!(find(&mut world, conn), Some(391));
    assert_eq!(find(&mut world, conn), None);
}

#[test]
fn speculative_authentication_uses_a_token() {
    let issuer = issuer(IssuerOptions::default());
    let mut world = World::new(oidc_options(&[&issuer]), 1);
    let conn = world.connect(0);
    let hello = |jwt: &str| {
        let jwt = doc! { "jwt": jwt }.to_vec().expect("BSON");
        let start = doc! {
            "saslStart": 1, "mechanism": "MONGODB-OIDC", "db": "$external",
            "payload": super::binary(jwt),
        };
        doc! { "hello": 1, "speculativeAuthenticate": start, "$db": "admin" }
    };
    let reply = world.send_command(conn, &hello("wrong")).expect("a reply");
    assert!(!reply.contains_key("speculativeAuthenticate"));
    let jwt = token(&world, &issuer, "eve");
    let reply = world.send_command(conn, &hello(&jwt)).expect("a reply");
    let step = reply
        .get_document("speculativeAuthenticate")
        .expect("a field");
    assert!(step.get_bool("done").expect("a field"), "{step}");
    assert_eq!(find(&mut world, conn), None);
    let counts = world.deployment.auth_counts();
    assert_eq!(
        (counts.speculative, counts.successes, counts.starts),
        (2, 1, 0)
    );
}

#[test]
fn without_an_authorization_claim_the_user_must_exist() {
    let issuer = issuer(IssuerOptions {
        authorization_claim: None,
        ..IssuerOptions::default()
    });
    let mut options = oidc_options(&[&issuer]);
    let mut eve = User::external("test1/eve");
    eve.roles.clear();
    options.users.push(eve);
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    let max = doc! { "jwt": token(&world, &issuer, "max") };
    assert_eq!(code(&send(&mut world, conn, &max)), Some(18));
    let eve = doc! { "jwt": token(&world, &issuer, "eve") };
    assert_eq!(code(&send(&mut world, conn, &eve)), None);
    assert_eq!(find(&mut world, conn), Some(13));
}
