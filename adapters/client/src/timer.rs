//! The timer task of a client, and time limits for futures that are awaited outside of its runtime.

use crate::{Runtime, shared::Shared};
use atomic_waker::AtomicWaker;
use onionskin_core::{error::Error, time::Instant};
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

/// Calls the core at its deadlines, until the client is closed and has no connection left.
///
/// Every time limit of the client depends on this task. If the task is dropped early, even before
/// its first poll, the client is abandoned (`Client::abandon` of the core), because its operations
/// would never end.
pub(crate) fn run<R: Runtime>(shared: Arc<Shared<R>>) -> impl Future<Output = ()> + Send {
    let watch = Watch {
        shared,
        is_over: false,
    };
    async move {
        // `watch` is moved as a whole, so that it is dropped with this future, also if the future
        // was never polled.
        let mut watch = watch;
        let mut sleep: Option<(Instant, Pin<Box<R::Sleep>>)> = None;
        poll_fn(|context| poll(&watch.shared, &mut sleep, context)).await;
        watch.is_over = true;
    }
}

/// Polls until the result is ready or `limit`, a sleep of the runtime, has passed. Only for tasks
/// of the runtime, which alone poll its sleeps.
pub(crate) async fn until<T>(
    limit: impl Future<Output = ()>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) {
    let mut limit = pin!(limit);
    poll_fn(|context| match poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => limit.as_mut().poll(context),
    })
    .await;
}

/// Abandons the client when this value is dropped, unless the timer task has ended regularly.
struct Watch<R: Runtime> {
    shared: Arc<Shared<R>>,
    is_over: bool,
}

impl<R: Runtime> Drop for Watch<R> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let message = if std::thread::panicking() {
            "the timer task of the client has panicked; see the panic message for the reason"
        } else {
            "the runtime on which the client was made has ended; make a client in the runtime that \
             uses it"
        };
        self.shared.with(|inner, now| {
            inner.core.abandon(now, &Error::runtime(message));
        });
    }
}

fn poll<R: Runtime>(
    shared: &Arc<Shared<R>>,
    sleep: &mut Option<(Instant, Pin<Box<R::Sleep>>)>,
    context: &mut Context<'_>,
) -> Poll<()> {
    shared.timer.register(context.waker());
    loop {
        let (deadline, is_over) = {
            let mut guard = shared.lock();
            let deadline = guard.core.deadline();
            guard.timer_set = deadline;
            (deadline, guard.core.is_terminated())
        };
        if is_over {
            return Poll::Ready(());
        }
        let Some(deadline) = deadline else {
            return Poll::Pending;
        };
        let now = shared.now();
        // The deadline is compared with the clock and not with the timer: timers can fire early,
        // and the process can have been frozen.
        if now >= deadline {
            *sleep = None;
            let wall = shared.wall_time();
            shared.with(|inner, now| {
                inner.core.set_wall_time(now, wall);
                inner.core.handle_timeout(now);
            });
            continue;
        }
        if sleep.as_ref().is_none_or(|(at, _)| *at != deadline) {
            *sleep = Some((deadline, Box::pin(shared.runtime.sleep(deadline - now))));
        }
        let Some((_, timer)) = sleep else {
            return Poll::Pending;
        };
        match timer.as_mut().poll(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(()) => *sleep = None,
        }
    }
}

/// A time limit that any executor can poll: a task of the runtime sleeps for it. The future also
/// completes if the runtime drops that task, because the timers of a runtime that has ended do not
/// fire.
pub(crate) struct Limit<R: Runtime> {
    shared: Arc<Shared<R>>,
    turn: Arc<Turn>,
}

/// The state that a limit shares with its task.
#[derive(Default)]
struct Turn {
    is_over: AtomicBool,
    waiter: AtomicWaker,
    is_left: AtomicBool,
    sleeper: AtomicWaker,
}

/// Completes a limit when its task ends or is dropped.
struct Sleeper(Arc<Turn>);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.waiter.wake();
    }
}

impl<R: Runtime> Limit<R> {
    pub(crate) fn begin(shared: Arc<Shared<R>>, duration: Duration) -> Self {
        let turn = Arc::<Turn>::default();
        let sleeper = Sleeper(turn.clone());
        let sleeping = shared.clone();
        shared.runtime.spawn(async move {
            let sleeper = sleeper;
            let mut sleep = pin!(sleeping.runtime.sleep(duration));
            poll_fn(|context| {
                sleeper.0.sleeper.register(context.waker());
                if sleeper.0.is_left.load(Ordering::Acquire) {
                    return Poll::Ready(());
                }
                sleep.as_mut().poll(context)
            })
            .await;
        });
        Self { shared, turn }
    }
}

impl<R: Runtime> Future for Limit<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.turn.waiter.register(context.waker());
        if self.turn.is_over.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl<R: Runtime> Drop for Limit<R> {
    fn drop(&mut self) {
        self.turn.is_left.store(true, Ordering::Release);
        self.turn.sleeper.wake();
        self.shared.runtime.run_ready();
    }
}
