//! The pace of a slow member on a connection.
//!
//! The buffers of the operating system take what a client sends to a member that reads slowly,
//! until they are full. They are larger than the `window` of a scenario, which has no effect here.

use super::{Delayed, Peer};
use onionskin_core::time::Instant;
use std::time::Duration;

/// The slowness of a member towards its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Slowness {
    /// True if the member reads slowly.
    pub(in crate::engine) reads: bool,
    /// True if the member writes slowly.
    pub(in crate::engine) writes: bool,
    /// The size of a piece, in bytes.
    pub(in crate::engine) bytes: usize,
    /// The time between two pieces. `None`: the member reads nothing.
    pub(in crate::engine) pause: Option<Duration>,
}

impl Peer {
    /// Makes the member slow on this connection from now on. With `None` it is not slow any more:
    /// it reads what has arrived, and sends the rest of its replies.
    pub(in crate::engine) fn set_slowness(&self, now: Instant, slow: Option<Slowness>) {
        self.line.slow.set(slow);
        self.line.next_read.set(Instant::ZERO);
        if let Some((at, Delayed::Rest { .. })) = self.line.replies.borrow_mut().front_mut() {
            *at = now;
        }
        self.changed.notify_one();
    }

    /// True if the member reads now.
    pub(super) fn may_read(&self) -> bool {
        match self.line.slow.get().filter(|slow| slow.reads) {
            Some(slow) => slow.pause.is_some() && self.line.next_read.get() <= self.clock.now(),
            None => true,
        }
    }

    /// Returns the time at which a slow member reads again, if it does not read now.
    pub(super) fn reads_at(&self) -> Option<Instant> {
        self.line.slow.get().filter(|slow| slow.reads)?.pause?;
        Some(self.line.next_read.get()).filter(|at| *at > self.clock.now())
    }

    /// Returns how many bytes the member reads at once, at most `most`.
    pub(in crate::engine) fn read_size(&self, most: usize) -> usize {
        match self.line.slow.get().filter(|slow| slow.reads) {
            // A header of the PROXY protocol is read as a whole.
            Some(slow) if self.beginning.borrow().is_none() => slow.bytes.clamp(1, most),
            _ => most,
        }
    }

    /// Notes that the member has read. A slow one reads again after its pause.
    pub(in crate::engine) fn note_read(&self, now: Instant) {
        let slow = self.line.slow.get().filter(|slow| slow.reads);
        if let Some(pause) = slow.and_then(|slow| slow.pause) {
            self.line.next_read.set(now + pause);
        }
    }

    /// Returns the size of a piece and the time between two pieces, if the member writes slowly.
    pub(super) fn write_pace(&self) -> Option<(usize, Duration)> {
        let slow = self.line.slow.get().filter(|slow| slow.writes)?;
        Some((slow.bytes.max(1), slow.pause?))
    }

    /// Sends delayed bytes, of which the first `sent` were sent before: all of them, or the next
    /// piece if the member writes slowly.
    pub(super) fn send_piece(&self, now: Instant, bytes: Vec<u8>, sent: usize) {
        let pace = self.write_pace();
        let rest = bytes.len() - sent;
        let count = pace.map_or(rest, |(size, _)| size.min(rest));
        self.set_delayed_bytes(self.line.delayed_bytes.get() - count);
        if count == bytes.len() {
            return self.send(bytes);
        }
        let end = sent + count;
        self.send(bytes[sent..end].to_vec());
        // A connection that has broken has no delayed bytes any more.
        if let Some((_, pause)) = pace.filter(|_| end < bytes.len() && !self.closed.get()) {
            let rest = Delayed::Rest { bytes, sent: end };
            self.line
                .replies
                .borrow_mut()
                .push_front((now + pause, rest));
        }
    }

    /// Drops what a slow member has not sent, because it ends the connection.
    pub(in crate::engine) fn drop_pieces(&self) {
        if self.write_pace().is_some() {
            self.drop_delayed();
        }
    }
}
