//! Tests with servers that send arbitrary messages.

use super::*;
use proptest::prelude::*;

/// Generates texts, some of which resemble messages of a server.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[rsiveNm=,+/A-Z0-9]{0,60}",
        "\\PC{0,40}",
        "(r=rOprNGfwEbeRWgbNEkqO[!-~]{0,5},)?(s=[A-Za-z0-9]{0,8}={0,2},)?(i=4[0-9]{3})?(,[a-z]=)?",
        "v=[A-Za-z0-9+/]{0,44}={0,2}(,.{0,5})?",
    ]
}

proptest! {
    #[test]
    fn a_server_without_the_password_cannot_complete_authentication(
        messages in prop::collection::vec((text(), any::<bool>()), 1..5),
        speculative: bool,
    ) {
        let mut keys = Caches::new();
        let mut conversation = VECTORS[1].conversation();
        let mut messages = messages.iter().map(|(text, done)| reply(text, *done));
        let first = if speculative { messages.next() } else { None };
        let step = conversation.handle_hello(Instant::ZERO, None, first.as_deref(), &mut keys);
        let mut step = with_keys(&mut conversation, step);
        for message in messages {
            prop_assert!(!matches!(step, Step::Done));
            step = answer(&mut conversation, &message, &mut keys);
        }
        prop_assert!(!matches!(step, Step::Done));
        prop_assert!(keys.keys.is_empty());
    }
}
