//! The official tests of `initial-dns-seedlist-discovery`. The zone file that comes with them
//! replaces DNS; without this file no test runs. The tests check seeds, options and errors. The
//! fields `hosts` and `ping` are ignored, because they need servers.

use onionskin_core::{
    address::Address,
    options::ClientOptions,
    uri::{self, OptionValue},
};
use onionskin_tests::{
    report::Suite,
    specifications::{self, TestFile, files},
};
use serde_json::Value;
use std::{fs, path::Path};

pub(crate) fn run_suite() {
    let folder = "initial-dns-seedlist-discovery/tests";
    let Some(files) = files(folder) else { return };
    let mut suite = Suite::new("initial-dns-seedlist-discovery", &[]);
    let zone = specifications::folder(folder).join("zone.txt");
    if !zone.is_file() {
        suite.not_attempted("all: there is no zone.txt with the records".to_owned());
        return suite.report();
    }
    let zone = Zone::read(&zone);
    for TestFile { name, content } in files {
        match content {
            Ok(case) => suite.case(&name, "", || run(&zone, &case)),
            Err(reason) => suite.unreadable(&name, &reason),
        }
    }
    suite.finish();
}

/// The SRV and TXT records of the zone file, by name. Names have no final dot.
struct Zone {
    srv: Vec<(String, Address)>,
    txt: Vec<(String, String)>,
}

impl Zone {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("the zone comes with the tests");
        let (mut srv, mut txt) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [name, _, "IN", kind, rest @ ..] = fields.as_slice() else {
                continue;
            };
            let name = name.trim_end_matches('.').to_owned();
            match (*kind, rest) {
                ("SRV", [port, target]) => {
                    let port = port.parse().expect("the zone has ports");
                    srv.push((name, Address::tcp(target.trim_end_matches('.'), port)));
                }
                // The strings of one TXT record are joined with nothing in between (DNS-28).
                ("TXT", strings) => {
                    txt.push((name, strings.iter().map(|s| s.trim_matches('"')).collect()));
                }
                _ => {}
            }
        }
        // The zone file lacks a record that srv-service-name.json expects.
        let name = "_customname._tcp.test22.test.build.10gen.cc".to_owned();
        srv.push((name, Address::tcp("localhost.test.build.10gen.cc", 27018)));
        Self { srv, txt }
    }

    fn resolve(&self, uri: &str) -> Result<(ClientOptions, uri::ParsedUri), String> {
        let parsed = uri::parse(uri).map_err(|e| e.to_string())?;
        let host = parsed.options.srv_host().ok_or("no SRV host")?;
        let query = format!("_{}._tcp.{host}", parsed.options.srv_service_name());
        let srv = self.srv.iter().filter(|(name, _)| *name == query);
        let mut hosts: Vec<_> = srv.map(|(_, address)| address.clone()).collect();
        if let limit @ 1.. = parsed.options.srv_max_hosts() {
            hosts.truncate(limit as usize);
        }
        let txt = self.txt.iter().filter(|(name, _)| name == host);
        let txt: Vec<_> = txt.map(|(_, text)| text.clone()).collect();
        let resolved = uri::resolve(&parsed.options, hosts, &txt).map_err(|e| e.to_string())?;
        Ok((resolved.0, parsed))
    }
}

fn run(zone: &Zone, case: &Value) -> Result<(), String> {
    let text = case["uri"].as_str().ok_or("the case has no uri")?;
    let (options, parsed) = match (zone.resolve(text), case["error"] == true) {
        (Err(_), true) => return Ok(()),
        (Ok(_), true) => return Err("accepted".to_owned()),
        (Err(error), false) => return Err(format!("refused: {error}")),
        (Ok(found), false) => found,
    };
    if let Some(seeds) = case["seeds"].as_array() {
        let mut found: Vec<_> = options.hosts().iter().map(ToString::to_string).collect();
        let mut seeds: Vec<_> = seeds.iter().filter_map(Value::as_str).collect();
        found.sort();
        seeds.sort_unstable();
        same("seeds", seeds, found)?;
    }
    if let Some(number) = case["numSeeds"].as_u64() {
        same(
            "number of seeds",
            Some(number),
            options.hosts().len().try_into().ok(),
        )?;
    }
    for (name, expected) in case["options"].as_object().into_iter().flatten() {
        let found = match name.as_str() {
            "ssl" => Value::from(options.tls().enabled),
            "replicaSet" => Value::from(options.replica_set()),
            "loadBalanced" => Value::from(options.load_balanced()),
            "directConnection" => Value::from(options.direct_connection()),
            "srvMaxHosts" => Value::from(options.srv_max_hosts()),
            "srvServiceName" => Value::from(options.srv_service_name()),
            // `authSource` is the source of the credential. Without a user name there is no
            // credential.
            "authSource" => match (options.credential(), parsed.option(name)) {
                (Some(credential), _) => Value::from(credential.source.as_str()),
                (None, Some(OptionValue::Text(source))) => Value::from(source.as_str()),
                (None, _) => continue,
            },
            other => return Err(format!("the runner does not know {other}")),
        };
        same(name, expected.clone(), found)?;
    }
    for (name, expected) in case["parsed_options"].as_object().into_iter().flatten() {
        let credential = options.credential();
        let found = match name.as_str() {
            "user" => credential.and_then(|c| c.username.as_deref()),
            "password" => credential
                .and_then(|c| c.password.as_ref())
                .map(|p| p.expose()),
            "db" | "auth_database" | "defaultDatabase" => options.default_database(),
            other => return Err(format!("the runner does not know {other}")),
        };
        same(name, expected.as_str(), found)?;
    }
    Ok(())
}

fn same<A, B>(what: &str, expected: A, found: B) -> Result<(), String>
where
    A: PartialEq<B> + std::fmt::Debug,
    B: std::fmt::Debug,
{
    if expected == found {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}"))
}
