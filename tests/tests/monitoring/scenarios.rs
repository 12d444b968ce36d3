//! Races and leaks that drivers really had, as far as discovery and monitoring are concerned. Each
//! test says what it was; the checkers of the simulated world look for the same things in drawn
//! histories.

use crate::{
    diary::{
        became, heartbeat, heartbeat_failed, heartbeat_started, heartbeats_of, pool_cleared,
        server_changed, unknown,
    },
    scene::{Scene, play, replica_set, replica_set_of, sharded, standalone},
};
use bson::doc;
use onionskin::{ReadMode, ReadPreference};
use onionskin_core::{
    description::{ServerType, TopologyType},
    error::ErrorKind,
    event::{Event, EventKind, PoolEvent, SdamEvent},
};
use onionskin_simulations::world::plan::Disaster;
use std::time::Duration;

/// Moments after a client's start at which its connections are in every state: dialled, asked for
/// a hello, streaming, measured.
const MOMENTS: [Duration; 9] = [
    Duration::ZERO,
    Duration::from_micros(30),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(20),
    Duration::from_millis(10_000),
    Duration::from_millis(10_001),
];

/// Scenarios 1, 8, 26 and 45: whatever its monitors do, a client closes at once, and leaves no
/// connection of a monitor or of a measurement behind.
#[test]
fn a_client_closes_at_once_at_any_moment_and_leaves_nothing() {
    play(
        [standalone(), replica_set(), sharded()],
        |scene| async move {
            for mode in ["stream", "poll"] {
                for moment in MOMENTS {
                    let options = format!("serverMonitoringMode={mode}&minPoolSize=1");
                    let watched = scene.client(&options);
                    scene.pause_for(moment).await;
                    let begun = scene.now();
                    let client = watched.client.clone();
                    client.shutdown().await;
                    assert_eq!(scene.now(), begun, "{mode}, {moment:?}");
                    watched.end().await;
                }
            }
        },
    );
}

/// The same with operations that wait for a server that is not there: they are told, and nobody
/// waits for anybody.
#[test]
fn a_client_closes_at_once_while_operations_wait_for_a_server() {
    play([standalone()], |scene| async move {
        scene.strike(Disaster::Kill(0));
        let watched = scene.client("");
        let things = watched.things();
        let insert = scene.spawn(async move { things.insert_one(doc! { "_id": 1 }).await });
        scene.pause(700).await;
        let begun = scene.now();
        watched.client.clone().shutdown().await;
        assert_eq!(scene.now(), begun);
        let error = insert.join().await.expect_err("the client is closed");
        assert!(matches!(error.kind(), ErrorKind::ClientClosed), "{error:?}");
        watched.end().await;
    });
}

/// Scenario 2: an operation that looks for a server while the description changes sees the change.
/// Operations begin every 50 µs around the moment at which a primary is found.
#[test]
fn no_change_is_missed_by_who_begins_to_wait() {
    play([replica_set(), sharded()], |scene| async move {
        let watched = scene.client("heartbeatFrequencyMS=60000&serverSelectionTimeoutMS=5000");
        let mut inserts = Vec::new();
        for id in 0..40 {
            let things = watched.things();
            let begun = scene.now();
            let now = scene.clone();
            inserts.push(scene.spawn(async move {
                things
                    .insert_one(doc! { "_id": id })
                    .await
                    .expect("a server");
                now.now().saturating_since(begun)
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

/// Scenario 3: what a server becomes during a check is seen soon, though the wish for a check came
/// while one was running. The check's answer is old news by then: it was held back.
#[test]
fn a_change_during_a_slow_check_is_found_by_who_waits() {
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
        // All checks run now, and hang.
        let checks = watched.diary.count(heartbeat_started);
        scene
            .until_within(Duration::from_secs(20), "checks", || {
                watched.diary.count(heartbeat_started) >= checks + 3
            })
            .await;
        scene
            .tell(scene.primary(), doc! { "replSetStepDown": 60 })
            .await;
        let is_elected = || scene.operator.look(|d| d.primary().is_some_and(|p| p != 0));
        scene
            .until_within(Duration::from_secs(20), "an election", is_elected)
            .await;
        let begun = scene.now();
        watched.insert(2).await.expect("the new primary answers");
        let took = scene.now().saturating_since(begun);
        assert!(took < Duration::from_millis(1_500), "{took:?}");
        watched.end().await;
    });
}

/// Scenarios 6 and 13: answers of several servers at one moment are all kept, and no server has two
/// checks at once, whoever asks for them.
#[test]
fn answers_at_one_moment_are_all_kept() {
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
            // Whoever waits for a server that does not exist asks for checks all the time.
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
                for what in watched.diary.notes(|event| {
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

/// Scenario 18: a server that can be chosen has a pool that hands out connections, and a pool that
/// was cleared belongs to a server that was given up, at each moment of a failover.
#[test]
fn pools_and_descriptions_change_together() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("heartbeatFrequencyMS=500&connectTimeoutMS=1000");
        watched.insert(1).await.expect("a reply");
        scene.strike(Disaster::Kill(0));
        watched.insert(2).await.expect("the new primary answers");
        scene.strike(Disaster::Restart(0));
        scene.pause(30_000).await;
        watched.insert(3).await.expect("a reply");
        let mut ready = std::collections::BTreeMap::new();
        let changes = watched.diary.notes(|event| match &event.kind {
            EventKind::Pool(PoolEvent::Ready { address }) => Some((address.clone(), true, true)),
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
        assert!(watched.diary.count(pool_cleared) > 0);
        watched.end().await;
    });
}

/// Scenario 22: a caller's short limit is the caller's alone. Checks that run for it go on.
#[test]
fn a_callers_limit_does_not_reach_the_monitors() {
    play([standalone()], |scene| async move {
        scene.strike(Disaster::Kill(0));
        let watched = scene.client("");
        for _ in 0..20 {
            let things = watched.things();
            let find = things.find_one(doc! {}).timeout(Duration::from_millis(3));
            find.await.expect_err("nobody is there");
            scene.pause(40).await;
        }
        // Each of them wants a check, and they are half a second apart all the same.
        watched.assert_count(2, "heartbeat started", heartbeat_started);
        scene.strike(Disaster::Restart(0));
        let begun = scene.now();
        watched.insert(1).await.expect("a reply");
        let took = scene.now().saturating_since(begun);
        assert!(took < Duration::from_millis(600), "{took:?}");
        watched.end().await;
    });
}

/// Scenario 27: measuring connections that break are replaced, not added.
#[test]
fn measurements_that_fail_leave_no_connections() {
    play([standalone(), sharded()], |scene| async move {
        let watched = scene.client("heartbeatFrequencyMS=500&appname=measured");
        scene.pause(1_000).await;
        let links = scene.operator.open_links();
        for _ in 0..20 {
            // One of the two that say hello is broken: the stream's or the measurement's.
            let broken = doc! {
                "failCommands": ["hello", "isMaster"], "appName": "measured",
                "closeConnection": true,
            };
            scene.fail(0, doc! { "times": 1 }, broken).await;
            scene.pause(700).await;
        }
        scene.pause(2_000).await;
        assert_eq!(scene.operator.open_links(), links);
        watched.end().await;
    });
}

/// Scenario 35: a server that answers again is used again within the pace of who waits for it,
/// whatever its round trips were.
#[test]
fn a_server_that_comes_back_is_used_at_once() {
    play([standalone(), replica_set_of(1)], |scene| async move {
        for mode in ["stream", "poll"] {
            let options = format!("serverMonitoringMode={mode}&retryWrites=false");
            let watched = scene.client(&options);
            watched.insert(1).await.expect("a reply");
            scene.pause(3_000).await;
            scene.strike(Disaster::Kill(0));
            scene.pause(5_000).await;
            scene.strike(Disaster::Restart(0));
            let is_up = || scene.operator.look(|d| d.primary() == Some(0));
            scene
                .until_within(Duration::from_secs(60), "a primary", is_up)
                .await;
            let begun = scene.now();
            // The first one may still find a connection that broke.
            watched.insert(2).await.err();
            watched.insert(3).await.expect("a reply");
            let took = scene.now().saturating_since(begun);
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

/// Scenario 36: an answer that comes in on a monitor's old connection after an operation found the
/// server lost says nothing any more.
#[test]
fn a_late_answer_does_not_make_a_lost_server_healthy() {
    play([standalone()], |scene| async move {
        let options = "heartbeatFrequencyMS=500&appname=late&retryWrites=false";
        let watched = scene.client(options);
        watched.insert(1).await.expect("a reply");
        let broken = doc! {
            "failCommands": ["insert"], "appName": "late", "closeConnection": true,
        };
        for pause in 0..40 {
            // The stream's next answer is on its way at some of these moments.
            scene.fail(0, doc! { "times": 1 }, broken.clone()).await;
            scene.pause_for(Duration::from_micros(12_340 * pause)).await;
            watched.insert(2).await.expect_err("it breaks");
            let lost = scene.now();
            let mark = watched.diary.mark();
            scene.pause(400).await;
            let changes = watched.diary.notes_since(mark, |event| {
                became(ServerType::Standalone)(event).then_some(event.at)
            });
            assert_eq!(changes, [], "lost at {lost}");
            watched.things().find_one(doc! {}).await.expect("a reply");
        }
        watched.end().await;
    });
}

/// Scenario 38: checks that are polled come at their pace, also where they fail.
#[test]
fn polling_is_no_tight_loop() {
    play(
        [standalone(), replica_set(), sharded()],
        |scene| async move {
            let watched = scene.client("serverMonitoringMode=poll&heartbeatFrequencyMS=1000");
            scene.pause(20_500).await;
            assert_pace(
                &watched.diary.times(heartbeats_of(0, heartbeat_started)),
                20..=22,
            );
            scene.strike(Disaster::Kill(0));
            let mark = watched.diary.mark();
            let before = scene.operator.steps();
            scene.pause(20_000).await;
            let failed = watched.diary.notes_since(mark, |event| {
                heartbeats_of(0, heartbeat_failed)(event).then_some(event.at)
            });
            assert_pace(&failed, 19..=22);
            let steps = scene.operator.steps() - before;
            assert!(steps < 10_000, "{steps} steps");
            watched.end().await;
        },
    );
}

fn assert_pace(times: &[onionskin_core::time::Instant], count: std::ops::RangeInclusive<usize>) {
    assert!(count.contains(&times.len()), "{} checks", times.len());
}

/// Scenario 39: a server that turns out not to belong to the deployment is left, with all
/// connections to it. `10.0.0.0` is the first member by another name than its own.
#[test]
fn connections_to_a_server_that_is_removed_are_closed() {
    play([replica_set()], |scene| async move {
        let options = "replicaSet=rs&minPoolSize=2";
        let seeds = "10.0.0.0,member0,member1,member2";
        let watched = scene.client_of(seeds, options);
        scene.pause(5_000).await;
        let topology = watched.client.topology();
        let addresses: Vec<String> = topology.servers.keys().map(ToString::to_string).collect();
        assert_eq!(
            addresses,
            ["member0:27017", "member1:27017", "member2:27017"]
        );
        // Of each member: a monitor's, a measurement's, and two of the pool.
        assert_eq!(scene.operator.open_links(), 3 * 4);
        assert_eq!(watched.client.counts().sockets, 3 * 4);
        let closed = watched
            .diary
            .count(|event| matches!(&event.kind, EventKind::Sdam(SdamEvent::ServerClosed { .. })));
        assert_eq!(closed, 1);
        watched.end().await;
    });
}

/// Scenarios 42 and 44: all members are replaced by themselves one after another, as in an upgrade,
/// in order or by force. Writes that may be repeated never fail, and the client comes out whole.
#[test]
fn a_client_survives_the_restart_of_all_members() {
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

/// A member that goes away in order says so, and is left before its connections break.
#[test]
fn a_member_that_says_goodbye_is_left_at_once() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("w=majority");
        watched.insert(1).await.expect("a reply");
        scene.pause(1_000).await;
        let changes = watched.diary.count(server_changed);
        scene.strike(Disaster::ShutDown(0));
        scene.pause(20).await;
        assert!(watched.diary.count(server_changed) > changes);
        let known = watched.client.topology();
        let first = known.servers.values().next().expect("a member");
        assert_eq!(first.server_type, ServerType::Unknown, "{known}");
        let code = first.error.as_ref().and_then(onionskin::Error::code);
        assert_eq!(code, Some(91));
        let begun = scene.now();
        watched.insert(2).await.expect("the new primary answers");
        let took = scene.now().saturating_since(begun);
        assert!(took < Duration::from_secs(15), "{took:?}");
        watched.end().await;
    });
}

/// Scenario 45, over a long life: clients that come and go leave nothing on the servers.
#[test]
fn clients_that_come_and_go_leave_nothing() {
    play([replica_set(), sharded()], |scene| async move {
        for _ in 0..10 {
            let watched = scene.client("");
            watched.insert(1).await.ok();
            drop(watched);
        }
        scene.pause(2_000).await;
        assert_eq!(scene.operator.open_links(), 0, "clients that were dropped");
        let is_closed = |event: &Event| {
            matches!(
                &event.kind,
                EventKind::Sdam(SdamEvent::TopologyClosed { .. })
            )
        };
        let watched = scene.client("");
        let diary = watched.diary.clone();
        watched.end().await;
        assert_eq!(diary.count(is_closed), 1);
    });
}
