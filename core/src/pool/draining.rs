//! Draining: connections that were checked in while a reply was outstanding.
//!
//! An operation may end before its reply arrives, at its time limit or because its caller drops it.
//! Its connection can then be checked in with `Condition::ReplyDue`, and becomes available after
//! the late reply was read and dropped. If the connection were closed instead, a slow server would
//! get a new connection for each operation that ends early.
//!
//! Draining differs from the text of CMAP-27, which rules out further use of a connection after a
//! timeout of the driver. A draining connection counts towards `maxPoolSize` (CMAP-42) and is not
//! handed out.

use super::{ConnectionId, ConnectionState, Pool};
use crate::{arena::Slot, event::CloseReason, time::Instant};

impl<C> Pool<C> {
    /// Makes a draining connection available, after its late reply was read and dropped. A stale
    /// connection is closed instead.
    ///
    /// If the reply does not arrive in time, the caller calls
    /// [`handle_idle_closed`](Self::handle_idle_closed) instead.
    pub fn handle_drained(&mut self, now: Instant, connection: ConnectionId, content: C) {
        let Some(slot) = self.find(connection) else {
            return;
        };
        if !matches!(self.connections.get(slot).state, ConnectionState::Draining) {
            return;
        }
        if self.is_stale(slot) {
            self.close(slot, CloseReason::Stale, None);
        } else {
            self.draining -= 1;
            self.hand_over(now, slot, content);
        }
        self.settle(now);
    }

    pub(super) fn begin_draining(&mut self, slot: Slot) {
        self.connections.get_mut(slot).state = ConnectionState::Draining;
        self.draining += 1;
    }

    /// Notes that a clear may have made draining connections stale. Returns true if there are
    /// draining connections.
    pub(super) const fn note_stale_draining(&mut self) -> bool {
        self.is_draining_stale = self.draining > 0;
        self.is_draining_stale
    }

    /// If a clear was noted since the last call, closes stale draining connections, which count
    /// towards `maxPoolSize`. Then serves the queue, so that requests get new connections before
    /// `minPoolSize` does.
    pub(super) fn close_stale_draining(&mut self, now: Instant) {
        if !std::mem::take(&mut self.is_draining_stale) {
            return;
        }
        for connection in self.connections_in(|state| matches!(state, ConnectionState::Draining)) {
            if let Some(slot) = self.find(connection)
                && self.is_stale(slot)
            {
                self.close(slot, CloseReason::Stale, None);
            }
        }
        if !self.queue.is_empty() {
            self.serve_queue(now);
        }
    }
}
