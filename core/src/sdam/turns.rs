//! The turns of servers that replies named and that never answered a check.
//!
//! While no primary is known, one server can name many hosts that do not exist. Each of them would
//! be checked at once, and again and again while operations wait. So only a few such checks run at
//! one time, and the other servers wait for their turn. Seeds, and servers that answered before,
//! need no turn.
//!
//! The server that a member names as the primary need not wait for all others, because its lists
//! end the search. Each second turn is for such a server. Members that name different primaries
//! take turns as well, so that one of them cannot push the primary of another back.

use super::{Sdam, effects::Effects, timers::Timer};
use crate::{
    address::Address,
    description::{ServerId, ServerType},
    time::Instant,
};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

/// The number of checks that run at one time on servers that a reply named and that never answered.
/// Not an option. A replica set has at most 50 members, and mostly fewer than eight.
pub const MAX_STRANGER_CHECKS: usize = 16;

/// The state of a server that a reply named and that never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No check wants to begin.
    Idle,
    /// A check waits for its turn.
    Queued,
    /// A check is running, or begins next.
    Taken,
}

/// The servers that replies named and that never answered, with their turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    strangers: BTreeMap<ServerId, Turn>,
    /// The servers that wait, in their order. Those that were forgotten are skipped.
    queue: VecDeque<ServerId>,
    taken: usize,
    /// For each member that names a primary, this primary.
    primaries: BTreeMap<ServerId, ServerId>,
    /// The member whose primary had its turn last.
    last_member: Option<ServerId>,
    /// True if the last turn was for a server that a member names as the primary.
    was_primary: bool,
}

impl Turns {
    /// Adds a server that a reply named.
    pub(super) fn add(&mut self, id: ServerId) {
        self.strangers.insert(id, Turn::Idle);
    }

    /// True if a reply named the server and it never answered.
    pub(super) fn is_stranger(&self, id: ServerId) -> bool {
        self.strangers.contains_key(&id)
    }

    /// Takes a turn for the check of a server. If there is none, queues the server and returns
    /// false.
    fn take(&mut self, id: ServerId) -> bool {
        let Some(turn) = self.strangers.get_mut(&id) else {
            return true;
        };
        if *turn == Turn::Idle {
            if self.taken < MAX_STRANGER_CHECKS {
                *turn = Turn::Taken;
                self.taken += 1;
            } else {
                *turn = Turn::Queued;
                self.queue.push_back(id);
            }
        }
        *turn == Turn::Taken
    }

    /// Ends the turn of a server. Returns the server that takes its place.
    fn end(&mut self, id: ServerId) -> Option<ServerId> {
        let turn = self.strangers.get_mut(&id)?;
        if std::mem::replace(turn, Turn::Idle) != Turn::Taken {
            return None;
        }
        self.taken -= 1;
        let primary = match self.was_primary {
            true => None,
            false => self.next_primary(),
        };
        self.was_primary = primary.is_some();
        let next = primary.or_else(|| self.next_in_queue())?;
        self.strangers.insert(next, Turn::Taken);
        self.taken += 1;
        Some(next)
    }

    fn is_queued(&self, id: ServerId) -> bool {
        self.strangers.get(&id) == Some(&Turn::Queued)
    }

    fn next_in_queue(&mut self) -> Option<ServerId> {
        while let Some(next) = self.queue.pop_front() {
            if self.is_queued(next) {
                return Some(next);
            }
        }
        None
    }

    /// Takes a server that a member names as the primary from the queue: that of the next member
    /// after the one whose primary had its turn last.
    fn next_primary(&mut self) -> Option<ServerId> {
        let last = self.last_member.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.primaries.range((last, Bound::Unbounded));
        let mut primaries = later.chain(&self.primaries);
        let (&member, &primary) = primaries.find(|(_, primary)| self.is_queued(**primary))?;
        self.last_member = Some(member);
        self.queue.retain(|queued| *queued != primary);
        Some(primary)
    }
}

impl Effects {
    /// Takes a turn for a check of this server. If there is none, the check begins later. A client
    /// that checks servers on demand checks one after the other, so it needs no turns. Without
    /// `connectTimeoutMS`, a check could keep its turn for ever, so there are no turns either.
    pub(super) fn takes_turn(&mut self, id: ServerId) -> bool {
        self.scanning || self.check_limit(false).is_none() || self.turns.take(id)
    }

    /// Ends the turn of a server. The check of the server that takes its place begins at once.
    pub(super) fn end_turn(&mut self, now: Instant, id: ServerId) {
        if let Some(next) = self.turns.end(id) {
            self.timers.set(Timer::Heartbeat(next), now);
        }
    }
}

impl Sdam {
    /// True for a host that a reply has named, unless a seed or a member that the primary lists is
    /// there, or a server there has answered.
    #[must_use]
    pub fn is_stranger(&self, host: &str) -> bool {
        let description = self.description();
        let mut of_host = description.servers.keys().filter(|a| a.host() == host);
        let primary = description.servers.values();
        let mut primary = primary.filter(|server| server.server_type == ServerType::RsPrimary);
        let primary = primary.next();
        let is_stranger = |address: &Address| {
            let is_listed = primary.is_some_and(|server| server.members().any(|m| m == address));
            let id = self.server_id(address);
            !is_listed && id.is_some_and(|id| self.out.turns.is_stranger(id))
        };
        of_host.next().is_some_and(is_stranger) && of_host.all(is_stranger)
    }

    /// Notes that a server answered, or that it left the topology. Its checks need no turn then.
    pub(super) fn leave_strangers(&mut self, now: Instant, id: ServerId) {
        self.out.end_turn(now, id);
        self.out.turns.strangers.remove(&id);
    }

    /// Notes which server a member names as the primary, unless the member was removed.
    pub(super) fn note_named_primary(&mut self, member: ServerId, primary: Option<&Address>) {
        let primary = primary.filter(|_| self.servers.contains_key(&member));
        let primary = primary.and_then(|address| self.server_id(address));
        let primaries = &mut self.out.turns.primaries;
        match primary {
            Some(primary) => primaries.insert(member, primary),
            None => primaries.remove(&member),
        };
    }
}
