//! Tests of the messages of server selection and of commands.

use super::{ID, TIME, TOPOLOGY, check, description, fields, logged, reset, server};
use crate::{
    description::TopologyType,
    event::{CommandEvent, CommandFacts, EventKind, SelectionEvent, SelectionFacts},
    log::{Component, Level},
};
use bson::rawdoc;
use std::{sync::Arc, time::Duration};

fn selects() -> SelectionFacts {
    SelectionFacts {
        operation: "find".into(),
        operation_id: 9,
        selector: "writable server".into(),
        topology: description(TopologyType::Unknown),
    }
}

#[track_caller]
fn selection(event: SelectionEvent, level: Level, message: &str, more: &str, text: &str) {
    let record = logged(EventKind::Selection(event));
    let class = (record.component(), record.level());
    assert_eq!(class, (Component::ServerSelection, level));
    assert_eq!(record.message(), message);
    let common = "selector=writable server | operationId=9 | operation=find | \
                  topologyDescription=Unknown [a:27017 Unknown]";
    assert_eq!(fields(&record), format!("{common}{more}"));
    let known = "Selector: writable server, topology description: Unknown [a:27017 Unknown]";
    assert_eq!(record.to_string(), format!("{text} {known}"));
}

#[test]
fn server_selection_events_are_logged() {
    // Server selection has these messages, with these fields and texts (SEL-61 to SEL-64).
    let facts = selects();
    selection(
        SelectionEvent::Started { facts },
        Level::Debug,
        "Server selection started",
        "",
        "Server selection started for operation find with ID 9.",
    );
    let (facts, address) = (selects(), server());
    selection(
        SelectionEvent::Succeeded { facts, address },
        Level::Debug,
        "Server selection succeeded",
        " | serverHost=a | serverPort=27017",
        "Server selection succeeded for operation find with ID 9. Selected server: a:27017.",
    );
    let (facts, failure) = (selects(), reset());
    selection(
        SelectionEvent::Failed { facts, failure },
        Level::Debug,
        "Server selection failed",
        " | failure=network error: connection reset",
        "Server selection failed for operation find with ID 9. Failure: network error: connection \
         reset.",
    );
    for (millis, more, text) in [
        (
            Some(1999),
            " | remainingTimeMS=1999",
            " Remaining time: 1999 ms.",
        ),
        (None, "", ""),
    ] {
        let (facts, remaining) = (selects(), millis.map(Duration::from_millis));
        selection(
            SelectionEvent::Waiting { facts, remaining },
            Level::Info,
            "Waiting for suitable server to become available",
            more,
            &format!("Waiting for server to become available for operation find with ID 9.{text}"),
        );
    }
}

/// Returns the facts of a command. With `known`, they include the server's connection id and the
/// service id.
fn facts(known: bool) -> Arc<CommandFacts> {
    Arc::new(CommandFacts {
        name: "find".into(),
        database: "db".into(),
        request_id: 5,
        operation_id: 6,
        address: server(),
        driver_connection_id: 7,
        server_connection_id: known.then_some(8),
        service: known.then_some(TOPOLOGY.0),
    })
}

#[test]
fn commands_are_logged() {
    for known in [false, true] {
        let (ids, with, service) = if known {
            (
                format!(" | serverConnectionId=8 | serviceId={ID}"),
                " and server-generated ID 8",
                format!(" with service ID {ID}"),
            )
        } else {
            (String::new(), "", String::new())
        };
        let common = format!(
            "commandName=find | databaseName=db | requestId=5 | operationId=6 | \
             driverConnectionId=7 | serverHost=a | serverPort=27017{ids}"
        );
        let on = format!(
            "using a connection with driver-generated ID 7{with} to a:27017{service}. The \
             requestID is 5 and the operation ID is 6."
        );
        let (facts, duration) = (facts(known), TIME);
        let logs = |event, what: &str, more: &str, time: &str, end: &str| {
            let message = format!("Command {what}");
            let noted = format!("{common} | {more}");
            let text = format!("Command \"find\" {what} on database \"db\"{time} {on} {end}");
            let kind = EventKind::Command(event);
            check(kind, (Component::Command, &message, &noted, &text));
        };
        let started = CommandEvent::Started {
            facts: facts.clone(),
            command: rawdoc! { "find": "c" },
        };
        let command = r#"{"find":"c"}"#;
        let (more, end) = (format!("command={command}"), format!("Command: {command}"));
        logs(started, "started", &more, "", &end);
        let succeeded = CommandEvent::Succeeded {
            facts: facts.clone(),
            duration,
            reply: rawdoc! { "ok": 1 },
        };
        let (more, end) = (
            r#"durationMS=1.5 | reply={"ok":1}"#,
            r#"Command reply: {"ok":1}"#,
        );
        logs(succeeded, "succeeded", more, " in 1.5 ms", end);
        let failed = CommandEvent::Failed {
            facts: facts.clone(),
            duration,
            failure: reset(),
        };
        let more = "durationMS=1.5 | failure=network error: connection reset";
        let end = "Error: network error: connection reset";
        logs(failed, "failed", more, " in 1.5 ms", end);
    }
}
