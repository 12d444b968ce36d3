//! Points in time. The core reads no clock: the shell passes the current time as an argument.

mod timers;

pub(crate) use timers::Timers;

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// The minimum delay between a deadline and its handling that counts as a freeze of the process.
/// For example, the machine was suspended, or a serverless function was frozen between two calls.
const FREEZE: Duration = Duration::from_secs(1);

/// The extra time for a wait whose deadline passed during a freeze.
pub(crate) const AFTER_FREEZE: Duration = Duration::from_millis(500);

/// Returns a later deadline for a wait, such as for a reply, whose deadline passed at least
/// [`FREEZE`] ago. Returns `None` if the deadline passed less than [`FREEZE`] ago.
///
/// During a freeze the shell reads no sockets. The extra time lets the shell read a reply that
/// arrived during the freeze, before the wait counts as timed out.
pub(crate) fn deadline_after_freeze(deadline: Instant, now: Instant) -> Option<Instant> {
    (now - deadline >= FREEZE).then(|| now + AFTER_FREEZE)
}

/// Returns a time in whole milliseconds for a command, at most `i64::MAX`. A part of a millisecond
/// counts as a whole one, because zero often means that there is no limit.
pub(crate) fn whole_millis(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Returns a time in whole seconds for a command, at most `i64::MAX`. A part of a second counts as
/// a whole one.
pub(crate) fn whole_seconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX)
}

/// A point in time, as nanoseconds since a start that the shell chooses.
///
/// The values that a shell passes to the core must not decrease. An adapter reads a monotonic clock
/// at its start and passes the difference to that reading. A simulation passes its virtual time.
///
/// ```
/// use onionskin_core::time::Instant;
/// use std::time::Duration;
///
/// let start = Instant::ZERO;
/// let later = start + Duration::from_millis(3);
/// assert_eq!(later - start, Duration::from_millis(3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The start of the count.
    pub const ZERO: Self = Self(0);

    /// The latest representable time, about 584 years after the start. The operator `+` saturates
    /// here.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the start of the count.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the start of the count.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since the start of the count.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns the time that passed since `earlier`; zero if `earlier` is later than this time.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns `self + duration`, or `None` if the sum is later than [`MAX`](Self::MAX).
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Adds a duration. The sum saturates at [`Instant::MAX`].
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self::MAX)
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Returns the time since `earlier`. The difference saturates at zero.
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:06}s",
            self.0 / 1_000_000_000,
            self.0 / 1000 % 1_000_000
        )
    }
}

/// Calendar time as milliseconds since 1970-01-01T00:00:00Z. Used where a specification requires
/// it, for example for the validity of certificates, for the date of a server's last write, and for
/// the time part of an ObjectId.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// Returns the time `millis` milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_unix_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the time `since` after 1970-01-01T00:00:00Z, in whole milliseconds.
    pub fn from_unix(since: Duration) -> Self {
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_unix_millis(self) -> u64 {
        self.0
    }
}

/// Returns the earlier of two deadlines, where `None` means no deadline.
#[must_use]
pub fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instant_arithmetic_saturates_at_the_limits() {
        let end = Instant::MAX;
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(Instant::ZERO - end, Duration::ZERO);
        assert_eq!(end.checked_add(Duration::from_nanos(1)), None);
    }

    #[test]
    fn a_part_of_a_unit_counts_as_a_whole_one() {
        for (nanos, millis, seconds) in [
            (0, 0, 0),
            (1, 1, 1),
            (500_000, 1, 1),
            (1_000_000, 1, 1),
            (1_000_000_000, 1000, 1),
            (1_000_000_001, 1001, 2),
        ] {
            let time = Duration::from_nanos(nanos);
            assert_eq!((whole_millis(time), whole_seconds(time)), (millis, seconds));
        }
        let longest = Duration::MAX;
        assert_eq!(
            (whole_millis(longest), whole_seconds(longest)),
            (i64::MAX, i64::MAX)
        );
    }

    #[test]
    fn earliest_returns_the_earlier_deadline_and_none_means_no_deadline() {
        let (a, b) = (Instant::from_nanos(1), Instant::from_nanos(2));
        assert_eq!(earliest(Some(b), Some(a)), Some(a));
        assert_eq!(earliest(None, Some(b)), Some(b));
        assert_eq!(earliest(None, None), None);
    }
}
