//! Topologies that open, change their primary, and close: the official test files
//! `unified/*-emit-topology-changed-before-close` and `unified/rediscover-quickly-after-step-down`,
//! and a shutdown while an operation is not polled.

use crate::{
    event_log::{command_name, pool_cleared, topology_changed, topology_event},
    scene::{Scene, play, replica_set, sharded, standalone},
};
use bson::{Document, doc};
use onionskin::{Collection, options::WriteConcern};
use onionskin_core::{
    address::Address,
    description::TopologyId,
    description::TopologyType::{
        self, LoadBalanced, ReplicaSetNoPrimary, ReplicaSetWithPrimary, Sharded, Single, Unknown,
    },
    event::{Event, EventKind, SdamEvent},
    time::Instant,
    unstable::sdam::{Order, Sdam, SdamOptions},
};
use onionskin_worlds::world::SimRuntime;
use std::{
    future::{Future, IntoFuture, poll_fn},
    task::Poll,
    time::Duration,
};

type TopologyEvent = (&'static str, TopologyType, TopologyType);

/// Returns the topology events of a client that runs no operation and closes after this number of
/// changes of its topology description.
async fn topology_events(scene: Scene, options: &str, changes: usize) -> Vec<TopologyEvent> {
    let watched = scene.client(options);
    watched.wait_for(changes, "changes", topology_changed).await;
    let events = watched.events.clone();
    watched.end().await;
    let ends = |event: &Event| {
        matches!(
            &event.kind,
            EventKind::Sdam(SdamEvent::ServerClosed { .. } | SdamEvent::TopologyClosed { .. })
        )
    };
    assert!(events.count(ends) >= 2, "{:#?}", events.names());
    events.notes(topology_event)
}

/// Official test file `standalone-emit-topology-changed-before-close`. The topology becomes
/// `Unknown` before it closes (SDAM-36, EVT-39).
#[test]
fn a_standalones_topology_is_unknown_before_it_is_closed() {
    play([standalone()], |scene| async move {
        let expected = [
            ("opening", Unknown, Unknown),
            ("changed", Unknown, Unknown),
            ("changed", Unknown, Single),
            ("changed", Single, Unknown),
            ("closed", Unknown, Unknown),
        ];
        assert_eq!(topology_events(scene, "", 2).await, expected);
    });
}

/// Official test file `replicaset-emit-topology-changed-before-close`: the topology of a replica
/// set becomes `Unknown` before it closes.
#[test]
fn a_replica_sets_topology_is_unknown_before_it_is_closed() {
    play([replica_set()], |scene| async move {
        let topology_events = topology_events(scene, "", 4).await;
        // The order in which the members reply is random.
        let no_primary = ReplicaSetNoPrimary;
        assert_eq!(topology_events[0], ("opening", Unknown, Unknown));
        assert_eq!(topology_events[1], ("changed", Unknown, no_primary));
        assert_eq!(topology_events.len(), 7, "{topology_events:?}");
        assert_eq!(
            topology_events[5],
            ("changed", ReplicaSetWithPrimary, Unknown)
        );
        assert_eq!(topology_events[6], ("closed", Unknown, Unknown));
    });
}

/// Official test file `sharded-emit-topology-changed-before-close`: the topology of a sharded
/// cluster becomes `Unknown` before it closes.
#[test]
fn a_sharded_clusters_topology_is_unknown_before_it_is_closed() {
    play([sharded()], |scene| async move {
        let expected = [
            ("opening", Unknown, Unknown),
            ("changed", Unknown, Unknown),
            ("changed", Unknown, Sharded),
            ("changed", Sharded, Sharded),
            ("changed", Sharded, Unknown),
            ("closed", Unknown, Unknown),
        ];
        assert_eq!(topology_events(scene, "", 3).await, expected);
    });
}

/// Official test file `loadbalanced-emit-topology-changed-before-close`: behind a load balancer,
/// the topology becomes `Unknown` before it closes (EVT-36). The test needs no server, because the
/// discovery machine checks none behind a load balancer.
#[test]
fn a_load_balancers_topology_is_unknown_before_it_is_closed() {
    let id = TopologyId(bson::oid::ObjectId::from_bytes([7; 12]));
    let mut options = SdamOptions::new(id, vec![Address::tcp("balancer", 27017)]);
    options.load_balanced = true;
    options.subscribed = true;
    let mut sdam = Sdam::new(options);
    let mut topology_events = Vec::new();
    let mut drain = |sdam: &mut Sdam| {
        while let Some(order) = sdam.poll_order() {
            match order {
                Order::Emit(event) => {
                    let event = Event::new(Instant::ZERO, EventKind::Sdam(event));
                    topology_events.extend(topology_event(&event));
                }
                Order::Open { .. } => panic!("nothing is monitored"),
                _ => {}
            }
        }
    };
    sdam.start(Instant::ZERO);
    drain(&mut sdam);
    assert_eq!(sdam.deadline(), None);
    sdam.close(Instant::ZERO);
    drain(&mut sdam);
    let expected = [
        ("opening", Unknown, Unknown),
        ("changed", Unknown, LoadBalanced),
        ("changed", LoadBalanced, LoadBalanced),
        ("changed", LoadBalanced, Unknown),
        ("closed", Unknown, Unknown),
    ];
    assert_eq!(topology_events, expected);
}

/// Official test file `rediscover-quickly-after-step-down`. Streamed replies report the change, so
/// that the next write finds the new primary long before the next check is due.
#[test]
fn a_new_primary_is_found_quickly_after_a_step_down() {
    play([replica_set()], |scene| async move {
        let options = "appname=replSetStepDownTest&heartbeatFrequencyMS=60000\
                       &serverSelectionTimeoutMS=5000&w=majority";
        let watched = scene.client(options);
        watched.insert_many([3, 4]).await.expect("a reply");
        let known = watched.client.topology();
        assert_eq!(known.topology_type, ReplicaSetWithPrimary);
        let primary = known.primary().expect("a primary").address.clone();
        scene.tell(1, doc! { "replSetFreeze": 0 }).await;
        let step_down = doc! {
            "replSetStepDown": 30, "secondaryCatchUpPeriodSecs": 30, "force": false,
        };
        scene.tell(scene.primary(), step_down).await;
        let is_another = || {
            let topology = watched.client.topology();
            topology
                .primary()
                .is_some_and(|found| found.address != primary)
        };
        let patience = Duration::from_secs(15);
        scene
            .until_within(patience, "another primary", is_another)
            .await;
        let insert = watched.things();
        let documents = [5, 6].map(|id| doc! { "_id": id });
        let insert = insert.insert_many(documents);
        let insert = insert.write_concern(WriteConcern::majority());
        insert.await.expect("a reply");
        watched.assert_count(0, "pool cleared", pool_cleared);
        let commands = watched.events.notes(command_name);
        let inserts = ["insert started", "insert succeeded"];
        assert_eq!(commands, [inserts, inserts].concat());
        watched.end().await;
    });
}

/// An operation whose future is kept but not polled, such as the next batch of a cursor in
/// `select!`, does not delay the shutdown of its client for ever.
#[test]
fn shutdown_does_not_wait_forever_for_an_operation_that_is_not_polled() {
    play([standalone()], |scene| async move {
        let watched = scene.client("appname=held");
        watched.insert(1).await.expect("a reply");
        let slow = doc! {
            "failCommands": ["find"], "appName": "held", "blockConnection": true,
            "blockTimeMS": 300,
        };
        scene.fail(0, doc! { "times": 1 }, slow).await;
        let things = watched.things();
        let find = things.find_one(doc! { "_id": 1 });
        let mut find = Box::pin(find.timeout(Duration::from_secs(1)).into_future());
        let polled = poll_fn(|context| Poll::Ready(find.as_mut().poll(context))).await;
        assert!(polled.is_pending(), "it is on its way");
        let start = scene.now();
        watched.client.clone().shutdown().await;
        let took = scene.now().saturating_since(start);
        assert!(took <= Duration::from_secs(13), "{took:?}");
        drop(find);
        watched.end().await;
    });
}

/// A shutdown ends although other tasks go on to use the client, whose sessions they give back
/// meanwhile.
#[test]
fn shutdown_ends_under_steady_load() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        let load = |things: Collection<SimRuntime, Document>| async move {
            while things.find_one(doc! {}).await.is_ok() {}
        };
        let tasks: Vec<_> = (0..20)
            .map(|_| scene.spawn(load(watched.things())))
            .collect();
        scene.pause(100).await;
        let start = scene.now();
        watched.client.clone().shutdown().await;
        let took = scene.now().saturating_since(start);
        assert!(took <= Duration::from_secs(3), "{took:?}");
        for task in tasks {
            task.join().await;
        }
        watched.end().await;
    });
}
