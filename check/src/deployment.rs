//! The deployment as a client discovers it, and the servers that read preferences select.

use crate::{
    advice,
    drive::Clock,
    report::{Stage, Step},
    server::{Visit, kind},
};
use onionskin::{Client, Runtime, bson::doc};
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    error::Error,
    options::{ClientOptions, ReadMode, ReadPreference},
    probe::eligible_servers,
};
use std::{sync::Arc, time::Duration};

/// The longest time to wait for a server that the `ping` can use. An election takes less.
const PATIENCE: Duration = Duration::from_secs(15);

/// The time to wait for the `ping` if no server belongs to the wanted replica set.
const NO_PATIENCE: Duration = Duration::from_secs(1);

/// The time to wait after the `ping` until the client has checked the other servers.
const CHECKS: Duration = Duration::from_secs(2);

/// The time between two looks at the client's topology description.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a `ping` with the read preference of the client, and describes the topology that the client
/// has discovered. Returns the topology description and whether the `ping` succeeded.
pub(crate) async fn discover<R: Runtime>(
    clock: &Clock<R>,
    client: &Client<R>,
    visits: &[Visit],
) -> (Step, Arc<TopologyDescription>) {
    let mut step = Step::new(Stage::Topology, None);
    let options = client.options();
    let begun = clock.now();
    let other_set = other_set(options, visits);
    let patience = match other_set {
        Some(_) => NO_PATIENCE,
        None => PATIENCE.min(options.server_selection_timeout()),
    };
    let database = client.database("admin");
    let ping = database
        .run_command(doc! { "ping": 1 })
        .read_preference(options.read_preference().clone())
        .timeout(patience.min(clock.left()).max(PAUSE));
    let result = ping.await;
    let pinged = clock.now() - begun;
    let topology = settle(clock, client).await;
    step.duration = clock.now() - begun;
    describe(&mut step, &topology);
    match result {
        Ok(_) => {
            step.fact("ping", pinged);
            warn(&mut step, options, &topology);
        }
        Err(error) => {
            let hints = hints(&error, other_set.as_deref(), &topology, visits);
            step.fail(error.to_string(), hints);
        }
    }
    (step, topology)
}

/// Returns the name of the replica set to which all servers belong, if the client asks for another.
fn other_set(options: &ClientOptions, visits: &[Visit]) -> Option<String> {
    let wanted = options.replica_set()?;
    let hellos = visits.iter().filter_map(|visit| visit.hello.as_ref());
    let mut names = hellos.map(|hello| hello.description.set_name.clone().unwrap_or_default());
    let first = names.next()?;
    let is_other = first != wanted && names.all(|name| name != wanted);
    is_other.then_some(first)
}

/// Waits until the client has checked each server.
async fn settle<R: Runtime>(clock: &Clock<R>, client: &Client<R>) -> Arc<TopologyDescription> {
    let end = clock.now() + CHECKS.min(clock.left());
    loop {
        let topology = client.topology();
        let is_checked = |server: &Arc<ServerDescription>| {
            server.server_type.is_available() || server.error.is_some()
        };
        if topology.servers.values().all(is_checked) || clock.now() >= end {
            return topology;
        }
        clock.runtime.sleep(PAUSE).await;
    }
}

fn describe(step: &mut Step, topology: &TopologyDescription) {
    step.fact("type", type_text(topology.topology_type));
    if let Some(name) = &topology.set_name {
        step.fact("replica set", name.clone());
    }
    for (address, server) in &topology.servers {
        step.fact(address.to_string(), server_text(server, topology));
    }
}

fn server_text(server: &ServerDescription, topology: &TopologyDescription) -> String {
    let mut text = kind(server.server_type).to_owned();
    if let Some(time) = server.round_trip_time {
        text.push_str(&format!(", round trip {:.1} ms", time.as_secs_f64() * 1e3));
    }
    if let Some(lag) = lag_of(server, topology) {
        text.push_str(&format!(", lag {:.1} s", lag.as_secs_f64()));
    }
    if !server.tags.is_empty() {
        let tags = server
            .tags
            .iter()
            .map(|(key, value)| format!("{key}:{value}"));
        text.push_str(&format!(", tags {}", tags.collect::<Vec<_>>().join(",")));
    }
    if let Some(error) = &server.error {
        text.push_str(&format!(": {error}"));
    }
    text
}

/// Returns the time between the last write of the primary and that of a secondary.
fn lag_of(server: &ServerDescription, topology: &TopologyDescription) -> Option<Duration> {
    if server.server_type != ServerType::RsSecondary {
        return None;
    }
    let primary = topology.primary()?.last_write_date?.as_unix_millis();
    let own = server.last_write_date?.as_unix_millis();
    Some(Duration::from_millis(primary.saturating_sub(own)))
}

/// Adds warnings about a deployment that a client can use.
fn warn(step: &mut Step, options: &ClientOptions, topology: &TopologyDescription) {
    if topology.topology_type == TopologyType::ReplicaSetNoPrimary {
        step.warn(
            "the replica set has no primary, so that writes fail",
            advice::no_primary(),
        );
    }
    for (address, server) in &topology.servers {
        if !server.server_type.is_available() {
            let message = format!("the client cannot use {address}");
            step.warn(message, Vec::new());
        }
    }
    if topology.topology_type.is_replica_set() {
        let known = |host: &&Address| !topology.servers.contains_key(*host);
        for host in options.hosts().iter().filter(known) {
            let message = format!(
                "{host} is no member of the replica set under this name, so the client uses the \
                 announced members instead"
            );
            step.warn(message, advice::not_a_member());
        }
    }
}

fn hints(
    error: &Error,
    other_set: Option<&str>,
    topology: &TopologyDescription,
    visits: &[Visit],
) -> Vec<String> {
    if let Some(found) = other_set {
        return advice::other_set(found);
    }
    if let Some(message) = &topology.compatibility_error {
        return vec![message.clone()];
    }
    if visits.iter().any(|visit| visit.failure == Some(Stage::Dns)) {
        return advice::announced_only();
    }
    if topology.topology_type == TopologyType::ReplicaSetNoPrimary {
        return advice::no_primary();
    }
    advice::ping_failed(error)
}

/// Returns the step with the servers that each read preference selects.
pub(crate) fn select(topology: &TopologyDescription, options: &ClientOptions) -> Step {
    let mut step = Step::new(Stage::Selection, None);
    let own = options.read_preference();
    let modes = ReadMode::ALL.map(ReadPreference::new);
    let others = modes.iter().filter(|preference| *preference != own);
    let all = std::iter::once(own).chain(others);
    for preference in all {
        let is_own = preference == own;
        let name = match is_own {
            true => format!("{} (of this client)", preference_text(preference)),
            false => preference_text(preference),
        };
        match eligible_servers(topology, preference, options) {
            Ok(servers) => {
                let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
                if servers.is_empty() && is_own {
                    let message = format!("no server is suitable for read preference {preference}");
                    step.warn(message, advice::nothing_selected());
                }
                step.fact(name, servers);
            }
            Err(error) if is_own => step.warn(error.to_string(), Vec::new()),
            Err(error) => step.fact(name, error.to_string()),
        }
    }
    step
}

/// Returns the mode of a read preference, with its other settings if it has any.
pub(crate) fn preference_text(preference: &ReadPreference) -> String {
    match *preference == ReadPreference::new(preference.mode()) {
        true => preference.mode().name().to_owned(),
        false => preference.to_string(),
    }
}

const fn type_text(topology_type: TopologyType) -> &'static str {
    match topology_type {
        TopologyType::Single => "single server",
        TopologyType::ReplicaSetNoPrimary => "replica set without a primary",
        TopologyType::ReplicaSetWithPrimary => "replica set",
        TopologyType::Sharded => "sharded cluster",
        TopologyType::LoadBalanced => "load balancer",
        TopologyType::Unknown => "unknown",
    }
}
