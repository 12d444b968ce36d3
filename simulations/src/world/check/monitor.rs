//! Monitoring: one check per server at a time.

use onionskin_core::{
    address::Address,
    event::{Event, EventKind, SdamEvent},
};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct MonitorChecker {
    /// Servers that are monitored; true while a check is under way.
    checking: BTreeMap<Address, bool>,
}

impl MonitorChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let EventKind::Sdam(event) = &event.kind else {
            return Ok(());
        };
        match event {
            SdamEvent::ServerOpening { address, .. } => {
                if self.checking.insert(address.clone(), false).is_some() {
                    return Err(format!("{address} opened twice"));
                }
            }
            SdamEvent::ServerClosed { address, .. } => {
                if self.checking.remove(address).is_none() {
                    return Err(format!("{address} closed without having been opened"));
                }
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
