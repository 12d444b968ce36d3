//! Tests of the estimate of staleness, the limit of staleness and the latency window.

use super::*;
use crate::time::{Instant, WallTime};

const LIMIT: Duration = Duration::from_secs(90);

/// A member of a replica set: its type, the time of its last check and the date of its last write,
/// both in seconds.
type Member = (ServerType, u64, Option<u64>);

fn set(members: &[Member]) -> TopologyDescription {
    let mut description = mongos(0);
    description.topology_type = TopologyType::ReplicaSetNoPrimary;
    for (number, &(server_type, checked, written)) in (0..).zip(members) {
        let mut server = ServerDescription::unknown(address(number));
        server.server_type = server_type;
        server.round_trip_time = Some(Duration::from_millis(5));
        server.last_update_time = Some(Instant::ZERO + Duration::from_secs(checked));
        server.last_write_date = written.map(|s| WallTime::from_unix_millis(s * 1000));
        if server_type == ServerType::RsPrimary {
            description.topology_type = TopologyType::ReplicaSetWithPrimary;
        }
        description
            .servers
            .insert(address(number), Arc::new(server));
    }
    description
}

fn fresh(mode: ReadMode, limit: Duration) -> Criteria {
    let preference = ReadPreference::new(mode)
        .with_max_staleness(limit)
        .expect("legal");
    Criteria::Readable(Arc::new(preference))
}

fn found(description: &TopologyDescription, criteria: &Criteria) -> Vec<Address> {
    let servers = suitable(description, criteria, HEARTBEAT, &[]).expect("legal");
    servers.iter().map(|s| s.address.clone()).collect()
}

use ServerType::{RsOther as Other, RsPrimary as Primary, RsSecondary as Secondary};

#[test]
fn staleness_includes_the_times_of_checks_and_the_limit_is_inclusive() {
    // The staleness is relative to the primary and includes the time of each check and the
    // heartbeat (STALE-8). A staleness equal to the limit is allowed (STALE-10).
    let day = 86_400;
    for (checked, written, expected) in [
        (100, 1000 * day, true),
        // Both members were checked at the same time. The difference of 80 s plus the heartbeat of
        // 10 s is the limit.
        (100, 1000 * day - 80, true),
        (100, 1000 * day - 81, false),
        // The estimate is also 90 s: the last write is 110 s older, but this member was checked 30
        // s earlier.
        (70, 1000 * day - 110, true),
        (70, 1000 * day - 111, false),
        // A secondary that is ahead of the primary has a negative staleness.
        (100, 2000 * day, true),
    ] {
        let set = set(&[
            (Primary, 100, Some(1000 * day)),
            (Secondary, checked, Some(written)),
        ]);
        let found = found(&set, &fresh(ReadMode::Secondary, LIMIT));
        assert_eq!(!found.is_empty(), expected, "{checked} {written}");
    }
}

#[test]
fn without_a_primary_staleness_is_relative_to_the_freshest_secondary() {
    // The reference is the most recent write of any secondary (STALE-9, STALE trap 4). The times of
    // the checks do not count, nor do members that are not secondaries.
    let members = [
        (Secondary, 1, Some(1000)),
        (Secondary, 900, Some(920)),
        (Secondary, 900, Some(919)),
        (Other, 1, Some(9000)),
    ];
    let mut set = set(&members);
    assert_eq!(
        found(&set, &fresh(ReadMode::Nearest, LIMIT)),
        [address(0), address(1)]
    );
    // The reference can be a server that the tags exclude (STALE-11).
    for (number, rack) in [(0, "x"), (1, "y"), (2, "y")] {
        let server = set.servers.get_mut(&address(number)).expect("it is there");
        Arc::make_mut(server).tags = [("rack".to_owned(), rack.to_owned())].into();
    }
    let preference = ReadPreference::new(ReadMode::Secondary)
        .with_max_staleness(LIMIT)
        .and_then(|p| p.with_tag_sets(vec![[("rack".into(), "y".into())].into()]))
        .expect("legal");
    assert_eq!(
        found(&set, &Criteria::Readable(Arc::new(preference))),
        [address(1)]
    );
}

#[test]
fn a_max_staleness_below_the_minimum_is_an_error_even_without_servers() {
    // A limit that is too small is an error even without available servers (STALE-6, STALE trap 2),
    // and 0 is such a limit (STALE trap 1).
    let none = set(&[(ServerType::Unknown, 0, None)]);
    for (limit, heartbeat, legal) in [
        (Duration::ZERO, HEARTBEAT, false),
        (Duration::from_secs(89), HEARTBEAT, false),
        (LIMIT, HEARTBEAT, true),
        // The formula is in milliseconds, so that no division loses digits (STALE trap 8).
        (LIMIT, Duration::from_millis(80_000), true),
        (LIMIT, Duration::from_millis(80_001), false),
        (Duration::MAX, Duration::MAX, true),
        (LIMIT, Duration::MAX, false),
    ] {
        let criteria = fresh(ReadMode::Nearest, limit);
        let result = suitable(&none, &criteria, heartbeat, &[]);
        assert_eq!(result.is_ok(), legal, "{limit:?} {heartbeat:?}");
        // In other topologies the limit is not checked (STALE-7).
        let mut other = mongos(1);
        for kind in [
            TopologyType::Sharded,
            TopologyType::Single,
            TopologyType::Unknown,
        ] {
            other.topology_type = kind;
            assert!(
                suitable(&other, &criteria, heartbeat, &[]).is_ok(),
                "{kind}"
            );
        }
    }
}

#[test]
fn an_unknown_server_does_not_prevent_selection_by_max_staleness() {
    // A server that has not answered has wire version 0, which does not exclude a maximum staleness
    // (STALE-13).
    let mut description = set(&[(Primary, 10, Some(10)), (Secondary, 10, Some(9))]);
    let unknown = ServerDescription::unknown(Address::tcp("silent", 1));
    assert_eq!(unknown.max_wire_version, 0);
    description
        .servers
        .insert(unknown.address.clone(), Arc::new(unknown));
    let criteria = fresh(ReadMode::Nearest, Duration::from_secs(120));
    assert_eq!(found(&description, &criteria).len(), 2);
}

#[test]
fn max_staleness_is_checked_again_for_each_topology_version() {
    // The check of the limit happens again for each version of the topology description (STALE-6).
    let (mut description, mut version) = (mongos(1), 0);
    let (mut selector, criteria) = (selector(), fresh(ReadMode::Nearest, Duration::from_secs(1)));
    let first = selector.select(version, &description, id, &criteria, &[]);
    assert_eq!(first.expect("legal"), Some(ServerId(0)));
    description.topology_type = TopologyType::ReplicaSetNoPrimary;
    version += 1;
    for _ in 0..2 {
        let next = selector.select(version, &description, id, &criteria, &[]);
        assert!(next.is_err(), "{next:?}");
    }
    description.topology_type = TopologyType::Sharded;
    version += 1;
    let last = selector.select(version, &description, id, &criteria, &[]);
    assert_eq!(last.expect("legal"), Some(ServerId(0)));
}

#[test]
fn staleness_of_extreme_write_dates_is_estimated_without_overflow() {
    // No date, the earliest dates, and the latest one.
    let dates = [None, Some(0), Some(1), Some(u64::MAX / 1000)];
    let limits = [LIMIT, Duration::from_secs(u64::MAX), Duration::MAX];
    for (primary, secondary) in dates.into_iter().flat_map(|a| dates.map(|b| (a, b))) {
        for checked in [0, u64::MAX / 1_000_000_000] {
            for limit in limits {
                let first = [(Primary, checked, primary), (Secondary, 0, secondary)];
                let second = [(Secondary, checked, primary), (Secondary, 0, secondary)];
                for members in [first, second] {
                    let set = set(&members);
                    let found = found(&set, &fresh(ReadMode::Nearest, limit));
                    // A primary is never stale (STALE-10), and neither is the secondary with the
                    // most recent write.
                    assert!(!found.is_empty(), "{members:?}");
                }
            }
        }
    }
}

#[test]
fn the_latency_window_does_not_overflow() {
    // The end of the latency window does not overflow (SEL-57).
    let mut description = mongos(3);
    for (number, trip) in [
        (0, Some(Duration::MAX)),
        (1, None),
        (2, Some(Duration::ZERO)),
    ] {
        let server = description
            .servers
            .get_mut(&address(number))
            .expect("it is there");
        Arc::make_mut(server).round_trip_time = trip;
    }
    for (threshold, expected) in [(Duration::ZERO, 1), (Duration::MAX, 3)] {
        let mut servers =
            suitable(&description, &Criteria::Writable, Duration::MAX, &[]).expect("legal");
        in_window(&mut servers, threshold);
        assert_eq!(servers.len(), expected);
        let random = Seed::new([8; 32]).split("selection").random();
        let mut selector = Selector::new(threshold, Duration::MAX, random);
        let mut chosen: Vec<_> = (0..100)
            .filter_map(|_| {
                let version = 0;
                let found = selector.select(version, &description, id, &Criteria::Writable, &[]);
                found.expect("legal")
            })
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen.len(), expected);
    }
}
