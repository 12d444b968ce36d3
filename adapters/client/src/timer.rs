//! The one timer of a client.

use crate::{Runtime, shared::Shared};
use onionskin_core::time::Instant;
use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// Tells the core when its deadlines have come, until the client is closed and has none.
pub(crate) async fn run<R: Runtime>(shared: Arc<Shared<R>>) {
    let mut sleep: Option<(Instant, Pin<Box<R::Sleep>>)> = None;
    poll_fn(|context| poll(&shared, &mut sleep, context)).await;
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
            (deadline, guard.core.is_over())
        };
        if is_over {
            return Poll::Ready(());
        }
        let Some(deadline) = deadline else { return Poll::Pending };
        let now = shared.now();
        // The clock is asked before the timer is believed: timers may fire early, and a process may
        // have been frozen.
        if now >= deadline {
            *sleep = None;
            let wall = shared.wall_time();
            shared.with(|inner, now| {
                inner.core.set_wall_time(wall);
                inner.core.handle_timeout(now);
            });
            continue;
        }
        if sleep.as_ref().is_none_or(|(at, _)| *at != deadline) {
            *sleep = Some((deadline, Box::pin(shared.runtime.sleep(deadline - now))));
        }
        let Some((_, timer)) = sleep else { return Poll::Pending };
        match timer.as_mut().poll(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(()) => *sleep = None,
        }
    }
}
