//! Checks that the shell hands each key of log messages to `tracing`.

use crate::words::contains_word;

/// The folder of the tables of events, and the file that hands log messages to `tracing`.
pub(crate) const TABLES: &str = "core/src/event/";
pub(crate) const TRACE: &str = "adapters/client/src/trace.rs";

/// Keys of the tables that stand for several fields with keys of their own.
const GROUPS: [&str; 3] = ["facts", "options", "server"];

/// The texts that come before a key in a table.
const MARKS: [&str; 3] = ["=> \"", "=> (\"", ".visit(\""];

/// Returns the log keys of a table of events.
pub(crate) fn keys(table: &str) -> Vec<String> {
    let mut found = Vec::new();
    // A long row has its key in the line after the arrow.
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for mark in MARKS {
        for (at, _) in table.match_indices(mark) {
            let key = table[at + mark.len()..]
                .split('"')
                .next()
                .unwrap_or_default();
            let is_key = !key.is_empty() && key.chars().all(char::is_alphanumeric);
            if is_key && !GROUPS.contains(&key) {
                found.push(key.to_owned());
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The tables of events, and the components that their messages belong to.
const COMPONENTS: [(&str, &str); 4] = [
    ("command.rs", "Command"),
    ("pool.rs", "Connection"),
    ("sdam.rs", "Topology"),
    ("selection.rs", "ServerSelection"),
];

/// Returns the fields that the shell hands to `tracing` for the messages of a table.
fn fields<'a>(table: &str, trace: &'a str) -> &'a str {
    let own = COMPONENTS.iter().find(|(name, _)| table.ends_with(name));
    let arm = own.and_then(|(_, component)| {
        let (_, rest) = trace.split_once(&format!("Component::{component} => event!("))?;
        Some(rest.split_once(')')?.0)
    });
    arm.unwrap_or_default()
}

/// Returns a message for each key that the shell does not hand to `tracing`.
pub(crate) fn lost_keys(table: &str, keys: &[String], trace: &str) -> Vec<String> {
    let fields = fields(table, trace);
    let lost = keys.iter().filter(|key| !contains_word(fields, key));
    lost.map(|key| format!("{TRACE}: the key `{key}` of {table} is missing"))
        .collect()
}

#[test]
fn log_keys_that_tracing_does_not_get_are_reported() {
    let table = "address: Address => \"server\", n: u64 => \"count\",\n e: Error =>\n \
                 (\"error\", e), self.name.visit(\"name\", visit); other => \"two words\"";
    let keys = keys(table);
    assert_eq!(keys, ["count", "error", "name"]);
    let trace = "error Component::Connection => event!(C, r, count errors name), error";
    let lost = lost_keys("a/pool.rs", &keys, trace);
    assert_eq!(lost.len(), 1);
    assert!(lost[0].contains("`error`"), "{lost:?}");
}
