//! Tests that a ranking that was kept and refreshed has the same servers as a new computation.

use super::*;
use crate::{
    description::Tags,
    selection::ranking::{Ranking, window},
    time::{Instant, WallTime},
};
use proptest::prelude::*;

const THRESHOLD: Duration = Duration::from_millis(15);

fn server_type() -> impl Strategy<Value = ServerType> {
    prop_oneof![
        Just(ServerType::Unknown),
        Just(ServerType::Mongos),
        Just(ServerType::RsPrimary),
        Just(ServerType::RsSecondary),
        Just(ServerType::RsSecondary),
        Just(ServerType::RsArbiter),
        Just(ServerType::LoadBalancer),
    ]
}

fn topology_type() -> impl Strategy<Value = TopologyType> {
    prop_oneof![
        Just(TopologyType::Unknown),
        Just(TopologyType::Single),
        Just(TopologyType::Sharded),
        Just(TopologyType::LoadBalanced),
        Just(TopologyType::ReplicaSetNoPrimary),
        Just(TopologyType::ReplicaSetWithPrimary),
        Just(TopologyType::ReplicaSetWithPrimary),
    ]
}

prop_compose! {
    fn server()(
        number in 0_u64..6,
        server_type in server_type(),
        trip in prop::option::of(0_u64..40),
        rack in 0_u8..3,
        wire in prop_oneof![Just(9), Just(21)],
        written in 0_u64..200,
    ) -> (u64, ServerDescription) {
        let mut server = ServerDescription::unknown(address(number));
        server.server_type = server_type;
        server.round_trip_time = trip.map(Duration::from_millis);
        server.tags = Tags::from([("rack".to_owned(), rack.to_string())]);
        server.max_wire_version = wire;
        server.last_write_date = Some(WallTime::from_unix_millis(written * 1000));
        server.last_update_time = Some(Instant::from_nanos(1));
        (number, server)
    }
}

fn criteria() -> impl Strategy<Value = Criteria> {
    let sets = prop::collection::vec(prop::option::of(0_u8..3), 0..3);
    let mode = prop::sample::select(ReadMode::ALL.to_vec());
    (mode, sets, any::<bool>(), 0_u8..4).prop_map(|(mode, sets, fresh, kind)| {
        let mut preference = ReadPreference::new(mode);
        if mode != ReadMode::Primary {
            let sets = sets.into_iter().map(|rack| {
                let tags = rack.map(|rack| ("rack".to_owned(), rack.to_string()));
                tags.into_iter().collect::<Tags>()
            });
            preference = preference.with_tag_sets(sets.collect()).expect("legal");
            if fresh {
                let limit = Duration::from_secs(100);
                preference = preference.with_max_staleness(limit).expect("legal");
            }
        }
        match kind {
            0 => Criteria::Writable,
            1 => Criteria::WritingAggregate(Arc::new(preference)),
            _ => Criteria::Readable(Arc::new(preference)),
        }
    })
}

/// One change of the topology: a server that changes or, if the flag is true, is removed, and
/// sometimes another topology type.
type Step = (u64, ServerDescription, bool, Option<TopologyType>);

fn step() -> impl Strategy<Value = Step> {
    let whole = prop::option::weighted(0.05, topology_type());
    (server(), prop::bool::weighted(0.2), whole)
        .prop_map(|((number, server), gone, whole)| (number, server, gone, whole))
}

proptest! {
    #[test]
    fn a_refreshed_ranking_has_the_same_servers_as_a_new_computation(
        start in topology_type(),
        criteria in criteria(),
        steps in prop::collection::vec((step(), any::<bool>()), 1..60),
    ) {
        // The latency window (SEL-57) of the kept ranking has the same servers as that of the
        // suitable servers (SEL-12, SEL-20 to SEL-23, SEL-44 to SEL-49).
        let mut description = mongos(0);
        description.topology_type = start;
        let mut version = 0;
        let mut kept = Ranking::new(version, &description, id, &criteria, HEARTBEAT)
            .expect("legal");
        for ((number, server, gone, whole), look) in steps {
            let server = Arc::new(server);
            if gone {
                description.servers.remove(&address(number));
            } else {
                description.servers.insert(address(number), server);
            }
            if let Some(whole) = whole {
                description.topology_type = whole;
            }
            version += 1;
            if !look {
                continue;
            }
            kept.refresh(version, &description, id, HEARTBEAT).expect("legal");
            let mut found: Vec<ServerId> =
                window(&kept.entries, THRESHOLD).iter().map(|e| e.server).collect();
            found.sort_unstable();
            let mut expected =
                suitable(&description, &criteria, HEARTBEAT, &[]).expect("legal");
            in_window(&mut expected, THRESHOLD);
            let expected: Vec<ServerId> =
                expected.iter().filter_map(|s| id(&s.address)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
