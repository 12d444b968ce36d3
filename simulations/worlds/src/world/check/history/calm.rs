//! Checks that nothing fails in a world without faults.

use crate::world::{
    report::{Failure, FailureKind},
    workload::{Ending, History},
};
use onionskin_core::time::Instant;
use std::time::Duration;

/// The time after which each client of a world without faults knows the servers.
const DISCOVERY: Duration = Duration::from_secs(1);

/// Checks that no operation fails in a world without faults, except by a timeout. Server selection
/// may time out only while clients look for the servers.
pub fn check_calm(history: &History) -> Result<(), Failure> {
    for entry in history.entries() {
        if let Some((at, Ending::Failed(error))) = &entry.ended
            && (!error.is_timeout()
                || error.is_server_selection() && *at > Instant::ZERO + DISCOVERY)
        {
            let message = format!("an operation failed without cause: {entry}");
            return Err(Failure::new(FailureKind::Correctness, *at, message));
        }
    }
    Ok(())
}
