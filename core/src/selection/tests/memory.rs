//! Tests of the rankings that a selector keeps between selections.

use super::*;

/// Counts the calls that look up the id of a server, which happen only when a ranking is computed.
struct Reader {
    description: TopologyDescription,
    selector: Selector,
    asked: Cell<usize>,
}

impl Reader {
    fn new(description: TopologyDescription) -> Self {
        Self {
            description,
            selector: selector(),
            asked: Cell::new(0),
        }
    }

    /// Selects a server and returns true if the selection computed a ranking.
    fn reads(&mut self, version: u64, criteria: &Criteria) -> bool {
        let before = self.asked.get();
        let look_up = |address: &Address| {
            self.asked.set(self.asked.get() + 1);
            id(address)
        };
        let found = self
            .selector
            .select(version, &self.description, look_up, criteria, &[]);
        assert!(matches!(found, Ok(Some(_))), "{found:?}");
        self.asked.get() > before
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
fn equal_criteria_share_what_is_remembered_and_others_do_not() {
    let mut reader = Reader::new(members());
    let version = 1;
    assert!(reader.reads(version, &secondary("0")));
    assert!(
        !reader.reads(version, &secondary("0")),
        "equal, if not the same"
    );
    assert!(reader.reads(version, &secondary("1")));
    for host in ["0", "1", "0"] {
        let found = reader
            .selector
            .select(version, &reader.description, id, &secondary(host), &[]);
        assert_eq!(found, Ok(host.parse().ok().map(ServerId)));
    }
    let Criteria::Readable(preference) = secondary("0") else {
        panic!("a read");
    };
    let writing = Criteria::WritingAggregate(preference);
    assert!(reader.reads(version, &writing), "another kind of operation");
}

#[test]
fn each_version_is_read_once_for_each_criteria() {
    let mut reader = Reader::new(members());
    for version in 1..4 {
        for host in ["0", "1"] {
            assert!(reader.reads(version, &secondary(host)));
            assert!(!reader.reads(version, &secondary(host)));
        }
    }
}

#[test]
fn the_oldest_criteria_are_forgotten_first_and_one_at_a_time() {
    let mut reader = Reader::new(members());
    let version = 1;
    let criteria: Vec<Criteria> = (0..MAX_CACHED_WINDOWS + 2)
        .map(|n| {
            let sets = vec![[("x".to_owned(), n.to_string())].into(), [].into()];
            let preference = ReadPreference::new(ReadMode::Secondary).with_tag_sets(sets);
            Criteria::Readable(Arc::new(preference.expect("legal")))
        })
        .collect();
    for each in &criteria {
        assert!(reader.reads(version, each), "it is new");
    }
    // There are two criteria more than can be kept, so the first two are gone.
    for each in &criteria[2..] {
        assert!(!reader.reads(version, each), "it is remembered");
    }
    assert!(reader.reads(version, &criteria[0]));
    assert!(reader.reads(version, &criteria[2]), "it gave way");
    assert!(!reader.reads(version, &criteria[4]));
}

#[test]
fn each_end_is_counted_for_one_operation() {
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
