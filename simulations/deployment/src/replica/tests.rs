//! Tests of the consensus rules with the state of one member out of three, and of the bound on the
//! records of retryable writes.

use super::{
    Message, Replica, SetConfig,
    log::{Bound, Effect, Entry, Log, NO_TIME, Position, Retry, Step},
    message::Kind,
    records::Records,
};
use crate::{
    deployment::MemberOptions,
    store::{Change, Namespace, Origin, Store},
};
use bson::doc;
use onionskin_core::{random::Seed, time::Instant};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

fn config() -> Arc<SetConfig> {
    Arc::new(SetConfig {
        term: 0,
        version: 1,
        is_forced: false,
        was_forced: false,
        members: vec![MemberOptions::default(); 3],
        newcomers: BTreeSet::new(),
        election_timeout: Duration::from_secs(10),
        heartbeat_interval: Duration::from_secs(2),
        initial_primary: None,
        started_at_millis: 0,
        oplog: Bound {
            count: 100,
            bytes: 1 << 20,
        },
        records: Bound {
            count: 100,
            bytes: 1 << 20,
        },
    })
}

fn member() -> Replica {
    Replica::new(0, config(), Seed::new([1; 32]).random())
}

fn message(term: u64, kind: Kind) -> Message {
    Message {
        term,
        config: config(),
        clock: NO_TIME,
        kind,
    }
}

fn request(candidacy: u64, last: Position) -> Message {
    let kind = Kind::VoteRequest {
        candidacy,
        dry: false,
        handoff: false,
        last,
        commit: 0,
    };
    message(candidacy, kind)
}

fn granted(replica: &mut Replica) -> Option<bool> {
    let sent = std::mem::take(&mut replica.sent);
    sent.into_iter()
        .find_map(|(_, message)| match message.kind {
            Kind::Vote { granted, .. } => Some(granted),
            _ => None,
        })
}

fn append(replica: &mut Replica, term: u64, index: u64) {
    let entry = Entry::new(Position { term, index }, (NO_TIME, 0), Vec::new(), None);
    let kind = Kind::Append {
        previous: Position {
            term: if index == 1 { 0 } else { term },
            index: index - 1,
        },
        entries: vec![Arc::new(entry)],
        commit: 0,
    };
    replica.handle_message(Instant::ZERO, 1, message(term, kind));
    replica.sent.clear();
}

#[test]
fn a_member_votes_once_per_term_even_after_a_restart() {
    let mut replica = member();
    let now = Instant::ZERO;
    let empty = Position::default();
    replica.handle_message(now, 1, request(1, empty));
    assert_eq!(granted(&mut replica), Some(true));
    replica.handle_message(now, 2, request(1, empty));
    assert_eq!(granted(&mut replica), Some(false));
    replica.restart(now);
    replica.handle_message(now, 2, request(1, empty));
    assert_eq!(granted(&mut replica), Some(false));
    replica.handle_message(now, 1, request(1, empty));
    assert_eq!(
        granted(&mut replica),
        Some(true),
        "the same answer to the same question"
    );
    replica.handle_message(now, 2, request(2, empty));
    assert_eq!(
        granted(&mut replica),
        Some(true),
        "a new term is a new vote"
    );
}

#[test]
fn a_candidate_with_an_older_oplog_gets_no_vote() {
    let mut replica = member();
    let now = Instant::ZERO;
    append(&mut replica, 2, 1);
    let shorter = Position::default();
    let longer_but_older = Position { term: 1, index: 9 };
    let equal = Position { term: 2, index: 1 };
    for (candidacy, last, vote) in [
        (3, shorter, false),
        (4, longer_but_older, false),
        (5, equal, true),
    ] {
        replica.handle_message(now, 2, request(candidacy, last));
        assert_eq!(granted(&mut replica), Some(vote), "{last:?}");
    }
}

#[test]
fn an_entry_of_an_earlier_term_is_not_committed_by_counting_replicas() {
    let mut replica = member();
    append(&mut replica, 1, 1);
    let now = replica.deadline().expect("an election timeout");
    replica.handle_timeout(now);
    for dry in [true, false] {
        let kind = Kind::Vote {
            candidacy: 2,
            dry,
            granted: true,
        };
        replica.handle_message(now, 1, message(1, kind));
    }
    assert!(replica.is_writable());
    assert_eq!(replica.last(), Position { term: 2, index: 2 });
    for (matched, commit) in [(1, 0), (2, 2)] {
        let kind = Kind::Appended {
            result: Ok(matched),
        };
        replica.handle_message(now, 1, message(2, kind));
        assert_eq!(replica.commit(), commit);
    }
}

#[test]
fn a_dry_run_vote_does_not_bind_the_member() {
    let mut replica = member();
    let now = Instant::ZERO;
    let kind = Kind::VoteRequest {
        candidacy: 1,
        dry: true,
        handoff: false,
        last: Position::default(),
        commit: 0,
    };
    replica.handle_message(now, 1, message(0, kind));
    assert_eq!(granted(&mut replica), Some(true));
    assert_eq!(replica.term(), 0);
    replica.handle_message(now, 2, request(1, Position::default()));
    assert_eq!(granted(&mut replica), Some(true));
}

#[test]
fn records_of_retryable_writes_are_bounded_in_bytes() {
    let (mut log, mut records) = (Log::default(), Records::default());
    let bound = Bound {
        count: 1000,
        bytes: 50_000,
    };
    let session = |n: u8| [n; 16];
    for n in 1..=20 {
        let answer = bson::doc! { "value": { "text": "x".repeat(10_000) } };
        let retry = Retry {
            session: session(n),
            transaction: 1,
            step: Step::Statements(vec![(
                0,
                Effect::Modify {
                    answer,
                    is_after: false,
                },
            )]),
        };
        let position = Position {
            term: 1,
            index: u64::from(n),
        };
        let entry = Entry::new(position, (NO_TIME, 0), Vec::new(), Some(retry));
        log.push(Arc::new(entry), &mut records, bound);
    }
    let known = |records: &Records| -> Vec<u8> {
        let all = 1..=20;
        all.filter(|n| records.of(&session(*n)).is_some()).collect()
    };
    assert_eq!(known(&records), [17, 18, 19, 20]);
    let before = log.size();
    log.pop(&mut records);
    assert_eq!(known(&records), [16, 17, 18, 19], "as before the entry");
    assert!(log.size() < before);
    while log.pop(&mut records).is_some() {}
    assert_eq!(log.size(), (0, 0));
    assert!(known(&records).is_empty());
}

/// A configuration that the former primary told to nobody gives way to that of a later term, also
/// if its version is higher.
#[test]
fn a_configuration_of_a_later_term_is_later() {
    let mut replica = member();
    let of = |term, version| {
        let config = SetConfig::clone(&config());
        Arc::new(SetConfig {
            term,
            version,
            ..config
        })
    };
    for (term, version, expected) in [(1, 5, 5), (1, 4, 5), (2, 2, 2), (1, 9, 2), (2, 3, 3)] {
        replica.take_over(Instant::ZERO, of(term, version));
        assert_eq!(replica.config().version, expected, "{term}, {version}");
    }
}

/// The votes of a candidate can come with a configuration that does not let it lead.
#[test]
fn a_candidate_gives_up_if_its_configuration_does_not_let_it_lead() {
    let mut replica = member();
    replica.start_election(Instant::ZERO, false, false);
    let mut members = vec![MemberOptions::default(); 3];
    members[0].priority = 0;
    let present = SetConfig::clone(&config());
    let new = Arc::new(SetConfig {
        members,
        version: 2,
        ..present
    });
    let vote = Message {
        term: replica.term(),
        config: new,
        clock: NO_TIME,
        kind: Kind::Vote {
            candidacy: replica.term(),
            dry: false,
            granted: true,
        },
    };
    replica.handle_message(Instant::ZERO, 1, vote);
    assert!(!replica.is_leader());
}

/// Two configurations with other voters can have separate majorities.
#[test]
fn a_candidate_whose_configuration_has_earlier_voters_gets_no_vote() {
    let mut replica = member();
    let mut members = vec![MemberOptions::default(); 3];
    members[2].absent = true;
    let present = SetConfig::clone(&config());
    let new = Arc::new(SetConfig {
        members,
        version: 2,
        ..present
    });
    replica.take_over(Instant::ZERO, Arc::clone(&new));
    let mut request = request(1, Position::default());
    replica.handle_message(Instant::ZERO, 1, request.clone());
    let sent: Vec<(usize, Message)> = std::mem::take(&mut replica.sent).into();
    let [(1, answer)] = sent.as_slice() else {
        panic!("not only the configuration: {sent:?}");
    };
    assert!(matches!(answer.kind, Kind::Config), "{answer:?}");
    assert_eq!(answer.config.version, 2);
    request.config = new;
    replica.handle_message(Instant::ZERO, 1, request);
    assert_eq!(granted(&mut replica), Some(true));
}

#[test]
fn a_member_without_its_data_gives_no_vote() {
    let mut replica = member();
    append(&mut replica, 1, 1);
    replica.drop_data();
    let last = Position { term: 1, index: 1 };
    replica.handle_message(Instant::ZERO, 2, request(2, last));
    assert_eq!(granted(&mut replica), Some(false));
}

/// A forced configuration has no term, so that a later term does not count.
#[test]
fn a_forced_configuration_is_compared_by_its_version() {
    let mut replica = member();
    let present = SetConfig::clone(&config());
    let of = |term, version, is_forced| {
        Arc::new(SetConfig {
            term,
            version,
            is_forced,
            ..present.clone()
        })
    };
    for (term, version, is_forced, expected) in [
        (5, 2, false, 2),
        (1, 9, true, 9),
        (7, 8, false, 9),
        (7, 10, false, 10),
        (8, 3, false, 3),
    ] {
        replica.take_over(Instant::ZERO, of(term, version, is_forced));
        assert_eq!(replica.config().version, expected, "{term}, {version}");
    }
}

#[test]
fn copies_of_built_indexes_are_dropped_from_the_oplog() {
    let namespace = Namespace::new("d", "c");
    let indexes = [doc! { "key": { "a": 1 }, "name": "a" }];
    let mut store = Store::new();
    let built = store.build_indexes(&namespace, &indexes, 3);
    let done = store.create_built(&namespace, &indexes, built);
    assert_eq!(done.expect("created").after, 2);
    let position = Position { term: 1, index: 1 };
    let entry = Entry::new(position, (NO_TIME, 0), store.take_changes(), None);
    let kind = Kind::Append {
        previous: Position::default(),
        entries: vec![Arc::new(entry)],
        commit: 0,
    };
    let mut replica = member();
    replica.handle_message(Instant::ZERO, 1, message(1, kind));
    let has_copies = |replica: &Replica| {
        let entry = replica.log.get(1).expect("the entry");
        entry.changes.iter().any(Change::has_copies)
    };
    assert!(has_copies(&replica), "one for the third member");
    replica.handle_timeout(Instant::ZERO + Duration::from_secs(9));
    assert!(has_copies(&replica));
    replica.handle_timeout(Instant::ZERO + Duration::from_secs(10));
    assert!(!has_copies(&replica));
}

#[test]
fn an_entry_with_many_changes_is_applied_in_parts_and_seen_at_its_end() {
    let namespace = Namespace::new("d", "c");
    let mut store = Store::new();
    let created = store.create_collection(&namespace, doc! {});
    created.expect("a collection");
    let first = store.take_changes();
    let insert = |record: u64| Change::Insert {
        namespace: namespace.clone(),
        record,
        document: Arc::new(doc! { "_id": record as i64 }),
        origin: Origin::default(),
    };
    let many: Vec<Change> = (1..=1200).map(insert).collect();
    let entry = |index, changes| {
        let position = Position { term: 1, index };
        Arc::new(Entry::new(position, (NO_TIME, 0), changes, None))
    };
    let entries = [entry(1, first), entry(2, many)];
    let mut replica = member();
    replica.run_jobs();
    let mut send = |index: u64| {
        let previous = match index {
            1 => Position::default(),
            _ => Position {
                term: 1,
                index: index - 1,
            },
        };
        let kind = Kind::Append {
            previous,
            entries: vec![Arc::clone(&entries[index as usize - 1])],
            commit: 0,
        };
        replica.handle_message(Instant::ZERO, 1, message(1, kind));
        let sent = std::mem::take(&mut replica.sent);
        let result = sent
            .into_iter()
            .find_map(|(_, message)| match message.kind {
                Kind::Appended { result } => Some(result),
                _ => None,
            });
        let stored = replica.store().collection(&namespace);
        (result, stored.map(|stored| stored.documents().count()))
    };
    assert_eq!(send(1), (Some(Ok(1)), Some(0)));
    for _ in 0..2 {
        assert_eq!(
            send(2),
            (Some(Err(1)), Some(0)),
            "the primary sends it again"
        );
    }
    assert_eq!(send(2), (Some(Ok(2)), Some(1200)));
    assert_eq!(send(2), (Some(Ok(2)), Some(1200)), "it is known");
}

#[test]
fn a_part_of_an_entry_is_forgotten_when_another_entry_takes_its_place() {
    let namespace = Namespace::new("d", "c");
    let create = Change::CreateCollection {
        namespace: namespace.clone(),
        options: Arc::new(doc! {}),
        serial: 1,
    };
    let insert = |record: u64| Change::Insert {
        namespace: namespace.clone(),
        record,
        document: Arc::new(doc! { "_id": record as i64 }),
        origin: Origin::default(),
    };
    let many: Vec<Change> = std::iter::once(create)
        .chain((1..=1200).map(insert))
        .collect();
    let mut replica = member();
    replica.run_jobs();
    let mut is_staged_after = |term: u64, changes: Vec<Change>| {
        let position = Position { term, index: 1 };
        let kind = Kind::Append {
            previous: Position::default(),
            entries: vec![Arc::new(Entry::new(position, (NO_TIME, 0), changes, None))],
            commit: 0,
        };
        replica.handle_message(Instant::ZERO, 1, message(term, kind));
        replica.staged.is_some()
    };
    assert!(is_staged_after(1, many), "a part was applied");
    assert!(
        !is_staged_after(2, Vec::new()),
        "the next primary has another"
    );
    assert!(replica.store().collection(&namespace).is_none());
}

#[test]
fn earlier_data_is_made_in_parts() {
    let namespace = Namespace::new("d", "c");
    let mut replica = member();
    replica.run_jobs();
    let mut store = Store::new();
    let created = store.create_collection(&namespace, doc! {});
    created.expect("a collection");
    let insert = |record: u64| Change::Insert {
        namespace: namespace.clone(),
        record,
        document: Arc::new(doc! { "_id": record as i64 }),
        origin: Origin::default(),
    };
    let parts = [
        store.take_changes(),
        (1..=300).map(insert).collect(),
        Vec::new(),
        (301..=400).map(insert).collect(),
    ];
    for (index, changes) in (1..).zip(parts) {
        let entry = Entry::new(Position { term: 1, index }, (NO_TIME, 0), changes, None);
        let kind = Kind::Append {
            previous: Position {
                term: u64::from(index > 1),
                index: index - 1,
            },
            entries: vec![Arc::new(entry)],
            commit: 0,
        };
        replica.handle_message(Instant::ZERO, 1, message(1, kind));
    }
    let count = |store: &Store| store.collection(&namespace).map(|c| c.documents().count());
    let mut past = replica.past(1, None).expect("the oplog has it");
    let mut pauses = 0;
    while !past.go_on(150) {
        pauses += 1;
    }
    assert_eq!(pauses, 2);
    assert_eq!(past.place(), (Some(1), 1));
    assert_eq!(count(&past.into_store().expect("the data")), Some(0));
    let store = replica.store_at(2, None).expect("the data");
    assert_eq!(count(&store), Some(300));
    assert_eq!(count(replica.store()), Some(400));
}
