//! Credentials that a server refuses.

use super::*;
use onionskin_simulations::{
    deployment::User,
    serve::{Embedded, ServeOptions},
};
use onionskin_tests::peers::{FerretDb, ferretdb};

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
