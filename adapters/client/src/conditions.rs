//! Conditions of a client that tasks wait for.

use crate::{
    Runtime,
    shared::{Inner, Shared},
    waiters::Waiters,
};
use std::{future::poll_fn, pin::pin, task::Poll};

/// A condition, and the list of those who wait for it.
struct Condition<S> {
    holds: fn(&Inner<S>) -> bool,
    waiters: fn(&mut Inner<S>) -> &mut Waiters,
}

impl<R: Runtime> Shared<R> {
    /// Waits until there are no tasks and no sockets. Returns false if `limit` completed first.
    pub(crate) async fn reaches_idle(&self, limit: impl Future<Output = ()>) -> bool {
        let condition = Condition {
            holds: Inner::is_idle,
            waiters: |inner| &mut inner.idle,
        };
        self.reaches(condition, limit).await
    }

    /// Waits until the pools have the connections of `minPoolSize`. Returns false if `limit`
    /// completed first.
    pub(crate) async fn reaches_warm(&self, limit: impl Future<Output = ()>) -> bool {
        let condition = Condition {
            holds: |inner| inner.core.is_warm(),
            waiters: |inner| &mut inner.warm,
        };
        self.reaches(condition, limit).await
    }

    async fn reaches(
        &self,
        condition: Condition<R::Stream>,
        limit: impl Future<Output = ()>,
    ) -> bool {
        struct Place<'a, R: Runtime> {
            shared: &'a Shared<R>,
            waiters: fn(&mut Inner<R::Stream>) -> &mut Waiters,
            key: Option<u64>,
        }
        impl<R: Runtime> Drop for Place<'_, R> {
            fn drop(&mut self) {
                let left = (self.waiters)(&mut self.shared.lock()).leave(self.key);
                drop(left);
            }
        }
        let mut limit = pin!(limit);
        let mut place = Place {
            shared: self,
            waiters: condition.waiters,
            key: None,
        };
        poll_fn(|context| {
            // Cloning or dropping a waker can run code of the application's executor, so it happens
            // outside of the lock.
            let waker = context.waker().clone();
            let mut guard = self.lock();
            if (condition.holds)(&guard) {
                drop(guard);
                return Poll::Ready(true);
            }
            let old = (condition.waiters)(&mut guard).wait(&mut place.key, 0, waker);
            drop(guard);
            drop(old);
            limit.as_mut().poll(context).map(|()| false)
        })
        .await
    }
}
