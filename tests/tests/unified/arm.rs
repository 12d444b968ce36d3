//! The deployments and runtimes on which the tests run.

use super::{
    cuts::Cuts,
    entities::Place,
    file::{Test, UnifiedFile},
    setting::{Authentication, ROUTERS, Setting, Topology},
    stage,
};
use onionskin::Runtime;
use onionskin_async_std::AsyncStdRuntime;
use onionskin_core::{address::Address, random::Seed, time::Instant};
use onionskin_deployment::{
    deployment::{AuthMechanism, DeploymentOptions, ServerVersion, User},
    identity::{IssuerOptions, TokenClaims, TokenIssuer},
};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_smol::SmolRuntime;
use onionskin_tests::peers::{FerretDb, Peer, ferretdb};
use onionskin_tokio::TokioRuntime;
use onionskin_worlds::world::{
    SimRuntime,
    runtime::{Executor, balancer_address, member_addresses, service_address},
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    env,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The name of the replica set.
const SET: &str = "rs";

/// The user and the password of deployments with authentication.
const USER: (&str, &str) = ("user", "pencil");

/// The file with the token of MONGODB-OIDC.
const TOKEN_FILE: &str = "/token";

/// The members of a replica set.
const MEMBERS: usize = 3;

/// The limit of the virtual time of a test.
const LIMIT: Duration = Duration::from_secs(600);

/// A runtime of which each client can have a copy.
pub(crate) trait Host: Runtime + Clone {}

impl<R: Runtime + Clone> Host for R {}

/// A running deployment, and the runtime of its clients.
pub(crate) struct Server<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) place: Place,
    pub(crate) seed: Seed,
    pub(crate) cuts: Option<Cuts>,
    /// True if time is real, and tests share the deployment.
    pub(crate) on_sockets: bool,
}

impl<R: Host> Server<R> {
    fn new(runtime: R, place: Place, seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self {
            runtime,
            place,
            seed: Seed::new(bytes),
            cuts: None,
            on_sockets: true,
        }
    }
}

/// A way to run tests, chosen by the environment variable `ONIONSKIN_UNIFIED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// Virtual time, with a deployment of its own for each test (`simulated`, the default).
    Simulated,
    /// Sockets, with deployments that tests share: on tokio, async-std or smol.
    Tokio,
    AsyncStd,
    Smol,
    /// FerretDB, on sockets of tokio. Its failures are counted, and fail nothing.
    FerretDb,
}

impl Arm {
    /// Returns the arm that the environment variable names.
    pub(crate) fn chosen() -> Self {
        match env::var("ONIONSKIN_UNIFIED").as_deref() {
            Err(_) | Ok("" | "simulated") => Self::Simulated,
            Ok("tokio") => Self::Tokio,
            Ok("async-std") => Self::AsyncStd,
            Ok("smol") => Self::Smol,
            Ok("ferretdb") => Self::FerretDb,
            Ok(other) => panic!("ONIONSKIN_UNIFIED names {other}, which is no way to run tests"),
        }
    }

    /// Starts a deployment, runs a test on it to its end, and returns the result.
    pub(crate) fn run(
        self,
        setting: &Setting,
        seed: u64,
        file: &UnifiedFile,
        test: &Test,
    ) -> Result<(), String> {
        match self {
            Self::Simulated => simulated(setting, seed, file, test)?.0,
            Self::Tokio | Self::FerretDb => {
                let place = self.place(setting)?;
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = runtime.map_err(|error| error.to_string())?;
                let server = Server::new(TokioRuntime::default(), place, fresh(seed));
                runtime.block_on(stage::play(server, file, test))
            }
            Self::AsyncStd => {
                let server = Server::new(
                    AsyncStdRuntime::default(),
                    self.place(setting)?,
                    fresh(seed),
                );
                async_std::task::block_on(stage::play(server, file, test))
            }
            Self::Smol => {
                let server = Server::new(SmolRuntime::default(), self.place(setting)?, fresh(seed));
                smol::block_on(stage::play(server, file, test))
            }
        }
    }

    /// Returns the place of a deployment on sockets, which is started for the first test.
    fn place(self, setting: &Setting) -> Result<Place, String> {
        if self == Self::FerretDb {
            return place_of_ferretdb();
        }
        let known = DEPLOYMENTS.with_borrow(|all| Some(of_embedded(setting, all.get(setting)?)));
        if let Some(place) = known {
            return Ok(place);
        }
        let embedded = Embedded::start(serve(setting)?).map_err(|error| error.to_string())?;
        let place = of_embedded(setting, &embedded);
        DEPLOYMENTS.with_borrow_mut(|all| all.insert(setting.clone(), embedded));
        Ok(place)
    }
}

thread_local! {
    /// The deployments on sockets that tests of this thread have used.
    static DEPLOYMENTS: RefCell<BTreeMap<Setting, Embedded>> = RefCell::default();
    /// The FerretDB of this thread; `None` without its program.
    static FERRETDB: Option<Peer> = ferretdb(FerretDb::default()).expect("it starts");
}

/// Returns a seed that no other test of the process has. Tests that share a deployment must not
/// have the same sessions, because the server would take their writes for retries.
fn fresh(seed: u64) -> u64 {
    static TESTS: AtomicU64 = AtomicU64::new(0);
    (TESTS.fetch_add(1, Ordering::SeqCst) << 32) | seed
}

/// Plays a test in virtual time. Returns its result, and a digest of all that happened.
pub(crate) fn simulated(
    setting: &Setting,
    seed: u64,
    file: &UnifiedFile,
    test: &Test,
) -> Result<(Result<(), String>, [u8; 32]), String> {
    let (executor, server) = world(setting, seed)?;
    let ended = executor.run(Instant::ZERO + LIMIT, stage::play(server, file, test));
    let played = ended.unwrap_or_else(|failure| Err(failure.to_string()));
    Ok((played, executor.digest()))
}

/// Plays a test in virtual time with connections that break once in each operation. Returns its
/// result, without that of its events, and the number of cuts.
pub(crate) fn cut(
    setting: &Setting,
    seed: u64,
    file: &UnifiedFile,
    test: &Test,
) -> Result<(Result<(), String>, u32), String> {
    let (executor, mut server) = world(setting, seed)?;
    let random = server.seed.split("cuts").random();
    let has_routers = matches!(setting.topology, Topology::Sharded | Topology::LoadBalanced);
    let cuts = Cuts::new(&server.runtime, has_routers, random);
    server.cuts = Some(cuts.clone());
    let ended = executor.run(Instant::ZERO + LIMIT, stage::play(server, file, test));
    let played = ended.unwrap_or_else(|failure| Err(failure.to_string()));
    Ok((played, cuts.count()))
}

/// Returns a world around a deployment.
fn world(setting: &Setting, seed: u64) -> Result<(Executor, Server<SimRuntime>), String> {
    let mut options = deployment(setting)?;
    let issuer = TokenIssuer::new(IssuerOptions::default(), &Seed::new([7; 32]));
    if setting.authentication == Authentication::Oidc {
        options.auth.mechanisms = AuthMechanism::ALL.to_vec();
        options.auth.issuers = vec![issuer.clone()];
    }
    let started_at = options.started_at;
    let executor = Executor::around(seed, options).map_err(|failure| failure.to_string())?;
    // The shortest limit of a file is a socketTimeoutMS of 20 ms.
    executor.limit_pauses(Duration::from_millis(1));
    let runtime = executor.runtime(0);
    // The workload `test` of MONGODB-OIDC reads its token from the file that this variable names.
    let token = issuer.issue(&TokenClaims::new("me", started_at, LIMIT));
    runtime.set_variable("OIDC_TOKEN_FILE", Some(TOKEN_FILE));
    runtime.set_file(TOKEN_FILE, Some(&token));
    let hosts: Vec<Address> = match setting.topology {
        Topology::LoadBalanced => (0..ROUTERS).map(service_address).collect(),
        _ => addresses(setting),
    };
    let hosts = hosts.iter().map(ToString::to_string).collect();
    let place = place(setting, hosts, balancer_address().to_string());
    let mut server = Server::new(runtime, place, seed);
    server.on_sockets = false;
    Ok((executor, server))
}

fn place_of_ferretdb() -> Result<Place, String> {
    let hosts = FERRETDB.with(|peer| peer.as_ref().map(|peer| hosts(peer.uri())));
    Ok(Place {
        topology: Topology::Single,
        hosts: hosts.ok_or("FerretDB is not built")?,
        balancer: None,
        many_routers: false,
        checks_often: false,
        options: String::new(),
        user: None,
    })
}

/// Returns the hosts of a connection string.
fn hosts(uri: &str) -> Vec<String> {
    let rest = uri.strip_prefix("mongodb://").unwrap_or(uri);
    let hosts = rest.split(['/', '?']).next().unwrap_or_default();
    let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts);
    hosts.split(',').map(str::to_owned).collect()
}

fn serve(setting: &Setting) -> Result<ServeOptions, String> {
    let mut options = match setting.topology {
        Topology::Single => ServeOptions::standalone(),
        Topology::ReplicaSet => ServeOptions::replica_set(SET, MEMBERS),
        Topology::Sharded => ServeOptions::sharded(ROUTERS),
        Topology::LoadBalanced => ServeOptions::load_balanced(ROUTERS),
    };
    options.version = version(setting)?;
    options.users = users(setting);
    Ok(options)
}

fn version(setting: &Setting) -> Result<ServerVersion, String> {
    let version = ServerVersion::named(setting.version);
    version.ok_or_else(|| format!("there is no version {}", setting.version))
}

fn users(setting: &Setting) -> Vec<User> {
    match setting.authentication {
        Authentication::None => Vec::new(),
        Authentication::Password | Authentication::Oidc => vec![User::new(USER.0, USER.1)],
    }
}

fn addresses(setting: &Setting) -> Vec<Address> {
    match setting.topology {
        Topology::Single => member_addresses(1),
        Topology::ReplicaSet => member_addresses(MEMBERS),
        Topology::Sharded | Topology::LoadBalanced => member_addresses(ROUTERS),
    }
}

fn deployment(setting: &Setting) -> Result<DeploymentOptions, String> {
    let mut options = match setting.topology {
        Topology::Single => DeploymentOptions::standalone(member_addresses(1).remove(0)),
        Topology::ReplicaSet => DeploymentOptions::replica_set(SET, addresses(setting)),
        Topology::Sharded => DeploymentOptions::sharded(addresses(setting)),
        Topology::LoadBalanced => {
            DeploymentOptions::load_balanced(balancer_address(), addresses(setting))
        }
    };
    options.version = version(setting)?;
    options.users = users(setting);
    Ok(options)
}

/// Returns the place of a deployment on sockets. The hosts have the names of the connection string,
/// except for services, which it does not name.
fn of_embedded(setting: &Setting, embedded: &Embedded) -> Place {
    let mut named = hosts(embedded.uri());
    let balancer = named[0].clone();
    if setting.topology == Topology::LoadBalanced {
        named = embedded
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect();
    }
    place(setting, named, balancer)
}

fn place(setting: &Setting, hosts: Vec<String>, balancer: String) -> Place {
    Place {
        topology: setting.topology,
        hosts,
        balancer: (setting.topology == Topology::LoadBalanced).then_some(balancer),
        many_routers: false,
        checks_often: false,
        options: match setting.topology {
            Topology::ReplicaSet => format!("replicaSet={SET}"),
            Topology::LoadBalanced => "loadBalanced=true".to_owned(),
            Topology::Single | Topology::Sharded => String::new(),
        },
        user: (setting.authentication != Authentication::None).then_some(USER),
    }
}
