//! Connection pools on the bench: the real machine beside a slow, plain model, books kept from its
//! events alone, drawn programs, and every interleaving of small pools.
//!
//! The properties draw their cases; a failure prints the smallest case that fails, and the same
//! cases are drawn again with `PROPTEST_RNG_SEED=n`. More of them: `PROPTEST_CASES=n`.

mod balanced;
mod bench;
mod explorer;
mod mistakes;
mod program;
mod properties;
mod services;
mod watch;

use proptest::test_runner::Config;
use std::env;

/// How many cases are drawn: `count`, unless the environment wants another number.
fn cases(count: u32) -> Config {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = count;
    }
    config
}
