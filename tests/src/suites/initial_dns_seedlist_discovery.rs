//! The official tests of `initial-dns-seedlist-discovery`. The zone file that comes with them
//! gives the records of a name server, which the stub resolver of the core asks. Without this file
//! the suite fails. The tests check seeds, options and errors. The fields `hosts` and `ping` are
//! ignored, because they need servers.

use crate::{
    report::Suite,
    specifications::{self, TestFile, files},
};
use onionskin_core::{
    address::Address,
    client::{Action, Answer, Client, ClientConfig, Progress, Question},
    dns::{DnsAnswer, DnsData, DnsQuery, Lookup, LookupAction, ResolverConfig},
    error::Error,
    operation::{Command, CommandKind},
    options::ClientOptions,
    random::Seed,
    time::Instant,
    uri::{self, OptionValue},
};
use onionskin_deployment::names::{Transport, Zone};
use serde_json::Value;
use std::{fs, sync::Arc};

/// The folder of the suite.
pub const FOLDER: &str = "initial-dns-seedlist-discovery/tests";

/// The domain of all records of the suite.
pub const DOMAIN: &str = "test.build.10gen.cc";

/// A function that looks up records.
pub type LookUp<'a> = &'a mut dyn FnMut(DnsQuery) -> Result<DnsAnswer, Error>;

/// Runs the suite with a name server that holds the records in memory.
pub fn run() {
    let mut zone = Zone::default();
    for record in official_records().unwrap_or_default() {
        record.add_to(&mut zone);
    }
    run_with("initial-dns-seedlist-discovery", &mut |query| {
        look_up(&mut zone, query)
    });
}

/// Runs the suite with this resolver.
pub fn run_with(name: &'static str, look_up: LookUp<'_>) {
    let Some(files) = files(FOLDER) else { return };
    let mut suite = Suite::new(name, &[]);
    if official_records().is_none() {
        suite.unreadable("zone.txt", "cannot be read, so that no case can run");
        return suite.finish();
    }
    for TestFile { name, content, .. } in files {
        match content {
            Ok(case) => suite.case(&name, "", || run_case(look_up, &case)),
            Err(reason) => suite.unreadable(&name, &reason),
        }
    }
    suite.finish();
}

/// A record of the zone file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfficialRecord {
    /// The name, which ends with a dot.
    pub name: String,
    /// The time to live in seconds.
    pub ttl: u32,
    /// The content.
    pub data: OfficialData,
}

/// The content of a record of the zone file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfficialData {
    /// An IPv4 address.
    Address(String),
    /// The port and the host of an SRV record.
    Service(u16, String),
    /// The strings of a TXT record.
    Text(Vec<String>),
}

impl OfficialRecord {
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [name, ttl, "IN", kind, rest @ ..] = fields.as_slice() else {
            return None;
        };
        let data = match (*kind, rest) {
            ("A", [address]) => OfficialData::Address((*address).to_owned()),
            ("SRV", [port, target]) => {
                OfficialData::Service(port.parse().ok()?, (*target).to_owned())
            }
            ("TXT", strings) => {
                let strings = strings.iter().map(|text| text.trim_matches('"').to_owned());
                OfficialData::Text(strings.collect())
            }
            _ => return None,
        };
        Some(Self {
            name: format!("{}.", name.trim_end_matches('.')),
            ttl: ttl.parse().ok()?,
            data,
        })
    }

    fn add_to(&self, zone: &mut Zone) {
        let (name, ttl) = (self.name.as_str(), self.ttl);
        match &self.data {
            OfficialData::Address(address) => {
                zone.add_address(name, ttl, address.parse().expect("an address"));
            }
            OfficialData::Service(port, target) => zone.add_srv(name, ttl, target, *port),
            OfficialData::Text(strings) => {
                let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
                zone.add_txt(name, ttl, &strings);
            }
        }
    }

    /// Returns the line of a zone file in the form that name servers read.
    #[must_use]
    pub fn line(&self) -> String {
        let data = match &self.data {
            OfficialData::Address(address) => format!("A {address}"),
            OfficialData::Service(port, target) => format!("SRV 0 0 {port} {target}"),
            OfficialData::Text(strings) => {
                let strings: Vec<_> = strings.iter().map(|text| format!("{text:?}")).collect();
                format!("TXT {}", strings.join(" "))
            }
        };
        format!("{} {} IN {data}", self.name, self.ttl)
    }
}

/// Returns the records of the zone file; `None` if there is no such file.
#[must_use]
pub fn official_records() -> Option<Vec<OfficialRecord>> {
    let path = specifications::folder(FOLDER).join("zone.txt");
    let text = fs::read_to_string(path).ok()?;
    let mut records: Vec<_> = text.lines().filter_map(OfficialRecord::parse).collect();
    // The zone file lacks a record that srv-service-name.json expects.
    records.push(OfficialRecord {
        name: format!("_customname._tcp.test22.{DOMAIN}."),
        ttl: 60,
        data: OfficialData::Service(27018, format!("localhost.{DOMAIN}.")),
    });
    Some(records)
}

/// Looks up records with the stub resolver, whose name server has this zone.
fn look_up(zone: &mut Zone, query: DnsQuery) -> Result<DnsAnswer, Error> {
    let config = Arc::new(ResolverConfig::parse(b"nameserver 10.0.0.1"));
    let random = Seed::new([1; 32]).random();
    let mut lookup = Lookup::new(Instant::ZERO, query, config, random, None);
    while let Some(action) = lookup.poll_action() {
        let LookupAction::SendDatagram {
            socket,
            server,
            bytes,
        } = action
        else {
            continue;
        };
        if let Some(reply) = zone.reply(&bytes, Transport::Udp) {
            lookup.handle_datagram(Instant::ZERO, socket, server, &reply);
        }
    }
    lookup.take_result().expect("the name server answers")
}

/// Opens a client with a connection string. Returns its seeds, the resolved options, and the parsed
/// string.
fn resolve(
    look_up: LookUp<'_>,
    uri: &str,
) -> Result<(Vec<Address>, ClientOptions, uri::ParsedUri), Error> {
    let parsed = uri::parse(uri)?;
    let config = ClientConfig::new(parsed.options.clone(), Seed::new([2; 32]))?;
    let mut client = Client::new(config);
    client.open(Instant::ZERO);
    let mut ping = Command::new("ping", "admin", CommandKind::Run);
    ping.body().i32("ping", 1);
    let waiting = client.start(Instant::ZERO, ping);
    let (mut hosts, mut texts) = (Vec::new(), Vec::new());
    while let Some(action) = client.poll_action() {
        let Action::Ask {
            id,
            question: Question::LookUp { query, .. },
        } = action
        else {
            continue;
        };
        let result = look_up(query);
        for record in result.iter().flat_map(|answer| &answer.records) {
            match record {
                DnsData::Service { host, port } => hosts.push(Address::tcp(host, *port)),
                DnsData::Text(text) => texts.push(text.clone()),
                DnsData::Address(_) => {}
            }
        }
        client.handle_answer(Instant::ZERO, id, Answer::Records(result));
    }
    let seeds: Vec<Address> = client.topology().servers.keys().cloned().collect();
    if seeds.is_empty() {
        let Progress::Waiting(id) = waiting else {
            panic!("an operation waits for the seeds: {waiting:?}");
        };
        return match client.resume(Instant::ZERO, id) {
            Progress::Answered(_) => unreachable!("no program asks here"),
            Progress::Failed(error) => Err(error),
            other => panic!("a client without seeds fails its operations: {other:?}"),
        };
    }
    if let limit @ 1.. = parsed.options.srv_max_hosts() {
        hosts.truncate(limit as usize);
    }
    let (options, _) = uri::resolve(&parsed.options, hosts, &texts)?;
    Ok((seeds, options, parsed))
}

fn run_case(look_up: LookUp<'_>, case: &Value) -> Result<(), String> {
    let text = case["uri"].as_str().ok_or("the case has no uri")?;
    let (seeds, options, parsed) = match (resolve(look_up, text), case["error"] == true) {
        (Err(_), true) => return Ok(()),
        (Ok(_), true) => return Err("accepted".to_owned()),
        (Err(error), false) => return Err(format!("refused: {error}")),
        (Ok(found), false) => found,
    };
    if let Some(expected) = case["seeds"].as_array() {
        let mut found: Vec<_> = seeds.iter().map(ToString::to_string).collect();
        let mut expected: Vec<_> = expected.iter().filter_map(Value::as_str).collect();
        found.sort();
        expected.sort_unstable();
        same("seeds", expected, found)?;
    }
    if let Some(number) = case["numSeeds"].as_u64() {
        same("number of seeds", Some(number), seeds.len().try_into().ok())?;
    }
    for (name, expected) in case["options"].as_object().into_iter().flatten() {
        let found = match name.as_str() {
            "ssl" => Value::from(options.tls().is_some()),
            "replicaSet" => Value::from(options.repl_set_name.as_deref()),
            "loadBalanced" => Value::from(options.load_balanced()),
            "directConnection" => Value::from(options.direct_connection),
            "srvMaxHosts" => Value::from(options.srv_max_hosts()),
            "srvAllowedHostsSuffix" => Value::from(options.srv_allowed_hosts_suffix.as_deref()),
            "srvServiceName" => Value::from(options.srv_service_name()),
            // `authSource` is the source of the credential. Without a user name there is no
            // credential.
            "authSource" => match (options.credential.as_ref(), parsed.option(name)) {
                (Some(credential), _) => Value::from(credential.source()),
                (None, Some(OptionValue::Text(source))) => Value::from(source.as_str()),
                (None, _) => continue,
            },
            other => return Err(format!("the runner does not know {other}")),
        };
        same(name, expected.clone(), found)?;
    }
    for (name, expected) in case["parsed_options"].as_object().into_iter().flatten() {
        let credential = options.credential.as_ref();
        let found = match name.as_str() {
            "user" => credential.and_then(|c| c.username.as_deref()),
            "password" => credential
                .and_then(|c| c.password.as_ref())
                .map(|p| p.expose()),
            "db" | "auth_database" | "defaultDatabase" => options.default_database.as_deref(),
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
