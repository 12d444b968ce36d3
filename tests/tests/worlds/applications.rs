//! Runs of the simulated world with transactions, change streams, files and most other operations,
//! over many seeds.

use onionskin_simulations::simulate::isolation;
use onionskin_worlds::world::{
    Report, Way, WorldOptions, run_seed,
    runtime::{Achieved, CALLS},
};
use std::env;

/// The number of seeds, unless an environment variable says otherwise.
const COUNT: u64 = 12;

/// The environment variable with the first seed. Without [`SEEDS`] it is the only one, and its
/// trace is printed.
const SEED: &str = "ONIONSKIN_SEED";

/// The environment variable with the number of seeds.
const SEEDS: &str = "ONIONSKIN_SEEDS";

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

fn run(seed: u64, options: WorldOptions) -> Report {
    let mut report = run_seed(seed, Way::Runtime, options.applications());
    isolation::judge(&mut report);
    assert!(
        report.failure.is_none(),
        "{report}\nreplay: {SEED}={seed} cargo test -p onionskin-tests --test worlds applications"
    );
    report
}

#[test]
fn transactions_streams_files_and_notes_keep_their_promises_under_faults() {
    let (first, count) = (number(SEED), number(SEEDS));
    let is_one = first.is_some() && count.is_none();
    let (first, count) = match is_one {
        true => (first.unwrap_or(0), 1),
        false => (first.unwrap_or(0), count.unwrap_or(COUNT)),
    };
    let mut achieved = [0; 5];
    let mut all_calls = [0; CALLS];
    for seed in first..first + count {
        let mut options = WorldOptions::drawn(seed);
        options.keep_trace = is_one;
        let report = run(seed, options);
        if is_one {
            eprintln!("{}", report.trace);
        }
        eprintln!("{report}; {:?}", report.achieved);
        let Achieved {
            transactions,
            transfers,
            events,
            files,
            calls,
            notes,
        } = report.achieved;
        let counts = [transactions, transfers, events, files, notes];
        achieved
            .iter_mut()
            .zip(counts)
            .for_each(|(all, count)| *all += count);
        let pairs = all_calls.iter_mut().zip(calls);
        pairs.for_each(|(all, count)| *all += count);
    }
    let is_enough = achieved.iter().all(|count| *count > 50);
    eprintln!("{achieved:?}, {all_calls:?}");
    assert!(count < COUNT || is_enough, "only {achieved:?}");
    let has_all = all_calls.iter().all(|count| *count > 4);
    assert!(count < COUNT || has_all, "only {all_calls:?}");
}

#[test]
fn the_same_seed_gives_the_same_applications() {
    let runs = [(); 2].map(|()| run(3, WorldOptions::drawn(3)));
    assert_eq!(runs[0].digest, runs[1].digest);
    assert_eq!(runs[0].lists.json_lines(), runs[1].lists.json_lines());
}
