//! Commits of transactions with many changes. Such a commit is executed in parts if the caller of
//! the deployment runs jobs. Its changes become visible at once, after the last part. Until then,
//! other writes to the same collections wait for the end of the transaction.

use super::{
    CommitMessage, State, Transaction, TransactionId, Transactions, coordinator::CommitContent,
};
use crate::{
    replica::{SessionKey, Step},
    server::{Member, parts::parts_of},
    store::{Change, Parts, Store, StoreError},
};
use bson::Timestamp;
use onionskin_core::time::Instant;
use std::sync::Arc;

/// The result of a part of a commit.
#[derive(Debug)]
pub(super) enum Merged {
    /// The newest data has all changes of the transaction. They were not logged yet.
    Complete,
    /// Further parts follow.
    Later,
    /// The transaction of this session is committing changes of the same collections.
    After(SessionKey),
}

/// A decision to commit a prepared transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    number: i64,
    /// The time of the commit, which is the same on all shards.
    at: Timestamp,
    /// The shard that waits for the end of the commit.
    coordinator: usize,
}

impl Transaction {
    /// True if the transaction is committing in parts, and this change is one of a collection that
    /// it changes.
    pub(super) fn is_merging(&self, change: &Change) -> bool {
        let merge = self.merge.as_ref();
        merge.is_some_and(|merge| change.namespace().is_some_and(|name| merge.concerns(name)))
    }
}

impl Transactions {
    /// Returns another session whose transaction is committing, in parts, changes of collections
    /// that the transaction of this session changes as well.
    fn merging_before(&self, session: &SessionKey) -> Option<SessionKey> {
        let own = self.get(session)?;
        let concerns_own = |other: &&SessionKey| {
            let merge = self.get(other).and_then(|open| open.merge.as_ref());
            merge.is_some_and(|merge| own.touched.iter().any(|name| merge.concerns(name)))
        };
        let mut others = self.open.iter().filter(|other| *other != session);
        others.find(concerns_own).copied()
    }

    /// Returns the first prepared transaction that is committing and need not wait for another one.
    fn next_decided(&self) -> Option<(SessionKey, Decided)> {
        let may_go_on = |session: &SessionKey| {
            let has_begun = self.get(session).is_some_and(|open| open.merge.is_some());
            has_begun || self.merging_before(session).is_none()
        };
        let mut decided = self.decided.iter();
        let (session, decided) = decided.find(|(session, _)| may_go_on(session))?;
        Some((*session, *decided))
    }
}

impl Member {
    /// Makes the changes of an open transaction, or a part of them. Does not end the transaction.
    ///
    /// # Errors
    ///
    /// If a change does not fit, or if the data would exceed its limit. The newest data is
    /// unchanged then, and the transaction must be aborted.
    pub(super) fn merge_part(
        &mut self,
        session: &SessionKey,
        parts: &Parts,
    ) -> Result<Merged, StoreError> {
        let first = self.transactions.merging_before(session);
        let Some(open) = self.transactions.get_mut(session) else {
            return Ok(Merged::Complete);
        };
        let is_prepared = open.prepared.is_some();
        let store = self.replica.store_mut();
        let mut merge = match open.merge.take() {
            Some(merge) => merge,
            None => {
                if let Some(first) = first {
                    return Ok(Merged::After(first));
                }
                let pauses = parts.pause_after.is_some();
                let changes = &open.changes;
                if !pauses || store.merges_in(&parts_of(pauses), changes) {
                    let merged = make(store, is_prepared, |store| store.merge(changes));
                    return merged.map(|()| Merged::Complete);
                }
                Box::new(store.begin_merge(Arc::clone(&open.changes)))
            }
        };
        if !merge.go_on(parts)? {
            open.merge = Some(merge);
            return Ok(Merged::Later);
        }
        let published = make(store, is_prepared, |store| store.publish(&mut merge));
        // It is freed with the transaction.
        open.merge = Some(merge);
        published.map(|()| Merged::Complete)
    }

    /// Commits a prepared transaction at a time, or makes the first part of its changes. Returns
    /// true if the transaction has committed. Otherwise the coordinator is told at the end.
    pub(super) fn commit_prepared(
        &mut self,
        now: Instant,
        (session, number): TransactionId,
        at: Timestamp,
        coordinator: usize,
    ) -> bool {
        let decided = Decided {
            number,
            at,
            coordinator,
        };
        self.transactions.decided.insert(session, decided);
        self.go_on_committing(now, session, decided)
    }

    /// Makes the next part of the changes of a prepared transaction. Returns true at the end of the
    /// commit.
    fn go_on_committing(&mut self, now: Instant, session: SessionKey, decided: Decided) -> bool {
        let bytes = self.transactions.get(&session).map(|open| open.bytes);
        let merged = self.merge_part(&session, &parts_of(self.jobs.are_run()));
        if let Ok(Merged::Later | Merged::After(_)) = merged {
            return false;
        }
        // The claims make sure that the changes fit.
        debug_assert!(
            merged.is_ok(),
            "a prepared transaction can commit: {merged:?}"
        );
        self.end_transaction(&session, State::Committed);
        self.replica.note_time(decided.at);
        let step = Step::Commit(Some(decided.at));
        self.log_step(now, (session, decided.number), step, bytes);
        true
    }

    /// Makes the next part of one commit of a prepared transaction.
    pub(in crate::server) fn go_on_with_commits(&mut self, now: Instant) {
        let Some((session, decided)) = self.transactions.next_decided() else {
            return;
        };
        if self.go_on_committing(now, session, decided) {
            let message = CommitMessage {
                id: (session, decided.number),
                content: CommitContent::Done,
            };
            self.send_to_shard(now, decided.coordinator, message);
        }
    }
}

/// Makes changes of a transaction. No limit may refuse those of a prepared one.
fn make(
    store: &mut Store,
    is_prepared: bool,
    changes: impl FnOnce(&mut Store) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    match is_prepared {
        true => store.without_limit(changes),
        false => changes(store),
    }
}
