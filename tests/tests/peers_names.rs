//! Tests of seed lists with NSD, an authoritative name server, over UDP and TCP.

use bson::{Document, doc};
use onionskin::{Client, HostResolver};
use onionskin_core::{
    address::Address,
    dns::{DnsQuery, RecordKind},
    event::{EventKind, SdamEvent},
};
use onionskin_simulations::serve::{Embedded, ServeOptions};
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
    let (Some(mut server), Some(records)) = (
        peers::nsd(DOMAIN).expect("NSD starts"),
        seed_lists::official_records(),
    ) else {
        return;
    };
    let lines: Vec<String> = records.iter().map(|record| record.line()).collect();
    server.set_records(&lines).expect("NSD reads the records");
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
    let Some(mut server) = peers::nsd("db.test").expect("NSD starts") else {
        return;
    };
    let hosts = 0..200;
    let line = |n| {
        format!(
            "_mongodb._tcp.c.db.test. 60 IN SRV 0 0 {} h{n}.db.test.",
            27000 + n
        )
    };
    let lines: Vec<String> = hosts.clone().map(line).collect();
    server.set_records(&lines).expect("NSD reads the records");
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
    fn start() -> Option<Self> {
        let names = peers::nsd(DOMAIN).expect("NSD starts")?;
        let deployment = Embedded::start(ServeOptions::sharded(4)).expect("routers start");
        Some(Self { names, deployment })
    }

    /// Makes the SRV records name these routers only.
    fn name(&mut self, routers: &[usize]) {
        let mut lines = vec![format!("localhost.{DOMAIN}. 60 IN A 127.0.0.1")];
        lines.extend(self.ports(routers).into_iter().map(|port| {
            format!("_mongodb._tcp.test1.{DOMAIN}. 1 IN SRV 0 0 {port} localhost.{DOMAIN}.")
        }));
        self.names
            .set_records(&lines)
            .expect("NSD reads the records");
    }

    fn ports(&self, routers: &[usize]) -> BTreeSet<u16> {
        let addresses = self.deployment.addresses();
        routers
            .iter()
            .map(|router| addresses[*router].port())
            .collect()
    }
}

const URI: &str = "mongodb+srv://test1.test.build.10gen.cc/?tls=false";

/// The time limit of a change of the hosts.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of a [`Cluster`] whose clock the test moves.
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
                if matches!(event.kind, EventKind::Sdam(SdamEvent::RescanFailed { .. })) {
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

    /// Reads a document, and waits until the hosts are those with these ports. Each round moves the
    /// clock by the interval of rescans if `moves` is true.
    async fn until_known(&self, expected: &BTreeSet<u16>, moves: bool) {
        let start = Instant::now();
        loop {
            let items = self.client.database("peer").collection::<Document>("items");
            items.find_one(doc! {}).await.expect("a reply");
            if self.known() == *expected {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{:?}", self.known());
            if moves {
                self.runtime.advance(Duration::from_secs(61));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Prose tests 1 to 5, 8, 10 and 11 of `polling-srv-records-for-mongos-discovery`, with records
/// that change on a real name server.
#[test]
fn clients_follow_the_records_of_a_real_name_server() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for (test, options, after, expected) in [
        (1, "", &[0, 1, 2][..], Some(&[0, 1, 2][..])),
        (2, "", &[0], Some(&[0])),
        (3, "", &[0, 2], Some(&[0, 2])),
        (4, "", &[2], Some(&[2])),
        (5, "", &[2, 3], Some(&[2, 3])),
        (8, "", &[], None),
        (10, "&srvMaxHosts=0", &[0, 2, 3], Some(&[0, 2, 3])),
        (11, "&srvMaxHosts=2", &[2, 3], Some(&[2, 3])),
    ] {
        cluster.name(&[0, 1]);
        let _entered = runtime.enter();
        let follower = Follower::new(&cluster, options);
        runtime.block_on(follower.until_known(&cluster.ports(&[0, 1]), false));
        cluster.name(after);
        let Some(expected) = expected else {
            while follower.failed_rescans.load(Ordering::SeqCst) == 0 {
                follower.runtime.advance(Duration::from_secs(61));
                runtime.block_on(tokio::time::sleep(Duration::from_millis(20)));
            }
            runtime.block_on(follower.until_known(&cluster.ports(&[0, 1]), false));
            println!("prose test {test} passed");
            continue;
        };
        runtime.block_on(follower.until_known(&cluster.ports(expected), true));
        runtime.block_on(follower.client.shutdown());
        println!("prose test {test} passed");
    }
}

/// PyMongo, the Node.js driver and this client see the same hosts after each change of the records.
#[test]
fn other_drivers_see_the_same_hosts() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    cluster.name(&[0, 1]);
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
        cluster.name(routers);
        let expected = cluster.ports(routers);
        runtime.block_on(follower.until_known(&expected, true));
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
