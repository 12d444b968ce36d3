//! Clients behind SOCKS5 proxies. The clients cannot reach the members themselves: the network
//! between the clients and the members is cut, and only the proxies have a way.

use crate::{
    event_log::{
        check_out_failed, connection_created, heartbeat_failed, heartbeat_succeeded, pool_cleared,
    },
    scene::{Scene, Watched, balanced, play, replica_set, standalone},
};
use bson::doc;
use onionskin::{Error, HostResolver, dns::ResolverConfig};
use onionskin_core::{
    error::{ErrorKind, IoError, Label, NetworkFault},
    event::{EventKind, PoolEvent},
    options::{ClientOptions, Socks5Proxy},
    random::Seed,
};
use onionskin_deployment::socks5::{Socks5Fault, Socks5Server};
use onionskin_worlds::world::{plan::Disaster, runtime::SimSocks5Proxy};

/// The host of the proxies.
const PROXY: &str = "192.0.2.1";

/// The address that exists only behind the proxies, which map it to the first member.
const MAPPED: &str = "localhost:12345";

/// The credentials of the proxy on port 1080.
const LOGIN: (&str, &str) = ("username", "p4ssw0rd");

/// The proxies of the prose tests (SOCKS-24): one on port 1080 that requires a login, and an open
/// one on port 1081.
struct Proxies {
    strict: SimSocks5Proxy,
    open: SimSocks5Proxy,
}

impl Proxies {
    /// Starts the proxies, and cuts the network between the clients and the members.
    fn new(scene: &Scene) -> Self {
        for member in 0..scene.options.addresses.len() {
            scene.strike(Disaster::CutClient {
                client: 0,
                member,
                up: true,
                down: true,
            });
        }
        let first = &scene.options.addresses[0];
        let first = (first.host().to_owned(), first.port().expect("a port"));
        let start = |port: u16, credentials| {
            let server = Socks5Server {
                credentials,
                mapped: vec![(MAPPED.to_owned(), first.clone())],
                fault: None,
            };
            let address = format!("{PROXY}:{port}").parse().expect("an address");
            let proxy = scene.operator.start_socks5_proxy(address, server);
            proxy.expect("a free address")
        };
        let (name, word) = LOGIN;
        Self {
            strict: start(1080, Some((name.to_owned(), word.to_owned()))),
            open: start(1081, None),
        }
    }

    fn set_fault(&self, fault: Option<Socks5Fault>) {
        self.open.state().server.fault = fault;
    }
}

/// Returns a client of the whole deployment behind the open proxy.
fn proxied(scene: &Scene, options: &str) -> Watched {
    scene.client(&format!("proxyHost={PROXY}&proxyPort=1081&{options}"))
}

async fn hello(client: &Watched) -> Result<(), Error> {
    let admin = client.client.database("admin");
    admin.run_command(doc! { "hello": 1 }).await.map(|_| ())
}

/// Asserts that no event names a proxy (SOCKS-20).
fn assert_unnamed(client: &Watched) {
    for event in client.events.notes(|event| Some(format!("{event:?}"))) {
        let names_it = event.contains(PROXY) || event.contains(":108");
        assert!(!names_it, "{event}");
    }
}

/// A row of the table of prose tests: the number, true for `localhost:12345` with
/// `directConnection`, the port of the proxy, the credentials, and whether `hello` succeeds.
type Row = (u8, bool, u16, Option<(&'static str, &'static str)>, bool);

const WRONG: Option<(&str, &str)> = Some(("nonexistentuser", "badauth"));

/// The table of prose tests (SOCKS-23).
const ROWS: [Row; 11] = [
    (1, true, 1080, None, false),
    (2, true, 1081, None, true),
    (3, false, 1080, None, false),
    (4, false, 1081, None, true),
    (5, true, 1080, WRONG, false),
    (6, true, 1081, WRONG, true),
    (7, false, 1081, WRONG, true),
    (8, true, 1080, Some(LOGIN), true),
    (9, true, 1081, None, true),
    (10, false, 1080, Some(LOGIN), true),
    (11, false, 1081, None, true),
];

/// Returns the client of a row, with its options in the connection string or set in code.
fn client_of(scene: &Scene, row: Row, in_code: bool) -> Watched {
    let (_, is_mapped, port, login, _) = row;
    let hosts: Vec<_> = scene
        .options
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    let (hosts, mut options) = match is_mapped {
        true => (MAPPED.to_owned(), "directConnection=true".to_owned()),
        false => (hosts.join(","), "replicaSet=rs".to_owned()),
    };
    options.push_str("&serverSelectionTimeoutMS=2000");
    if in_code {
        let authentication = login.map(|(name, word)| (name.to_owned(), word.into()));
        let proxy = Socks5Proxy::builder()
            .host(PROXY)
            .port(port)
            .authentication(authentication)
            .build();
        let tune = |options: &mut ClientOptions| {
            options.socks5_proxy = Some(proxy);
        };
        return scene.client_with(&hosts, &options, tune);
    }
    options.push_str(&format!("&proxyHost={PROXY}&proxyPort={port}"));
    if let Some((name, word)) = login {
        options.push_str(&format!("&proxyUsername={name}&proxyPassword={word}"));
    }
    scene.client_of(&hosts, &options)
}

#[test]
fn each_row_of_the_prose_tests_has_its_result() {
    // Prose tests 1 to 11 of socks5-support, by options of the connection string and by options in
    // code (SOCKS-2, SOCKS-9, SOCKS-11, SOCKS-12, SOCKS-13, SOCKS-14, SOCKS-23).
    play([replica_set()], async |scene: Scene| {
        let proxies = Proxies::new(&scene);
        for (row, in_code) in ROWS.into_iter().flat_map(|row| [(row, false), (row, true)]) {
            let (number, _, port, login, succeeds) = row;
            let proxy = if port == 1080 {
                &proxies.strict
            } else {
                &proxies.open
            };
            proxy.state().requests.clear();
            proxy.state().offered.clear();
            let client = client_of(&scene, row, in_code);
            let result = hello(&client).await;
            assert_eq!(result.is_ok(), succeeds, "row {number}: {result:?}");
            let offered: &[u8] = if login.is_some() { &[0, 2] } else { &[0] };
            let all = proxy.state().offered.clone();
            assert!(
                !all.is_empty() && all.iter().all(|methods| methods == offered),
                "row {number}: {all:?}"
            );
            if succeeds {
                assert_unnamed(&client);
                let requests = proxy.state().requests.clone();
                // Connections of the monitor, of its measurements, and of the pool (SOCKS-16). The
                // first member is the primary, and the one to which `localhost:12345` leads.
                assert!(requests.len() >= 2, "row {number}: {requests:?}");
                assert!(
                    requests.contains(&"member0:27017".to_owned()),
                    "{requests:?}"
                );
            } else {
                let text = result.expect_err("it fails").to_string();
                assert!(
                    text.contains(&format!("the SOCKS5 proxy {PROXY}:1080")),
                    "{text}"
                );
            }
            client.end().await;
        }
    });
}

#[test]
fn all_connections_of_a_client_go_through_the_proxy() {
    // Streaming monitors have two connections, and the pools have theirs (SOCKS-11, SOCKS-16). The
    // events and the addresses of connections are those of the servers (SOCKS-20).
    play([standalone(), replica_set()], async |scene: Scene| {
        let proxies = Proxies::new(&scene);
        let client = proxied(&scene, "minPoolSize=2&heartbeatFrequencyMS=500");
        client.insert(1).await.expect("through the proxy");
        let members = scene.options.addresses.len();
        client
            .wait_for(2 * members, "checks", heartbeat_succeeded)
            .await;
        scene.pause(2_000).await;
        let created = client.events.count(connection_created);
        let requests = proxies.open.state().requests.clone();
        assert!(
            requests.len() >= created + 2 * members,
            "{created}: {requests:?}"
        );
        let servers: Vec<String> = client.events.notes(|event| match &event.kind {
            EventKind::Pool(PoolEvent::ConnectionCreated { address, .. }) => {
                Some(address.to_string())
            }
            _ => None,
        });
        let is_member = |name: &String| {
            let mut members = scene.options.addresses.iter();
            members.any(|member| member.to_string() == *name)
        };
        assert!(servers.iter().all(is_member), "{servers:?}");
        assert_unnamed(&client);
        client.end().await;
    });
}

#[test]
fn a_failing_proxy_causes_network_errors_without_overload_labels() {
    // SOCKS-19, CMAP-46. The monitor is connected already, so that the operation gets the error of
    // its own connection.
    let faults = [
        (
            Some(Socks5Fault::Reply(5)),
            "could not reach the server: connection refused",
        ),
        (
            Some(Socks5Fault::Reply(2)),
            "its rules do not allow the connection",
        ),
        (
            Some(Socks5Fault::Bytes(b"HTTP/1.1 400".to_vec())),
            "is it a SOCKS5 proxy?",
        ),
        (
            Some(Socks5Fault::Close),
            "closed the connection after the greeting",
        ),
        (
            Some(Socks5Fault::Silence),
            "the SOCKS5 handshake took longer than 1000 ms",
        ),
        // The proxy requires a password that the client does not have.
        (
            None,
            "requires authentication; set proxyUsername and proxyPassword",
        ),
    ];
    for (fault, words) in faults {
        play([standalone()], async |scene: Scene| {
            let proxies = Proxies::new(&scene);
            let client = proxied(&scene, "retryWrites=false&connectTimeoutMS=1000");
            client.wait_for(1, "a check", heartbeat_succeeded).await;
            scene.pause(1_000).await;
            proxies.set_fault(fault.clone());
            if fault.is_none() {
                let login = Some(("a".to_owned(), "b".to_owned()));
                proxies.open.state().server.credentials = login;
            }
            let error = client.insert(1).await.expect_err("the proxy fails");
            assert!(error.is_network() || error.is_pool_cleared(), "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(!error.has_label(&Label::SystemOverloadedError), "{error}");
            client
                .wait_for(1, "a failed check out", check_out_failed)
                .await;
            client.wait_for(1, "a clear", pool_cleared).await;
            // The proxy works again.
            proxies.set_fault(None);
            proxies.open.state().server.credentials = None;
            client.insert(2).await.expect("through the proxy");
            client.end().await;
        });
    }
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named() {
    play([standalone()], async |scene: Scene| {
        let member = scene.options.addresses[0].clone();
        let client = scene.client(&format!(
            "proxyHost={PROXY}&proxyPort=1&serverSelectionTimeoutMS=1000"
        ));
        let error = hello(&client).await.expect_err("no proxy");
        let ErrorKind::ServerSelection { cause, .. } = error.kind() else {
            panic!("{error:?}");
        };
        let cause = cause.as_ref().expect("the error of the check");
        let fault = match cause.kind() {
            ErrorKind::Io(IoError { fault, .. }) => *fault,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (fault, cause.server()),
            (NetworkFault::Refused, Some(&member))
        );
        let words = format!("cannot connect to the proxy {PROXY}:1: ");
        assert!(cause.to_string().contains(&words), "{cause}");
        assert!(client.events.count(heartbeat_failed) > 0);
        client.end().await;
    });
}

#[test]
fn a_load_balancer_can_be_behind_the_proxy() {
    play([balanced()], async |scene: Scene| {
        let proxies = Proxies::new(&scene);
        let client = proxied(&scene, "retryWrites=false");
        // Until the reply to hello, the service is not known, so an error clears nothing
        // (SDAM-112).
        proxies.set_fault(Some(Socks5Fault::Reply(5)));
        let error = client.insert(1).await.expect_err("the proxy fails");
        assert!(error.is_network(), "{error}");
        assert!(!error.has_label(&Label::SystemOverloadedError), "{error}");
        client.assert_count(0, "clears", pool_cleared);
        proxies.set_fault(None);
        client.insert(2).await.expect("through the proxy");
        let requests = proxies.open.state().requests.clone();
        assert!(
            !requests.is_empty() && requests.iter().all(|to| to == "balancer:27017"),
            "{requests:?}"
        );
        client.end().await;
    });
}

#[test]
fn only_the_name_of_the_proxy_is_looked_up() {
    // The name servers have SRV records (SOCKS-21) and the address of the proxy. They do not know
    // the address of the server, whose name only the proxy resolves (SOCKS-14).
    play([standalone()], async |scene: Scene| {
        let proxies = Proxies::new(&scene);
        let mapped = ("m0.db.test:27017".to_owned(), ("member0".to_owned(), 27017));
        proxies.open.state().server.mapped.push(mapped);
        let place = "10.0.1.1:53".parse().expect("an address");
        let names = scene.operator.start_name_server(place, &Seed::new([3; 32]));
        let names = names.expect("the port is free");
        let host = PROXY.parse().expect("an address");
        names.records().set_addresses("proxy.db.test", &[host]);
        names
            .records()
            .set_srv("_mongodb._tcp.c.db.test", 60, &[("m0.db.test", 27017)]);
        let uri = "mongodb+srv://c.db.test/?tls=false&proxyHost=proxy.db.test&proxyPort=1081";
        let options = onionskin_core::uri::parse(uri).expect("a string").options;
        let client = onionskin::Client::builder(scene.runtime.clone(), options)
            .resolver_config(ResolverConfig::new([names.address()]))
            .host_resolver(HostResolver::Client)
            .seed(Seed::new([7; 32]))
            .build()
            .expect("a client");
        let admin = client.database("admin");
        let ping = admin.run_command(doc! { "ping": 1 }).await;
        ping.expect("through the proxy");
        let asked = names.records().queries().join("\n");
        let has = |name: &str| asked.contains(name);
        assert!(
            has("_mongodb._tcp.c.db.test") && has("proxy.db.test"),
            "{asked}"
        );
        assert!(!has("m0.db.test"), "{asked}");
        drop(admin);
        client.shutdown().await;
    });
}

#[test]
fn the_addresses_of_the_proxy_are_dialled_like_those_of_a_server() {
    // Happy Eyeballs: an address that does not answer delays the next one by 250 ms only.
    play([standalone()], async |scene: Scene| {
        let _proxies = Proxies::new(&scene);
        let [dead, alive] = ["192.0.2.9", PROXY].map(|ip| ip.parse().expect("an address"));
        scene.operator.name_addresses("proxy.test", &[dead, alive]);
        scene.operator.swallow(dead);
        let before = scene.now();
        let client = scene.client("proxyHost=proxy.test&proxyPort=1081");
        hello(&client).await.expect("through the proxy");
        let took = scene.now() - before;
        assert!((250..2_000).contains(&took.as_millis()), "{took:?}");
        let tried: Vec<_> = scene.operator.attempts();
        for address in [dead, alive] {
            assert!(tried.iter().any(|(_, ip)| *ip == address), "{tried:?}");
        }
        client.end().await;
    });
}
