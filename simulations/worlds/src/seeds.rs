//! Tests that run once for each seed.

use std::{
    env,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

/// The environment variable that selects a single seed.
pub const SEED: &str = "ONIONSKIN_SEED";

/// Calls `run` with each seed, or only with that of the environment variable [`SEED`]. For a seed
/// that panics, prints the command line that runs it again, and goes on with the panic. Panics if
/// the range is empty, because the test would succeed without a run.
pub(crate) fn each_seed(command: &str, seeds: Range<u64>, run: impl Fn(u64)) {
    assert!(
        !seeds.is_empty(),
        "the range of seeds {seeds:?} is empty: name one seed or more, such as 0..20"
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "the range of seeds 5..5 is empty")]
    fn a_range_without_seeds_is_refused() {
        each_seed("cargo test", 5..5, |_| {});
    }
}
