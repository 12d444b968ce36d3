//! Clients of `mongodb+srv` connection strings with name servers in the virtual network: hostile
//! replies, and SRV records that change while operations run.

use crate::{
    event_log::EventLog,
    scene::{Replay, Scene, play, sharded_of},
};
use bson::{Document, doc};
use onionskin::{
    Client, HostResolver, Runtime,
    dns::ResolverConfig,
    error::{Argument, Error, ErrorKind},
};
use onionskin_core::{
    dns::MAX_ALIASES,
    event::{CommandEvent, Event, EventKind, SdamEvent},
    options::Monitoring,
    random::Seed,
    time::Instant,
    uri,
};
use onionskin_deployment::names::{FORGED_ADDRESS, FORGED_HOST, NameFaults};
use onionskin_worlds::world::{
    Disaster, LookupFailures, SimRuntime,
    runtime::{Executor, SimNameServer},
};
use std::{
    collections::BTreeSet,
    env,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

const SRV_NAME: &str = "_mongodb._tcp.c.db.test";

/// The number of members of all deployments here.
const MEMBERS: usize = 4;

/// The number of seeds of the test with hostile name servers.
const HOSTILE_SEEDS: u64 = 120;

const SECOND: Duration = Duration::from_secs(1);

/// Starts name servers that know the addresses of all members, and have SRV records of the first
/// `hosts` members.
fn name_servers(runtime: &SimRuntime, count: u8, seed: u64, hosts: &[usize]) -> Vec<SimNameServer> {
    let start = |number: u8| {
        let ip = Ipv4Addr::new(10, 0, 1, number);
        let seed = Seed::new([seed.to_le_bytes()[0] ^ number; 32]);
        let server = runtime.start_name_server(SocketAddr::new(ip.into(), 53), &seed);
        let server = server.expect("the port is free");
        for member in 0..MEMBERS {
            let place = u8::try_from(member).expect("few members");
            let ip = Ipv4Addr::new(10, 0, 0, place);
            server
                .records()
                .set_addresses(&format!("m{member}.db.test"), &[ip]);
        }
        set_hosts(&server, hosts, 60);
        server
    };
    (1..=count).map(start).collect()
}

/// Replaces the SRV records.
fn set_hosts(server: &SimNameServer, members: &[usize], ttl: u32) {
    let names: Vec<String> = members.iter().map(|m| format!("m{m}.db.test")).collect();
    let hosts: Vec<(&str, u16)> = names.iter().map(|name| (name.as_str(), 27017)).collect();
    server.records().set_srv(SRV_NAME, ttl, &hosts);
}

fn client_of(
    runtime: &SimRuntime,
    servers: &[SimNameServer],
    seed: u64,
    monitoring: Monitoring,
    options: &str,
    events: &EventLog,
) -> Client<SimRuntime> {
    let config = ResolverConfig::new(servers.iter().map(SimNameServer::address));
    let uri = format!("mongodb+srv://c.db.test/?tls=false{options}");
    let parsed = uri::parse_for(&uri, monitoring).expect("a connection string");
    Client::builder(runtime.clone(), parsed.options)
        .resolver_config(config)
        .host_resolver(HostResolver::Client)
        .seed(Seed::new([seed as u8; 32]))
        .event_listener(events.listener())
        .build()
        .expect("a client")
}

/// Returns the members that the client knows.
fn known(client: &Client<SimRuntime>) -> BTreeSet<usize> {
    let topology = client.topology();
    let member = |host: &str| {
        host.strip_prefix('m')?
            .strip_suffix(".db.test")?
            .parse()
            .ok()
    };
    let members = topology
        .servers
        .keys()
        .map(|address| member(address.host()).unwrap_or_else(|| panic!("{address} is no member")));
    members.collect()
}

/// Asserts that an error is of a kind that name servers can cause.
fn check_error(error: &Error) {
    let is_expected = matches!(
        error.kind(),
        ErrorKind::DnsResolve { .. }
            | ErrorKind::ServerSelection { .. }
            | ErrorKind::InvalidArgument {
                argument: Argument::Uri(_),
                ..
            }
            | ErrorKind::Io(_)
            | ErrorKind::Timeout { .. }
            | ErrorKind::WaitQueueTimeout { .. }
    );
    assert!(is_expected, "{error:?}");
    assert!(!error.to_string().contains(FORGED_HOST), "{error}");
}

#[test]
fn hostile_name_servers_cause_errors_and_never_give_a_wrong_host() {
    let chosen = env::var("ONIONSKIN_SEED").ok();
    let chosen = chosen.map(|seed| seed.parse::<u64>().expect("a number"));
    let seeds = chosen.map_or(0..HOSTILE_SEEDS, |seed| seed..seed + 1);
    let mut counts = (0, 0);
    for seed in seeds {
        let executor = Executor::around(seed, sharded_of(MEMBERS)).expect("a world");
        let replay = Replay(seed);
        let ended = executor.run(
            Instant::ZERO + SECOND * 1_200,
            hostile(executor.runtime(0), seed),
        );
        let (successes, failures) = match ended {
            Ok(counts) => counts,
            Err(failure) => panic!("{failure}"),
        };
        drop(replay);
        counts = (counts.0 + successes, counts.1 + failures);
    }
    println!("{} operations succeeded, {} failed", counts.0, counts.1);
    if chosen.is_none() {
        assert!(counts.0 > 100 && counts.1 > 50, "{counts:?}");
    }
}

/// Runs clients with hostile name servers. Returns the numbers of operations that succeeded and
/// that failed.
async fn hostile(runtime: SimRuntime, seed: u64) -> (u32, u32) {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = &mut Seed::new(bytes).split("name servers").random();
    let count = 1 + u8::try_from(random.below(3)).expect("few");
    let servers = name_servers(&runtime, count, random.next_u64(), &[0, 1]);
    // The runtime notes all attempts to connect from now on.
    runtime.name_addresses("unused.db.test", &[]);
    for server in &servers {
        server.set_faults(NameFaults::drawn(random));
    }
    let (mut successes, mut failures) = (0, 0);
    for _ in 0..3 {
        let monitoring = match random.below(2) {
            0 => Monitoring::Background,
            _ => Monitoring::Scanning,
        };
        let limits = "&connectTimeoutMS=4000&serverSelectionTimeoutMS=5000";
        let (seed, events) = (random.next_u64(), EventLog::default());
        let client = client_of(&runtime, &servers, seed, monitoring, limits, &events);
        for _ in 0..3 {
            if try_find(&runtime, &client).await {
                successes += 1;
            } else {
                failures += 1;
            }
            // The next operation comes after a rescan, or before one if the client scans.
            runtime.sleep(SECOND * 70).await;
        }
        client.shutdown().await;
        assert_eq!(runtime.datagram_sockets(), 0);
    }
    // A client has few lookups at once: SRV and TXT, or two families for each of two hosts. Each
    // lookup has at most one socket for each try.
    let tries = usize::from(count) * 2;
    let lookups = 2 + 2 * 2;
    assert!(runtime.most_datagram_sockets() <= tries * lookups);
    for server in &servers {
        server.set_faults(NameFaults::default());
        let bound = (MAX_ALIASES + 1) * usize::from(count) * 1_000;
        assert!(server.records().queries().len() < bound);
    }
    let forged = IpAddr::from(FORGED_ADDRESS);
    assert!(runtime.attempts().iter().all(|(_, ip)| *ip != forged));
    let events = EventLog::default();
    let monitoring = Monitoring::Background;
    let client = client_of(&runtime, &servers, seed, monitoring, "", &events);
    assert!(try_find(&runtime, &client).await, "the name servers healed");
    client.shutdown().await;
    (successes, failures)
}

/// Clients that ask name servers over the network meet the failing lookups of their world.
#[test]
fn lookups_over_the_network_fail_while_those_of_the_world_do() {
    let none = LookupFailures::default();
    let [unanswered, failed, truncated, empty] = [1000; 4];
    for failures in [
        LookupFailures { unanswered, ..none },
        LookupFailures { failed, ..none },
        LookupFailures { truncated, ..none },
        LookupFailures { empty, ..none },
    ] {
        let executor = Executor::around(1, sharded_of(MEMBERS)).expect("a world");
        let runtime = executor.runtime(0);
        let main = async move {
            let servers = name_servers(&runtime, 2, 1, &[0, 1]);
            for (event, succeeds) in [
                (Disaster::FailNames(failures), false),
                (Disaster::MendNames, true),
            ] {
                runtime.strike(&event);
                let limits = "&connectTimeoutMS=4000&serverSelectionTimeoutMS=5000";
                let (monitoring, events) = (Monitoring::Background, EventLog::default());
                let client = client_of(&runtime, &servers, 1, monitoring, limits, &events);
                assert_eq!(try_find(&runtime, &client).await, succeeds, "{event}");
                client.shutdown().await;
            }
        };
        let ended = executor.run(Instant::ZERO + SECOND * 200, main);
        ended.expect("the world goes on");
    }
}

/// Runs an operation. Returns true if it succeeds.
async fn try_find(runtime: &SimRuntime, client: &Client<SimRuntime>) -> bool {
    let members = [0, 1].into();
    let was_resolved = !known(client).is_empty();
    let things = client.database("app").collection::<Document>("things");
    let before = (runtime.now(), runtime.steps());
    let find = things.find_one(doc! { "_id": 1 }).timeout(SECOND * 15);
    let result = find.await;
    let (took, steps) = (runtime.now() - before.0, runtime.steps() - before.1);
    assert!(took <= SECOND * 16, "{took:?}");
    assert!(steps < 60_000, "{steps} steps");
    if was_resolved || result.is_ok() {
        assert_eq!(known(client), members);
    }
    assert!(known(client).is_subset(&members));
    match result {
        Ok(found) => assert_eq!(found, None),
        Err(error) => {
            check_error(&error);
            return false;
        }
    }
    true
}

/// The callers of a client, which run operations until the value is set.
#[derive(Clone, Default)]
struct Load {
    is_over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

impl Load {
    /// Inserts and finds documents with pauses, until the load is over. Panics if one fails.
    async fn run(self, scene: Scene, client: Client<SimRuntime>, caller: u8) {
        let things = client.database("app").collection("things");
        let mut random = Seed::new([caller ^ scene.seed as u8; 32]).random();
        for number in 0_i64.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let id = i64::from(caller) << 32 | number;
            things
                .insert_one(doc! { "_id": id })
                .await
                .expect("it succeeds");
            let found = things.find_one(doc! { "_id": id }).await.expect("a reply");
            assert_eq!(found, Some(doc! { "_id": id }));
            self.done.fetch_add(2, Ordering::Relaxed);
            scene.pause(300 + random.below(2_400)).await;
        }
    }
}

/// Returns the members that got commands of operations since the mark, and the notices about
/// rescans.
fn seen_since(events: &EventLog, mark: usize) -> (BTreeSet<String>, usize, usize) {
    let is_operation = |name: &str| ["insert", "find"].contains(&name);
    let commands = events.notes_since(mark, |event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, .. }) if is_operation(&facts.name) => {
            Some(facts.address.host().trim_end_matches(".db.test").to_owned())
        }
        _ => None,
    });
    let count = |is: fn(&SdamEvent) -> bool| {
        let notices = events.notes_since(mark, |event: &Event| match &event.kind {
            EventKind::Sdam(event) if is(event) => Some(()),
            _ => None,
        });
        notices.len()
    };
    (
        commands.into_iter().collect(),
        count(|event| matches!(event, SdamEvent::RescanFailed { .. })),
        count(|event| matches!(event, SdamEvent::HostIgnored { .. })),
    )
}

/// Operations run on the hosts of the latest SRV records without a failure, while hosts are added
/// and removed (prose tests 1 to 5 of SRV polling), and while the records cannot be used (prose
/// tests 6 to 8).
#[test]
fn clients_follow_srv_records_while_operations_run() {
    play([sharded_of(MEMBERS)], |scene| async move {
        let servers = name_servers(&scene.runtime, 2, scene.seed, &[0, 1]);
        let (events, load) = (EventLog::default(), Load::default());
        let limits = "&heartbeatFrequencyMS=2000&maxPoolSize=3&connectTimeoutMS=3000";
        let monitoring = Monitoring::Background;
        let client = client_of(
            &scene.runtime,
            &servers,
            scene.seed,
            monitoring,
            limits,
            &events,
        );
        let callers: Vec<_> = (0..5)
            .map(|caller| scene.spawn(load.clone().run(scene.clone(), client.clone(), caller)))
            .collect();
        // The first lookup is over, so faults of the name servers fail no operation from now on.
        scene.until("a server", || !known(&client).is_empty()).await;
        for members in [&[0, 1, 2][..], &[1, 2, 3], &[3], &[0, 3], &[0, 1, 2, 3]] {
            for server in &servers {
                set_hosts(server, members, 60);
                server.set_faults(NameFaults {
                    lose: 150,
                    duplicate: 300,
                    forge_id: 300,
                    forge_question: 300,
                    forge_source: 300,
                    ..NameFaults::default()
                });
            }
            let start = scene.now();
            let expected: BTreeSet<usize> = members.iter().copied().collect();
            while known(&client) != expected {
                // The interval is 60 s, and a failed rescan is repeated after 2 s.
                assert!(scene.now() < start + SECOND * 90, "{:?}", known(&client));
                scene.pause(100).await;
            }
            // Operations that have selected a server before the change end.
            scene.pause(1_000).await;
            client.flush_events().await;
            let (mark, before) = (events.mark(), load.done.load(Ordering::Relaxed));
            scene.pause(10_000).await;
            client.flush_events().await;
            let names: BTreeSet<String> = members.iter().map(|m| format!("m{m}")).collect();
            assert_eq!(seen_since(&events, mark).0, names);
            assert!(load.done.load(Ordering::Relaxed) > before + 30);
        }
        keep_hosts_without_usable_records(&scene, &servers, &client, &events).await;
        load.is_over.store(true, Ordering::Relaxed);
        for caller in callers {
            scene.ended("an operation", caller).await;
        }
        client.shutdown().await;
        assert_eq!(scene.runtime.datagram_sockets(), 0);
        scene.pause(1_000).await;
        drop(servers);
        scene.pause(1_000).await;
        assert_eq!(scene.runtime.open_links(), 0);
    });
}

async fn keep_hosts_without_usable_records(
    scene: &Scene,
    servers: &[SimNameServer],
    client: &Client<SimRuntime>,
    events: &EventLog,
) {
    let all: BTreeSet<usize> = (0..MEMBERS).collect();
    for fault in 0..4 {
        for server in servers {
            server.set_faults(NameFaults::default());
            let mut zone = server.records();
            zone.set_silent(fault == 0);
            match fault {
                1 => zone.set_srv(SRV_NAME, 60, &[]),
                2 => zone.set_srv(SRV_NAME, 60, &[("m0.evil.test", 27017), (".", 27017)]),
                3 => {
                    let mixed = [0, 1, 2, 3].map(|member| format!("m{member}.db.test"));
                    let mut mixed: Vec<_> = mixed.iter().map(|m| (m.as_str(), 27017)).collect();
                    mixed.push(("m0.evil.test", 27017));
                    zone.set_srv(SRV_NAME, 60, &mixed);
                }
                _ => {}
            }
        }
        client.flush_events().await;
        let mark = events.mark();
        scene.pause(100_000).await;
        client.flush_events().await;
        assert_eq!(known(client), all);
        let (names, failed, ignored) = seen_since(events, mark);
        assert_eq!(names.len(), MEMBERS);
        match fault {
            3 => assert!(ignored > 0, "fault {fault}"),
            _ => assert!(failed > 1, "fault {fault}: {failed}"),
        }
    }
}

/// Prose tests 9 to 13 of SRV polling: the first records have the members 0 and 1, and the second
/// ones those of the table.
#[test]
fn srv_options_decide_which_hosts_of_a_rescan_are_used() {
    let rows = [
        (9, "loadBalanced=true", &[0][..], &[0, 1][..], &[0][..]),
        (10, "srvMaxHosts=0", &[0, 1], &[0, 2, 3], &[0, 2, 3]),
        (11, "srvMaxHosts=2", &[0, 1], &[2, 3], &[2, 3]),
        (12, "srvMaxHosts=2", &[0, 1], &[0, 2, 3], &[0]),
        (
            13,
            "srvServiceName=customname",
            &[0, 1],
            &[0, 1, 2],
            &[0, 1, 2],
        ),
    ];
    for (test, option, first, second, expected) in rows {
        play([sharded_of(MEMBERS)], move |scene| async move {
            let servers = name_servers(&scene.runtime, 1, scene.seed, &[]);
            let service = option.strip_prefix("srvServiceName=").unwrap_or("mongodb");
            let name = format!("_{service}._tcp.c.db.test");
            let set = |members: &[usize]| {
                let names: Vec<_> = members.iter().map(|m| format!("m{m}.db.test")).collect();
                let hosts: Vec<_> = names.iter().map(|name| (name.as_str(), 27017)).collect();
                servers[0].records().set_srv(&name, 60, &hosts);
            };
            set(first);
            let (events, option) = (EventLog::default(), format!("&{option}"));
            let monitoring = Monitoring::Background;
            let client = client_of(
                &scene.runtime,
                &servers,
                scene.seed,
                monitoring,
                &option,
                &events,
            );
            scene
                .until("the first hosts", || known(&client).len() == first.len())
                .await;
            set(second);
            scene.pause(70_000).await;
            let (found, expected) = (known(&client), expected.iter().copied().collect());
            match test {
                // One of the new hosts is chosen at random.
                12 => assert!(
                    found.len() == 2 && found.is_superset(&expected),
                    "{found:?}"
                ),
                _ => assert_eq!(found, expected, "prose test {test}"),
            }
            client.shutdown().await;
        });
    }
}
