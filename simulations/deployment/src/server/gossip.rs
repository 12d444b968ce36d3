//! The cluster times that clients and routers send with their requests.

use super::{
    Member,
    commands::type_name,
    connection::Request,
    fault::{Fault, fault},
};
use bson::{Bson, Document, Timestamp};
use onionskin_core::time::Instant;

/// The time by which a cluster time may be ahead of the wall clock:
/// `maxAcceptableLogicalClockDriftSecs`, a year.
const MAX_DRIFT_SECONDS: u64 = 31_536_000;

impl Member {
    /// Checks the cluster time of a request. A shard notes it, if there are several shards, and so
    /// does each member of a set once a wall clock has jumped. A standalone ignores it.
    pub(super) fn note_gossip(&mut self, now: Instant, request: &Request) -> Result<(), Fault> {
        let Ok(gossip) = request.command.get_document("$clusterTime") else {
            return Ok(());
        };
        if !self.is_set() && !self.is_router() {
            return Ok(());
        }
        let time = time_of(gossip)?;
        let seconds = self.wall_millis(now) / 1000;
        if u64::from(time.time) > seconds + MAX_DRIFT_SECONDS {
            let text = format!(
                "new cluster time, {}, is too far from this node's wall clock time, {seconds}.",
                time.time
            );
            return Err(fault(205, text));
        }
        if self.is_router() {
            self.routing.note_gossip(time);
        }
        let is_one_of_several = self.shard.is_some() && self.options.shards > 1;
        if is_one_of_several || self.replica.clocks_may_differ() {
            self.replica.note_time(time);
        }
        Ok(())
    }
}

/// Returns the time of a `$clusterTime`.
fn time_of(gossip: &Document) -> Result<Timestamp, Fault> {
    match gossip.get("clusterTime") {
        Some(Bson::Timestamp(time)) => Ok(*time),
        None | Some(Bson::Null | Bson::Undefined) => {
            let text = "BSON field '$clusterTime.clusterTime' is missing but a required field";
            Err(fault(40414, text))
        }
        Some(other) => {
            let text = format!(
                "BSON field '$clusterTime.clusterTime' is the wrong type '{}', expected type \
                 'timestamp'",
                type_name(other)
            );
            Err(fault(14, text))
        }
    }
}
