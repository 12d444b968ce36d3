//! The elections and step-downs of a replica set member.

use super::{
    IDLE_WRITE_PERIOD, Leader, Peer, PendingStepDown, Position, Replica, ReplicaEvent, Role,
    SetConfig, message::Kind,
};
use onionskin_core::time::Instant;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The reason why a step-down cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CannotStepDown {
    NotPrimary,
    AlreadyTrying,
}

impl Replica {
    /// Starts a step-down. The step-down succeeds when a majority of the voting members and another
    /// electable member have all entries. At the end of `catch_up`, a step-down without `force`
    /// fails, and one with `force` succeeds. [`ReplicaEvent::StepDownEnded`] reports the result.
    pub(crate) fn step_down(
        &mut self,
        now: Instant,
        period: Duration,
        catch_up: Duration,
        force: bool,
    ) -> Result<(), CannotStepDown> {
        let Role::Leader(leader) = &mut self.role else {
            return Err(CannotStepDown::NotPrimary);
        };
        if leader.step_down.is_some() {
            return Err(CannotStepDown::AlreadyTrying);
        }
        leader.step_down = Some(PendingStepDown {
            give_up_at: now + catch_up,
            period,
            force,
        });
        self.events.push_back(ReplicaEvent::Changed);
        self.check_step_down(now);
        Ok(())
    }

    /// Prevents this member from starting an election for `period`. A period of zero permits
    /// elections. The only member of a set then starts one at once if it is not the primary.
    pub(crate) fn freeze(&mut self, now: Instant, period: Duration) {
        self.barred_until = now + period;
        if period.is_zero() && !self.is_leader() && self.config.members.len() == 1 {
            self.start_election(now, false, false);
        }
    }

    /// Permits elections after a step-down or a freeze.
    pub(crate) fn permit_elections(&mut self, now: Instant) {
        self.barred_until = Instant::ZERO;
        if self.election_at.is_some() {
            self.arm_election(now);
        }
    }

    /// Sets the time of the next election timeout. The delay from `now` is the configured timeout,
    /// plus up to 15 % of it at random, plus a quarter of it for each electable member with a
    /// higher priority. The time is not before `barred_until`.
    pub(super) fn arm_election(&mut self, now: Instant) {
        let timeout = self.config.election_timeout;
        let mine = self.options().priority;
        let ahead = self
            .config
            .members
            .iter()
            .enumerate()
            .filter(|(i, m)| self.config.can_lead(*i) && m.priority > mine)
            .count();
        let spread = u64::try_from(timeout.as_nanos() * 15 / 100).unwrap_or(u64::MAX - 1);
        let jitter = Duration::from_nanos(self.random.below(spread.max(1)));
        let patience = timeout / 4 * u32::try_from(ahead).unwrap_or(u32::MAX);
        self.election_at = Some((now + timeout + jitter + patience).max(self.barred_until));
    }

    pub(super) fn on_election_timeout(&mut self, now: Instant) {
        if self.is_leader() {
            self.election_at = None;
            return;
        }
        if self.leader.take().is_some() {
            self.events.push_back(ReplicaEvent::Changed);
        }
        self.arm_election(now);
        if self.may_start_election(now) {
            self.start_election(now, true, false);
        }
    }

    pub(super) fn may_start_election(&self, now: Instant) -> bool {
        let can_lead = self.config.can_lead(self.me) && self.sync.is_none();
        can_lead && !self.is_leader() && self.barred_until <= now
    }

    /// Starts an election, or a dry run, and requests the votes of the other voting members. A dry
    /// run does not change the term.
    pub(super) fn start_election(&mut self, now: Instant, dry: bool, handoff: bool) {
        let candidacy = self.term + 1;
        if !dry {
            self.term = candidacy;
            self.voted = Some(self.me);
            self.leader = None;
            self.events.push_back(ReplicaEvent::Changed);
        }
        self.role = Role::Candidate {
            dry,
            candidacy,
            votes: BTreeSet::from([self.me]),
        };
        let last = self.log.last();
        for to in 0..self.config.members.len() {
            if to != self.me && self.config.votes(to) {
                let kind = Kind::VoteRequest {
                    candidacy,
                    dry,
                    handoff,
                    last,
                    commit: self.commit,
                };
                self.send(to, kind);
            }
        }
        self.arm_election(now);
        self.count_votes(now);
    }

    pub(super) fn on_vote_request(
        &mut self,
        now: Instant,
        from: usize,
        candidacy: u64,
        dry: bool,
        handoff: bool,
        (last, commit): (Position, u64),
    ) {
        if !dry {
            self.note_term(now, candidacy);
        }
        let knows_primary = self.leader.is_some()
            && (self.is_leader()
                || self
                    .leader_seen_at
                    .is_some_and(|at| now - at < self.config.election_timeout));
        let newer = last >= self.log.last();
        let free = if dry {
            candidacy > self.term && (handoff || !knows_primary)
        } else {
            candidacy == self.term && self.voted.is_none_or(|v| v == from)
        };
        // Without its data, the member cannot tell which oplogs are older.
        let may_vote = self.config.votes(self.me) && self.sync.is_none();
        let granted = may_vote && newer && free;
        if granted && !dry {
            self.voted = Some(from);
            self.arm_election(now);
        }
        let kind = Kind::Vote {
            candidacy,
            dry,
            granted,
        };
        self.send(from, kind);
        if !knows_primary && !newer {
            self.send_copy(from, last, commit);
        }
    }

    pub(super) fn on_vote(
        &mut self,
        now: Instant,
        from: usize,
        answered: u64,
        dry_run: bool,
        granted: bool,
    ) {
        if let Role::Candidate {
            dry,
            candidacy,
            votes,
        } = &mut self.role
            && granted
            && (*dry, *candidacy) == (dry_run, answered)
        {
            votes.insert(from);
            self.count_votes(now);
        }
    }

    fn count_votes(&mut self, now: Instant) {
        let Role::Candidate { dry, votes, .. } = &self.role else {
            return;
        };
        let count = votes.iter().filter(|voter| self.config.votes(**voter));
        if count.count() >= self.config.majority() {
            if *dry {
                self.start_election(now, false, false);
            } else {
                self.lead(now);
            }
        }
    }

    /// Becomes the primary of the current term, and appends an empty entry.
    pub(super) fn lead(&mut self, now: Instant) {
        self.forget_staged();
        let is_forced = self.config.is_forced;
        if self.config.term != self.term || is_forced {
            // A change that the former primary told to nobody is earlier.
            let config = SetConfig::clone(&self.config);
            self.config = Arc::new(SetConfig {
                term: self.term,
                // Other members compare the configuration with the forced one by its version.
                version: config.version.saturating_add(i32::from(is_forced)),
                is_forced: false,
                ..config
            });
        }
        let peer = Peer::new(now, self.log.last().index + 1);
        self.role = Role::Leader(Leader {
            peers: vec![peer; self.config.members.len()],
            heartbeat_at: now + self.config.heartbeat_interval,
            idle_write_at: now + IDLE_WRITE_PERIOD,
            step_down: None,
        });
        self.leader = Some(self.me);
        self.election_at = None;
        self.events
            .push_back(ReplicaEvent::Elected { term: self.term });
        self.events.push_back(ReplicaEvent::Changed);
        self.append(now, Vec::new(), None);
    }

    /// Sets the term of this member to `term` if `term` is later. A primary or candidate then
    /// becomes a follower.
    pub(super) fn note_term(&mut self, now: Instant, term: u64) {
        if term <= self.term {
            return;
        }
        self.resign(now, "another member has a newer term");
        self.term = term;
        self.voted = None;
        if self.leader.take().is_some() {
            self.events.push_back(ReplicaEvent::Changed);
        }
    }

    /// Ends this member's role as primary or candidate.
    pub(super) fn resign(&mut self, now: Instant, reason: &'static str) {
        let old = std::mem::replace(&mut self.role, Role::Follower);
        if let Role::Leader(leader) = old {
            let term = self.term;
            self.leader = None;
            self.leader_seen_at = None;
            // The errors that follow have the new `topologyVersion`. With the old one, clients
            // would ignore them as stale.
            self.events.push_back(ReplicaEvent::Changed);
            self.events
                .push_back(ReplicaEvent::SteppedDown { term, reason });
            if leader.step_down.is_some() {
                self.events.push_back(ReplicaEvent::StepDownEnded(true));
            }
            self.arm_election(now);
        }
    }

    /// Handles a primary's timers: heartbeats, the check that a majority answers, idle writes and
    /// step-downs.
    pub(super) fn on_leader_timeout(&mut self, now: Instant) {
        let timeout = self.config.election_timeout;
        let interval = self.config.heartbeat_interval;
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        if self.config.members.len() > 1 {
            if leader.heartbeat_at <= now {
                leader.heartbeat_at = now + interval;
                let reachable = leader
                    .peers
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| self.config.votes(*i))
                    .filter(|(i, p)| *i == self.me || now - p.seen_at < timeout)
                    .count();
                if reachable < self.config.majority() {
                    self.resign(now, "no majority in sight");
                    return;
                }
                self.admit_newcomer(now);
                self.heartbeat(now);
            }
            if let Role::Leader(leader) = &mut self.role
                && leader.idle_write_at <= now
            {
                leader.idle_write_at = now + IDLE_WRITE_PERIOD;
                self.append(now, Vec::new(), None);
            }
        }
        self.check_step_down(now);
    }

    /// Ends a pending step-down if a majority of the voting members and another electable member
    /// have all entries, or if the time limit is reached. At the time limit, only a step-down with
    /// `force` succeeds.
    pub(super) fn check_step_down(&mut self, now: Instant) {
        let last = self.log.last().index;
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let Some(pending) = leader.step_down else {
            return;
        };
        let (me, config) = (self.me, &self.config);
        let holds = |i: usize| i == me || (leader.peers[i].matched >= last && config.holds_data(i));
        let heir = (0..config.members.len())
            .filter(|&i| i != me && config.can_lead(i) && holds(i))
            .max_by_key(|&i| (config.members[i].priority, std::cmp::Reverse(i)));
        let holders = (0..config.members.len())
            .filter(|&i| config.votes(i) && holds(i))
            .count();
        let caught_up = heir.is_some() && holders >= self.config.majority();
        if !caught_up && now < pending.give_up_at {
            return;
        }
        if !caught_up && !pending.force {
            leader.step_down = None;
            self.events.push_back(ReplicaEvent::StepDownEnded(false));
            self.events.push_back(ReplicaEvent::Changed);
            return;
        }
        self.barred_until = now + pending.period;
        if let Some(heir) = heir {
            self.send(heir, Kind::StartElection);
        }
        self.resign(now, "asked to step down");
    }
}
