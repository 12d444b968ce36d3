//! The round trip times of one server: the moving average (MON-51, SEL-51) and the minimum (MON-49,
//! SEL-55). Both are durations, which cannot be negative (SEL-54).

use std::{collections::VecDeque, time::Duration};

/// The maximum number of latest samples of which the minimum is taken.
const MINIMUM_WINDOW: usize = 10;

/// The average and the minimum of a server's round trip times since the last reset.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundTrips {
    average: Option<Duration>,
    /// The latest samples, at most [`MINIMUM_WINDOW`].
    latest: VecDeque<Duration>,
    /// True if the server became Unknown after the last sample, so that the next sample replaces
    /// the average. The old average stays in use until then, because streamed replies give no
    /// sample.
    is_old: bool,
}

impl RoundTrips {
    /// Adds a sample. The first sample is the average; each later one has a weight of 0.2 (MON-51).
    ///
    /// A sample above `limit`, the time limit of a check, is taken to include a pause of the
    /// process. Such a sample is used only if there is no average or if the average is to be
    /// replaced, and only until the next sample.
    pub(super) fn add(&mut self, sample: Duration, limit: Option<Duration>) {
        let is_pause = |duration: Duration| limit.is_some_and(|limit| duration > limit);
        let is_usable = |&average: &Duration| !is_pause(average) && !self.is_old;
        let average = self.average.filter(is_usable);
        if is_pause(sample) && average.is_some() {
            return;
        }
        self.average = Some(match average {
            None => sample,
            Some(average) => weigh(sample, average),
        });
        self.is_old = false;
        if is_pause(sample) {
            return;
        }
        if self.latest.len() == MINIMUM_WINDOW {
            self.latest.pop_front();
        }
        self.latest.push_back(sample);
    }

    /// Forgets the average and all samples (MON-52).
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Makes the next sample replace the average, after the server became Unknown while its
    /// connection stays open (SEL-52, SEL-53, MON-51).
    pub(super) fn restart_average(&mut self) {
        self.is_old = true;
    }

    /// Returns the moving average; `None` before the first sample.
    pub(super) fn average(&self) -> Option<Duration> {
        self.average
    }

    /// Returns the smallest of the latest ten samples; zero while there are fewer than two
    /// (MON-49).
    pub(super) fn minimum(&self) -> Duration {
        match self.latest.len() {
            0 | 1 => Duration::ZERO,
            _ => self.latest.iter().min().copied().unwrap_or_default(),
        }
    }
}

/// Returns `0.2 * sample + 0.8 * average`, in whole nanoseconds, so that every platform computes
/// the same value.
fn weigh(sample: Duration, average: Duration) -> Duration {
    let nanos = (sample.as_nanos() + 4 * average.as_nanos()) / 5;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn average_of(samples: &[f64]) -> Option<f64> {
        let mut trips = RoundTrips::default();
        for &millis in samples {
            trips.add(Duration::from_secs_f64(millis / 1e3), None);
        }
        trips.average().map(|d| d.as_secs_f64() * 1e3)
    }

    #[test]
    fn a_new_round_trip_time_has_a_weight_of_one_fifth_in_the_average() {
        // The samples and averages are those of `server-selection/tests/rtt` (MON-51).
        for (samples, expected) in [
            (&[10.0][..], 10.0),
            (&[0.0], 0.0),
            (&[0.0, 5.0], 1.0),
            (&[3.1, 36.0], 9.68),
            (&[9.12, 9.12], 9.12),
            (&[1.0, 1000.0], 200.8),
            (&[0.0, 0.25], 0.05),
        ] {
            let average = average_of(samples).expect("there are samples");
            assert!((average - expected).abs() < 1e-6, "{samples:?}: {average}");
        }
    }

    #[test]
    fn the_minimum_round_trip_covers_ten_samples_and_needs_two() {
        // The minimum is the smallest of the last 10 samples, and zero until there are 2 (MON-49).
        let mut trips = RoundTrips::default();
        assert_eq!(trips.minimum(), Duration::ZERO);
        trips.add(Duration::from_millis(1), None);
        assert_eq!(trips.minimum(), Duration::ZERO);
        for millis in 2..=10 {
            trips.add(Duration::from_millis(millis), None);
        }
        assert_eq!(trips.minimum(), Duration::from_millis(1));
        trips.add(Duration::from_millis(11), None);
        assert_eq!(trips.minimum(), Duration::from_millis(2));
        trips.reset();
        assert_eq!((trips.average(), trips.minimum()), (None, Duration::ZERO));
    }

    #[test]
    fn a_restarted_round_trip_average_is_replaced_by_the_next_sample() {
        // The first sample after a server became Unknown is its new average (SEL-P2).
        let millis = Duration::from_millis;
        let mut trips = RoundTrips::default();
        trips.add(millis(1), None);
        trips.restart_average();
        assert_eq!(trips.average(), Some(millis(1)));
        trips.add(millis(50), None);
        assert_eq!(trips.average(), Some(millis(50)));
        trips.add(millis(100), None);
        assert_eq!(trips.average(), Some(millis(60)));
    }

    #[test]
    fn a_round_trip_time_over_its_limit_is_used_only_without_others() {
        let (limit, pause) = (Some(Duration::from_secs(10)), Duration::from_secs(600));
        let trip = Duration::from_millis(1);
        let mut trips = RoundTrips::default();
        trips.add(trip, limit);
        trips.add(pause, limit);
        assert_eq!(trips.average(), Some(trip));
        trips.reset();
        trips.add(pause, limit);
        assert_eq!(trips.average(), Some(pause), "there is nothing better");
        trips.add(trip, limit);
        trips.add(trip, limit);
        assert_eq!((trips.average(), trips.minimum()), (Some(trip), trip));
    }
}
