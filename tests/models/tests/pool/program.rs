//! Programs: random sequences of inputs to a connection pool. These are not the programs of
//! operations.

use crate::bench::{Bench, Found};
use onionskin_core::unstable::pool::{PinnedFor, PoolOptions};
use onionskin_models::pool::Input;
use proptest::{prelude::*, sample::Index};
use std::time::Duration;

/// One step of a program. An `Index` selects one of the requests or connections for which the step
/// is meant. If there is none, the step does nothing.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Ready,
    Clear {
        interrupt: bool,
    },
    CheckOut {
        patience: Option<u8>,
        /// True if the operation has a `timeoutMS`.
        timed: bool,
    },
    AskTwice(Index),
    Cancel(Index),
    CheckIn {
        which: Index,
        broken: bool,
    },
    CheckInDue(Index),
    Drained(Index),
    Established(Index),
    /// Only behind a load balancer: a service replies to the `hello` on a connection.
    HelloAnswered {
        which: Index,
        service: u8,
    },
    ClearService(u8),
    PinFor {
        which: Index,
        pinned_for: PinnedFor,
    },
    EstablishFailed(Index),
    IdleClosed(Index),
    /// This number of milliseconds passes. Then the deadlines that were reached are handled.
    Wait(u16),
    /// This number of milliseconds passes. The deadlines that were reached are not handled yet.
    Late(u8),
    /// Inputs about the connection with this number that do not fit its state, and the cancellation
    /// of a request that does not exist. The connection need not exist.
    Nonsense(u8),
    Close,
}

/// The options of a pool and its inputs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) options: PoolOptions,
    pub(crate) subscribed: bool,
    pub(crate) steps: Vec<Step>,
}

/// Returns a strategy for the steps of pools with or without a load balancer.
fn step(load_balanced: bool) -> impl Strategy<Value = Step> {
    let own = if load_balanced {
        balanced_step().boxed()
    } else {
        prop_oneof![
            4 => Just(Step::Ready),
            2 => any::<bool>().prop_map(|interrupt| Step::Clear { interrupt }),
        ]
        .boxed()
    };
    let own_weight = if load_balanced { 15 } else { 6 };
    prop_oneof![
        own_weight => own,
        12 => (prop::option::weighted(0.4, 0..60_u8), any::<bool>())
            .prop_map(|(patience, timed)| Step::CheckOut { patience, timed }),
        1 => any::<Index>().prop_map(Step::AskTwice),
        2 => any::<Index>().prop_map(Step::Cancel),
        7 => (any::<Index>(), prop::bool::weighted(0.2))
            .prop_map(|(which, broken)| Step::CheckIn { which, broken }),
        2 => any::<Index>().prop_map(Step::CheckInDue),
        3 => any::<Index>().prop_map(Step::Drained),
        8 => any::<Index>().prop_map(Step::Established),
        2 => any::<Index>().prop_map(Step::EstablishFailed),
        1 => any::<Index>().prop_map(Step::IdleClosed),
        5 => (0..80_u16).prop_map(Step::Wait),
        1 => (900..1100_u16).prop_map(Step::Wait),
        2 => (0..40_u8).prop_map(Step::Late),
        2 => Just(Step::Late(10)),
        1 => any::<u8>().prop_map(Step::Nonsense),
    ]
}

/// Returns a strategy for the step `Ready` and the steps that only pools behind a load balancer
/// have. The steps use only two services, so that several connections have the same service.
fn balanced_step() -> impl Strategy<Value = Step> {
    let pinned_for = prop_oneof![
        1 => Just(PinnedFor::Operation),
        2 => Just(PinnedFor::Cursor),
        2 => Just(PinnedFor::Transaction),
    ];
    prop_oneof![
        1 => Just(Step::Ready),
        7 => (any::<Index>(), 1..3_u8)
            .prop_map(|(which, service)| Step::HelloAnswered { which, service }),
        5 => (1..3_u8).prop_map(Step::ClearService),
        4 => (any::<Index>(), pinned_for)
            .prop_map(|(which, pinned_for)| Step::PinFor { which, pinned_for }),
    ]
}

/// Returns a strategy for programs, for pools with and without a load balancer. `length` limits the
/// number of random steps.
pub(crate) fn programs(length: usize) -> impl Strategy<Value = Program> {
    prop_oneof![
        3 => programs_for(false, length),
        2 => programs_for(true, length),
    ]
}

/// Returns a strategy for programs of one kind of pool. About a fifth of them close the pool at a
/// random step.
fn programs_for(load_balanced: bool, length: usize) -> impl Strategy<Value = Program> {
    // The time limits are often 10 ms, so that a step `Late(10)` often ends exactly at a limit.
    // They are also often 0, which means no limit.
    let limit = || {
        let limits = prop_oneof![Just(0), Just(10), 1..50_u64];
        prop::option::of(limits.prop_map(Duration::from_millis))
    };
    let options = (0..5_u32, 0..4_u32, 0..4_u32, limit(), limit()).prop_map(
        move |(max_size, min_size, max_connecting, max_idle, wait_queue_timeout)| PoolOptions {
            max_size,
            min_size,
            max_connecting,
            max_idle,
            wait_queue_timeout,
            load_balanced,
            ..PoolOptions::default()
        },
    );
    let steps = prop::collection::vec(step(load_balanced), 1..length);
    let closed = prop::option::weighted(0.2, any::<Index>());
    let subscribed = prop::bool::weighted(0.9);
    let drawn = (options, subscribed, warmth(load_balanced), steps, closed);
    drawn.prop_map(|(options, subscribed, warmth, mut steps, closed)| {
        steps.splice(0..0, warmth);
        if let Some(at) = closed {
            let at = at.index(steps.len());
            steps.insert(at, Step::Close);
        }
        // A pool that never becomes ready makes no connections and tests little.
        steps.insert(0, Step::Ready);
        Program {
            options,
            subscribed,
            steps,
        }
    })
}

/// Returns a strategy for the first steps, which in about a third of the programs make two or three
/// connections available, if the pool's limits permit it. Behind a load balancer each of these
/// connections has a different service.
fn warmth(load_balanced: bool) -> impl Strategy<Value = Vec<Step>> {
    let connections = prop_oneof![2 => Just(0), 1 => 2..4_u8];
    (connections, any::<Index>()).prop_map(move |(connections, which)| {
        let made = (1..=connections).flat_map(|service| {
            let asked = Step::CheckOut {
                patience: None,
                timed: false,
            };
            let hello_answered = load_balanced.then_some(Step::HelloAnswered { which, service });
            let established = Step::Established(which);
            [Some(asked), hello_answered, Some(established)]
        });
        let made = made.flatten();
        let broken = false;
        let returned = (0..connections).map(|_| Step::CheckIn { which, broken });
        made.chain(returned).collect()
    })
}

fn pick(which: &Index, from: &[u64]) -> Option<u64> {
    (!from.is_empty()).then(|| from[which.index(from.len())])
}

impl Program {
    /// Plays the program. An error contains the number of its step.
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
        Step::CheckInDue(which) => pick(which, &watch.in_use()).map(Input::CheckInDue),
        Step::Drained(which) => pick(which, &watch.draining()).map(Input::Drained),
        Step::Established(which) => return establish(bench, which),
        Step::HelloAnswered { which, service } => {
            pick(which, &watch.pending()).map(|connection| Input::HelloAnswered {
                connection,
                service: *service,
            })
        }
        Step::ClearService(service) => Some(Input::ClearService(*service)),
        Step::PinFor { which, pinned_for } => {
            pick(which, &watch.connections()).map(|connection| Input::PinFor {
                connection,
                pinned_for: *pinned_for,
            })
        }
        Step::EstablishFailed(which) => pick(which, &watch.pending()).map(Input::EstablishFailed),
        Step::IdleClosed(which) => {
            let unused = [watch.available(), watch.draining()].concat();
            pick(which, &unused).map(Input::IdleClosed)
        }
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

/// Establishes a connection. Behind a load balancer, prefers a connection whose service has replied
/// to its `hello`.
fn establish(bench: &mut Bench, which: &Index) -> Found {
    let mut pending = bench.watch.pending();
    if pending.iter().any(|id| bench.watch.may_be_established(*id)) {
        pending.retain(|id| bench.watch.may_be_established(*id));
    }
    let Some(id) = pick(which, &pending) else {
        return Ok(());
    };
    if !bench.watch.may_be_established(id) {
        bench.feed(&Input::HelloAnswered {
            connection: id,
            service: 1,
        })?;
    }
    bench.feed(&Input::Established(id))
}

/// Gives the pool inputs about the connection `id` that do not fit the connection's state, and
/// cancels a request that does not exist.
fn nonsense(bench: &mut Bench, id: u64, requests: u64) -> Found {
    if !bench.watch.pending().contains(&id) {
        bench.feed(&Input::Established(id))?;
        bench.feed(&Input::EstablishFailed(id))?;
        if bench.watch.is_balanced() {
            bench.feed(&Input::HelloAnswered {
                connection: id,
                service: 1,
            })?;
            bench.feed(&Input::PinFor {
                connection: id,
                pinned_for: PinnedFor::Cursor,
            })?;
        }
    }
    if !bench.watch.draining().contains(&id) {
        bench.feed(&Input::Drained(id))?;
        if !bench.watch.available().contains(&id) {
            bench.feed(&Input::IdleClosed(id))?;
        }
    }
    if !bench.watch.in_use().contains(&id) {
        bench.feed(&Input::CheckInDue(id))?;
        for broken in [false, true] {
            bench.feed(&Input::CheckIn {
                connection: id,
                broken,
            })?;
        }
    }
    bench.feed(&Input::Cancel(requests + 1 + id))
}
