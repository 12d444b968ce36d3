//! Strategies for server descriptions and topology descriptions.

use super::{ADDRESSES, address, addresses};
use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyId, TopologyType},
    error::{Error, NetworkFault},
    time::{Instant, WallTime},
};
use proptest::{collection::vec, prelude::*};
use std::{sync::Arc, time::Duration};

/// Returns a strategy for descriptions of single servers of every type. Each description has the
/// fields of its type: an unknown server has no round trip time and may have an error. Only members
/// of a replica set have a set name.
pub fn server_descriptions() -> impl Strategy<Value = ServerDescription> {
    let types = prop::sample::select(vec![
        ServerType::Unknown,
        ServerType::Standalone,
        ServerType::Mongos,
        ServerType::RsPrimary,
        ServerType::RsSecondary,
        ServerType::RsArbiter,
        ServerType::RsOther,
        ServerType::RsGhost,
        ServerType::PossiblePrimary,
        ServerType::LoadBalancer,
    ]);
    (addresses(), types).prop_flat_map(|(address, kind)| server_of(address, kind))
}

/// Returns a strategy for consistent topology descriptions. For example, a topology of type
/// `Single` has one server, a `ReplicaSetWithPrimary` has one primary, and a `Sharded` topology has
/// only routers and unknown servers.
pub fn topology_descriptions() -> impl Strategy<Value = TopologyDescription> {
    let types = prop::sample::select(vec![
        TopologyType::Unknown,
        TopologyType::Single,
        TopologyType::Sharded,
        TopologyType::ReplicaSetNoPrimary,
        TopologyType::ReplicaSetWithPrimary,
        TopologyType::LoadBalanced,
    ]);
    (types, 1..=ADDRESSES).prop_flat_map(|(kind, count)| {
        let count = match kind {
            TopologyType::Single | TopologyType::LoadBalanced => 1,
            _ => count,
        };
        let servers: Vec<_> = (0..count).map(|i| server_in(kind, i)).collect();
        servers.prop_map(move |servers| topology_of(kind, servers))
    })
}

fn topology_of(kind: TopologyType, servers: Vec<ServerDescription>) -> TopologyDescription {
    let mut topology = TopologyDescription::unknown(TopologyId(ObjectId::from_bytes([1; 12])));
    topology.topology_type = kind;
    topology.set_name = kind.is_replica_set().then(|| "rs".to_owned());
    let holding = servers.iter().filter(|s| s.server_type.is_data_bearing());
    let minutes: Option<Vec<i64>> = holding.map(|s| s.logical_session_timeout_minutes).collect();
    topology.logical_session_timeout_minutes =
        minutes.and_then(|m| m.into_iter().filter(|&m| m > 0).min());
    if let Some(primary) = servers
        .iter()
        .find(|s| s.server_type == ServerType::RsPrimary)
    {
        topology.max_election_id = primary.election_id;
        topology.max_set_version = primary.set_version;
    }
    topology.servers = servers
        .into_iter()
        .map(|server| (server.address.clone(), Arc::new(server)))
        .collect();
    topology
}

/// Returns a strategy for the server number `index` of a topology of the given type.
fn server_in(kind: TopologyType, index: usize) -> BoxedStrategy<ServerDescription> {
    let types = match kind {
        TopologyType::Unknown => vec![ServerType::Unknown, ServerType::RsGhost],
        TopologyType::Single => vec![
            ServerType::Unknown,
            ServerType::Standalone,
            ServerType::Mongos,
            ServerType::RsPrimary,
            ServerType::RsSecondary,
            ServerType::RsArbiter,
            ServerType::RsOther,
            ServerType::RsGhost,
        ],
        TopologyType::Sharded => vec![ServerType::Unknown, ServerType::Mongos],
        TopologyType::LoadBalanced => vec![ServerType::LoadBalancer],
        TopologyType::ReplicaSetWithPrimary if index == 0 => vec![ServerType::RsPrimary],
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => vec![
            ServerType::Unknown,
            ServerType::RsSecondary,
            ServerType::RsArbiter,
            ServerType::RsOther,
            ServerType::RsGhost,
        ],
    };
    prop::sample::select(types)
        .prop_flat_map(move |kind| server_of(address(index), kind))
        .boxed()
}

fn server_of(address: Address, kind: ServerType) -> BoxedStrategy<ServerDescription> {
    let base = ServerDescription {
        server_type: kind,
        ..ServerDescription::unknown(address)
    };
    match kind {
        ServerType::Unknown | ServerType::PossiblePrimary => {
            let failed = prop::bool::weighted(0.5);
            failed
                .prop_map(move |failed| lost(base.clone(), failed))
                .boxed()
        }
        // In load-balanced mode, no other field of the server description is set (SDAM-111).
        ServerType::LoadBalancer => Just(base).boxed(),
        _ => answered()
            .prop_map(move |facts| facts.fill(base.clone()))
            .boxed(),
    }
}

fn lost(mut server: ServerDescription, failed: bool) -> ServerDescription {
    server.error = failed.then(|| Error::network(NetworkFault::Refused, "nobody listens"));
    server
}

/// The fields of a server description that come from a successful check.
#[derive(Clone, Debug)]
struct Answered {
    round_trip: Duration,
    updated: Instant,
    written: WallTime,
    wire_version: i32,
    minutes: Option<i64>,
    tags: Vec<(&'static str, &'static str)>,
    term: u8,
    set_version: i64,
}

fn answered() -> impl Strategy<Value = Answered> {
    let tag = (
        prop::sample::select(vec!["dc", "rack"]),
        prop::sample::select(vec!["east", "west", "1", "2"]),
    );
    (
        (1_u64..200).prop_map(Duration::from_millis),
        (0_u64..100_000).prop_map(|ms| Instant::ZERO + Duration::from_millis(ms)),
        (0_u64..200_000).prop_map(WallTime::from_unix_millis),
        8..=29_i32,
        prop::option::weighted(0.9, 1_i64..60),
        vec(tag, 0..3),
        1_u8..9,
        1_i64..9,
    )
        .prop_map(
            |(round_trip, updated, written, wire_version, minutes, tags, term, set_version)| {
                Answered {
                    round_trip,
                    updated,
                    written,
                    wire_version,
                    minutes,
                    tags,
                    term,
                    set_version,
                }
            },
        )
}

impl Answered {
    fn fill(self, mut server: ServerDescription) -> ServerDescription {
        let kind = server.server_type;
        server.round_trip_time = Some(self.round_trip);
        server.min_round_trip_time = self.round_trip / 2;
        server.last_update_time = Some(self.updated);
        server.max_wire_version = self.wire_version;
        if kind.is_data_bearing() {
            server.logical_session_timeout_minutes = self.minutes;
        }
        let is_member = matches!(
            kind,
            ServerType::RsPrimary
                | ServerType::RsSecondary
                | ServerType::RsArbiter
                | ServerType::RsOther
        );
        if !is_member {
            return server;
        }
        server.set_name = Some("rs".to_owned());
        server.set_version = Some(self.set_version);
        server.me = Some(server.address.clone());
        server.hosts = (0..ADDRESSES).map(address).collect();
        if kind == ServerType::RsPrimary {
            server.election_id = Some(ObjectId::from_bytes([self.term; 12]));
        }
        if kind.is_data_bearing() {
            server.last_write_date = Some(self.written);
            let tags = self.tags.into_iter();
            server.tags = tags.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        }
        server
    }
}
