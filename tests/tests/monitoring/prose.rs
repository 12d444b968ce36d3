//! The prose tests of discovery and monitoring, in the order of
//! `server-discovery-and-monitoring-tests.md`, and then those of
//! `server-discovery-and-monitoring/tests/README.md`. SDAM prose 6, about the codes and texts of
//! error replies, is tested in `core/src/sdam`, and SDAM prose 10 in `backpressure`.

use crate::{
    event_log::{
        EventLog, became, heartbeat_failed, heartbeat_started, heartbeat_succeeded, heartbeats_of,
        pool_cleared, pool_ready, unknown,
    },
    scene::{Scene, Watched, play, replica_set, sharded_alone, standalone},
};
use bson::doc;
use onionskin::options::{ReadMode, ReadPreference};
use onionskin_core::{
    description::{ServerType, TopologyType},
    error::ErrorKind,
    event::{Event, EventKind, PoolEvent, SdamEvent},
};
use std::{sync::Arc, sync::Mutex, time::Duration};

/// "All servers unavailable" (SDAM prose 1): a client can be created although none of its servers
/// answers (SDAM-33).
#[test]
fn a_client_can_be_created_while_all_servers_are_unavailable() {
    play([standalone()], |scene| async move {
        let hosts = "10.0.0.70,nowhere,10.0.0.71:27018";
        let watched = scene.client_of(hosts, "serverSelectionTimeoutMS=3000");
        let error = watched.insert(1).await.expect_err("nobody is there");
        assert!(
            matches!(error.kind(), ErrorKind::ServerSelection { .. }),
            "{error:?}"
        );
        assert_eq!(scene.now().since_start(), Duration::from_secs(3));
        watched.end().await;
    });
}

fn server_type(watched: &Watched, member: usize) -> ServerType {
    let topology = watched.client.topology();
    let server = topology.servers.values().nth(member).expect("it is known");
    server.server_type
}

fn topology_type(watched: &Watched) -> TopologyType {
    watched.client.topology().topology_type
}

/// Creates a client without retries, waits until it knows all members of the set, and then 2 s
/// more. A polling monitor is then between two checks, and a streaming monitor waits for a reply.
async fn settled(scene: &Scene, options: &str) -> Watched {
    let watched = scene.client(&format!("retryWrites=false&retryReads=false&{options}"));
    watched
        .wait_for(1, "a primary", became(ServerType::RsPrimary))
        .await;
    watched
        .wait_for(2, "secondaries", became(ServerType::RsSecondary))
        .await;
    scene.pause(2_000).await;
    watched
}

/// "Network error writing to primary" (SDAM prose 2): the former primary is unknown, and no
/// immediate check is requested (SDAM-108).
#[test]
fn a_network_error_writing_to_a_primary_requests_no_immediate_check() {
    for mode in ["poll", "stream"] {
        play([replica_set()], |scene| async move {
            let watched = settled(&scene, &format!("serverMonitoringMode={mode}")).await;
            let data = doc! { "failCommands": ["insert"], "closeConnection": true };
            scene.fail(0, doc! { "times": 1 }, data).await;
            let error = watched.insert(1).await.expect_err("no reply");
            assert!(error.is_network(), "{error:?}");
            assert_eq!(server_type(&watched, 0), ServerType::Unknown);
            assert_eq!(topology_type(&watched), TopologyType::ReplicaSetNoPrimary);
            let lost = scene.now();
            let checks = watched
                .events
                .times(heartbeats_of(0, heartbeat_started))
                .len();
            scene.pause(7_900).await;
            let later = watched.events.times(heartbeats_of(0, heartbeat_started));
            assert_eq!(later.len(), checks, "{mode}: it is left alone");
            scene.pause(3_000).await;
            let later = watched.events.times(heartbeats_of(0, heartbeat_started));
            // A polling monitor keeps the time of its next check. A streaming monitor has a check
            // under way. This check is cancelled, and the next one comes a whole
            // `heartbeatFrequencyMS` later.
            let waited = later[checks].saturating_since(lost).as_secs();
            let expected = if mode == "poll" { 7..9 } else { 9..11 };
            assert!(expected.contains(&waited), "{mode}: {waited} s");
            assert_eq!(server_type(&watched, 0), ServerType::RsPrimary);
            watched.end().await;
        });
    }
}

/// "Not writable primary error when reading without SecondaryOk bit" (SDAM prose 3). The former
/// primary is unknown and checked at once (SDAM-96), although the prose test says that it is not
/// checked at once (A.12, point 1).
#[test]
fn a_not_primary_error_marks_the_server_unknown_and_requests_a_check() {
    play([replica_set()], |scene| async move {
        let watched = settled(&scene, "serverMonitoringMode=poll").await;
        watched.find().await.expect("a reply");
        let step_down = doc! { "replSetStepDown": 60 };
        scene.tell(scene.primary(), step_down).await;
        let checks = watched.events.count(heartbeats_of(0, heartbeat_started));
        let mark = watched.events.mark();
        let error = watched.find().await.expect_err("it is no primary");
        assert_eq!(error.code(), Some(13435), "{error:?}");
        let changes = watched.events.notes_since(mark, |event| match &event.kind {
            EventKind::Sdam(SdamEvent::ServerDescriptionChanged { new, .. }) => {
                Some(new.server_type)
            }
            _ => None,
        });
        assert_eq!(changes.first(), Some(&ServerType::Unknown));
        let types = watched.events.notes_since(mark, |event| match &event.kind {
            EventKind::Sdam(SdamEvent::TopologyDescriptionChanged { new, .. }) => {
                Some(new.topology_type)
            }
            _ => None,
        });
        assert_eq!(types.first(), Some(&TopologyType::ReplicaSetNoPrimary));
        let later = watched.events.count(heartbeats_of(0, heartbeat_started));
        assert_eq!(later, checks + 1, "at once");
        watched.assert_count(0, "pool cleared", pool_cleared);
        scene.pause(50).await;
        assert_eq!(server_type(&watched, 0), ServerType::RsSecondary);
        watched.end().await;
    });
}

/// "Node is recovering error reading with SecondaryOk bit" (SDAM prose 4): the secondary is unknown
/// and checked at once.
#[test]
fn a_node_is_recovering_error_marks_a_secondary_unknown_and_requests_a_check() {
    play([replica_set()], |scene| async move {
        let watched = settled(&scene, "serverMonitoringMode=poll").await;
        let data = doc! { "failCommands": ["find"], "errorCode": 11600 };
        for member in [1, 2] {
            scene.fail(member, doc! { "times": 1 }, data.clone()).await;
        }
        let things = watched.things();
        let secondary = ReadPreference::new(ReadMode::Secondary);
        let find = things.find_one(doc! {}).read_preference(secondary);
        let error = find.await.expect_err("it goes away");
        assert_eq!(error.code(), Some(11600), "{error:?}");
        let asked = error.server().cloned().expect("a server");
        let known = watched.client.topology();
        assert_eq!(known.servers[&asked].server_type, ServerType::Unknown);
        assert_eq!(known.topology_type, TopologyType::ReplicaSetWithPrimary);
        let member = known.servers.keys().position(|address| *address == asked);
        let member = member.expect("a member");
        let checks = watched
            .events
            .times(heartbeats_of(member, heartbeat_started));
        assert_eq!(
            checks.last(),
            watched.events.times(unknown).last(),
            "at once"
        );
        scene.pause(50).await;
        assert_eq!(server_type(&watched, member), ServerType::RsSecondary);
        watched.end().await;
    });
}

/// "Node is recovering error from a write concern error" (SDAM prose 5): the error makes the
/// primary unknown (SDAM-93).
#[test]
fn a_shutdown_write_concern_error_marks_the_primary_unknown() {
    play([replica_set()], |scene| async move {
        let watched = settled(&scene, "serverMonitoringMode=poll").await;
        let concern = doc! { "code": 91, "errmsg": "Replication is being shut down" };
        let data = doc! { "failCommands": ["insert"], "writeConcernError": concern };
        scene.fail(0, doc! { "times": 1 }, data).await;
        let mark = watched.events.mark();
        watched.insert(1).await.expect_err("its concern is not met");
        assert_eq!(server_type(&watched, 0), ServerType::Unknown);
        assert_eq!(topology_type(&watched), TopologyType::ReplicaSetNoPrimary);
        let reported = watched.events.notes_since(mark, |event| {
            (heartbeats_of(0, heartbeat_started)(event) || unknown(event)).then_some(event.at)
        });
        assert_eq!(reported.len(), 2, "unknown, and a check");
        assert_eq!(reported[0], reported[1], "at once");
        watched.assert_count(1, "pool cleared", pool_cleared);
        scene.pause(50).await;
        assert_eq!(server_type(&watched, 0), ServerType::RsPrimary);
        watched.end().await;
    });
}

/// "Topology discovery" (SDAM prose 7a), "Direct connection" (SDAM prose 7b) and "Existing
/// behavior" (SDAM prose 7c): the only seed of the client is a secondary. A write fails only with a
/// direct connection (SDAM-21), which is not the default (SDAM-22).
#[test]
fn a_client_seeded_with_a_secondary_writes_to_the_primary_unless_direct() {
    play([replica_set()], |scene| async move {
        for (options, works) in [
            ("directConnection=false", true),
            ("directConnection=true", false),
            ("", true),
        ] {
            let watched = scene.client_of("member1", options);
            let result = watched.insert(1).await;
            match result {
                Ok(()) => assert!(works, "{options}"),
                Err(error) => {
                    assert!(!works, "{options}: {error:?}");
                    assert_eq!(error.code(), Some(10107), "{error:?}");
                }
            }
            watched.things().delete_many(doc! {}).await.err();
            watched.end().await;
        }
    });
}

/// "Monitors sleep at least minHeartbeatFrequencyMS between checks" (SDAM prose 8): checks are at
/// least 500 ms apart (MON-31).
#[test]
fn failed_checks_are_at_least_500_ms_apart() {
    play(
        [standalone(), replica_set(), sharded_alone()],
        |scene| async move {
            let app = "SDAMMinHeartbeatFrequencyTest";
            let data = doc! {
                "failCommands": ["isMaster", "hello"], "errorCode": 1234, "appName": app,
            };
            scene.fail(0, doc! { "times": 5 }, data).await;
            let start = scene.now();
            let options = "directConnection=true&serverSelectionTimeoutMS=5000";
            let watched = scene.client_of("member0", &format!("appname={app}&{options}"));
            let admin = watched.client.database("admin");
            admin
                .run_command(doc! { "ping": 1 })
                .await
                .expect("a reply");
            drop(admin);
            let took = scene.now().saturating_since(start).as_millis();
            assert!((2_000..=3_500).contains(&took), "{took} ms");
            watched.assert_count(5, "heartbeat failed", heartbeat_failed);
            let failed = watched.events.times(heartbeat_failed);
            let started = watched.events.times(heartbeat_started);
            for (end, start) in failed.iter().zip(&started[1..]) {
                let pause = start.saturating_since(*end);
                assert!(pause >= Duration::from_millis(500), "{pause:?}");
            }
            watched.end().await;
        },
    );
}

/// "Connection Pool Management" (SDAM prose 9): the pool is ready after the first check that
/// succeeds, cleared after a check that fails, and ready again after the next check that succeeds.
#[test]
fn a_failed_check_clears_the_pool_and_a_successful_check_makes_it_ready() {
    play([standalone(), sharded_alone()], |scene| async move {
        let app = "SDAMPoolManagementTest";
        let watched = scene.client(&format!("appname={app}&heartbeatFrequencyMS=500"));
        watched.wait_for(1, "pool ready", pool_ready).await;
        let reported = watched.events.notes(heartbeat_or_pool_event);
        assert_eq!(reported[..2], ["heartbeat succeeded", "pool ready"]);
        let data = doc! {
            "failCommands": ["isMaster", "hello"], "errorCode": 1234, "appName": app,
        };
        let mark = watched.events.mark();
        scene.fail(0, doc! { "times": 2 }, data).await;
        watched
            .wait_for(1, "heartbeat failed", heartbeat_failed)
            .await;
        watched.wait_for(1, "pool cleared", pool_cleared).await;
        watched.wait_for(2, "pool ready", pool_ready).await;
        let reported = watched.events.notes_since(mark, heartbeat_or_pool_event);
        let from = reported.iter().position(|what| *what == "heartbeat failed");
        let reported = &reported[from.expect("a failure")..];
        let expected = [
            "heartbeat failed",
            "pool cleared",
            "heartbeat succeeded",
            "pool ready",
        ];
        let mut rest = reported.iter();
        for wanted in expected {
            assert!(rest.any(|what| *what == wanted), "{wanted} in {reported:?}");
        }
        watched.end().await;
    });
}

fn heartbeat_or_pool_event(event: &Event) -> Option<&'static str> {
    match &event.kind {
        EventKind::Sdam(SdamEvent::HeartbeatSucceeded { .. }) => Some("heartbeat succeeded"),
        EventKind::Sdam(SdamEvent::HeartbeatFailed { .. }) => Some("heartbeat failed"),
        EventKind::Pool(PoolEvent::Ready { .. }) => Some("pool ready"),
        EventKind::Pool(PoolEvent::Cleared { .. }) => Some("pool cleared"),
        _ => None,
    }
}

/// The heartbeat started event comes before the socket is created (B.3, heartbeat 1; EVT-18).
#[test]
fn the_heartbeat_started_event_precedes_the_connection_to_the_server() {
    play([standalone()], |scene| async move {
        let listener = scene
            .operator
            .listen("127.0.0.1:9999".parse().expect("an address"));
        let listener = listener.expect("it is free");
        let reported = Arc::new(Mutex::new(Vec::new()));
        let note = reported.clone();
        let server = scene.spawn(async move {
            let mut socket = listener.accept().await.expect("a connection");
            note.lock().expect("a list").push("client connected");
            let hello = socket.read().await;
            assert!(!hello.is_empty());
            note.lock().expect("a list").push("client hello received");
        });
        let note = reported.clone();
        let listen = Arc::new(move |event: &Event| {
            let what = match &event.kind {
                EventKind::Sdam(SdamEvent::HeartbeatStarted { .. }) => "heartbeat started",
                EventKind::Sdam(SdamEvent::HeartbeatFailed { .. }) => "heartbeat failed",
                _ => return,
            };
            note.lock().expect("a list").push(what);
        });
        let uri = "mongodb://127.0.0.1:9999/?serverSelectionTimeoutMS=500";
        let client = onionskin::Client::builder_from_uri(scene.runtime.clone(), uri);
        let client = client.expect("a string").event_listener(listen).build();
        let client = client.expect("a client");
        let ping = client.database("admin");
        ping.run_command(doc! { "ping": 1 })
            .await
            .expect_err("nobody answers");
        drop(ping);
        server.join().await;
        client.shutdown().await;
        let reported = reported.lock().expect("a list").clone();
        let expected = [
            "heartbeat started",
            "client connected",
            "client hello received",
            "heartbeat failed",
        ];
        assert_eq!(reported[..4], expected, "{reported:?}");
    });
}

/// Streaming test 1 of `tests/README.md`: without changes, a server streams one reply per
/// `heartbeatFrequencyMS`.
#[test]
fn a_server_streams_one_hello_reply_per_heartbeat_frequency() {
    play(
        [standalone(), replica_set(), sharded_alone()],
        |scene| async move {
            let watched = scene.client("heartbeatFrequencyMS=500");
            scene.pause(10_100).await;
            let checks = watched.events.times(heartbeats_of(0, heartbeat_succeeded));
            assert!((20..=23).contains(&checks.len()), "{} checks", checks.len());
            // The first check is the handshake, and the members of a set can stream changes at the
            // beginning.
            for pair in checks[3..].windows(2) {
                let millis = pair[1].saturating_since(pair[0]).as_millis();
                assert!((495..=505).contains(&millis), "{millis} ms");
            }
            watched.end().await;
        },
    );
}

/// The round trip time is measured while checks are streamed (prose RTT 1, MON-45).
#[test]
fn round_trip_times_are_measured_while_checks_are_streamed() {
    play(
        [standalone(), replica_set(), sharded_alone()],
        |scene| async move {
            let app = "streamingRttTest";
            let watched = scene.client(&format!("heartbeatFrequencyMS=500&appname={app}"));
            watched.find().await.expect("a reply");
            scene.pause(2_000).await;
            let trips = round_trips(&watched.events);
            assert!(!trips.is_empty());
            assert!(trips.iter().all(|trip| !trip.is_zero()), "{trips:?}");
            let changes = trips.len();
            // The wait for a streamed reply, about 500 ms, is not used as a round trip time
            // (MON-47).
            for server in watched.client.topology().servers.values() {
                assert!(
                    server.round_trip_time < Some(Duration::from_millis(50)),
                    "{server}"
                );
            }
            let data = doc! {
                "failCommands": ["hello", "isMaster"], "blockConnection": true, "blockTimeMS": 500,
                "appName": app,
            };
            scene.fail(0, doc! { "times": 1_000 }, data).await;
            let slow = || {
                let topology = watched.client.topology();
                let server = topology.servers.values().next().expect("a server");
                server.round_trip_time > Some(Duration::from_millis(250))
            };
            scene.until("a round trip above 250 ms", slow).await;
            assert_eq!(
                round_trips(&watched.events).len(),
                changes,
                "no event for it alone"
            );
            scene.clear_fail_point(0).await;
            watched.end().await;
        },
    );
}

/// Returns the round trip times of known servers in server description changes.
fn round_trips(events: &EventLog) -> Vec<Duration> {
    events.notes(|event| match &event.kind {
        EventKind::Sdam(SdamEvent::ServerDescriptionChanged { new, .. })
            if new.server_type != ServerType::Unknown =>
        {
            Some(new.round_trip_time.unwrap_or_default())
        }
        _ => None,
    })
}
