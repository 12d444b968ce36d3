//! Tests of the preparation of passwords and user names.

use super::*;

/// Runs a conversation with a fixed nonce, and returns the message with the client's proof.
fn proof(mechanism: AuthMechanism, user: &str, password: &str) -> String {
    let mut keys = Caches::new();
    let mut conversation = conversation(Some(mechanism), user, password);
    conversation.set_nonce("abc");
    sent(conversation.handle_hello(Instant::ZERO, None, None, &mut keys));
    let first = reply("r=abcdef,s=c2FsdHNhbHQ=,i=4096", false);
    payload(&sent(answer(&mut conversation, &first, &mut keys)))
}

#[test]
fn passwords_are_prepared_with_saslprep_only_for_scram_sha_256() {
    // SCRAM prose 4: only SCRAM-SHA-256 prepares the password with SASLprep (AUTH-53, AUTH-54).
    let sha_256 = |password| proof(AuthMechanism::ScramSha256, "u", password);
    assert_eq!(sha_256("IX"), sha_256("I\u{AD}X"));
    assert_eq!(sha_256("IX"), sha_256("\u{2168}"));
    assert_eq!(sha_256("\u{2163}"), sha_256("I\u{AD}V"));
    assert_ne!(sha_256("IX"), sha_256("IV"));
    let sha_1 = |password| proof(AuthMechanism::ScramSha1, "u", password);
    assert_ne!(sha_1("IX"), sha_1("I\u{AD}X"));
}

#[test]
fn user_names_are_escaped_but_not_prepared_with_saslprep() {
    // The user name is not prepared in `saslSupportedMechs` (AUTH-25) or in messages (AUTH-52),
    // where `=` and `,` are escaped (AUTH-59).
    let name = "a=b,c\u{2168}\u{AD}";
    let mut conversation = conversation(None, name, "p");
    assert_eq!(
        conversation.sasl_supported_mechs(),
        Some(format!("admin.{name}"))
    );
    let first = payload(&sent(conversation.handle_hello(
        Instant::ZERO,
        None,
        None,
        &mut Caches::new(),
    )));
    assert!(
        first.starts_with("n,,n=a=3Db=2Cc\u{2168}\u{AD},r="),
        "{first}"
    );
}

#[test]
fn a_password_that_saslprep_refuses_fails_before_the_conversation_starts() {
    let mut credential = Credential::password("u", "a\u{7}");
    credential.mechanism = Some(AuthMechanism::ScramSha256);
    assert!(conversation_of(&credential).is_err());
    credential.mechanism = Some(AuthMechanism::ScramSha1);
    assert!(conversation_of(&credential).is_ok());
}
