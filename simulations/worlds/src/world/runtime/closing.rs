//! The shutdowns at the end of a run, with their time limit.

use super::SimRuntime;
use crate::world::{
    options::WorldOptions,
    report::{Failure, FailureKind},
};
use onionskin::Client;
use std::time::Duration;

/// The longest shutdown of a client after a calm run, without the latencies. Monitors that wait for
/// their next check, or for the reply to an awaitable `hello`, do not prolong it.
const CALM: Duration = Duration::from_secs(2);

/// The longest shutdown otherwise: connections that broke before healing can take the time that the
/// client has for it.
const OTHERWISE: Duration = Duration::from_secs(11);

/// Returns the longest time that the shutdown of a client may take.
pub(super) fn longest(options: &WorldOptions) -> Duration {
    match options.is_calm() {
        true => CALM + 4 * options.max_latency,
        false => OTHERWISE,
    }
}

/// Shuts clients down, one after the other. Fails if one needs more than `longest`, without the
/// time during which the process is frozen.
pub(super) async fn shut_down(
    runtime: &SimRuntime,
    clients: &[Client<SimRuntime>],
    longest: Duration,
) -> Result<(), Failure> {
    for (number, client) in clients.iter().enumerate() {
        let begin = runtime.shared.lock().now;
        client.clone().shutdown().await;
        let state = runtime.shared.lock();
        let (end, frozen) = (state.now, state.paused(begin, state.now));
        if end > begin + longest + frozen {
            let message = format!("the shutdown of client {number} took too long");
            return Err(Failure::new(FailureKind::Liveness, end, message));
        }
    }
    Ok(())
}
