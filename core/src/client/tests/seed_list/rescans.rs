//! Tests of the rescans of SRV records. The prose tests are those of the specification `Polling SRV
//! Records for mongos Discovery`.

use super::*;

#[test]
fn a_rescan_adds_new_hosts_and_removes_hosts_that_are_gone() {
    // Prose tests 1 to 5 and 11 of SRV polling; SRV-17, SRV-18, SRV-19, SRV-31.
    for (names, expected) in [
        (&["a", "b", "c"][..], &["a", "b", "c"][..]),
        (&["a"], &["a"]),
        (&["a", "c"], &["a", "c"]),
        (&["c"], &["c"]),
        (&["c", "d"], &["c", "d"]),
    ] {
        let mut world = World::sharded(&["a", "b"]);
        world.dialled.clear();
        world.wait(SECOND * 59);
        assert!(world.lookups.is_empty(), "too early");
        world.wait(SECOND);
        assert_eq!(
            world.queries(),
            ["SRV _mongodb._tcp.c.example.net"],
            "SRV-32"
        );
        world.events();
        world.dialled.clear();
        world.answer_lookup(RecordKind::Srv, hosts(names, 60));
        assert_eq!(world.known_hosts(), expected);
        let dialled: BTreeSet<&str> = world.dialled.iter().map(|(_, a)| a.host()).collect();
        let is_kept = |name: &&str| ["a", "b"].contains(name);
        let new: Vec<&&str> = names.iter().filter(|name| !is_kept(name)).collect();
        assert_eq!(
            dialled.len(),
            new.len(),
            "hosts that stay keep their monitors"
        );
        let opened = world.events();
        let opened = opened
            .iter()
            .filter(|e| matches!(e, SdamEvent::ServerOpening { .. }));
        assert_eq!(opened.count(), new.len());
    }
}

#[test]
fn a_rescan_without_a_usable_host_changes_nothing_and_is_repeated_after_a_heartbeat() {
    // Prose tests 6 to 8 of SRV polling; SRV-9, SRV-10, SRV-11, SRV-12, SRV-13,
    // SRV-14, SRV-15, SRV-16. The error of a rescan is not raised (SRV-33).
    let mut outside = hosts(&["a"], 60).expect("hosts");
    if let DnsData::Service { host, .. } = &mut outside.records[0] {
        *host = "a.evil.org".to_owned();
    }
    let timeout = Err(failure(DnsFailure::Unreachable));
    for answer in [timeout, Err(failure(DnsFailure::NoRecords)), Ok(outside)] {
        let mut world = World::sharded(&["a", "b"]);
        world.wait(SECOND * 60);
        world.events();
        world.answer_lookup(RecordKind::Srv, answer);
        assert_eq!(world.known_hosts(), ["a", "b"]);
        let is_failure = |event: &SdamEvent| matches!(event, SdamEvent::RescanFailed { .. });
        assert!(world.events().iter().any(is_failure));
        // The default of `heartbeatFrequencyMS` is 10 seconds.
        world.wait(SECOND * 9);
        assert!(world.lookups.is_empty());
        world.wait(SECOND);
        world.answer_lookup(RecordKind::Srv, hosts(&["b"], 60));
        assert_eq!(world.known_hosts(), ["b"]);
        world.wait(SECOND * 59);
        assert!(world.lookups.is_empty(), "60 seconds after a success");
    }
}

#[test]
fn a_rescan_checks_hosts_by_the_allowed_suffix() {
    // DNS-42.
    let mut world = World::srv_world(&format!("{URI}&srvAllowedHostsSuffix=.evil.org"));
    let named = |name: &str| {
        let mut answer = hosts(&["a"], 60).expect("hosts");
        if let DnsData::Service { host, .. } = &mut answer.records[0] {
            *host = name.to_owned();
        }
        Ok(answer)
    };
    world.answer_seeds(named("a.evil.org"), no_text());
    world.wait(SECOND * 60);
    world.answer_lookup(RecordKind::Srv, named("b.evil.org"));
    assert_eq!(world.known_hosts(), ["b.evil.org"]);
}

#[test]
fn one_host_outside_of_the_domain_is_left_out_of_a_rescan() {
    // SRV-8, SRV-9, SRV-10, SRV-11, SRV-12.
    let mut world = World::sharded(&["a"]);
    world.wait(SECOND * 60);
    world.events();
    let mut answer = hosts(&["a", "b"], 60).expect("hosts");
    if let DnsData::Service { host, .. } = &mut answer.records[0] {
        *host = "a.evil.org".to_owned();
    }
    world.answer_lookup(RecordKind::Srv, Ok(answer));
    assert_eq!(world.known_hosts(), ["b"]);
    let ignored = world.events().into_iter().filter_map(|event| match event {
        SdamEvent::HostIgnored { address, .. } => Some(address.host().to_owned()),
        _ => None,
    });
    assert_eq!(ignored.collect::<Vec<_>>(), ["a.evil.org"]);
}

#[test]
fn the_interval_of_rescans_is_the_time_to_live_but_at_least_60_seconds() {
    // SRV-23, SRV-24, SRV-25, SRV-26.
    for (ttl, interval) in [(5, 60), (61, 61), (86_400, 86_400)] {
        let mut world = World::srv_world(URI);
        world.answer_seeds(hosts(&["a"], ttl), no_text());
        world.wait(SECOND * (interval - 1));
        assert!(world.lookups.is_empty(), "{ttl}");
        world.wait(SECOND);
        // The interval begins when the lookup ends.
        world.wait(SECOND * 4);
        world.answer_lookup(RecordKind::Srv, hosts(&["a"], 90));
        world.wait(SECOND * 89);
        assert!(world.lookups.is_empty());
        world.wait(SECOND);
        assert_eq!(world.lookups.len(), 1);
    }
}

#[test]
fn an_idle_client_looks_up_once_per_interval() {
    let mut world = World::sharded(&["a", "b"]);
    for _ in 0..10 {
        world.wait(MIN_RESCAN_INTERVAL - Duration::from_millis(1));
        assert!(world.lookups.is_empty());
        world.wait(Duration::from_millis(1));
        assert_eq!(world.lookups.len(), 1);
        world.answer_lookup(RecordKind::Srv, hosts(&["a", "b"], 60));
        assert!(world.lookups.is_empty());
    }
}

#[test]
fn with_srv_max_hosts_a_rescan_keeps_known_hosts_and_fills_up_with_new_ones() {
    // Prose tests 10 and 12 of SRV polling; SRV-20.
    let options = |most: u32| format!("{URI}&srvMaxHosts={most}");
    let mut world = World::srv_world(&options(2));
    world.answer_seeds(hosts(&["a", "b"], 60), no_text());
    world.wait(SECOND * 60);
    world.answer_lookup(RecordKind::Srv, hosts(&["a", "c", "d"], 60));
    let known = world.known_hosts();
    assert!(known.len() == 2 && known[0] == "a", "{known:?}");
    let mut world = World::srv_world(&options(0));
    world.answer_seeds(hosts(&["a", "b"], 60), no_text());
    world.wait(SECOND * 60);
    world.answer_lookup(RecordKind::Srv, hosts(&["a", "c", "d"], 60));
    assert_eq!(world.known_hosts(), ["a", "c", "d"]);
}

#[test]
fn the_service_name_is_part_of_each_query() {
    // Prose test 13 of SRV polling; SRV-7, DNS-7.
    let mut world = World::srv_world(&format!("{URI}&srvServiceName=custom"));
    assert_eq!(world.queries()[0], "SRV _custom._tcp.c.example.net");
    world.answer_seeds(hosts(&["a"], 60), no_text());
    world.wait(SECOND * 60);
    assert_eq!(world.queries(), ["SRV _custom._tcp.c.example.net"]);
}

#[test]
fn a_replica_set_is_not_looked_up_again_and_a_late_answer_is_dropped() {
    // SRV-4, SRV-5, scenario 5.
    let mut world = World::with_subscriptions(URI, primary(), Subscriptions::all());
    world.is_dead = true;
    world.answer_seeds(hosts(&["a"], 60), no_text());
    world.wait(SECOND * 60);
    assert_eq!(world.lookups.len(), 1, "the type is still Unknown");
    world.is_dead = false;
    world.wait(SECOND * 10);
    assert_eq!(world.lookups.len(), 1, "the answer comes late");
    let known = world.client.topology().clone();
    assert!(known.set_name.is_some(), "{known:?}");
    world.answer_lookup(RecordKind::Srv, hosts(&["b"], 60));
    let addresses: Vec<&Address> = known.servers.keys().collect();
    let now: Vec<Address> = world.client.topology().servers.keys().cloned().collect();
    assert!(addresses.into_iter().eq(now.iter()), "{now:?}");
    world.wait(SECOND * 3600);
    assert!(world.lookups.is_empty(), "scenario 37");
}

#[test]
fn a_client_that_scans_looks_up_srv_records_before_a_scan_only() {
    // SRV-28.
    let options = uri::parse_for(URI, Monitoring::Scanning)
        .expect("a string")
        .options;
    let mut world = World::with_options(options, mongos(), Subscriptions::default());
    world.ping().expect("it waits");
    world.answer_seeds(hosts(&["a"], 60), no_text());
    world.wait(SECOND * 600);
    assert!(world.lookups.is_empty(), "no operation needs a scan");
    world.dialled.clear();
    let _ = world.client.start(world.now, ping());
    world.run();
    assert_eq!(world.lookups.len(), 1);
    assert!(world.dialled.is_empty(), "the scan waits for the records");
    world.answer_lookup(RecordKind::Srv, hosts(&["b"], 60));
    assert_eq!(world.known_hosts(), ["b"]);
    let dialled: Vec<&str> = world.dialled.iter().map(|(_, a)| a.host()).collect();
    assert!(dialled.contains(&"b.example.net"), "{dialled:?}");
}

#[test]
fn a_standalone_among_the_hosts_of_a_rescan_is_removed() {
    // The seed list had one host, so a standalone would become the only server of the topology.
    let standalone = rawdoc! { "ok": 1, "isWritablePrimary": true, "maxWireVersion": 21 };
    let mut world = World::with_subscriptions(URI, standalone, Subscriptions::all());
    world.is_dead = true;
    world.answer_seeds(hosts(&["a"], 60), no_text());
    world.wait(SECOND * 60);
    world.is_dead = false;
    world.silent.insert(Address::tcp("a.example.net", 27017));
    world.answer_lookup(RecordKind::Srv, hosts(&["a", "b"], 60));
    assert_eq!(world.known_hosts(), ["a"], "the standalone b is removed");
}

#[test]
fn a_host_with_port_0_is_left_out() {
    // The first lookup refuses this port, and a rescan ignores such a record (SRV-9, SRV-14).
    let mut world = World::srv_world(URI);
    world.answer_seeds(hosts(&["a"], 60), no_text());
    world.wait(SECOND * 60);
    let answer = DnsAnswer {
        records: vec![DnsData::Service {
            host: "b.example.net".to_owned(),
            port: 0,
        }],
        ttl: Some(SECOND * 60),
    };
    world.answer_lookup(RecordKind::Srv, Ok(answer));
    assert_eq!(world.known_hosts(), ["a"]);
}

#[test]
fn the_number_of_hosts_is_bounded() {
    let names: Vec<String> = (0..1000).map(|number| format!("h{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::srv_world(URI);
    world.answer_seeds(hosts(&names, 60), no_text());
    let first = world.known_hosts();
    assert_eq!(first.len(), sdam::MAX_SERVERS);
    world.wait(SECOND * 60);
    let turned: Vec<&str> = names.iter().rev().copied().collect();
    world.answer_lookup(RecordKind::Srv, hosts(&turned, 60));
    assert_eq!(world.known_hosts(), first, "hosts that stay are kept");
}

#[test]
fn a_rescan_does_not_interrupt_a_scan_that_is_under_way() {
    let options = uri::parse_for(URI, Monitoring::Scanning)
        .expect("a string")
        .options;
    let mut world = World::with_options(options, mongos(), Subscriptions::default());
    world.ping().expect("it waits");
    world.answer_seeds(hosts(&["a", "b"], 60), no_text());
    world.is_silent = true;
    world.wait(SECOND * 59);
    world.client.handle_forked(world.now, &Seed::new([8; 32]));
    world.run();
    let _ = world.client.start(world.now, ping());
    world.run();
    world.wait(SECOND * 2);
    assert!(
        world.lookups.is_empty(),
        "the scan began before the rescan was due"
    );
}

#[test]
fn a_scan_waits_for_a_silent_rescan_no_longer_than_half_a_second() {
    // The lookup itself lasts for up to `connectTimeoutMS`, 10 seconds (SRV-28).
    let half_second = Duration::from_millis(500);
    for (time_limit, patience) in [
        (None, half_second),
        (Some(SECOND * 60), half_second),
        (Some(half_second), half_second / 2),
    ] {
        let options = uri::parse_for(URI, Monitoring::Scanning).expect("a string");
        let mut world = World::with_options(options.options, mongos(), Subscriptions::default());
        world.ping().expect("it waits");
        world.answer_seeds(hosts(&["a"], 60), no_text());
        world.wait(SECOND * 600);
        world.dialled.clear();
        world.is_dead = true;
        let mut command = ping();
        command.set_timeout(time_limit);
        let _ = world.client.start(world.now, command);
        world.run();
        assert_eq!(world.lookups.len(), 1);
        world.wait(patience - Duration::from_millis(1));
        assert!(world.dialled.is_empty(), "{time_limit:?}");
        world.wait(Duration::from_millis(1));
        assert!(!world.dialled.is_empty(), "{time_limit:?}");
        // A late answer still changes the hosts, and the next scan finds no rescan due.
        world.is_dead = false;
        world.answer_lookup(RecordKind::Srv, hosts(&["b"], 60));
        assert_eq!(world.known_hosts(), ["b"]);
        world.wait(SECOND);
        let _ = world.client.start(world.now, ping());
        world.run();
        assert!(world.lookups.is_empty(), "{time_limit:?}");
    }
}

#[test]
fn a_scan_begins_before_the_limit_of_each_operation_that_waits_for_it() {
    // An operation that joins the wait shortens it. If the client selects repeatedly, the limit of
    // server selection counts as well (SEL-73).
    for (options, limit) in [
        ("", Some(Duration::from_millis(300))),
        (
            "&serverSelectionTryOnce=false&serverSelectionTimeoutMS=300",
            None,
        ),
    ] {
        let text = format!("{URI}{options}");
        let parsed = uri::parse_for(&text, Monitoring::Scanning).expect("a string");
        let mut world = World::with_options(parsed.options, mongos(), Subscriptions::default());
        world.ping().expect("it waits");
        world.answer_seeds(hosts(&["a"], 60), no_text());
        world.wait(SECOND * 600);
        world.dialled.clear();
        world.is_dead = true;
        let _first = world.client.start(world.now, ping());
        world.run();
        world.wait(Duration::from_millis(10));
        let mut command = ping();
        command.set_timeout(limit);
        let _second = world.client.start(world.now, command);
        world.run();
        assert!(world.dialled.is_empty(), "{options}");
        world.wait(Duration::from_millis(150));
        assert!(!world.dialled.is_empty(), "{options}");
    }
}

#[test]
fn a_target_that_is_no_host_is_left_out_of_a_rescan_and_named_by_the_first_lookup() {
    // SRV-9, SRV-11, DNS-21.
    for target in [".", "a\\.b.example.net", "a b.example.net"] {
        let mut answer = hosts(&["b"], 60).expect("hosts");
        let (host, port) = (target.to_owned(), 27017);
        answer.records.push(DnsData::Service { host, port });
        let mut world = World::sharded(&["a"]);
        world.wait(SECOND * 60);
        world.answer_lookup(RecordKind::Srv, Ok(answer.clone()));
        assert_eq!(world.known_hosts(), ["b"]);
        let mut world = World::srv_world(URI);
        let waiting = world.ping().expect("it waits");
        world.answer_seeds(Ok(answer), no_text());
        let text = world.error_of(waiting).to_string();
        assert!(text.contains(&format!("names {target}:27017")), "{text}");
    }
}
