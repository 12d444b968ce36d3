//! The events of discovery and monitoring that listeners get, the log messages made from these
//! events, and metadata that is appended later.

use crate::{
    event_log::{
        command_name, connection_closed, connection_created, heartbeat_failed, heartbeat_succeeded,
    },
    scene::{play, standalone},
};
use bson::doc;
use onionskin::options::DriverInfo;
use onionskin_core::{
    address::Address,
    description::{ServerType, TopologyId, TopologyType},
    event::{Event, EventKind, SdamEvent},
    log,
    time::Instant,
};
use std::collections::{BTreeMap, BTreeSet};

/// A listener, which is a closure (EVT-2), gets each of the nine events with all fields. The log
/// messages are made from the same events (EVT-1).
#[test]
fn a_listener_gets_each_sdam_event_with_all_fields() {
    play([standalone()], |scene| async move {
        let watched = scene.client("heartbeatFrequencyMS=500&serverMonitoringMode=poll");
        watched.wait_for(2, "heartbeats", heartbeat_succeeded).await;
        let data = doc! { "failCommands": ["hello", "isMaster"], "closeConnection": true };
        scene.fail(0, doc! { "times": 1 }, data).await;
        watched.wait_for(1, "a failure", heartbeat_failed).await;
        watched.wait_for(4, "heartbeats", heartbeat_succeeded).await;
        let events = watched.events.clone();
        let topology = watched.client.topology().id;
        watched.end().await;
        let mut reader = Reader {
            topology,
            address: scene.options.addresses[0].clone(),
            counts: BTreeMap::new(),
            started: None,
            messages: BTreeSet::new(),
        };
        for event in events.notes(|event| Some(event.clone())) {
            reader.read(&event);
        }
        let once = ["opening", "server opening", "server closed", "closed"];
        for name in once {
            assert_eq!(reader.counts[name], 1, "{name}");
        }
        assert_eq!(reader.counts.len(), 9, "{:?}", reader.counts);
        assert_eq!(reader.started, None, "each check ends");
        let expected = [
            "Starting topology monitoring",
            "Stopped topology monitoring",
            "Starting server monitoring",
            "Stopped server monitoring",
            "Topology description changed",
            "Server heartbeat started",
            "Server heartbeat succeeded",
            "Server heartbeat failed",
        ];
        assert_eq!(reader.messages, expected.map(str::to_owned).into());
    });
}

/// Official test file `metadata-not-propagated`, "metadata append does not create new connections
/// or close existing ones and no hello command is sent". Metadata can be appended later (HELLO-47)
/// and applies to new connections only (HELLO-48).
#[test]
fn appended_metadata_applies_only_to_new_connections() {
    play([standalone()], |scene| async move {
        let watched = scene.client("serverMonitoringMode=poll");
        let ping = || doc! { "ping": 1 };
        let database = watched.client.database("test");
        database.run_command(ping()).await.expect("a reply");
        let links = scene.runtime.open_links();
        let heartbeats = watched.events.count(heartbeat_succeeded);
        let mut info = DriverInfo::new("framework");
        info.version = Some("2.0".to_owned());
        info.platform = Some("Framework Platform".to_owned());
        watched.client.append_metadata(info).expect("a valid info");
        database.run_command(ping()).await.expect("a reply");
        assert_eq!(scene.runtime.open_links(), links);
        watched.assert_count(heartbeats, "heartbeats", heartbeat_succeeded);
        watched.assert_count(1, "connection created", connection_created);
        watched.assert_count(0, "connection closed", connection_closed);
        let commands = watched.events.notes(command_name);
        let expected = ["ping started", "ping succeeded"];
        assert_eq!(commands, [expected, expected].concat());
        // A string with the separator `|` is an error (HELLO-45).
        let bad = DriverInfo::new("frame|work");
        watched
            .client
            .append_metadata(bad)
            .expect_err("a separator");
        drop(database);
        watched.end().await;
    });
}

/// Checks the topology events of a client that knows one server.
struct Reader {
    topology: TopologyId,
    address: Address,
    counts: BTreeMap<&'static str, u32>,
    /// The start time and the connection id of the check under way.
    started: Option<(Instant, u64)>,
    messages: BTreeSet<String>,
}

impl Reader {
    fn read(&mut self, event: &Event) {
        let EventKind::Sdam(sdam) = &event.kind else {
            return;
        };
        let name = self.read_topology(sdam).or_else(|| {
            let name = self.read_heartbeat(event.at, sdam);
            assert!(name.is_some(), "{sdam:?} is new");
            name
        });
        *self.counts.entry(name.unwrap_or_default()).or_default() += 1;
        if let Some(record) = log::record(event, 1_000) {
            self.messages.insert(record.message().to_owned());
        }
    }

    fn read_topology(&self, event: &SdamEvent) -> Option<&'static str> {
        let (id, address, name) = match event {
            SdamEvent::TopologyOpening { topology, .. } => (topology, None, "opening"),
            SdamEvent::TopologyClosed { topology, .. } => (topology, None, "closed"),
            SdamEvent::TopologyDescriptionChanged {
                topology,
                previous,
                new,
                ..
            } => {
                assert_eq!(previous.id, new.id);
                let is_end = new.servers.is_empty();
                let expected = if is_end {
                    TopologyType::Unknown
                } else {
                    TopologyType::Single
                };
                let is_first = !self.counts.contains_key("changed");
                assert!(new.topology_type == expected || is_first, "{new:?}");
                (topology, None, "changed")
            }
            SdamEvent::ServerOpening {
                topology, address, ..
            } => (topology, Some(address), "server opening"),
            SdamEvent::ServerClosed {
                topology, address, ..
            } => (topology, Some(address), "server closed"),
            SdamEvent::ServerDescriptionChanged {
                topology,
                address,
                previous,
                new,
                ..
            } => {
                assert_eq!((&previous.address, &new.address), (address, address));
                let types = [previous.server_type, new.server_type];
                let (unknown, known) = (ServerType::Unknown, ServerType::Standalone);
                assert!(
                    types == [unknown, known] || types == [known, unknown],
                    "{types:?}"
                );
                assert_eq!(new.error.is_some(), new.server_type == unknown);
                (topology, Some(address), "server changed")
            }
            _ => return None,
        };
        assert_eq!(*id, self.topology);
        assert!(address.is_none_or(|address| *address == self.address));
        Some(name)
    }

    fn read_heartbeat(&mut self, at: Instant, event: &SdamEvent) -> Option<&'static str> {
        let (id, address, awaited, name) = match event {
            SdamEvent::HeartbeatStarted {
                topology,
                address,
                driver_connection_id,
                awaited,
                ..
            } => {
                assert_eq!(self.started.replace((at, *driver_connection_id)), None);
                (topology, address, awaited, "started")
            }
            SdamEvent::HeartbeatSucceeded {
                topology,
                address,
                driver_connection_id,
                server_connection_id,
                awaited,
                duration,
                reply,
                ..
            } => {
                let (started, connection) = self.started.take().expect("it started");
                assert_eq!(*driver_connection_id, connection);
                assert!(!duration.is_zero() && *duration <= at - started);
                let reported = reply.get_i32("connectionId").ok().map(i64::from);
                let reported = reported.or_else(|| reply.get_i64("connectionId").ok());
                assert!(
                    reported.is_some() && *server_connection_id == reported,
                    "{reply:?}"
                );
                (topology, address, awaited, "succeeded")
            }
            SdamEvent::HeartbeatFailed {
                topology,
                address,
                driver_connection_id,
                awaited,
                duration,
                failure,
                ..
            } => {
                let (started, connection) = self.started.take().expect("it started");
                assert_eq!(*driver_connection_id, connection);
                assert!(!duration.is_zero() && *duration <= at - started);
                assert!(failure.is_network(), "{failure:?}");
                (topology, address, awaited, "failed")
            }
            _ => return None,
        };
        assert_eq!(
            (*id, address, *awaited),
            (self.topology, &self.address, false)
        );
        Some(name)
    }
}
