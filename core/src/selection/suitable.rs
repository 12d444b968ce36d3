//! The suitable servers for an operation, and those of them in the latency window.

use super::{Criteria, staleness};
use crate::{
    address::Address,
    description::{ServerDescription, ServerType, Tags, TopologyDescription, TopologyType},
    error::Error,
    options::{ReadMode, ReadPreference},
};
use std::{sync::Arc, time::Duration};

type Servers<'a> = Vec<&'a Arc<ServerDescription>>;

/// Returns the suitable servers, sorted by address, before the latency window ([SEL-39]).
///
/// Servers in `deprioritized` are returned only if no other server is suitable. Fails if the
/// maximum staleness is too small ([SEL-41], [SEL-42], [STALE-6]).
///
/// [SEL-39]: crate::requirements::server_selection#SEL-39
/// [SEL-41]: crate::requirements::server_selection#SEL-41
/// [SEL-42]: crate::requirements::server_selection#SEL-42
/// [STALE-6]: crate::requirements::server_selection#STALE-6
pub fn suitable<'a>(
    description: &'a TopologyDescription,
    criteria: &Criteria,
    heartbeat_frequency: Duration,
    deprioritized: &[Address],
) -> Result<Vec<&'a Arc<ServerDescription>>, Error> {
    let preference = criteria.read_preference(description);
    if let Some(preference) = preference {
        staleness::validate(description, preference, heartbeat_frequency)?;
    }
    let find = |excluded: &[Address]| {
        let servers: Servers<'a> = description.servers.values().collect();
        let servers = servers
            .into_iter()
            .filter(|s| !excluded.contains(&s.address))
            .collect();
        by_topology(description, servers, preference, heartbeat_frequency)
    };
    let found = find(deprioritized);
    if found.is_empty() && !deprioritized.is_empty() {
        return Ok(find(&[]));
    }
    Ok(found)
}

/// Keeps the servers in the latency window: those whose average round trip time is at most the
/// smallest one plus `local_threshold` ([SEL-57]).
///
/// [SEL-57]: crate::requirements::server_selection#SEL-57
pub fn in_window(servers: &mut Vec<&Arc<ServerDescription>>, local_threshold: Duration) {
    let Some(nearest) = servers.iter().map(|s| distance(s)).min() else {
        return;
    };
    let limit = nearest.saturating_add(local_threshold);
    servers.retain(|s| distance(s) <= limit);
}

/// Returns the average round trip time of a server; the largest duration before the first sample.
pub(super) fn distance(server: &ServerDescription) -> Duration {
    server.round_trip_time.unwrap_or(Duration::MAX)
}

/// Returns the rank by which a server suits, without regard to other servers. The servers with the
/// lowest rank are those that [`suitable`] returns. `None` for a server that is not suitable.
///
/// The criteria must not depend on other servers: they have no maximum staleness and are not those
/// of an aggregation that writes.
pub(super) fn rank(
    description: &TopologyDescription,
    server: &ServerDescription,
    criteria: &Criteria,
) -> Option<u32> {
    let is = |wanted: ServerType| (server.server_type == wanted).then_some(0);
    match description.topology_type {
        TopologyType::Unknown => None,
        TopologyType::Single => server.server_type.is_available().then_some(0),
        TopologyType::Sharded => is(ServerType::Mongos),
        TopologyType::LoadBalanced => is(ServerType::LoadBalancer),
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => {
            let Some(preference) = criteria.read_preference(description) else {
                return is(ServerType::RsPrimary);
            };
            // The first tag set that matches any server decides (SEL-21). So the rank of a server
            // is the index of the first tag set that matches it.
            let sets = preference.tag_sets();
            let tagged = || match sets {
                [] => Some(0),
                _ => sets.iter().position(|set| has_tags(server, set)),
            };
            let tagged = || tagged().and_then(|at| u32::try_from(at).ok());
            match (preference.mode(), server.server_type) {
                (ReadMode::Primary | ReadMode::PrimaryPreferred, ServerType::RsPrimary) => Some(0),
                (ReadMode::PrimaryPreferred, ServerType::RsSecondary) => Some(1 + tagged()?),
                (
                    ReadMode::Secondary | ReadMode::SecondaryPreferred | ReadMode::Nearest,
                    ServerType::RsSecondary,
                )
                | (ReadMode::Nearest, ServerType::RsPrimary) => tagged(),
                (ReadMode::SecondaryPreferred, ServerType::RsPrimary) => Some(u32::MAX),
                _ => None,
            }
        }
    }
}

fn by_topology<'a>(
    description: &'a TopologyDescription,
    mut servers: Servers<'a>,
    preference: Option<&ReadPreference>,
    heartbeat_frequency: Duration,
) -> Servers<'a> {
    let only = |mut servers: Servers<'a>, wanted: ServerType| {
        servers.retain(|s| s.server_type == wanted);
        servers
    };
    match description.topology_type {
        // No server is suitable (SEL-44).
        TopologyType::Unknown => Vec::new(),
        // The one server is suitable if it is available (SEL-45).
        TopologyType::Single => {
            servers.retain(|s| s.server_type.is_available());
            servers
        }
        // Each mongos is suitable (SEL-49).
        TopologyType::Sharded => only(servers, ServerType::Mongos),
        // The load balancer is suitable (SEL-46).
        TopologyType::LoadBalanced => only(servers, ServerType::LoadBalancer),
        // Reads follow the same rules with and without a primary (SEL-47). Only a primary is
        // suitable for writes (SEL-48).
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => {
            let Some(preference) = preference else {
                return only(servers, ServerType::RsPrimary);
            };
            let eligible = |mut candidates: Servers<'a>| {
                staleness::retain_fresh(
                    description,
                    preference,
                    heartbeat_frequency,
                    &mut candidates,
                );
                retain_tagged(preference, &mut candidates);
                candidates
            };
            let or_else = |first: Servers<'a>, second: &dyn Fn() -> Servers<'a>| {
                if first.is_empty() { second() } else { first }
            };
            let primary = || only(servers.clone(), ServerType::RsPrimary);
            let secondaries = || eligible(only(servers.clone(), ServerType::RsSecondary));
            // The mode selects among primary and secondaries (SEL-12, SEL-13). Staleness comes
            // before tags (SEL-22), and neither restricts the primary except in mode nearest
            // (SEL-23).
            match preference.mode() {
                ReadMode::Primary => primary(),
                ReadMode::PrimaryPreferred => or_else(primary(), &secondaries),
                ReadMode::Secondary => secondaries(),
                ReadMode::SecondaryPreferred => or_else(secondaries(), &primary),
                ReadMode::Nearest => {
                    let member = [ServerType::RsPrimary, ServerType::RsSecondary];
                    servers.retain(|s| member.contains(&s.server_type));
                    eligible(servers)
                }
            }
        }
    }
}

/// Keeps the candidates that match the first tag set that matches any of them (SEL-21).
fn retain_tagged(preference: &ReadPreference, candidates: &mut Servers<'_>) {
    if preference.tag_sets().is_empty() {
        return;
    }
    let mut sets = preference.tag_sets().iter();
    match sets.find(|set| candidates.iter().any(|s| has_tags(s, set))) {
        Some(set) => candidates.retain(|s| has_tags(s, set)),
        None => candidates.clear(),
    }
}

/// True if the server has all names and values of the tag set (SEL-20).
fn has_tags(server: &ServerDescription, set: &Tags) -> bool {
    set.iter()
        .all(|(name, value)| server.tags.get(name) == Some(value))
}
