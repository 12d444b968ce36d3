//! What an operation keeps of the topology description by which its server was selected. The
//! description may be another one by the time the command is sent.

use super::{Client, waiting::criteria};
use crate::{
    description::ServerId,
    operation::{CommandKind, Operation},
};
use std::time::Duration;

impl Client {
    /// Keeps the server's shortest round trip time, for the time limit of the command (SEL-59), and
    /// whether an aggregation that writes goes to the primary although it wants another server
    /// (SEL-34). Operations of other kinds without a deadline keep nothing.
    pub(super) fn note_selected(&self, operation: &mut Operation, server: ServerId) {
        if operation.deadline.is_some() {
            let known = self.sdam.server(server);
            operation.min_round_trip = known.map_or(Duration::ZERO, |s| s.min_round_trip_time);
        }
        if operation.command.kind == CommandKind::WritingAggregate {
            let criteria = criteria(operation, &self.limits.primary);
            let chosen_by = criteria.read_preference(self.sdam.description());
            operation.is_for_primary = chosen_by.is_some_and(|preference| preference.is_primary());
        }
    }
}
