//! Retries after overload errors: the prose tests of client backpressure, those of retryable reads
//! and retryable writes about overload, and a test of the time limit.

use crate::{
    event_log::command_name,
    scene::{Scene, Watched, any_topology, play, replica_set, replica_set_of},
};
use bson::{Document, doc};
use onionskin::Error;
use onionskin_core::{
    error::Label,
    event::{CommandEvent, Event, EventKind},
    options::{ReadMode, ReadPreference},
    time::Instant,
};
use std::{future::Future, time::Duration};

/// The number of operations whose durations a test compares. A single duration is random, because
/// of the jitter.
const SAMPLES: i32 = 40;

/// The most time that the attempts of an operation take, without its backoffs.
const SLACK: Duration = Duration::from_millis(20);

const MS: Duration = Duration::from_millis(1);

fn overload(command: &str, code: i32) -> Document {
    doc! {
        "failCommands": [command], "errorCode": code, "appName": "adaptive",
        "errorLabels": ["RetryableError", "SystemOverloadedError"],
    }
}

/// Creates a client whose commands the fail points of these tests affect.
fn client(scene: &Scene, options: &str) -> Watched {
    scene.client(&format!("appname=adaptive&{options}"))
}

/// Returns the times at which the attempts of this command started.
fn attempts(watched: &Watched, command: &str) -> Vec<Instant> {
    let name = format!("{command} started");
    watched
        .events
        .times(|event| command_name(event).as_deref() == Some(name.as_str()))
}

/// Runs inserts that fail in all attempts. Returns the duration of each insert.
async fn durations(scene: &Scene, watched: &Watched) -> Vec<Duration> {
    let mut durations = Vec::new();
    for id in 0..SAMPLES {
        let started = scene.now();
        let error = watched.insert(id).await.expect_err("it is overloaded");
        assert!(error.has_label(&Label::SystemOverloadedError), "{error:?}");
        durations.push(scene.now().saturating_since(started));
    }
    durations
}

/// Asserts that the shortest duration is less than a third of `longest`, that the longest one is
/// between two thirds of `longest` and `longest` plus [`SLACK`], and that the average is between
/// one third and two thirds of `longest`.
fn assert_jitter(durations: &[Duration], longest: Duration) {
    let (least, most) = (durations.iter().min(), durations.iter().max());
    let (least, most) = (*least.expect("some"), *most.expect("some"));
    let mean = durations.iter().sum::<Duration>() / SAMPLES.unsigned_abs();
    assert!(most < longest + SLACK, "{most:?}");
    assert!(
        least < longest / 3 && most > longest * 2 / 3,
        "{least:?} {most:?}"
    );
    assert!(mean > longest / 3 && mean < longest * 2 / 3, "{mean:?}");
}

/// An insert has two backoffs, which take up to 0.2 s and 0.4 s, depending on the jitter (BP-P1,
/// "Operation Retry Uses Exponential Backoff").
#[test]
fn retries_after_overload_errors_wait_for_an_exponential_backoff() {
    play([replica_set_of(1)], |scene| async move {
        let watched = client(&scene, "");
        watched.insert(-1).await.expect("a connection");
        scene.fail(0, "alwaysOn", overload("insert", 2)).await;
        let durations = durations(&scene, &watched).await;
        assert_jitter(&durations, 600 * MS);
        assert_eq!(attempts(&watched, "insert").len(), 1 + 3 * SAMPLES as usize);
        scene.clear_fail_point(0).await;
        watched.end().await;
    });
}

/// The server sets half of the default base, so the backoffs take half of the time. When the server
/// sets no base any more, the default holds again (BP-P5, "Overload Errors are Retried with
/// baseBackoffMS from server").
#[test]
fn a_server_can_set_the_base_of_the_overload_backoff() {
    play([replica_set_of(1)], |scene| async move {
        let set = |base: i32| doc! { "setParameter": 1, "externalClientBaseBackoffMS": base };
        scene.tell(0, set(50)).await;
        let watched = client(&scene, "");
        watched.insert(-1).await.expect("a connection");
        scene.fail(0, "alwaysOn", overload("insert", 462)).await;
        assert_jitter(&durations(&scene, &watched).await, 300 * MS);
        scene.tell(0, set(0)).await;
        assert_jitter(&durations(&scene, &watched).await, 600 * MS);
        scene.clear_fail_point(0).await;
        watched.end().await;
    });
}

/// An overloaded operation is retried twice by default (BP-P3, "Overload Errors are Retried a
/// Maximum of MAX_RETRIES times"). The option `maxAdaptiveRetries` sets another number (BP-P4).
#[test]
fn max_adaptive_retries_limits_the_retries_after_overload_errors() {
    play(any_topology(), |scene| async move {
        for (options, expected) in [
            ("", 3),
            ("maxAdaptiveRetries=1", 2),
            ("maxAdaptiveRetries=0", 1),
            ("timeoutMS=60000", 3),
        ] {
            let watched = client(&scene, options);
            scene.fail(0, "alwaysOn", overload("find", 462)).await;
            let error = watched.find().await.expect_err("it is overloaded");
            for label in [Label::SystemOverloadedError, Label::RetryableError] {
                assert!(error.has_label(&label), "{error:?}");
            }
            assert_eq!(attempts(&watched, "find").len(), expected, "{options}");
            scene.clear_fail_point(0).await;
            watched.end().await;
        }
    });
}

/// Returns the members to which `find` commands were sent.
fn find_addresses(watched: &Watched) -> Vec<String> {
    watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, .. }) if &*facts.name == "find" => {
            Some(facts.address.to_string())
        }
        _ => None,
    })
}

/// With `enableOverloadRetargeting` a read is retried on another server after an overload error
/// (RR-P3.1). After another error (RR-P3.2) or without the option (RR-P3.3) the read is retried on
/// the same server.
#[test]
fn enable_overload_retargeting_retries_reads_on_another_server() {
    play([replica_set()], |scene| async move {
        for (options, is_overload, moves) in [
            ("enableOverloadRetargeting=true", true, true),
            ("enableOverloadRetargeting=true", false, false),
            ("enableOverloadRetargeting=false", true, false),
            ("", true, false),
        ] {
            let options = format!("{options}&readPreference=primaryPreferred");
            let watched = client(&scene, &options);
            let servers = || {
                let known = watched.client.topology();
                known.servers.values().all(|s| s.server_type.is_available())
            };
            scene.until("all members", servers).await;
            let mut data = overload("find", 6);
            if !is_overload {
                data.insert("errorLabels", ["RetryableError"].to_vec());
            }
            scene.fail(scene.primary(), doc! { "times": 1 }, data).await;
            let things = watched.things();
            let find = things.find_one(doc! {});
            let preference = ReadPreference::new(ReadMode::PrimaryPreferred);
            find.read_preference(preference)
                .await
                .expect("the retry succeeds");
            let find_addresses = find_addresses(&watched);
            assert_eq!(find_addresses.len(), 2);
            assert_eq!(
                find_addresses[0] != find_addresses[1],
                moves,
                "{options}: {find_addresses:?}"
            );
            watched.end().await;
        }
    });
}

fn failed(command: &'static str) -> impl Fn(&Event) -> bool {
    move |event| command_name(event).is_some_and(|name| name == format!("{command} failed"))
}

/// Runs an operation whose first attempt fails with `first` and whose further attempts fail with
/// `then`. Returns the error of the operation. The server sets a long backoff, so that the second
/// fail point is set before the second attempt.
async fn fail_in_turn<T: Send + 'static>(
    scene: &Scene,
    watched: &Watched,
    [first, then]: [Document; 2],
    operation: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Error {
    let command = first.get_array("failCommands").expect("an array")[0].clone();
    let command: &'static str = match command.as_str() {
        Some("find") => "find",
        _ => "insert",
    };
    let base = doc! { "setParameter": 1, "externalClientBaseBackoffMS": 5_000 };
    scene.tell(0, base).await;
    scene.fail(0, doc! { "times": 1 }, first).await;
    let task = scene.spawn(operation);
    // If an earlier operation got a state change error, the server can be unknown until its next
    // check.
    let until = Duration::from_secs(60);
    let has_failed = || watched.events.count(failed(command)) > 0;
    scene.until_within(until, "a failure", has_failed).await;
    scene.fail(0, "alwaysOn", then).await;
    scene
        .until_within(until, "the end", || task.is_over())
        .await;
    let Err(error) = task.join().await else {
        panic!("it fails in all attempts");
    };
    scene.clear_fail_point(0).await;
    error
}

async fn find_in_turn(scene: &Scene, watched: &Watched, points: [Document; 2]) -> Error {
    let things = watched.things();
    let find = async move { things.find_one(doc! {}).await };
    fail_in_turn(scene, watched, points, find).await
}

async fn insert_in_turn(scene: &Scene, watched: &Watched, points: [Document; 2]) -> Error {
    let things = watched.things();
    let insert = async move { things.insert_one(doc! { "_id": 1 }).await };
    fail_in_turn(scene, watched, points, insert).await
}

/// Returns the data of a fail point for an error that is retryable and no overload error.
fn retryable_error(command: &str, code: i32) -> Document {
    let mut data = overload(command, code);
    data.insert(
        "errorLabels",
        ["RetryableError", "RetryableWriteError"].to_vec(),
    );
    data
}

/// After an overload error `maxAdaptiveRetries` limits the number of all retries, also of those
/// after other errors (RR-P4, RW-P6.4).
#[test]
fn max_adaptive_retries_limits_all_retries_after_a_first_overload_error() {
    play([replica_set_of(1)], |scene| async move {
        for (options, expected) in [("", 3), ("maxAdaptiveRetries=4", 5)] {
            let watched = client(&scene, options);
            let points = [overload("find", 91), retryable_error("find", 91)];
            let error = find_in_turn(&scene, &watched, points).await;
            assert_eq!(error.code(), Some(91));
            assert_eq!(attempts(&watched, "find").len(), expected);
            let points = [overload("insert", 91), retryable_error("insert", 91)];
            insert_in_turn(&scene, &watched, points).await;
            assert_eq!(attempts(&watched, "insert").len(), expected);
            watched.end().await;
        }
    });
}

/// The backoff comes once, after the overload error (RR-P5, RW-P6.5). Code 6 is no state change
/// error, so the server stays known and the second retry begins at once.
#[test]
fn only_the_retry_after_an_overload_error_has_a_backoff() {
    play([replica_set_of(1)], |scene| async move {
        let watched = client(&scene, "");
        let points = [overload("find", 6), retryable_error("find", 6)];
        find_in_turn(&scene, &watched, points).await;
        let points = [overload("insert", 6), retryable_error("insert", 6)];
        insert_in_turn(&scene, &watched, points).await;
        for command in ["find", "insert"] {
            let times = attempts(&watched, command);
            let failures = watched.events.times(failed(command));
            assert_eq!((times.len(), failures.len()), (3, 3), "{command}");
            assert!(times[1].saturating_since(failures[0]) > 5 * MS);
            assert_eq!(times[2], failures[1], "at once");
        }
        watched.end().await;
    });
}

/// The raised error is the last one that does not have the label `NoWritesPerformed` (RW-P6.1,
/// RW-P6.3). If all errors have this label, the first one is raised (RW-P6.2).
#[test]
fn a_retried_write_returns_its_last_error_without_the_no_writes_performed_label() {
    play([replica_set_of(1)], |scene| async move {
        let labelled = |code: i32, wrote_nothing: bool| {
            let mut data = overload("insert", code);
            let labels = [
                "RetryableError",
                "SystemOverloadedError",
                "RetryableWriteError",
            ];
            let nothing = wrote_nothing.then_some("NoWritesPerformed");
            let labels: Vec<&str> = labels.into_iter().chain(nothing).collect();
            data.insert("errorLabels", labels);
            data
        };
        for (points, code, wrote_nothing) in [
            ([labelled(91, false), labelled(10107, false)], 10107, false),
            ([labelled(91, true), labelled(10107, true)], 91, true),
            ([labelled(91, false), labelled(91, true)], 91, false),
        ] {
            let watched = client(&scene, "");
            let error = insert_in_turn(&scene, &watched, points).await;
            assert_eq!(error.code(), Some(code), "{error:?}");
            let label = Label::NoWritesPerformed;
            assert_eq!(error.has_label(&label), wrote_nothing, "{error:?}");
            assert_eq!(attempts(&watched, "insert").len(), 3);
            watched.end().await;
        }
    });
}

/// An operation fails at once, without a backoff, if its time limit would end during the backoff
/// (BP-12). No operation takes longer than its time limit.
#[test]
fn an_operation_fails_at_once_if_its_time_limit_would_end_during_the_backoff() {
    play([replica_set_of(1)], |scene| async move {
        let watched = client(&scene, "");
        watched.insert(1).await.expect("a connection");
        let base = doc! { "setParameter": 1, "externalClientBaseBackoffMS": 5_000 };
        scene.tell(0, base).await;
        scene.fail(0, "alwaysOn", overload("find", 462)).await;
        let limit = 100 * MS;
        let mut early = 0;
        for _ in 0..SAMPLES {
            let started = scene.now();
            let things = watched.things();
            let find = things.find_one(doc! {}).timeout(limit);
            let error = find.await.expect_err("it is overloaded");
            let took = scene.now().saturating_since(started);
            assert!(took <= limit, "{took:?}");
            early += i32::from(error.code() == Some(462) && took < limit / 2);
        }
        // About one backoff in a hundred is shorter than the time limit.
        assert!(early >= SAMPLES * 9 / 10, "{early} ended at once");
        scene.clear_fail_point(0).await;
        watched.end().await;
    });
}
