//! Initial sync: a member without data copies those of the primary before it follows the oplog.

use super::{Position, Replica, ReplicaEvent, Role, log::Log, message::Kind, records::Records};
use crate::store::Store;
use bson::Timestamp;
use onionskin_core::time::Instant;
use std::{mem, time::Duration};

/// The time of an initial sync without data.
const LEAST_SYNC_TIME: Duration = Duration::from_secs(5);

/// The number of bytes that an initial sync copies in a second, as the store counts its memory.
const SYNC_BYTES_PER_SECOND: u64 = 1024 * 1024;

/// A copy of the data at an entry of the oplog.
#[derive(Debug)]
pub(super) struct DataCopy {
    pub(super) last: Position,
    pub(super) time: Timestamp,
    pub(super) data: Box<(Store, Records)>,
}

/// An initial sync under way.
#[derive(Debug)]
pub(super) enum InitialSync {
    /// The member waits for a primary from which it can copy.
    Waiting,
    /// The member has the copy at this time.
    Copying(Instant, DataCopy),
}

impl Replica {
    /// Removes all data, which the member copies from the next primary. The term and the vote are
    /// kept.
    pub(crate) fn drop_data(&mut self) {
        let empty = self.store.without_data();
        self.replace_data(empty, Records::default(), Log::default());
        self.commit = 0;
        self.sync = Some(InitialSync::Waiting);
    }

    /// True if a member is in its initial sync, as this one knows.
    pub(crate) fn is_syncing(&self, member: usize) -> bool {
        match &self.role {
            _ if member == self.me => self.sync.is_some(),
            Role::Leader(leader) => leader.peers.get(member).is_some_and(|p| p.is_syncing),
            Role::Follower | Role::Candidate { .. } => false,
        }
    }

    /// True if a majority of the voting members has all committed entries without this member, as
    /// this primary knows.
    pub(crate) fn can_lose(&self, member: usize) -> bool {
        let Role::Leader(leader) = &self.role else {
            return false;
        };
        let has_entries =
            |i: &usize| *i == self.me || (*i != member && leader.peers[*i].matched >= self.commit);
        let voters = self.config.voters().filter(|i| self.config.holds_data(*i));
        member != self.me
            && self.log.term_at(self.commit) == Some(self.term)
            && voters.filter(has_entries).count() >= self.config.write_majority()
    }

    /// Starts the initial sync again from its beginning, if one is under way.
    pub(super) fn restart_sync(&mut self) {
        if self.sync.is_some() {
            self.sync = Some(InitialSync::Waiting);
        }
    }

    /// Answers the primary during an initial sync. Returns false if none is under way.
    pub(super) fn answer_syncing(&mut self, primary: usize) -> bool {
        let Some(sync) = &self.sync else {
            return false;
        };
        let needs_copy = matches!(sync, InitialSync::Waiting);
        self.send(primary, Kind::Syncing { needs_copy });
        true
    }

    /// Notes, as the primary, that a member has no data. Sends it a copy if it needs one.
    pub(super) fn on_syncing(&mut self, now: Instant, from: usize, needs_copy: bool) {
        let Some(peer) = self.peer(from) else {
            return;
        };
        peer.seen_at = now;
        peer.matched = 0;
        peer.is_syncing = true;
        if needs_copy {
            let copy = self.snapshot();
            self.send(from, copy);
        }
    }

    /// Begins to copy data of the primary, if an initial sync waits for it. The time depends on
    /// their amount.
    pub(super) fn begin_copy(&mut self, now: Instant, copy: DataCopy) {
        if let Some(InitialSync::Waiting) = self.sync {
            let bytes = u64::try_from(copy.data.0.bytes()).unwrap_or(u64::MAX);
            let millis = bytes.saturating_mul(1000) / SYNC_BYTES_PER_SECOND;
            let ends_at = now + LEAST_SYNC_TIME + Duration::from_millis(millis);
            self.sync = Some(InitialSync::Copying(ends_at, copy));
            self.agreed_in = self.term;
        }
    }

    /// Returns the time at which the initial sync ends.
    pub(super) fn sync_ends_at(&self) -> Option<Instant> {
        match self.sync {
            Some(InitialSync::Copying(ends_at, _)) => Some(ends_at),
            Some(InitialSync::Waiting) | None => None,
        }
    }

    /// Ends the initial sync if its time has come.
    pub(super) fn on_sync_timeout(&mut self, now: Instant) {
        if self.sync_ends_at().is_none_or(|at| at > now) {
            return;
        }
        if let Some(InitialSync::Copying(_, copy)) = self.sync.take() {
            // After a forced configuration, a later primary can lack entries of the copy.
            let is_known = !self.config.was_forced || self.agreed_in == self.term;
            let result = Ok(if is_known { copy.last.index } else { 0 });
            self.install_copy(copy);
            self.events.push_back(ReplicaEvent::Changed);
            if let Some(primary) = self.leader {
                self.send(primary, Kind::Appended { result });
            }
        }
    }

    fn replace_data(&mut self, mut store: Store, records: Records, log: Log) {
        if self.has_small_messages {
            store.keep_garbage();
        }
        self.forget_staged();
        self.keep_time();
        let bytes = self.store.bytes().saturating_add(self.log.size().1);
        let before = (
            mem::replace(&mut self.store, store),
            mem::replace(&mut self.records, records),
            mem::replace(&mut self.log, log),
        );
        self.garbage.add(bytes, before);
    }

    /// Replaces the data and the oplog by a copy.
    pub(super) fn install_copy(&mut self, copy: DataCopy) {
        let (mut store, records) = *copy.data;
        store.set_release(self.store.release());
        self.replace_data(store, records, Log::starting_after(copy.last, copy.time));
        self.commit = copy.last.index;
        self.events.push_back(ReplicaEvent::Resynced);
        self.events.push_back(ReplicaEvent::Progress);
    }
}
