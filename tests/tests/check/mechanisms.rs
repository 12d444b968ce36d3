//! Mechanisms other than SCRAM: the source of the credential, and the hints about refusals.

use super::*;
use onionskin_check::Value;
use onionskin_core::random::Seed;
use onionskin_core::time::WallTime;
use onionskin_deployment::{
    deployment::{AuthMechanism, User},
    identity::{
        AwsIdentities, AwsIdentity, IdentityOptions, IssuerOptions, TokenClaims, TokenIssuer,
    },
};
use onionskin_serve::{Embedded, ServeOptions, identity::IdentityEndpoint};
use onionskin_tests::variables::WithVariables;
use std::{
    net::TcpListener,
    time::{SystemTime, UNIX_EPOCH},
};

/// The secret parts of credentials, which no report may show.
const SECRET: &str = "secret-4711";

type Runtime = WithVariables<TokioRuntime>;

fn runtime() -> Runtime {
    WithVariables::new(TokioRuntime::default())
}

/// Starts a server with these options that permits all mechanisms but one that is named.
fn deployment(tune: impl FnOnce(&mut ServeOptions)) -> Embedded {
    let mut options = ServeOptions::standalone();
    options.auth.mechanisms = AuthMechanism::ALL.to_vec();
    options.users.push(User::new("alice", PASSWORD));
    tune(&mut options);
    Embedded::start(options).expect("a server")
}

fn check_of(runtime: Runtime, server: &Embedded, userinfo: &str, options: &str) -> Report {
    let uri = format!("mongodb://{userinfo}{}/?{options}", server.addresses()[0]);
    let report = on_tokio(async { check(runtime, &uri, &CheckOptions::default()).await });
    assert_shows_no_secret(&report);
    report
}

fn assert_shows_no_secret(report: &Report) {
    assert_sound(report);
    let (text, json) = (report.to_text(false), report.to_json());
    assert!(!text.contains(SECRET) && !json.contains(SECRET), "{text}");
}

/// Asserts that authentication failed with a hint that contains this text. Returns the text of the
/// report.
fn expect_refusal(report: &Report, hint: &str) -> String {
    let text = report.to_text(false);
    assert_eq!(report.exit_code(), 15, "{text}");
    let problems = problems(report, &[]).join("\n");
    assert!(problems.contains(hint), "{problems}");
    text
}

#[test]
fn the_source_of_aws_credentials_is_shown() {
    let identities = AwsIdentities::new(&Seed::new([5; 32]));
    let identity = AwsIdentity::new("AKIDONE", SECRET);
    identities.add(identity.clone());
    let role = User::external("arn:aws:sts::123456789012:assumed-role/onionskin/*");
    let server = deployment(|options| {
        options.auth.aws = identities.clone();
        options.users.extend([identity.user(), role]);
    });
    let options = "authMechanism=MONGODB-AWS";
    let environment = runtime()
        .with("AWS_ACCESS_KEY_ID", "AKIDONE")
        .with("AWS_SECRET_ACCESS_KEY", SECRET);
    let text = check_of(environment, &server, "", options).to_text(false);
    assert!(
        text.contains("environment variables AWS_ACCESS_KEY_ID"),
        "{text}"
    );
    assert!(
        text.contains("access key id AKIDONE") && text.contains("MONGODB-AWS"),
        "{text}"
    );

    let endpoint = IdentityOptions {
        aws: identities.clone(),
        ..IdentityOptions::default()
    };
    let endpoint = IdentityEndpoint::start(endpoint, &Seed::new([6; 32])).expect("a port");
    let url = format!("http://{}", endpoint.address());
    let instance = runtime().with("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url);
    let report = check_of(instance, &server, "", options);
    let text = report.to_text(false);
    assert_eq!(report.exit_code(), 0, "{text}");
    assert!(
        text.contains("the EC2 instance metadata service (access key id ASIA"),
        "{text}"
    );

    let wrong = runtime()
        .with("AWS_ACCESS_KEY_ID", "AKIDONE")
        .with("AWS_SECRET_ACCESS_KEY", "wrong");
    expect_refusal(&check_of(wrong, &server, "", options), "check the clock");
    let none = runtime().with("AWS_EC2_METADATA_DISABLED", "true");
    let text = expect_refusal(
        &check_of(none, &server, "", options),
        "set AWS_ACCESS_KEY_ID",
    );
    assert!(text.contains("none was found"), "{text}");
}

#[test]
fn the_source_of_a_token_is_shown() {
    let seed = Seed::new([7; 32]);
    let issuer = TokenIssuer::new(IssuerOptions::default(), &seed);
    let server = deployment(|options| options.auth.issuers = vec![issuer.clone()]);
    let scratch = onionskin_tests::peers::Scratch::new().expect("a directory");
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let now = WallTime::from_unix(now);
    let token = issuer.issue(&TokenClaims::new("me", now, Duration::from_secs(600)));
    let options = "authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:test";
    for (content, is_accepted) in [(token.as_str(), true), (SECRET, false)] {
        let path = scratch.write("token", content).expect("a file");
        let path = path.to_str().expect("a name in UTF-8");
        let report = check_of(
            runtime().with("OIDC_TOKEN_FILE", path),
            &server,
            "",
            options,
        );
        let text = report.to_text(false);
        assert!(text.contains(&format!("the file {path}")), "{text}");
        assert!(text.contains("sends its secret in clear text"), "{text}");
        assert!(!text.contains(&token), "{text}");
        match is_accepted {
            true => assert_eq!(report.exit_code(), 0, "{text}"),
            false => drop(expect_refusal(&report, "oidcIdentityProviders")),
        }
    }
    let google = "authMechanism=MONGODB-OIDC\
                  &authMechanismProperties=ENVIRONMENT:gcp,TOKEN_RESOURCE:onionskin";
    let closed = runtime().with("GCE_METADATA_HOST", "127.0.0.1:1");
    let text = expect_refusal(&check_of(closed, &server, "", google), "service account");
    assert!(text.contains("GET http://127.0.0.1:1:"), "{text}");
}

#[test]
fn a_password_for_ldap_is_checked_and_the_missing_encryption_is_noticed() {
    let server = deployment(|options| options.users.push(User::ldap("ldap", SECRET)));
    let options = "authMechanism=PLAIN";
    let report = check_of(runtime(), &server, &format!("ldap:{SECRET}@"), options);
    let text = report.to_text(false);
    assert_eq!(report.exit_code(), 0, "{text}");
    assert!(
        text.contains("PLAIN sends its secret in clear text"),
        "{text}"
    );
    assert!(text.contains("the connection string"), "{text}");
    let report = check_of(runtime(), &server, "ldap:wrong@", options);
    expect_refusal(&report, "the LDAP server refused");
}

#[test]
fn a_mechanism_that_the_server_does_not_permit_is_named() {
    let server = deployment(|options| options.auth.mechanisms = vec![AuthMechanism::ScramSha256]);
    for mechanism in ["PLAIN", "SCRAM-SHA-1"] {
        let options = format!("authMechanism={mechanism}");
        let report = check_of(runtime(), &server, &format!("alice:{PASSWORD}@"), &options);
        let text = expect_refusal(&report, &format!("the server does not permit {mechanism}"));
        assert!(text.contains("authenticationMechanisms"), "{text}");
    }
}

#[test]
fn x509_without_a_certificate_is_explained() {
    let server = deployment(|_| {});
    let report = check_of(runtime(), &server, "", "authMechanism=MONGODB-X509");
    expect_refusal(&report, "MONGODB-X509 needs TLS");
}

/// Asserts that authentication failed because it waited for this source of the credential, and that
/// the server is not blamed.
fn expect_wait(report: &Report, source: &str, mechanism: &str, hint: &str) {
    assert_shows_no_secret(report);
    let text = expect_refusal(report, hint);
    let cause = format!("waiting for {source} took the rest of the time");
    assert!(text.contains(&cause), "{text}");
    assert!(text.contains("the server is not the cause"), "{text}");
    assert!(!text.contains("the server does not answer"), "{text}");
    let mut steps = report.steps.iter();
    let step = steps.find(|step| step.status == Status::Failed);
    let mut facts = step.expect("it has failed").facts.iter();
    let fact = facts.find(|fact| fact.name == "mechanism");
    let found = fact.map(|fact| &fact.value);
    assert_eq!(found, Some(&Value::Text(mechanism.to_owned())), "{text}");
}

#[test]
fn an_endpoint_that_does_not_answer_is_named() {
    let server = deployment(|_| {});
    // Nothing accepts the connections of this socket, so that requests are never answered.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", silent.local_addr().expect("its address"));
    let google = endpoint.replace("http://", "");
    for (variable, value, method, options, hint) in [
        (
            "AWS_EC2_METADATA_SERVICE_ENDPOINT",
            &endpoint,
            "PUT",
            "authMechanism=MONGODB-AWS",
            "attach a role",
        ),
        (
            "GCE_METADATA_HOST",
            &google,
            "GET",
            "authMechanism=MONGODB-OIDC\
             &authMechanismProperties=ENVIRONMENT:gcp,TOKEN_RESOURCE:onionskin",
            "service account",
        ),
    ] {
        let runtime = runtime().with(variable, value);
        let uri = format!("mongodb://{}/?{options}", server.addresses()[0]);
        let report = on_tokio(async { check(runtime, &uri, &hurried()).await });
        let mechanism = options["authMechanism=".len()..].split('&').next();
        let mechanism = mechanism.expect("a mechanism");
        expect_wait(&report, &format!("{method} {endpoint}"), mechanism, hint);
    }
}

/// A file that never ends is named, for example a pipe into which nothing is written.
#[cfg(unix)]
#[test]
fn a_token_file_that_does_not_end_is_named() {
    let server = deployment(|_| {});
    let scratch = onionskin_tests::peers::Scratch::new().expect("a directory");
    let path = scratch.path().join("token");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    let path = path.to_str().expect("a name in UTF-8");
    let role = "arn:aws:iam::123456789012:role/onionskin";
    let of_aws = runtime()
        .with("AWS_ROLE_ARN", role)
        .with("AWS_WEB_IDENTITY_TOKEN_FILE", path);
    let of_oidc = runtime().with("OIDC_TOKEN_FILE", path);
    for (runtime, mechanism, properties, hint) in [
        (of_aws, "MONGODB-AWS", "", "attach a role"),
        (
            of_oidc,
            "MONGODB-OIDC",
            "&authMechanismProperties=ENVIRONMENT:test",
            "OIDC_TOKEN_FILE",
        ),
    ] {
        let mut pipe = std::fs::OpenOptions::new();
        let pipe = pipe.read(true).write(true).open(path).expect("a pipe");
        let address = server.addresses()[0];
        let uri = format!("mongodb://{address}/?authMechanism={mechanism}{properties}");
        let report = on_tokio(async {
            let report = check(runtime, &uri, &hurried()).await;
            // The thread of the runtime that reads the file ends.
            drop(pipe);
            report
        });
        expect_wait(&report, &format!("the file {path}"), mechanism, hint);
    }
}

#[test]
fn a_missing_token_file_is_explained() {
    let server = deployment(|_| {});
    let options = "authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:test";
    let missing = runtime().with("OIDC_TOKEN_FILE", "/nowhere/token");
    for runtime in [runtime(), missing] {
        let report = check_of(runtime, &server, "", options);
        expect_refusal(&report, "set OIDC_TOKEN_FILE");
    }
}

#[test]
fn a_password_that_saslprep_forbids_is_explained() {
    let server = deployment(|_| {});
    // With SCRAM-SHA-1, the password could be used, so that the check has to ask the server first.
    for (options, failed) in [
        ("", "authentication"),
        ("authMechanism=SCRAM-SHA-256", "parse"),
    ] {
        let userinfo = format!("alice:{PASSWORD}%0A@");
        let report = check_of(runtime(), &server, &userinfo, options);
        let mut steps = report.steps.iter();
        let step = steps.find(|step| step.status == Status::Failed);
        let step = step.expect("a step fails");
        assert_eq!(step.stage.name(), failed, "{step:?}");
        let hints = step.problems[0].hints.join(" ");
        assert!(hints.contains("a line break (%0A)"), "{step:?}");
    }
}
