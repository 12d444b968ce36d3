//! The pause of an operation between two attempts.

use super::{Command, Operation};
use crate::{
    error::{Error, Label},
    options::MIN_HEARTBEAT_FREQUENCY,
    random::Random,
    time::Instant,
};
use std::time::Duration;

/// The base of the backoff (BP-5) if the error has no positive `baseBackoffMS` (BP-6).
const BASE_BACKOFF: Duration = Duration::from_millis(100);

/// The longest backoff (BP-5), also if the server sends a large `baseBackoffMS`.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The number of attempts that an operation with a time limit makes before its first pause, if none
/// of them fails with an overload error.
const UNPAUSED_ATTEMPTS: u32 = 2;

/// The longest pause before the third attempt of an operation that has a time limit and had no
/// overload error, and before a change stream resumes for the second time in a row. This maximum
/// doubles with each further attempt, up to [`LONGEST_PAUSE`]. The second attempt of such an
/// operation begins at once, as the first resumption does.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause without overload errors: 500 ms, as `minHeartbeatFrequencyMS`.
const LONGEST_PAUSE: Duration = MIN_HEARTBEAT_FREQUENCY;

/// Returns how long the operation pauses after an attempt that failed with `error`; zero for no
/// pause.
///
/// After an overload error, the pause is the backoff. An operation that had an overload error
/// earlier does not pause after other errors (BP-7). An operation without overload errors has the
/// pause of [`pause_of_timed`].
pub(super) fn pause_after(operation: &Operation, error: &Error, random: &mut Random) -> Duration {
    if error.has_label(&Label::SystemOverloadedError) {
        let base = error.base_backoff().unwrap_or(BASE_BACKOFF);
        return share(
            longest_backoff(base, operation.retry.attempts),
            random.next_u64(),
        );
    }
    if operation.retry.was_overloaded {
        return Duration::ZERO;
    }
    pause_of_timed(operation, random)
}

/// Returns the upper bound of the backoff: `base * 2^retry`, and [`MAX_BACKOFF`] at most. `retry`
/// is 1 for the first retry (BP-5).
fn longest_backoff(base: Duration, retry: u32) -> Duration {
    // Even a base of 1 ms exceeds the maximum from the factor 2^14 on, so 2^16 is large enough.
    base.saturating_mul(1 << retry.min(16)).min(MAX_BACKOFF)
}

/// Returns `longest` times `jitter / 2^64`, a factor that is uniform in [0, 1) (BP-5). The
/// computation uses integers only.
pub(super) fn share(longest: Duration, jitter: u64) -> Duration {
    let nanos = (longest.as_nanos() * u128::from(jitter)) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the pause of an operation without overload errors. With a time limit, the operation
/// pauses before its third and each further attempt, as [`repeated_pause`] says.
///
/// A server that answers each command at once with a retryable error can stay selectable. Without
/// pauses, an operation with a time limit would send commands to the server without a break until
/// its time is over. An operation without a time limit has a single retry, which needs no pause.
fn pause_of_timed(operation: &Operation, random: &mut Random) -> Duration {
    let pauses_before = operation.retry.attempts.checked_sub(UNPAUSED_ATTEMPTS);
    match (operation.request.timeout, pauses_before) {
        (Some(_), Some(pauses_before)) => repeated_pause(pauses_before, random),
        _ => Duration::ZERO,
    }
}

/// Returns a pause that follows this number of pauses. A pause is random, between half of its
/// longest duration and all of it. The longest duration is [`FIRST_PAUSE`] at first, and doubles
/// with each pause up to [`LONGEST_PAUSE`].
fn repeated_pause(pauses_before: u32, random: &mut Random) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << pauses_before.min(10));
    let half = longest.min(LONGEST_PAUSE) / 2;
    let drawn = random.below(u64::try_from(half.as_nanos()).unwrap_or(u64::MAX) + 1);
    half + Duration::from_nanos(drawn)
}

impl Command {
    /// Makes the first attempt of the command begin after a pause, which follows this number of
    /// pauses before earlier commands. `None` for no pause.
    pub(super) fn set_pauses_before(&mut self, pauses: Option<u32>) {
        self.0.retry.pauses_before = pauses;
    }
}

impl Operation {
    /// Begins the pause before the first attempt, if there is one.
    #[inline]
    pub(crate) fn begin_pause(&mut self, now: Instant, random: &mut Random) {
        if let Some(pauses_before) = self.retry.pauses_before {
            self.retry.paused_until = now.checked_add(repeated_pause(pauses_before, random));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        operation::{CommandKind, OperationId},
        random::Seed,
    };

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_backoff_doubles_from_the_first_retry_on_up_to_its_maximum() {
        // The exponent of the backoff starts at 1 (BP-5, BP trap 1).
        let longest = |retry| longest_backoff(BASE_BACKOFF, retry).as_millis();
        let expected = [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000];
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(longest), expected);
        for base in [MS, BASE_BACKOFF, Duration::from_millis(u32::MAX.into())] {
            assert_eq!(longest_backoff(base, u32::MAX), MAX_BACKOFF);
        }
        assert_eq!(longest_backoff(50 * MS, 1), 100 * MS);
    }

    #[test]
    fn a_retry_pause_without_overload_is_at_least_half_of_its_maximum() {
        let mut command = Command::new("find", "db", CommandKind::Read);
        command.set_timeout(Some(MS));
        let mut operation = Operation::new(OperationId(0), command, Instant::ZERO);
        let mut random = Seed::new([4; 32]).random();
        for (attempts, longest) in [(1, 0), (2, 10), (3, 20), (7, 320), (8, 500), (1_000, 500)] {
            operation.retry.attempts = attempts;
            let mut draw = || pause_of_timed(&operation, &mut random);
            let drawn: Vec<_> = (0..200).map(|_| draw()).collect();
            let (least, most) = (drawn.iter().min(), drawn.iter().max());
            let (least, most) = (*least.expect("some"), *most.expect("some"));
            let longest = longest * MS;
            assert!(
                least >= longest / 2 && most <= longest,
                "{least:?} {most:?}"
            );
            assert!(least <= longest * 6 / 10 && most >= longest * 9 / 10);
        }
        operation.request.timeout = None;
        assert_eq!(pause_of_timed(&operation, &mut random), Duration::ZERO);
    }

    #[test]
    fn two_backoffs_with_a_jitter_near_one_last_600_ms_together() {
        // With a jitter near 1, the two backoffs of an operation take 0.6 s together (BP-P1).
        let both = |jitter| share(200 * MS, jitter) + share(400 * MS, jitter);
        assert_eq!(both(0), Duration::ZERO);
        assert_eq!(both(1 << 63), 300 * MS);
        let nearly = both(u64::MAX);
        assert!(nearly < 600 * MS && nearly > 599 * MS, "{nearly:?}");
        // With a base of 50 ms, the two backoffs take half of that (BP-P5).
        let half = share(100 * MS, u64::MAX) + share(200 * MS, u64::MAX);
        assert!(half < 300 * MS && half > 299 * MS, "{half:?}");
        assert!(share(MAX_BACKOFF, u64::MAX) < MAX_BACKOFF);
    }
}
