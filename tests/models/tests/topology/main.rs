//! Tests of the discovery machine of the core, `Sdam`.
//!
//! A bench feeds the machine with inputs, checks its orders, and compares it with a slow, plain
//! model. The tests cover the properties that no official test file checks (section E.6), except
//! E.6-7, which is about SRV records.
//!
//! Property tests draw their cases at random. A failure prints the smallest case that fails, and
//! keeps its seed in the folder `proptest-regressions` beside this one. `PROPTEST_CASES=n` sets the
//! number of cases.

mod agreement;
mod bench;
mod explorer;
mod mistakes;
mod pace;
mod properties;
mod script;
mod strategies;
mod watch;

use proptest::test_runner::Config;
use std::env;

/// Returns a configuration of `proptest` that draws `count` cases, unless the environment variable
/// `PROPTEST_CASES` sets another number.
fn cases(count: u32) -> Config {
    let mut config = Config::default();
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = count;
    }
    config
}
