//! The tests that cannot pass, each with the reason.

use onionskin_tests::report::Skip;

const QUEUE: &str = "these options of old drivers are not known here";
const JAVASCRIPT: &str = "the simulated server runs no JavaScript ($where)";
const SHORT_BLOCK: &str = "the test blocks a getMore for less time than its limit";

const fn skip(file: &'static str, case: &'static str, reason: &'static str) -> Skip {
    Skip { file, case, reason }
}

const SLOW_HELLO: &str =
    "the hello of a connection for minPoolSize takes longer than timeoutMS, which limits it";
const NO_RESULT: &str =
    "an error before any write is known to have succeeded is the error itself, without a result";

const WRITES: &[Skip] = &[skip(
    "bulkWrite.json",
    "First insertOne is never committed",
    NO_RESULT,
)];

const POOLS: &[Skip] = &[
    skip(
        "connection-pool-options.json",
        "waitQueueSize should be included in connection pool created message when specified",
        QUEUE,
    ),
    skip(
        "connection-pool-options.json",
        "waitQueueMultiple should be included in connection pool created message when specified",
        QUEUE,
    ),
];

const MONITORING: &[Skip] = &[skip("interruptInUse-pool-clear.json", "", JAVASCRIPT)];

/// The number of skips at the start of [`DEADLINES`] that depend on the speed of the machine.
const TIMED: usize = 2;

const DEADLINES: &[Skip] = &[
    skip(
        "command-execution.json",
        "command is not sent if RTT is greater than timeoutMS",
        SLOW_HELLO,
    ),
    skip(
        "command-execution.json",
        "short-circuit is not enabled with only 1 RTT measurement",
        SLOW_HELLO,
    ),
    skip(
        "runCursorCommand.json",
        "Non-tailable cursor iteration timeoutMS is refreshed for getMore if timeoutMode is \
         iteration - failure",
        SHORT_BLOCK,
    ),
    skip(
        "runCursorCommand.json",
        "Tailable cursor iteration timeoutMS is refreshed for getMore - failure",
        SHORT_BLOCK,
    ),
    skip(
        "runCursorCommand.json",
        "Tailable cursor awaitData iteration timeoutMS is refreshed for getMore - failure",
        SHORT_BLOCK,
    ),
];

/// Returns the reason if a test passes or fails by the speed of the machine, where time is real.
pub(crate) fn timed(file: &str, case: &str) -> Option<&'static str> {
    let mut skips = DEADLINES[..TIMED].iter();
    let skip = skips.find(|skip| skip.file == file && skip.case == case);
    skip.map(|skip| skip.reason)
}

/// Returns the tests of a suite that cannot pass. They are run nevertheless, and the suite fails if
/// one of them passes. With `is_real_time`, those of [`timed`] are not among them.
pub(crate) fn of(suite: &str, is_real_time: bool) -> &'static [Skip] {
    match suite {
        "client-side-operations-timeout" if is_real_time => &DEADLINES[TIMED..],
        "client-side-operations-timeout" => DEADLINES,
        "connection-monitoring-and-pooling" => POOLS,
        "retryable-writes" => WRITES,
        "server-discovery-and-monitoring" => MONITORING,
        _ => &[],
    }
}

#[test]
fn the_first_skips_of_deadlines_depend_on_the_speed_of_the_machine() {
    let timed = DEADLINES.iter().map(|skip| skip.reason == SLOW_HELLO);
    let is_first = (0..DEADLINES.len()).map(|index| index < TIMED);
    assert!(timed.eq(is_first));
}
