//! Tests that run once for each seed.

use std::{
    env,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

/// The environment variable that selects a single seed.
pub const SEED: &str = "ONIONSKIN_SEED";

/// Calls `run` with each seed, or only with that of the environment variable [`SEED`]. For a seed
/// that panics, prints the command line that runs it again, and goes on with the panic.
pub(crate) fn each_seed(command: &str, seeds: Range<u64>, run: impl Fn(u64)) {
    let all: Box<dyn Iterator<Item = u64>> = match chosen() {
        Some(seed) => Box::new(std::iter::once(seed)),
        None => Box::new(seeds),
    };
    for seed in all {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("seed {seed} failed; run it again: {SEED}={seed} {command}");
            resume_unwind(panic);
        }
    }
}

fn chosen() -> Option<u64> {
    let text = env::var_os(SEED)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{SEED} is not a number: {text:?}")))
}
