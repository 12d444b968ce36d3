//! Compares machine and model with servers whose replies come early, or whose replies name new
//! members each time. Machine and model limit the rate of the checks that follow such replies at
//! once.

use crate::bench::{Bench, Found};
use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};
use onionskin_core::address::Address;
use onionskin_models::discovery::{Config, Mistake};
use proptest::{prelude::*, test_runner::TestCaseError};
use std::time::Duration;

/// The milliseconds until a reply, whether the reply announces another one, and whether a check is
/// requested after the reply.
type Reply = (u64, bool, bool);

fn storms() -> impl Strategy<Value = Vec<Reply>> {
    let pause = prop_oneof![
        10 => 0_u64..60,
        2 => Just(499_u64),
        2 => Just(500_u64),
        1 => 0_u64..3_000,
    ];
    let reply = (pause, any::<bool>(), prop::bool::weighted(0.1));
    let replies = prop::collection::vec(reply, 1..80);
    // With pauses that are multiples of 500 ms, several timers are due at the same time.
    (replies, prop_oneof![Just(1_u64), Just(500_u64)]).prop_map(|(mut replies, unit)| {
        for (pause, _, _) in &mut replies {
            *pause -= *pause % unit;
        }
        replies
    })
}

fn versioned(counter: i64) -> RawDocumentBuf {
    let process = ObjectId::from_bytes([7; 12]);
    rawdoc! {
        "ok": 1, "helloOk": true, "maxWireVersion": 21,
        "topologyVersion": { "processId": process, "counter": counter },
    }
}

fn play(storm: &[Reply], waiting: bool, mistake: Option<Mistake>) -> Found {
    let address = Address::tcp("a", 1);
    let mut config = Config::new([address.clone()]);
    config.streaming = true;
    config.connect_timeout = Some(Duration::from_secs(3));
    let mut bench = Bench::paired(&config, mistake)?;
    bench.set_waiting(waiting)?;
    let round_trip = Duration::from_millis(1);
    for (counter, &(millis, more_to_come, requests)) in (0..).zip(storm) {
        bench.pass(Duration::from_millis(millis))?;
        bench.measure(Some(&versioned(counter)))?;
        bench.answer(
            &address,
            Some(&versioned(counter)),
            round_trip,
            more_to_come,
        )?;
        if requests {
            bench.request_check()?;
        }
    }
    bench.pass(Duration::from_secs(20))
}

proptest! {
    #![proptest_config(crate::cases(300))]

    #[test]
    fn sdam_agrees_with_its_model_for_early_replies(
        storm in storms(), waiting in any::<bool>(),
    ) {
        play(&storm, waiting, None).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn a_missing_rate_limit_for_checks_after_early_replies_is_found() {
    for more_to_come in [false, true] {
        let storm = [(1, more_to_come, false); 12];
        assert_eq!(play(&storm, false, None), Ok(()));
        let found = play(&storm, false, Some(Mistake::NoBoundForEarlyReplies));
        assert!(found.is_err(), "{found:?}");
    }
}

/// A check that waits because of early replies and the request of waiting operations can have their
/// turn at the same time. Then the check begins, and the request changes nothing (MON-17).
#[test]
fn a_check_that_is_due_begins_before_a_request_at_the_same_time() {
    for more_to_come in [false, true] {
        assert_eq!(play(&[(0, more_to_come, false); 12], true, None), Ok(()));
    }
}

/// Plays replies of four addresses in turn. Each member, when it is checked, is a newer primary
/// whose host list contains only itself and the next member.
fn play_ring(turns: u32, mistake: Option<Mistake>) -> Found {
    let member = |turn: u32| Address::tcp(&format!("m{}", turn % 4), 1);
    let mut bench = Bench::paired(&Config::new([member(0)]), mistake)?;
    for turn in 0..turns {
        let (this, next) = (member(turn), member(turn + 1));
        if bench.watch.pending(&this).is_none() {
            bench.pass(Duration::from_secs(10))?;
        }
        let mut term = [0; 12];
        term[8..].copy_from_slice(&turn.to_be_bytes());
        let reply = rawdoc! {
            "ok": 1, "maxWireVersion": 21, "setName": "rs", "isWritablePrimary": true,
            "setVersion": i64::from(turn), "electionId": ObjectId::from_bytes(term),
            "hosts": [this.to_string(), next.to_string()],
        };
        if !bench.answer(&this, Some(&reply), Duration::from_millis(1), false)? {
            return Err(format!("turn {turn}: {this} is not checked"));
        }
    }
    Ok(())
}

#[test]
fn sdam_agrees_with_its_model_for_members_that_are_added_and_removed() {
    assert_eq!(play_ring(400, None), Ok(()));
    let found = play_ring(400, Some(Mistake::NoBoundForNewServers));
    assert!(found.is_err(), "{found:?}");
}
