//! Checks that each server has at most one check at a time.

use super::ensure;
use onionskin_core::{
    address::Address,
    event::{Event, EventKind, SdamEvent},
};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct MonitorChecker {
    /// The monitored servers. The value is true while a check is in progress.
    checking: BTreeMap<Address, bool>,
}

impl MonitorChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let EventKind::Sdam(event) = &event.kind else {
            return Ok(());
        };
        match event {
            SdamEvent::ServerOpening { address, .. } => {
                let is_new = self.checking.insert(address.clone(), false).is_none();
                ensure(is_new, || format!("{address} opened twice"))?;
            }
            SdamEvent::ServerClosed { address, .. } => {
                let was_there = self.checking.remove(address).is_some();
                ensure(was_there, || format!("{address} closed, and was not open"))?;
            }
            SdamEvent::HeartbeatStarted { address, .. } => match self.checking.get_mut(address) {
                None => return Err(format!("{address} is checked without being monitored")),
                Some(true) => return Err(format!("two checks of {address} at once")),
                Some(checking) => *checking = true,
            },
            SdamEvent::HeartbeatSucceeded { address, .. }
            | SdamEvent::HeartbeatFailed { address, .. } => match self.checking.get_mut(address) {
                Some(checking) if *checking => *checking = false,
                _ => return Err(format!("a check of {address} ended that never started")),
            },
            _ => {}
        }
        Ok(())
    }
}
