//! The prose tests of `connection-monitoring-and-pooling.md`, in their order, and other rules about
//! pools that need a whole client.

use crate::{
    event_log::{EventLog, check_out_failed, connection_ready, heartbeat_succeeded, pool_ready},
    scene::{Watched, authenticated, play, replica_set, sharded_alone, standalone},
};
use bson::doc;
use onionskin::{Client, options::ClientOptions};
use onionskin_core::{
    address::Address,
    event::{CheckOutFailure, CloseReason, EventKind, PoolEvent, ReportedPoolOptions},
    random::Seed,
    time::Instant,
    unstable::hello::Environment,
    uri,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// All pool options, each with a value that is not its default.
const ALL_OPTIONS: &str = "maxPoolSize=7&minPoolSize=2&maxIdleTimeMS=90000&maxConnecting=3\
                           &waitQueueTimeoutMS=5000";

fn all_options() -> ReportedPoolOptions {
    ReportedPoolOptions {
        max_pool_size: Some(7),
        min_pool_size: Some(2),
        max_idle_time: Some(Duration::from_secs(90)),
        max_connecting: Some(3),
        wait_queue_timeout: Some(Duration::from_secs(5)),
    }
}

/// Returns the options in the pool created event of each pool.
fn options_of_pools(events: &EventLog) -> Vec<ReportedPoolOptions> {
    events.notes(|event| match &event.kind {
        EventKind::Pool(PoolEvent::Created { options, .. }) => Some(options.clone()),
        _ => None,
    })
}

/// "All ConnectionPoolOptions MUST be specified at the MongoClient level" (CMAP prose 1): the
/// client accepts all pool options (CMAP-5), under names in the style of Rust (CMAP-6).
#[test]
fn pool_options_can_be_set_on_the_client() {
    play([standalone()], |scene| async move {
        let mut options = ClientOptions::default();
        options.hosts = vec![Address::tcp("member0", 27017).into()];
        options.max_pool_size = Some(7);
        options.min_pool_size = Some(2);
        options.max_idle_time = Some(Duration::from_secs(90));
        options.wait_queue_timeout = Some(Duration::from_secs(5));
        options.max_connecting = Some(3);
        let events = EventLog::default();
        let client = Client::builder(scene.runtime.clone(), options)
            .seed(Seed::new([1; 32]))
            .environment(Environment::default())
            .event_listener(events.listener())
            .build()
            .expect("a client");
        let is_ready = || events.count(pool_ready) == 1;
        scene.until("the pool", is_ready).await;
        assert_eq!(options_of_pools(&events), [all_options()]);
        client.shutdown().await;
    });
}

/// "All ConnectionPoolOptions MUST be the same for all pools created by a MongoClient" (CMAP
/// prose 2, CMAP-5).
#[test]
fn all_pools_of_a_client_have_the_same_options() {
    play([replica_set()], |scene| async move {
        let watched = scene.client(ALL_OPTIONS);
        watched.wait_for(3, "pool ready", pool_ready).await;
        assert_eq!(
            options_of_pools(&watched.events),
            [(); 3].map(|()| all_options())
        );
        watched.end().await;
    });
}

/// "All ConnectionPoolOptions MUST be able to be specified via URI" (CMAP prose 3), under their
/// default names (CMAP-7).
#[test]
fn pool_options_can_be_set_in_the_connection_string() {
    let parsed = uri::parse(&format!("mongodb://localhost/?{ALL_OPTIONS}")).expect("a string");
    assert_eq!(parsed.warnings, []);
    assert_eq!(parsed.options.reported_pool_options(), all_options());
    play([standalone(), sharded_alone()], |scene| async move {
        let watched = scene.client(ALL_OPTIONS);
        watched.wait_for(1, "pool ready", pool_ready).await;
        assert_eq!(options_of_pools(&watched.events), [all_options()]);
        watched.end().await;
    });
}

/// "A user MUST be able to subscribe to Connection Monitoring Events" (CMAP prose 4). The listener
/// is a closure (CMAP-4, CMAP-38), and gets each of the eleven events as a value (CMAP-124) with
/// all its fields.
#[test]
fn a_listener_gets_each_pool_event_with_all_fields() {
    play([standalone()], |scene| async move {
        let watched = scene.client("retryWrites=false&maxPoolSize=1&waitQueueTimeoutMS=100");
        watched.insert(1).await.expect("a reply");
        let data = doc! { "failCommands": ["insert"], "closeConnection": true };
        scene.fail(0, doc! { "times": 1 }, data).await;
        watched.insert(2).await.expect_err("no reply");
        let slow = doc! {
            "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 1_000,
        };
        scene.fail(0, doc! { "times": 1 }, slow).await;
        let things = watched.things();
        let slow = scene.spawn(async move { things.insert_one(doc! { "_id": 3 }).await });
        scene.pause(500).await;
        watched
            .insert(4)
            .await
            .expect_err("there is one connection");
        slow.join().await.expect("a reply");
        let events = watched.events.clone();
        watched.end().await;
        let mut reader = PoolReader::new(scene.options.addresses[0].clone());
        for (at, event) in events.notes(|event| match &event.kind {
            EventKind::Pool(pool) => Some((event.at, pool.clone())),
            _ => None,
        }) {
            reader.read(at, &event);
        }
        let reported: Vec<&str> = reader.counts.keys().copied().collect();
        assert_eq!(reported.len(), 11, "{reported:?}");
        assert_eq!((reader.counts["created"], reader.counts["closed"]), (1, 1));
        assert!(reader.starts.is_empty() && reader.checked_out.is_empty());
        let reasons: Vec<CloseReason> = reader.reasons;
        assert_eq!(reasons, [CloseReason::Error, CloseReason::PoolClosed]);
    });
}

/// Checks the events of a pool that has at most one connection at a time, with all their fields.
struct PoolReader {
    address: Address,
    counts: BTreeMap<&'static str, u32>,
    /// The creation times of the connections that are not ready yet.
    created: BTreeMap<u64, Instant>,
    /// The time that the establishment of a connection took, for the check out under way.
    established: Option<Duration>,
    ready: BTreeSet<u64>,
    starts: VecDeque<Instant>,
    checked_out: BTreeSet<u64>,
    reasons: Vec<CloseReason>,
}

impl PoolReader {
    fn new(address: Address) -> Self {
        Self {
            address,
            counts: BTreeMap::new(),
            created: BTreeMap::new(),
            established: None,
            ready: BTreeSet::new(),
            starts: VecDeque::new(),
            checked_out: BTreeSet::new(),
            reasons: Vec::new(),
        }
    }

    fn read(&mut self, at: Instant, event: &PoolEvent) {
        assert_eq!(*event.address(), self.address);
        match event {
            // The event contains only the options that the user set (CMAP-113).
            PoolEvent::Created { options, .. } => {
                let expected = ReportedPoolOptions {
                    max_pool_size: Some(1),
                    wait_queue_timeout: Some(Duration::from_millis(100)),
                    ..ReportedPoolOptions::default()
                };
                assert_eq!(*options, expected);
                self.count("created");
            }
            // The pool became ready (CMAP-114).
            PoolEvent::Ready { .. } => self.count("ready"),
            // There is no load balancer, and no check timed out. So the event has no service, and
            // the clear does not interrupt (CMAP-115).
            PoolEvent::Cleared {
                service,
                interrupt_in_use,
                ..
            } => {
                assert_eq!((*service, *interrupt_in_use), (None, false));
                self.count("cleared");
            }
            // The event comes after the available connections were closed (CMAP-116).
            PoolEvent::Closed { .. } => {
                assert!(self.ready.is_empty(), "{:?}", self.ready);
                self.count("closed");
            }
            other => self.read_connection(at, other),
        }
    }

    fn read_connection(&mut self, at: Instant, event: &PoolEvent) {
        match event {
            // The event has the id of the connection (CMAP-117). The ids start at 1 and grow by 1.
            PoolEvent::ConnectionCreated { connection, .. } => {
                self.count("connection created");
                assert_eq!(*connection, u64::from(self.counts["connection created"]));
                self.created.insert(*connection, at);
            }
            // The duration counts from the creation of the connection (CMAP-118).
            PoolEvent::ConnectionReady {
                connection,
                duration,
                ..
            } => {
                let created = self.created.remove(connection).expect("it was created");
                assert!(!duration.is_zero());
                assert_eq!(*duration, at - created);
                self.established = Some(*duration);
                self.ready.insert(*connection);
                self.count("connection ready");
            }
            // The event has the reason (CMAP-119). One connection broke, and the other one was
            // closed with the pool.
            PoolEvent::ConnectionClosed {
                connection,
                reason,
                error,
                ..
            } => {
                assert!(self.ready.remove(connection), "{connection} was ready");
                assert_eq!(error.is_some(), *reason == CloseReason::Error);
                self.reasons.push(*reason);
                self.count("connection closed");
            }
            other => self.read_check_out(at, other),
        }
    }

    fn read_check_out(&mut self, at: Instant, event: &PoolEvent) {
        match event {
            // A check out starts (CMAP-120).
            PoolEvent::CheckOutStarted { .. } => {
                self.starts.push_back(at);
                self.count("check out started");
            }
            // The duration counts from the start of the check out (CMAP-121), and is
            // `waitQueueTimeoutMS`.
            PoolEvent::CheckOutFailed {
                reason,
                error,
                duration,
                ..
            } => {
                let started = self.starts.pop_front().expect("it started");
                assert_eq!(*reason, CheckOutFailure::Timeout);
                assert!(error.as_ref().is_some_and(onionskin::Error::is_timeout));
                assert_eq!(
                    (*duration, at - started),
                    (Duration::from_millis(100), *duration)
                );
                self.count("check out failed");
            }
            // The duration counts from the start of the check out (CMAP-122), and includes the
            // establishment of the connection (CMAP-125).
            PoolEvent::CheckedOut {
                connection,
                duration,
                ..
            } => {
                let started = self.starts.pop_front().expect("it started");
                assert_eq!(*duration, at - started);
                if let Some(established) = self.established.take() {
                    assert!(established <= *duration);
                }
                assert!(self.ready.contains(connection), "{connection} is ready");
                assert!(self.checked_out.insert(*connection), "{connection} is free");
                self.count("checked out");
            }
            // A connection that was checked out is checked in (CMAP-123).
            PoolEvent::CheckedIn { connection, .. } => {
                assert!(
                    self.checked_out.remove(connection),
                    "{connection} was checked out"
                );
                self.count("checked in");
            }
            other => panic!("{other:?} was read before"),
        }
    }

    fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }
}

/// "If setting up a Connection fails, the ConnectionCheckOutFailedEvent MUST be published with
/// reason connectionError" (CMAP prose 5, CMAP-83, CMAP-121).
#[test]
fn a_check_out_fails_with_connection_error_if_its_connection_setup_fails() {
    for command in ["saslContinue", "isMaster"] {
        play([authenticated(standalone())], |scene| async move {
            let watched = scene.client("retryWrites=false&appname=setUp");
            watched.wait_for(1, "pool ready", pool_ready).await;
            let data = doc! {
                "failCommands": [command], "closeConnection": true, "appName": "setUp",
            };
            scene.fail(0, doc! { "times": 1 }, data).await;
            watched.insert(1).await.expect_err("no connection");
            let reported = watched.events.notes(|event| match &event.kind {
                EventKind::Pool(PoolEvent::CheckOutFailed { reason, error, .. }) => {
                    Some((*reason, error.is_some()))
                }
                EventKind::Pool(PoolEvent::ConnectionClosed { reason, .. }) => {
                    assert_eq!(*reason, CloseReason::Error);
                    None
                }
                _ => None,
            });
            assert_eq!(reported, [(CheckOutFailure::ConnectionError, true)]);
            watched.assert_count(1, "check out failed", check_out_failed);
            watched.end().await;
        });
    }
}

/// Each member has its own pool (CMAP-35). Each pool has `minPoolSize` connections (CMAP-16), which
/// are made in the background, without an operation (CMAP-106).
#[test]
fn every_member_has_its_own_pool_of_min_pool_size_connections() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("minPoolSize=2");
        watched
            .wait_for(6, "connection ready", connection_ready)
            .await;
        scene.pause(1_000).await;
        assert_eq!(ready_connections(&watched), [2, 2, 2]);
        watched.end().await;
    });
}

/// Returns for each server the number of connections that became ready.
fn ready_connections(watched: &Watched) -> Vec<u64> {
    let mut counts = BTreeMap::new();
    for address in watched.events.notes(|event| match &event.kind {
        EventKind::Pool(PoolEvent::ConnectionReady { address, .. }) => Some(address.clone()),
        _ => None,
    }) {
        *counts.entry(address).or_insert(0) += 1;
    }
    counts.into_values().collect()
}

/// Checks do not use the pool, so they continue while its only connection is in use (CMAP-157).
#[test]
fn monitors_do_not_use_connections_of_the_pool() {
    play([standalone(), sharded_alone()], |scene| async move {
        let options = "maxPoolSize=1&serverMonitoringMode=poll&heartbeatFrequencyMS=500";
        let watched = scene.client(&format!("{options}&appname=slow"));
        watched.insert(1).await.expect("a reply");
        let slow = doc! {
            "failCommands": ["find"], "appName": "slow", "blockConnection": true,
            "blockTimeMS": 5_000,
        };
        scene.fail(0, doc! { "times": 1 }, slow).await;
        let things = watched.things();
        let find = scene.spawn(async move { things.find_one(doc! { "_id": 1 }).await });
        let mark = watched.events.mark();
        scene.pause(4_000).await;
        let checks = watched
            .events
            .notes_since(mark, |event| heartbeat_succeeded(event).then_some(()));
        assert!(checks.len() >= 7, "{} checks", checks.len());
        let found = find.join().await.expect("a reply");
        assert!(found.is_some());
        assert_eq!(ready_connections(&watched), [1]);
        watched.end().await;
    });
}
