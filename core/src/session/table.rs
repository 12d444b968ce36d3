//! The sessions of a client that are in use, by id.

use super::{ServerSession, SessionPool};
use crate::{
    arena::{Arena, Slot},
    random::Random,
    time::Instant,
};

/// The core's id of a session that is in use.
///
/// Whoever uses a session has its id: an operation, a cursor between its commands, later a session
/// of the application's. The session itself stays in the client, so that nothing is lost with a
/// future that is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    number: u64,
    slot: u32,
}

/// The sessions that are in use, and the pool of those that are not.
///
/// ```
/// use onionskin_core::{random::Seed, session::Sessions, time::Instant};
///
/// let (now, timeout) = (Instant::ZERO, Some(30));
/// let mut sessions = Sessions::new(Seed::new([1; 32]).split("sessions").random());
/// let id = sessions.begin(now, timeout);
/// let lsid = sessions.lsid(id).expect("it is in use");
/// sessions.end(now, timeout, id);
/// assert_eq!(sessions.lsid(id), None);
/// // The next operation uses the same session again.
/// let next = sessions.begin(now, timeout);
/// assert_eq!(sessions.lsid(next), Some(lsid));
/// ```
#[derive(Debug)]
pub struct Sessions {
    used: Arena<Used>,
    pool: SessionPool,
    /// Draws the ids of new sessions.
    random: Random,
    last_number: u64,
}

/// A session in use.
#[derive(Debug)]
struct Used {
    session: ServerSession,
    /// Commands that run in it.
    commands: u32,
    /// Its holder has ended it while a command ran; it goes back when none does any more.
    is_ended: bool,
}

impl Sessions {
    /// A table without sessions. `random` draws their ids.
    #[must_use]
    pub const fn new(random: Random) -> Self {
        Self {
            used: Arena::new(),
            pool: SessionPool::new(),
            random,
            last_number: 0,
        }
    }

    /// Takes a session into use: the one that was given back last, or a new one.
    ///
    /// `timeout_minutes` is the topology's `logicalSessionTimeoutMinutes`. Behind a load balancer
    /// it is ignored (LB-22), so that `None` has to be given.
    #[must_use = "a session that is not ended stays in use"]
    pub fn begin(&mut self, now: Instant, timeout_minutes: Option<i64>) -> SessionId {
        let session = self.pool.take(now, timeout_minutes, &mut self.random);
        self.last_number += 1;
        let number = self.last_number;
        let used = Used {
            session,
            commands: 0,
            is_ended: false,
        };
        let slot = self.used.insert(number, used);
        SessionId {
            number,
            slot: slot.0,
        }
    }

    /// A command begins to run in this session: its time on the server starts again. Returns the id
    /// of the session on the wire; `None` for a session that is not in use. Each command
    /// [leaves](Self::leave) the session again.
    pub fn use_for_command(&mut self, now: Instant, id: SessionId) -> Option<[u8; 16]> {
        let used = self.get_mut(id)?;
        used.commands += 1;
        used.session.handle_use(now);
        Some(used.session.id)
    }

    /// A command no longer runs in this session.
    pub fn leave(&mut self, now: Instant, timeout_minutes: Option<i64>, id: SessionId) {
        if let Some(used) = self.get_mut(id) {
            used.commands = used.commands.saturating_sub(1);
            if used.is_ended {
                self.end(now, timeout_minutes, id);
            }
        }
    }

    /// The number for the next transaction or retryable write in this session.
    pub fn next_txn_number(&mut self, id: SessionId) -> Option<i64> {
        Some(self.get_mut(id)?.session.next_txn_number())
    }

    /// A command with this session met a network error: the server may still work on it, so that
    /// the session is not used again once it has ended.
    pub fn mark_dirty(&mut self, id: SessionId) {
        if let Some(used) = self.get_mut(id) {
            used.session.mark_dirty();
        }
    }

    /// A session is no longer used: it goes back to the pool, unless it is dirty or about to end,
    /// once no command runs in it: nobody else may use it before. An id that is not in use changes
    /// nothing.
    pub fn end(&mut self, now: Instant, timeout_minutes: Option<i64>, id: SessionId) {
        let Some(slot) = self.used.find(id.number, Slot(id.slot)) else {
            return;
        };
        let used = self.used.get_mut(slot);
        if used.commands > 0 {
            used.is_ended = true;
        } else if let Some(used) = self.used.remove(slot) {
            self.pool.put_back(now, timeout_minutes, used.session);
        }
    }

    /// The process was forked, and this is the child: all sessions are its parent's. Ids that were
    /// given before are not in use here. `random` draws the ids of new sessions.
    pub fn handle_forked(&mut self, random: Random) {
        self.pool.handle_forked();
        self.used = Arena::new();
        self.random = random;
    }

    /// Takes out up to `max` ids of unused sessions (and never more than one command carries) for
    /// `endSessions`. The client is done when nothing is left.
    #[must_use = "these sessions are no longer in the pool"]
    pub fn drain(&mut self, max: usize) -> Vec<[u8; 16]> {
        self.pool.drain(max)
    }

    /// True if the session is in use.
    #[must_use]
    pub fn is_used(&self, id: SessionId) -> bool {
        self.used.find(id.number, Slot(id.slot)).is_some()
    }

    /// The id of the session on the wire; `None` for a session that is not in use.
    #[must_use]
    pub fn lsid(&self, id: SessionId) -> Option<[u8; 16]> {
        let slot = self.used.find(id.number, Slot(id.slot))?;
        Some(self.used.get(slot).session.id)
    }

    /// How many sessions are in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used.len() as usize
    }

    /// How many sessions are kept for later.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.pool.len()
    }

    fn get_mut(&mut self, id: SessionId) -> Option<&mut Used> {
        let slot = self.used.find(id.number, Slot(id.slot))?;
        Some(self.used.get_mut(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    const TIMEOUT: Option<i64> = Some(30);

    fn sessions() -> Sessions {
        Sessions::new(Seed::new([4; 32]).random())
    }

    #[test]
    fn sessions_in_use_are_apart_and_come_back_once() {
        let mut all = sessions();
        let now = Instant::ZERO;
        let [a, b] = [(); 2].map(|()| all.begin(now, TIMEOUT));
        assert_ne!(all.lsid(a), all.lsid(b));
        assert_eq!((all.used(), all.idle()), (2, 0));
        for _ in 0..2 {
            all.end(now, TIMEOUT, a);
            assert_eq!((all.used(), all.idle()), (1, 1));
        }
        let again = all.begin(now, TIMEOUT);
        assert!(
            !all.is_used(a) && all.is_used(again),
            "its id is another one"
        );
        all.mark_dirty(a);
        all.end(now, TIMEOUT, again);
        assert_eq!(all.idle(), 1, "an old id marks nothing");
    }

    #[test]
    fn a_dirty_session_ends_for_good() {
        let mut all = sessions();
        let id = all.begin(Instant::ZERO, TIMEOUT);
        all.mark_dirty(id);
        assert!(
            all.lsid(id).is_some(),
            "the operation uses it for its retry"
        );
        all.end(Instant::ZERO, TIMEOUT, id);
        assert_eq!((all.used(), all.idle()), (0, 0));
    }

    #[test]
    fn a_session_that_is_ended_while_a_command_runs_goes_back_with_that_command() {
        let mut all = sessions();
        let now = Instant::ZERO;
        let id = all.begin(now, TIMEOUT);
        assert!(all.use_for_command(now, id).is_some() && all.use_for_command(now, id).is_some());
        all.end(now, TIMEOUT, id);
        all.leave(now, TIMEOUT, id);
        assert_eq!((all.used(), all.idle()), (1, 0), "one command still runs");
        all.leave(now, TIMEOUT, id);
        assert_eq!((all.used(), all.idle()), (0, 1));
        all.leave(now, TIMEOUT, id);
        assert_eq!((all.used(), all.idle()), (0, 1));
    }

    #[test]
    fn a_child_knows_no_session_of_its_parent() {
        let mut all = sessions();
        let now = Instant::ZERO;
        let [held, kept] = [(); 2].map(|()| all.begin(now, TIMEOUT));
        all.end(now, TIMEOUT, kept);
        all.handle_forked(Seed::new([5; 32]).random());
        assert_eq!((all.used(), all.idle()), (0, 0));
        assert_eq!(all.use_for_command(now, held), None);
        assert_eq!(all.next_txn_number(held), None);
        let own = all.begin(now, TIMEOUT);
        all.end(now, TIMEOUT, held);
        assert!(
            all.is_used(own),
            "the id of the parent's session is not that of this one"
        );
    }

    #[test]
    fn transaction_numbers_only_grow_while_a_session_goes_from_hand_to_hand() {
        let mut all = sessions();
        let now = Instant::ZERO;
        let mut last = 0;
        for _ in 0..3 {
            let id = all.begin(now, TIMEOUT);
            let next = all.next_txn_number(id).expect("it is in use");
            assert!(next > last);
            last = next;
            all.end(now, TIMEOUT, id);
        }
    }
}
