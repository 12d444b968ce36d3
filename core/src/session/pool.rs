//! The pool of server sessions.

use crate::{random::Random, time::Instant};
use std::{collections::VecDeque, time::Duration};

/// How many ids one `endSessions` command carries at most; the limit of the specification.
pub const END_SESSIONS_BATCH: usize = 10_000;

/// The most unused sessions that are kept. A burst of more operations than this at once makes the
/// oldest ones be forgotten; the server ends them by itself.
pub const MAX_POOLED_SESSIONS: usize = 100_000;

/// A session closer to its end than this is not used again: it could end on the way.
const SAFETY_MARGIN: Duration = Duration::from_secs(60);

/// A session as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSession {
    /// A random (version 4) UUID, the id on the wire.
    pub id: [u8; 16],
    /// The number of the latest transaction or retryable write; none yet while zero.
    pub txn_number: i64,
    last_use: Instant,
    dirty: bool,
    /// The pool's number when it was made.
    process: u32,
}

impl ServerSession {
    fn new(now: Instant, random: &mut Random, process: u32) -> Self {
        let mut id = [0; 16];
        random.fill(&mut id);
        // RFC 4122, section 4.4: version and variant.
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

    /// A command with this session is being sent: its time on the server starts again.
    pub fn handle_use(&mut self, now: Instant) {
        self.last_use = self.last_use.max(now);
    }

    /// A command with this session met a network error: whether the server still works on it is
    /// not known, so that it must not be used again.
    pub fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    /// The number for the next transaction or retryable write.
    pub fn next_txn_number(&mut self) -> i64 {
        self.txn_number += 1;
        self.txn_number
    }

    /// Whether it must not be used again.
    #[must_use]
    pub const fn is_dirty(&self) -> bool {
        self.dirty
    }

    fn is_about_to_end(&self, now: Instant, timeout_minutes: Option<i64>) -> bool {
        let Some(minutes) = timeout_minutes else {
            return false;
        };
        let minutes = u64::try_from(minutes).unwrap_or(0);
        let lifetime = Duration::from_secs(minutes.saturating_mul(60));
        now.saturating_since(self.last_use) + SAFETY_MARGIN > lifetime
    }
}

/// The sessions that nobody uses at the moment. The latest given back is the first taken, so that
/// surplus sessions end by age.
///
/// ```
/// use onionskin_core::{random::Seed, session::SessionPool, time::Instant};
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
    /// Oldest first.
    sessions: VecDeque<ServerSession>,
    /// How many forks lie behind it.
    process: u32,
}

impl SessionPool {
    /// An empty pool.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sessions: VecDeque::new(),
            process: 0,
        }
    }

    /// A session for an operation: the one given back last, or a new one.
    ///
    /// `timeout_minutes` is the topology's `logicalSessionTimeoutMinutes`; behind a load balancer
    /// it is ignored (LB-22), so that `None` has to be given.
    #[must_use = "a session that is not put back is lost"]
    pub fn take(
        &mut self,
        now: Instant,
        timeout_minutes: Option<i64>,
        random: &mut Random,
    ) -> ServerSession {
        match self.sessions.pop_back() {
            Some(session) if !session.is_about_to_end(now, timeout_minutes) => session,
            found => {
                // This was the youngest; all below it are older.
                if found.is_some() {
                    self.forget_old(now, timeout_minutes);
                }
                ServerSession::new(now, random, self.process)
            }
        }
    }

    /// The process was forked, and this is the child: the sessions are its parent's, also those
    /// that somebody here still holds.
    pub fn handle_forked(&mut self) {
        self.sessions.clear();
        self.process = self.process.wrapping_add(1);
    }

    /// True if the session was made by this process, and not by one that it was forked from.
    #[must_use]
    pub const fn has_made(&self, session: &ServerSession) -> bool {
        session.process == self.process
    }

    /// Takes a session back, unless it is dirty, about to end, or of a parent process.
    pub fn put_back(&mut self, now: Instant, timeout_minutes: Option<i64>, session: ServerSession) {
        self.forget_old(now, timeout_minutes);
        if session.is_dirty()
            || !self.has_made(&session)
            || session.is_about_to_end(now, timeout_minutes)
        {
            return;
        }
        if self.sessions.len() >= MAX_POOLED_SESSIONS {
            self.sessions.pop_front();
        }
        self.sessions.push_back(session);
    }

    /// Takes out up to `max` ids (and never more than one command carries) for `endSessions`. The
    /// client is done when nothing is left.
    #[must_use = "these sessions are no longer in the pool"]
    pub fn drain(&mut self, max: usize) -> Vec<[u8; 16]> {
        let count = max.min(END_SESSIONS_BATCH).min(self.sessions.len());
        self.sessions.drain(..count).map(|s| s.id).collect()
    }

    /// How many sessions are unused.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether no session is unused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Forgets sessions that are about to end, from the oldest end on.
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
    fn the_latest_session_is_used_first() {
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
    fn an_id_is_a_random_uuid() {
        let (mut pool, mut random) = (SessionPool::new(), random());
        for _ in 0..100 {
            let id = pool.take(Instant::ZERO, None, &mut random).id;
            assert_eq!((id[6] >> 4, id[8] >> 6), (4, 2));
        }
    }

    #[test]
    fn a_session_within_a_minute_of_its_end_is_not_used() {
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
    fn sessions_of_a_parent_are_neither_kept_nor_taken_back() {
        let (mut pool, mut random) = (SessionPool::new(), random());
        let [held, kept] = [(); 2].map(|()| pool.take(Instant::ZERO, Some(30), &mut random));
        pool.put_back(Instant::ZERO, Some(30), kept);
        pool.handle_forked();
        assert!(pool.is_empty());
        pool.put_back(Instant::ZERO, Some(30), held);
        assert!(pool.is_empty());
        let own = pool.take(Instant::ZERO, Some(30), &mut random);
        pool.put_back(Instant::ZERO, Some(30), own);
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn a_use_starts_the_time_again() {
        let (mut pool, mut random) = (SessionPool::new(), random());
        let mut session = pool.take(Instant::ZERO, Some(30), &mut random);
        session.handle_use(minutes(20));
        let id = session.id;
        pool.put_back(minutes(20), Some(30), session);
        assert_eq!(pool.take(minutes(45), Some(30), &mut random).id, id);
    }

    #[test]
    fn dirty_and_old_sessions_are_not_taken_back() {
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
    fn behind_a_load_balancer_sessions_do_not_age() {
        // LB-22
        let (mut pool, mut random) = (SessionPool::new(), random());
        let session = pool.take(Instant::ZERO, None, &mut random);
        let id = session.id;
        pool.put_back(Instant::ZERO, None, session);
        assert_eq!(pool.take(minutes(10_000), None, &mut random).id, id);
    }

    #[test]
    fn ids_are_drained_in_batches_and_the_pool_is_bounded() {
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
