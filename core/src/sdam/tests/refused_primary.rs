//! Tests of the event that a server is refused as a stale primary for long.

use super::{rows::elected, *};

/// Returns the texts of the events that a primary is refused.
fn refusals(bench: &mut Bench) -> Vec<String> {
    let mut found = bench.orders();
    found.retain(|order| order.contains("refused as primary"));
    found
}

#[test]
fn a_primary_that_is_refused_for_twenty_seconds_is_reported_with_cause_and_remedy() {
    // The server b reports an election that is newer than all later ones. Then the true primary a
    // is stale for good (SDAM-46, SDAM-72).
    let mut bench = Bench::seeds(&["a:1", "b:1"], |options| {
        options.streaming = false;
        options.connect_timeout = None;
        options.replica_set = Some("rs".to_owned());
        options.subscribed = false;
        options.notices = true;
    });
    bench.connected(2, &elected(200, 1));
    bench.connected(1, &elected(1, 1));
    bench.pass(10_000);
    bench.reply(2, &member(false, "a:1"), false);
    bench.reply(1, &elected(2, 1), false);
    assert_eq!(bench.topology_type(), TopologyType::ReplicaSetNoPrimary);
    assert_eq!(refusals(&mut bench), [""; 0]);
    bench.pass(10_000);
    bench.reply(1, &elected(3, 1), false);
    let found = refusals(&mut bench);
    assert_eq!(found.len(), 1, "{found:?}");
    for part in [
        "a:1 refused",
        "b:1 reported",
        "correct or remove b:1",
        "client anew",
    ] {
        assert!(found[0].contains(part), "{found:?}");
    }
    bench.pass(10_000);
    bench.reply(1, &elected(4, 1), false);
    assert_eq!(refusals(&mut bench), [""; 0], "it is reported once");
}

#[test]
fn a_primary_that_steps_down_in_time_is_not_reported() {
    let mut bench = Bench::seeds(&["a:1", "b:1"], |options| {
        options.streaming = false;
        options.connect_timeout = None;
        options.replica_set = Some("rs".to_owned());
    });
    bench.connected(2, &elected(2, 1));
    bench.connected(1, &elected(1, 1));
    for turn in 0..4 {
        bench.pass(10_000);
        if turn % 2 == 0 {
            bench.reply(1, &member(false, "b:1"), false);
        } else {
            bench.reply(1, &elected(1, 1), false);
        }
    }
    assert_eq!(refusals(&mut bench), [""; 0]);
}
