//! Checks that each server has at most one check at a time, and that checks keep their distance.

use super::ensure;
use onionskin_core::{
    address::Address,
    event::{Event, EventKind, SdamEvent},
    time::Instant,
};
use std::{collections::BTreeMap, time::Duration};

/// The shortest time between the starts of two checks of a server (`minHeartbeatFrequencyMS`).
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct MonitorChecker {
    monitors: BTreeMap<Address, Monitor>,
}

/// The checks of a server so far.
#[derive(Debug, Default)]
struct Monitor {
    is_checking: bool,
    /// The start of the last check.
    started: Option<Instant>,
    /// How many checks have failed since the last one that succeeded, if one has.
    failures: Option<usize>,
}

impl Monitor {
    /// True if a check may start. The server chooses when an awaited one ends, and the first
    /// failure of a known server is followed by another check at once.
    fn may_start(&self, now: Instant, is_awaited: bool) -> bool {
        let is_soon = |last| now < last + SHORTEST_PAUSE;
        is_awaited || self.failures == Some(1) || !self.started.is_some_and(is_soon)
    }

    fn end(&mut self, failed: bool) -> bool {
        self.failures = match failed {
            true => self.failures.map(|count| count + 1),
            false => Some(0),
        };
        std::mem::replace(&mut self.is_checking, false)
    }
}

impl MonitorChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let now = event.at;
        let EventKind::Sdam(event) = &event.kind else {
            return Ok(());
        };
        match event {
            SdamEvent::ServerOpening { address, .. } => {
                let old = self.monitors.insert(address.clone(), Monitor::default());
                ensure(old.is_none(), || format!("{address} opened twice"))?;
            }
            SdamEvent::ServerClosed { address, .. } => {
                let was_there = self.monitors.remove(address).is_some();
                ensure(was_there, || format!("{address} closed, and was not open"))?;
            }
            SdamEvent::HeartbeatStarted {
                address, awaited, ..
            } => {
                let Some(monitor) = self.monitors.get_mut(address) else {
                    return Err(format!("{address} is checked without being monitored"));
                };
                let is_second = std::mem::replace(&mut monitor.is_checking, true);
                ensure(!is_second, || format!("two checks of {address} at once"))?;
                ensure(monitor.may_start(now, *awaited), || {
                    format!("{address} is checked again too soon: {monitor:?}")
                })?;
                monitor.started = Some(now);
            }
            SdamEvent::HeartbeatSucceeded { address, .. }
            | SdamEvent::HeartbeatFailed { address, .. } => {
                let failed = matches!(event, SdamEvent::HeartbeatFailed { .. });
                let monitor = self.monitors.get_mut(address);
                ensure(monitor.is_some_and(|m| m.end(failed)), || {
                    format!("a check of {address} ended that never started")
                })?;
            }
            _ => {}
        }
        Ok(())
    }
}
