//! Answers to questions of the core.

use onionskin_core::client::{Answer, Question};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Answers a question of the core, such as the derivation of a key. This can take long, so do not
/// call it in an async task.
pub(crate) fn answer(question: Question) -> Answer {
    let work = || match question {
        Question::DeriveKeys(derivation) => Answer::Keys(derivation.derive()),
    };
    // The core must get an answer also if the work panics, because connections wait for it.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Answer::None)
}
