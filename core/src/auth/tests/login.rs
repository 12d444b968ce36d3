//! Tests of logins that a provider of the application gives.

use super::*;
use crate::{
    auth::{Need, Provided},
    options::{CredentialProvider, Login, PasswordProvider},
};

fn login(username: &str, password: &str) -> Arc<Login> {
    Arc::new(Login::new(username, password))
}

/// Returns a conversation with the first login, which the caches hold.
fn with_login(mechanism: Option<AuthMechanism>) -> (Conversation, Caches) {
    let provider = PasswordProvider::blocking(|_| Ok(Login::new("u", "unused")));
    let mut credential = Credential::with_provider(CredentialProvider::Password(provider));
    credential.mechanism = mechanism;
    credential.source = Some("admin".to_owned());
    let mut caches = Caches::new();
    caches.keep(Instant::ZERO, &Provided::Login(login("me", "old")));
    let held = caches.login().cloned();
    let made = Conversation::new(&Arc::new(credential), "localhost", held, &mut random());
    (made.expect("usable"), caches)
}

fn refusal() -> RawDocumentBuf {
    rawdoc! { "ok": 0, "code": 18, "errmsg": "no" }
}

/// Gives a login to the conversation, as the client does.
fn provide(conversation: &mut Conversation, caches: &mut Caches, login: Arc<Login>) -> Step {
    let provided = Provided::Login(login);
    caches.keep(Instant::ZERO, &provided);
    conversation.handle_provided(Instant::ZERO, &provided, caches, &mut random())
}

#[test]
fn a_refused_login_is_replaced_by_another_one_on_the_same_connection() {
    let (mut conversation, mut caches) = with_login(None);
    assert_eq!(
        conversation.sasl_supported_mechs().as_deref(),
        Some("admin.me")
    );
    let offer = ["SCRAM-SHA-256".to_owned()];
    sent(conversation.handle_hello(Instant::ZERO, Some(&offer), None, &mut caches));
    let step = conversation.handle_reply(Instant::ZERO, &refusal(), &mut caches);
    let Step::Fetch(Need::Login { refused }) = step else {
        panic!("{step:?} where a fetch was expected");
    };
    assert_eq!(refused, Some(login("me", "old")));
    assert!(
        caches.login().is_none(),
        "the refused login is not used again"
    );
    let step = provide(&mut conversation, &mut caches, login("you", "new"));
    let command = sent(step);
    assert!(payload(&command).starts_with("n,,n=you,r="));
    // A second refusal is final, and the next connection asks again.
    let step = conversation.handle_reply(Instant::ZERO, &refusal(), &mut caches);
    failed(step);
    assert!(caches.login().is_none());
}

#[test]
fn the_same_login_again_is_not_tried_twice() {
    let (mut conversation, mut caches) = with_login(Some(AuthMechanism::ScramSha256));
    sent(conversation.handle_hello(Instant::ZERO, None, None, &mut caches));
    conversation.handle_reply(Instant::ZERO, &refusal(), &mut caches);
    let (_, error) = failed(provide(&mut conversation, &mut caches, login("me", "old")));
    assert_eq!(error.code(), Some(18));
    assert!(caches.login().is_none());
}

#[test]
fn an_error_other_than_a_refusal_does_not_ask_the_provider() {
    let (mut conversation, mut caches) = with_login(Some(AuthMechanism::ScramSha256));
    sent(conversation.handle_hello(Instant::ZERO, None, None, &mut caches));
    let shutdown = rawdoc! { "ok": 0, "code": 91, "errmsg": "shutdown" };
    failed(conversation.handle_reply(Instant::ZERO, &shutdown, &mut caches));
    assert!(caches.login().is_some());
}

#[test]
fn a_login_that_cannot_be_used_is_asked_for_again() {
    // SASLprep forbids control characters, and PLAIN zero bytes. A later connection must not get
    // the same login from the cache.
    for (mechanism, wrong) in [
        (None, "pw\n"),
        (Some(AuthMechanism::ScramSha256), "pw\n"),
        (Some(AuthMechanism::Plain), "p\0w"),
        (Some(AuthMechanism::Plain), ""),
    ] {
        let (mut conversation, mut caches) = with_login(mechanism);
        let offer = ["SCRAM-SHA-256".to_owned()];
        sent(conversation.handle_hello(Instant::ZERO, Some(&offer), None, &mut caches));
        conversation.handle_reply(Instant::ZERO, &refusal(), &mut caches);
        let step = provide(&mut conversation, &mut caches, login("me", wrong));
        let (message, error) = failed(step);
        assert_eq!(
            error.code(),
            None,
            "the reason is not that of the first login"
        );
        assert!(message.contains("the password"), "{mechanism:?}: {message}");
        assert!(caches.login().is_none(), "{mechanism:?}");
    }
}

#[test]
fn a_first_login_that_cannot_be_used_is_asked_for_again() {
    // Without a mechanism, the password is prepared after the server's first message.
    let provider = PasswordProvider::blocking(|_| Ok(Login::new("u", "unused")));
    let credential = Credential::with_provider(CredentialProvider::Password(provider));
    let mut caches = Caches::new();
    caches.keep(Instant::ZERO, &Provided::Login(login("me", "pw\n")));
    let held = caches.login().cloned();
    let made = Conversation::new(&Arc::new(credential), "localhost", held, &mut random());
    let mut conversation = made.expect("usable");
    let offer = ["SCRAM-SHA-256".to_owned()];
    let step = conversation.handle_hello(Instant::ZERO, Some(&offer), None, &mut caches);
    let first = payload(&sent(step));
    let (_, nonce) = first.split_once("r=").expect("a nonce");
    let first = reply(&format!("r={nonce}more,s=c2FsdA==,i=4096"), false);
    let (message, _) = failed(conversation.handle_reply(Instant::ZERO, &first, &mut caches));
    assert!(message.contains("SASLprep"), "{message}");
    assert!(caches.login().is_none());
}
