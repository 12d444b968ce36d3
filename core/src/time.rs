//! Time as an argument: the core never asks what time it is.

mod timers;

pub(crate) use timers::Timers;

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// A deadline that is noticed so much too late means that the process stood still: a suspended
/// machine, a function that was frozen between two calls, a clock that jumped.
const FREEZE: Duration = Duration::from_secs(1);

/// How long an answer that was due meanwhile is waited for once the process runs again. It has long
/// been received, or the connection is gone.
pub(crate) const AFTER_FREEZE: Duration = Duration::from_millis(500);

/// The later deadline of an answer whose own was slept through; `None` where it was not.
///
/// Who stood still has not looked whether the answer is there. With one more moment, whoever drives
/// the machine can hand it in.
pub(crate) fn deadline_after_freeze(deadline: Instant, now: Instant) -> Option<Instant> {
    (now - deadline >= FREEZE).then(|| now + AFTER_FREEZE)
}

/// A moment, as nanoseconds since the driver of the core began counting.
///
/// It only grows. An adapter takes a monotonic clock's reading at the start and passes the
/// difference; a simulation passes whatever its virtual clock says.
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
    /// The moment at which counting began.
    pub const ZERO: Self = Self(0);

    /// The end of time, about 584 years later: where sums stop.
    pub const MAX: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after counting began.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since counting began.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since counting began.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// `self + duration`, or `None` where that lies beyond the end of time (about 584 years).
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the end of time.
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self::MAX)
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Saturates at zero.
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

/// Calendar time as milliseconds since 1970-01-01T00:00:00Z, for the few places where a
/// specification wants it (certificate validity, the time part of an ObjectId).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// The moment `millis` milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_unix_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_unix_millis(self) -> u64 {
        self.0
    }
}

/// The earlier of two optional deadlines.
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
    fn sums_saturate_at_the_end_of_time() {
        let end = Instant::MAX;
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(Instant::ZERO - end, Duration::ZERO);
        assert_eq!(end.checked_add(Duration::from_nanos(1)), None);
    }

    #[test]
    fn the_earlier_deadline_wins_and_none_is_no_deadline() {
        let (a, b) = (Instant::from_nanos(1), Instant::from_nanos(2));
        assert_eq!(earliest(Some(b), Some(a)), Some(a));
        assert_eq!(earliest(None, Some(b)), Some(b));
        assert_eq!(earliest(None, None), None);
    }
}
