//! The configuration of a replica set, and its changes.

use super::{Bound, Peer, Replica, ReplicaEvent, Role, message::Kind};
use crate::deployment::MemberOptions;
use onionskin_core::time::Instant;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The configuration of a replica set. Each message between members has that of its sender, and the
/// receiver takes it over if it is later.
#[derive(Clone, Debug)]
pub(crate) struct SetConfig {
    /// The term of the primary that last changed the configuration, or was elected with it. A
    /// configuration of a later term is later, whatever its version.
    pub(crate) term: u64,
    /// The version, from 1. It is the `setVersion` of hello replies.
    pub(crate) version: i32,
    /// True if the configuration was installed by force, and no primary was elected with it since.
    /// It then has no term, and is compared by its version.
    pub(crate) is_forced: bool,
    /// True if this configuration or an earlier one was installed by force, so that committed
    /// entries can be lost.
    pub(crate) was_forced: bool,
    /// The options of all members of the deployment, also of those that the set does not have.
    pub(crate) members: Vec<MemberOptions>,
    /// The members that were added and whose votes do not count yet, because the primary does not
    /// know that they have copied data: those with the server's field `newlyAdded`.
    pub(crate) newcomers: BTreeSet<usize>,
    pub(crate) election_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) initial_primary: Option<usize>,
    /// The wall clock's time at [`Instant::ZERO`], in milliseconds since 1970.
    pub(crate) started_at_millis: u64,
    /// The bound above which a member removes its oldest oplog entries.
    pub(crate) oplog: Bound,
    /// The bound on the records of retryable writes that a member keeps.
    pub(crate) records: Bound,
}

/// The number by which the version of a forced configuration is higher, at least, as in the server.
const LEAST_FORCED_JUMP: i32 = 10_000;

/// The numbers of which one is drawn and added to [`LEAST_FORCED_JUMP`].
const FORCED_JUMPS: u64 = 100_000;

/// The term and the version of a configuration.
pub(super) type Order = (u64, i32);

impl SetConfig {
    const fn order(&self) -> Order {
        (self.term, self.version)
    }

    fn is_later_than(&self, other: &Self) -> bool {
        match self.is_forced || other.is_forced {
            true => self.version > other.version,
            false => self.order() > other.order(),
        }
    }

    /// True if the set has this member.
    pub(crate) fn has(&self, member: usize) -> bool {
        !self.members[member].absent
    }

    /// True if the vote of this member counts.
    pub(crate) fn votes(&self, member: usize) -> bool {
        self.members[member].has_vote() && !self.newcomers.contains(&member)
    }

    /// True if this member can become primary.
    pub(super) fn can_lead(&self, member: usize) -> bool {
        self.members[member].can_lead() && self.votes(member)
    }

    pub(super) fn holds_data(&self, member: usize) -> bool {
        self.members[member].holds_data()
    }

    pub(super) fn voters(&self) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(move |member| self.votes(*member))
    }

    /// True if the votes of the same members count in both configurations.
    fn has_voters_of(&self, other: &Self) -> bool {
        self.voters().eq(other.voters())
    }

    /// Returns the number of votes that are a majority.
    pub(crate) fn majority(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    /// Returns the number of voting members with data that must have an entry before it is
    /// committed: a majority of all votes, but not more than there are. Only members with data can
    /// become primary, so that all of them are always enough.
    pub(super) fn write_majority(&self) -> usize {
        let with_data = self.voters().filter(|member| self.holds_data(*member));
        self.majority().min(with_data.count())
    }

    /// Returns the time of a wall clock that is right, in milliseconds since 1970.
    pub(super) fn wall_millis(&self, now: Instant) -> u64 {
        self.started_at_millis + now.as_nanos() / 1_000_000
    }
}

impl Replica {
    /// Handles the configuration of a message of another member. Returns true if the message itself
    /// has an effect. It has none between servers of which one does not have the other in its set,
    /// and none if it requests a vote by a configuration with earlier voters. The sender of such a
    /// message learns the later configuration.
    pub(super) fn accept_config(
        &mut self,
        now: Instant,
        from: usize,
        config: Arc<SetConfig>,
        kind: &Kind,
    ) -> bool {
        self.take_over(now, Arc::clone(&config));
        if let Role::Leader(leader) = &mut self.role {
            leader.peers[from].config = Some(config.order());
        }
        let is_earlier = self.config.is_later_than(&config);
        let has_earlier_voters = is_earlier && !self.config.has_voters_of(&config);
        let (has_me, has_sender) = (self.config.has(self.me), self.config.has(from));
        let has_effect = match kind {
            Kind::Config => false,
            Kind::VoteRequest { .. } => has_me && has_sender && !has_earlier_voters,
            _ => has_me && has_sender,
        };
        // The primary repeats a configuration until a removed member confirms it.
        let is_to_confirm = matches!(kind, Kind::Config) && !has_me && has_sender;
        if is_to_confirm || (is_earlier && !has_effect) {
            self.send(from, Kind::Config);
        }
        has_effect
    }

    /// Takes over a configuration. Returns false and does nothing if it is not later than the
    /// present one.
    pub(crate) fn take_over(&mut self, now: Instant, config: Arc<SetConfig>) -> bool {
        if !config.is_later_than(&self.config) {
            return false;
        }
        let old = std::mem::replace(&mut self.config, config);
        self.events.push_back(ReplicaEvent::Changed);
        if self.config.was_forced && !(old.was_forced && old.has(self.me)) {
            self.agreed_in = 0;
        }
        let is_same_vote = self.config.has_voters_of(&old);
        // Also a candidate, which could win with votes that follow.
        if !self.config.can_lead(self.me) {
            self.resign(now, "the configuration does not let it lead");
        } else if !is_same_vote && !self.is_leader() {
            self.resign(now, "the voters have changed");
        }
        let next = self.log.last().index + 1;
        if let Role::Leader(leader) = &mut self.role {
            let peers = leader.peers.iter_mut().enumerate();
            for (_, peer) in peers.filter(|(i, _)| !old.has(*i) && self.config.has(*i)) {
                *peer = Peer::new(now, next);
            }
        }
        if self.leader.is_some_and(|leader| !self.config.has(leader)) {
            (self.leader, self.leader_seen_at) = (None, None);
        }
        match (old.has(self.me), self.config.has(self.me)) {
            (true, false) => {
                (self.leader, self.leader_seen_at) = (None, None);
                self.events.push_back(ReplicaEvent::Removed);
            }
            (false, true) => {
                // A member that was in the set before goes on with its data.
                if self.log.last().index == 0 && self.config.holds_data(self.me) {
                    self.drop_data();
                }
                self.events.push_back(ReplicaEvent::Added);
            }
            _ => {}
        }
        true
    }

    /// Changes the members' options as their primary. The other members follow with its next
    /// messages. Returns false and does nothing if the version is not above the present one.
    pub(crate) fn reconfigure(
        &mut self,
        now: Instant,
        members: Vec<MemberOptions>,
        version: i32,
    ) -> bool {
        let is_new = |&member: &usize| {
            let is_known = self.config.has(member) && !self.config.newcomers.contains(&member);
            !is_known && members[member].has_vote() && members[member].holds_data()
        };
        let newcomers = (0..members.len()).filter(is_new).collect();
        self.install(now, members, newcomers, version)
    }

    /// Changes the members' options without the consent of other members. The version is far above
    /// `version` and the present one, so that two forced configurations rarely have the same.
    /// Returns false and does nothing if there is no higher version.
    pub(crate) fn force(
        &mut self,
        now: Instant,
        members: Vec<MemberOptions>,
        version: i32,
    ) -> bool {
        let drawn = i32::try_from(self.random.below(FORCED_JUMPS)).unwrap_or(0);
        let version = version.max(self.config.version);
        let version = version.saturating_add(LEAST_FORCED_JUMP + drawn);
        let config = SetConfig {
            members,
            newcomers: BTreeSet::new(),
            term: self.term,
            // The next primary increases the version by one.
            version: version.min(i32::MAX - 1),
            is_forced: true,
            was_forced: true,
            ..SetConfig::clone(&self.config)
        };
        if !self.take_over(now, Arc::new(config)) {
            return false;
        }
        self.advance_commit();
        for to in 0..self.config.members.len() {
            if to != self.me {
                self.send(to, Kind::Config);
            }
        }
        true
    }

    fn install(
        &mut self,
        now: Instant,
        members: Vec<MemberOptions>,
        newcomers: BTreeSet<usize>,
        version: i32,
    ) -> bool {
        let config = SetConfig {
            members,
            newcomers,
            term: self.term,
            version,
            is_forced: false,
            ..SetConfig::clone(&self.config)
        };
        if !self.take_over(now, Arc::new(config)) {
            return false;
        }
        self.advance_commit();
        self.replicate(now);
        self.tell_removed();
        true
    }

    /// Counts the vote of a newcomer that has copied data. It takes a further configuration.
    pub(super) fn admit_newcomer(&mut self, now: Instant) {
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let mut newcomers = self.config.newcomers.clone();
        let ready = newcomers.iter().find(|i| leader.peers[**i].matched > 0);
        let Some(ready) = ready.copied().filter(|_| self.may_change_voters()) else {
            return;
        };
        newcomers.remove(&ready);
        let version = self.config.version.saturating_add(1);
        self.install(now, self.config.members.clone(), newcomers, version);
    }

    /// True if this primary may install a configuration with other voters: a majority has the
    /// present one, and a majority of its voters has all committed entries.
    pub(crate) fn may_change_voters(&self) -> bool {
        let Role::Leader(leader) = &self.role else {
            return false;
        };
        let order = Some(self.config.order());
        let has_config = |i: &usize| *i == self.me || leader.peers[*i].config == order;
        let has_entries = |i: &usize| {
            let has_them = *i == self.me || leader.peers[*i].matched >= self.commit;
            has_them && self.config.holds_data(*i)
        };
        let with_config = self.config.voters().filter(has_config).count();
        let with_entries = self.config.voters().filter(has_entries).count();
        self.log.term_at(self.commit) == Some(self.term)
            && with_config >= self.config.majority()
            && with_entries >= self.config.write_majority()
    }

    /// Sends the configuration to the servers that it does not have and that may not know it.
    pub(super) fn tell_removed(&mut self) {
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let order = Some(self.config.order());
        let peers = leader.peers.iter().enumerate();
        let unaware = peers.filter(|(i, peer)| !self.config.has(*i) && peer.config != order);
        let unaware: Vec<usize> = unaware.map(|(i, _)| i).collect();
        for to in unaware {
            self.send(to, Kind::Config);
        }
    }

    pub(crate) fn config(&self) -> &SetConfig {
        &self.config
    }
}
