//! The memory of open transactions.

use super::{Transaction, Transactions};
use crate::{
    replica::SessionKey,
    server::{
        Member,
        fault::{Fault, fault},
    },
    store::{Namespace, Store},
};
use std::collections::BTreeSet;

impl Transaction {
    /// Notes the memory of a collection if the transaction does not share it with the newest data.
    pub(super) fn note_unshared(&mut self, name: &Namespace, newest: &Store) {
        if let Some(bytes) = self.store.unshared_bytes(newest, name) {
            self.unshared.insert(name.clone(), bytes);
        }
    }

    /// Returns the memory that only this transaction may hold, in bytes.
    fn memory(&self) -> usize {
        let unshared: usize = self.unshared.values().sum();
        unshared + self.bytes + self.claims.bytes()
    }
}

impl Transactions {
    fn memory(&self) -> usize {
        let open = self.open.iter().filter_map(|session| self.get(session));
        open.map(Transaction::memory).sum()
    }

    /// Returns the session of the transaction that was started first, without the prepared ones.
    fn oldest(&self) -> Option<SessionKey> {
        let is_open =
            |session: &&SessionKey| self.open.contains(*session) && !self.is_prepared(session);
        self.by_use.values().find(is_open).copied()
    }
}

impl Member {
    /// Returns an error if the open transactions take too much memory.
    pub(super) fn check_memory(&self) -> Result<(), Fault> {
        if self.transactions.memory() <= self.options.limits.max_transaction_bytes {
            return Ok(());
        }
        let text = "the open transactions of this simulated server have reached a limit of memory \
                    (`Limits`)";
        let code = match self.program.version.release < [6, 2, 0] {
            true => 146,
            false => 388,
        };
        Err(fault(code, text))
    }

    /// Handles changes of the newest data, which the open transactions do not share. If these take
    /// too much memory then, aborts the oldest ones.
    pub(in crate::server) fn note_changed(&mut self, names: &BTreeSet<Namespace>) {
        let newest = self.replica.store();
        for session in self.transactions.open.clone() {
            if let Some(open) = self.transactions.get_mut(&session) {
                names
                    .iter()
                    .for_each(|name| open.note_unshared(name, newest));
            }
        }
        while self.check_memory().is_err()
            && let Some(oldest) = self.transactions.oldest()
        {
            self.abort_open(&oldest);
        }
    }
}
