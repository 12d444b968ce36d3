//! Random tests of the properties that hold for all inputs in any order (section E.6).

use super::{
    MonitorConnectionId, Phase, command, member, options, reset, standalone, timeout, versioned,
};
use crate::{
    address::Address,
    description::{ServerDescription, ServerId},
    error::Error,
    event::SdamEvent,
    hello::HelloAnswer,
    hello::HelloReply,
    random::Seed,
    sdam::{ApplicationError, MIN_HEARTBEAT_FREQUENCY, MonitorTask, Order, Sdam, SdamOptions},
    time::Instant,
};
use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// One input. A `usize` chooses among all connections or servers so far, closed and removed ones
/// included. A `u8` chooses, for example, the reply or the error.
#[derive(Clone, Debug)]
enum Input {
    Pass(u64),
    ToDeadline,
    Connected(usize, u8),
    Reply(usize, u8, bool),
    Failed(usize, bool),
    Handshake(usize, u8),
    Application(usize, u8, u8, u64),
    Waiting(bool),
    Begin,
    Request,
    Close,
}

/// Returns scripts of inputs, in which `Input::Waiting` has this weight.
fn inputs_with(waits: u32) -> impl Strategy<Value = Vec<Input>> {
    let one = prop_oneof![
        3 => (0_u64..12_000).prop_map(Input::Pass),
        // Short durations, because 500 ms lie between two checks.
        2 => (0_u64..700).prop_map(Input::Pass),
        3 => Just(Input::ToDeadline),
        6 => (0_usize..6, 0_u8..9).prop_map(|(c, r)| Input::Connected(c, r)),
        6 => (0_usize..6, 0_u8..9, any::<bool>()).prop_map(|(c, r, m)| Input::Reply(c, r, m)),
        3 => (0_usize..6, any::<bool>()).prop_map(|(c, t)| Input::Failed(c, t)),
        1 => (0_usize..6, 0_u8..9).prop_map(|(s, r)| Input::Handshake(s, r)),
        3 => (0_usize..6, 0_u8..5, 0_u8..3, 0_u64..3)
            .prop_map(|(s, e, p, g)| Input::Application(s, e, p, g)),
        waits => any::<bool>().prop_map(Input::Waiting),
        1 => Just(Input::Begin),
        1 => Just(Input::Request),
    ];
    prop::collection::vec(one, 1..120).prop_flat_map(|script| {
        let length = script.len();
        (Just(script), prop::option::weighted(0.3, 0..length)).prop_map(|(mut script, close)| {
            if let Some(place) = close {
                script.insert(place, Input::Close);
            }
            script
        })
    })
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    inputs_with(1)
}

fn reply(kind: u8) -> RawDocumentBuf {
    match kind {
        0 => standalone(),
        1 => versioned(1),
        2 => versioned(2),
        3 => member(true, "a:1"),
        4 => member(false, "b:1"),
        5 => rawdoc! { "ok": 0, "code": 1 },
        6 => rawdoc! { "ok": 1, "msg": "isdbgrid", "maxWireVersion": 21 },
        7 => rawdoc! {
            "ok": 1, "setName": "rs", "secondary": true, "hosts": ["b:1", "c:1"], "me": "c:1",
            "topologyVersion": { "processId": ObjectId::from_bytes([2; 12]), "counter": 1_i64 },
        },
        _ => rawdoc! {
            "ok": 1, "setName": "rs", "isWritablePrimary": true, "hosts": ["b:1"],
            "setVersion": 2, "maxWireVersion": 21,
        },
    }
}

fn application_error(kind: u8) -> Error {
    match kind {
        0 => reset(),
        1 => timeout(),
        2 => command(91),
        3 => command(10107),
        _ => command(1),
    }
}

/// The end of the last check of a server, which decides when the next check may begin.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LastCheck {
    Never,
    Succeeded(Instant, MonitorConnectionId),
    /// A network error of a known server: the next check may begin at once (MON-66).
    NetworkError(Instant),
    /// Any other failure, or a cancellation: the next check may not begin at once.
    Failed(Instant),
}

/// Feeds a machine with inputs and asserts after each one that its orders are permitted.
struct SdamHarness {
    sdam: Sdam,
    now: Instant,
    log: Vec<String>,
    /// All connections so far, in the order of their opening.
    checks: Vec<MonitorConnectionId>,
    /// The open connections, each with its purpose.
    open: BTreeMap<MonitorConnectionId, MonitorTask>,
    /// All servers so far to which a connection was opened.
    servers: Vec<ServerId>,
    /// The running check of each server: its connection, and true if the check is awaited.
    running: BTreeMap<Address, (u64, bool)>,
    /// How the last check of each server ended, and the time of the server's last immediate retry
    /// since its last successful check.
    ended: BTreeMap<Address, (LastCheck, Option<Instant>)>,
    /// True if the current input can cancel checks. The error in a heartbeat failed event is then
    /// not counted as a network error of the check.
    cancels: bool,
    /// True for each pool that is ready.
    pools: BTreeMap<ServerId, bool>,
    closed: bool,
    silent: bool,
    scanning: bool,
    /// The server descriptions at `version`.
    seen_descriptions: BTreeMap<ServerId, Arc<ServerDescription>>,
    version: u64,
}

impl SdamHarness {
    fn new(options: SdamOptions) -> Self {
        let mut sdam_harness = Self {
            silent: !options.subscribed,
            scanning: options.scanning.is_some(),
            sdam: Sdam::new(options),
            now: Instant::ZERO,
            log: Vec::new(),
            checks: Vec::new(),
            open: BTreeMap::new(),
            servers: Vec::new(),
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            cancels: false,
            pools: BTreeMap::new(),
            closed: false,
            seen_descriptions: BTreeMap::new(),
            version: 0,
        };
        sdam_harness.sdam.start(sdam_harness.now);
        sdam_harness.drain();
        sdam_harness
    }

    fn feed(&mut self, input: &Input) {
        let connection = |n: &usize| {
            self.checks
                .iter()
                .rev()
                .nth(*n)
                .copied()
                .unwrap_or(MonitorConnectionId(99_999))
        };
        let server = |n: &usize| {
            self.servers
                .iter()
                .rev()
                .nth(*n)
                .copied()
                .unwrap_or(ServerId(99_999))
        };
        let round_trip = Duration::from_millis(2);
        self.cancels = matches!(
            input,
            Input::Waiting(_) | Input::Application(..) | Input::Close
        );
        match input {
            Input::Pass(millis) => {
                self.now = self.now + Duration::from_millis(*millis);
                self.sdam.handle_timeout(self.now);
            }
            Input::ToDeadline => {
                self.now = self.sdam.deadline().unwrap_or(self.now).max(self.now);
                self.sdam.handle_timeout(self.now);
            }
            Input::Connected(n, kind) => {
                let answer = HelloAnswer::new(reply(*kind));
                self.sdam
                    .handle_connected(self.now, connection(n), answer, round_trip);
            }
            Input::Reply(n, kind, more) => {
                let answer = HelloAnswer::new(reply(*kind));
                self.sdam
                    .handle_reply(self.now, connection(n), answer, round_trip, *more);
            }
            Input::Failed(n, slow) => {
                let error = if *slow { timeout() } else { reset() };
                self.sdam.handle_failed(self.now, connection(n), error);
            }
            Input::Handshake(n, kind) => {
                self.sdam.handle_application_handshake(
                    self.now,
                    server(n),
                    HelloReply::parse(&reply(*kind)),
                );
            }
            Input::Application(n, kind, phase, age) => {
                let server = server(n);
                let error = ApplicationError {
                    error: application_error(*kind),
                    phase: [Phase::Hello, Phase::Authentication, Phase::Operation]
                        [usize::from(*phase)],
                    is_stale: *age == 1,
                    service: None,
                };
                self.sdam.handle_application_error(self.now, server, &error);
            }
            Input::Begin => {
                self.sdam.wants_scan(self.now);
            }
            Input::Waiting(waiting) => self.sdam.set_waiting(self.now, *waiting),
            Input::Request => self.sdam.request_check(self.now),
            Input::Close => self.sdam.close(self.now),
        }
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(order) = self.sdam.poll_order() {
            self.log.push(format!("{order:?}"));
            assert!(!self.closed, "{order:?} after the end");
            self.check_action(&order);
        }
        self.check_descriptions();
        // A data-bearing server has a ready pool (E.6-3).
        for server in self.sdam.description().servers.values() {
            if server.server_type.is_data_bearing() {
                let id = self.sdam.server_id(&server.address).expect("it has an id");
                assert!(
                    self.pools.get(&id).is_some_and(|ready| *ready),
                    "{server} has no ready pool"
                );
                assert!(
                    server.round_trip_time.is_some(),
                    "{server} was never measured"
                );
            }
        }
        // After each input, the deadline is not in the past.
        assert!(
            self.sdam
                .deadline()
                .is_none_or(|deadline| deadline >= self.now)
        );
        if self.sdam.is_closed() {
            assert!(self.closed || self.silent);
            assert_eq!(self.sdam.deadline(), None);
            assert!(self.open.is_empty() && self.pools.is_empty() && self.running.is_empty());
        }
    }

    /// Asserts that the server descriptions change only together with the version of the topology
    /// description.
    fn check_descriptions(&mut self) {
        let description = self.sdam.description();
        let id = |address| self.sdam.server_id(address).expect("it has an id");
        let all = description.servers.iter();
        let all: BTreeMap<_, _> = all.map(|(a, s)| (id(a), s.clone())).collect();
        if self.version != self.sdam.version() {
            self.version = self.sdam.version();
            self.seen_descriptions.clone_from(&all);
        }
        assert!(self.seen_descriptions.keys().eq(all.keys()));
        let same = |(a, b)| Arc::ptr_eq(a, b);
        assert!(self.seen_descriptions.values().zip(all.values()).all(same));
    }

    fn check_action(&mut self, order: &Order) {
        match order {
            Order::Open {
                connection,
                server,
                task,
                ..
            } => {
                assert!(
                    self.open.insert(*connection, *task).is_none(),
                    "{connection:?} twice"
                );
                assert!(self.checks.last().is_none_or(|last| last < connection));
                self.checks.push(*connection);
                if !self.servers.contains(server) {
                    self.servers.push(*server);
                }
            }
            Order::SendHello { connection, .. } => {
                assert!(
                    self.open.contains_key(connection),
                    "{connection:?} is not open"
                );
            }
            Order::Close { connection } => {
                assert!(
                    self.open.remove(connection).is_some(),
                    "{connection:?} is closed twice"
                );
            }
            Order::CreatePool { server, .. } => {
                assert!(self.pools.insert(*server, false).is_none());
            }
            Order::ReadyPool { server } => {
                *self.pools.get_mut(server).expect("a pool") = true;
            }
            Order::ClearPool { server, .. } => {
                *self.pools.get_mut(server).expect("a pool") = false;
            }
            Order::ClosePool { server } => {
                assert!(self.pools.remove(server).is_some());
            }
            Order::Publish | Order::CheckEnded | Order::ScanEnded => {}
            Order::Emit(event) => self.check_event(event),
        }
    }

    /// Asserts that a check does not begin too early after the last one.
    fn check_pace(&mut self, address: &Address, (number, awaited): (u64, bool)) {
        let ended = self
            .ended
            .entry(address.clone())
            .or_insert((LastCheck::Never, None));
        match ended.0 {
            LastCheck::Never => {}
            // An awaited check uses the connection of the check before it.
            LastCheck::Succeeded(_, connection) if awaited => assert_eq!(connection.0, number),
            LastCheck::NetworkError(at) if at == self.now => {
                // Two immediate retries without a success between them are at least 500 ms apart.
                let retried = ended.1.replace(self.now);
                let is_in_pace = retried.is_none_or(|at| self.now - at >= MIN_HEARTBEAT_FREQUENCY);
                assert!(is_in_pace, "more than one retry of {address}");
            }
            // At least 500 ms lie between the end of a check and the start of the next one
            // (MON-31).
            LastCheck::Succeeded(at, _) | LastCheck::NetworkError(at) | LastCheck::Failed(at) => {
                assert!(
                    self.now - at >= MIN_HEARTBEAT_FREQUENCY,
                    "{address} too early"
                );
            }
        }
    }

    fn check_event(&mut self, event: &SdamEvent) {
        match event {
            SdamEvent::HeartbeatStarted {
                address,
                driver_connection_id,
                awaited,
                ..
            } => {
                let running = (*driver_connection_id, *awaited);
                let other = self.running.insert(address.clone(), running);
                assert_eq!(other, None, "two checks of {address} at once");
                assert!(
                    !self.scanning || (self.running.len() == 1 && !awaited),
                    "a scan asks one server at a time"
                );
                self.check_pace(address, running);
            }
            SdamEvent::HeartbeatSucceeded {
                address,
                driver_connection_id,
                awaited,
                ..
            } => {
                let running = self.running.remove(address);
                assert_eq!(running, Some((*driver_connection_id, *awaited)));
                let last =
                    LastCheck::Succeeded(self.now, MonitorConnectionId(*driver_connection_id));
                self.ended.insert(address.clone(), (last, None));
            }
            SdamEvent::HeartbeatFailed {
                address,
                driver_connection_id,
                awaited,
                failure,
                ..
            } => {
                let running = self.running.remove(address);
                assert_eq!(running, Some((*driver_connection_id, *awaited)));
                let id = self.sdam.server_id(address);
                let known = id.and_then(|id| self.seen_descriptions.get(&id));
                let was_known = known.is_some_and(|server| server.server_type.is_available());
                let is_lost = was_known && failure.is_network() && !self.cancels;
                let ended = self
                    .ended
                    .entry(address.clone())
                    .or_insert((LastCheck::Never, None));
                ended.0 = if is_lost {
                    LastCheck::NetworkError(self.now)
                } else {
                    LastCheck::Failed(self.now)
                };
            }
            // A server that is added again has no earlier check.
            SdamEvent::ServerClosed { address, .. } => {
                assert!(!self.running.contains_key(address));
                self.ended.remove(address);
            }
            SdamEvent::TopologyClosed { .. } => self.closed = true,
            _ => {}
        }
    }
}

fn run(script: &[Input], change: impl Fn(&mut SdamOptions)) -> SdamHarness {
    let mut options = options(&["a:1", "b:1"]);
    change(&mut options);
    let mut sdam_harness = SdamHarness::new(options);
    for input in script {
        sdam_harness.feed(input);
    }
    sdam_harness
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Tests the properties 1, 2, 3 and 5 of section E.6, which the sdam_harness asserts after each
    /// input.
    #[test]
    fn properties_hold_for_any_order_of_inputs(script in inputs(), streaming in any::<bool>()) {
        let mut sdam_harness = run(&script, |options| options.streaming = streaming);
        sdam_harness.feed(&Input::Close);
    }

    /// Tests the same properties for scans, and that equal inputs give equal orders. Between
    /// operations no timer is armed and no check is running.
    #[test]
    fn scan_properties_hold_for_any_order_of_inputs(
        script in prop_oneof![inputs(), inputs_with(8)],
        seed in any::<u8>(),
    ) {
        let scanning = |options: &mut SdamOptions| options.scanning = Some(Seed::new([seed; 32]));
        let mut sdam_harness = run(&script, scanning);
        prop_assert_eq!(&sdam_harness.log, &run(&script, scanning).log);
        sdam_harness.feed(&Input::Waiting(false));
        prop_assert_eq!(sdam_harness.sdam.deadline(), None);
        prop_assert!(sdam_harness.running.is_empty());
        sdam_harness.feed(&Input::Close);
    }

    /// The same inputs give the same orders (E.6-10).
    #[test]
    fn equal_inputs_give_equal_sdam_actions(script in inputs()) {
        let (one, other) = (run(&script, |_| {}), run(&script, |_| {}));
        prop_assert_eq!(one.log, other.log);
    }

    /// Without subscribers the machine gives the same orders, except for the events.
    #[test]
    fn without_subscribers_the_sdam_actions_are_the_same(script in inputs()) {
        let (loud, silent) = (run(&script, |_| {}), run(&script, |o| o.subscribed = false));
        let orders: Vec<_> = loud.log.iter().filter(|a| !a.starts_with("Emit")).collect();
        prop_assert_eq!(orders, silent.log.iter().collect::<Vec<_>>());
    }

    /// A reply of any bytes does not make the parser panic.
    #[test]
    fn random_reply_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut document = vec![0; 4];
        document.extend(bytes);
        document.push(0);
        let length = u32::try_from(document.len()).expect("it is short");
        document[..4].copy_from_slice(&length.to_le_bytes());
        if let Ok(reply) = RawDocumentBuf::from_bytes(document) {
            let _ = HelloReply::parse(&reply);
        }
    }
}
