//! Tests of the choice of a mechanism and of speculative authentication.

use super::*;

#[test]
fn the_default_mechanism_follows_from_sasl_supported_mechs() {
    // The mechanism follows from `saslSupportedMechs` (AUTH-26 to AUTH-28). Without a speculative
    // reply, authentication starts in the ordinary way (HELLO-39). Unknown names are ignored
    // (HELLO-41, handshake prose 2).
    let offers: [(Option<&[&str]>, _); 6] = [
        (Some(&["SCRAM-SHA-1", "SCRAM-SHA-256"]), "SCRAM-SHA-256"),
        (Some(&["SCRAM-SHA-256", "unknown"]), "SCRAM-SHA-256"),
        (Some(&["SCRAM-SHA-1"]), "SCRAM-SHA-1"),
        (Some(&["PLAIN", "GSSAPI"]), "SCRAM-SHA-1"),
        (Some(&[]), "SCRAM-SHA-1"),
        (None, "SCRAM-SHA-1"),
    ];
    for (offer, expected) in offers {
        let mut conversation = conversation(None, "user", "pencil");
        let offer = offer.map(|names| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>());
        let step =
            conversation.handle_hello(Instant::ZERO, offer.as_deref(), None, &mut Caches::new());
        assert_eq!(
            sent(step).get_str("mechanism").ok(),
            Some(expected),
            "{offer:?}"
        );
    }
}

#[test]
fn a_speculative_reply_continues_the_conversation_with_the_same_nonce() {
    // The conversation continues from the speculative reply (AUTH-32 to AUTH-34, HELLO-38), which
    // has no field `ok` (HELLO-40).
    let vector = &VECTORS[1];
    for mechanism in [Some(AuthMechanism::ScramSha256), None] {
        let mut keys = Caches::new();
        let mut conversation = conversation(mechanism, "user", "pencil");
        conversation.set_nonce(vector.nonce);
        let first = speculative(&mut conversation);
        assert_eq!(first.get_str("db").ok(), Some("admin"));
        let bytes = BASE64.decode(vector.start).expect("base64");
        assert_eq!(payload(&first).as_bytes(), bytes);
        let text = BASE64.encode(vector.server_first());
        let embedded = rawdoc! { "conversationId": 7, "done": false, "payload": text };
        let step = conversation.handle_hello(Instant::ZERO, None, Some(&embedded), &mut keys);
        let command = sent(with_keys(&mut conversation, step));
        assert_eq!(payload(&command), vector.client_final());
    }
}

#[test]
fn a_fallback_to_scram_sha_1_starts_with_a_new_nonce() {
    // If the server offers only SCRAM-SHA-1, the speculative nonce is dropped (AUTH trap 3).
    let mut conversation = conversation(None, "user", "pencil");
    let first = payload(&speculative(&mut conversation));
    let offer = ["SCRAM-SHA-1".to_owned()];
    let embedded = rawdoc! { "conversationId": 7, "done": false, "payload": "" };
    let step = conversation.handle_hello(
        Instant::ZERO,
        Some(&offer),
        Some(&embedded),
        &mut Caches::new(),
    );
    let command = sent(step);
    assert_eq!(command.get_str("mechanism").ok(), Some("SCRAM-SHA-1"));
    assert_eq!(conversation.mechanism(), AuthMechanism::ScramSha1);
    let nonce = |text: &str| text.rsplit("r=").next().map(str::to_owned);
    assert_ne!(nonce(&payload(&command)), nonce(&first));
}
