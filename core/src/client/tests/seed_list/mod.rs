//! Tests of `mongodb+srv` clients: the lookup of their seeds. The servers are `mongos` unless a
//! test says otherwise.

mod lookup;
mod prose;
mod rescans;

use super::*;
use crate::{
    dns::{DnsAnswer, DnsData, RecordKind},
    error::{DnsFailure, ErrorKind},
    event::SdamEvent,
    options::Monitoring,
};
use std::time::Duration;

const URI: &str = "mongodb+srv://c.example.net/?tls=false";
const SECOND: Duration = Duration::from_secs(1);

/// Returns an answer with these hosts of `example.net`, at port 27017.
fn hosts(names: &[&str], ttl: u64) -> Result<DnsAnswer, Error> {
    let service = |name: &&str| DnsData::Service {
        host: format!("{name}.example.net"),
        port: 27017,
    };
    Ok(DnsAnswer {
        records: names.iter().map(service).collect(),
        ttl: Some(Duration::from_secs(ttl)),
    })
}

fn text(text: &str) -> Result<DnsAnswer, Error> {
    Ok(DnsAnswer {
        records: vec![DnsData::Text(text.to_owned())],
        ttl: None,
    })
}

fn failure(failure: DnsFailure) -> Error {
    let message = "the name server says no".to_owned();
    ErrorKind::DnsResolve { failure, message }.into()
}

fn no_text() -> Result<DnsAnswer, Error> {
    Err(failure(DnsFailure::NoRecords))
}

impl World {
    fn srv_world(text: &str) -> Self {
        Self::with_subscriptions(text, mongos(), Subscriptions::all())
    }

    /// Returns a client whose first lookup gave these hosts with a time to live of 60 seconds.
    fn sharded(names: &[&str]) -> Self {
        let mut world = Self::srv_world(URI);
        world.answer_seeds(hosts(names, 60), no_text());
        world
    }

    /// Answers the query for records of this type.
    fn answer_lookup(&mut self, kind: RecordKind, result: Result<DnsAnswer, Error>) {
        let is_wanted = |(_, query): &(QuestionId, DnsQuery)| query.kind == kind;
        let place = self.lookups.iter().position(is_wanted).expect("a query");
        let (id, _) = self.lookups.remove(place);
        self.client
            .handle_answer(self.now, id, Answer::Records(result));
        self.run();
    }

    fn answer_seeds(&mut self, srv: Result<DnsAnswer, Error>, txt: Result<DnsAnswer, Error>) {
        self.answer_lookup(RecordKind::Txt, txt);
        self.answer_lookup(RecordKind::Srv, srv);
    }

    /// Returns the queries that are under way.
    fn queries(&self) -> Vec<String> {
        let queries = self.lookups.iter();
        queries.map(|(_, query)| query.to_string()).collect()
    }

    /// Returns the hosts of the topology without their domain and port.
    fn known_hosts(&self) -> Vec<String> {
        let servers = self.client.topology().servers.keys();
        let name = |address: &Address| address.host().trim_end_matches(".example.net").to_owned();
        servers.map(name).collect()
    }

    fn events(&mut self) -> Vec<SdamEvent> {
        let events = std::iter::from_fn(|| self.client.poll_event());
        let kinds = events.filter_map(|event| match event.kind {
            EventKind::Sdam(event) => Some(event),
            _ => None,
        });
        kinds.collect()
    }

    /// Starts a ping, and returns the operation that waits or the error.
    fn ping(&mut self) -> Result<OperationId, Error> {
        let progress = self.client.start(self.now, ping());
        self.run();
        match progress {
            Progress::Waiting(id) => Ok(id),
            Progress::Failed(error) => Err(error),
            other => panic!("it has a connection: {other:?}"),
        }
    }

    /// Resumes a waiting operation that has failed, and returns its error.
    fn error_of(&mut self, id: OperationId) -> Error {
        match self.client.resume(self.now, id) {
            Progress::Failed(error) => error,
            other => panic!("it has not failed: {other:?}"),
        }
    }
}

#[test]
fn both_queries_are_asked_at_once_and_no_server_is_dialled_before_both_answers() {
    // DNS-15, DNS-22, DNS-26. The order of both queries is free (DNS-35).
    let mut world = World::srv_world(URI);
    let expected = ["SRV _mongodb._tcp.c.example.net", "TXT c.example.net"];
    assert_eq!(world.queries(), expected);
    world.answer_lookup(RecordKind::Srv, hosts(&["a", "b"], 60));
    assert!(world.dialled.is_empty() && world.events().is_empty());
    world.answer_lookup(RecordKind::Txt, no_text());
    assert_eq!(world.known_hosts(), ["a", "b"]);
    assert!(matches!(
        world.events()[0],
        SdamEvent::TopologyOpening { .. }
    ));
    let exchange = world.begin_exchange(ping());
    world.check_in(exchange, Outcome::Failed(failure(DnsFailure::Refused)));
}

#[test]
fn operations_that_wait_for_the_seed_list_begin_when_it_is_resolved() {
    for monitoring in [Monitoring::Background, Monitoring::Scanning] {
        let options = uri::parse_for(URI, monitoring).expect("a connection string");
        let options = options.options;
        let mut world = World::with_options(options, mongos(), Subscriptions::default());
        let is_background = monitoring == Monitoring::Background;
        assert_eq!(world.lookups.len(), if is_background { 2 } else { 0 });
        let id = world.ping().expect("it waits");
        assert_eq!(world.lookups.len(), 2);
        world.answer_seeds(hosts(&["a"], 60), no_text());
        assert!(world.woken.contains(&id), "{monitoring:?}");
        let progress = world.client.resume(world.now, id);
        assert!(matches!(progress, Progress::Exchange(_)), "{progress:?}");
    }
}

#[test]
fn a_failed_lookup_fails_waiting_operations_and_the_next_operation_looks_up_again() {
    // DNS-12, DNS-18.
    for kind in [RecordKind::Srv, RecordKind::Txt] {
        let mut world = World::srv_world(URI);
        let waiting = world.ping().expect("it waits");
        let error = failure(DnsFailure::Refused);
        match kind {
            RecordKind::Srv => world.answer_seeds(Err(error.clone()), no_text()),
            _ => world.answer_seeds(hosts(&["a"], 60), Err(error.clone())),
        }
        assert_eq!(world.error_of(waiting).kind(), error.kind());
        assert!(world.lookups.is_empty(), "no operation waits");
        world.wait(SECOND * 3600);
        assert!(world.lookups.is_empty() && due(&world.client).is_none());
        let waiting = world.ping().expect("it waits");
        assert_eq!(world.lookups.len(), 2);
        world.answer_seeds(hosts(&["a"], 60), no_text());
        assert!(world.woken.contains(&waiting));
        assert_eq!(world.known_hosts(), ["a"]);
    }
}

#[test]
fn the_rules_of_seed_lists_are_checked_after_the_lookup() {
    for (uri, names, txt, part) in [
        (
            "",
            &["a", "x.evil.org"][..],
            no_text(),
            "outside of the domain",
        ),
        ("", &["a"][..], text("ssl=false"), "TXT record"),
        (
            "",
            &["a", "b"][..],
            text("loadBalanced=true"),
            "loadBalanced",
        ),
        (
            "&srvMaxHosts=1",
            &["a", "b"][..],
            text("replicaSet=rs"),
            "srvMaxHosts",
        ),
        (
            "&srvMaxHosts=1",
            &["a", "x.evil.org"][..],
            no_text(),
            "outside",
        ),
    ] {
        let mut world = World::srv_world(&format!("{URI}{uri}"));
        let waiting = world.ping().expect("it waits");
        let mut srv = hosts(names, 60).expect("hosts");
        for record in &mut srv.records {
            if let DnsData::Service { host, .. } = record
                && host.starts_with("x.")
            {
                *host = host.trim_end_matches(".example.net").to_owned();
            }
        }
        world.answer_seeds(Ok(srv), txt);
        let error = world.error_of(waiting);
        assert!(error.to_string().contains(part), "{error}");
        assert!(world.dialled.is_empty(), "no host is contacted (DNS-21)");
    }
}

#[test]
fn the_txt_record_sets_options_of_the_topology_and_of_new_connections() {
    let options = uri::parse("mongodb+srv://u:p@c.example.net/?tls=false").expect("a string");
    let hello = primary();
    let mut world = World::with_options(options.options, hello, Subscriptions::all());
    world.answer_seeds(hosts(&["a"], 60), text("replicaSet=rs&authSource=users"));
    assert_eq!(world.client.topology().set_name.as_deref(), Some("rs"));
    let credential = world.client.settings.handshake.credential.clone();
    assert_eq!(credential.expect("a credential").source(), "users");
    // A TXT record with an unusable value is reported, and its option is ignored (DNS-34).
    let mut world = World::srv_world(URI);
    world.answer_seeds(hosts(&["a"], 60), text("loadBalanced=maybe"));
    let is_notice = |event: &SdamEvent| matches!(event, SdamEvent::TxtRecordIgnored { .. });
    assert!(world.events().iter().any(is_notice));
}

#[test]
fn behind_a_load_balancer_srv_records_are_not_looked_up_again() {
    // SRV-6, prose test 9 of SRV polling.
    let mut world = World::srv_world(URI);
    world.answer_seeds(hosts(&["a"], 60), text("loadBalanced=true"));
    let topology_type = world.client.topology().topology_type;
    assert_eq!(
        topology_type,
        crate::description::TopologyType::LoadBalanced
    );
    assert!(world.client.settings.handshake.load_balanced);
    world.wait(SECOND * 3600);
    assert!(world.lookups.is_empty());
}

#[test]
fn with_srv_max_hosts_a_random_choice_of_hosts_becomes_seeds() {
    // DNS-24.
    let mut seen = BTreeSet::new();
    for seed in 0..40 {
        let options = uri::parse(&format!("{URI}&srvMaxHosts=2"))
            .expect("a string")
            .options;
        let seed = Seed::new([seed; 32]);
        let mut world = World::with_seed(options, mongos(), Subscriptions::default(), seed);
        world.answer_seeds(hosts(&["a", "b", "c"], 60), no_text());
        seen.insert(world.known_hosts());
    }
    let pairs = [["a", "b"], ["a", "c"], ["b", "c"]];
    let expected = pairs.map(|pair| pair.map(str::to_owned).to_vec());
    assert_eq!(seen, expected.into());
}

#[test]
fn a_lookup_without_an_answer_ends_at_its_limit() {
    // Timer T-8.
    let mut world = World::srv_world(&format!("{URI}&connectTimeoutMS=2000"));
    let waiting = world.ping().expect("it waits");
    world.wait(SECOND * 3);
    let error = world.error_of(waiting);
    assert!(error.to_string().contains("c.example.net"), "{error}");
    assert!(world.lookups.is_empty(), "the questions are withdrawn");

    let mut world = World::sharded(&["a"]);
    world.wait(SECOND * 60);
    world.wait(SECOND * 11);
    assert!(world.lookups.is_empty());
    assert_eq!(world.known_hosts(), ["a"]);
    world.wait(SECOND * 10);
    assert_eq!(
        world.lookups.len(),
        1,
        "a failure, after `heartbeatFrequencyMS`"
    );
}

#[test]
fn server_selection_times_out_while_the_seed_list_is_looked_up() {
    let limits = "&serverSelectionTimeoutMS=500";
    for monitoring in [Monitoring::Background, Monitoring::Scanning] {
        let options = uri::parse_for(&format!("{URI}{limits}"), monitoring).expect("a string");
        let options = options.options;
        let mut world = World::with_options(options, mongos(), Subscriptions::default());
        let waiting = world.ping().expect("it waits");
        world.wait(Duration::from_millis(500));
        let error = world.error_of(waiting);
        let text = error.to_string();
        assert!(
            text.contains("SRV and TXT records of c.example.net"),
            "{text}"
        );
        // The lookup goes on, and the next operation profits from it.
        world.answer_seeds(hosts(&["a"], 60), no_text());
        assert_eq!(world.known_hosts(), ["a"]);
    }
}

#[test]
fn a_client_that_is_closed_withdraws_its_lookups() {
    let mut world = World::srv_world(URI);
    let waiting = world.ping().expect("it waits");
    world.client.close(world.now);
    world.run();
    assert!(world.lookups.is_empty());
    assert_eq!(world.error_of(waiting).kind(), &ErrorKind::Shutdown);
    assert_empty(&world.client);
    assert!(world.client.is_terminated());

    let mut world = World::sharded(&["a"]);
    world.wait(SECOND * 60);
    world.client.close(world.now);
    world.run();
    assert!(world.lookups.is_empty() && world.client.deadline().is_none());
    assert_empty(&world.client);
}

#[test]
fn a_forked_child_looks_up_the_seed_list_itself() {
    let mut world = World::srv_world(URI);
    let waiting = world.ping().expect("it waits");
    let of_parent = std::mem::take(&mut world.lookups);
    world.client.handle_forked(world.now, &Seed::new([8; 32]));
    world.run();
    assert_eq!(world.lookups.len(), 2, "the waiting operation needs it");
    let (id, _) = of_parent[0];
    let late = Answer::Records(hosts(&["x"], 60));
    world.client.handle_answer(world.now, id, late);
    world.answer_seeds(hosts(&["a"], 60), no_text());
    assert_eq!(world.known_hosts(), ["a"]);
    assert!(world.woken.contains(&waiting));
}

#[test]
fn a_failed_srv_lookup_does_not_wait_for_the_txt_record() {
    let mut world = World::srv_world(URI);
    let waiting = world.ping().expect("it waits");
    let error = failure(DnsFailure::NoSuchName);
    world.answer_lookup(RecordKind::Srv, Err(error.clone()));
    assert_eq!(world.error_of(waiting).kind(), error.kind());
    assert!(world.lookups.is_empty(), "the other question is withdrawn");
    assert!(due(&world.client).is_none());
}

#[test]
fn a_connect_timeout_of_any_length_is_accepted() {
    let mut options = uri::parse(URI).expect("a string").options;
    options.connect_timeout = Some(Duration::MAX);
    let world = World::with_options(options, mongos(), Subscriptions::default());
    assert_eq!(world.lookups.len(), 2);
}

#[test]
fn forked_children_choose_hosts_independently() {
    let mut seen = BTreeSet::new();
    for child in 0..8 {
        let mut world = World::srv_world(&format!("{URI}&srvMaxHosts=1"));
        world
            .client
            .handle_forked(world.now, &Seed::new([child; 32]));
        world.run();
        world.ping().expect("it waits");
        world.answer_seeds(hosts(&["a", "b", "c"], 60), no_text());
        seen.insert(world.known_hosts());
    }
    assert!(seen.len() > 1, "{seen:?}");
}

#[test]
fn seeds_have_the_ports_of_their_records_and_all_become_seeds() {
    // DNS-17, DNS-23, DNS-6.
    let record = |n: u16| DnsData::Service {
        host: format!("h{n}.example.net"),
        port: 27_000 + n,
    };
    for options in ["", "&srvMaxHosts=0", "&srvMaxHosts=3", "&srvMaxHosts=9"] {
        let mut world = World::srv_world(&format!("{URI}{options}"));
        let records = (1..=3).map(record).collect();
        world.answer_seeds(Ok(DnsAnswer { records, ttl: None }), no_text());
        let known: Vec<String> = world
            .client
            .topology()
            .servers
            .keys()
            .map(Address::to_string)
            .collect();
        let expected = [
            "h1.example.net:27001",
            "h2.example.net:27002",
            "h3.example.net:27003",
        ];
        assert_eq!(known, expected, "{options}");
    }
}
