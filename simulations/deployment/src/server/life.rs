//! The start and the end of a member's process, and its step-downs.

use super::{
    CATCH_UP_PERIOD, Member, Output, admission::Admission, overload::Overload, router::Routing,
    transaction::Transactions,
};
use crate::deployment::ConnId;
use onionskin_core::time::Instant;
use std::time::Duration;

impl Member {
    pub(crate) const fn is_up(&self) -> bool {
        self.up
    }

    /// True if the data of this member does not fit the oplog of its primary, so that it must not
    /// run.
    pub(crate) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Fails as after an entry that does not fit.
    #[cfg(test)]
    pub(crate) const fn fail(&mut self) {
        self.has_failed = true;
    }

    /// True if this member is stopped and can start again.
    pub(crate) const fn may_restart(&self) -> bool {
        !self.up && !self.has_failed
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self) {
        self.up = false;
        self.is_frozen = false;
        self.outputs
            .retain(|o| matches!(o, Output::Report(_) | Output::Close(_)));
        for (conn, connection) in &mut self.connections {
            connection.out = Vec::new();
            connection.pending = None;
            connection.apart = None;
            if !std::mem::replace(&mut connection.closing, true) {
                self.outputs.push_back(Output::Close(*conn));
            }
        }
        self.replica.sent.clear();
        self.replica.events.clear();
        self.timers.clear();
        self.waiting.clear();
        self.hellos.clear();
        self.stepping_down = None;
        self.quiesces_until = None;
        self.cursors.clear();
        self.transactions = Transactions::default();
        self.commits.clear();
        self.end_fail_points();
        self.kept_view = None;
        self.expires_at = None;
        self.expiring = None;
        self.admission = Admission::default();
        self.overload = Overload::default();
        self.routing = Routing::default();
    }

    /// Closes all client connections.
    pub(crate) fn disconnect(&mut self) {
        let open: Vec<ConnId> = self.connections.keys().copied().collect();
        for conn in open {
            self.close(conn);
        }
    }

    pub(crate) fn restart(&mut self, now: Instant) {
        self.replica.restart(now);
        // They can have been set while the process was not running.
        self.overload = Overload::default();
        self.end_fail_points();
        self.up = true;
        self.begin_life(now);
        self.schedule_expiry(now);
    }

    /// Turns all fail points off.
    pub(super) fn end_fail_points(&mut self) {
        self.fail_points.clear();
        self.replica.set_producing(true);
    }

    /// Starts a step-down. Returns false if this member is not the primary of a replica set, or is
    /// already stepping down.
    pub(crate) fn step_down(&mut self, now: Instant, period: Duration) -> bool {
        self.is_set()
            && self
                .replica
                .step_down(now, period, CATCH_UP_PERIOD, false)
                .is_ok()
    }

    /// Makes this member, the only one of its set, step down and become primary again. Returns
    /// false if it is not the primary.
    pub(crate) fn fail_over(&mut self, now: Instant) -> bool {
        let stepped = self
            .replica
            .step_down(now, Duration::ZERO, Duration::ZERO, true);
        self.replica.handle_timeout(now);
        self.replica.freeze(now, Duration::ZERO);
        stepped.is_ok()
    }

    /// Moves the wall clock forward, or back if `millis` is negative.
    pub(crate) fn jump_clock(&mut self, now: Instant, millis: i64) {
        self.replica.jump_clock(now, millis);
    }

    /// Notes that the wall clocks of the members may differ from now on.
    pub(crate) const fn let_clocks_differ(&mut self) {
        self.replica.let_clocks_differ();
    }

    /// Limits the number of client connections; `None` for the number of the options. Connections
    /// that are open stay.
    pub(crate) fn limit_connections(&mut self, most: Option<usize>) {
        let given = self.options.limits.max_connections;
        self.max_connections = most.map_or(given, |most| most.min(given));
    }

    /// Gives the member the identity of a new process, and the release that is installed.
    pub(super) fn begin_life(&mut self, now: Instant) {
        self.program.start();
        let release = self.release();
        self.replica.store_mut().set_release(release);
        self.started = now;
        (self.counter, self.connected) = (0, 0);
        self.routing.times = None;
        let wall = self.wall_millis(now);
        self.random.fill(&mut self.ids.unique);
        self.process_id = self.ids.next(wall);
        self.service_id = self.ids.next(wall);
    }
}
