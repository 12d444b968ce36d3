//! Tests of the search for AWS credentials.

use super::*;
use crate::{
    auth::{AwsKeys, Provided},
    http::HttpResponse,
    options::{AuthMechanism, AwsCredentialProvider, AwsCredentials, ProviderCall},
    time::WallTime,
};
use std::sync::Arc;

/// The variables that are set.
type Set<'a> = &'a [(&'a str, &'a str)];

fn limits() -> CallLimits {
    CallLimits::new(None, None)
}

fn begin(earlier: Option<AwsSource>) -> (Sources, FetchStep) {
    let mut credential = Credential::builder().source("$external".to_owned()).build();
    credential.mechanism = Some(AuthMechanism::MongoDbAws);
    Sources::begin(&credential, earlier, limits(), "session-1".to_owned())
}

/// Answers the inquiry for the environment.
fn environment(sources: &mut Sources, step: &FetchStep, set: Set<'_>) -> FetchStep {
    let FetchStep::Ask(Inquiry::Environment(names), limit) = step else {
        panic!("{step:?} where the environment was expected");
    };
    assert_eq!(*limit, ENDPOINT_LIMIT);
    let value = |name: &str| set.iter().find(|(set, _)| *set == name);
    let values = names
        .iter()
        .map(|name| value(name).map(|(_, text)| Secret::new(*text)));
    sources.handle_finding(Ok(Finding::Environment(values.collect())))
}

fn search(set: Set<'_>) -> (Sources, FetchStep) {
    let (mut sources, step) = begin(None);
    let step = environment(&mut sources, &step, set);
    (sources, step)
}

fn response(status: u16, body: &str) -> Result<Finding, String> {
    let body = body.into();
    Ok(Finding::Http(HttpResponse { status, body }))
}

/// Returns the bytes of the request that a step asks for.
fn request(step: &FetchStep) -> String {
    match step {
        FetchStep::Ask(Inquiry::Http(request), limit) => {
            // AUTH-94.
            assert_eq!(*limit, std::time::Duration::from_secs(10));
            String::from_utf8(request.bytes_for_test()).expect("text")
        }
        other => panic!("{other:?} where a request was expected"),
    }
}

fn keys(step: FetchStep) -> Arc<AwsKeys> {
    match step {
        FetchStep::Done(Provided::AwsKeys(keys)) => keys,
        other => panic!("{other:?} where credentials were expected"),
    }
}

fn failure(step: FetchStep) -> String {
    match step {
        FetchStep::Failed(reason) => reason,
        other => panic!("{other:?} where a failure was expected"),
    }
}

const JSON: &str = r#"{"Code": "Success", "AccessKeyId": "ASIAEXAMPLE",
    "SecretAccessKey": "hush", "Token": "tok", "Expiration": "2026-11-22T17:00:00Z"}"#;

#[test]
fn the_environment_comes_first() {
    // AUTH-88, step 2.
    let (_, step) = search(&[
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "hush"),
        ("AWS_SESSION_TOKEN", "tok"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"),
    ]);
    let keys = keys(step);
    assert_eq!(
        (keys.id.as_str(), keys.origin),
        ("AKID", AwsSource::Environment)
    );
    assert_eq!(keys.token.as_ref().map(Secret::expose), Some("tok"));
}

#[test]
fn an_incomplete_environment_is_an_error_that_names_the_variable() {
    // AUTH-87.
    let cases: [(Set<'_>, &str); 3] = [
        (
            &[("AWS_ACCESS_KEY_ID", "AKID")],
            "AWS_SECRET_ACCESS_KEY is not set",
        ),
        (
            &[("AWS_SECRET_ACCESS_KEY", "s")],
            "AWS_ACCESS_KEY_ID is not set",
        ),
        (
            &[("AWS_SESSION_TOKEN", "t")],
            "AWS_SESSION_TOKEN is set without",
        ),
    ];
    for (set, expected) in cases {
        let reason = failure(search(set).1);
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn a_web_identity_is_exchanged_at_sts() {
    // AUTH-88, step 3, and AUTH-91.
    let (mut sources, step) = search(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/token"),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"),
    ]);
    assert!(matches!(step, FetchStep::Ask(Inquiry::File(path), _) if path == "/var/token"));
    let step = sources.handle_finding(Ok(Finding::File(Secret::new("a.b.c\n"))));
    let sent = request(&step);
    assert!(
        sent.starts_with("POST / HTTP/1.1\r\nHost: sts.amazonaws.com\r\n"),
        "{sent}"
    );
    assert!(sent.contains("Accept: application/json\r\n"), "{sent}");
    assert!(
        sent.ends_with(
            "\r\n\r\nAction=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=session-1\
             &RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&WebIdentityToken=a.b.c"
        ),
        "{sent}"
    );
    let body = r#"{"AssumeRoleWithWebIdentityResponse": {"AssumeRoleWithWebIdentityResult":
        {"Credentials": {"AccessKeyId": "ASIA", "SecretAccessKey": "s", "SessionToken": "t",
        "Expiration": 1.7638308E9}}}}"#;
    let keys = keys(sources.handle_finding(response(200, body)));
    assert_eq!(
        (keys.id.as_str(), keys.origin),
        ("ASIA", AwsSource::WebIdentity)
    );
    let expiry = keys.expires_at.map(WallTime::as_unix_millis);
    assert_eq!(expiry, Some(1_763_830_800_000));
}

#[test]
fn the_session_name_and_the_endpoint_of_sts_can_be_set() {
    let (mut sources, _) = search(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/token"),
        ("AWS_ROLE_ARN", "r"),
        ("AWS_ROLE_SESSION_NAME", "app1"),
        ("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:4566"),
    ]);
    let sent = request(&sources.handle_finding(Ok(Finding::File(Secret::new("t")))));
    assert!(
        sent.starts_with("POST / HTTP/1.1\r\nHost: 127.0.0.1:4566\r\n"),
        "{sent}"
    );
    assert!(sent.contains("RoleSessionName=app1&"), "{sent}");
    // The documented form without the outer objects is accepted as well.
    let body = r#"{"Credentials": {"AccessKeyId": "A", "SecretAccessKey": "s",
        "SessionToken": "t", "Expiration": "2026-11-22T17:00:00Z"}}"#;
    let keys = keys(sources.handle_finding(response(200, body)));
    assert!(keys.expires_at.is_some());
}

#[test]
fn a_container_asks_its_endpoint_and_never_that_of_the_instance() {
    // AUTH-92 and AUTH-97.
    let (mut sources, step) = search(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x?id=1")]);
    let sent = request(&step);
    assert!(
        sent.starts_with("GET /v2/x?id=1 HTTP/1.1\r\nHost: 169.254.170.2\r\n"),
        "{sent}"
    );
    let sorry = r#"{"message": "sorry\r\nmore"}"#;
    let reason = failure(sources.handle_finding(response(500, sorry)));
    assert!(reason.contains("status 500: sorry  more"), "{reason}");
    let (mut sources, _) = search(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")]);
    let keys = keys(sources.handle_finding(response(200, JSON)));
    assert_eq!(
        (keys.id.as_str(), keys.origin),
        ("ASIAEXAMPLE", AwsSource::Container)
    );
}

#[test]
fn the_full_uri_of_a_container_must_be_encrypted_or_local() {
    for (url, allowed) in [
        ("http://127.0.0.1:8080/creds", true),
        ("http://localhost/creds", true),
        ("http://[::1]/creds", true),
        ("http://169.254.170.23/v1/credentials", true),
        ("http://[fd00:ec2::23]/v1/credentials", true),
        ("https://example.com/creds", true),
        ("http://example.com/creds", false),
        ("http://10.0.0.1/creds", false),
    ] {
        let (mut sources, step) = begin(None);
        let FetchStep::Ask(Inquiry::Environment(names), _) = step else {
            panic!("{step:?}");
        };
        let value = |name: &&str| match *name {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI" => Some(Secret::new(url)),
            "AWS_CONTAINER_AUTHORIZATION_TOKEN" => Some(Secret::new("Basic abc")),
            _ => None,
        };
        let values = Finding::Environment(names.iter().map(value).collect());
        let step = sources.handle_finding(Ok(values));
        if allowed {
            assert!(
                request(&step).contains("Authorization: Basic abc\r\n"),
                "{url}"
            );
        } else {
            assert!(failure(step).contains("without TLS"), "{url}");
        }
    }
}

#[test]
fn the_authorization_token_of_a_container_can_be_in_a_file() {
    let (mut sources, step) = search(&[
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "http://169.254.170.23/v1/credentials",
        ),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/var/eks"),
    ]);
    assert!(matches!(step, FetchStep::Ask(Inquiry::File(path), _) if path == "/var/eks"));
    let sent = request(&sources.handle_finding(Ok(Finding::File(Secret::new("tok\n")))));
    assert!(sent.contains("Authorization: tok\r\n"), "{sent}");
}

#[test]
fn an_instance_is_asked_in_three_steps() {
    // AUTH-93.
    let (mut sources, step) = search(&[]);
    let sent = request(&step);
    assert!(sent.starts_with("PUT /latest/api/token HTTP/1.1\r\nHost: 169.254.169.254\r\n"));
    assert!(
        sent.contains("X-aws-ec2-metadata-token-ttl-seconds: 30\r\n"),
        "{sent}"
    );
    let step = sources.handle_finding(response(200, "session-token"));
    let sent = request(&step);
    let path = "/latest/meta-data/iam/security-credentials/";
    assert!(
        sent.starts_with(&format!("GET {path} HTTP/1.1\r\n")),
        "{sent}"
    );
    assert!(
        sent.contains("X-aws-ec2-metadata-token: session-token\r\n"),
        "{sent}"
    );
    let step = sources.handle_finding(response(200, "my role\nother"));
    let sent = request(&step);
    assert!(
        sent.starts_with(&format!("GET {path}my%20role HTTP/1.1\r\n")),
        "{sent}"
    );
    assert!(
        sent.contains("X-aws-ec2-metadata-token: session-token\r\n"),
        "{sent}"
    );
    let keys = keys(sources.handle_finding(response(200, JSON)));
    assert_eq!(keys.origin, AwsSource::Instance);
}

#[test]
fn the_endpoint_of_an_instance_can_be_set_or_disabled() {
    let (_, step) = search(&[(
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "http://127.0.0.1:1338/",
    )]);
    assert!(request(&step).starts_with("PUT /latest/api/token HTTP/1.1\r\nHost: 127.0.0.1:1338\r"));
    let reason = failure(search(&[("AWS_EC2_METADATA_DISABLED", "TRUE")]).1);
    assert!(reason.contains("AWS_EC2_METADATA_DISABLED"), "{reason}");
}

#[test]
fn missing_credentials_name_the_last_source() {
    // AUTH-95.
    let (mut sources, _) = search(&[]);
    let reason = failure(sources.handle_finding(Err("connection refused".to_owned())));
    assert!(
        reason.starts_with("no AWS credentials: no access key is in the environment")
            && reason.contains("the EC2 instance metadata service failed")
            && reason.contains("connection refused"),
        "{reason}"
    );
}

#[test]
fn cached_credentials_are_refreshed_from_their_source() {
    // Keys that appear in the environment later do not replace them (AUTH-90).
    let (mut sources, step) = begin(Some(AwsSource::Instance));
    let set: Set<'_> = &[
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
    ];
    let step = environment(&mut sources, &step, set);
    assert!(request(&step).starts_with("PUT /latest/api/token"));
}

#[test]
fn a_refresh_begins_with_the_earlier_source() {
    // Sources that precede it in the order are skipped (AUTH-90).
    let all: Set<'_> = &[
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"),
    ];
    let next = |earlier| {
        let (mut sources, step) = begin(Some(earlier));
        environment(&mut sources, &step, all)
    };
    assert!(matches!(
        next(AwsSource::WebIdentity),
        FetchStep::Ask(Inquiry::File(_), _)
    ));
    assert!(request(&next(AwsSource::Container)).starts_with("GET /x "));
    assert!(request(&next(AwsSource::Instance)).starts_with("PUT /latest/api/token"));
    // Without its variables, the earlier source is skipped too.
    let (mut sources, step) = begin(Some(AwsSource::Container));
    let step = environment(&mut sources, &step, &[]);
    assert!(request(&step).starts_with("PUT /latest/api/token"));
}

#[test]
fn errors_name_the_variable_of_a_wrong_url_and_do_not_show_the_url() {
    for variable in [
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_ENDPOINT_URL_STS",
    ] {
        for url in [
            "ftp://user:hunter2@host/x?key=hunter2",
            "https://user:hunter2@host/x y",
            "https://user:hunter2@host/x",
            "http://hunter2 /",
            "http://host:99999/hunter2",
        ] {
            if variable.contains("RELATIVE") && !url.contains(' ') {
                continue;
            }
            let (mut sources, step) = begin(None);
            let set = [
                (variable, url),
                ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
                ("AWS_ROLE_ARN", "r"),
            ];
            let set = if variable.contains("STS") {
                &set[..]
            } else {
                &set[..1]
            };
            let mut step = environment(&mut sources, &step, set);
            if matches!(step, FetchStep::Ask(Inquiry::File(_), _)) {
                step = sources.handle_finding(Ok(Finding::File(Secret::new("jwt"))));
            }
            let reason = failure(step);
            assert!(reason.contains(variable), "{reason}");
            assert!(!reason.contains("hunter2"), "{reason}");
        }
    }
}

#[test]
fn the_reason_of_an_endpoint_is_shown_without_the_secrets_of_the_request() {
    let container: Set<'_> = &[
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "http://localhost/x?key=hunter2-query",
        ),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hunter2-token"),
    ];
    let fail = |body: &str| {
        let (mut sources, _) = search(container);
        failure(sources.handle_finding(response(500, body)))
    };
    let echo = "GET /x?key=hunter2-query\nAuthorization: hunter2-token";
    let reason = fail(echo);
    assert!(
        reason.contains("status 500") && !reason.contains("hunter2"),
        "{reason}"
    );
    let json = format!(
        r#"{{"code": "Denied", "message": "no {} here"}}"#,
        echo.replace('\n', " ")
    );
    let reason = fail(&json);
    assert!(reason.ends_with("500: Denied: [redacted]"), "{reason}");
    let reason = fail(r#"{"code": "Denied", "message": "no credentials here"}"#);
    assert!(reason.ends_with("Denied: no credentials here"), "{reason}");
    for form in [
        "SFVOVEVSMi10b2tlbg==",
        "hunter2%2dquery",
        "Unter2-to",
        "unter2-qu",
    ] {
        let reason = fail(&format!(r#"{{"code": "Denied", "message": "no {form}"}}"#));
        assert!(reason.ends_with("Denied: [redacted]"), "{form}: {reason}");
    }

    let sts: Set<'_> = &[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
        ("AWS_ROLE_ARN", "r"),
    ];
    let (mut sources, _) = search(sts);
    let _ = sources.handle_finding(Ok(Finding::File(Secret::new("hunter2.jwt.sig\n"))));
    let refusal = r#"{"Error": {"Code": "InvalidIdentityToken", "Message": "hunter2.jwt.sig?"}}"#;
    let reason = failure(sources.handle_finding(response(400, refusal)));
    assert!(
        reason.ends_with("InvalidIdentityToken: [redacted]"),
        "{reason}"
    );
}

#[test]
fn unusable_responses_are_refused() {
    let long_role = "r".repeat(600);
    for (body, expected) in [
        ("", "not JSON"),
        ("[]", "no AccessKeyId"),
        (
            r#"{"AccessKeyId": 1, "SecretAccessKey": "s", "Token": "t"}"#,
            "no AccessKeyId",
        ),
        (
            r#"{"AccessKeyId": "a", "SecretAccessKey": "s"}"#,
            "no session token",
        ),
        (
            r#"{"AccessKeyId": "a\nb", "SecretAccessKey": "s", "Token": "t"}"#,
            "no usable",
        ),
        (
            r#"{"AccessKeyId": "", "SecretAccessKey": "s", "Token": "t"}"#,
            "no usable",
        ),
        (&"[".repeat(100_000), "not JSON"),
    ] {
        let (mut sources, _) = search(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")]);
        let reason = failure(sources.handle_finding(response(200, body)));
        assert!(reason.contains(expected), "{reason}");
        assert!(!reason.contains('\n'), "{reason}");
    }
    for role in ["", "\n", &long_role] {
        let (mut sources, _) = search(&[]);
        let _ = sources.handle_finding(response(200, "token"));
        assert!(failure(sources.handle_finding(response(200, role))).contains("no role"));
    }
    let (mut sources, _) = search(&[]);
    let split = sources.handle_finding(response(200, "to\r\nken"));
    assert!(failure(split).contains("control character"));
}

#[test]
fn a_provider_of_the_application_is_asked_alone() {
    // AUTH-101: the provider precedes the environment (AWS prose 9).
    let provider = AwsCredentialProvider::blocking(|| {
        Ok(AwsCredentials::new("AKID", "hush").with_expiry(WallTime::from_unix_millis(5)))
    });
    let credential = Credential::with_provider(CredentialProvider::Aws(provider));
    let (mut sources, step) = Sources::begin(&credential, None, limits(), String::new());
    let FetchStep::Ask(Inquiry::Call(ProviderCall::Blocking(work)), _) = step else {
        panic!("{step:?}");
    };
    let supplied = work().expect("it succeeds");
    let keys = keys(sources.handle_finding(Ok(Finding::Supplied(supplied))));
    assert_eq!(keys.origin, AwsSource::Provider);
    assert_eq!(keys.expires_at, Some(WallTime::from_unix_millis(5)));
    let (mut sources, _) = Sources::begin(&credential, None, limits(), String::new());
    let reason = failure(sources.handle_finding(Err("no network".to_owned())));
    assert!(
        reason.contains("the provider failed: no network"),
        "{reason}"
    );
}
