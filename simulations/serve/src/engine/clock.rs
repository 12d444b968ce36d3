//! The time of the event loop.

use onionskin_core::time::Instant;

/// The time of the event loop, which is zero at its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(tokio::time::Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(super) fn now(self) -> Instant {
        let elapsed = self.0.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    pub(super) fn at(self, time: Instant) -> tokio::time::Instant {
        self.0 + time.since_start()
    }
}
