//! The fields `hosts` and `ping` of the official tests `initial-dns-seedlist-discovery`: clients
//! find the records at NSD, connect to simulated deployments over TLS, and discover their members.

use onionskin::{Client, HostResolver};
use onionskin_core::{address::Address, dns::ResolverConfig};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::{
    compressors::with_compressors,
    peers::{self, Nsd},
    report::Suite,
    specifications::{TestFile, files},
    suites::initial_dns_seedlist_discovery::{DOMAIN, FOLDER, OfficialData, official_records},
};
use onionskin_tokio::TokioRuntime;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// The time limit of the discovery of all hosts.
const PATIENCE: Duration = Duration::from_secs(60);

/// A deployment, with its own port for each port of the official records.
struct Place {
    deployment: Embedded,
    ports: BTreeMap<u16, u16>,
}

impl Place {
    fn start(mut options: ServeOptions, tls: bool) -> Self {
        let is_balanced = options.load_balanced;
        options.tls = tls;
        let deployment = Embedded::start(options).expect("it starts");
        let (_, rest) = deployment.uri().split_once("://").expect("a scheme");
        let (hosts, _) = rest.split_once('/').expect("options");
        let port = |host: &str| host.rsplit(':').next()?.parse().ok();
        let own: Vec<u16> = hosts.split(',').filter_map(port).collect();
        let official: &[u16] = if is_balanced {
            &[8000]
        } else {
            &[27017, 27018, 27019]
        };
        let ports = official.iter().copied().zip(own).collect();
        Self { deployment, ports }
    }

    /// Starts a name server that names the hosts of this deployment.
    fn names(&self) -> Option<Nsd> {
        let lines = official_records().into_iter().flatten().map(|mut record| {
            if let OfficialData::Service(port, _) = &mut record.data {
                *port = self.ports.get(port).copied().unwrap_or(*port);
            }
            record.line()
        });
        peers::nsd(DOMAIN, &lines.collect::<Vec<_>>()).expect("NSD starts")
    }

    /// Returns the address of this deployment for a host of an official test.
    fn address(&self, host: &str) -> String {
        let (host, port) = host.rsplit_once(':').expect("a port");
        let port = port.parse().expect("a number");
        let port = self.ports.get(&port).copied().unwrap_or(port);
        match host {
            "localhost" => format!("127.0.0.1:{port}"),
            host => format!("{host}:{port}"),
        }
    }

    async fn run(&self, case: &Value, config: ResolverConfig) -> Result<(), String> {
        let text = case["uri"].as_str().ok_or("the case has no uri")?;
        let separator = match text.split_once("://").map_or(text, |(_, rest)| rest) {
            rest if rest.contains('?') => "&",
            rest if rest.contains('/') => "?",
            _ => "/?",
        };
        let mut uri = text.to_owned();
        if case["options"]["ssl"] != false {
            // The certificates are not for the names of the official records.
            uri = format!("{text}{separator}tlsAllowInvalidCertificates=true");
        }
        let client = Client::builder_from_uri(TokioRuntime::default(), &with_compressors(&uri))
            .map_err(|error| error.to_string())?
            .resolver_config(config)
            .host_resolver(HostResolver::Client)
            .build()
            .map_err(|error| error.to_string())?;
        if case["ping"] == true {
            let admin = client.database("admin");
            let ping = admin.run_command(bson::doc! { "ping": 1 });
            ping.await.map_err(|error| error.to_string())?;
        }
        let expected = case["hosts"].as_array().map(|hosts| {
            let hosts = hosts.iter().filter_map(Value::as_str);
            hosts
                .map(|host| self.address(host))
                .collect::<BTreeSet<_>>()
        });
        let start = Instant::now();
        loop {
            let known: BTreeSet<String> = {
                let topology = client.topology();
                topology.servers.keys().map(Address::to_string).collect()
            };
            let is_number = case["numHosts"].as_u64() == u64::try_from(known.len()).ok();
            if expected.as_ref().map_or(is_number, |hosts| *hosts == known) {
                break;
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("expected {expected:?}, found {known:?}"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.shutdown().await;
        Ok(())
    }
}

/// A client discovers all hosts of a deployment and reaches them.
#[test]
fn hosts_of_official_seed_lists_are_discovered_and_reached_over_tls() {
    let Some(files) = files(FOLDER) else { return };
    assert!(official_records().is_some(), "there is no zone.txt");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let mut suite = Suite::new("initial-dns-seedlist-discovery with servers", &[]);
    let set = || ServeOptions::replica_set("repl0", 3);
    for (folder, tls, options) in [
        ("replica-set/", true, set()),
        ("replica-set/", false, set()),
        ("sharded/", true, ServeOptions::sharded(2)),
        ("load-balanced/", true, ServeOptions::load_balanced(2)),
    ] {
        let place = Place::start(options, tls);
        let Some(names) = place.names() else { return };
        for TestFile { name, content, .. } in &files {
            let Ok(case) = content else { continue };
            let has_hosts = case["hosts"].is_array() || case["numHosts"].is_u64();
            let has_hosts = has_hosts && case["error"] != true;
            let is_encrypted = case["options"]["ssl"] != false;
            if name.contains(folder) && has_hosts && is_encrypted == tls {
                let config = names.resolver_config();
                suite.case(name, "", || runtime.block_on(place.run(case, config)));
            }
        }
        drop(place.deployment);
    }
    suite.finish();
}
