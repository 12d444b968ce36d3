//! What tests do between their cases: a deployment as it was at its start, with data.

use super::Deployment;
use crate::{server::Member, store::Namespace};
use bson::Document;
use onionskin_core::time::Instant;

impl Deployment {
    /// Removes all cuts between members, starts members that were killed, and ends what clients
    /// left behind: fail points, open transactions and cursors, the values of server parameters,
    /// users that commands created, and the fault of SASL conversations. Connections, terms and
    /// data stay.
    pub fn restore(&mut self, now: Instant) {
        self.heal(now);
        for member in 0..self.members() {
            self.restart(now, member);
        }
        for member in &mut self.members {
            member.forget_settings();
        }
        self.members[0].forget_created_users();
        self.set_auth_fault(None);
        self.settle(now);
    }

    /// Drops all databases. The change is replicated as one of a client is.
    ///
    /// # Errors
    ///
    /// If no member can write, as during an election, or if an open transaction uses the data.
    pub fn drop_data(&mut self, now: Instant) -> Result<(), String> {
        let dropped = self.writer()?.drop_all(now);
        self.settle(now);
        dropped
    }

    /// Inserts documents into a collection, which need not exist. The change is replicated as one
    /// of a client is. Inserts all documents or, after an error, none.
    ///
    /// # Errors
    ///
    /// If a document or the name is not valid, if no member can write, as during an election, or if
    /// an open transaction uses the collection.
    pub fn insert(
        &mut self,
        now: Instant,
        namespace: &Namespace,
        documents: Vec<Document>,
    ) -> Result<(), String> {
        let inserted = self.writer()?.seed(now, namespace, documents);
        self.settle(now);
        inserted
    }

    /// True if there is a member that can write: a primary, a standalone, or the shard behind
    /// routers.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.primary()
            .is_some_and(|place| self.members[place].may_write())
    }

    /// True if all members that run and hold data have the same entries in their oplogs, which they
    /// all know to be those of a majority.
    #[must_use]
    pub fn is_level(&self) -> bool {
        let holders = self.members.iter().filter(|m| m.is_up() && m.holds_data());
        let mut progress = holders.map(Member::progress);
        let Some((commit, last)) = progress.next() else {
            return true;
        };
        commit == last && progress.all(|other| other == (commit, last))
    }

    /// Returns the member that can write.
    fn writer(&mut self) -> Result<&mut Member, String> {
        let primary = self.primary().map(|place| &mut self.members[place]);
        let writer = primary.filter(|member| member.may_write());
        writer.ok_or_else(|| "no member can write".to_owned())
    }
}
