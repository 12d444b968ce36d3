//! Credentials that a server refuses.

use super::*;
use bson::{Document, doc};
use onionskin_blocking::BlockingRuntime;
use onionskin_check::Stage;
use onionskin_deployment::deployment::User;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::{
    conformance::server::{Server, answer, hello},
    peers::{FerretDb, ferretdb},
};
use std::sync::{Arc, OnceLock};

fn deployment() -> Embedded {
    let mut options = ServeOptions::standalone();
    options.users.push(User::new("alice", PASSWORD));
    Embedded::start(options).expect("a server")
}

#[test]
fn a_wrong_password_and_an_unknown_user_have_different_hints() {
    let deployment = deployment();
    let address = deployment.addresses()[0];
    for (credential, options, hint) in [
        (
            "alice:wrong",
            "",
            "the server knows the user in the database admin",
        ),
        (
            "bob:wrong",
            "",
            "the database admin probably has no such user",
        ),
        (
            "alice:wrong",
            "authMechanism=SCRAM-SHA-256",
            "either the password is wrong",
        ),
    ] {
        let report = report_of(&format!("mongodb://{credential}@{address}/?{options}"));
        assert_eq!(report.exit_code(), 15, "{credential}");
        assert_eq!(
            stages(&report),
            "parse ok, dial ok, hello ok, authentication failed, topology skipped"
        );
        let problems = problems(&report, &[]).join("\n");
        assert!(problems.contains(hint), "{credential}: {problems}");
        assert!(problems.contains("percent-encoded"), "{problems}");
        assert!(
            !report.to_text(false).contains("wrong@"),
            "the password is not shown"
        );
    }
}

#[test]
fn the_right_password_is_accepted_and_not_shown() {
    let deployment = deployment();
    let address = deployment.addresses()[0];
    let report = report_of(&format!("mongodb://alice:{PASSWORD}@{address}/"));
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    assert_eq!(
        stages(&report),
        "parse ok, dial ok, hello ok, authentication ok, topology ok, selection ok, settings ok"
    );
}

#[test]
fn ferretdb_is_checked_with_right_and_wrong_passwords() {
    let options = FerretDb::default().with_authentication();
    let Some(server) = ferretdb(options).expect("it starts") else {
        return;
    };
    let report = report_of(server.uri());
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    assert!(!report.to_text(false).contains("pencil"), "{report:?}");
    let report = report_of(&server.uri().replace("pencil", "crayon"));
    assert_eq!(report.exit_code(), 15, "{}", report.to_text(false));
}

#[test]
fn a_missing_user_is_noticed() {
    let deployment = deployment();
    let report = report_of(&format!("mongodb://{}/", deployment.addresses()[0]));
    assert_eq!(report.exit_code(), 15, "{}", report.to_text(false));
    assert_eq!(
        stages(&report),
        "parse ok, dial ok, hello ok, topology ok, authentication failed"
    );
    let problems = problems(&report, &[]).join("\n");
    assert!(
        problems.contains("mongodb://user:password@host/"),
        "{problems}"
    );
}

/// Starts a server with these fields in its replies to `hello`.
fn member(fields: Document) -> Server {
    Server::on_socket(move |request| {
        if !request.is_hello() {
            return answer(request);
        }
        let mut reply = hello(request.connection);
        reply.extend(fields.clone());
        request.reply(&reply)
    })
}

/// True if a server has seen the name of the user.
fn has_seen_the_user(server: &Server) -> bool {
    let names = ["hello", "isMaster", "ismaster", "saslStart"].into_iter();
    let mut requests = names.flat_map(|name| server.seen(name));
    requests.any(|request| {
        let body = format!("{:?}", request.body);
        body.contains("alice") || body.contains("saslStart")
    })
}

#[test]
fn servers_of_another_replica_set_do_not_see_the_user() {
    let stranger = member(doc! { "setName": "other", "hosts": ["127.0.0.1:1"] });
    let mut options = ServeOptions::replica_set("rs0", 1);
    options.users.push(User::new("alice", PASSWORD));
    let deployment = Embedded::start(options).expect("a member");
    let (other, own) = (stranger.address(), deployment.addresses()[0]);
    let report = report_of(&format!(
        "mongodb://alice:{PASSWORD}@{other},{own}/?replicaSet=rs0"
    ));
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    assert!(!has_seen_the_user(&stranger));
    let is_announced = |server: Option<&str>| server == Some("127.0.0.1:1");
    let mut servers = report.steps.iter().map(|step| step.server.as_deref());
    assert!(!servers.any(is_announced), "{}", report.to_text(false));
    let report = report_of(&format!(
        "mongodb://alice:{PASSWORD}@{other}/?replicaSet=rs0"
    ));
    assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
    assert!(!has_seen_the_user(&stranger));
}

#[test]
fn an_arbiter_has_no_users() {
    let arbiter = member(doc! {
        "isWritablePrimary": false, "arbiterOnly": true, "setName": "rs", "hosts": ["127.0.0.1:1"],
    });
    let address = arbiter.address();
    let uri = format!("mongodb://alice:{PASSWORD}@{address}/?directConnection=true");
    let report = report_of(&uri);
    assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
    assert!(
        stages(&report).contains("authentication skipped"),
        "{report:?}"
    );
}

/// Starts a member of the set `rs` with these fields in its replies to `hello`. `fields` gets the
/// address of the member.
fn member_with(fields: impl Fn(&str) -> Document + Send + Sync + 'static) -> Server {
    let own = Arc::new(OnceLock::<String>::new());
    let address = own.clone();
    let server = Server::on_socket(move |request| {
        if !request.is_hello() {
            return answer(request);
        }
        let own = address.get().expect("it listens").as_str();
        let mut reply = hello(request.connection);
        reply.insert("isWritablePrimary", false);
        reply.extend(fields(own));
        request.reply(&reply)
    });
    own.set(server.address()).expect("it was not set");
    server
}

fn on_blocking(uri: &str) -> Report {
    let runtime = BlockingRuntime::default();
    let own = runtime.clone();
    let options = CheckOptions::default();
    let report = runtime.block_on(check(own, uri, &options));
    assert_sound(&report);
    report
}

#[test]
fn strangers_that_a_secondary_announces_do_not_see_the_password() {
    let strangers = [
        member_with(|_| doc! { "isWritablePrimary": true }),
        member_with(|_| doc! { "isWritablePrimary": true, "msg": "isdbgrid" }),
        member_with(|own| doc! { "secondary": true, "setName": "rs", "hosts": [own], "me": "a:1" }),
        member_with(|own| doc! { "secondary": true, "setName": "rs", "hosts": [own], "me": own }),
    ];
    let names = strangers.each_ref().map(Server::address);
    let primary = member_with(|own| {
        doc! { "isWritablePrimary": true, "setName": "rs", "hosts": [own], "me": own }
    });
    let primary_name = primary.address();
    let announced: Vec<String> = names.iter().chain([&primary_name]).cloned().collect();
    let secondary = member_with(move |own| {
        let mut hosts = announced.clone();
        hosts.push(own.to_owned());
        doc! { "secondary": true, "setName": "rs", "hosts": hosts, "me": own }
    });
    let uri = format!(
        "mongodb://alice:{PASSWORD}@{}/?authMechanism=PLAIN&replicaSet=rs",
        secondary.address()
    );
    for report in [report_of(&uri), on_blocking(&uri)] {
        let text = report.to_text(false);
        for (stranger, name) in strangers.iter().zip(&names) {
            assert!(!has_seen_the_user(stranger), "{name}: {text}");
            let mut steps = report.steps.iter();
            let step = steps.find(|step| {
                step.stage == Stage::Authentication && step.server.as_deref() == Some(name)
            });
            assert_eq!(
                step.map(|step| step.status),
                Some(Status::Skipped),
                "{text}"
            );
        }
        assert!(has_seen_the_user(&primary), "{text}");
    }
}
