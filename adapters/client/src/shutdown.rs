//! The shutdown of a client: waiting for tasks, sockets and events.

use crate::{Runtime, events::FLUSH_LIMIT, shared::Shared, timer::Limit};
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

/// The maximum time for which a shutdown waits for tasks and sockets, such as those of operations
/// that use a connection. Not configurable.
pub(crate) const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

impl<R: Runtime> Shared<R> {
    /// Waits until all tasks have ended and all sockets are closed, for [`SHUTDOWN_LIMIT`] at most.
    /// After the limit, monitors and pools are closed. A connection that is still in use, for
    /// example by an operation whose future is kept but not polled, is closed when its operation
    /// ends.
    pub(crate) async fn end(self: &Arc<Self>) {
        if !self.idle(Limit::begin(self.clone(), SHUTDOWN_LIMIT)).await {
            self.with(|inner, now| inner.core.close_now(now));
        }
    }

    /// Waits until there are no tasks and no sockets. Returns false if `limit` completed first.
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
            // Cloning or dropping a waker can run code of the application's executor, so it happens
            // outside of the lock.
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

    /// Waits until the listeners were called for all events so far, for [`FLUSH_LIMIT`] at most.
    pub(crate) async fn flush_events(self: &Arc<Self>) {
        let limit = || Limit::begin(self.clone(), FLUSH_LIMIT);
        self.delivery.wait_for(self.delivery.mark(), limit).await;
    }
}
