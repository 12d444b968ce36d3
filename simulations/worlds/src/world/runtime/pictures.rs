//! The pictures of a run with the async client.

use super::Executor;
use crate::world::picture::Picture;
use onionskin_core::{event::EventKind, time::Instant};

impl Executor {
    /// Keeps a picture of the run from now on, if it did not before.
    pub fn keep_picture(&self) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        state.trace.keep_picture();
        state.network.show(state.now, &mut state.trace);
    }

    /// True if the run has a picture.
    pub fn has_picture(&self) -> bool {
        self.shared.lock().trace.picture().is_some()
    }

    /// Returns the picture of the run until now; `None` if none is kept.
    #[must_use]
    pub fn picture(&self) -> Option<Picture> {
        let state = self.shared.lock();
        let mut picture = state.trace.picture().cloned()?;
        picture.finish(state.now);
        Some(picture)
    }

    /// Adds an event of a client to the picture.
    pub fn show(&self, at: Instant, client: usize, event: &EventKind) {
        self.shared.lock().trace.show(at, client, event);
    }

    /// Returns the digest of the trace so far.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.shared.lock().trace.digest()
    }
}
