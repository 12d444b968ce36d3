//! Which servers suit an operation, and which of them are near enough.

use super::{Criteria, staleness};
use crate::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    error::Error,
    options::{ReadMode, ReadPreference},
};
use std::{sync::Arc, time::Duration};

type Servers<'a> = Vec<&'a Arc<ServerDescription>>;

/// The servers that suit, by address, whatever their distance (step 3 of SEL-39).
///
/// Servers whose address is in `deprioritized` are left out, unless nothing else suits (SEL-41).
/// The error is a staleness limit that cannot be used here (STALE-6).
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

/// Keeps the servers whose round trip time exceeds the smallest by `local_threshold` at most, both
/// ends included (SEL-57).
pub fn in_window(servers: &mut Vec<&Arc<ServerDescription>>, local_threshold: Duration) {
    // An available server without a measurement yet counts as far away.
    let distance = |s: &ServerDescription| s.round_trip_time.unwrap_or(Duration::MAX);
    let Some(nearest) = servers.iter().map(|s| distance(s)).min() else {
        return;
    };
    let limit = nearest.saturating_add(local_threshold);
    servers.retain(|s| distance(s) <= limit);
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
        // SEL-44
        TopologyType::Unknown => Vec::new(),
        // SEL-45
        TopologyType::Single => {
            servers.retain(|s| s.server_type.is_available());
            servers
        }
        // SEL-49
        TopologyType::Sharded => only(servers, ServerType::Mongos),
        // SEL-46
        TopologyType::LoadBalanced => only(servers, ServerType::LoadBalancer),
        // SEL-47, SEL-48
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
            // SEL-12, SEL-22, SEL-23
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

/// SEL-20, SEL-21
fn retain_tagged(preference: &ReadPreference, candidates: &mut Servers<'_>) {
    if preference.tag_sets().is_empty() {
        return;
    }
    let has = |server: &ServerDescription, set: &crate::description::Tags| {
        set.iter()
            .all(|(name, value)| server.tags.get(name) == Some(value))
    };
    let mut sets = preference.tag_sets().iter();
    match sets.find(|set| candidates.iter().any(|s| has(s, set))) {
        Some(set) => candidates.retain(|s| has(s, set)),
        None => candidates.clear(),
    }
}
