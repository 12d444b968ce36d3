//! What other drivers have a thread for: keeping `minPoolSize`, closing what is stale or idle.

use super::{ConnectionId, Place, Pool, PoolState};
use crate::{arena::Slot, event::CloseReason, time::Instant};
use std::time::Duration;

/// How long population pauses after a connection could not be established or was closed by the
/// peer while unused. Without it a server that refuses connections, but is not in doubt (CMAP-44),
/// would be asked as fast as the network allows.
pub const POPULATION_PAUSE: Duration = Duration::from_secs(1);

/// The smallest step of time: idle means unused for longer than the limit, not just as long.
const TICK: Duration = Duration::from_nanos(1);

impl<C> Pool<C> {
    /// Does what is due: requests that waited too long fail, and a background run closes perished
    /// connections and makes new ones for `minPoolSize` (CMAP-107, CMAP-109). Harmless before the
    /// deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire_requests(now);
        if self.state == PoolState::Closed {
            return;
        }
        // Also while paused (CMAP-111). The oldest come first in the list, and what was made
        // before a clear is older than what was made after it.
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

    /// True for a connection that is made because there are fewer than `minPoolSize`, and not for a
    /// request (CMAP-154).
    #[must_use]
    pub fn is_population(&self, connection: ConnectionId) -> bool {
        self.populating == Some(connection)
    }

    /// Why an available connection must not be handed out any more (CMAP-25, CMAP-26).
    pub(super) fn perished(&self, now: Instant, slot: Slot) -> Option<CloseReason> {
        if self.is_stale(slot) {
            return Some(CloseReason::Stale);
        }
        let expiry = self.idle_expiry(slot)?;
        (expiry <= now).then_some(CloseReason::Idle)
    }

    /// When the oldest available connection becomes idle.
    pub(super) fn next_idle(&self) -> Option<Instant> {
        self.available
            .first()
            .and_then(|slot| self.idle_expiry(slot))
    }

    /// Arms the next background run if connections are missing.
    pub(super) fn schedule(&mut self, now: Instant) {
        if self.background.is_none() && self.wants_population() {
            self.background = Some(now.max(self.populate_from));
        }
    }

    pub(super) fn postpone_population(&mut self, now: Instant) {
        self.populate_from = self.populate_from.max(now + POPULATION_PAUSE);
    }

    /// CMAP-67 to CMAP-69.
    fn wants_population(&self) -> bool {
        self.connections.len() < self.options.min_size
            && self.state == PoolState::Ready
            && self.populating.is_none()
            && self.has_room()
    }

    fn idle_expiry(&self, slot: Slot) -> Option<Instant> {
        let limit = self.options.max_idle.filter(|limit| !limit.is_zero())?;
        match self.connections.get(slot).place {
            Place::Available { since, .. } => Some(since + limit + TICK),
            _ => None,
        }
    }
}
