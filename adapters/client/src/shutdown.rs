//! What the end of a client waits for.

use crate::{Runtime, events::FLUSH_LIMIT, shared::Shared, timer::Limit};
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

/// How long the end of a client waits for operations that still hold a connection. Not an option.
pub(crate) const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

impl<R: Runtime> Shared<R> {
    /// Waits until nothing is left, no task and no socket, for [`SHUTDOWN_LIMIT`] at most. An
    /// operation that is held and not polled never ends; then monitors and pools close without it.
    pub(crate) async fn end(self: &Arc<Self>) {
        if !self.idle(Limit::begin(self.clone(), SHUTDOWN_LIMIT)).await {
            self.with(|inner, now| inner.core.end_without_exchanges(now));
        }
    }

    /// Waits until nothing is left; false if `limit` ended first.
    async fn idle(&self, limit: impl Future<Output = ()>) -> bool {
        struct Place<'a, R: Runtime>(&'a Shared<R>, Option<u64>);
        impl<R: Runtime> Drop for Place<'_, R> {
            fn drop(&mut self) {
                let left = self.0.lock().idle.leave(self.1);
                drop(left);
            }
        }
        let mut limit = pin!(limit);
        let mut place = Place(self, None);
        poll_fn(|context| {
            // Wakers are cloned and dropped outside of the lock.
            let waker = context.waker().clone();
            let mut guard = self.lock();
            if guard.is_idle() {
                drop(guard);
                return Poll::Ready(true);
            }
            let old = guard.idle.wait(&mut place.1, 0, waker);
            drop(guard);
            drop(old);
            limit.as_mut().poll(context).map(|()| false)
        })
        .await
    }

    /// Waits until the listeners have heard what was queued so far, within their limit.
    pub(crate) async fn flush_events(self: &Arc<Self>) {
        let limit = || Limit::begin(self.clone(), FLUSH_LIMIT);
        self.delivery.heard(self.delivery.mark(), limit).await;
    }
}
