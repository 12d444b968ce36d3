//! The prose tests of `command-logging-and-monitoring/tests/README.md` about the length of
//! documents in log messages.
//!
//! The message of a failed command has the text of the error and no reply of the server, so the
//! last step of the second test does not apply. Characters of several bytes (test 3) are tested in
//! `core/src/log`.

use crate::{
    collector::{Collector, Line},
    ours::{block_on, build, builder},
};
use bson::{Document, doc};
use onionskin_core::log::LogOptions;
use onionskin_serve::{Embedded, ServeOptions};
use tracing::Level;

const ELLIPSIS: &str = "...";

/// Returns the length of a field of the last message with this text about this command.
fn length(lines: &[Line], message: &str, command: &str, field: &str) -> usize {
    let is_it = |line: &&Line| {
        line.target == "onionskin::command"
            && line.message() == message
            && line.fields["commandName"] == command
    };
    let line = lines.iter().rfind(is_it).expect("it is logged");
    assert_eq!(line.level, Level::DEBUG);
    let text = line.fields[field].as_str().expect("a text");
    text.len()
}

/// Logging prose 1: by default, documents are cut to 1,000 bytes.
#[test]
fn documents_are_cut_to_1_000_bytes_by_default() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    let collector = Collector::new(Level::DEBUG);
    let _guard = collector.install();
    block_on(async {
        let client = build(builder(server.uri()));
        let things = client.database("db").collection::<Document>("things");
        let documents = vec![doc! { "x": "y" }; 100];
        things.insert_many(documents).await.expect("they are new");
        let found = things.find(doc! {}).await.expect("a cursor");
        drop(found);
        client.shutdown().await;
    });
    let lines = collector.lines();
    let longest = 1_000 + ELLIPSIS.len();
    let length = |message, command, field| length(&lines, message, command, field);
    assert_eq!(length("Command started", "insert", "command"), longest);
    assert!(length("Command succeeded", "insert", "reply") <= longest);
    assert_eq!(length("Command succeeded", "find", "reply"), longest);
}

/// Logging prose 2: the longest length of documents can be chosen.
#[test]
fn documents_are_cut_to_the_configured_length() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    let collector = Collector::new(Level::DEBUG);
    let _guard = collector.install();
    block_on(async {
        let options = LogOptions::default().with_max_document_length_bytes(5);
        let client = build(builder(server.uri()).log_options(options));
        let admin = client.database("admin");
        let hello = admin.run_command(doc! { "hello": true }).await;
        hello.expect("a reply");
        client.shutdown().await;
    });
    let lines = collector.lines();
    let length = |message, field| length(&lines, message, "hello", field);
    let longest = 5 + ELLIPSIS.len();
    assert_eq!(length("Command started", "command"), longest);
    assert_eq!(length("Command succeeded", "reply"), longest);
}
