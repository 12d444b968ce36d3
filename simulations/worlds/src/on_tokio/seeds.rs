//! Tests that run once for each seed.

use std::{
    env, fmt,
    future::Future,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    time::Duration,
};
use tokio::{runtime::Builder, time::timeout};

/// The environment variable that selects a single seed.
pub const SEED: &str = "ONIONSKIN_SEED";

/// The longest virtual time of a run.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The result of a test: `()`, or a `Result` whose error fails the test.
pub trait Outcome {
    /// Panics if the test has failed.
    fn assert_passed(self);
}

impl Outcome for () {
    fn assert_passed(self) {}
}

impl<E: fmt::Debug> Outcome for Result<(), E> {
    fn assert_passed(self) {
        if let Err(error) = self {
            panic!("the test returned an error: {error:?}");
        }
    }
}

/// Runs a test once for each seed, in virtual time and each time in a new runtime of tokio on this
/// thread. With the environment variable [`SEED`], only that seed runs.
///
/// `command` is the command line that runs the test. A run that panics or returns an error is
/// printed with the command line that runs its seed again, and ends the test.
///
/// # Panics
///
/// If a run panics or returns an error, or has not ended after 24 hours of virtual time, or if the
/// environment variable is not a number.
pub fn seeds<F>(command: &str, seeds: Range<u64>, test: impl Fn(u64) -> F)
where
    F: Future<Output: Outcome>,
{
    let all: Box<dyn Iterator<Item = u64>> = match chosen() {
        Some(seed) => Box::new(std::iter::once(seed)),
        None => Box::new(seeds),
    };
    for seed in all {
        let run = AssertUnwindSafe(|| run(|| test(seed)));
        if let Err(panic) = catch_unwind(run) {
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

fn run<F: Future<Output: Outcome>>(test: impl FnOnce() -> F) {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets");
    runtime.block_on(async {
        // A test that has not ended is dropped by the panic, so that its world knows the failure.
        let mut test = pin!(test());
        match timeout(LIMIT, test.as_mut()).await {
            Ok(outcome) => outcome.assert_passed(),
            Err(_) => panic!("the run has not ended after {LIMIT:?} of virtual time"),
        }
    });
}
