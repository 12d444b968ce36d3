//! Runs suites with compressed messages (COMP-30).
//!
//! With `ONIONSKIN_TEST_COMPRESSORS=zstd`, for example, the clients of the following tests have
//! this option, unless a test sets it itself: the conformance suite, the tests of monitoring,
//! logging, authentication, addresses, proxies, runtimes and the blocking client, the operations on
//! real servers, and the official suites. Tests of options, of `onionskin check`, and of servers
//! that know no compressor do not use it. Worlds draw compressors themselves.

use onionskin_core::random::Seed;
use std::borrow::Cow;

/// The environment variable with the list of compressors.
const VARIABLE: &str = "ONIONSKIN_TEST_COMPRESSORS";

/// Returns the connection string with the compressors of the environment variable.
#[must_use]
pub fn with_compressors(uri: &str) -> Cow<'_, str> {
    match std::env::var(VARIABLE) {
        Ok(names) if !names.is_empty() => added(uri, &names).into(),
        _ => uri.into(),
    }
}

/// Returns a text of `length` bytes that compressors can shorten by a quarter only. Tests that need
/// messages of some size use it, so that they also run with compressors.
#[must_use]
pub fn noise(length: usize) -> String {
    let mut random = Seed::new([7; 32]).random();
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    for byte in &mut bytes {
        *byte = b'0' + (*byte & 63);
    }
    String::from_utf8(bytes).expect("ASCII")
}

fn added(uri: &str, names: &str) -> String {
    if uri.contains("compressors=") {
        return uri.to_owned();
    }
    let start = uri.find("://").map_or(0, |at| at + 3);
    let separator = match (uri[start..].contains('/'), uri.find('?')) {
        (_, Some(_)) if uri.ends_with(['?', '&']) => "",
        (_, Some(_)) => "&",
        (true, None) => "?",
        (false, None) => "/?",
    };
    format!("{uri}{separator}compressors={names}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_added_to_any_connection_string() {
        for (uri, expected) in [
            ("mongodb://a", "mongodb://a/?compressors=zstd"),
            ("mongodb://a,b/", "mongodb://a,b/?compressors=zstd"),
            ("mongodb://a/db", "mongodb://a/db?compressors=zstd"),
            ("mongodb://a/?", "mongodb://a/?compressors=zstd"),
            ("mongodb://a/?w=1", "mongodb://a/?w=1&compressors=zstd"),
            ("mongodb://a/?w=1&", "mongodb://a/?w=1&compressors=zstd"),
            (
                "mongodb://a/?compressors=zlib",
                "mongodb://a/?compressors=zlib",
            ),
        ] {
            assert_eq!(added(uri, "zstd"), expected);
        }
    }
}
