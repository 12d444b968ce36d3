//! Calls of code that is not the driver's, such as listeners and wakers.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

/// Runs code of the application or of its runtime and stops a panic of that code. A panic while the
/// panic payload is dropped is stopped as well.
pub(crate) fn catch_panic(run: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(run)) else {
        return;
    };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// A future of the application, whose panics end here.
pub(crate) struct UserFuture<'a, T>(Option<BoxedFuture<'a, T>>);

type BoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<'a, T> UserFuture<'a, T> {
    /// Calls a function of the application that returns the future.
    pub(crate) fn new(call: impl FnOnce() -> BoxedFuture<'a, T>) -> Self {
        let mut future = None;
        catch_panic(|| future = Some(call()));
        Self(future)
    }

    /// Returns the result of the future, or `None` if it panicked.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(future) = &mut self.0 else {
            return Poll::Ready(None);
        };
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            Err(payload) => {
                catch_panic(|| drop(payload));
                Poll::Ready(None)
            }
        }
    }
}

impl<T> Drop for UserFuture<'_, T> {
    fn drop(&mut self) {
        let future = self.0.take();
        catch_panic(|| drop(future));
    }
}
