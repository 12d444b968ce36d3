//! Code that is not ours: listeners and wakers.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the application or of its runtime. A panic of it ends there, and so does one of
/// what it panics with: the task that runs it may be the client's timer, and has more to do.
pub(crate) fn catch_panic(run: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(run)) else {
        return;
    };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}
