//! Background work: keeping `minPoolSize`, and closing stale and idle connections.

use super::{ConnectionId, ConnectionState, Pool, PoolState};
use crate::{arena::Slot, event::CloseReason, time::Instant};
use std::time::Duration;

/// The time for which a pool creates no connection for `minPoolSize` after a connection could not
/// be established, or broke while it was available or draining.
///
/// The errors of a server that refuses connections can mean overload, and then do not clear the
/// pool. Without this pause, such a server would get connection attempts as fast as the network
/// allows ([CMAP-44]).
///
/// The pause ends early if the pool is cleared and marked as ready again.
///
/// [CMAP-44]: crate::requirements::pool#CMAP-44
pub const POPULATION_PAUSE: Duration = Duration::from_secs(1);

/// The resolution of [`Instant`]. A connection becomes idle one nanosecond after its limit, because
/// it must have been unused for longer than the limit (CMAP-26).
const TICK: Duration = Duration::from_nanos(1);

impl<C> Pool<C> {
    /// Does the work that is due: fails requests that waited too long, closes perished connections,
    /// and creates a connection for `minPoolSize` ([CMAP-107], [CMAP-109]).
    ///
    /// A call before the deadline is harmless.
    ///
    /// [CMAP-107]: crate::requirements::pool#CMAP-107
    /// [CMAP-109]: crate::requirements::pool#CMAP-109
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire_requests(now);
        if self.state == PoolState::Closed {
            return;
        }
        // A paused pool closes perished connections too (CMAP-111). The list is in the order in
        // which the connections became available. So idle connections, and those that a clear of
        // the whole pool made stale, come before the usable ones.
        while let Some(slot) = self.available.first()
            && let Some(reason) = self.perished(now, slot)
        {
            self.close(slot, reason, None);
        }
        self.close_stale_among_available();
        self.close_stale_draining(now);
        if self.background.is_some_and(|at| at <= now) {
            self.background = None;
        }
        if self.wants_population() && self.populate_from <= now {
            let slot = self.create(now, None);
            self.populating = Some(self.id(slot));
        }
        self.settle(now);
    }

    /// True if the pool is establishing this connection for `minPoolSize`, not for a request. Such
    /// an establishment has time limits of its own ([CMAP-154]).
    ///
    /// [CMAP-154]: crate::requirements::pool#CMAP-154
    #[must_use]
    pub fn is_population(&self, connection: ConnectionId) -> bool {
        self.populating == Some(connection)
    }

    /// Returns the reason if an available connection is stale (CMAP-25) or idle (CMAP-26).
    #[inline]
    pub(super) fn perished(&self, now: Instant, slot: Slot) -> Option<CloseReason> {
        if self.is_stale(slot) {
            return Some(CloseReason::Stale);
        }
        let expiry = self.idle_expiry(slot)?;
        (expiry <= now).then_some(CloseReason::Idle)
    }

    /// Returns the time at which the first connection in the list of available connections becomes
    /// idle. `None` if the list is empty or if there is no `maxIdleTimeMS`.
    pub(super) fn next_idle(&self) -> Option<Instant> {
        self.available
            .first()
            .and_then(|slot| self.idle_expiry(slot))
    }

    /// Schedules a background run, unless one is scheduled already, if a connection for
    /// `minPoolSize` has to be created.
    pub(super) fn schedule(&mut self, now: Instant) {
        if self.background.is_none() && self.wants_population() {
            self.background = Some(now.max(self.populate_from));
        }
    }

    /// Changes `minPoolSize`. Missing connections are created by the next call of
    /// [`handle_timeout`](Self::handle_timeout), for which a deadline is set.
    pub(crate) fn set_min_size(&mut self, min_size: u32) {
        self.options.min_size = min_size;
        self.schedule(self.populate_from);
    }

    pub(super) fn postpone_population(&mut self, now: Instant) {
        self.populate_from = self.populate_from.max(now + POPULATION_PAUSE);
    }

    /// True if a connection for `minPoolSize` is missing and can be created (CMAP-67 to CMAP-69).
    /// The pause after a failure is not considered.
    fn wants_population(&self) -> bool {
        self.connections.len() < self.options.min_size
            && self.state == PoolState::Ready
            && self.populating.is_none()
            && self.has_room()
    }

    /// Returns the time at which an available connection becomes idle. `None` if there is no
    /// `maxIdleTimeMS`, and for connections that are not available.
    fn idle_expiry(&self, slot: Slot) -> Option<Instant> {
        let limit = self.options.max_idle.filter(|limit| !limit.is_zero())?;
        match self.connections.get(slot).state {
            ConnectionState::Available { since, .. } => Some(since + limit + TICK),
            _ => None,
        }
    }
}
