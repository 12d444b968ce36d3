//! How callers poll their operations.

use super::{SimRuntime, SimSleep};
use crate::world::workload::{Absence, Polling};
use onionskin::Runtime;
use onionskin_core::time::Instant;
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

/// Awaits an operation. Returns `None` if the caller abandons it. No absence lasts longer than
/// until `heals`.
pub(super) async fn polled<F: Future>(
    runtime: &SimRuntime,
    polling: Polling,
    heals: Instant,
    operation: F,
) -> Option<F::Output> {
    let patience: Option<SimSleep> = polling.patience.map(|patience| runtime.sleep(patience));
    let mut patience = patience.map(Box::pin);
    let mut polls = polling.polls;
    let mut absent = Absent {
        runtime: runtime.clone(),
        absence: polling.absence,
        heals,
        sleep: None,
    };
    let mut operation = pin!(operation);
    let mut poll = |context: &mut Context<'_>| {
        ready!(absent.poll(context));
        if let Poll::Ready(output) = operation.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        if let Some(left) = &mut polls {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Poll::Ready(None);
            }
        }
        let is_over = patience
            .as_mut()
            .is_some_and(|sleep| Pin::as_mut(sleep).poll(context).is_ready());
        if is_over {
            return Poll::Ready(None);
        }
        Poll::Pending
    };
    poll_fn(&mut poll).await
}

/// Keeps a caller from polling its operation for a while.
struct Absent {
    runtime: SimRuntime,
    /// The absence, before it begins.
    absence: Option<Absence>,
    heals: Instant,
    /// The rest of the absence, after it began.
    sleep: Option<Pin<Box<SimSleep>>>,
}

impl Absent {
    /// Returns `Pending` while the caller is absent.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(absence) = &mut self.absence {
            if absence.after > 0 {
                absence.after -= 1;
                return Poll::Ready(());
            }
            let until = self.runtime.shared.lock().now + absence.time;
            self.sleep = Some(Box::pin(self.runtime.sleep_until(until.min(self.heals))));
            self.absence = None;
        }
        if let Some(sleep) = &mut self.sleep {
            ready!(sleep.as_mut().poll(context));
            self.sleep = None;
        }
        Poll::Ready(())
    }
}
