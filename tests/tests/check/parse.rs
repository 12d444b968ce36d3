//! Connection strings and options that cannot be used.

use super::*;
use onionskin_serve::{Embedded, ServeOptions};

#[test]
fn a_connection_string_that_cannot_be_parsed_is_not_shown() {
    for (uri, cause, hint) in [
        (
            "mongo://user:pencil-4711@db/",
            "scheme",
            "begins with mongodb://",
        ),
        (
            "mongodb://user:pencil-4711@x@db/",
            "user information",
            "@ is %40",
        ),
        (
            "mongodb://user:pencil-4711/x@db/",
            "user name or password",
            "%40 or %2F",
        ),
        ("mongodb://db:port/", "host", "separated by commas"),
        ("mongodb://db/?w", "options", "name=value"),
    ] {
        let report = report_of(uri);
        assert_eq!(report.exit_code(), 10, "{uri}");
        assert_eq!(stages(&report), "parse failed", "{uri}");
        assert_eq!(report.uri, None);
        let problems = problems(&report, &[]).join("\n");
        assert!(
            problems.contains(cause) && problems.contains(hint),
            "{uri}: {problems}"
        );
    }
}

#[test]
fn an_option_that_cannot_be_used_is_named() {
    let report = report_of("mongodb://db/?proxyHost=localhost:1080");
    assert_eq!(report.exit_code(), 10);
    assert!(
        problems(&report, &[])[0].contains("proxyHost"),
        "{report:?}"
    );
    let report = report_of("mongodb://db/?tls=true&tlsCAFile=/nowhere/ca.pem");
    assert_eq!(report.exit_code(), 10);
    assert!(
        problems(&report, &[])[0].contains("/nowhere/ca.pem"),
        "{report:?}"
    );
    let scratch = onionskin_tests::peers::Scratch::new().expect("a directory");
    let file = scratch.write("ca.pem", "no certificate").expect("a file");
    let report = report_of(&format!(
        "mongodb://db/?tls=true&tlsCAFile={}",
        file.display()
    ));
    assert_eq!(report.exit_code(), 13);
    assert!(
        problems(&report, &[])[0].contains("tlsCAFile"),
        "{report:?}"
    );
}

#[test]
fn warnings_about_options_are_part_of_the_first_step() {
    let uri = format!("mongodb://user:{PASSWORD}@127.0.0.1:1/?tlsInsecure=true&color=red");
    let report = report_of(&uri);
    assert_eq!(
        report.uri.as_deref(),
        Some("mongodb://user:[redacted]@127.0.0.1:1/?tlsInsecure=true&color=[redacted]")
    );
    assert_eq!(
        stages(&report),
        "parse warning, dial failed, topology skipped"
    );
    let warnings = &problems(&report, &[])[..2];
    assert!(
        warnings[0].contains("color") && warnings[1].contains("tlsInsecure"),
        "{warnings:?}"
    );
}

/// Returns the causes and hints of a check that fails in its first step.
fn refusal(uri: &str) -> Vec<String> {
    let report = report_of(uri);
    assert_eq!(report.exit_code(), 10, "{uri}");
    problems(&report, &[])
}

#[test]
fn a_credential_that_its_mechanism_refuses_has_a_hint_of_this_mechanism() {
    let aws = "authMechanism=MONGODB-AWS";
    let oidc = "authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT";
    for (userinfo, options, hint) in [
        ("AKIA:pencil-4711@", aws.to_owned(), "AWS_ACCESS_KEY_ID"),
        (
            "",
            format!("{aws}&authMechanismProperties=AWS_SESSION_TOKEN:pencil-4711"),
            "environment variable AWS_SESSION_TOKEN",
        ),
        ("", format!("{oidc}:azure"), "TOKEN_RESOURCE:AUDIENCE"),
        (
            "",
            "authMechanism=MONGODB-OIDC".to_owned(),
            "ENVIRONMENT:k8s",
        ),
        ("me:pencil-4711@", format!("{oidc}:k8s"), "a callback"),
        ("", "authMechanism=GSSAPI".to_owned(), "user%40REALM"),
        ("", "authMechanism=PLAIN".to_owned(), "user:password@host"),
    ] {
        // DNS is not asked before the string is found to be of no use.
        for scheme in ["mongodb", "mongodb+srv"] {
            let found = refusal(&format!("{scheme}://{userinfo}db.example.net/?{options}"));
            let hints = &found[1..];
            assert_eq!(hints.len(), 1, "{options}: {found:?}");
            assert!(hints[0].contains(hint), "{options}: {found:?}");
        }
    }
}

#[test]
fn an_error_that_says_what_to_do_has_no_hint() {
    for options in [
        "loadBalanced=true&replicaSet=rs",
        "authMechanism=MONGODB-X509&authSource=admin",
        "authMechanism=MONGODB-AWS&authSource=admin",
        "authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:moon",
        "authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:k8s,TOKEN_RESOURCE:x",
        "tls=true&ssl=false",
    ] {
        let found = refusal(&format!("mongodb://db/?{options}"));
        assert_eq!(found.len(), 1, "{options}: {found:?}");
    }
    let found = refusal("mongodb://me:pencil-4711@db/?authMechanism=MONGODB-X509");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_misspelt_option_fails_a_strict_check() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("a server");
    let uri = format!("mongodb://{}/?retryWrite=true", deployment.addresses()[0]);
    let report = report_of(&uri);
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    let suggestion = "did you mean retryWrites?";
    assert!(problems(&report, &[])[0].contains(suggestion), "{report:?}");
    let mut options = CheckOptions::default();
    options.strict = true;
    let report = report_with(&uri, &options);
    assert_eq!(report.exit_code(), 10, "{}", report.to_text(false));
    assert!(report.is_usable, "the rest is checked all the same");
    assert_eq!(report.steps[0].status, Status::Failed);
}

#[cfg(unix)]
#[test]
fn a_certificate_file_without_an_end_is_refused() {
    let report = report_of("mongodb://db/?tls=true&tlsCAFile=/dev/zero");
    assert_eq!(report.exit_code(), 10);
    assert!(problems(&report, &[])[0].contains("/dev/zero cannot be read: it is longer than"));
}
