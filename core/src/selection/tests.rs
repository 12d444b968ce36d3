//! Tests of server selection besides the official ones, for example of kept rankings, operation
//! counts and errors.

mod custom;
mod ranking_cache;
mod refreshed_ranking;
mod staleness;

use super::*;
use crate::{
    address::Address,
    description::{
        ServerDescription, ServerId, ServerType, TopologyDescription, TopologyId, TopologyType,
    },
    error::{Error, ErrorKind, IoError, NetworkFault},
    options::{ReadMode, ReadPreference},
    random::Seed,
};
use bson::oid::ObjectId;
use std::{cell::Cell, collections::BTreeMap, sync::Arc, time::Duration};

const HEARTBEAT: Duration = Duration::from_secs(10);

fn address(n: u64) -> Address {
    Address::tcp(&format!("s{n}"), 1)
}

fn mongos(count: u64) -> TopologyDescription {
    let mut description = TopologyDescription::unknown(TopologyId(ObjectId::from_bytes([0; 12])));
    description.topology_type = TopologyType::Sharded;
    for n in 0..count {
        let mut server = ServerDescription::unknown(address(n));
        server.server_type = ServerType::Mongos;
        server.max_wire_version = 21;
        server.round_trip_time = Some(Duration::from_millis(5));
        description.servers.insert(address(n), Arc::new(server));
    }
    description
}

fn id(address: &Address) -> Option<ServerId> {
    address.host()[1..].parse().ok().map(ServerId)
}

fn selector() -> Selector {
    let random = Seed::new([8; 32]).split("selection").random();
    Selector::new(DEFAULT_LOCAL_THRESHOLD, HEARTBEAT, random)
}

fn secondary(host: &str) -> Criteria {
    let preference = ReadPreference::new(ReadMode::Secondary)
        .with_tag_sets(vec![[("host".into(), host.into())].into()])
        .expect("legal");
    Criteria::Readable(Arc::new(preference))
}

#[test]
fn servers_are_looked_up_once_per_topology_version() {
    let (description, mut selector) = (mongos(3), selector());
    let id_lookups = Cell::new(0);
    let counted = |a: &Address| {
        id_lookups.set(id_lookups.get() + 1);
        id(a)
    };
    for (version, total) in [(1, 3), (1, 3), (2, 6), (2, 6)] {
        let chosen = selector.select(version, &description, counted, &Criteria::Writable, &[]);
        assert!(matches!(chosen, Ok(Some(_))));
        assert_eq!(id_lookups.get(), total);
    }
}

#[test]
fn selection_is_correct_with_more_criteria_than_can_be_cached() {
    let (description, mut selector) = (mongos(1), selector());
    for round in 0..3 {
        for n in 0..3 * MAX_CACHED_WINDOWS {
            let criteria = secondary(&format!("{round} {n}"));
            let chosen = selector.select(1, &description, id, &criteria, &[]);
            assert_eq!(chosen, Ok(Some(ServerId(0))));
        }
    }
}

#[test]
fn the_server_with_fewer_running_operations_is_selected() {
    // Operations are counted (SEL-38), and the server with fewer operations is chosen (SEL-39).
    let (description, mut selector) = (mongos(2), selector());
    let mut chosen: BTreeMap<ServerId, u32> = BTreeMap::new();
    for _ in 0..10 {
        let found = selector.select(1, &description, id, &Criteria::Writable, &[]);
        *chosen
            .entry(found.expect("compatible").expect("two suit"))
            .or_default() += 1;
    }
    assert_eq!(chosen.values().copied().collect::<Vec<_>>(), [5, 5]);
    for _ in 0..7 {
        selector.finished(ServerId(1));
    }
    selector.finished(ServerId(99));
    assert_eq!(selector.operation_count(ServerId(1)), 0);
    assert_eq!(selector.operation_count(ServerId(0)), 5);
    let found = selector.select(2, &description, id, &Criteria::Writable, &[]);
    assert_eq!(
        found,
        Ok(Some(ServerId(1))),
        "counts survive a new description"
    );
}

#[test]
fn deprioritized_servers_are_selected_only_if_no_other_is_suitable() {
    // A deprioritized server is chosen only if no other server is suitable (SEL-41).
    let (description, mut selector) = (mongos(2), selector());
    for _ in 0..20 {
        let found = selector.select(1, &description, id, &Criteria::Writable, &[address(0)]);
        assert_eq!(found, Ok(Some(ServerId(1))));
        selector.finished(ServerId(1));
    }
    let found = selector.select(1, &description, id, &Criteria::Writable, &[]);
    assert!(matches!(found, Ok(Some(_))));
    let all = [address(0), address(1)];
    let found = selector.select(1, &description, id, &Criteria::Writable, &all);
    assert!(matches!(found, Ok(Some(_))));
}

#[test]
fn selection_waits_without_suitable_servers_and_fails_if_incompatible() {
    // If no server suits, selection returns `None`. An incompatible topology is an error (SEL-40).
    let mut description = mongos(0);
    let mut selector = selector();
    let found = selector.select(1, &description, id, &Criteria::Writable, &[]);
    assert_eq!(found, Ok(None));
    description.compatibility_error = Some("too old".into());
    let found = selector.select(2, &description, id, &Criteria::Writable, &[]);
    let message = "too old".to_owned();
    assert_eq!(found, Err(ErrorKind::IncompatibleServer { message }.into()));
}

#[test]
fn an_aggregation_with_out_uses_the_primary_while_a_server_is_older_than_5_0() {
    // An aggregation with `$out` or `$merge` uses the primary while an available server is older
    // than 5.0 (SEL-34).
    let preference = Arc::new(ReadPreference::new(ReadMode::Secondary));
    let criteria = Criteria::WritingAggregate(preference);
    let mut description = mongos(2);
    let mode = |d: &TopologyDescription| criteria.read_preference(d).map(ReadPreference::mode);
    assert_eq!(mode(&description), Some(ReadMode::Secondary));
    let mut old = ServerDescription::unknown(address(1));
    description
        .servers
        .insert(address(1), Arc::new(old.clone()));
    assert_eq!(
        mode(&description),
        Some(ReadMode::Secondary),
        "not available"
    );
    old.server_type = ServerType::Mongos;
    old.max_wire_version = 13;
    description
        .servers
        .insert(address(1), Arc::new(old.clone()));
    assert_eq!(mode(&description), Some(ReadMode::Secondary), "just 5.0");
    old.max_wire_version = 12;
    description.servers.insert(address(1), Arc::new(old));
    assert_eq!(mode(&description), Some(ReadMode::Primary));
    description.topology_type = TopologyType::LoadBalanced;
    assert_eq!(mode(&description), Some(ReadMode::Secondary));
}

#[test]
fn mode_primary_refuses_tag_sets_and_max_staleness() {
    // Mode primary excludes non-empty tag sets (SEL-14, SEL-16) and a maximum staleness (STALE-4).
    let tagged = || vec![[("dc".to_owned(), "ny".to_owned())].into()];
    let primary = ReadPreference::default;
    assert!(primary().with_tag_sets(tagged()).is_err());
    assert!(primary().with_tag_sets(vec![]).is_ok());
    assert!(primary().with_tag_sets(vec![BTreeMap::new()]).is_ok());
    let minutes = Duration::from_secs(120);
    assert!(primary().with_max_staleness(minutes).is_err());
    for mode in ReadMode::ALL
        .into_iter()
        .filter(|mode| *mode != ReadMode::Primary)
    {
        let preference = ReadPreference::new(mode).with_tag_sets(tagged());
        let preference = preference.and_then(|p| p.with_max_staleness(minutes));
        assert!(preference.is_ok(), "{mode:?}");
    }
}

#[test]
fn the_selection_error_names_the_criteria_or_the_errors_of_the_servers() {
    // The error text contains the criteria if servers are available, or else the errors of the
    // servers (SEL-60).
    let criteria = secondary("a");
    let text = |d: &TopologyDescription| selection_error(d, &criteria).kind().to_string();
    let mut description = mongos(2);
    let available = text(&description);
    assert!(
        available.contains("No servers are suitable for read preference"),
        "{available}"
    );
    assert!(
        available.contains("host") && available.contains("secondary"),
        "{available}"
    );
    assert!(text(&mongos(0)).contains("no server is known"));
    let mut other_set = mongos(0);
    other_set.set_name = Some("rs7".to_owned());
    assert!(
        text(&other_set)
            .contains("no host of the connection string belongs to replica set \"rs7\"")
    );
    let broken = |n: u64, why: &str| {
        let mut server = ServerDescription::unknown(address(n));
        server.error = Some(Error::network(NetworkFault::Refused, why));
        Arc::new(server)
    };
    description.servers.insert(address(0), broken(0, "refused"));
    let expected = "s0:1: Unknown, network error: refused, s1:1: Mongos";
    assert!(
        text(&description).ends_with(expected),
        "{}",
        text(&description)
    );
    description.servers.insert(address(1), broken(1, "refused"));
    let shared = "server selection failed: network error: refused, at s0:1, s1:1;";
    assert!(
        text(&description).starts_with(shared),
        "{}",
        text(&description)
    );
    description
        .servers
        .insert(address(1), broken(1, "unreachable"));
    let expected = "s0:1: network error: refused, s1:1: network error: unreachable";
    assert!(text(&description).ends_with(expected));
}

#[test]
fn the_selection_error_has_a_cause_and_is_short_in_a_large_topology() {
    let criteria = secondary("a");
    let mut description = mongos(0);
    for n in 0..1000 {
        let mut server = ServerDescription::unknown(address(n));
        server.error = Some(Error::network(
            NetworkFault::Refused,
            format!("refused {n}"),
        ));
        description.servers.insert(address(n), Arc::new(server));
    }
    let error = selection_error(&description, &criteria);
    assert!(error.to_string().len() < 1000, "{error}");
    assert!(error.to_string().ends_with("and 990 more"), "{error}");
    let ErrorKind::ServerSelection {
        cause: Some(cause), ..
    } = error.kind()
    else {
        panic!("it has a cause: {error:?}");
    };
    assert!(matches!(
        cause.kind(),
        ErrorKind::Io(IoError {
            fault: NetworkFault::Refused,
            ..
        })
    ));
    assert_eq!(cause.server(), Some(&address(0)));
    assert_eq!(error.server(), None, "no single server is at fault");
    description.servers.retain(|place, _| *place == address(7));
    assert_eq!(
        selection_error(&description, &criteria).server(),
        Some(&address(7))
    );
}
