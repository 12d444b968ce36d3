//! Clients behind a load balancer: official tests of `load-balancers/tests`, and other tests.

mod cursors;
mod dropped;
mod services;

use crate::{
    event_log::{heartbeat_started, server_changed, topology_event},
    scene::{balanced, balanced_alone, play, standalone},
};
use bson::{Document, doc, oid::ObjectId};
use onionskin::options::ReadPreference;
use onionskin_core::{
    description::{
        ServerDescription, ServerType,
        TopologyType::{LoadBalanced, Unknown},
    },
    event::{CommandEvent, Event, EventKind, PoolEvent},
    options::ReadMode,
};
use onionskin_worlds::world::runtime::{balancer_address, member_addresses};

/// Returns the `serviceId` in a command started event; `None` for other events.
fn service(event: &Event) -> Option<Option<ObjectId>> {
    match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, .. }) => Some(facts.service),
        _ => None,
    }
}

/// Returns the `serviceId` in a pool cleared event; `None` for other events.
fn cleared(event: &Event) -> Option<Option<ObjectId>> {
    match &event.kind {
        EventKind::Pool(PoolEvent::Cleared { service, .. }) => Some(*service),
        _ => None,
    }
}

/// Official test file `loadbalanced-emit-topology-changed-before-close`: the topology emits its
/// events at the start (LB-16) and at the end (LB-17), and no others (LB-18). The load balancer is
/// never checked (LB-14).
#[test]
fn a_load_balanced_topology_is_known_from_the_start_and_never_checked() {
    play([balanced()], |scene| async move {
        let watched = scene.client("heartbeatFrequencyMS=500");
        scene.pause(2_000).await;
        let known = watched.client.topology();
        let types: Vec<ServerType> = known.servers.values().map(|s| s.server_type).collect();
        assert_eq!(types, [ServerType::LoadBalancer]);
        // The topology type is known from the start (LB-12). The server description has only a type
        // and an address (LB-13), and is always compatible (LB-15).
        assert_eq!(known.topology_type, LoadBalanced);
        assert_eq!(known.compatibility_error, None);
        let server = known.servers.values().next().expect("the balancer");
        let bare = ServerDescription {
            server_type: ServerType::LoadBalancer,
            last_update_time: server.last_update_time,
            ..ServerDescription::unknown(server.address.clone())
        };
        assert!(server.is_same(&bare), "nothing else is known of it");
        watched.insert(1).await.expect("a reply");
        scene.pause(2_000).await;
        let events = watched.events.clone();
        watched.end().await;
        assert_eq!(events.count(heartbeat_started), 0);
        assert_eq!(events.count(server_changed), 1, "{:#?}", events.names());
        let expected = [
            ("opening", Unknown, Unknown),
            ("changed", Unknown, LoadBalanced),
            ("changed", LoadBalanced, LoadBalanced),
            ("changed", LoadBalanced, Unknown),
            ("closed", Unknown, Unknown),
        ];
        assert_eq!(events.notes(topology_event), expected);
    });
}

/// Official test file `event-monitoring`: the events of commands (LB-55) and of pool clears (LB-56)
/// contain the `serviceId`.
#[test]
fn command_and_pool_cleared_events_contain_the_service_id() {
    play([balanced_alone()], |scene| async move {
        let watched = scene.client("retryReads=false");
        watched.insert(1).await.expect("a reply");
        let failure = watched.things().find(doc! { "$or": true }).await.err();
        assert_eq!(failure.and_then(|error| error.code()), Some(2));
        let data = doc! { "failCommands": ["find"], "closeConnection": true };
        scene.fail(0, doc! { "times": 1 }, data).await;
        assert!(watched.find().await.is_err_and(|error| error.is_network()));
        let services = watched.events.notes(service);
        let of_all = services[0].expect("a service");
        assert_eq!(services, [Some(of_all); 3]);
        assert_eq!(watched.events.notes(cleared), [Some(of_all)]);
        watched.end().await;
    });
}

/// Official test file `server-selection`: commands contain the read preference, as commands to a
/// mongos do (LB-24).
#[test]
fn commands_to_a_load_balancer_contain_the_read_preference() {
    play([balanced()], |scene| async move {
        let watched = scene.client("");
        let mode = ReadPreference::new(ReadMode::SecondaryPreferred);
        let things = watched.things();
        let find = things.find(doc! {}).read_preference(mode);
        drop(find.await.expect("a cursor"));
        drop(things);
        let sent: Vec<Document> = watched.events.notes(|event| match &event.kind {
            EventKind::Command(CommandEvent::Started { command, .. }) => {
                Document::try_from(&**command).ok()
            }
            _ => None,
        });
        let preference = sent[0]
            .get_document("$readPreference")
            .expect("one is sent");
        assert_eq!(preference.get_str("mode").ok(), Some("secondaryPreferred"));
        watched.end().await;
    });
}

/// Official test file `non-lb-connection-establishment`: a hello reply without `serviceId` is an
/// error (LB-28).
#[test]
fn load_balanced_mode_refuses_a_hello_reply_without_service_id() {
    play([standalone(), balanced_alone()], |scene| async move {
        let member = member_addresses(1);
        let watched = scene.client_of(&member[0].to_string(), "loadBalanced=true");
        let error = watched.insert(1).await.expect_err("no service");
        let expected = "Driver attempted to initialize in load balancing mode, but the server does \
                    not support this mode.";
        assert!(error.to_string().contains(expected), "{error}");
        watched.end().await;
        let watched = scene.client_of(&member[0].to_string(), "loadBalanced=false");
        watched.insert(1).await.expect("a reply");
        watched.end().await;
    });
}

/// Official test file `lb-connection-establishment`, "operations against load balancers fail if URI
/// contains loadBalanced=false".
#[test]
fn a_client_without_load_balanced_true_fails_behind_a_load_balancer() {
    play([balanced()], |scene| async move {
        let balancer = balancer_address();
        let options = "serverSelectionTimeoutMS=2000&directConnection=true";
        let watched = scene.client_of(&balancer.to_string(), options);
        let error = watched.insert(1).await.expect_err("no server");
        assert!(error.to_string().contains("load balanc"), "{error}");
        watched.end().await;
    });
}
