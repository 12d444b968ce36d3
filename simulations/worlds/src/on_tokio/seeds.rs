//! Tests that run once for each seed.

pub use crate::seeds::SEED;

use crate::seeds::each_seed;
use std::{fmt, future::Future, ops::Range, pin::pin, time::Duration};
use tokio::{runtime::Builder, time::timeout};

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
/// If a run panics or returns an error, or has not ended after 24 hours of virtual time, if the
/// range of seeds is empty, or if the environment variable is not a number.
pub fn seeds<F>(command: &str, seeds: Range<u64>, test: impl Fn(u64) -> F)
where
    F: Future<Output: Outcome>,
{
    each_seed(command, seeds, |seed| run(|| test(seed)));
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
