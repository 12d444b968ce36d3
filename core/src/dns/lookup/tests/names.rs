//! Tests of aliases, of the search list, and of names that need no name server.

use super::*;
use crate::{address::Address, uri};

#[test]
fn aliases_are_followed_within_the_reply_and_by_new_queries() {
    let mut bench = host_bench("a.example.net", ONE_SERVER);
    let within = vec![
        address("c.example.net."),
        alias("b.example.net.", "c.example.net."),
        alias("a.example.net.", "b.example.net."),
    ];
    bench.answer(ResponseCode::NoError, within);
    assert_eq!(bench.result().expect("an answer").records.len(), 1);

    let mut bench = host_bench("a.example.net", ONE_SERVER);
    bench.answer(
        ResponseCode::NoError,
        vec![alias("a.example.net.", "far.example.org.")],
    );
    assert_eq!(bench.last().name(), "far.example.org.");
    bench.answer(ResponseCode::NoError, vec![address("far.example.org.")]);
    assert_eq!(bench.result().expect("an answer").records.len(), 1);
}

#[test]
fn the_time_to_live_of_aliases_counts_also_if_their_chain_goes_across_queries() {
    let bench = || {
        let mut bench = host_bench("a.example.net", ONE_SERVER);
        for (from, to, ttl) in [("a", "b", 90), ("b", "c", 20), ("c", "d", 70)] {
            let (from, to) = (format!("{from}.example.net."), format!("{to}.example.net."));
            let alias = record(&from, ttl, RData::CNAME(CNAME(name(&to))));
            bench.answer(ResponseCode::NoError, vec![alias]);
        }
        bench
    };
    let mut found = bench();
    found.answer(ResponseCode::NoError, vec![address("d.example.net.")]);
    let answer = found.result().expect("an answer");
    assert_eq!(answer.ttl, Some(Duration::from_secs(20)));
    let mut missing = bench();
    missing.deny(ResponseCode::NXDomain, 90);
    assert_eq!(missing.lookup.negative_ttl(), Duration::from_secs(20));
}

#[test]
fn the_denial_of_one_candidate_does_not_hide_the_failure_of_the_next() {
    let conf = "nameserver 10.0.0.1\nsearch example.net example.org\n";
    for code in [Some(ResponseCode::ServFail), None] {
        let mut bench = host_bench("db", conf);
        bench.deny(ResponseCode::NXDomain, 90);
        assert_eq!(bench.last().name(), "db.example.org.");
        let expected = match code {
            Some(code) => {
                bench.answer(code, Vec::new());
                bench.answer(code, Vec::new());
                DnsFailure::Refused
            }
            None => {
                bench.wait(LIMIT);
                DnsFailure::Unreachable
            }
        };
        let (failure, text) = bench.failure();
        assert_eq!(failure, expected, "{text}");
        assert_eq!(bench.lookup.negative_ttl(), Duration::ZERO);
        let asked: Vec<String> = bench.sent.iter().map(Sent::name).collect();
        assert!(!asked.contains(&"db.".to_owned()), "{asked:?}");
    }
}

#[test]
fn the_absence_of_all_candidates_is_remembered_as_long_as_that_of_each() {
    let mut bench = host_bench("db", "nameserver 10.0.0.1\nsearch example.net\n");
    bench.deny(ResponseCode::NXDomain, 30);
    bench.deny(ResponseCode::NXDomain, 90);
    assert_eq!(bench.failure().0, DnsFailure::NoSuchName);
    assert_eq!(bench.lookup.negative_ttl(), Duration::from_secs(30));
}

#[test]
fn chains_and_loops_of_aliases_are_bounded() {
    let mut bench = host_bench("a0.example.net", ONE_SERVER);
    for number in 0..=MAX_ALIASES {
        let (from, to) = (
            format!("a{number}.example.net."),
            format!("a{}.example.net.", number + 1),
        );
        assert_eq!(bench.last().name(), from);
        bench.answer(ResponseCode::NoError, vec![alias(&from, &to)]);
    }
    assert_eq!(bench.sent.len(), MAX_ALIASES + 1);
    let (failure, text) = bench.failure();
    assert_eq!(failure, DnsFailure::Malformed, "{text}");

    // A loop within one reply is refused as often as the server is asked.
    let mut bench = host_bench("a.example.net", ONE_SERVER);
    for _ in 0..2 {
        let ring = vec![
            alias("a.example.net.", "b.example.net."),
            alias("b.example.net.", "a.example.net."),
        ];
        bench.answer(ResponseCode::NoError, ring);
    }
    assert_eq!(bench.failure().0, DnsFailure::Malformed);
}

#[test]
fn the_search_list_completes_host_names_only() {
    let conf = "nameserver 10.0.0.1\nsearch example.net example.org\n";
    let mut bench = host_bench("db", conf);
    for expected in ["db.example.net.", "db.example.org.", "db."] {
        assert_eq!(bench.last().name(), expected);
        bench.answer(ResponseCode::NXDomain, Vec::new());
    }
    let (failure, text) = bench.failure();
    assert_eq!(failure, DnsFailure::NoSuchName);
    assert!(text.contains("A db failed: 10.0.0.1:53 says that the name does not exist"));
    for kind in [RecordKind::Srv, RecordKind::Txt] {
        let mut bench = Bench::new(DnsQuery::new("db", kind), conf);
        assert_eq!(bench.last().name(), "db.");
        bench.answer(ResponseCode::NXDomain, Vec::new());
        assert_eq!(bench.failure().0, DnsFailure::NoSuchName);
    }
}

#[test]
fn a_name_without_the_wanted_record_is_told_from_a_name_that_does_not_exist() {
    let mut bench = host_bench("db", "nameserver 10.0.0.1\nsearch example.net\n");
    let sent = bench.last();
    let mut empty = sent.reply(ResponseCode::NoError, Vec::new());
    empty.add_authority(soa(90));
    bench.reply(&sent, &empty);
    bench.answer(ResponseCode::NXDomain, Vec::new());
    let (failure, text) = bench.failure();
    assert_eq!(failure, DnsFailure::NoRecords);
    assert!(
        text.contains("has no A record; check the host name"),
        "{text}"
    );
    // The last reply had no SOA record.
    assert_eq!(bench.lookup.negative_ttl(), Duration::ZERO);

    let mut bench = host_bench("db.", ONE_SERVER);
    let sent = bench.last();
    let mut missing = sent.reply(ResponseCode::NXDomain, Vec::new());
    missing.add_authorities(empty.authorities.iter().cloned());
    bench.reply(&sent, &missing);
    assert_eq!(bench.lookup.negative_ttl(), Duration::from_secs(90));
    assert_eq!(bench.failure().0, DnsFailure::NoSuchName);
}

#[test]
fn names_that_need_no_name_server_are_answered_at_once() {
    let hosts = "10.0.0.7 db\n::7 db\n10.0.0.8 four.example.net\n";
    let hosts = crate::dns::HostsFile::parse(hosts);
    let config = ResolverConfig::parse(ONE_SERVER.as_bytes()).with_hosts(hosts);
    for (host, kind, expected) in [
        ("DB", RecordKind::A, Some("10.0.0.7")),
        ("db.", RecordKind::Aaaa, Some("::7")),
        ("four.example.net", RecordKind::A, Some("10.0.0.8")),
        ("four.example.net", RecordKind::Aaaa, None),
        ("192.0.2.1", RecordKind::A, Some("192.0.2.1")),
        ("192.0.2.1", RecordKind::Aaaa, None),
        ("2001:db8::1", RecordKind::Aaaa, Some("2001:db8::1")),
        ("localhost", RecordKind::A, Some("127.0.0.1")),
        ("db.localhost", RecordKind::Aaaa, Some("::1")),
    ] {
        let mut bench = Bench::with(DnsQuery::new(host, kind), config.clone());
        assert!(bench.sent.is_empty(), "{host}");
        let records = bench.result().ok().map(|answer| answer.records);
        let expected = expected.map(|text| vec![DnsData::Address(text.parse().expect("one"))]);
        assert_eq!(records, expected, "{host} {kind}");
    }
}

#[test]
fn a_lookup_that_cannot_begin_fails_at_once() {
    let query = DnsQuery::new(SRV_NAME, RecordKind::Srv);
    let mut bench = Bench::with(query, ResolverConfig::default());
    let (failure, text) = bench.failure();
    assert_eq!(failure, DnsFailure::Refused);
    assert!(text.contains("no name server is configured"), "{text}");
    for host in ["", ".", "..", "a..b", &"x".repeat(64), &"x.".repeat(200)] {
        let mut bench = host_bench(host, ONE_SERVER);
        assert!(bench.sent.is_empty(), "{host:?}");
        let (failure, text) = bench.failure();
        assert_eq!(failure, DnsFailure::NoSuchName, "{text}");
    }
}

#[test]
fn a_srv_record_whose_target_is_no_host_leaves_the_other_records_usable() {
    for (label, expected) in [
        (&b"a b"[..], "a\\040b.example.net"),
        (b"a\0", "a\\000.example.net"),
        (b"a.b", "a\\.b.example.net"),
        (b"\xff", "\\377.example.net"),
        (b"", "."),
    ] {
        let mut bench = srv_bench();
        let labels = [label, b"example", b"net"];
        let labels = labels.into_iter().filter(|_| !label.is_empty());
        let target = Name::from_labels(labels).expect("a name");
        let owner = format!("{SRV_NAME}.");
        let bad = record(&owner, 9, RData::SRV(SRV::new(0, 0, 1, target)));
        let answers = vec![srv("good.example.net.", 1, 9), bad];
        bench.answer(ResponseCode::NoError, answers);
        let found = bench.result().expect("an answer").records;
        assert_eq!(found[0], service("good.example.net", 1));
        let DnsData::Service { host, .. } = &found[1] else {
            panic!("{found:?}");
        };
        assert_eq!(host, expected);
        let address = Address::tcp(host, 1);
        assert!(
            !uri::is_below_srv_domain("c.example.net", &address),
            "{address}"
        );
    }
}

#[test]
fn with_rotation_lookups_begin_with_different_servers() {
    let text = b"nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\noptions rotate\n";
    let config = Arc::new(ResolverConfig::parse(text));
    let mut random = Seed::new([9; 32]).random();
    let mut first = BTreeMap::new();
    for _ in 0..300 {
        let seed = Seed::new([random.next_u32() as u8; 32]).random();
        let query = DnsQuery::new(SRV_NAME, RecordKind::Srv);
        let mut lookup = Lookup::new(Instant::ZERO, query, config.clone(), seed, Some(LIMIT));
        if let Some(LookupAction::SendDatagram { server, .. }) = lookup.poll_action() {
            *first.entry(server).or_insert(0) += 1;
        }
    }
    assert_eq!(first.len(), 3);
    assert!(first.values().all(|&count| count > 50), "{first:?}");
}

#[test]
fn underscores_are_permitted_anywhere_in_a_name() {
    let mut bench = host_bench("my_cluster.example.net", ONE_SERVER);
    assert_eq!(bench.last().name(), "my_cluster.example.net.");
    bench.answer(
        ResponseCode::NoError,
        vec![address("my_cluster.example.net.")],
    );
    assert!(bench.result().is_ok());
    let bench = host_bench("b\u{fc}cher.example.net", ONE_SERVER);
    assert_eq!(bench.last().name(), "xn--bcher-kva.example.net.");
}
