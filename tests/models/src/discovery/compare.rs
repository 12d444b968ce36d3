//! The comparison of the core's discovery machine with the model.

use super::{ExpectedError, Facts, Mistake, Model, Server};
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    unstable::sdam::{MAX_WIRE_VERSION, MIN_WIRE_VERSION},
};
use std::{collections::BTreeMap, time::Duration};

/// The state of a pool, which follows from the last action of the machine about the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolView {
    /// The pool does not exist.
    None,
    /// The last action created or cleared the pool.
    Paused,
    /// The pool is ready.
    Ready,
}

/// The state of the discovery machine, as far as it is visible from outside.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    /// The published topology description.
    pub topology: &'a TopologyDescription,
    /// The state and the generation of the pool of each server.
    pub pools: BTreeMap<Address, (PoolView, u64)>,
    /// The servers with a check under way, sorted, and whether it waits for an awaited reply.
    pub checking: Vec<(Address, bool)>,
}

impl Model {
    /// Returns the topology type.
    #[must_use]
    pub fn kind(&self) -> TopologyType {
        self.kind
    }

    /// Compares the machine with the model. The error names the first difference. Of a closed model
    /// only the topology type and the servers are compared.
    pub fn agree(&self, machine: &Machine<'_>) -> Result<(), String> {
        let topology = machine.topology;
        same("type of the topology", &topology.topology_type, &self.kind)?;
        let theirs: Vec<&Address> = topology.servers.keys().collect();
        let ours: Vec<&Address> = self.servers.keys().collect();
        same("servers", &theirs, &ours)?;
        if self.closed {
            return Ok(());
        }
        same("set name", &topology.set_name, &self.set_name)?;
        let max = topology.max_election_id.map(|id| id.bytes());
        same("maxElectionId", &max, &self.max_election_id)?;
        same(
            "maxSetVersion",
            &topology.max_set_version,
            &self.max_set_version,
        )?;
        let minutes = topology.logical_session_timeout_minutes;
        same("session timeout", &minutes, &self.session_minutes())?;
        self.agree_on_compatibility(topology)?;
        for (address, server) in &self.servers {
            let theirs = &topology.servers[address];
            self.agree_on_server(theirs, server)
                .map_err(|what| format!("{address}: {what}"))?;
            let pool = machine.pools.get(address).copied();
            let pool = pool.unwrap_or((PoolView::None, 0));
            same("pool", &pool, &(server.pool, server.generation))
                .map_err(|what| format!("{address}: {what}"))?;
        }
        same("running checks", &machine.checking, &self.checking())
    }

    /// Returns the session timeout of the topology: the smallest one of the data-bearing servers,
    /// or `None` if one of them has none or if there is no such server (SDAM-83). Values of zero or
    /// less do not count.
    fn session_minutes(&self) -> Option<i64> {
        let mut smallest: Option<i64> = None;
        for server in self.servers.values() {
            if !server.facts.kind.is_data_bearing() {
                continue;
            }
            match server.facts.session_minutes {
                None if self.makes(Mistake::MissingTimeoutSkipped) => {}
                None => return None,
                Some(..=0) => {}
                Some(minutes) => smallest = Some(smallest.map_or(minutes, |s| s.min(minutes))),
            }
        }
        smallest
    }

    /// Compares `compatibilityError`, which names one of the incompatible servers (SDAM-60).
    fn agree_on_compatibility(&self, topology: &TopologyDescription) -> Result<(), String> {
        let mut blames = Vec::new();
        let swapped = self.makes(Mistake::CompatibilityTextsSwapped);
        for (address, server) in &self.servers {
            let facts = &server.facts;
            let left_out =
                self.makes(Mistake::OnlyDataBearingCompatible) && !facts.kind.is_data_bearing();
            if facts.is_unknown() || facts.kind == ServerType::LoadBalancer || left_out {
                continue;
            }
            let (min, max) = (facts.min_wire, facts.max_wire);
            let (too_new, too_old) = (
                min > i64::from(MAX_WIRE_VERSION),
                max < i64::from(MIN_WIRE_VERSION),
            );
            let at = match address.port() {
                Some(port) => format!("Server at {}:{port}", address.host()),
                None => format!("Server at {address}"),
            };
            if too_new && !swapped || too_old && swapped {
                blames.push(format!(
                    "{at} requires wire version {min}, but this version of "
                ));
            }
            if too_old && !swapped || too_new && swapped {
                blames.push(format!(
                    "{at} reports wire version {max}, but this version of "
                ));
            }
        }
        match &topology.compatibility_error {
            None if blames.is_empty() => Ok(()),
            Some(text) if blames.iter().any(|blame| text.starts_with(blame)) => Ok(()),
            other => Err(format!("compatibility: {other:?}, not one of {blames:?}")),
        }
    }

    fn agree_on_server(&self, theirs: &ServerDescription, ours: &Server) -> Result<(), String> {
        let facts = &ours.facts;
        let error = theirs.error.as_ref().map(ToString::to_string);
        let agreed = match &facts.error {
            ExpectedError::Any => true,
            ExpectedError::None => error.is_none(),
            ExpectedError::Text(part) => error.as_ref().is_some_and(|text| text.contains(part)),
        };
        if !agreed {
            return Err(format!("error {error:?} instead of {:?}", facts.error));
        }
        same("type", &known(theirs.server_type), &known(facts.kind))?;
        same("topologyVersion", &theirs.topology_version, &facts.version)?;
        let wire = (
            i64::from(theirs.min_wire_version),
            i64::from(theirs.max_wire_version),
        );
        same("wire versions", &wire, &(facts.min_wire, facts.max_wire))?;
        same("me", &theirs.me, &facts.me)?;
        agree_on_lists(theirs, facts)?;
        same("setName", &theirs.set_name, &facts.set_name)?;
        let election_id = theirs.election_id.map(|id| id.bytes());
        same("electionId", &election_id, &facts.election_id)?;
        same("setVersion", &theirs.set_version, &facts.set_version)?;
        same("primary", &theirs.primary, &facts.primary)?;
        let minutes = theirs.logical_session_timeout_minutes;
        same("session timeout", &minutes, &facts.session_minutes)?;
        let date = theirs.last_write_date.map(|d| d.as_unix_millis());
        let ours_date = facts.last_write.and_then(|d| u64::try_from(d).ok());
        same("lastWriteDate", &date, &ours_date)?;
        same("iscryptd", &theirs.is_cryptd, &facts.cryptd)?;
        self.agree_on_round_trips(theirs, ours)
    }

    /// Compares the average (MON-51) and the minimum (MON-49) of the round trip time, which an
    /// unknown server lacks (SDAM-49). Compares nothing behind a load balancer. With streaming, a
    /// separate task measures the times, which the model does not have, so nothing is compared
    /// either.
    fn agree_on_round_trips(
        &self,
        theirs: &ServerDescription,
        ours: &Server,
    ) -> Result<(), String> {
        if self.config.streaming || self.config.load_balanced {
            return Ok(());
        }
        let (average, smallest) = ours.facts.round_trip.unzip();
        let near = match (theirs.round_trip_time, average) {
            (None, None) => true,
            (Some(a), Some(b)) => a.abs_diff(b) < Duration::from_micros(1),
            _ => false,
        };
        if !near {
            let theirs = theirs.round_trip_time;
            return Err(format!("round trip {theirs:?}, not {average:?}"));
        }
        let theirs = smallest.map(|_| theirs.min_round_trip_time);
        same("smallest round trip", &theirs, &smallest)
    }
}

fn agree_on_lists(theirs: &ServerDescription, facts: &Facts) -> Result<(), String> {
    let pairs = [
        ("hosts", &theirs.hosts, &facts.hosts),
        ("passives", &theirs.passives, &facts.passives),
        ("arbiters", &theirs.arbiters, &facts.arbiters),
    ];
    for (what, theirs, ours) in pairs {
        let ours: Vec<Address> = ours.iter().cloned().collect();
        same(what, theirs, &ours)?;
    }
    let tags: Vec<(String, String)> = theirs.tags.clone().into_iter().collect();
    same("tags", &tags, &facts.tags)
}

/// Maps `PossiblePrimary` to `Unknown`. The model monitors in the background, where both types mean
/// the same (SDAM-12).
fn known(kind: ServerType) -> ServerType {
    match kind {
        ServerType::PossiblePrimary => ServerType::Unknown,
        other => other,
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, theirs: &T, ours: &T) -> Result<(), String> {
    if theirs == ours {
        return Ok(());
    }
    Err(format!(
        "{what}: the machine has {theirs:?}, the model has {ours:?}"
    ))
}
