//! Runs of the simulated world with the async client on the simulated runtime, over many seeds.

use crate::seeds;
use onionskin_worlds::world::Way;

/// The number of seeds of `every_seed_passes_all_checkers`, besides those of `regressions.txt`.
const SEEDS: u64 = 24;

#[test]
fn every_seed_passes_all_checkers() {
    seeds::try_seeds(Way::Runtime, SEEDS);
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    seeds::try_twice(Way::Runtime);
}

#[test]
fn without_faults_no_operation_fails_except_by_timeout() {
    seeds::try_calm(Way::Runtime, 5);
}

#[test]
fn operations_that_are_polled_late_never_use_an_interrupted_connection() {
    // An interrupt comes at once (CMAP-95), marks the connection as perished (CMAP-94), and fails
    // the operation (CMAP-97).
    seeds::try_crowded(Way::Runtime, 20);
}
