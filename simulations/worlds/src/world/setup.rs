//! The deployment and the options of the clients. They do not depend on the [`Way`](super::Way) in
//! which the clients are driven.

use super::{
    network::Proxy,
    options::{Way, Workload, WorldOptions, WorldProxy, world_seed},
    plan::Disaster,
    report::{Failure, FailureKind},
};
use onionskin_core::{
    address::Address,
    client::{ClientConfig, MIN_RESCAN_INTERVAL},
    options::{ClientOptions, DEFAULT_HEARTBEAT_FREQUENCY},
    random::Seed,
    time::Instant,
    uri,
};
use onionskin_deployment::{
    deployment::{Deployment, DeploymentOptions, NetworkOptions, ServerVersion, Shape, User},
    socks5::Socks5Server,
};
use std::{fmt, time::Duration};

/// The name of the replica set.
const SET_NAME: &str = "rs";

/// The user and the password for servers that require authentication.
const USER: (&str, &str) = ("user", "secret");

/// The host name of the load balancer.
pub(super) const BALANCER: &str = "balancer";

/// The host name of the SOCKS5 proxy.
pub(super) const PROXY: &str = "proxy";

/// The port of the SOCKS5 proxy.
const PROXY_PORT: u16 = 1080;

/// The user and the password of a proxy that requires them.
const PROXY_USER: (&str, &str) = ("guest", "proxy secret");

/// The wire version of the first release with the command `bulkWrite`, 8.0.
const BULK_WRITE_WIRE_VERSION: i32 = 25;

/// The domain of the members of clients with a `mongodb+srv` string.
const DOMAIN: &str = "world.test";

/// The port of all members and of the load balancer.
pub(super) const PORT: u16 = 27017;

pub(super) fn deployment(options: &WorldOptions, seed: &Seed) -> Result<Deployment, Failure> {
    let addresses: Vec<Address> = (0..options.members)
        .map(|member| match options.srv {
            true => Address::tcp(&format!("{}.{DOMAIN}", host(member)), PORT),
            false => Address::tcp(&host(member), PORT),
        })
        .collect();
    let mut wanted = match addresses.as_slice() {
        _ if options.load_balanced => {
            DeploymentOptions::load_balanced(balancer_address(), addresses)
        }
        _ if options.sharded => DeploymentOptions::sharded(addresses),
        [alone] => DeploymentOptions::standalone(alone.clone()),
        _ => DeploymentOptions::replica_set(SET_NAME, addresses),
    };
    if options.has_routers() {
        (wanted.shards, wanted.shard_members) = (options.shards, options.shard_members);
        if options.shard_members > 1 {
            wanted.shard_election_timeout = options.election_timeout;
        }
    }
    wanted.network = NetworkOptions {
        min_latency: options.min_latency,
        max_latency: options.max_latency,
        loss_per_mille: 0,
    };
    if let Shape::ReplicaSet(set) = &mut wanted.shape {
        set.election_timeout = options.election_timeout;
        set.heartbeat_interval = options.election_timeout / 5;
        for (member, given) in set.members.iter_mut().zip(&options.member_options) {
            member.clone_from(given);
        }
    }
    wanted.compression.replies = options.compressed_replies;
    wanted.version = version(options, seed);
    if options.authentication {
        wanted.users = vec![User::new(USER.0, USER.1)];
    }
    Deployment::new(wanted, &seed.split("deployment")).map_err(|error| impossible(&error))
}

/// Returns the release of the servers. For applications, it is drawn whether they have the command
/// `bulkWrite`.
fn version(options: &WorldOptions, seed: &Seed) -> ServerVersion {
    if let Some(version) = options.version {
        return version;
    }
    match has_bulk_write(options, seed) {
        true => ServerVersion::named("8.0").expect("it is known"),
        false => ServerVersion::default(),
    }
}

/// True if all servers have the command `bulkWrite` from the start on.
pub(super) fn has_bulk_write(options: &WorldOptions, seed: &Seed) -> bool {
    let has = |version: ServerVersion| version.max_wire >= BULK_WRITE_WIRE_VERSION;
    let mut own = options.member_options.iter().filter_map(|m| m.version);
    if !own.all(has) {
        return false;
    }
    if let Some(version) = options.version {
        return has(version);
    }
    let is_drawn = options.workload == Workload::Applications;
    is_drawn && seed.split("version").random().chance(1, 2)
}

/// Returns the host name of a member.
pub(super) fn host(member: usize) -> String {
    format!("member{member}")
}

/// Returns the name of the SRV records of the members.
pub(super) fn srv_name() -> String {
    format!("_mongodb._tcp.cluster.{DOMAIN}")
}

/// Returns the address of the load balancer.
pub(super) fn balancer_address() -> Address {
    Address::tcp(BALANCER, PORT)
}

/// Returns the address of the load balancer that leads to one service alone.
pub(super) fn service_address(service: usize) -> Address {
    let place = u16::try_from(service).expect("few services");
    Address::tcp(BALANCER, PORT + 1 + place)
}

/// Returns the address of the SOCKS5 proxy.
pub(super) fn proxy_address() -> Address {
    Address::tcp(PROXY, PROXY_PORT)
}

/// Returns the SOCKS5 proxy of the network.
pub(super) fn proxy(options: &WorldOptions) -> Option<Proxy> {
    let (name, password) = PROXY_USER;
    let credentials = match options.proxy {
        WorldProxy::None => return None,
        WorldProxy::Open => None,
        WorldProxy::Password => Some((name.to_owned(), password.to_owned())),
    };
    Some(Proxy {
        address: proxy_address(),
        server: Socks5Server {
            credentials,
            ..Socks5Server::default()
        },
    })
}

/// Returns the connection string of a client.
pub(super) fn uri(options: &WorldOptions, client: usize) -> String {
    let hosts: Vec<String> = match options.load_balanced {
        true => vec![BALANCER.to_owned()],
        false => (0..options.members).map(host).collect(),
    };
    let credentials = match options.authentication {
        true => format!("{}:{}@", USER.0, USER.1),
        false => String::new(),
    };
    let set = match options.members {
        _ if options.load_balanced => "loadBalanced=true&".to_owned(),
        // With the name of the set, clients would not look up their seed list again.
        _ if options.sharded || options.srv => String::new(),
        1 => String::new(),
        _ => format!("replicaSet={SET_NAME}&"),
    };
    let names: Vec<_> = options.compressors.iter().map(|c| c.name()).collect();
    let compressors = match names.as_slice() {
        [] => String::new(),
        names => format!("&compressors={}", names.join(",")),
    };
    let proxy = match options.proxy {
        WorldProxy::None => String::new(),
        WorldProxy::Open => format!("&proxyHost={PROXY}&proxyPort={PROXY_PORT}"),
        WorldProxy::Password => {
            let (name, password) = (PROXY_USER.0, PROXY_USER.1.replace(' ', "%20"));
            format!(
                "&proxyHost={PROXY}&proxyPort={PROXY_PORT}&proxyUsername={name}\
                 &proxyPassword={password}"
            )
        }
    };
    let start = match options.srv {
        true => format!("mongodb+srv://{credentials}cluster.{DOMAIN}/?tls=false&"),
        false => format!("mongodb://{credentials}{}/?", hosts.join(",")),
    };
    let own = options.client(client).client_options;
    let own = own.as_ref().unwrap_or(&options.client_options);
    format!("{start}{set}{own}{compressors}{proxy}")
}

pub(super) fn client_options(uri: &str) -> Result<ClientOptions, Failure> {
    let parsed = uri::parse(uri).map_err(|error| impossible(&error))?;
    match parsed.warnings.first() {
        Some(warning) => Err(impossible(warning)),
        None => Ok(parsed.options),
    }
}

/// True if the read preference of a client's options is the one for the primary.
pub(super) fn reads_primary(options: &WorldOptions, client: usize) -> bool {
    let parsed = client_options(&uri(options, client));
    parsed.is_ok_and(|parsed| parsed.read_preference().is_primary())
}

/// Returns the longest time from a change of the records of the seed list until a client that is
/// not frozen knows the routers: the time between two lookups, that of a lookup without an answer,
/// the pause after it, and some more. `None` for clients that do not look them up again, and if a
/// lookup has no limit.
pub(super) fn news(options: &WorldOptions, client: usize) -> Option<Duration> {
    if !options.srv || !options.sharded {
        return None;
    }
    let parsed = client_options(&uri(options, client)).ok()?;
    let pause = parsed.heartbeat_freq.unwrap_or(DEFAULT_HEARTBEAT_FREQUENCY);
    let rest = Duration::from_secs(5);
    Some(MIN_RESCAN_INTERVAL + parsed.connect_timeout()? + pause + rest)
}

/// The time from the end of the faults until each client knows the members of a replica set, beside
/// its `heartbeatFrequencyMS`: that of an election, and some more.
const SETTLING: Duration = Duration::from_secs(40);

/// True if events change the members of the replica set, and a client has the time to learn of it
/// before its late operations.
pub(super) fn learns_members(options: &WorldOptions, client: usize) -> bool {
    let mut events = options.schedule.iter().flatten();
    let is_changed = events.any(|scheduled| {
        matches!(
            scheduled.event,
            Disaster::RemoveMember(_)
                | Disaster::AddMember(_)
                | Disaster::ForceConfiguration { .. }
        )
    });
    let parsed = client_options(&uri(options, client));
    let has_time = parsed.is_ok_and(|own| options.grace >= own.heartbeat_freq() + SETTLING);
    is_changed && has_time && !options.has_routers()
}

/// Checks that the world of a seed can be created.
///
/// # Errors
///
/// The reason why a run could not begin.
pub fn check_setup(seed: u64, way: Way, options: &WorldOptions) -> Result<(), Failure> {
    check_workload(way, options)?;
    if options.srv && options.load_balanced {
        return Err(impossible(
            &"clients with SRV records are not behind a balancer",
        ));
    }
    let split = world_seed(seed);
    deployment(options, &split)?;
    for client in 0..options.clients.min(1 + options.each_client.len()) {
        let parsed = client_options(&uri(options, client))?;
        let config = ClientConfig::new(parsed, split.split(&format!("client {client}")));
        config.map(drop).map_err(|error| impossible(&error))?;
    }
    Ok(())
}

/// The reason why a standalone has no applications.
pub(super) const NO_TRANSACTIONS: &str = "a standalone has no transactions for `applications`";

/// Checks that the callers can do their work in this way.
pub(super) fn check_workload(way: Way, options: &WorldOptions) -> Result<(), Failure> {
    let is_standalone = options.members == 1 && !options.sharded && !options.load_balanced;
    match (options.workload, way) {
        (Workload::Marks, _) => Ok(()),
        (Workload::Applications, Way::Core) => Err(impossible(
            &"the core alone has no sessions for `applications`",
        )),
        (Workload::Applications, Way::Runtime) if is_standalone => {
            Err(impossible(&NO_TRANSACTIONS))
        }
        (Workload::Applications, Way::Runtime) => Ok(()),
    }
}

/// Returns the failure of a world that cannot be created.
pub(super) fn impossible(error: &dyn fmt::Display) -> Failure {
    Failure::new(
        FailureKind::Crash,
        Instant::ZERO,
        format!("the world cannot be created: {error}"),
    )
}
