//! Tests of the sources of tokens.

use super::*;
use crate::options::{AuthMechanism, OidcCallback, ProviderCall};

fn credential(properties: &[(&str, &str)], username: Option<&str>) -> Credential {
    let mut credential = Credential::builder().source("$external".to_owned()).build();
    credential.mechanism = Some(AuthMechanism::MongoDbOidc);
    credential.username = username.map(str::to_owned);
    let properties = properties.iter();
    credential.mechanism_properties = properties
        .map(|&(key, value)| (key.to_owned(), Secret::new(value)))
        .collect();
    assert_eq!(credential.validate(), Ok(()));
    credential
}

fn limits() -> CallLimits {
    CallLimits::new(None, None)
}

/// Begins a fetch and answers its inquiry for variables. The first variable has this value.
fn begin(credential: &Credential, names: &[&str], first: Option<&str>) -> (TokenSource, FetchStep) {
    begin_with(credential, names, &[first])
}

/// Begins a fetch and answers its inquiry for variables. The first ones have these values.
fn begin_with(
    credential: &Credential,
    names: &[&str],
    given: &[Option<&str>],
) -> (TokenSource, FetchStep) {
    let (mut source, step) = TokenSource::begin(credential, None, &TokenCache::default(), limits());
    let FetchStep::Ask(Inquiry::Environment(asked), _) = step else {
        panic!("{step:?} where variables were expected");
    };
    assert_eq!(asked, names);
    let mut values = vec![None; names.len()];
    for (value, given) in values.iter_mut().zip(given) {
        *value = given.map(Secret::new);
    }
    let step = source.handle_finding(Ok(Finding::Environment(values)));
    (source, step)
}

fn request(step: &FetchStep) -> String {
    match step {
        FetchStep::Ask(Inquiry::Http(request), limit) => {
            assert_eq!(*limit, Duration::from_secs(60));
            String::from_utf8(request.bytes_for_test()).expect("text")
        }
        other => panic!("{other:?} where a request was expected"),
    }
}

fn token(step: FetchStep) -> String {
    match step {
        FetchStep::Done(Provided::Token(token)) => token.access.expose().to_owned(),
        other => panic!("{other:?} where a token was expected"),
    }
}

fn failure(step: FetchStep) -> String {
    match step {
        FetchStep::Failed(reason) => reason,
        other => panic!("{other:?} where a failure was expected"),
    }
}

fn response(status: u16, body: &str) -> Result<Finding, String> {
    let body = body.into();
    Ok(Finding::Http(HttpResponse { status, body }))
}

const AZURE_PROPERTIES: [(&str, &str); 2] = [
    ("ENVIRONMENT", "azure"),
    ("TOKEN_RESOURCE", "api://a b/c:d"),
];

#[test]
fn the_test_environment_reads_the_file_that_its_variable_names() {
    // AUTH-110.
    let test = credential(&[("ENVIRONMENT", "test")], None);
    let (mut source, step) = begin(&test, &["OIDC_TOKEN_FILE"], Some("/tmp/t"));
    assert!(matches!(step, FetchStep::Ask(Inquiry::File(path), _) if path == "/tmp/t"));
    let found = Ok(Finding::File(Secret::new("a.b.c\n")));
    assert_eq!(token(source.handle_finding(found)), "a.b.c");
    let (_, step) = begin(&test, &["OIDC_TOKEN_FILE"], None);
    assert!(failure(step).contains("OIDC_TOKEN_FILE is not set"));
}

#[test]
fn kubernetes_has_a_file_of_its_own_and_two_variables() {
    // AUTH-113.
    let k8s = credential(&[("ENVIRONMENT", "k8s")], None);
    let names = ["AZURE_FEDERATED_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"];
    let default = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    for (given, expected) in [
        ([None, None], default),
        ([Some("/azure"), None], "/azure"),
        ([None, Some("/aws")], "/aws"),
        ([Some("/azure"), Some("/aws")], "/azure"),
    ] {
        let (mut source, step) = begin_with(&k8s, &names, &given);
        assert!(matches!(step, FetchStep::Ask(Inquiry::File(path), _) if path == expected));
        let reason = failure(source.handle_finding(Err("no such file".to_owned())));
        assert!(reason.contains("no such file"), "{reason}");
    }
}

#[test]
fn azure_is_asked_with_the_encoded_resource_and_the_client_id() {
    // AUTH-111.
    for (username, query) in [(None, ""), (Some("id 1"), "&client_id=id%201")] {
        let azure = credential(&AZURE_PROPERTIES, username);
        let (mut source, step) = begin(&azure, AZURE_VARIABLES, None);
        let sent = request(&step);
        let line = format!(
            "GET /metadata/identity/oauth2/token?api-version=2018-02-01\
             &resource=api%3A%2F%2Fa%20b%2Fc%3Ad{query} HTTP/1.1\r\nHost: 169.254.169.254\r\n"
        );
        assert!(sent.starts_with(&line), "{sent}");
        assert!(
            sent.contains("Accept: application/json\r\nMetadata: true\r\n"),
            "{sent}"
        );
        let body = r#"{"access_token": "eyJ0", "expires_in": "3599"}"#;
        assert_eq!(token(source.handle_finding(response(200, body))), "eyJ0");
    }
}

#[test]
fn an_error_of_a_metadata_service_includes_its_body() {
    // AUTH-111 and AUTH-112.
    let gcp = credential(&[("ENVIRONMENT", "gcp"), ("TOKEN_RESOURCE", "r")], None);
    for (environment, names) in [
        (&credential(&AZURE_PROPERTIES, None), AZURE_VARIABLES),
        (&gcp, GCP_VARIABLES),
    ] {
        let (mut source, _) = begin(environment, names, None);
        let reason = failure(source.handle_finding(response(400, "no such resource")));
        assert!(reason.contains("status 400: no such resource"), "{reason}");
    }
    for body in [
        "",
        "{}",
        r#"{"access_token": 5}"#,
        r#"{"access_token": ""}"#,
    ] {
        let azure = credential(&AZURE_PROPERTIES, None);
        let (mut source, _) = begin(&azure, AZURE_VARIABLES, None);
        failure(source.handle_finding(response(200, body)));
    }
}

#[test]
fn google_cloud_returns_the_token_itself() {
    // AUTH-112.
    let properties = [("ENVIRONMENT", "gcp"), ("TOKEN_RESOURCE", "https://x/?a=b")];
    for (host, expected) in [(None, "metadata"), (Some("127.0.0.1:81"), "127.0.0.1:81")] {
        let gcp = credential(&properties, None);
        let (mut source, step) = begin(&gcp, GCP_VARIABLES, host);
        let line = format!(
            "GET /computeMetadata/v1/instance/service-accounts/default/identity\
             ?audience=https%3A%2F%2Fx%2F%3Fa%3Db HTTP/1.1\r\nHost: {expected}\r\n"
        );
        let sent = request(&step);
        assert!(sent.starts_with(&line), "{sent}");
        assert!(sent.contains("Metadata-Flavor: Google\r\n"), "{sent}");
        assert_eq!(
            token(source.handle_finding(response(200, "eyJ0\n"))),
            "eyJ0"
        );
    }
}

/// Begins the call of a callback, which returns its input.
fn call(
    flow: OidcFlow,
    idp_info: Option<Arc<IdpInfo>>,
    cache: &TokenCache,
    limits: CallLimits,
) -> (TokenSource, OidcRequest, Duration) {
    let (sender, seen) = std::sync::mpsc::sync_channel(1);
    let callback = OidcCallback::blocking(flow, move |request| {
        sender.send(request)?;
        Ok(OidcTokens::new("t"))
    });
    let mut credential = Credential::with_oidc_callback(callback);
    credential.username = Some("me".to_owned());
    let (source, step) = TokenSource::begin(&credential, idp_info, cache, limits);
    let FetchStep::Ask(Inquiry::Call(ProviderCall::Blocking(work)), limit) = step else {
        panic!("{step:?} where a call was expected");
    };
    work().expect("it succeeds");
    (source, seen.recv().expect("a call"), limit)
}

#[test]
fn a_callback_gets_its_timeout_the_user_name_and_the_version() {
    // OIDC prose 2.1 (AUTH-115, AUTH-116, AUTH-119).
    let second = Duration::from_secs(1);
    for (connect, timeout, flow, expected) in [
        (Some(10), None, OidcFlow::Machine, 60),
        (Some(10), Some(0), OidcFlow::Machine, 60),
        (Some(10), Some(3), OidcFlow::Machine, 3),
        (Some(10), Some(30), OidcFlow::Machine, 10),
        (None, Some(30), OidcFlow::Machine, 30),
        (Some(10), Some(3), OidcFlow::Human, 300),
    ] {
        let limits = CallLimits::new(
            connect.map(|seconds| second * seconds),
            timeout.map(|seconds| second * seconds),
        );
        let (_, request, limit) = call(flow, None, &TokenCache::default(), limits);
        assert_eq!(
            (request.timeout, limit),
            (second * expected, second * expected)
        );
        assert_eq!(request.username.as_deref(), Some("me"));
        assert_eq!(request.version, 1);
        assert!(request.idp_info.is_none() && request.refresh_token.is_none());
    }
}

fn provider() -> Arc<IdpInfo> {
    Arc::new(IdpInfo::new("https://issuer".to_owned(), None, Vec::new()))
}

fn cached(refresh: Option<&str>) -> TokenCache {
    let mut cache = TokenCache::default();
    cache.keep(&Arc::new(Token {
        access: Secret::new("old"),
        refresh: refresh.map(Secret::new),
        idp_info: Some(provider()),
    }));
    cache
}

#[test]
fn a_refresh_token_is_passed_only_without_a_two_step_conversation() {
    // AUTH-129.
    let cache = cached(Some("refresh"));
    let (_, request, _) = call(OidcFlow::Human, None, &cache, limits());
    assert_eq!(
        request.refresh_token.as_ref().map(Secret::expose),
        Some("refresh")
    );
    assert_eq!(request.idp_info.as_ref(), Some(&*provider()));
    let (_, request, _) = call(OidcFlow::Human, Some(provider()), &cache, limits());
    assert!(request.refresh_token.is_none() && request.idp_info.is_some());
    let (_, request, _) = call(OidcFlow::Machine, None, &cache, limits());
    assert!(request.refresh_token.is_none() && request.idp_info.is_none());
}

#[test]
fn a_refresh_token_stays_until_a_new_one_replaces_it() {
    for (given, expected) in [(None, "refresh"), (Some("newer"), "newer")] {
        let cache = cached(Some("refresh"));
        let (mut source, ..) = call(OidcFlow::Human, None, &cache, limits());
        let mut tokens = OidcTokens::new("new");
        tokens.refresh_token = given.map(Secret::new);
        let found = Ok(Finding::Supplied(Supplied::Oidc(tokens)));
        let FetchStep::Done(Provided::Token(token)) = source.handle_finding(found) else {
            panic!("a token was expected");
        };
        assert_eq!(token.refresh.as_ref().map(Secret::expose), Some(expected));
    }
}

#[test]
fn a_callback_without_a_token_fails() {
    // OIDC prose 2.2 and 2.3: no token, and an error.
    let (mut source, ..) = call(OidcFlow::Machine, None, &TokenCache::default(), limits());
    let empty = Ok(Finding::Supplied(Supplied::Oidc(OidcTokens::new(""))));
    assert!(failure(source.handle_finding(empty)).contains("empty access token"));
    let (mut source, ..) = call(OidcFlow::Machine, None, &TokenCache::default(), limits());
    let reason = failure(source.handle_finding(Err("the vault is sealed".to_owned())));
    assert!(
        reason.contains("callback failed: the vault is sealed"),
        "{reason}"
    );
}
