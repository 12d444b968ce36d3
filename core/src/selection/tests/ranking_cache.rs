//! Tests of the rankings that a selector keeps between selections.

use super::*;

/// Counts the calls that look up the id of a server, which happen only when a ranking is computed.
struct RankingCounter {
    description: TopologyDescription,
    selector: Selector,
    id_lookups: Cell<usize>,
}

impl RankingCounter {
    fn new(description: TopologyDescription) -> Self {
        Self {
            description,
            selector: selector(),
            id_lookups: Cell::new(0),
        }
    }

    /// Selects a server and returns true if the selection computed a ranking.
    fn computes_ranking(&mut self, version: u64, criteria: &Criteria) -> bool {
        let before = self.id_lookups.get();
        let look_up = |address: &Address| {
            self.id_lookups.set(self.id_lookups.get() + 1);
            id(address)
        };
        let found = self
            .selector
            .select(version, &self.description, look_up, criteria, &[]);
        assert!(matches!(found, Ok(Some(_))), "{found:?}");
        self.id_lookups.get() > before
    }
}

fn members() -> TopologyDescription {
    let mut description = mongos(3);
    description.topology_type = TopologyType::ReplicaSetNoPrimary;
    for (n, server) in description.servers.values_mut().enumerate() {
        let server = Arc::make_mut(server);
        server.server_type = ServerType::RsSecondary;
        server.tags.insert("host".to_owned(), n.to_string());
    }
    description
}

#[test]
fn equal_criteria_share_a_cached_ranking_and_other_criteria_do_not() {
    let mut ranking_counter = RankingCounter::new(members());
    let version = 1;
    assert!(ranking_counter.computes_ranking(version, &secondary("0")));
    assert!(
        !ranking_counter.computes_ranking(version, &secondary("0")),
        "equal, if not the same"
    );
    assert!(ranking_counter.computes_ranking(version, &secondary("1")));
    for host in ["0", "1", "0"] {
        let found = ranking_counter.selector.select(
            version,
            &ranking_counter.description,
            id,
            &secondary(host),
            &[],
        );
        assert_eq!(found, Ok(host.parse().ok().map(ServerId)));
    }
    let Criteria::Readable(preference) = secondary("0") else {
        panic!("a read");
    };
    let writing = Criteria::WritingAggregate(preference);
    assert!(
        ranking_counter.computes_ranking(version, &writing),
        "another kind of operation"
    );
}

#[test]
fn a_ranking_is_computed_once_per_version_and_criteria() {
    let mut ranking_counter = RankingCounter::new(members());
    for version in 1..4 {
        for host in ["0", "1"] {
            assert!(ranking_counter.computes_ranking(version, &secondary(host)));
            assert!(!ranking_counter.computes_ranking(version, &secondary(host)));
        }
    }
}

#[test]
fn a_full_cache_drops_one_ranking_at_a_time_the_oldest_first() {
    let mut ranking_counter = RankingCounter::new(members());
    let version = 1;
    let criteria: Vec<Criteria> = (0..MAX_CACHED_WINDOWS + 2)
        .map(|n| {
            let sets = vec![[("x".to_owned(), n.to_string())].into(), [].into()];
            let preference = ReadPreference::new(ReadMode::Secondary).with_tag_sets(sets);
            Criteria::Readable(Arc::new(preference.expect("legal")))
        })
        .collect();
    for each in &criteria {
        assert!(ranking_counter.computes_ranking(version, each), "it is new");
    }
    // There are two criteria more than can be kept, so the first two are gone.
    for each in &criteria[2..] {
        assert!(
            !ranking_counter.computes_ranking(version, each),
            "it is remembered"
        );
    }
    assert!(ranking_counter.computes_ranking(version, &criteria[0]));
    assert!(
        ranking_counter.computes_ranking(version, &criteria[2]),
        "it gave way"
    );
    assert!(!ranking_counter.computes_ranking(version, &criteria[4]));
}

#[test]
fn each_finished_operation_reduces_the_operation_count_by_one() {
    let mut selector = selector();
    let server = ServerId(4);
    for _ in 0..3 {
        selector.started(server);
    }
    for left in [2, 1, 0, 0] {
        selector.finished(server);
        assert_eq!(selector.operation_count(server), left);
    }
}
