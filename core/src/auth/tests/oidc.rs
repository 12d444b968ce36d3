//! Tests of MONGODB-OIDC.

use super::*;
use crate::{
    auth::{Authenticated, Need, Provided, Token},
    options::{IdpInfo, OidcCallback, OidcFlow, OidcTokens},
};

fn credential(flow: OidcFlow, username: Option<&str>) -> Arc<Credential> {
    let callback = OidcCallback::blocking(flow, |_| Ok(OidcTokens::new("unused")));
    let mut credential = Credential::with_oidc_callback(callback);
    credential.username = username.map(str::to_owned);
    Arc::new(credential)
}

fn new(flow: OidcFlow) -> Conversation {
    conversation_of(&credential(flow, None)).expect("usable")
}

fn token(access: &str, refresh: Option<&str>, idp_info: Option<Arc<IdpInfo>>) -> Provided {
    Provided::Token(Arc::new(Token::for_test(access, refresh, idp_info)))
}

/// Gives a token to the caches and to a conversation, as the client does.
fn provide(conversation: &mut Conversation, caches: &mut Caches, token: &Provided) -> Step {
    caches.keep(Instant::ZERO, token);
    conversation.handle_provided(Instant::ZERO, token, caches, &mut random())
}

fn cached(access: &str) -> Caches {
    let mut caches = Caches::new();
    caches.keep(Instant::ZERO, &token(access, None, None));
    caches
}

/// Returns the payload of a command and its token.
fn sent_token(step: Step) -> (RawDocumentBuf, String) {
    let Step::Send { database, command } = step else {
        panic!("{step:?} where a command was expected");
    };
    assert_eq!(database, "$external");
    let payload = command.get_binary("payload").expect("a payload").bytes;
    let payload = RawDocument::from_bytes(payload).expect("BSON");
    let jwt = payload.get_str("jwt").expect("a token").to_owned();
    (command, jwt)
}

fn end() -> RawDocumentBuf {
    reply("", true)
}

fn refused(code: i32) -> RawDocumentBuf {
    rawdoc! { "ok": 0, "code": code, "errmsg": "no" }
}

fn start(conversation: &mut Conversation, caches: &mut Caches) -> Step {
    conversation.handle_hello(Instant::ZERO, None, None, caches)
}

fn answer(conversation: &mut Conversation, reply: &RawDocument, caches: &mut Caches) -> Step {
    conversation.handle_reply(Instant::ZERO, reply, caches)
}

fn assert_fetch(step: &Step, with_provider: bool) {
    match step {
        Step::Fetch(Need::Token { idp_info }) => assert_eq!(idp_info.is_some(), with_provider),
        other => panic!("{other:?} where a fetch was expected"),
    }
}

#[test]
fn the_machine_flow_sends_a_fetched_token_in_one_step() {
    // AUTH-120, with its vector.
    let mut caches = Caches::new();
    let mut conversation = new(OidcFlow::Machine);
    assert!(conversation.speculative(&caches).is_none(), "no token");
    assert_fetch(&start(&mut conversation, &mut caches), false);
    let step = provide(
        &mut conversation,
        &mut caches,
        &token("abcd1234", None, None),
    );
    let (command, _) = sent_token(step);
    let payload = command.get_binary("payload").expect("a payload").bytes;
    assert_eq!(BASE64.encode(payload), "FwAAAAJqd3QACQAAAGFiY2QxMjM0AAA=");
    assert_eq!(command.get_str("mechanism").ok(), Some("MONGODB-OIDC"));
    assert!(matches!(
        answer(&mut conversation, &end(), &mut caches),
        Step::Done
    ));
}

#[test]
fn a_cached_token_is_used_and_replaced_once_if_the_server_refuses_it() {
    // AUTH-128 and OIDC prose 3.1.
    let mut caches = cached("old");
    let mut conversation = new(OidcFlow::Machine);
    assert_eq!(sent_token(start(&mut conversation, &mut caches)).1, "old");
    let step = answer(&mut conversation, &refused(18), &mut caches);
    assert_fetch(&step, false);
    let step = provide(&mut conversation, &mut caches, &token("new", None, None));
    assert_eq!(sent_token(step).1, "new");
    // OIDC prose 3.2: a fresh token that is refused is final, and stays cached.
    failed(answer(&mut conversation, &refused(18), &mut caches));
    let mut next = new(OidcFlow::Machine);
    assert_eq!(sent_token(start(&mut next, &mut caches)).1, "new");
}

#[test]
fn another_error_leaves_the_cached_token_alone() {
    // OIDC prose 3.3.
    let mut caches = cached("old");
    let mut conversation = new(OidcFlow::Machine);
    start(&mut conversation, &mut caches);
    let (_, error) = failed(answer(&mut conversation, &refused(20), &mut caches));
    assert_eq!(error.code(), Some(20));
    let mut next = new(OidcFlow::Machine);
    assert_eq!(sent_token(start(&mut next, &mut caches)).1, "old");
}

#[test]
fn a_late_refusal_does_not_remove_a_newer_token() {
    // AUTH-127 and trap 10.
    let mut caches = cached("old");
    let mut late = new(OidcFlow::Machine);
    start(&mut late, &mut caches);
    caches.keep(Instant::ZERO, &token("new", None, None));
    let step = answer(&mut late, &refused(18), &mut caches);
    assert_eq!(sent_token(step).1, "new", "the newer token is tried");
    // The machine flow tries once more, and then gives up.
    failed(answer(&mut late, &refused(18), &mut caches));
}

#[test]
fn the_hello_carries_a_cached_token() {
    // AUTH-130.
    let mut caches = cached("old");
    let mut conversation = new(OidcFlow::Machine);
    let command = conversation
        .speculative(&caches)
        .expect("a token is cached");
    assert_eq!(command.get_str("db").ok(), Some("$external"));
    let embedded = rawdoc! { "conversationId": 7, "done": true, "payload": "" };
    let step = conversation.handle_hello(Instant::ZERO, None, Some(&embedded), &mut caches);
    assert!(matches!(step, Step::Done));
    // A missing or unfinished reply leads to ordinary authentication, and the token stays.
    let unfinished = rawdoc! { "conversationId": 7, "done": false, "payload": "" };
    for embedded in [None, Some(unfinished)] {
        let mut conversation = new(OidcFlow::Machine);
        conversation
            .speculative(&caches)
            .expect("a token is cached");
        let embedded = embedded.as_deref();
        let step = conversation.handle_hello(Instant::ZERO, None, embedded, &mut caches);
        assert_eq!(sent_token(step).1, "old");
    }
}

/// Authenticates a connection with this token.
fn authenticated(access: &str) -> (Authenticated, Caches) {
    let mut caches = cached(access);
    let mut conversation = new(OidcFlow::Machine);
    start(&mut conversation, &mut caches);
    assert!(matches!(
        answer(&mut conversation, &end(), &mut caches),
        Step::Done
    ));
    (conversation.authenticated(), caches)
}

#[test]
fn authentication_again_drops_the_token_of_the_connection() {
    // AUTH-131: no speculation, and the token of the connection is invalidated.
    let (earlier, caches) = authenticated("old");
    let credential = credential(OidcFlow::Machine, None);
    let host = "localhost";
    let mut auth = AuthState::new(random());
    auth.caches = caches;
    let again = |auth: &mut AuthState| {
        let again = Conversation::again(Instant::ZERO, &credential, host, None, &earlier, auth);
        again.expect("usable")
    };
    let (_, step) = again(&mut auth);
    assert_fetch(&step, false);
    // A token that another connection has fetched meanwhile is used (AUTH-127).
    auth.caches.keep(Instant::ZERO, &token("new", None, None));
    let (_, step) = again(&mut auth);
    assert_eq!(sent_token(step).1, "new");
}

const IDP_INFO: &str = "WQAAAAJpc3N1ZXIADwAAAGh0dHBzOi8vaXNzdWVyAAJjbGllbnRJZAAFAAAAYWJjZAAEcmVxd\
                        WVzdFNjb3BlcwAXAAAAAjAAAgAAAGEAAjEAAgAAAGIAAAA=";

/// Returns the reply in which the server names its identity provider.
fn provider_reply() -> RawDocumentBuf {
    rawdoc! { "conversationId": 7, "done": false, "payload": IDP_INFO, "ok": 1 }
}

#[test]
fn the_human_flow_learns_the_identity_provider_first() {
    // AUTH-121, with its vectors.
    for (username, expected) in [
        (None, "BQAAAAA="),
        (Some("myidp"), "EgAAAAJuAAYAAABteWlkcAAA"),
    ] {
        let mut caches = Caches::new();
        let credential = credential(OidcFlow::Human, username);
        let mut conversation = conversation_of(&credential).expect("usable");
        let Step::Send { command, .. } = start(&mut conversation, &mut caches) else {
            panic!("a command was expected");
        };
        let payload = command.get_binary("payload").expect("a payload").bytes;
        assert_eq!(BASE64.encode(payload), expected);
        let step = answer(&mut conversation, &provider_reply(), &mut caches);
        let Step::Fetch(Need::Token {
            idp_info: Some(info),
        }) = &step
        else {
            panic!("{step:?} where a fetch was expected");
        };
        assert_eq!(info.issuer, "https://issuer");
        assert_eq!(info.client_id.as_deref(), Some("abcd"));
        assert_eq!(info.request_scopes, ["a", "b"]);
        let info = Some(info.clone());
        let token = token("abcd1234", Some("refresh"), info);
        let (command, jwt) = sent_token(provide(&mut conversation, &mut caches, &token));
        assert_eq!(command.get_i32("saslContinue").ok(), Some(1));
        assert_eq!(
            (command.get_i32("conversationId").ok(), jwt.as_str()),
            (Some(7), "abcd1234")
        );
        assert!(matches!(
            answer(&mut conversation, &end(), &mut caches),
            Step::Done
        ));
    }
}

#[test]
fn the_human_flow_goes_from_the_cached_token_to_a_refresh_to_a_login() {
    // AUTH-129: each refusal with the error 18 leads one step further.
    let info = Arc::new(IdpInfo::new("https://issuer".to_owned(), None, Vec::new()));
    let mut caches = Caches::new();
    caches.keep(
        Instant::ZERO,
        &token("old", Some("refresh"), Some(info.clone())),
    );
    let mut conversation = new(OidcFlow::Human);
    assert_eq!(sent_token(start(&mut conversation, &mut caches)).1, "old");
    assert_fetch(&answer(&mut conversation, &refused(18), &mut caches), false);
    let refreshed = token("refreshed", Some("refresh"), Some(info));
    let step = provide(&mut conversation, &mut caches, &refreshed);
    assert_eq!(sent_token(step).1, "refreshed");
    let Step::Send { command, .. } = answer(&mut conversation, &refused(18), &mut caches) else {
        panic!("the principal step was expected");
    };
    assert_eq!(command.get_i32("saslStart").ok(), Some(1));
    let step = answer(&mut conversation, &provider_reply(), &mut caches);
    assert_fetch(&step, true);
    let step = provide(&mut conversation, &mut caches, &token("new", None, None));
    assert_eq!(sent_token(step).1, "new");
    failed(answer(&mut conversation, &refused(18), &mut caches));
}

#[test]
fn unusable_messages_of_the_server_fail_the_human_flow() {
    let many: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    let many = bson::RawArrayBuf::from_iter(many);
    let payloads = [
        RawDocumentBuf::new(),
        rawdoc! { "issuer": "" },
        rawdoc! { "issuer": 5 },
        rawdoc! { "issuer": "i", "clientId": 5 },
        rawdoc! { "issuer": "i", "requestScopes": [5] },
        rawdoc! { "issuer": "i", "requestScopes": "openid" },
        rawdoc! { "issuer": "i", "requestScopes": { "0": "openid" } },
        rawdoc! { "issuer": "i", "requestScopes": many },
    ];
    let replies = payloads.iter().map(|payload| {
        let payload = BASE64.encode(payload.as_bytes());
        rawdoc! { "conversationId": 7, "done": false, "payload": payload, "ok": 1 }
    });
    for reply in replies.chain([reply("garbage", false), end()]) {
        let mut caches = Caches::new();
        let mut conversation = new(OidcFlow::Human);
        start(&mut conversation, &mut caches);
        failed(answer(&mut conversation, &reply, &mut caches));
    }
    // OIDC human prose 1.8: a missing `clientId` is tolerated (AUTH-122).
    let payload = BASE64.encode(rawdoc! { "issuer": "i" }.as_bytes());
    let tolerated = rawdoc! { "conversationId": 7, "done": false, "payload": payload, "ok": 1 };
    let mut caches = Caches::new();
    let mut conversation = new(OidcFlow::Human);
    start(&mut conversation, &mut caches);
    assert_fetch(&answer(&mut conversation, &tolerated, &mut caches), true);
}

#[test]
fn an_endless_conversation_fails() {
    let mut caches = cached("old");
    let mut conversation = new(OidcFlow::Machine);
    start(&mut conversation, &mut caches);
    failed(answer(&mut conversation, &reply("", false), &mut caches));
}

#[test]
fn the_human_flow_refuses_other_hosts_before_anything_is_sent() {
    // OIDC human prose 1.6 (AUTH-108).
    let credential = credential(OidcFlow::Human, None);
    let made = Conversation::new(&credential, "db.example.net", None, &mut random());
    let error = made.expect_err("not an allowed host").to_string();
    assert!(
        error.contains("ALLOWED_HOSTS") && error.contains("db.example.net"),
        "{error}"
    );
}
