//! The notes of a caller: its documents with their possible states.

use super::{
    COLLECTIONS, COPIES, NOTES,
    known::{Answer, Change, Known, State, Write},
};
use crate::world::options::index;
use bson::{Bson, Document};
use onionskin_core::random::Random;
use std::collections::{BTreeMap, BTreeSet};

/// The number of documents that a caller writes at the same time.
const ACTIVE: usize = 6;

/// The number of `_id`s that belong to a caller.
const RANGE: i64 = 1_000_000;

/// A document: the index of its collection in [`COLLECTIONS`], and its `_id`.
pub(super) type Key = (usize, i64);

/// A write that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) key: Key,
    pub(super) write: Write,
}

/// The knowledge of the outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Executed once, with this answer if that is known.
    Executed(Option<Answer>),
    /// Executed at the time of the call or not at all.
    Perhaps,
    /// Never executed.
    Nothing,
    /// Executed once, now or later, or never.
    Unknown,
}

/// The document before or after a write, as the servers returned it.
#[derive(Clone, Debug)]
pub(super) enum Image {
    Before(State),
    After(State),
}

/// The number of writes, among those at these places, that had an answer.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub(super) places: Vec<usize>,
    pub(super) answer: Answer,
    pub(super) count: u64,
}

/// The result of a call that writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) fates: Vec<Fate>,
    pub(super) sums: Vec<Sum>,
    pub(super) image: Option<Image>,
}

/// The way in which a call reads or writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// The step in which the session of the call has last had a write with an effect; `None`
    /// without a session.
    pub(super) since: Option<u64>,
    /// True if the call sees only data that a majority has.
    pub(super) is_committed: bool,
    /// True if all members have long been connected, and the call runs on the primary.
    pub(super) is_fresh: bool,
    /// True if the commands have transaction numbers.
    pub(super) is_numbered: bool,
}

/// The state of a document that a read can have seen.
enum Trust {
    /// The present state. See [`Book::trust`].
    Present,
    /// The present state or an earlier one.
    Past,
    /// A state of a member that is not the primary, or no longer.
    Any,
}

/// The notes of a caller.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// The number of the caller. Its `_id`s are in a range of their own.
    pub(super) owner: i64,
    known: BTreeMap<Key, Known>,
    active: Vec<i64>,
    marks: i64,
    /// The number of documents that were begun.
    pub(super) begun: i64,
    /// The step of the caller.
    pub(super) step: u64,
}

impl Book {
    pub(super) fn new(owner: i64) -> Self {
        Self {
            owner,
            ..Self::default()
        }
    }

    /// Returns the `_id`s in use. Documents with too many possible states are no longer in use.
    pub(super) fn active(&mut self) -> &[i64] {
        let known = &self.known;
        let is_spent = |key: Key| known.get(&key).is_some_and(Known::is_spent);
        self.active
            .retain(|id| !is_spent((NOTES, *id)) && !is_spent((COPIES, *id)));
        while self.active.len() < ACTIVE {
            self.begun += 1;
            self.active.push(self.owner * RANGE + self.begun);
        }
        &self.active
    }

    /// Draws different `_id`s, at least one and at most `most`.
    pub(super) fn draw_ids(&mut self, random: &mut Random, most: usize) -> Vec<i64> {
        let mut rest = self.active().to_vec();
        let count = 1 + index(random, most.min(rest.len()));
        let mut next = || rest.swap_remove(index(random, rest.len()));
        (0..count).map(|_| next()).collect()
    }

    /// Returns a write with a mark of its own.
    pub(super) fn sent(&mut self, key: Key, change: Change) -> Sent {
        self.marks += 1;
        let mark = self.marks;
        let write = Write { change, mark };
        self.known.entry(key).or_default().send(write);
        Sent { key, write }
    }

    /// True if the document exists in each possible state, or `None` if only in some. A document
    /// that was never written does not exist.
    pub(super) fn exists(&self, key: Key) -> Option<bool> {
        let Some(known) = self.known.get(&key) else {
            return Some(false);
        };
        let all: BTreeSet<bool> = known.states().map(Option::is_some).collect();
        all.first().copied().filter(|_| all.len() == 1)
    }

    /// True if a document of a collection exists in each possible state.
    pub(super) fn has_some(&self, place: usize) -> bool {
        let mut own = self.known.keys().filter(|key| key.0 == place);
        own.any(|key| self.exists(*key) == Some(true))
    }

    /// Notes the outcome of a call that writes. Returns true if a write had an effect.
    ///
    /// A write without an effect leaves no entry in the oplog, for which the server would wait, so
    /// a member that was the primary can acknowledge it and have older data. The simulated servers
    /// log each command with a transaction number except one that only inserts.
    ///
    /// A refused insert is held to have no effect. If an earlier attempt of it were still under
    /// way, and the document were deleted before it arrived, this would be wrong.
    pub(super) fn settle(
        &mut self,
        sent: &[Sent],
        told: &Told,
        manner: Manner,
    ) -> Result<bool, String> {
        let wrong = |why: &str, known: &Known| {
            Err(format!(
                "{why}: {told:?} for {sent:?} in {manner:?}: {known:?}"
            ))
        };
        let bounds = self.bounds(sent, told)?;
        let mut had_effect = false;
        for (place, (one, fate)) in sent.iter().zip(&told.fates).enumerate() {
            let (write, known) = (one.write, self.known.entry(one.key).or_default());
            let expected = match fate {
                Fate::Executed(answer) => answer.or_else(|| bounds.get(&place).copied()),
                Fate::Nothing => continue,
                Fate::Perhaps => {
                    known.execute_perhaps(write);
                    known.changed = self.step;
                    continue;
                }
                Fate::Unknown => {
                    known.doubt(write);
                    continue;
                }
            };
            let is_sure = match expected {
                Some(Answer::Missed) => manner.is_numbered || manner.is_fresh,
                Some(Answer::Refused) => manner.is_fresh,
                _ => true,
            };
            if !is_sure {
                let mut past = known.past_states();
                if !past.any(|state| Some(write.apply(state).1) == expected) {
                    return wrong("a write had an impossible answer", known);
                }
                continue;
            }
            let fits = |before: &State, answer: Answer, after: &State| {
                expected.is_none_or(|expected| expected == answer)
                    && match &told.image {
                        Some(Image::Before(image)) => image == before,
                        Some(Image::After(image)) => image == after,
                        None => true,
                    }
            };
            if !known.execute(write, fits) {
                return wrong("a write had an impossible result", known);
            }
            known.changed = self.step;
            had_effect |= expected.is_some_and(Answer::is_effect);
        }
        Ok(had_effect)
    }

    /// Checks the sums of a result, and returns the answers that follow from them.
    fn bounds(&self, sent: &[Sent], told: &Told) -> Result<BTreeMap<usize, Answer>, String> {
        let mut follow = BTreeMap::new();
        for Sum {
            places,
            answer,
            count,
        } in &told.sums
        {
            let possible = places.iter().map(|place| {
                let one = sent[*place];
                let mut answers = self.known[&one.key].answers(one.write);
                if let Fate::Executed(Some(only)) = told.fates[*place] {
                    answers = BTreeSet::from([only]);
                }
                (*place, answers)
            });
            let possible: Vec<_> = possible.filter(|(_, all)| all.contains(answer)).collect();
            let least = possible.iter().filter(|(_, all)| all.len() == 1).count();
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            if !(least..=possible.len()).contains(&count) {
                return Err(format!(
                    "{count} writes were {answer:?}, not {least}..={}: {told:?} for {sent:?}",
                    possible.len()
                ));
            }
            if count == possible.len() {
                follow.extend(possible.into_iter().map(|(place, _)| (place, *answer)));
            } else if count == least {
                let others = possible.into_iter().filter(|(_, all)| all.len() == 2);
                follow.extend(others.filter_map(|(place, all)| {
                    let other = all.into_iter().find(|other| other != answer)?;
                    Some((place, other))
                }));
            }
        }
        Ok(follow)
    }

    /// Returns what a read can have seen of a document.
    ///
    /// Only this caller writes the document, so reads of the data that a majority has see the
    /// present state if their session is causally consistent, and has had a write after the last
    /// acknowledged write of the document. Other reads can reach a member that was the primary and
    /// has older data, and without the read concern `majority` data that will be rolled back.
    fn trust(known: &Known, manner: Manner) -> Trust {
        let is_after = |since| known.changed <= since;
        match manner {
            _ if manner.is_fresh => Trust::Present,
            Manner {
                since: Some(since), ..
            } if manner.is_committed && is_after(since) => Trust::Present,
            _ if manner.is_committed => Trust::Past,
            _ => Trust::Any,
        }
    }

    /// Notes what a read of a collection found of the documents with these `_id`s. Returns the
    /// number of documents whose present state was read.
    pub(super) fn see(
        &mut self,
        place: usize,
        found: &[Document],
        concerns: impl Fn(i64) -> bool,
        manner: Manner,
    ) -> Result<usize, String> {
        let mut states: BTreeMap<i64, State> = BTreeMap::new();
        for document in found {
            let (id, state) = state_of(self.owner, document)?;
            if states.insert(id, state).is_some() || !self.known.contains_key(&(place, id)) {
                return Err(format!(
                    "a document was read twice or was not written: {document}"
                ));
            }
        }
        let mut present = 0;
        let own = self.known.iter_mut().filter(|(key, _)| key.0 == place);
        for ((_, id), known) in own.filter(|((_, id), _)| concerns(*id)) {
            let state = states.remove(id).flatten();
            let is_possible = match Self::trust(known, manner) {
                Trust::Present => {
                    present += 1;
                    if manner.is_fresh {
                        known.changed = self.step;
                    }
                    known.see(&state)
                }
                Trust::Past => known.was(&state),
                Trust::Any => known.has_written(&state),
            };
            if !is_possible {
                return Err(format!(
                    "{state:?} was read of {} {id} in {manner:?}: {known:?}",
                    COLLECTIONS[place]
                ));
            }
        }
        match states.is_empty() {
            true => Ok(present),
            false => Err(format!("documents were read that do not match: {found:?}")),
        }
    }

    /// Returns, for each document of a collection, the states that a read can have seen. `None` if
    /// these are not known.
    fn seen_by(&self, place: usize, manner: Manner) -> Option<Vec<Vec<&State>>> {
        let own = self.known.iter().filter(|(key, _)| key.0 == place);
        let states = own.map(|(_, known)| match Self::trust(known, manner) {
            Trust::Present => Some(known.states().collect()),
            Trust::Past => Some(known.past_states().collect()),
            Trust::Any => None,
        });
        states.collect()
    }

    /// Checks the sum of a number over the documents of a collection.
    pub(super) fn check_sum(
        &self,
        place: usize,
        sum: i64,
        manner: Manner,
        number: impl Fn(&State) -> i64,
    ) -> Result<(), String> {
        let Some(documents) = self.seen_by(place, manner) else {
            return Ok(());
        };
        let numbers = documents.iter().map(|all| {
            let numbers: BTreeSet<i64> = all.iter().map(|state| number(state)).collect();
            let least = numbers.first().copied().unwrap_or_default();
            (least, numbers.last().copied().unwrap_or_default())
        });
        let (least, most) = numbers.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        match (least..=most).contains(&sum) {
            true => Ok(()),
            false => Err(format!(
                "a sum is {sum}, not {least}..={most}, in {manner:?}: {documents:?}"
            )),
        }
    }

    /// Checks the marks that `distinct` found in a collection.
    pub(super) fn check_marks(
        &self,
        place: usize,
        found: &[Bson],
        manner: Manner,
    ) -> Result<(), String> {
        let marks: BTreeSet<i64> = found.iter().filter_map(Bson::as_i64).collect();
        let Some(documents) = self.seen_by(place, manner) else {
            return Ok(());
        };
        let (mut certain, mut possible) = (BTreeSet::new(), BTreeSet::new());
        for all in &documents {
            let sets = all.iter().map(|s| s.iter().flatten().copied().collect());
            let sets: Vec<BTreeSet<i64>> = sets.collect();
            possible.extend(sets.iter().flatten().copied());
            let common = sets.iter().cloned().reduce(|a, b| &a & &b);
            certain.extend(common.unwrap_or_default());
        }
        let is_right = marks.is_superset(&certain) && marks.is_subset(&possible);
        match is_right && marks.len() == found.len() {
            true => Ok(()),
            false => Err(format!("{found:?} are not the marks of {documents:?}")),
        }
    }

    /// Checks the data at the end.
    pub(super) fn check_end(&mut self, place: usize, found: &[Document]) -> Result<(), String> {
        let manner = Manner {
            is_fresh: true,
            ..Manner::default()
        };
        self.see(place, found, |_| true, manner).map(drop)
    }
}

/// Returns the `_id` and the state of a document. Fails if its parts do not fit together.
pub(super) fn state_of(owner: i64, document: &Document) -> Result<(i64, State), String> {
    let marks = document.get_array("marks").into_iter().flatten();
    let marks: Option<Vec<i64>> = marks.map(Bson::as_i64).collect();
    let n = crate::world::workload::counter(document);
    match (document.get_i64("_id"), marks) {
        (Ok(id), Some(marks))
            if document.get_i64("owner").ok() == Some(owner)
                && id / RANGE == owner
                && n == i64::try_from(marks.len()).ok() =>
        {
            Ok((id, Some(marks)))
        }
        _ => Err(format!("not a whole document of {owner}: {document}")),
    }
}
