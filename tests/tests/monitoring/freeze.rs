//! The client's process is suspended while servers continue, as a FaaS platform does between two
//! calls of a function (scenario 14). Afterwards there is no burst of checks, every monitor works,
//! and servers that were healthy all the time stay known.

use crate::{
    event_log::{
        became, heartbeat, heartbeat_failed, heartbeat_started, heartbeat_succeeded, heartbeats_of,
        pool_cleared, unknown,
    },
    scene::{Scene, Watched, play, play_with_one_seed, replica_set, sharded, standalone},
};
use onionskin_core::{description::ServerType, event::Event};
use onionskin_deployment::deployment::DeploymentOptions;
use onionskin_worlds::world::{Disaster, Span};
use std::time::Duration;

/// The durations of freezes in seconds, from three seconds to eight hours.
const PAUSES: [u64; 3] = [3, 600, 8 * 3_600];

const MODES: [&str; 2] = ["stream", "poll"];

fn everywhere() -> [DeploymentOptions; 3] {
    [standalone(), replica_set(), sharded()]
}

/// Suspends the client's process for the time `pause`. Returns after that time.
async fn freeze(scene: &Scene, pause: Duration) {
    let before = scene.now();
    scene.strike(Disaster::Freeze {
        client: 0,
        pause: Span(pause),
    });
    scene.pause(1).await;
    assert!(scene.now() >= before + pause);
}

async fn settled(scene: &Scene, mode: &str) -> Watched {
    let watched = scene.client(&format!(
        "serverMonitoringMode={mode}&connectTimeoutMS=2000"
    ));
    watched.insert(1).await.expect("a reply");
    // Waits until the middle between two checks, which are 10 s apart.
    scene.pause(15_000).await;
    watched
}

/// True for the start of a check that is not awaited. Such a check always sends a command, while an
/// awaited check can be only the read of the next streamed reply.
fn sends_check(event: &Event) -> bool {
    heartbeat(event) == Some(("started", false))
}

#[test]
fn healthy_servers_stay_known_after_a_process_suspension() {
    for mode in MODES {
        for pause in PAUSES {
            play_with_one_seed(everywhere(), |scene| async move {
                let watched = settled(&scene, mode).await;
                freeze(&scene, Duration::from_secs(pause)).await;
                scene.pause(5_000).await;
                watched.assert_count(0, "unknown", unknown);
                watched.assert_count(0, "pool cleared", pool_cleared);
                watched.assert_count(0, "heartbeat failed", heartbeat_failed);
                watched.insert(2).await.expect("a reply");
                watched.end().await;
            });
        }
    }
}

#[test]
fn there_is_no_burst_of_checks_after_a_process_suspension() {
    for mode in MODES {
        for pause in PAUSES {
            play_with_one_seed(everywhere(), |scene| async move {
                let watched = settled(&scene, mode).await;
                let mark = watched.events.mark();
                let steps = scene.operator.steps();
                freeze(&scene, Duration::from_secs(pause)).await;
                scene.pause(1_000).await;
                let servers = watched.client.topology().servers.len();
                let checks = watched
                    .events
                    .notes_since(mark, |e| sends_check(e).then_some(()));
                assert!(checks.len() <= servers, "{} checks are sent", checks.len());
                // Servers stream replies during the freeze. The client reads these replies after
                // the freeze, and each read counts as a check but sends no command.
                let expected = usize::try_from(pause / 10 + 4).expect("a number") * servers;
                let started = watched
                    .events
                    .notes_since(mark, |event| heartbeat_started(event).then_some(()));
                assert!(started.len() <= expected, "{} of {expected}", started.len());
                let steps = scene.operator.steps() - steps;
                let bound = 200 * expected as u64 + 1_000;
                assert!(steps < bound, "{steps} steps");
                watched.end().await;
            });
        }
    }
}

#[test]
fn every_monitor_continues_its_checks_after_a_process_suspension() {
    for mode in MODES {
        play(everywhere(), |scene| async move {
            let watched = settled(&scene, mode).await;
            for pause in [60, 3_600] {
                freeze(&scene, Duration::from_secs(pause)).await;
                let mark = scene.now();
                scene.pause(25_000).await;
                for member in 0..watched.client.topology().servers.len() {
                    let checks = watched
                        .events
                        .times(heartbeats_of(member, heartbeat_started));
                    let later = checks.iter().filter(|at| **at > mark).count();
                    assert!((2..=5).contains(&later), "{mode}, {member}: {later} checks");
                }
            }
            watched.end().await;
        });
    }
}

/// A change during the freeze is found within a second after the freeze. Here the primary is
/// killed, and the other members elect a new one.
#[test]
fn a_failover_during_a_process_suspension_is_found_within_a_second() {
    for mode in MODES {
        for pause in [60, 3_600] {
            play([replica_set()], |scene| async move {
                let watched = settled(&scene, mode).await;
                scene.strike(Disaster::Kill(0));
                freeze(&scene, Duration::from_secs(pause)).await;
                let start = scene.now();
                watched.insert(2).await.expect("the new primary answers");
                let took = scene.now().saturating_since(start);
                assert!(took < Duration::from_secs(1), "{mode}, {pause} s: {took:?}");
                let primaries = watched.events.count(became(ServerType::RsPrimary));
                assert_eq!(primaries, 2);
                watched.end().await;
            });
        }
    }
}

/// Operations that are under way when the freeze begins succeed after the freeze.
#[test]
fn operations_in_progress_succeed_after_a_process_suspension() {
    play(everywhere(), |scene| async move {
        let watched = settled(&scene, "stream").await;
        let inserts = (10..20).map(|id| {
            let things = watched.things();
            scene.spawn(async move {
                things
                    .insert_one(bson::doc! { "_id": id })
                    .await
                    .map(|_| ())
            })
        });
        let inserts: Vec<_> = inserts.collect();
        // The inserts have begun: they wait for replies or for connections.
        scene.pause_for(Duration::from_micros(100)).await;
        freeze(&scene, Duration::from_secs(600)).await;
        for insert in inserts {
            insert
                .join()
                .await
                .expect("its reply was there all the time");
        }
        watched.assert_count(0, "unknown", unknown);
        watched.end().await;
    });
}

/// If the process is frozen during a check, the duration of this check is not used as a round trip
/// time.
#[test]
fn a_process_suspension_does_not_count_as_round_trip_time() {
    play(everywhere(), |scene| async move {
        let options = "serverMonitoringMode=poll&connectTimeoutMS=2000";
        let watched = scene.client(options);
        watched.insert(1).await.expect("a reply");
        scene.pause(9_900).await;
        let checks = watched.events.count(heartbeat_started);
        let last = watched.events.times(heartbeat_succeeded);
        let first_due = *last.first().expect("a check") + Duration::from_secs(10);
        let soon = first_due.saturating_since(scene.now());
        scene.pause_for(soon).await;
        while watched.events.count(heartbeat_started) == checks {
            scene.pause_for(Duration::from_micros(10)).await;
        }
        freeze(&scene, Duration::from_secs(600)).await;
        scene.pause(1_000).await;
        for server in watched.client.topology().servers.values() {
            assert!(
                server.round_trip_time < Some(Duration::from_secs(1)),
                "{server}"
            );
        }
        watched.end().await;
    });
}

/// The process is frozen while a connection is being established for an operation. The operation
/// gets this connection or another one after the freeze.
#[test]
fn operations_waiting_for_a_connection_succeed_after_a_process_suspension() {
    play(everywhere(), |scene| async move {
        for micros in [10, 100, 300, 600, 1_000] {
            let options = "connectTimeoutMS=2000&retryReads=true";
            let watched = scene.client(options);
            scene.pause(15_000).await;
            let things = watched.things();
            let find = scene.spawn(async move { things.find_one(bson::doc! {}).await });
            scene.pause_for(Duration::from_micros(micros)).await;
            freeze(&scene, Duration::from_secs(600)).await;
            find.join().await.expect("a reply");
            watched.assert_count(0, "unknown", unknown);
            watched.end().await;
        }
    });
}
