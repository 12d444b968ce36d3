//! Sweeps over seeds of a scenario, on several threads.

#[cfg(test)]
mod guide;
pub mod isolation;
pub mod recording;
pub mod replay;
pub mod scenarios;
pub mod shrink;
pub mod verdict;

use onionskin_core::text::printable;
use onionskin_worlds::world::{
    Report, Scenario, Watcher, Way, WorldOptions, run_seed, run_watched,
};
use std::{
    cell::Cell,
    ops::Range,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use verdict::Verdict;

/// The seeds of a sweep, and when it ends.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The seeds of all shards.
    pub seeds: Range<u64>,
    /// The place of this shard, from 0, and the number of shards. The seed `n` belongs to the shard
    /// `n % count`.
    pub shard: (u64, u64),
    /// The number of threads.
    pub jobs: usize,
    /// True if no run begins after one that failed.
    pub until_failure: bool,
    /// The time after which no run begins.
    pub limit: Option<Duration>,
    /// No run begins once this is true.
    pub stop: Arc<AtomicBool>,
}

impl Sweep {
    /// Returns the number of seeds of this shard.
    #[must_use]
    pub fn count(&self) -> u64 {
        let (place, count) = self.shard;
        let below = |end: u64| end / count + u64::from(end % count > place);
        below(self.seeds.end.max(self.seeds.start)) - below(self.seeds.start)
    }

    /// Returns the first seed of this shard; `None` if it has none.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.seeds.start + self.to_first())
    }

    /// Returns the distance from the first seed of all shards to the first one of this shard.
    const fn to_first(&self) -> u64 {
        let (place, count) = self.shard;
        let rest = self.seeds.start % count;
        match place.checked_sub(rest) {
            Some(distance) => distance,
            None => count - (rest - place),
        }
    }

    /// Runs the seeds. `observe` is called after each run, in one thread at a time.
    pub fn run(
        &self,
        scenario: &Scenario,
        way: Way,
        verdict: Verdict,
        observe: impl Fn(&Verdict, u64, &Result<Report, String>) + Sync,
    ) -> Verdict {
        let first = self.seeds.start + self.to_first();
        let next = AtomicU64::new(0);
        let is_over = AtomicBool::new(false);
        let began = Instant::now();
        let verdict = Mutex::new(verdict);
        let work = || {
            while !is_over.load(Ordering::Relaxed)
                && !self.stop.load(Ordering::Relaxed)
                && self.limit.is_none_or(|limit| began.elapsed() < limit)
            {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= self.count() {
                    break;
                }
                let seed = first + turn * self.shard.1;
                let run = run(seed, way, scenario);
                let mut verdict = verdict.lock().unwrap_or_else(PoisonError::into_inner);
                verdict.add(seed, &run);
                if self.until_failure && verdict.failures.total() > 0 {
                    is_over.store(true, Ordering::Relaxed);
                }
                observe(&verdict, seed, &run);
            }
        };
        thread::scope(|scope| {
            let jobs = u64::try_from(self.jobs)
                .unwrap_or(u64::MAX)
                .min(self.count());
            for _ in 1..jobs {
                scope.spawn(work);
            }
            work();
        });
        verdict.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// The place and the text of the last panic of this thread, which the hook has kept.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// From now on panics print nothing. [`run`] returns their places and texts.
pub fn keep_panics() {
    panic::set_hook(Box::new(|panic| PANIC.set(Some(panic.to_string()))));
}

/// Runs one seed. `Err` has the text of a panic.
///
/// # Errors
///
/// The run panicked.
pub fn run(seed: u64, way: Way, scenario: &Scenario) -> Result<Report, String> {
    run_keeping(seed, way, scenario, |_| {})
}

/// As [`run`]. `keep` sets what the report keeps: the trace, the picture, or both.
///
/// # Errors
///
/// The run panicked.
pub fn run_keeping(
    seed: u64,
    way: Way,
    scenario: &Scenario,
    keep: impl FnOnce(&mut WorldOptions),
) -> Result<Report, String> {
    let mut options = scenario.options(seed);
    keep(&mut options);
    guarded(|| {
        let mut report = run_seed(seed, way, options);
        isolation::judge(&mut report);
        report
    })
}

/// As [`run`]. Shows each step to a watcher. `None` if the watcher has ended the run.
pub fn run_with(
    seed: u64,
    way: Way,
    scenario: &Scenario,
    watcher: &mut dyn Watcher,
) -> Option<Result<Report, String>> {
    let options = scenario.options(seed);
    let run = guarded(|| {
        let mut report = run_watched(seed, way, options, watcher)?;
        isolation::judge(&mut report);
        Some(report)
    });
    run.transpose()
}

fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = PANIC.take();
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        text.unwrap_or_else(|| "without a text".to_owned())
    })
}

/// Returns a text of one line or more as a terminal shows it.
fn printable_lines(text: &str) -> String {
    text.split('\n')
        .map(printable)
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn sweep(seeds: Range<u64>, shard: (u64, u64), jobs: usize) -> Sweep {
        Sweep {
            seeds,
            shard,
            jobs,
            until_failure: false,
            limit: None,
            stop: Arc::default(),
        }
    }

    fn short() -> Scenario {
        scenarios::parse("safety = \"1s\"\nmembers = 1\ntasks = 1").expect("a scenario")
    }

    #[test]
    fn each_seed_belongs_to_one_shard() {
        let mut seen = BTreeSet::new();
        for place in 0..3 {
            let sweep = sweep(5..15, (place, 3), 1);
            let ran = Mutex::new(Vec::new());
            let verdict = sweep.run(&short(), Way::Core, Verdict::default(), |_, seed, _| {
                ran.lock().expect("no panic").push(seed);
            });
            let ran = ran.into_inner().expect("no panic");
            assert_eq!(ran.len() as u64, sweep.count());
            let failures = verdict.failures.total();
            assert_eq!((verdict.seeds, failures), (sweep.count(), 0));
            for seed in ran {
                assert!((5..15).contains(&seed) && seen.insert(seed), "{seed}");
            }
        }
        assert_eq!(seen.len(), 10);
        assert_eq!(sweep(7..7, (0, 1), 1).count(), 0);
        let last = u64::MAX - 3..u64::MAX;
        let sweep = sweep(last, (u64::MAX - 3, u64::MAX), usize::MAX);
        let verdict = sweep.run(&short(), Way::Core, Verdict::default(), |_, seed, _| {
            assert_eq!(seed, u64::MAX - 3);
        });
        assert_eq!(verdict.seeds, 1);
    }

    #[test]
    fn the_number_of_threads_does_not_change_the_verdict() {
        for way in [Way::Core, Way::Runtime] {
            let run = |jobs| {
                sweep(0..6, (0, 1), jobs).run(&short(), way, Verdict::default(), |_, _, _| {})
            };
            let verdict = run(1);
            assert_eq!(verdict, run(3));
            assert_eq!(verdict.digest.len(), 64);
            assert!(verdict.operations.succeeded > 0);
        }
    }

    #[test]
    fn a_sweep_can_end_with_its_first_failure() {
        let mut scenario = short();
        // No client can be created.
        scenario.client_options = Some("timeoutMS=x".to_owned());
        let mut sweep = sweep(0..100, (0, 1), 1);
        sweep.until_failure = true;
        let verdict = sweep.run(&scenario, Way::Core, Verdict::default(), |_, _, _| {});
        assert_eq!((verdict.seeds, verdict.failures.crash), (1, 1));
    }

    #[test]
    fn a_sweep_can_be_stopped_between_runs() {
        let sweep = sweep(0..100, (0, 1), 1);
        let verdict = sweep.run(&short(), Way::Core, Verdict::default(), |verdict, _, _| {
            sweep.stop.store(verdict.seeds == 3, Ordering::Relaxed);
        });
        assert_eq!(verdict.seeds, 3);
    }
}
