//! The functions that `world_core.rs` and `world_runtime.rs` share: they run simulated worlds with
//! several seeds, and assert that the runs have no failure.

use onionskin_worlds::world::{Way, WorldOptions, run_seed};
use std::env;

/// The environment variable that selects a single seed.
const SEED: &str = "ONIONSKIN_SEED";

/// The seeds of runs that once failed, one per line. A comment after `#` says what was wrong.
const REGRESSIONS: &str = include_str!("regressions.txt");

/// The seed of a run without faults in which the time limit of an operation ends before its client
/// knows the servers. The checker took the error for one without a cause.
const EARLY_LIMIT: u64 = 1_000_005;

fn chosen_seed() -> Option<u64> {
    let text = env::var(SEED).ok()?;
    Some(text.parse().expect("a seed is a number"))
}

fn regressions() -> Vec<u64> {
    REGRESSIONS
        .lines()
        .filter_map(|line| line.split('#').next()?.trim().parse().ok())
        .collect()
}

/// Runs the seeds of `regressions.txt`, and then `count` seeds from 0 on. With the environment
/// variable `ONIONSKIN_SEED`, runs only that seed and prints its trace. A failure prints the
/// command that repeats the run.
pub(crate) fn try_seeds(way: Way, count: u64) {
    let chosen = chosen_seed();
    let seeds = match chosen {
        Some(seed) => vec![seed],
        None => regressions().into_iter().chain(0..count).collect(),
    };
    let mut succeeded = 0;
    for seed in seeds {
        let mut options = WorldOptions::drawn(seed);
        options.keep_trace = chosen.is_some();
        let report = run_seed(seed, way, options);
        if chosen.is_some() {
            eprintln!("{}", report.trace);
        }
        eprintln!("{report}");
        assert!(
            report.failure.is_none(),
            "{report}\nreplay: {SEED}={seed} cargo test -p onionskin-tests --test worlds \
             world_{way}::every"
        );
        succeeded += report.tally.succeeded;
    }
    assert!(
        chosen.is_some() || succeeded > 1_000,
        "only {succeeded} operations succeeded"
    );
}

/// Runs `count` seeds from 0 on, in which each client has eight callers and one connection to each
/// server. Some callers poll their operations late.
pub(crate) fn try_crowded(way: Way, count: u64) {
    for seed in 0..count {
        let report = run_seed(seed, way, WorldOptions::drawn(seed).crowded());
        assert!(report.failure.is_none(), "{report}");
    }
}

/// Runs some seeds twice, and asserts that both runs of a seed give the same trace.
pub(crate) fn try_twice(way: Way) {
    for seed in [3, 4, 5, 6] {
        let run = || {
            let mut options = WorldOptions::drawn(seed);
            options.keep_trace = true;
            run_seed(seed, way, options)
        };
        let (one, other) = (run(), run());
        let lines = one.trace.lines().zip(other.trace.lines()).enumerate();
        for (number, (a, b)) in lines {
            assert_eq!(a, b, "seed {seed}, line {number}");
        }
        assert_eq!(one.trace.as_bytes(), other.trace.as_bytes(), "seed {seed}");
        assert_eq!(one.digest, other.digest, "seed {seed}");
        assert!(one.trace.len() > 10_000, "seed {seed} has hardly a trace");
    }
}

/// Runs `count` seeds from 0 on, and [`EARLY_LIMIT`], without faults and disasters. Asserts that no
/// caller abandons its operation, and that no operation fails, except by a timeout.
pub(crate) fn try_calm(way: Way, count: u64) {
    for seed in (0..count).chain([EARLY_LIMIT]) {
        let report = run_seed(seed, way, WorldOptions::drawn(seed).calm());
        assert!(report.failure.is_none(), "{report}");
        assert_eq!(report.tally.abandoned, 0, "{report}");
    }
}
