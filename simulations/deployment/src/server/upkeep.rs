//! Changes that tests make between their cases, without a client.

use super::{Member, admission::Admission, overload::Overload, transaction::Transactions};
use crate::store::Namespace;
use bson::Document;
use onionskin_core::time::Instant;

impl Member {
    /// Ends what clients left behind: fail points, open transactions and cursors, and the values of
    /// server parameters.
    pub(crate) fn forget_settings(&mut self) {
        self.abort_all();
        let initial = Transactions::default();
        self.transactions.lifetime = initial.lifetime;
        self.transactions.lock_timeout = initial.lock_timeout;
        self.fail_points.clear();
        self.replica.set_producing(true);
        self.cursors.clear();
        self.admission = Admission::default();
        self.overload = Overload::default();
    }

    /// Removes the users that commands created, for all members.
    pub(crate) fn forget_created_users(&self) {
        self.accounts.keep(&self.options.users);
    }

    /// True if this member has data that it may change.
    pub(crate) fn may_write(&self) -> bool {
        self.up && !self.is_router() && self.replica.is_writable()
    }

    /// Drops all databases.
    pub(crate) fn drop_all(&mut self, now: Instant) -> Result<(), String> {
        let names: Vec<String> = self
            .replica
            .store()
            .databases()
            .map(str::to_owned)
            .collect();
        self.change(now, |member| {
            for name in &names {
                let dropped = member.replica.store_mut().drop_database(name);
                dropped.map_err(|error| error.to_string())?;
            }
            Ok(())
        })
    }

    /// Inserts documents.
    pub(crate) fn seed(
        &mut self,
        now: Instant,
        namespace: &Namespace,
        documents: Vec<Document>,
    ) -> Result<(), String> {
        self.change(now, |member| {
            for (index, document) in documents.iter().enumerate() {
                let checked = member.check_new(document, true);
                checked.map_err(|fault| format!("document {index}: {}", fault.error))?;
            }
            let inserted = member.with_store(now, None, |store, environment| {
                store.insert(namespace, documents, true, environment)
            });
            let errors = inserted.map_err(|error| error.to_string())?.errors;
            match errors.into_iter().next() {
                Some(failed) => Err(format!("document {}: {}", failed.index, failed.error)),
                None => Ok(()),
            }
        })
    }

    /// Logs what a function changes, or undoes it if the function fails or if an open transaction
    /// uses the data.
    fn change(
        &mut self,
        now: Instant,
        make: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let made = make(self).and_then(|()| match self.blocked() {
            Some(_) => Err("an open transaction uses the data".to_owned()),
            None => Ok(()),
        });
        if made.is_err() {
            self.replica.store_mut().undo_changes();
        }
        self.log(now, None);
        made
    }
}
