//! The questions of programs. They have a table of their own: there can be as many of them as
//! operations, and the work for a connection must not grow with their number.

use crate::{client::QuestionId, operation::OperationId};
use std::collections::BTreeMap;

/// The highest number of threads that the inquiries of programs occupy at once: 4. Further
/// inquiries that need a thread fail at once. A thread stays occupied until its work returns, also
/// if the operation has ended meanwhile.
pub const MAX_BLOCKING_INQUIRIES: usize = 4;

/// The questions of programs that were asked and not answered.
#[derive(Debug, Default)]
pub(super) struct ProgramQuestions {
    asked: BTreeMap<QuestionId, Asked>,
    /// The number of questions that occupy a thread.
    blocking: usize,
}

#[derive(Debug)]
struct Asked {
    /// `None` if the operation no longer waits, and the question only occupies its thread.
    operation: Option<OperationId>,
    is_blocking: bool,
}

/// The end of a question.
pub(super) struct Ended {
    /// The operation that waits for the answer, if one does.
    pub(super) operation: Option<OperationId>,
    /// True if the shell has to stop its work.
    pub(super) is_withdrawn: bool,
}

impl ProgramQuestions {
    /// Fails with the reason if no further question may occupy a thread.
    pub(super) fn check_room(&self) -> Result<(), String> {
        if self.blocking < MAX_BLOCKING_INQUIRIES {
            return Ok(());
        }
        Err(format!(
            "{MAX_BLOCKING_INQUIRIES} earlier calls or readings of files have not ended"
        ))
    }

    pub(super) fn add(&mut self, id: QuestionId, operation: OperationId, is_blocking: bool) {
        self.blocking += usize::from(is_blocking);
        let operation = Some(operation);
        self.asked.insert(
            id,
            Asked {
                operation,
                is_blocking,
            },
        );
    }

    /// Ends a question, because of its answer or because nobody waits for it any more; `None` if it
    /// is no question of a program. A question that occupies a thread counts until it is answered.
    pub(super) fn end(&mut self, id: QuestionId, is_answered: bool) -> Option<Ended> {
        let asked = self.asked.get_mut(&id)?;
        let operation = asked.operation.take();
        let is_over = is_answered || !asked.is_blocking;
        if is_over {
            self.blocking -= usize::from(asked.is_blocking);
            self.asked.remove(&id);
        }
        Some(Ended {
            operation,
            is_withdrawn: is_over && !is_answered,
        })
    }

    /// Forgets all questions, and returns them.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = QuestionId> + use<> {
        self.blocking = 0;
        std::mem::take(&mut self.asked).into_keys()
    }

    #[cfg(any(test, feature = "unstable-machines"))]
    pub(super) fn ids(&self) -> impl Iterator<Item = QuestionId> {
        self.asked.keys().copied()
    }
}
