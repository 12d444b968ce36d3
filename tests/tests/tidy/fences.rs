//! Rules about the crates of the repository. For example, the core performs no I/O, and adapters
//! make no decision of the protocol.

use std::collections::BTreeSet;

use crate::source::{above_tests, code_only, without_comments};
use crate::words::contains_word;

/// The largest number of lines of logic in an adapter to a runtime.
pub(crate) const ADAPTER_LINES_MAX: usize = 175;

/// The largest number of lines of logic in the blocking adapter, which is a runtime itself, and has
/// a line for each call, an iterator for each type of cursor and change stream, and the two streams
/// of GridFS.
pub(crate) const BLOCKING_LINES_MAX: usize = 1360;

/// Names with which the core would perform I/O or be non-deterministic, each with the alternative.
const OUTSIDE: [(&str, &str); 14] = [
    ("std::net::Tcp", "emit an action"),
    ("std::net::Udp", "emit an action"),
    ("ToSocketAddrs", "emit an action"),
    ("std::thread", "the core has no threads"),
    ("std::fs", "files enter as bytes in the options"),
    ("std::env", "the environment enters as an argument"),
    ("std::process", "facts about the process enter as arguments"),
    ("std::time::Instant", "use crate::time::Instant"),
    ("SystemTime", "wall-clock time enters as an argument"),
    ("HashMap", "its order is undefined; use BTreeMap"),
    ("HashSet", "its order is undefined; use BTreeSet"),
    ("async", "the core has no tasks"),
    ("getrandom", "chance is crate::random::Random"),
    ("OsRng", "chance is crate::random::Random"),
];

/// Names that the core must not import from `std`.
const OUTSIDE_IMPORTS: [&str; 10] = [
    "fs",
    "thread",
    "env",
    "process",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "Mutex",
    "RwLock",
    "OnceLock",
];

/// Words of the protocol. An adapter that uses one makes a decision that belongs to the core.
const PROTOCOL: [&str; 18] = [
    "hello",
    "retry",
    "retryable",
    "primary",
    "secondary",
    "mongos",
    "mongod",
    "topology",
    "bson",
    "opcode",
    "wire",
    "replica",
    "writable",
    "handshake",
    "sasl",
    "scram",
    "generation",
    "heartbeat",
];

/// Names of the protocol with which the async client would make a decision that belongs to the
/// core.
const DECISIONS: [&str; 14] = [
    "NotWritablePrimary",
    "NotPrimary",
    "PrimarySteppedDown",
    "InterruptedAtShutdown",
    "RetryableWriteError",
    "SystemOverloadedError",
    "isWritablePrimary",
    "maxWireVersion",
    "topologyVersion",
    "lsid",
    "txnNumber",
    "saslStart",
    "10107",
    "11600",
];

pub(crate) fn io_or_nondeterminism(path: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(code.lines()) {
        for (word, instead) in OUTSIDE {
            // The word is also found at the start of a longer path or name, such as
            // `std::net::TcpStream`, but not inside or at the end of a name.
            let starts = line
                .match_indices(word)
                .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
            if starts {
                found.push(format!("{path}:{number}: `{word}`: {instead}"));
            }
        }
    }
    for import in code.split("use std::").skip(1) {
        let import = import.split(';').next().unwrap_or(import);
        let grouped = import.starts_with("time::{") || import.starts_with('{');
        let instant = (grouped && contains_word(import, "Instant")).then_some(&"Instant");
        let outside = OUTSIDE_IMPORTS
            .iter()
            .find(|name| contains_word(import, name));
        if let Some(name) = outside.or(instant) {
            found.push(format!("{path}: `use std::` of `{name}`"));
        }
    }
    found
}

/// `ErrorKind::Tls` must occur within this number of lines before or after a pattern that matches
/// every network error.
const TLS_WITHIN_LINES: usize = 3;

/// Finds patterns that match every network error, without a pattern for TLS errors beside them. On
/// an established connection a TLS error has the effects of a network error.
pub(crate) fn patterns_without_tls(path: &str, text: &str) -> Vec<String> {
    let code = code_only(above_tests(text));
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let from = at.saturating_sub(TLS_WITHIN_LINES);
        let to = lines.len().min(at + TLS_WITHIN_LINES + 1);
        // A pattern that names the fault, `ErrorKind::Io(IoError { fault: .. })`, is more exact.
        let any_network = line.contains("ErrorKind::Io(")
            && (!line.contains("ErrorKind::Io(IoError") || line.contains("IoError { .. }"));
        if any_network && !lines[from..to].iter().any(|l| l.contains("ErrorKind::Tls")) {
            found.push(format!(
                "{path}:{}: name `ErrorKind::Tls` too, or ask `is_network`",
                at + 1
            ));
        }
    }
    found
}

/// Finds words of the protocol in an adapter's code, also as parts of a longer name.
pub(crate) fn protocol_words(path: &str, text: &str) -> Vec<String> {
    let code = without_comments(above_tests(text));
    let mut found = Vec::new();
    for (number, line) in (1..).zip(code.lines()) {
        for part in words(line) {
            if PROTOCOL.contains(&part.as_str()) {
                found.push(format!(
                    "{path}:{number}: `{part}`: the core decides about it"
                ));
            }
        }
    }
    found
}

/// Returns the words of a line in lower case. Names in snake case and camel case are split.
fn words(line: &str) -> BTreeSet<String> {
    let mut spread = String::new();
    for character in line.chars() {
        if character.is_uppercase() {
            spread.push(' ');
        }
        spread.extend(character.to_lowercase());
    }
    spread
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_owned)
        .collect()
}

/// Finds names and codes of the protocol in the async client.
pub(crate) fn decisions(path: &str, text: &str) -> Vec<String> {
    let code = without_comments(above_tests(text));
    let known = DECISIONS.iter().filter(|word| contains_word(&code, word));
    known
        .map(|word| format!("{path}: `{word}`: the core decides about it"))
        .collect()
}

/// Returns the number of lines of logic in a source file: without blank lines, comments and unit
/// tests.
pub(crate) fn logic_lines(text: &str) -> usize {
    let code = code_only(above_tests(text));
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

pub(crate) fn oversized_adapter(adapter: &str, lines: usize, limit: usize) -> Vec<String> {
    if lines <= limit {
        return Vec::new();
    }
    vec![format!(
        "{adapter}: {lines} lines of logic; {limit} are allowed"
    )]
}

/// Returns the names of the calls of a source file that users can await.
pub(crate) fn calls(text: &str) -> Vec<String> {
    let code = code_only(above_tests(text));
    let name = |rest: &str| {
        let name = rest.chars().take_while(|c| c.is_alphanumeric());
        name.collect::<String>()
    };
    let awaited = code.split(" IntoFuture for ").skip(1).map(name);
    let listed = code.split("\ncall!(").skip(1).map(name);
    awaited
        .chain(listed)
        .filter(|name| !name.is_empty())
        .collect()
}

/// Finds calls that the blocking adapter cannot run.
pub(crate) fn calls_without(calls: &[String], run: &str) -> Vec<String> {
    let code = without_comments(run);
    let runs = |call: &str| code.contains(&format!("{call}Future<"));
    // A call that finds a file by its name has the future of the call that finds it by its id.
    let by_id = |call: &str| call.strip_suffix("ByName").is_some_and(runs);
    let missing = calls.iter().filter(|call| !runs(call) && !by_id(call));
    missing
        .map(|call| format!("{call} can be awaited, but adapters/blocking cannot run it"))
        .collect()
}

/// Finds source files that one adapter has and another one lacks. In the name of a file, the name
/// of its own adapter counts as a placeholder.
pub(crate) fn unlike_names(adapters: &[(&str, BTreeSet<String>)]) -> Vec<String> {
    let general = |(adapter, names): &(&str, BTreeSet<String>)| -> BTreeSet<String> {
        let own = adapter.replace('-', "_");
        names.iter().map(|name| name.replace(&own, "*")).collect()
    };
    let names: Vec<BTreeSet<String>> = adapters.iter().map(general).collect();
    let all: BTreeSet<&String> = names.iter().flatten().collect();
    let mut found = Vec::new();
    for ((adapter, _), names) in adapters.iter().zip(&names) {
        let lacking = all.iter().filter(|name| !names.contains(**name));
        found.extend(lacking.map(|name| format!("{adapter} has no {name}, but another has")));
    }
    found
}

/// Finds packages whose manifest does not take over the workspace's lints.
pub(crate) fn without_lints(path: &str, manifest: &str) -> Vec<String> {
    if manifest.contains("[workspace]") || manifest.contains("[lints]\nworkspace = true") {
        return Vec::new();
    }
    vec![format!("{path}: the workspace's lints are missing")]
}

#[test]
fn io_and_nondeterminism_in_the_core_are_found() {
    for bad in [
        "use std::net::TcpStream;",
        "let now = std::time::Instant::now();",
        "use std::time::{Duration, Instant};",
        "use std::{fmt, time::Instant};",
        "use std::{\n    fmt,\n    fs,\n};",
        "pub async fn run() {}",
        "let map: HashMap<u8, u8>;",
    ] {
        assert!(
            !io_or_nondeterminism("core/src/a.rs", bad).is_empty(),
            "{bad}"
        );
    }
    for good in [
        "use std::net::{IpAddr, Ipv6Addr};",
        "use std::time::Duration;\nuse crate::time::Instant;",
        "// std::fs is not for us\nconst S: &str = \"std::fs\";",
    ] {
        assert_eq!(
            io_or_nondeterminism("core/src/a.rs", good),
            Vec::<String>::new()
        );
    }
}

#[test]
fn protocol_words_in_an_adapter_are_found() {
    for bad in [
        "let a = \"hello\";",
        "fn is_retryable() {}",
        "if kind == Kind::ReplicaSet {}",
    ] {
        assert_eq!(protocol_words("a.rs", bad).len(), 1, "{bad}");
    }
    let fine = "// hello\nfn f(e: &WriteError) {}\n\n#[cfg(test)]\nmod tests { fn hello() {} }\n";
    assert!(protocol_words("a.rs", fine).is_empty());
}

#[test]
fn protocol_decisions_in_the_async_client_are_found() {
    assert_eq!(
        decisions("a.rs", "if error.code() == Some(10107) {}").len(),
        1
    );
    assert!(decisions("a.rs", "// 10107\nlet a = 101_070;").is_empty());
}

#[test]
fn only_lines_of_logic_count_towards_the_line_limit_of_an_adapter() {
    let text = "//! Doc.\n\nuse a::b;\n// why\nfn f() {\n}\n\n#[cfg(test)]\nmod tests {\n}\n";
    assert_eq!(logic_lines(text), 3);
    assert!(oversized_adapter("tokio", 175, ADAPTER_LINES_MAX).is_empty());
    assert_eq!(oversized_adapter("tokio", 176, ADAPTER_LINES_MAX).len(), 1);
}

#[test]
fn a_call_that_the_blocking_client_cannot_run_is_found() {
    let client = "impl<R> IntoFuture for Find<'_, R> {}\ncall!(Delete, options, u64, Deleted);\n";
    assert_eq!(calls(client), ["Find", "Delete"]);
    let run = "block! { [] DeleteFuture<B>; }\n// FindFuture<B>\n";
    assert_eq!(calls_without(&calls(client), run).len(), 1);
}

#[test]
fn adapters_with_different_files_are_found() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let alike = [
        ("smol", names(&["lib.rs", "run_smol.rs"])),
        ("async-std", names(&["lib.rs", "run_async_std.rs"])),
    ];
    assert!(unlike_names(&alike).is_empty());
    let unlike = [
        ("smol", names(&["lib.rs", "time.rs"])),
        ("tokio", names(&["lib.rs"])),
    ];
    assert_eq!(
        unlike_names(&unlike),
        ["tokio has no time.rs, but another has"]
    );
}

#[test]
fn a_network_error_pattern_without_a_tls_error_pattern_is_found() {
    let both = "ErrorKind::Io(_) => true,\nErrorKind::Tls { .. } => x,\n";
    assert!(patterns_without_tls("a.rs", both).is_empty());
    let one = "matches!(kind, ErrorKind::Io(_))\n";
    assert_eq!(patterns_without_tls("a.rs", one).len(), 1);
    let detail = "matches!(kind, ErrorKind::Io(IoError { fault, .. }))\n";
    assert!(patterns_without_tls("a.rs", detail).is_empty());
}

#[test]
fn a_package_without_the_workspace_lints_is_found() {
    assert_eq!(without_lints("a/Cargo.toml", "[package]\n").len(), 1);
    assert!(without_lints("a/Cargo.toml", "[package]\n[lints]\nworkspace = true\n").is_empty());
    assert!(without_lints("Cargo.toml", "[workspace]\n").is_empty());
}
