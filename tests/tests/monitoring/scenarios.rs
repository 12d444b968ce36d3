//! Tests of race conditions that were bugs in the discovery and monitoring of other drivers.
//!
//! Other scenarios are in the modules `clearing`, `closing`, `connecting`, `establishing`, `freeze`
//! (scenario 14), `leaks`, `storm` and `waiting`, and scenario 12 is also in the core's
//! `selection/tests/custom.rs`. The histories of scenario 23 are official test files.

use crate::{
    event_log::{
        became, heartbeat, heartbeat_started, heartbeats_of, pool_cleared, server_changed, unknown,
    },
    scene::{Scene, play, replica_set, replica_set_of, sharded, standalone},
};
use bson::doc;
use onionskin::{
    Error,
    options::{ReadMode, ReadPreference},
};
use onionskin_core::{
    description::{ServerType, TopologyType},
    event::{EventKind, PoolEvent, SdamEvent},
};
use onionskin_worlds::world::plan::Disaster;
use std::{error::Error as _, time::Duration};

/// An operation that begins to wait for a server while the topology description changes notices the
/// change (scenario 2). Operations start every 50 microseconds, from the start of the client on.
#[test]
fn server_selection_misses_no_topology_change_when_it_starts_to_wait() {
    play([replica_set(), sharded()], |scene| async move {
        let watched = scene.client("heartbeatFrequencyMS=60000&serverSelectionTimeoutMS=5000");
        let mut inserts = Vec::new();
        for id in 0..40 {
            let things = watched.things();
            let start = scene.now();
            let now = scene.clone();
            inserts.push(scene.spawn(async move {
                things
                    .insert_one(doc! { "_id": id })
                    .await
                    .expect("a server");
                now.now().saturating_since(start)
            }));
            scene.pause_for(Duration::from_micros(50)).await;
        }
        for insert in inserts {
            let took = insert.join().await;
            assert!(
                took < Duration::from_millis(450),
                "not by the next look: {took:?}"
            );
        }
        watched.end().await;
    });
}

/// An operation requests a check after a change, while a check of each server is under way and its
/// reply is delayed (scenario 3). The change is found soon.
#[test]
fn a_waiting_operation_finds_a_change_that_occurred_during_a_slow_check() {
    play([replica_set()], |scene| async move {
        let options = "serverMonitoringMode=poll&appname=slow&retryWrites=true";
        let watched = scene.client(options);
        watched.insert(1).await.expect("a reply");
        let slow = doc! {
            "failCommands": ["hello", "isMaster"], "appName": "slow", "blockConnection": true,
            "blockTimeMS": 400,
        };
        for member in 0..3 {
            scene.fail(member, doc! { "times": 1 }, slow.clone()).await;
        }
        // Waits until each server has a check under way, which the fail point blocks.
        let checks = watched.events.count(heartbeat_started);
        scene
            .until_within(Duration::from_secs(20), "checks", || {
                watched.events.count(heartbeat_started) >= checks + 3
            })
            .await;
        scene
            .tell(scene.primary(), doc! { "replSetStepDown": 60 })
            .await;
        let is_elected = || {
            scene
                .operator
                .inspect(|d| d.primary().is_some_and(|p| p != 0))
        };
        scene
            .until_within(Duration::from_secs(20), "an election", is_elected)
            .await;
        let start = scene.now();
        watched.insert(2).await.expect("the new primary answers");
        let took = scene.now().saturating_since(start);
        assert!(took < Duration::from_millis(1_500), "{took:?}");
        watched.end().await;
    });
}

/// Replies of several servers at the same time are all applied (scenario 6), because they are
/// processed one at a time (SDAM-123). No server has two checks at once, even if an operation
/// requests checks (scenario 13).
#[test]
fn simultaneous_hello_replies_of_all_servers_are_all_applied() {
    play([replica_set_of(7), sharded()], |scene| async move {
        for mode in ["stream", "poll"] {
            let options = format!("serverMonitoringMode={mode}&heartbeatFrequencyMS=500");
            let watched = scene.client(&options);
            scene.pause(200).await;
            let topology = watched.client.topology();
            assert!(
                topology
                    .servers
                    .values()
                    .all(|s| s.server_type.is_data_bearing())
            );
            // In the replica set, this operation waits for a server that does not exist, and so
            // requests checks for three seconds. In the sharded cluster it succeeds.
            let nowhere = ReadPreference::new(ReadMode::Secondary);
            let tags = [("dc", "nowhere")].map(|(k, v)| (k.to_owned(), v.to_owned()));
            let nowhere = nowhere.with_tag_sets(vec![tags.into()]).expect("tags");
            let find = watched.things();
            let find = find.find_one(doc! {}).read_preference(nowhere);
            let is_set = topology.topology_type.is_replica_set();
            let found = find.timeout(Duration::from_secs(3)).await;
            assert_eq!(found.is_err(), is_set, "{found:?}");
            for member in 0..topology.servers.len() {
                let mut running = 0_i32;
                for what in watched.events.notes(|event| {
                    heartbeats_of(member, |_| true)(event)
                        .then(|| heartbeat(event))
                        .flatten()
                }) {
                    running += if what.0 == "started" { 1 } else { -1 };
                    assert!((0..=1).contains(&running), "{member}: {running} checks");
                }
            }
            watched.assert_count(0, "unknown", unknown);
            watched.end().await;
        }
    });
}

/// During a failover, a server becomes selectable only while its pool is ready (scenario 18).
#[test]
fn a_server_becomes_selectable_only_while_its_pool_is_ready() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("heartbeatFrequencyMS=500&connectTimeoutMS=1000");
        watched.insert(1).await.expect("a reply");
        scene.strike(Disaster::Kill(0));
        watched.insert(2).await.expect("the new primary answers");
        scene.strike(Disaster::Restart(0));
        scene.pause(30_000).await;
        watched.insert(3).await.expect("a reply");
        let mut ready = std::collections::BTreeMap::new();
        let changes = watched.events.notes(|event| match &event.kind {
            EventKind::Pool(PoolEvent::Ready { address, .. }) => {
                Some((address.clone(), true, true))
            }
            EventKind::Pool(PoolEvent::Cleared { address, .. }) => {
                Some((address.clone(), true, false))
            }
            EventKind::Sdam(SdamEvent::ServerDescriptionChanged { address, new, .. }) => {
                let chosen = new.server_type.is_data_bearing();
                Some((address.clone(), false, chosen))
            }
            _ => None,
        });
        for (address, is_pool, is_on) in changes {
            if is_pool {
                ready.insert(address, is_on);
            } else if is_on {
                assert_eq!(ready.get(&address), Some(&true), "{address}");
            }
        }
        assert!(watched.events.count(pool_cleared) > 0);
        watched.end().await;
    });
}

/// The short time limit of an operation applies to the operation only, and not to the checks that
/// it requested (scenario 22).
#[test]
fn the_time_limit_of_an_operation_does_not_apply_to_checks() {
    play([standalone()], |scene| async move {
        scene.strike(Disaster::Kill(0));
        let watched = scene.client("");
        for _ in 0..20 {
            let things = watched.things();
            let find = things.find_one(doc! {}).timeout(Duration::from_millis(3));
            find.await.expect_err("nobody is there");
            scene.pause(40).await;
        }
        // Each operation requests a check, but checks are at least 500 ms apart.
        watched.assert_count(2, "heartbeat started", heartbeat_started);
        scene.strike(Disaster::Restart(0));
        let start = scene.now();
        watched.insert(1).await.expect("a reply");
        let took = scene.now().saturating_since(start);
        assert!(took < Duration::from_millis(600), "{took:?}");
        watched.end().await;
    });
}

/// A server that is available again is used after the next check that a waiting operation requests
/// (scenario 35). One sample of its round trip time is enough.
#[test]
fn a_server_that_is_available_again_is_used_after_the_next_check() {
    play([standalone(), replica_set_of(1)], |scene| async move {
        for mode in ["stream", "poll"] {
            let options = format!("serverMonitoringMode={mode}&retryWrites=false");
            let watched = scene.client(&options);
            watched.insert(1).await.expect("a reply");
            scene.pause(3_000).await;
            scene.strike(Disaster::Kill(0));
            scene.pause(5_000).await;
            scene.strike(Disaster::Restart(0));
            let is_up = || scene.operator.inspect(|d| d.primary() == Some(0));
            scene
                .until_within(Duration::from_secs(60), "a primary", is_up)
                .await;
            let start = scene.now();
            // The first insert can still get a connection that broke.
            watched.insert(2).await.err();
            watched.insert(3).await.expect("a reply");
            let took = scene.now().saturating_since(start);
            assert!(took < Duration::from_millis(1_100), "{mode}: {took:?}");
            watched
                .things()
                .delete_many(doc! {})
                .await
                .expect("a reply");
            watched.end().await;
        }
    });
}

/// A reply on a monitor's old connection changes nothing after an operation found the server lost
/// (scenario 36).
#[test]
fn a_late_hello_reply_does_not_make_an_unknown_server_known() {
    play([standalone()], |scene| async move {
        let options = "heartbeatFrequencyMS=500&appname=late&retryWrites=false";
        let watched = scene.client(options);
        watched.insert(1).await.expect("a reply");
        let broken = doc! {
            "failCommands": ["insert"], "appName": "late", "closeConnection": true,
        };
        for pause in 0..40 {
            // At some of these times the next streamed reply is under way.
            scene.fail(0, doc! { "times": 1 }, broken.clone()).await;
            scene.pause_for(Duration::from_micros(12_340 * pause)).await;
            watched.insert(2).await.expect_err("it breaks");
            let lost = scene.now();
            let mark = watched.events.mark();
            scene.pause(400).await;
            let changes = watched.events.notes_since(mark, |event| {
                became(ServerType::Standalone)(event).then_some(event.at)
            });
            assert_eq!(changes, [], "lost at {lost}");
            watched.things().find_one(doc! {}).await.expect("a reply");
        }
        watched.end().await;
    });
}

/// The hello reply of a connection that was being established when the server was lost is older
/// than the loss, and must not update the server (MON-22).
#[test]
fn a_handshake_that_began_before_a_pool_clear_does_not_update_the_server() {
    play([standalone()], |scene| async move {
        let options = "serverMonitoringMode=poll&heartbeatFrequencyMS=60000&retryReads=false";
        let watched = scene.client(&format!("{options}&appname=old"));
        watched.insert(1).await.expect("a reply");
        let delay = |command, millis| {
            doc! {
                "failCommands": [command], "appName": "old", "blockConnection": true,
                "blockTimeMS": millis, "closeConnection": command == "find",
            }
        };
        scene
            .fail(0, doc! { "times": 1 }, delay("find", 2_000))
            .await;
        let finds = [0, 1].map(|_| {
            let things = watched.things();
            async move { things.find_one(doc! {}).await }
        });
        let [breaks, waits] = finds;
        let breaks = scene.spawn(breaks);
        // Waits until the request is sent: a write can be split, and its rest is sent up to 20 ms
        // later.
        scene.pause(40).await;
        scene
            .fail(0, doc! { "times": 1 }, delay("hello", 2_300))
            .await;
        let waits = scene.spawn(waits);
        breaks.join().await.expect_err("its connection breaks");
        let mark = watched.events.mark();
        waits.join().await.expect_err("its pool is cleared");
        scene.pause(5_000).await;
        let reported = watched
            .events
            .notes_since(mark, |e| server_changed(e).then_some(e.at));
        assert_eq!(reported, [], "{:#?}", watched.events.names());
        watched.assert_count(1, "unknown", unknown);
        watched.find().await.expect("it is checked for who waits");
        watched.end().await;
    });
}

/// All members restart one after another, after an orderly shutdown or a kill (scenario 42,
/// scenario 44). Retryable writes never fail, and the client recovers.
#[test]
fn retryable_writes_succeed_while_all_members_restart_one_by_one() {
    for in_order in [true, false] {
        play([replica_set()], |scene| async move {
            let watched = scene.client("w=majority&readPreference=primaryPreferred");
            watched.insert(0).await.expect("a reply");
            let things = watched.things();
            let now = scene.clone();
            let writer = scene.spawn(async move {
                for id in 1..=200 {
                    let insert = things.insert_one(doc! { "_id": id });
                    if let Err(error) = insert.await {
                        return Err((now.now(), error));
                    }
                    now.pause(500).await;
                }
                Ok(())
            });
            for member in 0..3 {
                restart(&scene, member, in_order).await;
            }
            writer.join().await.expect("every write is confirmed");
            scene.pause(10_000).await;
            let known = watched.client.topology();
            assert_eq!(known.topology_type, TopologyType::ReplicaSetWithPrimary);
            assert!(
                known
                    .servers
                    .values()
                    .all(|s| s.server_type.is_data_bearing()),
                "{known}"
            );
            let count = watched.things().count_documents(doc! {}).await;
            assert_eq!(count, Ok(201));
            watched.end().await;
        });
    }
}

async fn restart(scene: &Scene, member: usize, in_order: bool) {
    if in_order {
        scene.strike(Disaster::ShutDown(member));
        scene.pause(16_000).await;
    } else {
        scene.strike(Disaster::Kill(member));
        scene.pause(3_000).await;
    }
    scene.strike(Disaster::Restart(member));
    scene.pause(15_000).await;
}

/// A member that shuts down answers its awaitable hellos with a shutdown error. So the client marks
/// the member as unknown before the member closes its connections.
#[test]
fn a_shutdown_error_in_an_awaitable_hello_marks_the_member_unknown() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("w=majority");
        watched.insert(1).await.expect("a reply");
        scene.pause(1_000).await;
        let changes = watched.events.count(server_changed);
        scene.strike(Disaster::ShutDown(0));
        scene.pause(20).await;
        assert!(watched.events.count(server_changed) > changes);
        let known = watched.client.topology();
        let first = known.servers.values().next().expect("a member");
        assert_eq!(first.server_type, ServerType::Unknown, "{known}");
        let code = first.error.as_ref().and_then(Error::code);
        assert_eq!(code, Some(91));
        let start = scene.now();
        watched.insert(2).await.expect("the new primary answers");
        let took = scene.now().saturating_since(start);
        assert!(took < Duration::from_secs(15), "{took:?}");
        watched.end().await;
    });
}

/// A host name resolves to another server after a while (scenario 42). An operation that waits for
/// a server gets the new one.
#[test]
fn a_server_is_found_again_after_its_host_name_resolves_to_another_address() {
    play([replica_set()], |scene| async move {
        scene.operator.name("front", 0);
        let options = "directConnection=true&readPreference=nearest";
        let watched = scene.client_of("front", options);
        watched.find().await.expect("a reply");
        let me = || {
            let topology = watched.client.topology();
            let server = topology.servers.values().next().expect("one server");
            server.me.as_ref().map(ToString::to_string)
        };
        assert_eq!(me().as_deref(), Some("member0:27017"));
        scene.operator.name("front", 1);
        scene.strike(Disaster::Kill(0));
        let start = scene.now();
        watched.find().await.expect("the other one answers");
        let took = scene.now().saturating_since(start);
        assert!(took < Duration::from_millis(600), "{took:?}");
        assert_eq!(me().as_deref(), Some("member1:27017"));
        watched.end().await;
    });
}

/// The time limit of an operation ends at about the time at which the operation is interrupted, or
/// at which its retry starts (scenario 43). The operation ends once, with a result or an error, no
/// later than the limit.
#[test]
fn an_operation_ends_once_if_its_timeout_and_an_interrupt_coincide() {
    play([standalone()], |scene| async move {
        let options = "connectTimeoutMS=500&heartbeatFrequencyMS=500&retryReads=true";
        let watched = scene.client(&format!("{options}&appname=both"));
        watched.insert(1).await.expect("a reply");
        let (mut interrupted, mut timed_out) = (0, 0);
        for shift in 0..40 {
            watched.find().await.expect("a connection");
            let slow = |command| {
                doc! {
                    "failCommands": [command], "appName": "both", "blockConnection": true,
                    "blockTimeMS": 3_000,
                }
            };
            scene.fail(0, doc! { "times": 1 }, slow("find")).await;
            let mark = watched.events.mark();
            let limit = Duration::from_millis(700 + 25 * shift);
            let (things, now) = (watched.things(), scene.clone());
            let find = scene.spawn(async move {
                let start = now.now();
                let found = things.find_one(doc! { "_id": 1 }).timeout(limit).await;
                (found, start, now.now())
            });
            scene.pause(50).await;
            scene.fail(0, doc! { "times": 2 }, slow("hello")).await;
            let (found, start, ended) = find.join().await;
            let took = ended.saturating_since(start);
            assert!(took <= limit, "{took:?} of {limit:?}");
            scene.clear_fail_point(0).await;
            let clears = watched
                .events
                .notes_since(mark, |event| pool_cleared(event).then_some(event.at));
            let was_cleared = clears.iter().any(|at| *at < ended);
            match found {
                Ok(found) => assert!(found.is_some() && was_cleared),
                // The retry may have failed in a slow hello, or the time limit may have ended while
                // the retry waited (RR-18). In the second case the earlier error is the cause of
                // the error.
                Err(error) if was_cleared => {
                    let cause = error.source().and_then(|e| e.downcast_ref::<Error>());
                    let earlier = cause.unwrap_or(&error);
                    let is_reported = earlier.is_pool_cleared() || earlier.is_network();
                    assert!(is_reported, "{error:?}");
                    assert!(took == limit || cause.is_none(), "{took:?}, {error:?}");
                }
                Err(error) => {
                    assert!(error.is_timeout(), "{error:?}");
                    // The `maxTimeMS` of the command is shorter than the limit by the minimum round
                    // trip time (SEL-59), and is rounded to whole milliseconds.
                    let early = limit - took;
                    assert!(early <= Duration::from_millis(3), "{early:?}, {error:?}");
                }
            }
            interrupted += u32::from(was_cleared);
            timed_out += u32::from(!was_cleared);
            scene.pause(4_000).await;
        }
        assert!(
            interrupted > 5 && timed_out > 5,
            "{interrupted}, {timed_out}"
        );
        watched.end().await;
    });
}
