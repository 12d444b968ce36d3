//! Servers that repeat the secrets of a conversation in their errors.

use super::*;
use crate::{
    auth::{Caches, Provided, Token},
    options::{OidcCallback, OidcFlow, OidcTokens},
};

const PASSWORD: &str = "correct horse battery";
const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl";

/// Returns the forms in which a server repeats a secret.
fn echoes(secret: &str) -> [String; 5] {
    let hex: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
    [
        format!("no such login: {secret}"),
        format!("no such login: {}", &secret[3..secret.len() - 3]),
        format!("no such login: {hex}"),
        BASE64.encode(format!("\0ada\0{secret}")),
        BASE64.encode(secret).to_lowercase(),
    ]
}

/// Passes a refusal with this text to a conversation that has sent its secret.
fn refused(conversation: &mut Conversation, caches: &mut Caches, text: &str) -> Error {
    let refusal = rawdoc! {
        "ok": 0, "code": 8000, "codeName": text, "errmsg": text, "secret": text,
    };
    match conversation.handle_reply(Instant::ZERO, &refusal, caches) {
        Step::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

fn assert_hidden(error: &Error, text: &str) {
    let shown = format!("{error} {error:?} {:#?}", error.kind());
    assert!(!shown.contains(text), "{shown}");
    let ErrorKind::Authentication {
        cause: Some(cause), ..
    } = error.kind()
    else {
        panic!("{error:?}");
    };
    assert_eq!((cause.code, cause.message.as_str()), (8000, "[redacted]"));
    assert_eq!(
        (cause.code_name.as_str(), &cause.reply),
        ("[redacted]", &None)
    );
}

#[test]
fn a_server_that_repeats_the_password_of_plain_is_not_quoted() {
    for echo in echoes(PASSWORD) {
        let mut credential = Credential::password("ada", PASSWORD);
        credential.mechanism = Some(AuthMechanism::Plain);
        let mut caches = Caches::new();
        let mut conversation = conversation_of(&credential).expect("usable");
        let _ = conversation.handle_hello(Instant::ZERO, None, None, &mut caches);
        assert_hidden(&refused(&mut conversation, &mut caches, &echo), &echo);
    }
}

#[test]
fn a_server_that_repeats_a_token_is_not_quoted() {
    for echo in echoes(TOKEN) {
        let callback = OidcCallback::blocking(OidcFlow::Machine, |_| Ok(OidcTokens::new("unused")));
        let credential = Credential::with_oidc_callback(callback);
        let mut caches = Caches::new();
        let mut conversation = conversation_of(&Arc::new(credential)).expect("usable");
        let _ = conversation.handle_hello(Instant::ZERO, None, None, &mut caches);
        let token = Provided::Token(Arc::new(Token::for_test(TOKEN, None, None)));
        caches.keep(Instant::ZERO, &token);
        let _ = conversation.handle_provided(Instant::ZERO, &token, &mut caches, &mut random());
        assert_hidden(&refused(&mut conversation, &mut caches, &echo), &echo);
    }
}

#[test]
fn other_texts_of_a_refusal_stay() {
    let mut credential = Credential::password("ada", PASSWORD);
    credential.mechanism = Some(AuthMechanism::Plain);
    let mut caches = Caches::new();
    let mut conversation = conversation_of(&credential).expect("usable");
    let _ = conversation.handle_hello(Instant::ZERO, None, None, &mut caches);
    let error = refused(
        &mut conversation,
        &mut caches,
        "Authentication\nfailed\u{202e}.",
    );
    assert!(
        error
            .to_string()
            .contains(r"Authentication\nfailed\u{202e}."),
        "{error}"
    );
}
