//! Machine and model agree about a server whose replies to awaited checks come early.

use crate::bench::{Bench, Found};
use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};
use onionskin_core::address::Address;
use onionskin_tests::model::{Config, Mistake};
use proptest::{prelude::*, test_runner::TestCaseError};
use std::time::Duration;

/// The milliseconds to a reply, what it announces, and whether a check is requested after it.
type Reply = (u64, bool, bool);

fn storms() -> impl Strategy<Value = Vec<Reply>> {
    let pause = prop_oneof![
        10 => 0_u64..60,
        2 => Just(499_u64),
        2 => Just(500_u64),
        1 => 0_u64..3_000,
    ];
    let reply = (pause, any::<bool>(), prop::bool::weighted(0.1));
    prop::collection::vec(reply, 1..80)
}

fn versioned(counter: i64) -> RawDocumentBuf {
    let process = ObjectId::from_bytes([7; 12]);
    rawdoc! {
        "ok": 1, "helloOk": true, "maxWireVersion": 21,
        "topologyVersion": { "processId": process, "counter": counter },
    }
}

fn play(storm: &[Reply], mistake: Option<Mistake>) -> Found {
    let address = Address::tcp("a", 1);
    let mut config = Config::new([address.clone()]);
    config.streaming = true;
    let mut bench = Bench::paired(&config, mistake)?;
    let ping = Duration::from_millis(1);
    for (counter, &(millis, more_to_come, requests)) in (0..).zip(storm) {
        bench.pass(Duration::from_millis(millis))?;
        bench.measure(Some(&versioned(counter)))?;
        bench.answer(&address, Some(&versioned(counter)), ping, more_to_come)?;
        if requests {
            bench.request_check()?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases(300))]

    #[test]
    fn the_model_agrees_about_early_replies(storm in storms()) {
        play(&storm, None).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn a_missing_bound_for_early_replies_is_caught() {
    for more_to_come in [false, true] {
        let storm = [(1, more_to_come, false); 12];
        assert_eq!(play(&storm, None), Ok(()));
        let found = play(&storm, Some(Mistake::NoBoundForEarlyReplies));
        assert!(found.is_err(), "{found:?}");
    }
}
