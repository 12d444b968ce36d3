//! The replication state of one member: terms, votes, the oplog and the majority commit point.
//!
//! The rules are those of a consensus protocol with one vote per term. A member does not vote for a
//! candidate whose oplog is older than its own. The majority commit point advances to an entry of
//! the primary's own term when a majority has this entry, and all earlier entries are then
//! committed as well. Therefore a committed entry is in the oplog of every later primary.

mod clock;
mod config;
mod election;
mod log;
mod message;
mod past;
mod records;
mod replication;
mod staging;
mod sync;

pub(crate) use config::SetConfig;
pub(crate) use election::CannotStepDown;
pub(crate) use log::{Bound, Effect, Entry, Op, Position, Retry, SessionKey, Step};
pub(crate) use message::Message;
pub(crate) use past::Past;
pub(crate) use records::{Record, Records};
pub(crate) use replication::MAX_SMALL_CHANGES;

use crate::{
    deployment::MemberOptions,
    garbage::Garbage,
    store::{Change, Store},
};
use bson::Timestamp;
use clock::Clock;
use log::Log;
use message::Kind;
use onionskin_core::{
    random::Random,
    time::{Instant, earliest},
};
use staging::Staged;
use std::{collections::BTreeSet, collections::VecDeque, sync::Arc, time::Duration};
use sync::{DataCopy, InitialSync};

/// The interval at which an idle primary writes an empty entry, so that clients can estimate
/// staleness: `idleWritePeriodMS` of the specification.
const IDLE_WRITE_PERIOD: Duration = Duration::from_secs(10);

/// An event for the server that owns this replication state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaEvent {
    Elected {
        term: u64,
    },
    SteppedDown {
        term: u64,
        reason: &'static str,
    },
    /// A step-down ended. True if it succeeded.
    StepDownEnded(bool),
    RolledBack {
        entries: u64,
    },
    /// An entry of another member does not fit the data of this member.
    Diverged(String),
    Resynced,
    /// The configuration no longer has this member.
    Removed,
    /// The configuration has this member, which an earlier one did not have.
    Added,
    /// The role, the known primary or the pending step-down changed, on which the hello reply
    /// depends.
    Changed,
    /// The majority commit point, the progress of a member or the oplog may have changed.
    Progress,
}

#[derive(Debug)]
enum Role {
    Follower,
    Candidate {
        dry: bool,
        candidacy: u64,
        votes: BTreeSet<usize>,
    },
    Leader(Leader),
}

#[derive(Debug)]
struct Leader {
    peers: Vec<Peer>,
    heartbeat_at: Instant,
    idle_write_at: Instant,
    step_down: Option<PendingStepDown>,
}

/// The progress of another member, as the primary knows it.
#[derive(Clone, Debug)]
struct Peer {
    next: u64,
    matched: u64,
    seen_at: Instant,
    /// True if the member is in its initial sync.
    is_syncing: bool,
    /// The configuration of its last message, since this member became primary.
    config: Option<config::Order>,
}

impl Peer {
    const fn new(now: Instant, next: u64) -> Self {
        Self {
            next,
            matched: 0,
            seen_at: now,
            is_syncing: false,
            config: None,
        }
    }
}

/// A step-down that waits for other members to catch up. The primary accepts no writes while it
/// waits.
#[derive(Clone, Copy, Debug)]
struct PendingStepDown {
    give_up_at: Instant,
    period: Duration,
    force: bool,
}

/// A member's replication state.
#[derive(Debug)]
pub(crate) struct Replica {
    me: usize,
    config: Arc<SetConfig>,
    random: Random,
    term: u64,
    voted: Option<usize>,
    log: Log,
    records: Records,
    store: Store,
    commit: u64,
    /// The last term in which this member's oplog agreed with that of the primary at the first kept
    /// entry, the one before it, or a later one; 0 if none. Used only after a forced configuration.
    agreed_in: u64,
    role: Role,
    leader: Option<usize>,
    leader_seen_at: Option<Instant>,
    election_at: Option<Instant>,
    barred_until: Instant,
    /// The initial sync of this member, if it has no data yet.
    sync: Option<InitialSync>,
    /// The entry of which a part was applied.
    staged: Option<Staged>,
    /// False while a fail point makes this member accept no entries.
    is_producing: bool,
    /// True if the messages of a primary have few changes, so that a member applies one in short
    /// time.
    has_small_messages: bool,
    /// The entries of the oplog and the data that were dropped, if they are freed by a job.
    garbage: Garbage,
    /// The indexes of entries with copies of built indexes, and when this member got the entries.
    copies: VecDeque<(u64, Instant)>,
    clock: Clock,
    pub(crate) sent: VecDeque<(usize, Message)>,
    pub(crate) events: VecDeque<ReplicaEvent>,
}

impl Replica {
    pub(crate) fn new(me: usize, config: Arc<SetConfig>, random: Random) -> Self {
        let mut replica = Self {
            me,
            config,
            random,
            term: 0,
            voted: None,
            log: Log::default(),
            records: Records::default(),
            store: Store::new(),
            commit: 0,
            agreed_in: 0,
            role: Role::Follower,
            leader: None,
            leader_seen_at: None,
            election_at: None,
            barred_until: Instant::ZERO,
            sync: None,
            staged: None,
            is_producing: true,
            has_small_messages: false,
            garbage: Garbage::default(),
            copies: VecDeque::new(),
            clock: Clock::new(),
            sent: VecDeque::new(),
            events: VecDeque::new(),
        };
        if let Some(first) = replica.config.initial_primary
            && replica.config.has(me)
        {
            replica.term = 1;
            replica.voted = Some(first);
            replica.leader = Some(first);
            replica.leader_seen_at = Some(Instant::ZERO);
            if first == me {
                replica.lead(Instant::ZERO);
                return replica;
            }
        }
        replica.arm_election(Instant::ZERO);
        replica
    }

    /// Restarts after a crash. The member becomes a follower that knows no primary. The term, the
    /// vote, the oplog, the records of retryable writes, the majority commit point and the data are
    /// kept. An initial sync begins anew.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.role = Role::Follower;
        self.leader = None;
        self.leader_seen_at = None;
        self.barred_until = Instant::ZERO;
        self.sent.clear();
        self.events.clear();
        self.restart_sync();
        self.forget_staged();
        self.arm_election(now);
        // The only member of a set needs no other votes and becomes the primary at once.
        if self.config.members.len() == 1 && self.may_start_election(now) {
            self.start_election(now, false, false);
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.drop_copies(now);
        if self.election_at.is_some_and(|at| at <= now) {
            self.on_election_timeout(now);
        }
        self.on_sync_timeout(now);
        self.on_leader_timeout(now);
    }

    pub(crate) fn handle_message(&mut self, now: Instant, from: usize, message: Message) {
        self.drop_copies(now);
        let Message {
            term,
            config,
            clock,
            kind,
        } = message;
        self.note_time(clock);
        if !self.accept_config(now, from, config, &kind) {
            return;
        }
        match kind {
            Kind::VoteRequest {
                candidacy,
                dry,
                handoff,
                last,
                commit,
            } => self.on_vote_request(now, from, candidacy, dry, handoff, (last, commit)),
            Kind::Vote {
                candidacy,
                dry,
                granted,
            } => {
                self.note_term(now, term);
                self.on_vote(now, from, candidacy, dry, granted);
            }
            Kind::Append {
                previous,
                entries,
                commit,
            } => self.on_append(now, from, term, previous, entries, commit),
            Kind::Appended { result } => {
                self.note_term(now, term);
                if term == self.term {
                    self.on_appended(now, from, result);
                }
            }
            Kind::Snapshot { last, time, data } => {
                self.on_snapshot(now, from, term, DataCopy { last, time, data })
            }
            Kind::Copy { previous, entries } => self.on_copy(now, term, previous, entries),
            Kind::StartElection => {
                if term == self.term && self.may_start_election(now) {
                    self.start_election(now, false, true);
                }
            }
            Kind::Syncing { needs_copy } => {
                self.note_term(now, term);
                if term == self.term {
                    self.on_syncing(now, from, needs_copy);
                }
            }
            Kind::Config => {}
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let Role::Leader(leader) = &self.role else {
            return earliest(self.election_at, self.sync_ends_at());
        };
        if self.config.members.len() == 1 {
            return leader.step_down.map(|a| a.give_up_at);
        }
        let pending = leader.step_down.map(|a| a.give_up_at);
        earliest(Some(leader.heartbeat_at.min(leader.idle_write_at)), pending)
    }

    /// Appends an entry for changes that were already applied to the store. This member must be the
    /// primary.
    pub(crate) fn append(&mut self, now: Instant, changes: Vec<Change>, retry: Option<Retry>) {
        self.append_sized(now, changes, retry, None);
    }

    /// Appends an entry as [`append`](Self::append) does. `bytes` is its size as [`Bound`] counts
    /// it, if the caller knows it.
    pub(crate) fn append_sized(
        &mut self,
        now: Instant,
        changes: Vec<Change>,
        retry: Option<Retry>,
        bytes: Option<usize>,
    ) {
        debug_assert!(
            matches!(self.role, Role::Leader(_)),
            "only a primary writes"
        );
        debug_assert!(!self.store.has_changes(), "all changes are in this entry");
        let wall_millis = self.wall_millis(now);
        let position = Position {
            term: self.term,
            index: self.log.last().index + 1,
        };
        let time = self.next_time(wall_millis);
        let entry = match bytes {
            None => Entry::new(position, (time, wall_millis), changes, retry),
            Some(bytes) => Entry::sized(position, (time, wall_millis), changes, retry, bytes),
        };
        self.note_copies(now, &entry);
        self.log
            .push(Arc::new(entry), &mut self.records, self.config.records);
        if let Role::Leader(leader) = &mut self.role {
            leader.idle_write_at = now + IDLE_WRITE_PERIOD;
        }
        self.advance_commit();
        self.replicate(now);
    }

    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) const fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    pub(crate) const fn set_producing(&mut self, is_producing: bool) {
        self.is_producing = is_producing;
    }

    pub(crate) fn record(&self, session: &SessionKey) -> Option<&Record> {
        self.records.of(session)
    }

    pub(crate) const fn term(&self) -> u64 {
        self.term
    }

    pub(crate) const fn commit(&self) -> u64 {
        self.commit
    }

    /// Returns the number of entries of the oplog, and the size in bytes of these entries and their
    /// undo records.
    pub(crate) fn oplog_size(&self) -> (usize, usize) {
        self.log.size()
    }

    pub(crate) fn last(&self) -> Position {
        self.log.last()
    }

    pub(crate) fn last_time(&self) -> Timestamp {
        self.log.last_time()
    }

    /// Returns the position, the cluster time and the wall clock's time in milliseconds of an
    /// entry, if the oplog still has it.
    pub(crate) fn entry(&self, index: u64) -> Option<(Position, Timestamp, u64)> {
        self.log
            .get(index)
            .map(|e| (e.position, e.time, e.wall_millis))
    }

    /// Returns an entry, if the oplog still has it.
    pub(crate) fn shared_entry(&self, index: u64) -> Option<&Arc<Entry>> {
        self.log.get(index)
    }

    /// Returns the records of retryable writes and transactions.
    pub(crate) const fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) const fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// True if this member is the primary and has no pending step-down, so that it accepts writes.
    pub(crate) const fn is_writable(&self) -> bool {
        matches!(&self.role, Role::Leader(leader) if leader.step_down.is_none())
    }

    /// Returns the index of the primary, or `None` if this member knows none.
    pub(crate) const fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// Returns the number of data-bearing members that have the entry with this index, as far as
    /// this primary knows. Other members return 0.
    pub(crate) fn holders(&self, index: u64) -> usize {
        let Role::Leader(leader) = &self.role else {
            return 0;
        };
        let others = leader
            .peers
            .iter()
            .enumerate()
            .filter(|&(i, p)| i != self.me && p.matched >= index && self.config.holds_data(i))
            .count();
        others + usize::from(self.log.last().index >= index)
    }

    fn send(&mut self, to: usize, kind: Kind) {
        let message = Message {
            term: self.term,
            config: Arc::clone(&self.config),
            clock: self.clock.latest,
            kind,
        };
        self.sent.push_back((to, message));
    }

    fn options(&self) -> &MemberOptions {
        &self.config.members[self.me]
    }
}

#[cfg(test)]
mod tests;
