//! Discovery on the bench: the real machine beside a slow, plain model, and every property that no
//! official file checks (section E.6 of the discovery requirements).
//!
//! The properties draw their cases; a failure prints the smallest case that fails and keeps its
//! seed in `tests/tests/proptest-regressions`. More cases: `PROPTEST_CASES=n`.

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

/// How many cases are drawn: `count`, unless the environment wants another number.
fn cases(count: u32) -> Config {
    let mut config = Config::default();
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = count;
    }
    config
}
