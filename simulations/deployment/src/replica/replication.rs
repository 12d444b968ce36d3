//! Replication of the primary's oplog to the other members.

use super::{
    Peer, Position, Replica, ReplicaEvent, Role, log::Entry, message::Kind, sync::DataCopy,
};
use crate::{
    garbage::Dropped,
    store::{Change, Unapplied},
};
use onionskin_core::time::Instant;
use std::{sync::Arc, time::Duration};

/// The largest number of entries in one message.
const MAX_ENTRIES_PER_MESSAGE: u64 = 1000;

/// The largest number of changes in a small message. Its first entry can have more.
pub(crate) const MAX_SMALL_CHANGES: usize = 250;

/// The largest size of the entries of a small message, in bytes. Its first entry can be larger.
const MAX_SMALL_BYTES: usize = 1024 * 1024;

/// The time for which entries keep copies of built indexes. A member that applies an entry later
/// builds its indexes.
const TIME_OF_COPIES: Duration = Duration::from_secs(10);

impl Replica {
    /// Sends an `Append` or `Snapshot` message to each other member, and the configuration to those
    /// that were removed.
    pub(super) fn heartbeat(&mut self, now: Instant) {
        for to in 0..self.config.members.len() {
            if to != self.me && self.config.has(to) {
                self.send_append(now, to);
            }
        }
        self.tell_removed();
    }

    /// Sends an `Append` or `Snapshot` message to each other data-bearing member.
    pub(super) fn replicate(&mut self, now: Instant) {
        for to in 0..self.config.members.len() {
            if to != self.me && self.config.holds_data(to) {
                self.send_append(now, to);
            }
        }
    }

    pub(super) fn peer(&mut self, member: usize) -> Option<&mut Peer> {
        match &mut self.role {
            Role::Leader(leader) => leader.peers.get_mut(member),
            Role::Follower | Role::Candidate { .. } => None,
        }
    }

    fn send_append(&mut self, now: Instant, to: usize) {
        let commit = self.commit;
        let Some(peer) = self.peer(to) else {
            return;
        };
        let (index, is_syncing) = (peer.next - 1, peer.is_syncing);
        if is_syncing || self.config.members[to].arbiter {
            let kind = Kind::Append {
                previous: Position::default(),
                entries: Vec::new(),
                commit,
            };
            return self.send(to, kind);
        }
        let term = self.log.term_at(index);
        let end = term.map_or(commit, |_| self.last_due(now, to, index));
        if let Some(peer) = self.peer(to) {
            peer.next = end + 1;
        }
        let entries = (index + 1..=end).filter_map(|i| self.log.get(i).cloned());
        let kind = match term {
            Some(term) => Kind::Append {
                previous: Position { term, index },
                entries: entries.collect(),
                commit,
            },
            // The log no longer has the entries that the member needs next, so the member needs a
            // copy of all data.
            None => self.snapshot(),
        };
        self.send(to, kind);
    }

    /// Returns the index of the last entry that a message can send after the one at `index`. A
    /// delayed member gets each entry when its delay is over, but at once if it has none.
    fn last_due(&self, now: Instant, to: usize, index: u64) -> u64 {
        let end = self.log.last().index.min(index + MAX_ENTRIES_PER_MESSAGE);
        let end = self.end_of_message(index, end);
        let delay = self.config.members[to].delay;
        if delay.is_zero() || index == 0 {
            return end;
        }
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let now = self.wall_millis(now);
        let is_due = |i: &u64| {
            let entry = self.log.get(*i);
            entry.is_none_or(|entry| entry.wall_millis.saturating_add(delay) <= now)
        };
        (index + 1..=end).take_while(is_due).last().unwrap_or(index)
    }

    /// Lets the messages of a primary to other members have few changes each, and lets dropped data
    /// wait until it is [taken](Self::take_garbage).
    pub(crate) const fn run_jobs(&mut self) {
        self.has_small_messages = true;
        self.garbage.keep();
        self.store.keep_garbage();
    }

    /// Takes the large data and the entries of the oplog that were dropped.
    pub(crate) fn take_garbage(&mut self) -> Dropped {
        let mut values = self.garbage.take().unwrap_or_default();
        values.extend(self.store.take_garbage());
        values
    }

    /// Returns the number of members of the set that hold data.
    pub(crate) fn data_members(&self) -> usize {
        let members = 0..self.config.members.len();
        let with_data =
            |member: &usize| self.config.has(*member) && self.config.holds_data(*member);
        members.filter(with_data).count()
    }

    /// Returns the index of the last entry of a message with entries after the one at `index`, up
    /// to `end`.
    fn end_of_message(&self, index: u64, end: u64) -> u64 {
        if !self.has_small_messages {
            return end;
        }
        let (mut changes, mut bytes) = (0_usize, 0_usize);
        let fits = |i: &u64| {
            let Some(entry) = self.log.get(*i) else {
                return true;
            };
            changes = changes.saturating_add(entry.changes.len());
            bytes = bytes.saturating_add(entry.bytes());
            *i == index + 1 || (changes <= MAX_SMALL_CHANGES && bytes <= MAX_SMALL_BYTES)
        };
        (index + 1..=end).take_while(fits).last().unwrap_or(index)
    }

    /// Returns a snapshot of the data at the majority commit point. Later entries can be rolled
    /// back, so the snapshot leaves them out.
    pub(super) fn snapshot(&self) -> Kind {
        let store = self
            .store_at(self.commit, None)
            .unwrap_or_else(|| self.store.clone());
        let mut records = self.records.clone();
        for index in (self.commit + 1..=self.log.last().index).rev() {
            self.log.undo_in(index, &mut records);
        }
        let entry = self.log.get(self.commit);
        let base = (self.log.base(), self.log.base_time());
        let (last, time) = entry.map_or(base, |e| (e.position, e.time));
        Kind::Snapshot {
            last,
            time,
            data: Box::new((store, records)),
        }
    }

    /// Accepts `from` as the primary of `term`. If `term` is over or this member is the primary,
    /// refuses the message and returns false.
    fn follow(&mut self, now: Instant, from: usize, term: u64) -> bool {
        self.note_term(now, term);
        if term < self.term || self.is_leader() {
            let result = Err(0);
            self.send(from, Kind::Appended { result });
            return false;
        }
        self.role = Role::Follower;
        self.leader_seen_at = Some(now);
        if self.leader != Some(from) {
            self.leader = Some(from);
            self.events.push_back(ReplicaEvent::Changed);
        }
        self.arm_election(now);
        true
    }

    pub(super) fn on_append(
        &mut self,
        now: Instant,
        from: usize,
        term: u64,
        previous: Position,
        entries: Vec<Arc<Entry>>,
        commit: u64,
    ) {
        if !self.follow(now, from, term) {
            return;
        }
        if self.options().arbiter {
            return self.send(from, Kind::Appended { result: Ok(0) });
        }
        if self.answer_syncing(from) {
            return;
        }
        if !self.is_producing {
            // The member is alive, and has no further entries.
            return self.send(from, Kind::Appended { result: Ok(0) });
        }
        if self.contradicts(previous, &entries) {
            self.drop_data();
            self.events.push_back(ReplicaEvent::Changed);
            self.answer_syncing(from);
            return;
        }
        let known = previous.index < self.log.base().index
            || self.log.term_at(previous.index) == Some(previous.term);
        if !known {
            let hint = if previous.index > self.log.last().index {
                self.log.last().index
            } else {
                self.commit
            };
            return self.send(from, Kind::Appended { result: Err(hint) });
        }
        let (mut last, mut is_whole) = (previous, true);
        for entry in entries {
            let position = entry.position;
            self.note_copies(now, &entry);
            match self.accept(entry, true) {
                Ok(true) => last = position,
                Ok(false) => {
                    is_whole = false;
                    break;
                }
                Err(misfit) => {
                    let event = ReplicaEvent::Diverged(misfit.to_string());
                    return self.events.push_back(event);
                }
            }
        }
        // The oplog is known to agree with the primary's only up to the last entry of this message.
        self.commit = self.commit.max(commit.min(last.index));
        if last.index > 0 && self.log.term_at(last.index) == Some(last.term) {
            self.agreed_in = term;
        }
        self.log
            .trim(self.commit, self.config.oplog, &mut self.garbage);
        self.events.push_back(ReplicaEvent::Progress);
        // The primary sends an entry again of which a part was applied.
        let result = if is_whole {
            Ok(last.index)
        } else {
            Err(last.index)
        };
        self.send(from, Kind::Appended { result });
    }

    /// Notes an entry that has copies of built indexes.
    pub(super) fn note_copies(&mut self, now: Instant, entry: &Entry) {
        if entry.changes.iter().any(Change::has_copies) {
            self.copies.push_back((entry.position.index, now));
        }
    }

    /// Drops the copies of built indexes that no member has taken in time. All members share the
    /// entries, and so the copies.
    pub(super) fn drop_copies(&mut self, now: Instant) {
        while let Some(&(index, got_at)) = self.copies.front() {
            if got_at + TIME_OF_COPIES > now {
                return;
            }
            self.copies.pop_front();
            if let Some(entry) = self.log.get(index) {
                for change in &entry.changes {
                    change.drop_copies(&mut self.garbage);
                }
            }
        }
    }

    /// True if a message of the primary, with entries after `previous`, can differ from entries
    /// that this member knows to be committed. That is possible only after a forced configuration.
    /// The member then needs an initial sync. Positions before the first kept entry cannot be
    /// compared. They are known only if the oplogs agreed at a later position in the same term.
    fn contradicts(&self, previous: Position, entries: &[Arc<Entry>]) -> bool {
        if !self.config.was_forced {
            return false;
        }
        let differs = |position: Position| {
            let own = self.log.term_at(position.index);
            position.index <= self.commit && own.is_some_and(|own| own != position.term)
        };
        let last = entries.last().map_or(previous, |entry| entry.position);
        // The position 0 is before the first entry of each oplog.
        let is_unknown = (1..self.log.base().index).contains(&last.index);
        differs(previous)
            || entries.iter().any(|entry| differs(entry.position))
            || (is_unknown && self.agreed_in != self.term)
    }

    /// Sends the entries that a candidate lacks. While there is no primary, a member copies from
    /// another one whose last entry is later, so that it can be elected. `commit` is the
    /// candidate's majority commit point: both oplogs have the entries up to it.
    ///
    /// The message is never a small one. It must have an entry that is later than the candidate's
    /// last one, and the candidate asks again only at its next election.
    pub(super) fn send_copy(&mut self, to: usize, last: Position, commit: u64) {
        let previous = match self.log.term_at(last.index) {
            Some(term) if term == last.term => last.index,
            _ => commit,
        };
        let Some(term) = self.log.term_at(previous) else {
            return;
        };
        let end = self
            .log
            .last()
            .index
            .min(previous + MAX_ENTRIES_PER_MESSAGE);
        let entries = (previous + 1..=end).filter_map(|i| self.log.get(i).cloned());
        let kind = Kind::Copy {
            previous: Position {
                term,
                index: previous,
            },
            entries: entries.collect(),
        };
        self.send(to, kind);
    }

    /// Accepts entries of another member while there is no primary. Two oplogs agree up to each
    /// entry that is in both, and the one whose last entry is later (by its term, then by its
    /// index) has all committed entries.
    pub(super) fn on_copy(
        &mut self,
        now: Instant,
        term: u64,
        previous: Position,
        entries: Vec<Arc<Entry>>,
    ) {
        // No oplog has an entry of a term that its member does not know.
        self.note_term(now, term);
        if term < self.term {
            return;
        }
        let last = entries.last().map(|entry| entry.position);
        let is_known = self.log.term_at(previous.index) == Some(previous.term);
        let is_later = last > Some(self.log.last());
        let may_copy = self.leader.is_none() && self.is_producing && self.sync.is_none();
        if !may_copy || !is_known || !is_later {
            return;
        }
        for entry in entries {
            if let Err(misfit) = self.accept(entry, false) {
                let event = ReplicaEvent::Diverged(misfit.to_string());
                return self.events.push_back(event);
            }
        }
        self.events.push_back(ReplicaEvent::Progress);
    }

    /// Applies an entry of another member, unless it is known. An entry that does not fit is not
    /// applied, no part of it. Returns false if further parts of the entry are to be applied, which
    /// is the case only if `in_parts` is true.
    fn accept(&mut self, entry: Arc<Entry>, in_parts: bool) -> Result<bool, Unapplied> {
        let index = entry.position.index;
        if index <= self.log.base().index {
            return Ok(true);
        }
        match self.log.term_at(index) {
            Some(term) if term == entry.position.term => return Ok(true),
            Some(_) => self.roll_back_to(index - 1),
            None => {}
        }
        if in_parts && self.is_staged(&entry) {
            let is_applied = self.apply_part(&entry)?;
            if is_applied {
                self.log.push(entry, &mut self.records, self.config.records);
            }
            return Ok(is_applied);
        }
        self.forget_staged();
        for (count, change) in entry.changes.iter().enumerate() {
            if let Err(misfit) = self.store.apply(change) {
                let applied = entry.changes.iter().take(count).rev();
                applied.for_each(|change| self.store.revert(change));
                return Err(misfit);
            }
        }
        self.log.push(entry, &mut self.records, self.config.records);
        Ok(true)
    }

    /// Rolls back all entries after `index`. None of them may be committed.
    fn roll_back_to(&mut self, index: u64) {
        assert!(index >= self.commit, "what a majority has is never undone");
        self.forget_staged();
        self.keep_time();
        let mut entries = 0;
        while self.log.last().index > index {
            let Some(entry) = self.log.pop(&mut self.records) else {
                break;
            };
            for change in entry.changes.iter().rev() {
                self.store.revert(change);
            }
            entries += 1;
        }
        self.events.push_back(ReplicaEvent::RolledBack { entries });
    }

    pub(super) fn on_appended(&mut self, now: Instant, from: usize, result: Result<u64, u64>) {
        let last = self.log.last().index;
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let peer = &mut leader.peers[from];
        peer.seen_at = now;
        peer.is_syncing = false;
        match result {
            Ok(matched) => {
                peer.matched = peer.matched.max(matched.min(last));
                peer.next = peer.next.max(peer.matched + 1);
            }
            Err(hint) => peer.next = hint.min(last).max(peer.matched) + 1,
        }
        let next = peer.next;
        self.advance_commit();
        if self.config.holds_data(from) && self.last_due(now, from, next - 1) >= next {
            self.send_append(now, from);
        }
        self.check_step_down(now);
    }

    /// Advances the majority commit point as far as the progress of the members permits, and
    /// removes entries from an oplog that is too large.
    pub(super) fn advance_commit(&mut self) {
        let last = self.log.last().index;
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let mut progress: Vec<u64> = (0..self.config.members.len())
            .filter(|&i| self.config.votes(i) && self.config.holds_data(i))
            .map(|i| {
                if i == self.me {
                    last
                } else {
                    leader.peers[i].matched
                }
            })
            .collect();
        progress.sort_unstable_by(|a, b| b.cmp(a));
        let least = self.config.write_majority();
        let point = progress.get(least.saturating_sub(1)).copied();
        if let Some(point) = point.filter(|&p| p > self.commit)
            && self.log.term_at(point) == Some(self.term)
        {
            self.commit = point;
        }
        let keep = self.config.oplog;
        if self.log.exceeds(keep) {
            let slowest = (0..self.config.members.len())
                .filter(|&i| i != self.me && self.config.holds_data(i))
                .map(|i| &leader.peers[i])
                .filter(|p| p.matched > 0)
                .map(|p| p.matched)
                .min()
                .unwrap_or(self.commit);
            // A member that does not answer must not make the oplog grow without limit.
            self.log
                .trim(self.commit, keep.doubled(), &mut self.garbage);
            self.log
                .trim(slowest.min(self.commit), keep, &mut self.garbage);
        }
        self.events.push_back(ReplicaEvent::Progress);
    }

    pub(super) fn on_snapshot(&mut self, now: Instant, from: usize, term: u64, copy: DataCopy) {
        if !self.follow(now, from, term) {
            return;
        }
        if self.sync.is_some() {
            self.begin_copy(now, copy);
            self.answer_syncing(from);
            return;
        }
        if !self.is_producing {
            return self.send(from, Kind::Appended { result: Ok(0) });
        }
        let last = copy.last;
        let known = self.log.term_at(last.index) == Some(last.term);
        if self.contradicts(last, &[]) || (!known && last.index > self.commit) {
            self.install_copy(copy);
            self.agreed_in = term;
        }
        let result = Ok(last.index);
        self.send(from, Kind::Appended { result });
    }
}
