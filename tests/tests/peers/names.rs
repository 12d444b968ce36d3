//! Tests of seed lists with NSD, an authoritative name server, over UDP and TCP.

use bson::{Document, doc};
use onionskin::{Client, HostResolver};
use onionskin_core::{
    address::Address,
    dns::{DnsQuery, RecordKind},
    error::{DnsFailure, Error, ErrorKind},
    event::{EventKind, SdamEvent},
};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::{
    moved_time::MovedTime,
    name_server::look_up,
    peers::{self, Nsd},
    suites::initial_dns_seedlist_discovery::{self as seed_lists, DOMAIN},
};
use onionskin_tokio::TokioRuntime;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The official tests pass with the records of a real name server.
#[test]
fn all_official_seed_lists_are_found() {
    let records = seed_lists::official_records().unwrap_or_default();
    let lines: Vec<String> = records.iter().map(|record| record.line()).collect();
    let Some(server) = peers::nsd(DOMAIN, &lines).expect("NSD starts") else {
        return;
    };
    let config = server.resolver_config();
    let name = "initial-dns-seedlist-discovery with NSD";
    seed_lists::run_with(name, &mut |query| look_up(config.clone(), query));
    let mut over_tcp = config.clone();
    over_tcp.use_tcp = true;
    let name = "initial-dns-seedlist-discovery with NSD over TCP";
    seed_lists::run_with(name, &mut |query| look_up(over_tcp.clone(), query));
}

/// An answer that does not fit into a datagram is complete.
#[test]
fn an_answer_that_is_too_long_for_a_datagram_is_read_over_tcp() {
    let hosts = 0..200;
    let line = |n| {
        format!(
            "_mongodb._tcp.c.db.test. 60 IN SRV 0 0 {} h{n}.db.test.",
            27000 + n
        )
    };
    let lines: Vec<String> = hosts.clone().map(line).collect();
    let Some(server) = peers::nsd("db.test", &lines).expect("NSD starts") else {
        return;
    };
    let query = DnsQuery::new("_mongodb._tcp.c.db.test", RecordKind::Srv);
    let found = look_up(server.resolver_config(), query).expect("an answer");
    assert_eq!(found.records.len(), hosts.len());
}

/// A sharded cluster whose routers are named by the SRV records of a real name server.
struct Cluster {
    names: Nsd,
    deployment: Embedded,
}

impl Cluster {
    /// Starts routers, of which the SRV records name the first two.
    fn start() -> Option<Self> {
        let deployment = Embedded::start(ServeOptions::sharded(4)).expect("routers start");
        let ports = ports(&deployment, &[0, 1]);
        let names = peers::nsd(DOMAIN, &lines("mongodb", &ports)).expect("NSD starts")?;
        Some(Self { names, deployment })
    }

    /// Makes the SRV records of a service name these routers only.
    fn name(&mut self, service: &str, routers: &[usize]) {
        let lines = lines(service, &self.ports(routers));
        self.names
            .set_records(&lines)
            .expect("NSD reads the records");
    }

    fn ports(&self, routers: &[usize]) -> BTreeSet<u16> {
        ports(&self.deployment, routers)
    }
}

fn ports(deployment: &Embedded, routers: &[usize]) -> BTreeSet<u16> {
    let addresses = deployment.addresses();
    let ports = routers.iter().map(|router| addresses[*router].port());
    ports.collect()
}

/// Returns the lines of a zone file with SRV records of these ports.
fn lines(service: &str, ports: &BTreeSet<u16>) -> Vec<String> {
    let mut lines = vec![format!("localhost.{DOMAIN}. 60 IN A 127.0.0.1")];
    let service = |port: &u16| {
        format!("_{service}._tcp.test1.{DOMAIN}. 1 IN SRV 0 0 {port} localhost.{DOMAIN}.")
    };
    lines.extend(ports.iter().map(service));
    lines
}

const URI: &str = "mongodb+srv://test1.test.build.10gen.cc/?tls=false";

/// The time limit of a change of the hosts.
const PATIENCE: Duration = Duration::from_secs(60);

/// A time that is longer than the interval of rescans.
const INTERVAL: Duration = Duration::from_secs(61);

/// The time in which a rescan and its consequences usually end.
const ROUND: Duration = Duration::from_millis(20);

/// A client of a [`Cluster`] whose clock the test moves.
/// True if a lookup failed because there are no such records.
fn is_absence(error: &Error) -> bool {
    let failure = match error.kind() {
        ErrorKind::DnsResolve { failure, .. } => *failure,
        _ => return false,
    };
    matches!(failure, DnsFailure::NoSuchName | DnsFailure::NoRecords)
}

struct Follower {
    client: Client<MovedTime<TokioRuntime>>,
    runtime: MovedTime<TokioRuntime>,
    failed_rescans: Arc<AtomicUsize>,
}

impl Follower {
    fn new(cluster: &Cluster, options: &str) -> Self {
        let runtime = MovedTime::new(TokioRuntime::default());
        let failed_rescans = Arc::<AtomicUsize>::default();
        let failures = failed_rescans.clone();
        let client = Client::builder_from_uri(runtime.clone(), &format!("{URI}{options}"))
            .expect("a connection string")
            .resolver_config(cluster.names.resolver_config())
            .host_resolver(HostResolver::Client)
            .event_listener(Arc::new(move |event| {
                // A lookup that a jump of the clock ends does not count.
                if let EventKind::Sdam(SdamEvent::RescanFailed { error, .. }) = &event.kind
                    && is_absence(error)
                {
                    failures.fetch_add(1, Ordering::SeqCst);
                }
            }))
            .build()
            .expect("a client");
        Self {
            client,
            runtime,
            failed_rescans,
        }
    }

    fn known(&self) -> BTreeSet<u16> {
        let topology = self.client.topology();
        let ports = topology.servers.keys().filter_map(|address| match address {
            Address::Tcp { port, .. } => Some(*port),
            _ => None,
        });
        ports.collect()
    }

    /// Waits until the hosts are those with these ports, as [`until`](Self::until) does.
    async fn until_known(&self, expected: &BTreeSet<u16>) {
        self.until(|known| known == expected).await;
    }

    /// Reads a document, and waits until the condition is true for the ports of the hosts. Returns
    /// the ports. Each round moves the clock by the interval of rescans.
    async fn until(&self, is_true: impl Fn(&BTreeSet<u16>) -> bool) -> BTreeSet<u16> {
        let start = Instant::now();
        loop {
            let items = self.client.database("peer").collection::<Document>("items");
            let found = items.find_one(doc! {}).await;
            let known = self.known();
            match found {
                Ok(_) if is_true(&known) => return known,
                Ok(_) => {}
                // The first lookup can still find the records before the last change, and a jump of
                // the clock can end checks and operations that are under way.
                Err(error) => println!("an operation failed: {error:?}"),
            }
            assert!(start.elapsed() < PATIENCE, "{known:?}");
            self.runtime.advance(INTERVAL);
            tokio::time::sleep(ROUND).await;
        }
    }

    /// Waits until two rescans have found no records since this call.
    async fn until_rescan_failed(&self) {
        let start = Instant::now();
        let before = self.failed_rescans.load(Ordering::SeqCst);
        while self.failed_rescans.load(Ordering::SeqCst) < before + 2 {
            assert!(start.elapsed() < PATIENCE, "no rescan failed");
            self.runtime.advance(INTERVAL);
            tokio::time::sleep(ROUND).await;
        }
    }
}

/// Prose tests 1 to 5, 8, 10, 11 and 13 of `polling-srv-records-for-mongos-discovery`, with records
/// that change on a real name server.
#[test]
fn clients_follow_the_records_of_a_real_name_server() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    for (test, options, after) in [
        (1, "", &[0, 1, 2][..]),
        (2, "", &[0]),
        (3, "", &[0, 2]),
        (4, "", &[2]),
        (5, "", &[2, 3]),
        (8, "", &[]),
        (10, "&srvMaxHosts=0", &[0, 2, 3]),
        (11, "&srvMaxHosts=2", &[2, 3]),
        (13, "&srvServiceName=customname", &[0, 1, 2]),
    ] {
        let service = options.strip_prefix("&srvServiceName=");
        let service = service.unwrap_or("mongodb");
        cluster.name(service, &[0, 1]);
        let follower = Follower::new(&cluster, options);
        runtime.block_on(follower.until_known(&cluster.ports(&[0, 1])));
        cluster.name(service, after);
        if after.is_empty() {
            runtime.block_on(follower.until_rescan_failed());
            runtime.block_on(follower.until_known(&cluster.ports(&[0, 1])));
        } else {
            runtime.block_on(follower.until_known(&cluster.ports(after)));
        }
        runtime.block_on(follower.client.shutdown());
        println!("prose test {test} passed");
    }
}

/// Prose test 12 of the same specification: of the new hosts, a random one takes the free place.
#[test]
fn clients_keep_the_maximum_number_of_hosts() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let follower = Follower::new(&cluster, "&srvMaxHosts=2");
    runtime.block_on(follower.until_known(&cluster.ports(&[0, 1])));
    cluster.name("mongodb", &[0, 2, 3]);
    let gone = cluster.ports(&[1]);
    let is_changed = |known: &BTreeSet<u16>| known.is_disjoint(&gone);
    let known = runtime.block_on(follower.until(is_changed));
    assert_eq!(known.len(), 2);
    assert!(known.is_superset(&cluster.ports(&[0])) && known.is_subset(&cluster.ports(&[0, 2, 3])));
    runtime.block_on(follower.client.shutdown());
}

/// PyMongo, the Node.js driver and this client see the same hosts after each change of the records.
#[test]
fn other_drivers_see_the_same_hosts() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let port = cluster.names.address().port();
    let mut drivers = Vec::new();
    drivers.extend(peers::pymongo_follows_srv(URI, port, DOMAIN).expect("PyMongo starts"));
    drivers.extend(peers::node_follows_srv(URI, port).expect("the driver starts"));
    let follower = Follower::new(&cluster, "");
    for routers in [
        &[0, 1][..],
        &[0, 1, 2],
        &[2, 3],
        &[3],
        &[0, 1, 2, 3],
        &[0, 1],
    ] {
        cluster.name("mongodb", routers);
        let expected = cluster.ports(routers);
        runtime.block_on(follower.until_known(&expected));
        for driver in &drivers {
            let start = Instant::now();
            while last_hosts(&driver.log()) != expected {
                assert!(start.elapsed() < PATIENCE, "{driver:?}: {}", driver.log());
                thread::yield_now();
            }
        }
    }
    println!("{} drivers saw the same hosts", drivers.len() + 1);
    runtime.block_on(follower.client.shutdown());
}

/// Returns the ports in the last line of a driver that begins with `hosts`.
fn last_hosts(log: &str) -> BTreeSet<u16> {
    let last = log
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("hosts "));
    let ports = last.unwrap_or_default().split(' ');
    ports.filter_map(|port| port.parse().ok()).collect()
}
