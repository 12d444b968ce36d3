//! Tests of the connection pool of the core. The pool is compared with a slow, plain model, and a
//! watcher checks its events. Some tests draw programs at random, others walk through all states of
//! small pools.
//!
//! A failure of a property test prints the smallest case that fails. `PROPTEST_CASES=n` sets the
//! number of cases, and `PROPTEST_RNG_SEED=n` draws the same cases again.

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

/// Returns a configuration of `proptest` that draws `count` cases, unless the environment variable
/// `PROPTEST_CASES` sets another number.
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
