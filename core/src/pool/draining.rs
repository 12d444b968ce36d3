//! Connections that were checked in before their reply was there.
//!
//! An operation that ends at its time limit, or whose caller leaves, costs its connection nothing
//! but the time until the reply has come: where connections were closed instead, a slow server
//! would be asked for a new one with each operation that does not wait for it. This goes beyond the
//! letter of CMAP-27, which counts a time limit of the driver's among the errors. Meanwhile the
//! connection counts (CMAP-42) and is handed to nobody.

use super::{ConnectionId, Place, Pool};
use crate::{arena::Slot, event::CloseReason, time::Instant};

impl<C> Pool<C> {
    /// The outstanding reply of this connection has come and is gone: the next one who asks may
    /// have it. One that was not drained by then is closed by
    /// [`handle_idle_closed`](Self::handle_idle_closed).
    pub fn handle_drained(&mut self, now: Instant, connection: ConnectionId, content: C) {
        let Some(slot) = self.find(connection) else {
            return;
        };
        if !matches!(self.connections.get(slot).place, Place::Draining) {
            return;
        }
        if self.is_stale(slot) {
            self.close(slot, CloseReason::Stale, None);
        } else {
            self.draining -= 1;
            self.make_available(now, slot, content);
        }
        self.settle(now);
    }

    pub(super) fn begin_draining(&mut self, slot: Slot) {
        self.connections.get_mut(slot).place = Place::Draining;
        self.draining += 1;
    }

    /// A clear made some of them stale: true if there are any.
    pub(super) const fn note_stale_draining(&mut self) -> bool {
        self.is_draining_stale = self.draining > 0;
        self.is_draining_stale
    }

    /// Closes those of before the last clear: nobody will use them, and they take up room. Who
    /// waits has it before `minPoolSize`.
    pub(super) fn close_stale_draining(&mut self, now: Instant) {
        if !std::mem::take(&mut self.is_draining_stale) {
            return;
        }
        for connection in self.numbers(|place| matches!(place, Place::Draining)) {
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
