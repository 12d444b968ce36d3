//! Measures round trips while the monitor's own connection waits for pushed replies (MON-45).

use super::{
    action::{MonitorConnectionId, MonitorTask},
    outbox::Outbox,
    timers::Timer,
};
use crate::{address::Address, description::ServerId, hello::HelloReply, time::Instant};

/// A second connection that says hello at the pace of the heartbeat. Nothing that happens to it is
/// an event or changes a description (MON-48, MON-54).
#[derive(Clone, Debug)]
pub(super) struct RttMonitor {
    connection: Option<MonitorConnectionId>,
    busy: bool,
    hello_ok: bool,
}

impl RttMonitor {
    /// The first measurement begins at once.
    pub(super) fn start(now: Instant, out: &mut Outbox, id: ServerId, address: &Address) -> Self {
        let mut rtt_monitor = Self {
            connection: None,
            busy: false,
            hello_ok: false,
        };
        rtt_monitor.ping(now, out, id, address);
        rtt_monitor
    }

    /// Asks once more, on a new connection if there is none.
    pub(super) fn ping(&mut self, now: Instant, out: &mut Outbox, id: ServerId, address: &Address) {
        self.busy = true;
        match self.connection {
            Some(check) => out.send_hello(check, self.hello_ok, None),
            None => {
                let check = out.reserve(id);
                self.connection = Some(check);
                self.hello_ok = false;
                out.open(check, id, address, MonitorTask::Rtt);
            }
        }
        if let Some(limit) = out.check_limit(false) {
            out.timers.set(Timer::RttLimit(id), now + limit);
        }
    }

    /// True if the answer is a measurement.
    pub(super) fn on_reply(
        &mut self,
        now: Instant,
        out: &mut Outbox,
        id: ServerId,
        hello: &HelloReply,
    ) -> bool {
        if !self.busy {
            return false;
        }
        if !hello.ok {
            self.on_failed(now, out, id);
            return false;
        }
        self.hello_ok = hello.hello_ok;
        self.rest(now, out, id);
        true
    }

    /// The connection broke or took too long: the next measurement makes another.
    pub(super) fn on_failed(&mut self, now: Instant, out: &mut Outbox, id: ServerId) {
        if let Some(check) = self.connection.take() {
            out.close(check);
        }
        if self.busy {
            self.rest(now, out, id);
        }
    }

    /// Ends it.
    pub(super) fn stop(self, out: &mut Outbox, id: ServerId) {
        out.timers.cancel(Timer::RttLimit(id));
        out.timers.cancel(Timer::RttPace(id));
        if let Some(check) = self.connection {
            out.close(check);
        }
    }

    pub(super) fn owns(&self, check: MonitorConnectionId) -> bool {
        self.connection == Some(check)
    }

    fn rest(&mut self, now: Instant, out: &mut Outbox, id: ServerId) {
        self.busy = false;
        out.timers.cancel(Timer::RttLimit(id));
        out.timers
            .set(Timer::RttPace(id), now + out.heartbeat_frequency);
    }
}
