//! The possible states of a document that only one caller writes.
//!
//! A write whose outcome the caller does not know can still take effect, once and at any later
//! time, because a message can be under way after its operation has ended. So a document has
//! several possible states, and each answer of the servers excludes those that do not fit it.

use std::collections::BTreeSet;

/// The marks of the writes that a document shows, in the order of the writes. `None` if there is no
/// such document.
pub(super) type State = Option<Vec<i64>>;

/// The change that a write makes to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    /// Inserts the document.
    Insert,
    /// Adds the mark of the write.
    Push {
        /// True if the write inserts a missing document.
        upserts: bool,
    },
    /// Replaces the document by one with no other mark.
    Replace {
        /// True if the write inserts a missing document.
        upserts: bool,
    },
    /// Deletes the document.
    Delete,
}

/// A write of one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write {
    pub(super) change: Change,
    /// The mark, which no other write has.
    pub(super) mark: i64,
}

/// The answer to a write of one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    /// The document was inserted.
    Added,
    /// The document was changed or deleted.
    Matched,
    /// There is no such document.
    Missed,
    /// There is such a document already.
    Refused,
}

impl Answer {
    /// True if the write had an effect.
    pub(super) const fn is_effect(self) -> bool {
        matches!(self, Self::Added | Self::Matched)
    }
}

impl Write {
    /// Returns the state after the write, and the answer.
    pub(super) fn apply(self, state: &State) -> (State, Answer) {
        let new = || Some(vec![self.mark]);
        match (self.change, state) {
            (Change::Insert, None)
            | (Change::Push { upserts: true } | Change::Replace { upserts: true }, None) => {
                (new(), Answer::Added)
            }
            (Change::Insert, Some(_)) => (state.clone(), Answer::Refused),
            (Change::Push { .. } | Change::Replace { .. } | Change::Delete, None) => {
                (None, Answer::Missed)
            }
            (Change::Push { .. }, Some(marks)) => {
                let marks = marks.iter().copied().chain([self.mark]);
                (Some(marks.collect()), Answer::Matched)
            }
            (Change::Replace { .. }, Some(_)) => (new(), Answer::Matched),
            (Change::Delete, Some(_)) => (None, Answer::Matched),
        }
    }
}

/// A possible state, and the writes that can still take effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    state: State,
    open: BTreeSet<Write>,
}

/// The possible states of a document.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The possible states. For each of them, those after open writes are there as well.
    cases: BTreeSet<Case>,
    /// The states that were possible at any time.
    ever: BTreeSet<State>,
    /// The marks of all writes.
    marks: BTreeSet<i64>,
    /// The number of writes with an unknown outcome.
    doubts: usize,
    /// The step of the caller in which the possible states were last limited by a write or a read.
    pub(super) changed: u64,
}

impl Default for Known {
    fn default() -> Self {
        let case = Case {
            state: None,
            open: BTreeSet::new(),
        };
        Self {
            cases: BTreeSet::from([case]),
            ever: BTreeSet::from([None]),
            marks: BTreeSet::new(),
            doubts: 0,
            changed: 0,
        }
    }
}

impl Known {
    /// Notes a write that is sent.
    pub(super) fn send(&mut self, write: Write) {
        self.marks.insert(write.mark);
    }

    /// Notes a write that was executed once, and whose state before, answer and state after fulfil
    /// `fits`. Returns false if there is no such state.
    pub(super) fn execute(
        &mut self,
        write: Write,
        fits: impl Fn(&State, Answer, &State) -> bool,
    ) -> bool {
        self.send(write);
        let cases = self.cases.iter().filter_map(|case| {
            let (state, answer) = write.apply(&case.state);
            let open = case.open.clone();
            fits(&case.state, answer, &state).then_some(Case { state, open })
        });
        self.keep(cases.collect())
    }

    /// Notes a write that was executed or not, and has no effect later.
    pub(super) fn execute_perhaps(&mut self, write: Write) {
        let before = self.cases.clone();
        self.execute(write, |_, _, _| true);
        self.cases.extend(before);
    }

    /// Notes a write that takes effect once or never.
    pub(super) fn doubt(&mut self, write: Write) {
        self.send(write);
        self.doubts += 1;
        let cases = self.cases.iter().cloned().map(|mut case| {
            case.open.insert(write);
            case
        });
        self.keep(cases.collect());
    }

    /// Notes the present state. Returns false if that is not possible.
    pub(super) fn see(&mut self, found: &State) -> bool {
        let cases = self.cases.iter().filter(|case| case.state == *found);
        self.keep(cases.cloned().collect())
    }

    /// True if the document can have been in this state at some time.
    pub(super) fn was(&self, found: &State) -> bool {
        self.ever.contains(found)
    }

    /// True if the marks are those of writes, each of them once.
    pub(super) fn has_written(&self, found: &State) -> bool {
        let marks = found.iter().flatten();
        let different: BTreeSet<&i64> = marks.clone().collect();
        different.len() == marks.count() && different.into_iter().all(|m| self.marks.contains(m))
    }

    /// Returns the possible answers to a write.
    pub(super) fn answers(&self, write: Write) -> BTreeSet<Answer> {
        self.states().map(|state| write.apply(state).1).collect()
    }

    /// Returns the possible states.
    pub(super) fn states(&self) -> impl Iterator<Item = &State> {
        self.cases.iter().map(|case| &case.state)
    }

    /// Returns the states that were possible at any time.
    pub(super) fn past_states(&self) -> impl Iterator<Item = &State> {
        self.ever.iter()
    }

    /// True if the document has too many possible states for further writes.
    pub(super) fn is_spent(&self) -> bool {
        self.doubts >= MAX_DOUBTS || self.cases.len() > MAX_CASES
    }

    /// Replaces the possible states and adds those after open writes. Returns false, without a
    /// change, if there are none.
    fn keep(&mut self, cases: BTreeSet<Case>) -> bool {
        if cases.is_empty() {
            return false;
        }
        let mut new: Vec<Case> = cases.iter().cloned().collect();
        let mut all = cases;
        while let Some(case) = new.pop() {
            for write in &case.open {
                let (state, answer) = write.apply(&case.state);
                let mut open = case.open.clone();
                open.remove(write);
                let next = Case { state, open };
                // A write without an effect only leaves fewer open ones.
                if answer.is_effect() && all.insert(next.clone()) {
                    new.push(next);
                }
            }
        }
        self.ever.extend(all.iter().map(|case| case.state.clone()));
        self.cases = all;
        true
    }
}

/// The number of writes with an unknown outcome after which a document gets no further write.
const MAX_DOUBTS: usize = 3;

/// The number of possible states after which a document gets no further write.
const MAX_CASES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const fn write(mark: i64, change: Change) -> Write {
        Write { change, mark }
    }

    fn push(mark: i64) -> Write {
        write(mark, Change::Push { upserts: false })
    }

    /// Returns a document that was inserted with the mark 1.
    fn inserted() -> Known {
        let mut known = Known::default();
        let is_new = |_: &State, answer, _: &State| answer == Answer::Added;
        assert!(known.execute(write(1, Change::Insert), is_new));
        known
    }

    #[test]
    fn an_acknowledged_write_is_there_once() {
        let mut known = inserted();
        assert!(known.execute(push(2), |_, answer, _| answer.is_effect()));
        for wrong in [None, Some(vec![1]), Some(vec![1, 2, 2])] {
            assert!(!known.clone().see(&wrong), "{wrong:?}");
        }
        assert!(known.see(&Some(vec![1, 2])));
    }

    #[test]
    fn a_write_in_doubt_takes_effect_once_at_any_later_time_or_never() {
        let mut known = inserted();
        known.doubt(push(2));
        assert!(known.execute(push(3), |_, answer, _| answer.is_effect()));
        for right in [vec![1, 3], vec![1, 2, 3], vec![1, 3, 2]] {
            assert!(known.clone().see(&Some(right)));
        }
        for wrong in [vec![1, 2], vec![1, 2, 3, 2], vec![3]] {
            assert!(!known.clone().see(&Some(wrong)));
        }
        assert!(known.see(&Some(vec![1, 2, 3])));
        assert!(!known.see(&Some(vec![1, 2, 3, 2])), "not twice");
    }

    #[test]
    fn a_delete_in_doubt_can_delete_a_later_document() {
        let mut known = inserted();
        known.doubt(write(2, Change::Delete));
        assert_eq!(
            known.answers(write(3, Change::Insert)),
            BTreeSet::from([Answer::Added, Answer::Refused])
        );
        let insert = write(3, Change::Insert);
        assert!(
            known
                .clone()
                .execute(insert, |_, answer, _| answer == Answer::Refused)
        );
        assert!(known.execute(insert, |_, answer, _| answer == Answer::Added));
        assert!(!known.see(&None), "the delete took effect before");
    }

    #[test]
    fn an_answer_that_no_state_explains_is_found() {
        let mut known = inserted();
        assert!(!known.execute(push(2), |_, answer, _| answer == Answer::Missed));
        assert!(!known.has_written(&Some(vec![9])) && !known.has_written(&Some(vec![1, 1])));
        assert!(known.was(&None) && !known.was(&Some(vec![2])));
    }
}
