//! Measurements of the time for which the lock of the client is held, for each place in the code
//! that takes the lock. Enabled by the feature `__lock-times`.

use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::BTreeMap,
    fmt,
    panic::Location,
    sync::{Mutex, PoisonError},
};

/// The number of histogram buckets, one per power of two of nanoseconds.
const BUCKETS: usize = 40;

/// The times of each place since the last [`take`].
static PLACES: Mutex<BTreeMap<Place, Times>> = Mutex::new(BTreeMap::new());

/// A place in the code: its file and line.
type Place = (&'static str, u32);

/// The measured times of one place.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The number of times by their length. Index `n` counts the times whose number of nanoseconds
    /// has `n` bits. The last index counts longer times, too.
    pub counts: [u64; BUCKETS],
    /// The longest time in nanoseconds.
    pub longest: u64,
}

impl Times {
    const NONE: Self = Self {
        counts: [0; BUCKETS],
        longest: 0,
    };

    fn add(&mut self, nanos: u64) {
        let bucket = (u64::BITS - nanos.leading_zeros()) as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.longest = self.longest.max(nanos);
    }

    /// Returns the number of measurements.
    ///
    /// ```
    /// use onionskin::lock_times::take;
    ///
    /// for (place, times) in take() {
    ///     println!("{place:?}: {} measurements", times.total());
    /// }
    /// ```
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns a time in nanoseconds that about `of_ten_thousand` of 10,000 measurements do not
    /// exceed. The time is a power of two or the longest time.
    ///
    /// ```
    /// use onionskin::lock_times::take;
    ///
    /// for (place, times) in take() {
    ///     println!("{place:?}: half of them take {} ns at most", times.quantile(5_000));
    /// }
    /// ```
    #[must_use]
    pub fn quantile(&self, of_ten_thousand: u64) -> u64 {
        let wanted = self.total() * of_ten_thousand / 10_000;
        let mut seen = 0;
        for (power, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return (1_u64 << power).min(self.longest);
            }
        }
        self.longest
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        write!(
            f,
            "{:>10} times, half below {:>8.1} µs, 99 % below {:>8.1}, 99.99 % below {:>8.1}, \
             longest {:>8.1}",
            self.total(),
            micros(self.quantile(5_000)),
            micros(self.quantile(9_900)),
            micros(self.quantile(9_999)),
            micros(self.longest),
        )
    }
}

/// Returns the times of each place since the last call of this function.
#[must_use]
pub fn take() -> BTreeMap<Place, Times> {
    std::mem::take(&mut *PLACES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Measures the time from its creation to its drop, as CPU time of this thread. Time in which other
/// threads run does not count.
#[derive(Debug)]
pub(crate) struct Watch {
    place: Place,
    began: u64,
}

impl Watch {
    #[track_caller]
    pub(crate) fn start() -> Self {
        let caller = Location::caller();
        Self {
            place: (caller.file(), caller.line()),
            began: now(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let nanos = now() - self.began;
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        places.entry(self.place).or_insert(Times::NONE).add(nanos);
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
