//! Checks that the operations that wait for a connection are served in their order.

use super::ensure;
use onionskin_core::{
    address::Address,
    event::{Event, EventKind, PoolEvent},
    time::Instant,
};
use std::collections::{BTreeMap, BTreeSet};

/// Checks each check out of a connection that was used before: no later one started earlier.
///
/// A new connection is for the operation for which it was made, which leaves the queue for that. So
/// it can overtake others or be overtaken, and no check out is checked during which a connection
/// was made.
#[derive(Debug, Default)]
pub(super) struct FairnessChecker {
    pools: BTreeMap<Address, Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    /// The connections that were checked out before.
    used: BTreeSet<u64>,
    /// The latest start of a check out that got a connection which was used before.
    started: Instant,
    /// When the latest connection was made.
    created: Instant,
}

impl FairnessChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        let EventKind::Pool(pool_event) = &event.kind else {
            return Ok(());
        };
        match pool_event {
            PoolEvent::Created { address, .. } => {
                self.pools.insert(address.clone(), Pool::default());
            }
            PoolEvent::CheckedOut {
                address,
                connection,
                duration,
            } => {
                let pool = self.pools.entry(address.clone()).or_default();
                let started = event.at.since_start().saturating_sub(*duration);
                let started = Instant::ZERO + started;
                if pool.used.insert(*connection) || pool.created >= started {
                    return Ok(());
                }
                let before = std::mem::replace(&mut pool.started, started);
                ensure(started >= before, || {
                    format!("a check out of {started} was served after one of {before}")
                })?;
            }
            PoolEvent::ConnectionCreated { address, .. } => {
                let pool = self.pools.entry(address.clone()).or_default();
                pool.created = event.at;
            }
            _ => {}
        }
        Ok(())
    }
}
