//! Restricts which files of the core decode messages, and which tests poll the actions of the
//! core's client.

use crate::source::{above_tests, code_only};

/// The names that decode messages, each with the files of the core outside of `wire` that may use
/// it.
const DECODERS: [(&str, &[&str]); 2] = [
    (
        "FrameDecoder",
        &[
            "core/src/connection/messages.rs",
            "core/src/connection/stack.rs",
            "core/src/connection/transport.rs",
        ],
    ),
    ("Message::decode", &["core/src/connection/messages.rs"]),
];

/// Finds code of the core that decodes messages without the function that checks the messages of
/// all connections. Tests may decode messages, because they answer as servers.
pub(crate) fn decodes_messages(path: &str, text: &str) -> Vec<String> {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    if is_test || path.starts_with("core/src/wire/") {
        return Vec::new();
    }
    let code = code_only(above_tests(text));
    let mut found = Vec::new();
    for (number, line) in (1..).zip(code.lines()) {
        for (name, places) in DECODERS {
            if line.contains(name) && !places.contains(&path) {
                found.push(format!(
                    "{path}:{number}: `{name}`: `Transport::next` reads messages, with all checks"
                ));
            }
        }
    }
    found
}

/// The file with the loop that polls a client's actions in tests.
const HARNESS: &str = "core/src/client/tests/harness.rs";

/// Finds tests that poll the actions of a client without the loop that checks the client's
/// contract.
pub(crate) fn polls_actions(path: &str, text: &str) -> Vec<String> {
    let is_test = path.starts_with("core/src/client/tests/");
    let is_load = path.starts_with("tests/src/loads/");
    if path == HARNESS || !(is_test || is_load) {
        return Vec::new();
    }
    let lines = (1..).zip(text.lines());
    let polls = |line: &str| line.contains("client.poll_action(");
    let found = lines.filter(|(_, line)| polls(line));
    found
        .map(|(number, _)| format!("{path}:{number}: `{HARNESS}` polls actions, with all checks"))
        .collect()
}

#[test]
fn polling_client_actions_outside_of_the_harness_is_found() {
    let text = "fn run(&mut self) {\n    while let Some(a) = self.client.poll_action() {}\n}\n";
    for path in [
        "core/src/client/tests/tls/mod.rs",
        "tests/src/loads/hostile/mod.rs",
    ] {
        assert_eq!(polls_actions(path, text).len(), 1, "{path}");
    }
    for path in [HARNESS, "adapters/client/src/shared.rs"] {
        assert!(polls_actions(path, text).is_empty(), "{path}");
    }
    let pool = text.replace("client", "pool");
    assert!(polls_actions("tests/src/loads/pool.rs", &pool).is_empty());
}

#[test]
fn decoding_messages_outside_of_the_listed_files_is_found() {
    let text = "fn f(decoder: &FrameDecoder) {\n    Message::decode(decoder.buffered());\n}\n";
    assert_eq!(
        decodes_messages("core/src/operation/exchange.rs", text).len(),
        2
    );
    assert_eq!(
        decodes_messages("core/src/connection/stack.rs", text).len(),
        1
    );
    for path in [
        "core/src/connection/messages.rs",
        "core/src/wire/decoder.rs",
        "core/src/client/tests/mod.rs",
    ] {
        assert!(decodes_messages(path, text).is_empty(), "{path}");
    }
    let tested = format!("fn g() {{}}\n\n#[cfg(test)]\nmod tests {{\n{text}}}\n");
    assert!(decodes_messages("core/src/sdam/mod.rs", &tested).is_empty());
}
