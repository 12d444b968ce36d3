//! The turns of servers that replies named and that never answered a check.
//!
//! While no primary is known, one server can name many hosts that do not exist. Each of them would
//! be checked at once, and again and again while operations wait. So only a few such checks run at
//! one time, and the other servers wait for their turn. Seeds, and servers that answered before,
//! need no turn.

use super::{Sdam, effects::Effects, timers::Timer};
use crate::{description::ServerId, time::Instant};
use std::collections::{BTreeMap, VecDeque};

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
        while let Some(next) = self.queue.pop_front() {
            if let Some(turn @ Turn::Queued) = self.strangers.get_mut(&next) {
                *turn = Turn::Taken;
                self.taken += 1;
                return Some(next);
            }
        }
        None
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
    /// Notes that a server answered, or that it left the topology. Its checks need no turn then.
    pub(super) fn leave_strangers(&mut self, now: Instant, id: ServerId) {
        self.out.end_turn(now, id);
        self.out.turns.strangers.remove(&id);
    }
}
