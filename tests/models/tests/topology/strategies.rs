//! Tests of the strategies: the random values have the properties that the strategies document, and
//! failing cases shrink.

use crate::{bench::Bench, cases};
use bson::{RawDocument, oid::ObjectId};
use onionskin_core::{
    address::Address,
    description::{ServerType, TopologyType},
    unstable::sdam::Phase,
};
use onionskin_models::discovery::Config;
use onionskin_worlds::strategies::{
    Cause, History, failures, incident_histories, lying_histories, replica_set_histories,
    server_descriptions, topology_descriptions,
};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{TestCaseError, TestError, TestRunner},
};
use std::{collections::BTreeMap, time::Duration};

fn is_primary(reply: &RawDocument) -> bool {
    let says = |key| matches!(reply.get_bool(key), Ok(true));
    says("isWritablePrimary") || says("ismaster")
}

fn replies(history: &History) -> impl Iterator<Item = (&Address, &RawDocument)> {
    let hellos = history.hellos.iter();
    hellos.filter_map(|hello| Some((&hello.server, hello.reply.as_deref()?)))
}

proptest! {
    #![proptest_config(cases(200))]

    // Each election id belongs to one primary, and the topology versions of a process never
    // decrease.
    #[test]
    fn random_replica_set_histories_are_consistent(history in replica_set_histories()) {
        let mut elected: BTreeMap<ObjectId, &Address> = BTreeMap::new();
        let mut counters: BTreeMap<ObjectId, i64> = BTreeMap::new();
        for (server, reply) in replies(&history) {
            prop_assert_eq!(is_primary(reply), reply.get_object_id("electionId").is_ok());
            if let Ok(id) = reply.get_object_id("electionId") {
                prop_assert_eq!(*elected.entry(id).or_insert(server), server);
            }
            if let Ok(version) = reply.get_document("topologyVersion") {
                let process = version.get_object_id("processId").expect("it names a process");
                let counter = version.get_i64("counter").expect("it counts");
                let last = counters.insert(process, counter);
                prop_assert!(last <= Some(counter), "{last:?} before {counter}");
            }
        }
    }

    #[test]
    fn a_random_topology_description_is_legal(topology in topology_descriptions()) {
        let of = |kind| topology.servers.values().filter(move |s| s.server_type == kind).count();
        match topology.topology_type {
            TopologyType::Single | TopologyType::LoadBalanced => {
                prop_assert_eq!(topology.servers.len(), 1);
            }
            TopologyType::ReplicaSetWithPrimary => prop_assert_eq!(of(ServerType::RsPrimary), 1),
            TopologyType::ReplicaSetNoPrimary => prop_assert_eq!(of(ServerType::RsPrimary), 0),
            TopologyType::Sharded => {
                let unknown = of(ServerType::Unknown);
                prop_assert_eq!(of(ServerType::Mongos) + unknown, topology.servers.len());
            }
            TopologyType::Unknown => {
                prop_assert!(topology.servers.values().all(|s| !s.server_type.is_data_bearing()));
            }
        }
        for (address, server) in &topology.servers {
            prop_assert_eq!(address, &server.address);
        }
    }

    #[test]
    fn a_random_server_description_has_the_fields_of_its_type(server in server_descriptions()) {
        let measured = server.server_type.is_available()
            && server.server_type != ServerType::LoadBalancer;
        prop_assert_eq!(server.round_trip_time.is_some(), measured);
        prop_assert!(server.error.is_none() || !server.server_type.is_available());
        let elected = server.server_type == ServerType::RsPrimary;
        prop_assert_eq!(server.election_id.is_some(), elected);
    }

    // Only hello replies add (SDAM-79) and remove (SDAM-80) servers. Errors do neither.
    #[test]
    fn errors_neither_add_nor_remove_servers(
        history in replica_set_histories(),
        incidents in incident_histories(),
    ) {
        let config = Config::new(history.seeds.clone());
        let mut bench = Bench::paired(&config, None).map_err(TestCaseError::fail)?;
        for hello in &history.hellos {
            let round_trip = Duration::from_millis(1);
            bench
                .ask(&hello.server, hello.reply.as_deref(), round_trip, false)
                .map_err(TestCaseError::fail)?;
        }
        let before: Vec<Address> = bench.sdam.description().servers.keys().cloned().collect();
        for incident in incidents {
            let known = bench.lives.iter().rev().find(|known| known.address == incident.server);
            let Some(known) = known.cloned() else {
                continue;
            };
            bench
                .application_error(&known, incident.age, &incident.failure, None)
                .map_err(TestCaseError::fail)?;
        }
        prop_assert!(before.iter().eq(bench.sdam.description().servers.keys()));
    }
}

#[test]
fn a_failing_history_shrinks_to_at_most_four_replies() {
    // The property below fails on purpose, so `proptest` must not store the failure.
    let config = proptest::test_runner::Config {
        failure_persistence: None,
        ..cases(500)
    };
    let mut runner = TestRunner::new(config);
    let found = runner.run(&replica_set_histories(), |history| {
        let primaries = replies(&history).filter(|(_, reply)| is_primary(reply));
        let mut servers: Vec<&Address> = primaries.map(|(server, _)| server).collect();
        servers.dedup();
        prop_assert!(servers.len() < 2, "two primaries, one after the other");
        Ok(())
    });
    let Err(TestError::Fail(_, smallest)) = found else {
        panic!("no such history was drawn: {found:?}");
    };
    // Two hello replies are necessary. Shrinking in single steps can leave up to two more.
    assert!(smallest.hellos.len() <= 4, "{smallest:#?}");
}

#[test]
fn random_false_replies_cover_every_kind_of_false_field() {
    let mut missing = vec![
        "a host twice",
        "no host",
        "a wrong type",
        "a negative number",
        "huge",
    ];
    let mut runner = TestRunner::deterministic();
    for _ in 0..300 {
        let tree = lying_histories(true)
            .new_tree(&mut runner)
            .expect("it can be drawn");
        let history = tree.current();
        for (_, reply) in replies(&history) {
            missing.retain(|lie| !contains_lie(reply, lie));
        }
    }
    assert!(missing.is_empty(), "nobody told {missing:?}");
}

fn contains_lie(reply: &RawDocument, lie: &str) -> bool {
    let hosts: Vec<_> = match reply.get_array("hosts") {
        Ok(hosts) => hosts.into_iter().flatten().collect(),
        Err(_) => Vec::new(),
    };
    let mut names: Vec<&str> = hosts.iter().filter_map(|host| host.as_str()).collect();
    match lie {
        "a host twice" => {
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            names.len() < count
        }
        "no host" => names.iter().any(|name| name.parse::<Address>().is_err()),
        "a wrong type" => matches!(reply.get("setName"), Ok(Some(name)) if name.as_str().is_none()),
        "a negative number" => reply.get_i32("setVersion").is_ok_and(|version| version < 0),
        _ => names.len() > 1_024,
    }
}

#[test]
fn random_errors_cover_every_phase_and_form() {
    let mut missing = vec![
        "proxy",
        "hello",
        "authentication",
        "operation",
        "network",
        "timeout",
        "code",
        "text without code",
        "write concern",
        "write errors",
        "version",
        "label of the pool",
        "label of the server",
    ];
    let mut runner = TestRunner::deterministic();
    for _ in 0..2_000 {
        let tree = failures().new_tree(&mut runner).expect("it can be drawn");
        let failure = tree.current();
        let reply = failure.reply();
        let has = |key: &str| reply.is_some_and(|reply| matches!(reply.get(key), Ok(Some(_))));
        missing.retain(|form| !match *form {
            "proxy" => failure.phase == Phase::Proxy,
            "hello" => failure.phase == Phase::Hello,
            "authentication" => failure.phase == Phase::Authentication,
            "operation" => failure.phase == Phase::Operation,
            "network" => matches!(failure.cause, Cause::Network(_)),
            "timeout" => failure.cause == Cause::Timeout,
            "code" => has("code"),
            "text without code" => has("errmsg") && !has("code"),
            "write concern" => has("writeConcernError"),
            "write errors" => has("writeErrors"),
            "version" => has("topologyVersion"),
            "label of the pool" => failure.overloaded,
            _ => failure.is_overloaded() && !failure.overloaded,
        });
    }
    assert!(missing.is_empty(), "never drawn: {missing:?}");
}
