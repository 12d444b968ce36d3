//! Answers to questions of the core.

use onionskin_core::client::{Answer, KeyDerivation};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Derives keys from a password. This can take long, so do not call it in an async task.
pub(crate) fn derive(derivation: KeyDerivation) -> Answer {
    let work = || Answer::Keys(derivation.derive());
    // The core must get an answer also if the work panics, because connections wait for it.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Answer::None)
}
