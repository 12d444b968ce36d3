//! The deployment as a client discovers it, and the servers that read preferences select.

use crate::{
    advice,
    drive::{Clock, OUT_OF_TIME},
    hello::kind,
    report::{Fact, Stage, Step, Value},
    server::{Origin, Visit},
};
use futures_util::future::{Either, select};
use onionskin::{
    Client, Runtime,
    bson::{Document, doc},
};
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    error::{Error, ErrorKind},
    options::{ClientOptions, ReadMode, ReadPreference, ServerSelector},
    probe::eligible_servers,
};
use std::{
    collections::BTreeSet,
    future::IntoFuture as _,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The time for which a topology without a suitable server is observed before the `ping` is given
/// up. Afterwards only a change of the deployment could help, such as an election.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time to wait after the `ping` until the client has checked the other servers.
const CHECKS: Duration = Duration::from_secs(2);

/// The time between two reads of the client's topology description.
const PAUSE: Duration = Duration::from_millis(20);

/// The code of the error of a command that requires authentication.
const UNAUTHORIZED: i32 = 13;

/// Keeps a client that scans from selecting a server, while it is closed. An operation then makes
/// the client check its servers, and is sent to none of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier(Arc<AtomicBool>);

impl Barrier {
    /// Returns the server selector of the client.
    pub(crate) fn selector(&self) -> ServerSelector {
        let is_closed = self.0.clone();
        ServerSelector::new(move |servers| {
            if is_closed.load(Ordering::Relaxed) {
                servers.clear();
            }
        })
    }
}

/// Runs a `ping` with the read preference and the time limits of the client, and describes the
/// topology that the client has discovered.
pub(crate) async fn discover<R: Runtime>(
    clock: &Clock<R>,
    client: &Client<R>,
    barrier: &Barrier,
    visits: &[Visit],
) -> (Step, Arc<TopologyDescription>) {
    let mut step = Step::new(Stage::Topology, None);
    let options = client.options();
    let begun = clock.now();
    let result = clock.within(None, ping(clock, client)).await;
    let pinged = clock.now() - begun;
    let topology = settle(clock, client, barrier, &[], CHECKS).await;
    step.duration = clock.now() - begun;
    describe(&mut step, &topology);
    match result {
        Some(Ok(())) => {
            step.fact("ping", pinged);
            examine(&mut step, options, &topology, visits);
        }
        Some(Err(error)) => {
            let hints = hints(&error, options, &topology, visits);
            step.fail(error.to_string(), hints);
        }
        None => step.fail(OUT_OF_TIME, advice::out_of_time()),
    }
    (step, topology)
}

/// Runs a `ping`. Gives up early if the topology has no suitable server.
async fn ping<R: Runtime>(clock: &Clock<R>, client: &Client<R>) -> Result<(), Error> {
    let preference = client.options().read_preference().clone();
    let database = client.database("admin");
    let command = database.run_command(doc! { "ping": 1 });
    let ping = pin!(command.read_preference(preference).into_future());
    match select(ping, pin!(wait_without_server(clock, client))).await {
        Either::Left((result, _)) => result.map(drop),
        Either::Right(((), _)) => {
            let preference = client.options().read_preference();
            let message = format!("no server is suitable for read preference {preference}");
            Err(ErrorKind::ServerSelection {
                message,
                cause: None,
            }
            .into())
        }
    }
}

/// Waits until every server was checked and none was suitable for [`PATIENCE`].
async fn wait_without_server<R: Runtime>(clock: &Clock<R>, client: &Client<R>) {
    let options = client.options();
    let mut since = clock.now();
    loop {
        clock.runtime.sleep(PAUSE).await;
        let topology = client.topology();
        let eligible = eligible_servers(&topology, options.read_preference(), options);
        let is_hopeless = is_checked(&topology) && eligible.is_ok_and(|found| found.is_empty());
        if !is_hopeless {
            since = clock.now();
        }
        if clock.now() - since >= PATIENCE {
            return;
        }
    }
}

/// Waits until the client has checked each server, within the limit. A server whose visit failed
/// counts as checked.
pub(crate) async fn settle<R: Runtime>(
    clock: &Clock<R>,
    client: &Client<R>,
    barrier: &Barrier,
    visits: &[Visit],
    limit: Duration,
) -> Arc<TopologyDescription> {
    if !R::RUNS_IN_BACKGROUND {
        // A client that scans checks servers only while an operation waits.
        if !is_checked(&client.topology()) {
            barrier.0.store(true, Ordering::Relaxed);
            let database = client.database("admin");
            let ping = database.run_command(doc! { "ping": 1 });
            let _ = clock.within(Some(limit), ping.into_future()).await;
            barrier.0.store(false, Ordering::Relaxed);
        }
        return client.topology();
    }
    let failed = visits.iter().filter(|visit| visit.failure.is_some());
    let failed: BTreeSet<_> = failed.map(|visit| &visit.address).collect();
    let end = clock.now() + limit.min(clock.left());
    loop {
        let topology = client.topology();
        let mut servers = topology.servers.values();
        let is_settled =
            servers.all(|server| has_result(server) || failed.contains(&server.address));
        if is_settled || clock.now() >= end {
            return topology;
        }
        clock.runtime.sleep(PAUSE).await;
    }
}

fn is_checked(topology: &TopologyDescription) -> bool {
    topology.servers.values().all(|server| has_result(server))
}

/// True if the client has checked the server.
fn has_result(server: &ServerDescription) -> bool {
    server.server_type.is_available() || server.error.is_some()
}

fn describe(step: &mut Step, topology: &TopologyDescription) {
    step.fact("type", type_text(topology.topology_type));
    if let Some(name) = &topology.set_name {
        step.fact("replica set", name.clone());
    }
    let servers = topology.servers.iter();
    let facts = servers.map(|(address, server)| {
        let facts = describe_server(server, topology);
        Fact::new(address.to_string(), facts)
    });
    step.fact("servers", facts.collect::<Vec<_>>());
}

fn describe_server(server: &ServerDescription, topology: &TopologyDescription) -> Vec<Fact> {
    let mut facts = vec![Fact::new("state", kind(server.server_type))];
    if let Some(time) = server.round_trip_time {
        facts.push(Fact::new("round trip", time));
    }
    if let Some(lag) = lag_of(server, topology) {
        facts.push(Fact::new("lag", lag));
    }
    if !server.tags.is_empty() {
        let tags = server.tags.iter();
        let tags = tags.map(|(key, value)| format!("{key}:{value}"));
        facts.push(Fact::new("tags", tags.collect::<Vec<_>>()));
    }
    if let Some(error) = &server.error {
        facts.push(Fact::new("error", error.to_string()));
    }
    facts
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

/// Adds the problems of a deployment that answers a `ping`.
fn examine(
    step: &mut Step,
    options: &ClientOptions,
    topology: &TopologyDescription,
    visits: &[Visit],
) {
    if topology.topology_type == TopologyType::ReplicaSetNoPrimary {
        let message = "the replica set has no primary, so that writes fail";
        step.warn(message, advice::no_primary());
    }
    for (address, server) in &topology.servers {
        if server.error.is_some() {
            step.warn(format!("the client cannot use {address}"), Vec::new());
        }
        if topology.topology_type == TopologyType::Single {
            examine_single(step, address, server.server_type);
        }
    }
    if topology.topology_type.is_replica_set() {
        let strangers = visits.iter().filter(|visit| {
            let is_of_set = visit.hello.as_ref().is_some_and(|hello| {
                hello.description.set_name.as_ref() == topology.set_name.as_ref()
            });
            is_of_set
                && options.hosts().contains(&visit.address)
                && !topology.servers.contains_key(&visit.address)
        });
        for visit in strangers {
            let message = format!(
                "{} is no member of the replica set under this name, so the client uses the \
                 announced members instead",
                visit.address
            );
            step.warn(message, advice::not_a_member());
        }
    }
}

/// Adds the problems of a direct connection.
fn examine_single(step: &mut Step, address: &Address, server_type: ServerType) {
    let kind = kind(server_type);
    match server_type {
        ServerType::RsSecondary => {
            let message = format!("{address} is a secondary, so that writes fail");
            step.warn(message, advice::direct_secondary());
        }
        ServerType::RsArbiter | ServerType::RsOther => {
            let message = format!("{address} is of the kind {kind:?}, and serves no data");
            step.fail(message, advice::not_serving());
        }
        ServerType::RsGhost => {
            let message = format!("{address} is of the kind {kind:?}, and serves no data");
            step.fail(message, advice::ghost());
        }
        _ => {}
    }
}

fn hints(
    error: &Error,
    options: &ClientOptions,
    topology: &TopologyDescription,
    visits: &[Visit],
) -> Vec<String> {
    if !matches!(error.kind(), ErrorKind::ServerSelection { .. }) {
        return advice::connection_lost(error);
    }
    let hellos = || visits.iter().filter_map(|visit| visit.hello.as_ref());
    let names = || hellos().map(|hello| hello.description.set_name.as_deref());
    if let Some(wanted) = options.repl_set_name.as_deref()
        && let Some(found) = names().next()
        && names().all(|name| name != Some(wanted))
        && hellos().all(|hello| hello.description.server_type != ServerType::RsGhost)
    {
        return advice::other_set(found);
    }
    if topology.compatibility_error.is_some() {
        return advice::incompatible();
    }
    let is_unresolved = |visit: &Visit| {
        visit.failure == Some(Stage::Dns) && matches!(visit.origin, Origin::Announced(_))
    };
    if visits.iter().any(is_unresolved) {
        return advice::announced_only();
    }
    let is_standalone = |visit: &&Visit| {
        let hello = visit.hello.as_ref();
        hello.is_some_and(|hello| hello.description.server_type == ServerType::Standalone)
    };
    if visits.iter().filter(is_standalone).count() > 1 {
        return advice::several_standalones();
    }
    if hellos().any(|hello| hello.description.server_type == ServerType::RsGhost) {
        return advice::ghost();
    }
    advice::unsuitable(topology, options.read_preference())
}

/// Reads nothing from a collection that need not exist. Returns the failed step of authentication
/// if the server requires authentication, which a `ping` does not show.
pub(crate) async fn read_without_user<R: Runtime>(
    clock: &Clock<R>,
    client: &Client<R>,
) -> Option<Step> {
    let mut step = Step::new(Stage::Authentication, None);
    let begun = clock.now();
    let database = match client.default_database() {
        Some(database) => database,
        None => client.database("test"),
    };
    let collection = database.collection::<Document>("onionskin_check");
    let find = collection.find_one(doc! { "_id": 0 }).into_future();
    let result = clock.within(None, find).await?;
    step.duration = clock.now() - begun;
    match result.err()?.kind() {
        ErrorKind::Command(fault) if fault.code == UNAUTHORIZED => {
            let message = format!(
                "the server requires authentication, and the connection string has no user: {}",
                fault.message
            );
            step.fail(message, advice::authentication_required());
            Some(step)
        }
        _ => None,
    }
}

/// Returns the step with the servers that each read preference selects.
pub(crate) fn select_servers(topology: &TopologyDescription, options: &ClientOptions) -> Step {
    let mut step = Step::new(Stage::Selection, None);
    let own = options.read_preference();
    step.fact("of this client", preference_text(own));
    let modes = ReadMode::ALL.map(ReadPreference::new);
    let others = modes.iter().filter(|preference| *preference != own);
    let all: Vec<_> = match topology.topology_type.is_replica_set() {
        true => std::iter::once(own).chain(others).collect(),
        // Elsewhere read preferences select no other servers (SEL-25, SEL-27).
        false => vec![own],
    };
    for preference in all {
        let value: Value = match eligible_servers(topology, preference, options) {
            Ok(servers) => {
                let servers = servers.iter().map(ToString::to_string);
                servers.collect::<Vec<_>>().into()
            }
            Err(error) => error.to_string().into(),
        };
        step.fact(preference_text(preference), value);
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
