//! Changes of a deployment between two tests.

use super::{Deployment, Shedding};
use crate::{server::Member, store::Namespace};
use bson::{Document, doc};
use onionskin_core::time::Instant;

impl Deployment {
    /// Ends what tests leave behind, apart from data, sessions and their retryable writes:
    ///
    /// - cuts between members, members that were [killed](Self::kill) or that
    ///   [shut down](Self::shut_down), [frozen](Self::freeze) processes, and the time for which a
    ///   step-down or `replSetFreeze` prevents elections,
    /// - a [limit of connections](Self::limit_connections), [overload](Self::set_shedding), and
    ///   [jumps](Self::jump_clock) of wall clocks,
    /// - fail points, the delays of requests by fail points, and the fault of SASL conversations,
    /// - open transactions and cursors, and writes that have paused or wait for a job, with the
    ///   error 11601,
    /// - server parameters, and the changes of users.
    ///
    /// Connections stay, except those that have received a further message behind one that waits.
    /// The terms of the members, the roles of the primary and the secondaries, and members that
    /// have [failed](super::MemberEvent::Failed) stay as well.
    pub fn restore(&mut self, now: Instant) {
        self.run_all(now);
        self.set_auth_fault(None);
        for member in &mut self.members {
            member.restore(now);
        }
        self.settle(now);
    }

    /// Ends the faults of the servers: removes all cuts, turns the fail points `failCommand` off,
    /// ends [overload](Self::set_shedding) and the
    /// [limit of connections](Self::limit_connections), lets frozen processes run on, and starts
    /// all members and shards that have ended or are shutting down. Data, users, the configuration
    /// of the set and wall clocks stay.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions, MemberState};
    ///
    /// let options = DeploymentOptions::standalone(Address::tcp("a", 27017));
    /// let mut deployment = Deployment::new(options, &Seed::new([0; 32])).expect("valid options");
    /// deployment.kill(Instant::ZERO, 0);
    /// assert_eq!(deployment.state(0), Some(MemberState::Down));
    /// deployment.recover(Instant::ZERO);
    /// assert_eq!(deployment.state(0), Some(MemberState::Standalone));
    /// ```
    pub fn recover(&mut self, now: Instant) {
        let off = doc! { "configureFailPoint": "failCommand", "mode": "off", "data": {} };
        for member in 0..self.members() {
            let set = self.configure_fail_point(member, &off);
            debug_assert_eq!(set, Ok(()), "every server has this fail point");
            self.set_shedding(member, Shedding::default());
        }
        self.run_all(now);
    }

    /// Removes cuts and limits of connections, and lets all members and shards run.
    fn run_all(&mut self, now: Instant) {
        self.limit_connections(None);
        self.heal(now);
        for member in 0..self.servers() {
            self.thaw(now, member);
            self.restart(now, member);
        }
    }

    /// Sets a fail point of a member, a router or a service, as the command `configureFailPoint`
    /// does. It acts until it is turned off, has acted as often as it says, or the process ends. A
    /// process begins without fail points, also without those that were set while it was not
    /// running.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::{address::Address, random::Seed};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    ///
    /// let options = DeploymentOptions::standalone(Address::tcp("a", 27017));
    /// let mut deployment = Deployment::new(options, &Seed::new([0; 32])).expect("valid options");
    /// let no_find = doc! {
    ///     "configureFailPoint": "failCommand",
    ///     "mode": { "times": 1 },
    ///     "data": { "failCommands": ["find"], "errorCode": 11600 },
    /// };
    /// deployment.configure_fail_point(0, &no_find)?;
    /// # Ok::<_, String>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The text of the server's error, for example if it has no fail point of this name.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn configure_fail_point(
        &mut self,
        member: usize,
        command: &Document,
    ) -> Result<(), String> {
        assert!(member < self.members(), "there is no member {member}");
        self.members[member].set_fail_point(command)
    }

    /// Drops all databases. The change is replicated as one of a client is. Returns false if no
    /// member can write now, as during an election, or if an open transaction uses the data.
    pub fn drop_data(&mut self, now: Instant) -> bool {
        let mut is_dropped = true;
        for shard in 0..self.options.shards {
            let writer = self.writer(shard);
            is_dropped &= writer.is_some_and(|writer| writer.drop_all(now).is_ok());
        }
        self.settle(now);
        is_dropped
    }

    /// Inserts documents into a collection, which need not exist. The change is replicated as one
    /// of a client is. Inserts all documents or, after an error, none. Returns false if no member
    /// can write now, as during an election.
    ///
    /// # Errors
    ///
    /// If a document or the name is not valid, or if an open transaction uses the collection.
    pub fn insert(
        &mut self,
        now: Instant,
        namespace: &Namespace,
        documents: &[Document],
    ) -> Result<bool, String> {
        let shard = self.options.shard_of(&namespace.database);
        let Some(writer) = self.writer(shard) else {
            return Ok(false);
        };
        let inserted = writer.seed(now, namespace, documents.to_vec());
        self.settle(now);
        inserted.map(|()| true)
    }

    /// True if all members that run and hold data have the same last entry in their oplogs. If
    /// enough of them run, they also know that a majority has the entry.
    #[must_use]
    pub fn is_level(&self) -> bool {
        (0..self.options.shards).all(|shard| self.is_set_level(shard))
    }

    fn is_set_level(&self, shard: usize) -> bool {
        let members = || self.members.iter().filter(|m| m.is_of_set(shard));
        let holders = || members().filter(|m| m.is_up() && m.holds_data());
        let progress: Vec<(u64, u64)> = holders().map(Member::progress).collect();
        let voters = members().filter(|member| member.votes()).count();
        let is_majority = holders().filter(|member| member.votes()).count() > voters / 2;
        let Some(&(_, last)) = progress.first() else {
            return true;
        };
        progress
            .iter()
            .all(|&(commit, own)| own == last && (commit == last || !is_majority))
    }

    /// Returns the member that can write the data of a shard. A deployment without routers has one
    /// shard.
    fn writer(&mut self, shard: usize) -> Option<&mut Member> {
        let place = self.primary_of_shard(shard)?;
        let member = self.members.get_mut(place);
        member.filter(|member| member.may_write())
    }
}
