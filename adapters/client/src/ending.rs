//! What the end of a client waits for.

use crate::{Runtime, events::FLUSH_LIMIT, shared::Shared};
use std::{future::poll_fn, task::Poll};

impl<R: Runtime> Shared<R> {
    /// Waits until nothing is left: no task and no socket.
    pub(crate) async fn idle(&self) {
        struct Place<'a, R: Runtime>(&'a Shared<R>, Option<u64>);
        impl<R: Runtime> Drop for Place<'_, R> {
            fn drop(&mut self) {
                let left = self.0.lock().idle.leave(self.1);
                drop(left);
            }
        }
        let mut place = Place(self, None);
        poll_fn(|context| {
            // Wakers are cloned and dropped outside of the lock.
            let waker = context.waker().clone();
            let mut guard = self.lock();
            if guard.is_idle() {
                drop(guard);
                return Poll::Ready(());
            }
            let old = guard.idle.wait(&mut place.1, 0, waker);
            drop(guard);
            drop(old);
            Poll::Pending
        })
        .await;
    }

    /// Waits until the listeners have heard what was queued so far, within their limit.
    pub(crate) async fn flush_events(&self) {
        let limit = self.runtime.sleep(FLUSH_LIMIT);
        self.delivery.heard(self.delivery.mark(), limit).await;
    }
}
