//! Tests of each message: its name, its fields in order, and its text.

mod connections;
mod operations;

use super::{Component, Level, Record, class, record, warning};
use crate::{
    address::Address,
    description::{ServerDescription, TopologyDescription, TopologyId, TopologyType},
    error::{CommandError, Error, ErrorKind, NetworkFault},
    event::{Event, EventKind, NoServersCause, SdamEvent},
    time::Instant,
    uri,
};
use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};
use std::{sync::Arc, time::Duration};

const TOPOLOGY: TopologyId = TopologyId(ObjectId::from_bytes([1; 12]));
const ID: &str = "010101010101010101010101";
const TIME: Duration = Duration::from_micros(1500);

fn server() -> Address {
    Address::tcp("a", 27017)
}

fn reset() -> Error {
    Error::network(NetworkFault::Reset, "connection reset")
}

fn logged(kind: EventKind) -> Record {
    let at = Instant::ZERO;
    record(&Event { at, kind }, 1000).expect("it has a message")
}

/// Returns the fields as one line of text.
fn fields(record: &Record) -> String {
    let fields = record.fields().iter();
    let each: Vec<String> = fields
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    each.join(" | ")
}

#[track_caller]
fn check(kind: EventKind, expected: (Component, &str, &str, &str)) {
    let record = logged(kind);
    let (component, message, noted, text) = expected;
    assert_eq!(record.component(), component);
    assert_eq!(record.level(), Level::Debug);
    assert_eq!(record.message(), message);
    assert_eq!(fields(&record), noted);
    assert_eq!(record.to_string(), text);
}

#[track_caller]
fn topology(event: SdamEvent, message: &str, noted: &str, text: &str) {
    let kind = EventKind::Sdam(event);
    check(kind, (Component::Topology, message, noted, text));
}

fn description(kind: TopologyType) -> Arc<TopologyDescription> {
    let mut description = TopologyDescription::unknown(TOPOLOGY);
    description.topology_type = kind;
    let server = ServerDescription::unknown(server());
    description
        .servers
        .insert(server.address.clone(), server.into());
    Arc::new(description)
}

#[test]
fn topology_events_and_server_opening_and_closing_are_logged() {
    // Topologies and servers have these messages and fields (EVT-25, EVT-27 to EVT-32).
    topology(
        SdamEvent::TopologyOpening { topology: TOPOLOGY },
        "Starting topology monitoring",
        &format!("topologyId={ID}"),
        &format!("Starting monitoring for topology with ID {ID}"),
    );
    topology(
        SdamEvent::TopologyClosed { topology: TOPOLOGY },
        "Stopped topology monitoring",
        &format!("topologyId={ID}"),
        &format!("Stopped monitoring for topology with ID {ID}"),
    );
    topology(
        SdamEvent::TopologyDescriptionChanged {
            topology: TOPOLOGY,
            previous: Arc::new(TopologyDescription::unknown(TOPOLOGY)),
            new: description(TopologyType::Sharded),
        },
        "Topology description changed",
        &format!(
            "topologyId={ID} | previousDescription=Unknown [] | \
             newDescription=Sharded [a:27017 Unknown]"
        ),
        &format!(
            "Description changed for topology with ID {ID}. Previous description: Unknown []. New \
             description: Sharded [a:27017 Unknown]"
        ),
    );
    topology(
        SdamEvent::ServerOpening {
            topology: TOPOLOGY,
            address: server(),
        },
        "Starting server monitoring",
        &format!("topologyId={ID} | serverHost=a | serverPort=27017"),
        &format!("Starting monitoring for server a:27017 in topology with ID {ID}"),
    );
    topology(
        SdamEvent::ServerClosed {
            topology: TOPOLOGY,
            address: server(),
        },
        "Stopped server monitoring",
        &format!("topologyId={ID} | serverHost=a | serverPort=27017"),
        &format!("Stopped monitoring for server a:27017 in topology with ID {ID}"),
    );
}

#[test]
fn a_server_description_change_is_not_logged() {
    // The message about the changed topology description contains the change of the server
    // description (EVT-26).
    let unknown = Arc::new(ServerDescription::unknown(server()));
    let kind = EventKind::Sdam(SdamEvent::ServerDescriptionChanged {
        topology: TOPOLOGY,
        address: server(),
        previous: unknown.clone(),
        new: unknown,
    });
    let at = Instant::ZERO;
    assert_eq!(record(&Event { at, kind }, 1000), None);
}

#[test]
fn a_logged_address_has_host_and_port_or_a_socket_path() {
    // A socket path has no port, and other addresses have host and port (EVT-27).
    for (address, noted, text) in [
        ("/tmp/db.sock", "serverHost=/tmp/db.sock", "/tmp/db.sock"),
        ("[::1]", "serverHost=::1 | serverPort=27017", "[::1]:27017"),
        ("b:5", "serverHost=b | serverPort=5", "b:5"),
    ] {
        topology(
            SdamEvent::ServerOpening {
                topology: TOPOLOGY,
                address: address.parse().expect("an address"),
            },
            "Starting server monitoring",
            &format!("topologyId={ID} | {noted}"),
            &format!("Starting monitoring for server {text} in topology with ID {ID}"),
        );
    }
}

fn succeeded(reply: RawDocumentBuf) -> SdamEvent {
    SdamEvent::HeartbeatSucceeded {
        topology: TOPOLOGY,
        address: server(),
        driver_connection_id: 3,
        server_connection_id: Some(7),
        awaited: true,
        duration: TIME,
        reply: Arc::new(reply),
    }
}

#[test]
fn heartbeats_are_logged() {
    // Heartbeats have these messages and fields (EVT-27, EVT-33 to EVT-35).
    let common = format!("topologyId={ID} | serverHost=a | serverPort=27017");
    topology(
        SdamEvent::HeartbeatStarted {
            topology: TOPOLOGY,
            address: server(),
            driver_connection_id: 3,
            server_connection_id: None,
            awaited: false,
        },
        "Server heartbeat started",
        &format!("{common} | driverConnectionId=3 | awaited=false"),
        &format!(
            "Heartbeat started for a:27017 on connection with driver-generated ID 3 in topology \
             with ID {ID}. Awaited: false"
        ),
    );
    let ids = "driverConnectionId=3 | serverConnectionId=7 | awaited=true | durationMS=1.5";
    let on = format!(
        "for a:27017 on connection with driver-generated ID 3 and server-generated ID 7 in \
         topology with ID {ID}. Awaited: true"
    );
    topology(
        succeeded(rawdoc! { "ok": 1.0, "hosts": ["a"] }),
        "Server heartbeat succeeded",
        &format!(r#"{common} | {ids} | reply={{"ok":1.0,"hosts":["a"]}}"#),
        &format!(r#"Heartbeat succeeded in 1.5 ms {on}. Reply: {{"ok":1.0,"hosts":["a"]}}"#),
    );
    topology(
        SdamEvent::HeartbeatFailed {
            topology: TOPOLOGY,
            address: server(),
            driver_connection_id: 3,
            server_connection_id: Some(7),
            awaited: true,
            duration: TIME,
            failure: reset(),
        },
        "Server heartbeat failed",
        &format!("{common} | {ids} | failure=network error: connection reset"),
        &format!("Heartbeat failed in 1.5 ms {on}. Failure: network error: connection reset"),
    );
}

#[test]
fn a_logged_hello_reply_with_speculative_authenticate_is_redacted() {
    // Replies with `speculativeAuthenticate` are redacted (AUTH-22), those to legacy hello as well
    // (HELLO-1).
    let reply = rawdoc! { "ok": 1, "speculativeAuthenticate": { "payload": "hunter2" } };
    let record = logged(EventKind::Sdam(succeeded(reply)));
    let shown = record.field("reply").map(ToString::to_string);
    assert_eq!(shown.as_deref(), Some("{}"));
    assert!(!record.to_string().contains("hunter2"));
}

#[test]
fn long_documents_are_cut() {
    let kind = EventKind::Sdam(succeeded(rawdoc! { "ok": 1, "a": "ä".repeat(600) }));
    let at = Instant::ZERO;
    for (limit, length) in [(1000, 999), (1001, 1001), (0, 0)] {
        let record = record(
            &Event {
                at,
                kind: kind.clone(),
            },
            limit,
        )
        .expect("a message");
        let reply = record
            .field("reply")
            .map(ToString::to_string)
            .expect("a reply");
        let kept = reply.strip_suffix("...").expect("it is cut");
        assert_eq!(kept.len(), length, "{reply}");
    }
}

#[test]
fn a_topology_without_servers_is_logged_as_a_warning() {
    // A topology without servers should cause a warning (SDAM-65).
    let (topology, cause) = (TOPOLOGY, NoServersCause::NoSeeds);
    let record = logged(EventKind::Sdam(SdamEvent::NoServers { topology, cause }));
    assert_eq!(
        (record.component(), record.level()),
        (Component::Topology, Level::Warn)
    );
    assert_eq!(
        record.to_string(),
        format!(
            "No server is left to be monitored in topology with ID {ID}: the client was made \
             without any"
        )
    );
}

#[test]
fn a_primary_that_is_refused_for_long_is_logged_as_a_warning() {
    let record = logged(EventKind::Sdam(SdamEvent::PrimaryRefused {
        topology: TOPOLOGY,
        address: Address::tcp("a", 1),
        newest: None,
        refused_for: Duration::from_secs(20),
        reason: "another server reported a newer electionId".to_owned(),
    }));
    assert_eq!(
        (record.component(), record.level()),
        (Component::Topology, Level::Warn)
    );
    assert_eq!(
        record.to_string(),
        format!(
            "Server a:1 has claimed for 20000 ms to be the primary, and topology with ID {ID} \
             refuses it as stale: another server reported a newer electionId"
        )
    );
}

#[test]
fn invalid_options_are_logged_as_warnings_without_their_values() {
    let parsed = uri::parse("mongodb://a/?maxPoolSize=secret&nonsense=secret").expect("an URI");
    let records: Vec<Record> = parsed.warnings.iter().map(warning).collect();
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!(
            (record.component(), record.level()),
            (Component::Client, Level::Warn)
        );
        assert!(!record.to_string().contains("secret"), "{record}");
        assert!(
            record.to_string().starts_with("Connection string: option "),
            "{record}"
        );
    }
}

#[test]
fn a_failed_heartbeat_is_logged_without_its_whole_reply() {
    let mut reply = rawdoc! { "ok": 0, "code": 5, "errmsg": "no" };
    reply.append(bson::cstr!("more"), "m".repeat(5000).as_str());
    let fault = CommandError::from_reply(&reply);
    let failure = Error::new(ErrorKind::Command(fault));
    let kind = EventKind::Sdam(SdamEvent::HeartbeatFailed {
        topology: TOPOLOGY,
        address: server(),
        driver_connection_id: 1,
        server_connection_id: None,
        awaited: false,
        duration: TIME,
        failure,
    });
    let record = logged(kind);
    let failure = record.field("failure").map(ToString::to_string);
    assert_eq!(failure.as_deref(), Some("command failed: no (code 5)"));
}

#[test]
fn class_returns_the_component_and_level_of_the_events_record() {
    let kind = EventKind::Sdam(SdamEvent::TopologyOpening { topology: TOPOLOGY });
    let event = Event {
        at: Instant::ZERO,
        kind,
    };
    let record = record(&event, 0).expect("it has a message");
    assert_eq!(class(&event), Some((record.component(), record.level())));
}
