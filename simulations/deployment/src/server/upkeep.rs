//! Changes that tests make between their cases, without a client.

use super::{
    Member,
    connection::{Pending, Waiting},
    fault::interrupted,
    overload::Overload,
    transaction::Transactions,
};
use crate::{deployment::ConnId, store::Namespace};
use bson::Document;
use onionskin_core::time::Instant;

impl Member {
    /// Ends what clients and operators left behind, apart from data and sessions.
    pub(crate) fn restore(&mut self, now: Instant) {
        self.abort_all();
        let initial = Transactions::default();
        self.transactions.lifetime = initial.lifetime;
        self.transactions.lock_timeout = initial.lock_timeout;
        self.cursors.clear();
        self.routing.forget_all();
        self.accounts.restore();
        self.overload = Overload::default();
        self.requires_api = false;
        self.admission.reset();
        self.admit_queued(now);
        self.end_fail_points();
        self.end_blocks(now);
        self.quiesces_until = None;
        self.replica.permit_elections(now);
        self.replica.correct_clock(now);
        // Requests that were delayed, or that waited for a transaction, go on now, and can pause.
        self.drain_replica(now);
        let mut behind = Vec::new();
        for (conn, connection) in &mut self.connections {
            let mut is_behind = matches!(connection.decoder.frame(), Ok(Some(_)));
            if let Some(apart) = &mut connection.apart {
                apart.end();
                is_behind |= !connection.decoder.is_empty();
            }
            if is_behind {
                behind.push(*conn);
            }
        }
        // A message that was received behind another one must not be executed after the reset.
        behind.extend(self.abandoned_messages());
        for conn in behind {
            self.close(conn);
        }
        self.end_unfinished(now, &interrupted());
    }

    /// Continues the requests that a fail point delays.
    fn end_blocks(&mut self, now: Instant) {
        let is_blocked = |pending: &Pending| matches!(pending.waiting, Waiting::Blocked { .. });
        let connections = self.connections.iter();
        let blocked: Vec<ConnId> = connections
            .filter(|(_, connection)| connection.pending.as_ref().is_some_and(is_blocked))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in blocked {
            self.on_wait_timeout(now, conn);
        }
    }

    /// Sets a fail point as the command does. Returns the text of the server's error.
    pub(crate) fn set_fail_point(&mut self, command: &Document) -> Result<(), String> {
        let set = self.configure_fail_point(command);
        set.map(drop).map_err(|fault| fault.error.message)
    }

    /// True if this member accepts writes.
    pub(crate) fn may_write(&self) -> bool {
        self.up && !self.is_router() && self.replica.is_writable()
    }

    /// True if this member votes in elections.
    pub(crate) fn votes(&self) -> bool {
        self.set_member().is_some_and(|member| member.votes)
    }

    /// Drops all databases. The list of shards stays.
    pub(crate) fn drop_all(&mut self, now: Instant) -> Result<(), String> {
        if !self.commits.is_empty() {
            return Err("a commit of several shards is under way".to_owned());
        }
        let names: Vec<String> = self
            .replica
            .store()
            .databases()
            .map(str::to_owned)
            .collect();
        let shards = Namespace::new("config", "shards");
        let lists_shards = self.replica.store().collection(&shards).is_some();
        self.change(now, |member| {
            let store = member.replica.store_mut();
            for name in &names {
                let dropped = match lists_shards && *name == shards.database {
                    true => store.drop_others(&shards),
                    false => store.drop_database(name).map(drop),
                };
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
