//! The table of the sessions that are in use.

use super::{END_SESSIONS_BATCH, ServerSession, SessionPool};
use crate::{
    arena::{Arena, Slot},
    random::Random,
    time::Instant,
};

/// The id of a session in use, within the core. `Sessions::lsid` returns the id on the wire.
///
/// The holder of a session, for example an operation or a cursor, has only this id. The session
/// itself stays in `Sessions`, so that the session is not lost if a future is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    number: u64,
    slot: u32,
}

impl SessionId {
    /// Returns the id with these parts.
    pub(crate) const fn from_parts(number: u64, slot: u32) -> Self {
        Self { number, slot }
    }

    /// Returns the parts of the id.
    pub(crate) const fn parts(self) -> (u64, u32) {
        (self.number, self.slot)
    }
}

/// The sessions of a client: a table of the sessions in use, and the pool of the sessions that are
/// not in use.
///
/// ```
/// use onionskin_core::{random::Seed, unstable::session::Sessions, time::Instant};
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
    /// The source of random numbers for the ids of new sessions.
    random: Random,
    last_number: u64,
}

/// A session in use.
#[derive(Debug)]
struct Used {
    session: ServerSession,
    /// The number of commands that run in the session.
    commands: u32,
    /// True if the holder ended the session while a command ran. The session is put back when no
    /// command runs in it any more.
    is_ended: bool,
    /// True once [`Sessions::drain`] has returned the id of the session.
    is_reported: bool,
}

impl Sessions {
    /// Returns a table without sessions. `random` draws the ids of new sessions.
    #[must_use]
    pub const fn new(random: Random) -> Self {
        Self {
            used: Arena::new(),
            pool: SessionPool::new(),
            random,
            last_number: 0,
        }
    }

    /// Takes a session into use: the session that was put back last or, if that one is about to end
    /// or the pool is empty, a new session.
    ///
    /// `timeout_minutes` is the topology's `logicalSessionTimeoutMinutes`; `None` means that
    /// sessions have no timeout. Behind a load balancer the timeout is ignored, so give `None`
    /// ([LB-22]).
    ///
    /// [LB-22]: crate::requirements::load_balancers#LB-22
    #[must_use = "a session that is not ended stays in use"]
    #[inline]
    pub fn begin(&mut self, now: Instant, timeout_minutes: Option<i64>) -> SessionId {
        let session = self.pool.take(now, timeout_minutes, &mut self.random);
        self.last_number += 1;
        let number = self.last_number;
        let used = Used {
            session,
            commands: 0,
            is_ended: false,
            is_reported: false,
        };
        let slot = self.used.insert(number, used);
        SessionId {
            number,
            slot: slot.0,
        }
    }

    /// Notes that a command begins to run in this session, which restarts the session's timeout on
    /// the server. Returns the id of the session on the wire; `None` if the session is not in use.
    /// For each command, the caller has to call [`leave`](Self::leave) afterwards.
    #[inline]
    pub fn use_for_command(&mut self, now: Instant, id: SessionId) -> Option<[u8; 16]> {
        let used = self.get_mut(id)?;
        used.commands += 1;
        used.session.handle_use(now);
        Some(used.session.id)
    }

    /// Notes that a command no longer runs in this session. If the holder has ended the session and
    /// no other command runs in it, the session is put back.
    #[inline]
    pub fn leave(&mut self, now: Instant, timeout_minutes: Option<i64>, id: SessionId) {
        if let Some(used) = self.get_mut(id) {
            used.commands = used.commands.saturating_sub(1);
            if used.is_ended {
                self.end(now, timeout_minutes, id);
            }
        }
    }

    /// Returns the number for the next transaction or retryable write in this session; `None` if
    /// the session is not in use.
    pub fn next_txn_number(&mut self, id: SessionId) -> Option<i64> {
        Some(self.get_mut(id)?.session.next_txn_number())
    }

    /// Marks a session as dirty, so that it is not used again once its holder has ended it. Call
    /// this if a command in the session got no reply, for example after a network error: the server
    /// may still be working on that command.
    pub fn mark_dirty(&mut self, id: SessionId) {
        if let Some(used) = self.get_mut(id) {
            used.session.mark_dirty();
        }
    }

    /// True if the session is in use and [dirty](Self::mark_dirty).
    #[must_use]
    pub fn is_dirty(&self, id: SessionId) -> bool {
        let slot = self.used.find(id.number, Slot(id.slot));
        slot.is_some_and(|slot| self.used.get(slot).session.is_dirty())
    }

    /// Ends the use of a session by its holder. The session is put back once no command runs in it,
    /// unless it is dirty or about to end. Does nothing if the session is not in use.
    #[inline]
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

    /// Removes all sessions in a child process after a fork, because they belong to the parent. All
    /// earlier ids become invalid. `random` draws the ids of new sessions.
    pub fn handle_forked(&mut self, random: Random) {
        self.pool.handle_forked();
        self.used = Arena::new();
        self.random = random;
    }

    /// Removes up to `max` sessions from the pool, at most
    /// [`END_SESSIONS_BATCH`](super::END_SESSIONS_BATCH), and returns their ids for `endSessions`.
    ///
    /// If the pool is empty, returns the ids of sessions in use in which no command runs, such as
    /// those of open cursors, each id once. These sessions stay in use and are not put back later.
    #[must_use = "these sessions are no longer in the pool"]
    pub fn drain(&mut self, max: usize) -> Vec<[u8; 16]> {
        let ids = self.pool.drain(max);
        if !ids.is_empty() {
            return ids;
        }
        let used = self.used.iter_mut();
        let unreported = used.filter(|used| used.commands == 0 && !used.is_reported);
        let report = |used: &mut Used| {
            used.is_reported = true;
            used.session.mark_dirty();
            used.session.id
        };
        let max = max.min(END_SESSIONS_BATCH);
        unreported.take(max).map(report).collect()
    }

    /// True if the session is in use.
    #[must_use]
    #[inline]
    pub fn is_used(&self, id: SessionId) -> bool {
        self.used.find(id.number, Slot(id.slot)).is_some()
    }

    /// Returns the id of the session on the wire; `None` if the session is not in use.
    #[must_use]
    pub fn lsid(&self, id: SessionId) -> Option<[u8; 16]> {
        let slot = self.used.find(id.number, Slot(id.slot))?;
        Some(self.used.get(slot).session.id)
    }

    /// Returns the number of sessions in use.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used.len() as usize
    }

    /// Returns the number of sessions in the pool.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn idle(&self) -> usize {
        self.pool.len()
    }

    #[inline]
    fn get_mut(&mut self, id: SessionId) -> Option<&mut Used> {
        self.used.find_mut(id.number, Slot(id.slot))
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
    fn sessions_in_use_are_distinct_and_are_put_back_once() {
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
    fn a_dirty_session_is_not_put_back_in_the_pool() {
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
    fn a_session_ended_during_a_command_is_put_back_after_its_last_command() {
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
    fn sessions_of_open_cursors_are_drained_last_and_once() {
        let mut all = sessions();
        let now = Instant::ZERO;
        let [idle, cursor, busy] = [(); 3].map(|()| all.begin(now, TIMEOUT));
        let id_of = |all: &Sessions, id| all.lsid(id).expect("it is in use");
        let [first, second] = [idle, cursor].map(|id| id_of(&all, id));
        all.end(now, TIMEOUT, idle);
        all.use_for_command(now, busy).expect("it is in use");
        assert_eq!(all.drain(10), [first]);
        assert_eq!(all.drain(10), [second]);
        assert_eq!(
            all.drain(10),
            [[0; 16]; 0],
            "a command runs in the other one"
        );
        assert!(all.is_used(cursor));
        all.end(now, TIMEOUT, cursor);
        assert_eq!(all.idle(), 0, "the server ends it");
    }

    #[test]
    fn a_child_process_does_not_use_sessions_of_its_parent() {
        let mut all = sessions();
        let now = Instant::ZERO;
        let [used, kept] = [(); 2].map(|()| all.begin(now, TIMEOUT));
        all.end(now, TIMEOUT, kept);
        all.handle_forked(Seed::new([5; 32]).random());
        assert_eq!((all.used(), all.idle()), (0, 0));
        assert_eq!(all.use_for_command(now, used), None);
        assert_eq!(all.next_txn_number(used), None);
        let own = all.begin(now, TIMEOUT);
        all.end(now, TIMEOUT, used);
        assert!(
            all.is_used(own),
            "the id of the parent's session is not that of this one"
        );
    }

    #[test]
    fn transaction_numbers_grow_when_a_session_is_reused() {
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
