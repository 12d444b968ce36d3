//! Checks that no command starts on a connection after a clear has interrupted it.

use onionskin_core::{
    address::Address,
    event::{CommandEvent, Event, EventKind, PoolEvent},
    time::Instant,
};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct InterruptionChecker {
    pools: BTreeMap<Address, Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    /// The id of the newest connection.
    newest: u64,
    /// The time of the latest clear with interruption, and the id of the newest connection at that
    /// time.
    interrupted: Option<(Instant, u64)>,
}

impl InterruptionChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        match &event.kind {
            EventKind::Pool(PoolEvent::Created { address, .. }) => {
                self.pools.insert(address.clone(), Pool::default());
            }
            EventKind::Pool(PoolEvent::ConnectionCreated {
                address,
                connection,
                ..
            }) => {
                self.pools.entry(address.clone()).or_default().newest = *connection;
            }
            EventKind::Pool(PoolEvent::Cleared {
                address,
                interrupt_in_use: true,
                ..
            }) => {
                let pool = self.pools.entry(address.clone()).or_default();
                pool.interrupted = Some((event.at, pool.newest));
            }
            EventKind::Command(CommandEvent::Started { facts, .. }) => {
                let pool = self.pools.get(&facts.address);
                let connection = facts.driver_connection_id;
                // A command that starts at the same time as the clear may have started before it.
                if let Some((at, newest)) = pool.and_then(|pool| pool.interrupted)
                    && connection <= newest
                    && at < event.at
                {
                    return Err(format!(
                        "{} starts at {} on connection {connection} to {}, which was interrupted \
                         at {at}",
                        facts.name, event.at, facts.address
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
