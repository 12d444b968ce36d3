//! The estimate of how stale a secondary is (Max Staleness).

use crate::{
    description::{ServerDescription, ServerType, TopologyDescription},
    error::Error,
    options::ReadPreference,
    time::whole_seconds,
};
use std::{sync::Arc, time::Duration};

/// `idleWritePeriodMS`: the interval at which an idle primary writes to its oplog, so that
/// secondaries have a recent last write ([SEL-9]).
///
/// [SEL-9]: crate::requirements::server_selection#SEL-9
pub const IDLE_WRITE_PERIOD: Duration = Duration::from_secs(10);

/// `smallestMaxStalenessSeconds`: the smallest maximum staleness that is allowed ([SEL-9]).
///
/// [SEL-9]: crate::requirements::server_selection#SEL-9
pub const SMALLEST_MAX_STALENESS: Duration = Duration::from_secs(90);

/// Fails if the maximum staleness is smaller than [`SMALLEST_MAX_STALENESS`], or than
/// `heartbeat_frequency` plus [`IDLE_WRITE_PERIOD`] (STALE-6). The check applies to replica sets
/// only (STALE-7).
pub(super) fn validate(
    description: &TopologyDescription,
    preference: &ReadPreference,
    heartbeat_frequency: Duration,
) -> Result<(), Error> {
    let Some(limit) = preference.max_staleness() else {
        return Ok(());
    };
    let smallest =
        SMALLEST_MAX_STALENESS.max(heartbeat_frequency.saturating_add(IDLE_WRITE_PERIOD));
    if !description.topology_type.is_replica_set() || limit >= smallest {
        return Ok(());
    }
    Err(Error::invalid_option(
        "maxStalenessSeconds",
        format!(
            "{} s is too small; with heartbeatFrequencyMS {} the minimum is {} ms",
            whole_seconds(limit),
            heartbeat_frequency.as_millis(),
            smallest.as_millis()
        ),
    ))
}

/// Removes the secondaries that are too stale (STALE-8 to STALE-10).
pub(super) fn retain_fresh(
    description: &TopologyDescription,
    preference: &ReadPreference,
    heartbeat_frequency: Duration,
    candidates: &mut Vec<&Arc<ServerDescription>>,
) {
    let Some(limit) = preference.max_staleness() else {
        return;
    };
    // The reference is the primary or, without one, the most recent write of any secondary. The
    // whole topology is searched, because the candidates can lack both.
    let reference = match description.primary() {
        Some(primary) => lag(primary),
        None => {
            let servers = description.servers.values();
            let secondaries = servers.filter(|s| s.server_type == ServerType::RsSecondary);
            -secondaries.map(|s| write_nanos(s)).max().unwrap_or(0)
        }
    };
    let has_primary = description.primary().is_some();
    candidates.retain(|server| {
        if server.server_type != ServerType::RsSecondary {
            return true;
        }
        let own = if has_primary {
            lag(server)
        } else {
            -write_nanos(server)
        };
        own - reference + nanos(heartbeat_frequency) <= nanos(limit)
    });
}

/// Returns the time from the last write of a server to the last update of its description, in
/// nanoseconds. The two times come from different clocks, of the server and of the client. So only
/// the difference between the values of two servers is meaningful.
fn lag(server: &ServerDescription) -> i128 {
    let updated = server
        .last_update_time
        .map_or(0, |t| i128::from(t.as_nanos()));
    updated - write_nanos(server)
}

/// Returns the date of the last write, in nanoseconds since 1970; 0 without one.
fn write_nanos(server: &ServerDescription) -> i128 {
    let millis = server.last_write_date.map_or(0, |t| t.as_unix_millis());
    i128::from(millis) * 1_000_000
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 4)
}
