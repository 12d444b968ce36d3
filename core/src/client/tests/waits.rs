//! Tests of operations that wait for a server: when they continue, in which order, and how long
//! they wait.

mod reselection;

use super::{
    World, find,
    harness::{self, Parts, Peer},
    insert, ping, primary,
};
use crate::{
    address::Address,
    client::{AfterExchange, Outcome, Progress},
    connection::SocketId,
    error::{Argument, ErrorKind},
    operation::{Command, Exchange, OperationId},
    options::{ReadMode, ReadPreference},
    time::Instant,
};
use bson::{RawDocumentBuf, rawdoc};
use std::{sync::Arc, time::Duration};

const URI: &str = "mongodb://a,b/?replicaSet=rs&serverSelectionTimeoutMS=2000";

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn member(writable: bool, max_wire_version: i32) -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "isWritablePrimary": writable, "secondary": !writable, "setName": "rs",
        "hosts": ["a:27017", "b:27017"], "maxWireVersion": max_wire_version,
        "logicalSessionTimeoutMinutes": 30,
    }
}

fn secondary() -> RawDocumentBuf {
    member(false, 21)
}

/// A function that returns the hello reply of a host; `None` means no reply.
type HelloReplies<'a> = &'a dyn Fn(&str) -> Option<RawDocumentBuf>;

/// Servers whose replies a test defines by host.
struct ScriptedPeer<'a> {
    world: &'a mut World,
    answers: HelloReplies<'a>,
    woken: Vec<OperationId>,
}

impl Peer for ScriptedPeer<'_> {
    fn parts(&mut self) -> Parts<'_> {
        self.world.parts()
    }

    fn dialled(&mut self, socket: SocketId, address: Address) {
        self.world.dialled(socket, address);
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        let address = self.world.address_of(socket).expect("it was dialled");
        if let Some(hello) = (self.answers)(address.host()) {
            self.respond(socket, &bytes, &hello);
        }
    }

    fn woken(&mut self, operation: OperationId) {
        self.woken.push(operation);
    }
}

impl World {
    /// Returns a world with a new client. Its servers have not replied yet.
    fn without_replies(text: &str) -> Self {
        let mut world = Self::new(text, rawdoc! { "ok": 0 });
        // The client of the constructor is replaced, because its messages do not count.
        let options = crate::uri::parse(text)
            .expect("a connection string")
            .options;
        let seed = crate::random::Seed::new([5; 32]);
        let config = crate::client::ClientConfig::new(options, seed).expect("options");
        world.begin_anew(config);
        world
    }

    /// Carries out actions, and returns the operations that were woken, in order.
    fn run_with_replies(&mut self, answers: HelloReplies<'_>) -> Vec<OperationId> {
        let (world, woken) = (self, Vec::new());
        let mut peer = ScriptedPeer {
            world,
            answers,
            woken,
        };
        harness::drain(&mut peer);
        peer.woken
    }

    fn pass(&mut self, time: Duration, answers: HelloReplies<'_>) -> Vec<OperationId> {
        self.now = self.now + time;
        self.time_out();
        self.run_with_replies(answers)
    }

    fn waits(&mut self, command: Command) -> OperationId {
        match self.client.start(self.now, command) {
            Progress::Waiting(id) => id,
            other => panic!("it need not wait: {other:?}"),
        }
    }

    fn resumed(&mut self, id: OperationId) -> Exchange {
        match self.client.resume(self.now, id) {
            Progress::Exchange(exchange) => exchange,
            other => panic!("it has no connection: {other:?}"),
        }
    }

    fn failed(&mut self, id: OperationId) -> ErrorKind {
        match self.client.resume(self.now, id) {
            Progress::Failed(error) => error.kind().clone(),
            other => panic!("it has not failed: {other:?}"),
        }
    }

    fn finish(&mut self, mut exchange: Exchange) {
        exchange.begin(self.now).expect("it fits");
        Self::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
        let after = self.client.check_in(self.now, exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    }
}

fn no_reply(_: &str) -> Option<RawDocumentBuf> {
    None
}

fn timed(mut command: Command, limit: u64) -> Command {
    command.set_timeout(Some(millis(limit)));
    command
}

fn reads(mode: ReadMode) -> Command {
    let mut command = find();
    command.set_read_preference(Arc::new(ReadPreference::new(mode)));
    command
}

#[test]
fn an_operation_continues_as_soon_as_one_suitable_server_is_known() {
    // An operation continues as soon as a suitable server is known (SEL-36, MON-18, SDAM-124). Here
    // `b` has not replied.
    let mut world = World::without_replies(URI);
    let write = world.waits(insert());
    let preferred = world.waits(reads(ReadMode::PrimaryPreferred));
    let nearest = world.waits(reads(ReadMode::Nearest));
    let only_a = |host: &str| (host == "a").then(secondary);
    assert_eq!(world.run_with_replies(&only_a), [preferred, nearest]);
    // A later operation does not wait for `b` either.
    let exchange = world.resumed(preferred);
    world.finish(exchange);
    let late = world
        .client
        .start(world.now, reads(ReadMode::PrimaryPreferred));
    assert!(matches!(late, Progress::Exchange(_)), "{late:?}");
    assert!(matches!(world.client.resume(world.now, write), Progress::Waiting(id) if id == write));
    // The write waits for the end of the check of `b`. The closure `both` replies only to later
    // requests, and none is sent to `b`.
    let both = |host: &str| Some(member(host == "b", 21));
    assert_eq!(
        world.pass(millis(500), &both),
        [0; 0].map(OperationId),
        "b's check still runs"
    );
    let waiting = world.pass(millis(1499), &both);
    assert_eq!(waiting, [0; 0].map(OperationId));
}

#[test]
fn waiting_operations_resume_in_order_of_arrival() {
    let uri = "mongodb://a/?replicaSet=rs&maxPoolSize=1";
    let mut world = World::without_replies(uri);
    let ids: Vec<OperationId> = (0..20).map(|_| world.waits(insert())).collect();
    let answers = |_: &str| Some(primary());
    let mut order = world.run_with_replies(&answers);
    while let Some(&next) = order.last() {
        let exchange = world.resumed(next);
        // A later operation does not overtake the waiting ones.
        if order.len() < ids.len() {
            let late = world.waits(timed(insert(), 1));
            world.finish(exchange);
            world.client.cancel(world.now, late);
        } else {
            world.finish(exchange);
        }
        let more = world.run_with_replies(&answers);
        if more.is_empty() {
            break;
        }
        order.extend(more);
    }
    assert_eq!(order, ids);
    assert_eq!(world.client.counts().waiting, 0);
}

#[test]
fn the_shorter_of_both_limits_ends_server_selection_and_is_not_renewed_by_checks() {
    // The shorter one of `serverSelectionTimeoutMS` and the time limit applies (SEL-35).
    for (limit, expected) in [
        (None, 2000),
        (Some(700), 700),
        (Some(60_000), 2000),
        (Some(0), 2000),
    ] {
        let mut world = World::without_replies(URI);
        let command = match limit {
            Some(limit) => timed(insert(), limit),
            None => insert(),
        };
        let id = world.waits(command);
        let mut waited = 0;
        while waited < expected {
            assert!(matches!(
                world.client.resume(world.now, id),
                Progress::Waiting(_)
            ));
            world.pass(millis(50), &|_| Some(secondary()));
            waited += 50;
        }
        let kind = world.failed(id);
        assert!(
            matches!(kind, ErrorKind::ServerSelection { .. }),
            "{kind:?}"
        );
    }
}

#[test]
fn the_check_out_is_limited_by_the_remaining_server_selection_timeout() {
    // The check out has what remains of the 2,000 ms of server selection (SEL-35, CMAP-74,
    // CMAP-153), not of the operation's 60,000 ms.
    let mut world = World::without_replies(&format!("{URI}&maxPoolSize=1"));
    let answers = |host: &str| Some(member(host == "a", 21));
    let first = world.waits(insert());
    let second = world.waits(timed(insert(), 60_000));
    let third = world.waits(insert());
    // The servers are dialled and reply when 1,500 ms of the limit are over.
    world.now = world.now + millis(1500);
    world.time_out();
    let woken = world.run_with_replies(&answers);
    assert_eq!(woken, [first]);
    let exchange = world.resumed(first);
    assert_eq!(world.pass(millis(499), &answers), [0; 0].map(OperationId));
    assert_eq!(world.pass(millis(1), &answers), [second]);
    let kind = world.failed(second);
    assert!(
        matches!(kind, ErrorKind::WaitQueueTimeout { .. }),
        "{kind:?}"
    );
    // An operation without a time limit waits for the pool without a limit.
    world.pass(millis(60_000), &answers);
    world.finish(exchange);
    assert_eq!(world.run_with_replies(&answers), [third]);
}

#[test]
fn servers_are_checked_every_500_ms_only_while_operations_wait() {
    // While operations wait, servers are checked every 500 ms (SDAM-119, SEL-43).
    let mut world =
        World::without_replies("mongodb://a/?replicaSet=rs&serverSelectionTimeoutMS=4000");
    let secondary = || {
        rawdoc! {
            "ok": 1, "secondary": true, "setName": "rs", "hosts": ["a:27017"], "maxWireVersion": 21,
        }
    };
    let checks_sent = std::cell::Cell::new(0);
    world.run_with_replies(&|_| Some(secondary()));
    let counted = |_: &str| {
        checks_sent.set(checks_sent.get() + 1);
        Some(secondary())
    };
    world.pass(millis(600), &counted);
    assert_eq!(checks_sent.get(), 0);
    let first = world.waits(insert());
    world.run_with_replies(&counted);
    assert_eq!(checks_sent.get(), 1, "at once");
    world.pass(millis(400), &counted);
    // A later operation does not change the interval.
    let second = world.waits(insert());
    world.run_with_replies(&counted);
    assert_eq!(checks_sent.get(), 1);
    world.pass(millis(100), &counted);
    assert_eq!(checks_sent.get(), 2);
    world.client.cancel(world.now, first);
    world.client.cancel(world.now, second);
    assert_eq!(world.client.counts().waiting, 0);
    for _ in 0..18 {
        world.pass(millis(500), &counted);
    }
    assert_eq!(checks_sent.get(), 2, "nobody waits");
    // During a long check no other check of the server starts.
    world.waits(insert());
    world.run_with_replies(&counted);
    assert_eq!(checks_sent.get(), 3);
    world.pass(millis(500), &no_reply);
    for _ in 0..3 {
        world.pass(millis(500), &counted);
    }
    assert_eq!(checks_sent.get(), 3);
}

#[test]
fn closing_the_client_wakes_waiting_operations_with_an_error() {
    let mut world = World::without_replies(URI);
    let ids = [insert(), find(), ping()].map(|command| world.waits(command));
    world.client.close(world.now);
    assert_eq!(world.run_with_replies(&no_reply), ids);
    for id in ids {
        assert_eq!(world.failed(id), ErrorKind::Shutdown);
    }
    assert_eq!(world.client.deadline(), None);
    let start = world.client.start(world.now, ping());
    assert!(matches!(start, Progress::Failed(error) if *error.kind() == ErrorKind::Shutdown));
    world.now = Instant::MAX;
    world.time_out();
    assert!(world.client.is_terminated());
}

#[test]
fn an_operation_that_failed_before_the_close_returns_its_own_error() {
    let mut world = World::without_replies(URI);
    let id = world.waits(timed(insert(), 100));
    let other = world.waits(insert());
    assert_eq!(world.pass(millis(100), &no_reply), [id]);
    world.client.close(world.now);
    assert_eq!(
        world.run_with_replies(&no_reply),
        [other],
        "nobody is woken twice"
    );
    let kind = world.failed(id);
    assert!(
        matches!(kind, ErrorKind::ServerSelection { .. }),
        "{kind:?}"
    );
    assert_eq!(world.failed(other), ErrorKind::Shutdown);
}

#[test]
fn server_selection_fails_while_the_topology_is_incompatible() {
    // Selection fails while the topology is incompatible (SEL-40, SEL trap 10). The client itself
    // remains (SDAM-34) and recovers when the server is compatible (SDAM-61).
    let mut world = World::without_replies("mongodb://a/?replicaSet=rs");
    let id = world.waits(insert());
    assert_eq!(world.run_with_replies(&|_| Some(member(true, 7))), [id]);
    let kind = world.failed(id);
    assert!(
        matches!(kind, ErrorKind::IncompatibleServer { .. }),
        "{kind:?}"
    );
    let start = world.client.start(world.now, ping());
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    world.pass(millis(10_000), &|_| Some(member(true, 21)));
    let start = world.client.start(world.now, ping());
    assert!(!matches!(start, Progress::Failed(_)), "{start:?}");
}

#[test]
fn a_too_small_max_staleness_fails_once_a_replica_set_is_found() {
    // A `maxStalenessSeconds` that is too small is an error with a replica set (STALE-6), and not a
    // reason to wait (STALE trap 2).
    let mut world = World::without_replies("mongodb://a,b/");
    let preference = ReadPreference::new(ReadMode::Secondary);
    let preference = preference
        .with_max_staleness(Duration::from_secs(1))
        .expect("legal");
    let mut command = find();
    command.set_read_preference(Arc::new(preference));
    let id = world.waits(command);
    let ghost = rawdoc! { "ok": 1, "isreplicaset": true, "maxWireVersion": 21 };
    let answers = |host: &str| {
        Some(if host == "a" {
            ghost.clone()
        } else {
            secondary()
        })
    };
    assert_eq!(world.run_with_replies(&answers), [id]);
    let kind = world.failed(id);
    assert!(
        matches!(
            kind,
            ErrorKind::InvalidArgument {
                argument: Argument::Option(_),
                ..
            }
        ),
        "{kind:?}"
    );
}

#[test]
fn no_client_deadline_is_due_at_instant_max() {
    let uri = "mongodb://a/?replicaSet=rs&minPoolSize=2&maxIdleTimeMS=1000&timeoutMS=5000";
    let mut world = World::without_replies(uri);
    world.run_with_replies(&|_| Some(primary()));
    let exchange = world.client.start(world.now, insert());
    assert!(!matches!(exchange, Progress::Failed(_)));
    world.run_with_replies(&|_| Some(primary()));
    world.now = Instant::MAX;
    world.time_out();
    world.run_with_replies(&|_| Some(primary()));
    let late = world.client.start(world.now, find());
    world.run_with_replies(&no_reply);
    world.time_out();
    assert!(
        world.client.deadline().is_none_or(|at| at > world.now),
        "{late:?}"
    );
}

#[test]
fn a_client_works_with_the_largest_option_durations() {
    // The options have their longest values, for example `heartbeatFrequencyMS` (SDAM-31),
    // `localThresholdMS` (SEL-3) and `serverSelectionTimeoutMS` (SEL-4). In a connection string
    // these three can have at most the largest int32.
    let (most, none) = (Duration::MAX, Duration::ZERO);
    for (longest, threshold) in [(millis(2_147_483_647), none), (most, most), (most, none)] {
        let mut world = World::without_replies(URI);
        let mut options = crate::uri::parse(URI).expect("a connection string").options;
        options.heartbeat_freq = Some(longest);
        options.server_selection_timeout = Some(longest);
        options.local_threshold = Some(threshold);
        options.connect_timeout = Some(longest);
        options.socket_timeout = Some(longest);
        options.timeout = Some(longest);
        options.max_idle_time = Some(longest);
        let seed = crate::random::Seed::new([5; 32]);
        let config = crate::client::ClientConfig::new(options, seed).expect("options");
        world.begin_anew(config);
        let write = world.waits(insert());
        let answers = |host: &str| Some(member(host == "a", 21));
        assert_eq!(world.run_with_replies(&answers), [write]);
        let exchange = world.resumed(write);
        // The next write meets a network error, and its retry waits for a server. While it waits,
        // servers are checked every 500 ms, however long `heartbeatFrequencyMS` is.
        world.finish(exchange);
        world.pass(millis(1), &answers);
        let after = world.client.start(world.now, insert());
        let Progress::Exchange(exchange) = after else {
            panic!("it need not wait: {after:?}");
        };
        let after = world.client.check_in(world.now, exchange, super::reset());
        let AfterExchange::Again(Progress::Waiting(id)) = after else {
            panic!("no primary is left: {after:?}");
        };
        let mut woken = world.run_with_replies(&answers);
        for _ in 0..4 {
            woken.extend(world.pass(millis(500), &answers));
        }
        assert_eq!(woken, [id]);
        let exchange = world.resumed(id);
        world.finish(exchange);
        world.client.close(world.now);
        world.run_with_replies(&answers);
        assert!(world.client.is_terminated());
    }
}

#[test]
fn the_client_dials_the_addresses_that_the_replica_set_names() {
    // The client dials the addresses in the member lists of the hello reply, not its `me`
    // (SDAM-17).
    let mut world = World::without_replies("mongodb://A/?replicaSet=rs");
    let mut reply = primary();
    reply.append(
        bson::cstr!("passives"),
        bson::RawArrayBuf::from_iter(["C:1"]),
    );
    world.run_with_replies(&|_| Some(reply.clone()));
    let mut dialled: Vec<&Address> = world.dialled.iter().map(|(_, address)| address).collect();
    dialled.dedup();
    assert_eq!(dialled, [&Address::tcp("a", 27017), &Address::tcp("c", 1)]);
}
