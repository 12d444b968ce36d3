//! The writes of a call, and the comparison of their result with the possible states.

use super::{
    COPIES, Call, Ended, Keeper, NOTES,
    book::{Fate, Manner, Sent, Told},
    known::Change,
    outcome,
    writes::Work,
};
use crate::world::{options::index, runtime::applications::Left};
use std::time::Duration;

/// The largest number of documents that a call writes.
const MOST: usize = 4;

/// The writes of a call, and the options of the call.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) sent: Vec<Sent>,
    pub(super) is_ordered: bool,
    /// True for the operations of a bulk write that can affect several documents.
    pub(super) is_multi: bool,
    /// True for an update by a pipeline, for the document after a change instead of the one before
    /// it, and for the results of each operation of a bulk write.
    pub(super) is_other: bool,
}

impl Keeper {
    /// Writes notes, and compares the result with the possible states.
    pub(super) async fn write(
        &mut self,
        call: Call,
        limit: Duration,
        is_late: bool,
    ) -> Ended<usize> {
        let plan = self.plan(call);
        let mut tied = self.tied.take();
        let is_tied = tied.is_some() && self.caller.random.chance(2, 3);
        let manner = Manner {
            is_fresh: is_late,
            is_numbered: plan.is_numbered(call),
            ..Manner::default()
        };
        let work = Work {
            client: self.caller.client.clone(),
            collections: [NOTES, COPIES].map(|place| self.collection(place)),
            owner: self.book.owner,
            limit,
            plan: &plan,
            session: tied.as_mut().filter(|_| is_tied).map(|t| &mut t.session),
        };
        let name = format!("{call:?}");
        let ended = self.caller.attempt(&name, limit, is_late, work.run(call));
        let ended = ended.await;
        let told = match &ended {
            Ok(Ok(told)) => self.weakened(call, &plan, told.clone(), manner),
            Ok(Err(misfit)) => {
                self.fail("a write had a strange result", misfit);
                return Ok(0);
            }
            Err(Left::Failed(error)) => outcome::of_error(&plan.sent, error, plan.is_ordered),
            Err(_) => Told::unknown(&plan.sent),
        };
        self.caller
            .note(format_args!("sent {:?}: {:?}", plan.sent, told.fates));
        match self.book.settle(&plan.sent, &told, manner) {
            Ok(true) if is_tied => {
                let since = Some(self.book.step);
                tied.iter_mut().for_each(|tied| tied.since = since);
            }
            Ok(_) => {}
            Err(what) => self.fail("a write was not done once", &format!("{call:?}: {what}")),
        }
        self.tied = tied;
        ended.map(|_| 0)
    }

    fn plan(&mut self, call: Call) -> Plan {
        let random = &mut self.caller.random;
        let most = match call {
            Call::InsertMany
            | Call::UpdateMany
            | Call::DeleteMany
            | Call::CollectionBulkWrite
            | Call::ClientBulkWrite
            | Call::Merge => MOST,
            _ => 1,
        };
        let (is_ordered, is_other) = (random.chance(1, 2), random.chance(1, 2));
        let is_bulk = matches!(call, Call::CollectionBulkWrite | Call::ClientBulkWrite);
        let is_multi = is_bulk && random.chance(1, 4);
        let mut ids = self.book.draw_ids(random, most);
        if matches!(call, Call::InsertOne | Call::InsertMany) && !random.chance(1, 4) {
            let missing = |id: &i64| self.book.exists((NOTES, *id)) != Some(true);
            let new: Vec<i64> = ids.iter().copied().filter(missing).collect();
            ids = if new.is_empty() { ids } else { new };
        }
        let sent = ids.into_iter().map(|id| {
            let upserts = random.chance(1, 2);
            let push = Change::Push { upserts };
            let replace = Change::Replace { upserts };
            let (place, change) = match call {
                Call::InsertOne | Call::InsertMany => (NOTES, Change::Insert),
                Call::ReplaceOne | Call::FindOneAndReplace => (NOTES, replace),
                Call::UpdateOne | Call::FindOneAndUpdate => (NOTES, push),
                Call::UpdateMany => (NOTES, Change::Push { upserts: false }),
                Call::DeleteOne | Call::DeleteMany | Call::FindOneAndDelete => {
                    (NOTES, Change::Delete)
                }
                Call::ClientBulkWrite if random.chance(1, 3) => (COPIES, push),
                Call::Merge => (COPIES, Change::Push { upserts: true }),
                _ => match index(random, 5) {
                    0 | 1 => (NOTES, Change::Insert),
                    2 => (NOTES, push),
                    3 => (NOTES, replace),
                    _ => (NOTES, Change::Delete),
                },
            };
            self.book.sent((place, id), change)
        });
        let mut sent: Vec<Sent> = sent.collect();
        if matches!(call, Call::UpdateMany | Call::Merge) {
            // One update gives all its documents the same mark.
            let mark = sent[0].write.mark;
            sent.iter_mut().for_each(|one| one.write.mark = mark);
        }
        Plan {
            sent,
            is_ordered,
            is_multi,
            is_other,
        }
    }

    /// Returns the outcome of a call without an error, as far as it is sure.
    ///
    /// A command without a transaction number and without an effect leaves nothing for which the
    /// server would wait, so that a member that was the primary can acknowledge it.
    fn weakened(&self, call: Call, plan: &Plan, mut told: Told, manner: Manner) -> Told {
        // A note exists in each possible state only after an acknowledged write. The client uses no
        // primary that is older than the one that acknowledged it, so the merge finds the note.
        if call == Call::Merge {
            for (one, fate) in plan.sent.iter().zip(&mut told.fates) {
                *fate = match self.book.exists((NOTES, one.key.1)) {
                    Some(true) => Fate::Executed(None),
                    Some(false) => Fate::Nothing,
                    None => Fate::Perhaps,
                };
            }
        }
        if manner.is_numbered || manner.is_fresh || call == Call::Merge {
            return told;
        }
        let effects: u64 = told.sums.iter().map(|sum| sum.count).sum();
        let is_one = matches!(call, Call::UpdateMany | Call::DeleteMany);
        if is_one && effects > 0 {
            return told;
        }
        told.sums.clear();
        for fate in &mut told.fates {
            if *fate == Fate::Executed(None) {
                *fate = if is_one { Fate::Nothing } else { Fate::Perhaps };
            }
        }
        told
    }
}

impl Plan {
    /// True if all commands of the call have transaction numbers.
    fn is_numbered(&self, call: Call) -> bool {
        let is_multi = matches!(call, Call::UpdateMany | Call::DeleteMany | Call::Merge);
        let has_multi = self.sent.iter().any(|one| one.is_multi(self.is_multi));
        !is_multi && !has_multi
    }
}

impl Told {
    fn unknown(sent: &[Sent]) -> Self {
        Self {
            fates: vec![Fate::Unknown; sent.len()],
            ..Self::default()
        }
    }
}
