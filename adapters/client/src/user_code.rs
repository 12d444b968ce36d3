//! Calls of code that is not the driver's, such as listeners and wakers.

use std::panic::{AssertUnwindSafe, catch_unwind};

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
