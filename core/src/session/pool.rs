//! The pool of server sessions that are not in use.

use crate::{random::Random, time::Instant};
use std::{collections::VecDeque, time::Duration};

/// The highest number of ids in one `endSessions` command: 10,000, the limit of the specification.
pub const END_SESSIONS_BATCH: usize = 10_000;

/// The highest number of sessions in the pool. When the pool is full, a session that is put back
/// replaces the session that was put back first.
pub const MAX_POOLED_SESSIONS: usize = 100_000;

/// A session that the server would end in less than this time is not used again, because the
/// session could end before a command arrives.
const SAFETY_MARGIN: Duration = Duration::from_secs(60);

/// The shortest timeout of sessions that the client assumes. With the safety margin, a session can
/// be used again for one minute. Without this minimum, a server that reports a timeout of one
/// minute would make each operation use a new session. If a server has ended a session, a command
/// with its id begins it anew.
const MIN_TIMEOUT: Duration = Duration::from_secs(120);

const NANOS: u64 = 1_000_000_000;

/// A server session: its id, its last transaction number and the time of its last use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSession {
    /// The id of the session on the wire: a random (version 4) UUID.
    pub id: [u8; 16],
    /// The latest number of a transaction or retryable write; 0 if there was none.
    pub txn_number: i64,
    last_use: Instant,
    dirty: bool,
    /// The value of [`SessionPool::process`] when the session was made.
    process: u32,
}

impl ServerSession {
    fn new(now: Instant, random: &mut Random, process: u32) -> Self {
        let mut id = [0; 16];
        random.fill(&mut id);
        // The version and the variant of the UUID (RFC 4122, section 4.4).
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        Self {
            id,
            txn_number: 0,
            last_use: now,
            dirty: false,
            process,
        }
    }

    /// Notes that a command with this session is being sent, which restarts the session's timeout
    /// on the server.
    pub fn handle_use(&mut self, now: Instant) {
        self.last_use = self.last_use.max(now);
    }

    /// Marks the session as dirty, so that it is not used again. Call this if a command in the
    /// session got no reply, for example after a network error: the server may still be working on
    /// that command.
    pub fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    /// Returns the number for the next transaction or retryable write.
    pub fn next_txn_number(&mut self) -> i64 {
        self.txn_number += 1;
        self.txn_number
    }

    /// True if the session must not be used again.
    #[must_use]
    pub const fn is_dirty(&self) -> bool {
        self.dirty
    }

    fn is_about_to_end(&self, now: Instant, timeout_minutes: Option<i64>) -> bool {
        let Some(minutes) = timeout_minutes else {
            return false;
        };
        let minutes = u64::try_from(minutes).unwrap_or(0);
        let lifetime = minutes
            .saturating_mul(60 * NANOS)
            .max(MIN_TIMEOUT.as_secs() * NANOS);
        let idle = now.as_nanos().saturating_sub(self.last_use.as_nanos());
        idle > lifetime - SAFETY_MARGIN.as_secs() * NANOS
    }
}

/// The server sessions that are not in use. The session that was put back last is taken first, so
/// that surplus sessions reach their timeout.
///
/// ```
/// use onionskin_core::{random::Seed, unstable::session::SessionPool, time::Instant};
///
/// let mut random = Seed::new([1; 32]).split("sessions").random();
/// let mut pool = SessionPool::new();
/// let session = pool.take(Instant::ZERO, Some(30), &mut random);
/// let id = session.id;
/// pool.put_back(Instant::ZERO, Some(30), session);
/// assert_eq!(pool.take(Instant::ZERO, Some(30), &mut random).id, id);
/// ```
#[derive(Debug, Default)]
pub struct SessionPool {
    /// The sessions, in the order in which they were put back.
    sessions: VecDeque<ServerSession>,
    /// The number of calls of [`handle_forked`](Self::handle_forked).
    process: u32,
}

impl SessionPool {
    /// Returns an empty pool.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sessions: VecDeque::new(),
            process: 0,
        }
    }

    /// Takes the session that was put back last. Makes a new one if the pool is empty or that
    /// session is about to end.
    ///
    /// `timeout_minutes` is the topology's `logicalSessionTimeoutMinutes`; `None` means that
    /// sessions have no timeout. Behind a load balancer the timeout is ignored, so give `None`
    /// ([LB-22]).
    ///
    /// [LB-22]: crate::requirements::load_balancers#LB-22
    #[must_use = "a session that is not put back is lost"]
    #[inline]
    pub fn take(
        &mut self,
        now: Instant,
        timeout_minutes: Option<i64>,
        random: &mut Random,
    ) -> ServerSession {
        match self.sessions.pop_back() {
            Some(session) if !session.is_about_to_end(now, timeout_minutes) => session,
            found => {
                // The sessions that were put back before `found` may be about to end as well.
                if found.is_some() {
                    self.forget_old(now, timeout_minutes);
                }
                ServerSession::new(now, random, self.process)
            }
        }
    }

    /// Empties the pool in a child process after a fork: the sessions belong to the parent.
    /// Sessions of the parent that are in use at this moment are not put back later.
    pub fn handle_forked(&mut self) {
        self.sessions.clear();
        self.process = self.process.wrapping_add(1);
    }

    /// True if this process made the session; false if a parent process made it before a fork.
    #[must_use]
    pub const fn is_own(&self, session: &ServerSession) -> bool {
        session.process == self.process
    }

    /// Puts a session back, unless it is dirty, about to end, or made by a parent process.
    #[inline]
    pub fn put_back(&mut self, now: Instant, timeout_minutes: Option<i64>, session: ServerSession) {
        self.forget_old(now, timeout_minutes);
        if session.is_dirty()
            || !self.is_own(&session)
            || session.is_about_to_end(now, timeout_minutes)
        {
            return;
        }
        if self.sessions.len() >= MAX_POOLED_SESSIONS {
            self.sessions.pop_front();
        }
        self.sessions.push_back(session);
    }

    /// Removes up to `max` sessions, at most [`END_SESSIONS_BATCH`], and returns their ids for
    /// `endSessions`. Returns no ids if the pool is empty.
    #[must_use = "these sessions are no longer in the pool"]
    pub fn drain(&mut self, max: usize) -> Vec<[u8; 16]> {
        let count = max.min(END_SESSIONS_BATCH).min(self.sessions.len());
        self.sessions.drain(..count).map(|s| s.id).collect()
    }

    /// Returns the number of sessions in the pool.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// True if the pool has no sessions.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Removes sessions in the order in which they were put back, up to the first that is not about
    /// to end.
    fn forget_old(&mut self, now: Instant, timeout_minutes: Option<i64>) {
        while let Some(oldest) = self.sessions.front()
            && oldest.is_about_to_end(now, timeout_minutes)
        {
            self.sessions.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    fn minutes(n: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(60 * n)
    }

    fn random() -> Random {
        Seed::new([4; 32]).random()
    }

    #[test]
    fn the_session_put_back_last_is_taken_first() {
        let (mut pool, mut random) = (SessionPool::new(), random());
        let a = pool.take(Instant::ZERO, Some(30), &mut random);
        let b = pool.take(Instant::ZERO, Some(30), &mut random);
        let (a_id, b_id) = (a.id, b.id);
        assert_ne!(a_id, b_id);
        pool.put_back(Instant::ZERO, Some(30), a);
        pool.put_back(Instant::ZERO, Some(30), b);
        assert_eq!(pool.take(Instant::ZERO, Some(30), &mut random).id, b_id);
        assert_eq!(pool.take(Instant::ZERO, Some(30), &mut random).id, a_id);
    }

    #[test]
    fn a_session_id_is_a_random_uuid() {
        let (mut pool, mut random) = (SessionPool::new(), random());
        for _ in 0..100 {
            let id = pool.take(Instant::ZERO, None, &mut random).id;
            assert_eq!((id[6] >> 4, id[8] >> 6), (4, 2));
        }
    }

    #[test]
    fn a_session_within_a_minute_of_its_timeout_is_not_used() {
        for (age, used) in [(28, true), (29, true), (30, false), (31, false)] {
            let (mut pool, mut random) = (SessionPool::new(), random());
            let session = pool.take(Instant::ZERO, Some(30), &mut random);
            let id = session.id;
            pool.put_back(Instant::ZERO, Some(30), session);
            let again = pool.take(minutes(age), Some(30), &mut random).id == id;
            assert_eq!(again, used, "{age} minutes");
            assert!(pool.is_empty());
        }
    }

    #[test]
    fn after_a_fork_the_pool_discards_sessions_of_the_parent_process() {
        let (mut pool, mut random) = (SessionPool::new(), random());
        let [used, kept] = [(); 2].map(|()| pool.take(Instant::ZERO, Some(30), &mut random));
        pool.put_back(Instant::ZERO, Some(30), kept);
        pool.handle_forked();
        assert!(pool.is_empty());
        pool.put_back(Instant::ZERO, Some(30), used);
        assert!(pool.is_empty());
        let own = pool.take(Instant::ZERO, Some(30), &mut random);
        pool.put_back(Instant::ZERO, Some(30), own);
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn using_a_session_restarts_its_timeout() {
        let (mut pool, mut random) = (SessionPool::new(), random());
        let mut session = pool.take(Instant::ZERO, Some(30), &mut random);
        session.handle_use(minutes(20));
        let id = session.id;
        pool.put_back(minutes(20), Some(30), session);
        assert_eq!(pool.take(minutes(45), Some(30), &mut random).id, id);
    }

    #[test]
    fn dirty_and_expiring_sessions_are_not_put_back_in_the_pool() {
        let (mut pool, mut random) = (SessionPool::new(), random());
        let old = pool.take(Instant::ZERO, Some(30), &mut random);
        let mut dirty = pool.take(Instant::ZERO, Some(30), &mut random);
        let mut older = pool.take(Instant::ZERO, Some(30), &mut random);
        pool.put_back(minutes(30), Some(30), old);
        dirty.mark_dirty();
        pool.put_back(Instant::ZERO, Some(30), dirty);
        assert!(pool.is_empty());
        older.handle_use(minutes(1));
        pool.put_back(minutes(2), Some(30), older);
        assert_eq!(pool.len(), 1);
        let fresh = pool.take(minutes(2), None, &mut random);
        let another = ServerSession::new(minutes(40), &mut random, 0);
        pool.put_back(minutes(2), Some(30), fresh);
        pool.put_back(minutes(40), Some(30), another);
        assert_eq!(pool.len(), 1, "giving one back forgets what became too old");
    }

    #[test]
    fn behind_a_load_balancer_sessions_do_not_time_out() {
        // Behind a load balancer the timeout of sessions is ignored (LB-22).
        let (mut pool, mut random) = (SessionPool::new(), random());
        let session = pool.take(Instant::ZERO, None, &mut random);
        let id = session.id;
        pool.put_back(Instant::ZERO, None, session);
        assert_eq!(pool.take(minutes(10_000), None, &mut random).id, id);
    }

    #[test]
    fn session_ids_are_drained_in_batches_and_the_pool_is_bounded() {
        let (mut pool, mut random) = (SessionPool::new(), random());
        for _ in 0..=MAX_POOLED_SESSIONS {
            let session = ServerSession::new(Instant::ZERO, &mut random, 0);
            pool.put_back(Instant::ZERO, Some(30), session);
        }
        assert_eq!(pool.len(), MAX_POOLED_SESSIONS);
        assert_eq!(pool.drain(usize::MAX).len(), END_SESSIONS_BATCH);
        assert_eq!(pool.drain(3).len(), 3);
        while !pool.is_empty() {
            assert!(!pool.drain(END_SESSIONS_BATCH).is_empty());
        }
    }

    #[test]
    fn transaction_numbers_only_grow() {
        let mut session = ServerSession::new(Instant::ZERO, &mut random(), 0);
        assert_eq!(
            (session.next_txn_number(), session.next_txn_number()),
            (1, 2)
        );
    }
}
