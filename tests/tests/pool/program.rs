//! Drawn programs: what callers, sockets and monitors do with a pool, in any order.

use crate::bench::{Bench, Found};
use onionskin_core::pool::PoolOptions;
use onionskin_tests::model::pool::Input;
use proptest::{prelude::*, sample::Index};
use std::time::Duration;

/// One step; what it is about is chosen from what is there.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Ready,
    Clear {
        interrupt: bool,
    },
    CheckOut {
        patience: Option<u8>,
        /// With a time limit of its own.
        timed: bool,
    },
    AskTwice(Index),
    Cancel(Index),
    CheckIn {
        which: Index,
        broken: bool,
    },
    Established(Index),
    EstablishFailed(Index),
    IdleClosed(Index),
    /// Time passes, and deadlines are kept.
    Wait(u16),
    /// Time passes, and who should keep the deadlines is late.
    Late(u8),
    /// Answers about what never was or is no more.
    Nonsense(u8),
    Close,
}

/// A pool and what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) options: PoolOptions,
    pub(crate) subscribed: bool,
    pub(crate) steps: Vec<Step>,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Ready),
        2 => any::<bool>().prop_map(|interrupt| Step::Clear { interrupt }),
        12 => (prop::option::weighted(0.4, 0..60_u8), any::<bool>())
            .prop_map(|(patience, timed)| Step::CheckOut { patience, timed }),
        1 => any::<Index>().prop_map(Step::AskTwice),
        2 => any::<Index>().prop_map(Step::Cancel),
        7 => (any::<Index>(), prop::bool::weighted(0.2))
            .prop_map(|(which, broken)| Step::CheckIn { which, broken }),
        8 => any::<Index>().prop_map(Step::Established),
        2 => any::<Index>().prop_map(Step::EstablishFailed),
        1 => any::<Index>().prop_map(Step::IdleClosed),
        5 => (0..80_u16).prop_map(Step::Wait),
        1 => (900..1100_u16).prop_map(Step::Wait),
        2 => (0..40_u8).prop_map(Step::Late),
        1 => any::<u8>().prop_map(Step::Nonsense),
    ]
}

/// Programs of up to `length` steps for pools of all kinds; some end with a close that is not the
/// last step.
pub(crate) fn programs(length: usize) -> impl Strategy<Value = Program> {
    // Multiples of 10 ms meet the limits exactly.
    let limit = || {
        let limits = prop_oneof![Just(0), Just(10), 1..50_u64];
        prop::option::of(limits.prop_map(Duration::from_millis))
    };
    let options = (0..5_u32, 0..4_u32, 0..4_u32, limit(), limit()).prop_map(
        |(max_size, min_size, max_connecting, max_idle, wait_queue_timeout)| PoolOptions {
            max_size,
            min_size,
            max_connecting,
            max_idle,
            wait_queue_timeout,
            ..PoolOptions::default()
        },
    );
    let steps = prop::collection::vec(step(), 1..length);
    let closed = prop::option::weighted(0.2, any::<Index>());
    let subscribed = prop::bool::weighted(0.9);
    (options, subscribed, steps, closed).prop_map(|(options, subscribed, mut steps, closed)| {
        if let Some(at) = closed {
            let at = at.index(steps.len());
            steps.insert(at, Step::Close);
        }
        // A pool that is never ready shows little.
        steps.insert(0, Step::Ready);
        Program {
            options,
            subscribed,
            steps,
        }
    })
}

fn pick(which: &Index, from: &[u64]) -> Option<u64> {
    (!from.is_empty()).then(|| from[which.index(from.len())])
}

impl Program {
    /// Plays it; what is found is told with the number of its step.
    pub(crate) fn play(&self, bench: &mut Bench) -> Found {
        let mut requests = 0;
        for (number, step) in self.steps.iter().enumerate() {
            let played = play(bench, step, &mut requests);
            played.map_err(|what| format!("step {number}, {what}"))?;
        }
        Ok(())
    }
}

fn play(bench: &mut Bench, step: &Step, requests: &mut u64) -> Found {
    let watch = &bench.watch;
    let input = match step {
        Step::Ready => Some(Input::Ready),
        Step::Clear { interrupt } => Some(Input::Clear {
            interrupt: *interrupt,
        }),
        Step::Close => Some(Input::Close),
        Step::CheckOut { patience, timed } => {
            *requests += 1;
            let patience = patience.map(|p| Duration::from_millis(p.into()));
            Some(Input::CheckOut {
                request: *requests,
                deadline: patience.map(|patience| bench.now + patience),
                timed: *timed,
            })
        }
        Step::AskTwice(which) => pick(which, &watch.waiting()).map(|request| Input::CheckOut {
            request,
            deadline: None,
            timed: false,
        }),
        Step::Cancel(which) => pick(which, &watch.waiting()).map(Input::Cancel),
        Step::CheckIn { which, broken } => {
            pick(which, &watch.in_use()).map(|connection| Input::CheckIn {
                connection,
                broken: *broken,
            })
        }
        Step::Established(which) => pick(which, &watch.pending()).map(Input::Established),
        Step::EstablishFailed(which) => pick(which, &watch.pending()).map(Input::EstablishFailed),
        Step::IdleClosed(which) => pick(which, &watch.available()).map(Input::IdleClosed),
        Step::Wait(millis) => {
            bench.now = bench.now + Duration::from_millis((*millis).into());
            return bench.keep_deadlines();
        }
        Step::Late(millis) => {
            bench.now = bench.now + Duration::from_millis((*millis).into());
            None
        }
        Step::Nonsense(id) => return nonsense(bench, (*id).into(), *requests),
    };
    input.map_or(Ok(()), |input| bench.feed(&input))
}

/// Everything that can be said about this number where it does not fit.
fn nonsense(bench: &mut Bench, id: u64, requests: u64) -> Found {
    if !bench.watch.pending().contains(&id) {
        bench.feed(&Input::Established(id))?;
        bench.feed(&Input::EstablishFailed(id))?;
    }
    if !bench.watch.available().contains(&id) {
        bench.feed(&Input::IdleClosed(id))?;
    }
    if !bench.watch.in_use().contains(&id) {
        for broken in [false, true] {
            bench.feed(&Input::CheckIn {
                connection: id,
                broken,
            })?;
        }
    }
    bench.feed(&Input::Cancel(requests + 1 + id))
}
