//! Answers to what the core asks.

use onionskin_core::client::{Answer, Question};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Answers a question, which may take seconds.
pub(crate) fn answer(question: Question) -> Answer {
    let work = || match question {
        Question::DeriveKeys(derivation) => Answer::Keys(derivation.derive()),
    };
    // Work that panics has no answer, and nothing is to wait for one.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Answer::None)
}
