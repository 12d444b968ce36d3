//! Tests of seed lists with NSD, an authoritative name server of other people, over UDP and TCP.

use onionskin_core::dns::{DnsQuery, RecordKind};
use onionskin_tests::{
    name_server::look_up,
    peers,
    suites::initial_dns_seedlist_discovery::{self as seed_lists, DOMAIN},
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
