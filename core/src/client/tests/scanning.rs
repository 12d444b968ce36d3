//! Tests of operations of a client that checks servers on demand: when they wait for a scan, when
//! one scan decides, and when a ping precedes them.

use super::*;
use crate::{
    client::SOCKET_CHECK_INTERVAL,
    error::ErrorKind,
    event::SelectionEvent,
    operation::{OperationId, SessionOptions},
    options::Monitoring,
};
use std::{collections::BTreeMap, time::Duration};

const URI: &str = "mongodb://a/?replicaSet=rs";
const URI_WITHOUT_TRY_ONCE: &str = "mongodb://a/?replicaSet=rs&serverSelectionTryOnce=false\
                       &serverSelectionTimeoutMS=7000";

fn scanning(text: &str, hello: RawDocumentBuf) -> World {
    scanning_for(text, hello, Subscriptions::default())
}

fn scanning_for(text: &str, hello: RawDocumentBuf, subscriptions: Subscriptions) -> World {
    let parsed = uri::parse_for(text, Monitoring::Scanning).expect("a connection string");
    World::with_options(parsed.options, hello, subscriptions)
}

/// Starts an operation that has to wait.
fn waits(world: &mut World, command: Command) -> OperationId {
    let start = world.client.start(world.now, command);
    world.run();
    match start {
        Progress::Waiting(id) => id,
        other => panic!("it does not wait: {other:?}"),
    }
}

/// Returns the error of an operation that waited.
fn failure(world: &mut World, id: OperationId) -> Error {
    match world.client.resume(world.now, id) {
        Progress::Failed(error) => error,
        other => panic!("it has not failed: {other:?}"),
    }
}

/// Returns a world whose client has run one operation. The connection of that operation is idle.
fn warm(text: &str, hello: RawDocumentBuf) -> World {
    let mut world = scanning(text, hello);
    world.perform(ping(), &rawdoc! { "ok": 1 });
    world
}

fn is_unknown(world: &World) -> bool {
    let topology = world.client.topology();
    topology
        .servers
        .values()
        .all(|s| !s.server_type.is_available())
}

#[test]
fn a_single_threaded_client_does_nothing_between_operations() {
    // The first operation starts the first scan (SDAM-35). Scans take place only as a part of
    // operations (MON-24).
    let mut world = scanning(URI, primary());
    assert!(world.dialled.is_empty());
    assert_eq!(world.client.exact_deadline(), None);
    world.perform(ping(), &rawdoc! { "ok": 1 });
    assert_eq!(
        world.dialled.len(),
        2,
        "one to check, one for the operation"
    );
    world.time_out();
    assert_eq!(world.client.exact_deadline(), None);
    let exchange = world.begin_exchange(ping());
    world.time_out();
    assert_eq!(world.client.exact_deadline(), None);
    world.check_in(exchange, Outcome::Abandoned);
}

#[test]
fn an_operation_scans_if_heartbeat_frequency_ms_has_passed() {
    // An operation scans if `heartbeatFrequencyMS` has passed since the last scan (MON-25).
    let mut world = warm(URI, primary());
    let checks = world.dialled[0].0;
    let sent = |world: &World| world.sent.iter().filter(|&&s| s == checks).count();
    assert_eq!(sent(&world), 1);
    world.wait(Duration::from_millis(4_999));
    world.perform(ping(), &rawdoc! { "ok": 1 });
    assert_eq!(sent(&world), 1);
    world.wait(Duration::from_secs(60));
    assert_eq!(sent(&world), 1, "nobody asked");
    let id = waits(&mut world, find());
    assert_eq!(sent(&world), 2);
    assert!(matches!(
        world.client.resume(world.now, id),
        Progress::Exchange(_)
    ));
}

#[test]
fn with_try_once_server_selection_fails_after_one_scan() {
    // With `serverSelectionTryOnce` the first scan decides (SEL-71).
    let mut world = scanning(URI, primary());
    world.is_dead = true;
    let id = waits(&mut world, ping());
    let error = failure(&mut world, id);
    assert!(
        matches!(error.kind(), ErrorKind::ServerSelection { .. }),
        "{error}"
    );
    assert_eq!(world.dialled.len(), 1);
    assert_eq!(world.client.counts().waiting, 0);
    assert_eq!(world.client.exact_deadline(), None);
    // The next operation scans 500 ms after the last scan. The server is in its cooldown then, so
    // the scan skips it.
    let id = waits(&mut world, ping());
    world.wait(Duration::from_millis(499));
    assert_eq!(world.client.counts().waiting, 1);
    world.wait(Duration::from_millis(1));
    failure(&mut world, id);
    assert_eq!(world.dialled.len(), 1);
    world.is_dead = false;
    world.wait(Duration::from_secs(5));
    world.perform(ping(), &rawdoc! { "ok": 1 });
}

#[test]
fn without_try_once_scans_are_repeated_until_the_selection_timeout() {
    // With `serverSelectionTryOnce=false` selection repeats until the timeout (SEL-71). A scan
    // follows 500 ms after the one before (SEL-70, MON-26, SDAM-120).
    let mut world = scanning(URI_WITHOUT_TRY_ONCE, primary());
    world.is_dead = true;
    let id = waits(&mut world, ping());
    for _ in 0..14 {
        assert_eq!(world.client.counts().waiting, 1);
        assert!(matches!(
            world.client.resume(world.now, id),
            Progress::Waiting(_)
        ));
        world.wait(Duration::from_millis(500));
    }
    // The next scan would start after the timeout.
    let error = failure(&mut world, id);
    assert!(
        matches!(error.kind(), ErrorKind::ServerSelection { .. }),
        "{error}"
    );
    // Between its two checks the server had a cooldown of five seconds (MON-23).
    assert_eq!(world.dialled.len(), 2);
    assert_eq!(world.client.exact_deadline(), None);
}

#[test]
fn without_try_once_a_server_that_recovers_is_selected() {
    let mut world = scanning(URI_WITHOUT_TRY_ONCE, primary());
    world.is_dead = true;
    let id = waits(&mut world, ping());
    world.is_dead = false;
    for _ in 0..12 {
        world.wait(Duration::from_millis(500));
    }
    assert!(matches!(
        world.client.resume(world.now, id),
        Progress::Exchange(_)
    ));
}

/// Returns the names of the server selection events since the last call.
fn take_events(world: &mut World) -> Vec<&'static str> {
    let mut reported = Vec::new();
    while let Some(event) = world.client.poll_event() {
        if let EventKind::Selection(event) = event.kind {
            reported.push(match event {
                SelectionEvent::Started { .. } => "started",
                SelectionEvent::Waiting { .. } => "waiting",
                SelectionEvent::Succeeded { .. } => "succeeded",
                SelectionEvent::Failed { .. } => "failed",
            });
        }
    }
    reported
}

#[test]
fn server_selection_emits_its_waiting_event_only_after_no_server_matched() {
    // The waiting event (SEL-61) comes only after a scan without a suitable server.
    let mut world = scanning_for(URI_WITHOUT_TRY_ONCE, primary(), Subscriptions::all());
    world.perform(ping(), &rawdoc! { "ok": 1 });
    assert_eq!(
        take_events(&mut world),
        ["started", "succeeded"],
        "the first scan is no news"
    );
    world.perform(ping(), &rawdoc! { "ok": 0, "code": 13436, "errmsg": "x" });
    take_events(&mut world);
    world.is_dead = true;
    let id = waits(&mut world, ping());
    world.wait(Duration::from_secs(1));
    assert_eq!(take_events(&mut world), ["started", "waiting"]);
    for _ in 0..14 {
        world.wait(Duration::from_millis(500));
    }
    failure(&mut world, id);
    assert_eq!(take_events(&mut world), ["failed"]);
}

#[test]
fn the_time_limit_of_an_operation_ends_its_scan() {
    for text in [URI, URI_WITHOUT_TRY_ONCE] {
        let mut world = scanning(text, primary());
        let mut command = ping();
        command.set_timeout(Some(Duration::from_millis(100)));
        let Progress::Waiting(id) = world.client.start(world.now, command) else {
            panic!("nothing is known yet");
        };
        // The check is not answered.
        while harness::next(&mut world).is_some() {}
        world.now = world.now + Duration::from_millis(100);
        world.time_out();
        world.run();
        failure(&mut world, id);
        // The scan is suspended, because no operation waits for it.
        assert_eq!(world.client.counts().sockets, 0);
        assert_eq!(world.client.exact_deadline(), None);
        world.wait(Duration::from_secs(3600));
        world.perform(ping(), &rawdoc! { "ok": 1 });
    }
}

#[test]
fn cancelling_an_operation_ends_its_scan() {
    let mut world = scanning(URI, primary());
    let Progress::Waiting(id) = world.client.start(world.now, ping()) else {
        panic!("nothing is known yet");
    };
    world.client.cancel(world.now, id);
    assert_eq!(world.client.counts().sockets, 0);
    assert_eq!(world.client.exact_deadline(), None);
}

#[test]
fn a_server_that_is_no_longer_primary_is_checked_before_the_next_operation() {
    // "Not writable primary" and "node is shutting down" errors make the topology stale. Other
    // "node is recovering" errors do not (SDAM-97).
    for (code, scans) in [(10107, true), (91, true), (13436, false)] {
        let mut world = warm(URI, primary());
        world.wait(Duration::from_secs(1));
        let sent = world.sent.len();
        world.perform(ping(), &rawdoc! { "ok": 0, "code": code, "errmsg": "x" });
        assert_eq!(world.sent.len(), sent, "{code}: not at once");
        assert!(is_unknown(&world));
        assert_eq!(world.client.topology.is_stale(), scans, "{code}");
        // In each case the next operation scans: the topology is stale, or no server suits.
        world.perform(ping(), &rawdoc! { "ok": 1 });
        assert!(!is_unknown(&world));
    }
}

#[test]
fn a_lost_connection_leads_to_a_scan_and_a_retry() {
    let mut world = warm(URI, primary());
    world.wait(Duration::from_secs(1));
    let exchange = world.begin_exchange(find());
    let AfterExchange::Again(start) = world.check_in(exchange, reset()) else {
        panic!("it is tried again");
    };
    let mut exchange = world.exchange_of(start);
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))));
}

#[test]
fn a_follow_up_command_of_a_cursor_needs_no_server_selection_and_no_scan() {
    // `getMore` is sent to the server of its cursor without server selection (SEL-2).
    let mut world = warm(URI, primary());
    world.wait(Duration::from_secs(60));
    let sent = world.sent.len();
    let mut command = ping();
    command.set_target("a:27017".parse().expect("an address"));
    let start = world.client.start(world.now, command);
    assert!(matches!(start, Progress::Exchange(_)), "{start:?}");
    assert_eq!(world.sent.len(), sent);
}

#[test]
fn a_follow_up_command_of_a_cursor_scans_if_its_server_is_unknown() {
    // The pool is cleared between two batches (scenario 20). The second batch leads to a scan.
    let mut world = warm(URI, primary());
    let exchange = world.begin_exchange(ping());
    world.check_in(exchange, reset());
    let mut command = ping();
    command.set_target("a:27017".parse().expect("an address"));
    let Progress::Waiting(waiting) = world.client.start(world.now, command) else {
        panic!("its server is in doubt");
    };
    world.run();
    world.wait(Duration::from_millis(500));
    let start = world.client.resume(world.now, waiting);
    world.exchange_of(start);
}

#[test]
fn an_idle_connection_is_pinged_before_it_is_used() {
    // A ping is sent on a connection that was idle for `socketCheckIntervalMS` (SEL-72).
    let mut world = scanning_for(URI, primary(), Subscriptions::all());
    world.perform(ping(), &rawdoc! { "ok": 1 });
    world.wait(
        SOCKET_CHECK_INTERVAL
            .checked_sub(Duration::from_nanos(1))
            .expect("more"),
    );
    let exchange = world.begin_exchange(insert());
    assert!(!exchange.is_preliminary());
    world.check_in(exchange, Outcome::Abandoned);
    let mut exchange = world.begin_exchange(insert());
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    world.wait(SOCKET_CHECK_INTERVAL);

    let Progress::Exchange(mut exchange) = world.client.start(world.now, insert()) else {
        panic!("there is a connection");
    };
    assert!(exchange.is_preliminary());
    exchange.begin(world.now).expect("it fits");
    // The ping is not a command of the application, so it has no events.
    assert!(exchange.poll_event(world.now).is_none());
    let request = World::request(&exchange);
    assert_eq!(request.get_i32("ping").ok(), Some(1));
    assert!(!request.contains_key("lsid"), "{request}");
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
        panic!("the operation follows");
    };
    let mut exchange = world.exchange_of(start);
    assert!(!exchange.is_preliminary());
    assert_eq!(World::request(&exchange).get_str("insert").ok(), Some("c"));
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))));
    assert_eq!(world.client.counts().in_use, 0);
}

#[test]
fn a_preliminary_ping_has_no_part_of_the_session_of_its_operation() {
    // Servers refuse a `ping` with the read concern of a snapshot session.
    let mut world = scanning_for(URI, primary(), Subscriptions::all());
    world.perform(ping(), &rawdoc! { "ok": 1 });
    world.wait(SOCKET_CHECK_INTERVAL);
    let options = SessionOptions::builder().snapshot(true).build();
    let session = world.client.start_session(world.now, &options);
    let session = session.expect("the client is open");
    let mut command = insert();
    command.use_explicit_session(session.id);
    let Progress::Exchange(mut exchange) = world.client.start(world.now, command) else {
        panic!("there is a connection");
    };
    assert!(exchange.is_preliminary());
    exchange.begin(world.now).expect("it fits");
    let request = World::request(&exchange);
    assert!(!request.contains_key("readConcern"), "{request}");
    world.check_in(exchange, Outcome::Abandoned);
}

#[test]
fn a_failed_preliminary_ping_leads_to_another_selection_without_an_error() {
    // A failed ping leads to one more server selection (SEL-72). The ping does not count as an
    // attempt, so an operation that is not retried succeeds too.
    for refusal in [None, Some(rawdoc! { "ok": 0, "code": 1, "errmsg": "no" })] {
        let mut world = warm(URI, primary());
        world.wait(SOCKET_CHECK_INTERVAL);
        let mut exchange = world.begin_exchange(ping());
        assert!(exchange.is_preliminary());
        let outcome = match &refusal {
            None => reset(),
            Some(reply) => {
                World::answer(&mut exchange, reply);
                Outcome::Completed
            }
        };
        let socket = exchange.socket();
        let after = world.client.check_in(world.now, exchange, outcome);
        assert!(is_unknown(&world));
        let AfterExchange::Again(start) = after else {
            panic!("a server is looked for once more: {after:?}");
        };
        let mut exchange = world.exchange_of(start);
        assert!(!exchange.is_preliminary());
        assert_ne!(exchange.socket(), socket);
        assert_eq!(exchange.operation.retry.attempts, 1);
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        let after = world.check_in(exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Ok(()))));
    }
}

#[test]
fn an_unanswered_preliminary_ping_fails_at_the_connect_timeout() {
    let mut world = warm(
        "mongodb://a/?replicaSet=rs&connectTimeoutMS=2000",
        primary(),
    );
    world.wait(SOCKET_CHECK_INTERVAL);
    let exchange = world.begin_exchange(ping());
    world.wait(Duration::from_millis(1_999));
    assert!(world.interrupted.is_empty());
    world.wait(Duration::from_millis(1));
    let (socket, error) = world.interrupted.pop().expect("it is over");
    assert_eq!(socket, exchange.socket());
    let after = world
        .client
        .check_in(world.now, exchange, Outcome::Failed(error));
    assert!(is_unknown(&world));
    assert!(matches!(after, AfterExchange::Again(_)), "{after:?}");
}

#[test]
fn an_operation_that_ends_during_its_preliminary_ping_does_not_change_the_server() {
    let mut world = warm(URI, primary());
    world.wait(SOCKET_CHECK_INTERVAL);
    let exchange = world.begin_exchange(ping());
    let after = world.check_in(exchange, Outcome::Abandoned);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");

    let mut world = warm(URI, primary());
    world.wait(SOCKET_CHECK_INTERVAL);
    let mut command = ping();
    command.set_timeout(Some(Duration::from_millis(100)));
    let exchange = world.begin_exchange(command);
    world.wait(Duration::from_millis(100));
    let (_, error) = world.interrupted.pop().expect("its time is over");
    let after = world.check_in(exchange, Outcome::Failed(error));
    let AfterExchange::Done(Err(error)) = after else {
        panic!("its time is over: {after:?}");
    };
    assert!(error.is_timeout(), "{error}");
    assert!(!is_unknown(&world));
    assert_eq!(world.client.counts().in_use, 0);
}

#[test]
fn a_client_with_monitors_sends_no_preliminary_ping() {
    // Only single-threaded clients send a ping on idle connections (SEL-7).
    let mut world = World::new(URI, primary());
    world.perform(ping(), &rawdoc! { "ok": 1 });
    world.wait(Duration::from_secs(3600));
    assert!(!world.begin_exchange(ping()).is_preliminary());
}

#[test]
fn a_single_threaded_client_picks_servers_regardless_of_operation_counts() {
    // A single-threaded client picks a random server of the latency window (SEL-58, SEL-P6).
    let mut world = scanning("mongodb://a,b,c/?maxPoolSize=0", mongos());
    let mut counts: BTreeMap<Address, u32> = BTreeMap::new();
    for _ in 0..300 {
        let exchange = world.begin_exchange(ping());
        *counts.entry(exchange.facts().address.clone()).or_default() += 1;
        // The exchange is never checked in, so its server continues to count the operation.
        std::mem::forget(exchange);
    }
    let (least, most) = (counts.values().min(), counts.values().max());
    assert_eq!(counts.len(), 3);
    assert!(least.is_some_and(|&n| n > 60), "{counts:?}");
    // A choice by operation counts would give nearly equal numbers.
    assert!(
        most.zip(least)
            .is_some_and(|(most, least)| most - least > 5),
        "{counts:?}"
    );
}

#[test]
fn a_single_threaded_client_populates_its_pools_during_operations() {
    // Check outs populate the pool (CMAP-71, CMAP-85), since nothing runs in the background. No
    // operation waits for the population.
    let uri = "mongodb://a/?replicaSet=rs&minPoolSize=3";
    let options = uri::parse_for(uri, Monitoring::Scanning).expect("a URI");
    let mut world = World::with_options(options.options, primary(), Subscriptions::default());
    world.wait(Duration::from_secs(60));
    assert_eq!(world.dialled, [], "nobody asked for anything");
    let exchange = world.begin_exchange(ping());
    let of_exchange = world.dialled.len();
    world.check_in(exchange, Outcome::Abandoned);
    for _ in 0..4 {
        world.wait(Duration::ZERO);
    }
    assert_eq!(world.dialled.len(), of_exchange + 2);
}
