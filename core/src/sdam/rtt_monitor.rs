//! Measures the round trip time of a server while the monitor's own connection waits for streamed
//! replies (MON-45).

use super::{
    effects::Effects,
    order::{MonitorConnectionId, MonitorTask},
    timers::Timer,
};
use crate::{address::Address, description::ServerId, hello::HelloReply, time::Instant};

/// Measures the round trip time of a server by `hello` commands on a connection of its own. The
/// replies and errors on this connection do not change the topology (MON-48) and emit no events
/// (MON-54).
#[derive(Clone, Debug)]
pub(super) struct RttMonitor {
    /// The connection, open or being opened; `None` after an error.
    connection: Option<MonitorConnectionId>,
    /// True while a measurement is running.
    busy: bool,
    /// True if the last reply on this connection had `helloOk: true`; see [`Effects::send_hello`].
    hello_ok: bool,
}

impl RttMonitor {
    /// Starts the measurements; the first one begins at once.
    pub(super) fn start(now: Instant, out: &mut Effects, id: ServerId, address: &Address) -> Self {
        let mut rtt_monitor = Self {
            connection: None,
            busy: false,
            hello_ok: false,
        };
        rtt_monitor.measure(now, out, id, address);
        rtt_monitor
    }

    /// Begins a measurement, on a new connection if there is none.
    pub(super) fn measure(
        &mut self,
        now: Instant,
        out: &mut Effects,
        id: ServerId,
        address: &Address,
    ) {
        self.busy = true;
        match self.connection {
            Some(connection) => out.send_hello(connection, self.hello_ok, None),
            None => {
                let connection = out.reserve(id);
                self.connection = Some(connection);
                self.hello_ok = false;
                out.open(connection, id, address, MonitorTask::Rtt);
            }
        }
        if let Some(limit) = out.check_limit(false) {
            out.timers.set(Timer::RttLimit(id), now + limit);
        }
    }

    /// Handles a reply and returns true if its round trip time is a sample. After a reply without
    /// `ok: 1`, closes the connection and returns false.
    pub(super) fn on_reply(
        &mut self,
        now: Instant,
        out: &mut Effects,
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

    /// Closes the connection after an error or a timeout. The next measurement opens a new one
    /// (MON-52).
    pub(super) fn on_failed(&mut self, now: Instant, out: &mut Effects, id: ServerId) {
        if let Some(connection) = self.connection.take() {
            out.close(connection);
        }
        if self.busy {
            self.rest(now, out, id);
        }
    }

    /// Closes the connection and cancels the timers.
    pub(super) fn stop(self, out: &mut Effects, id: ServerId) {
        out.timers.cancel(Timer::RttLimit(id));
        out.timers.cancel(Timer::RttPace(id));
        if let Some(connection) = self.connection {
            out.close(connection);
        }
    }

    /// True if `connection` is the connection that measures.
    pub(super) fn owns(&self, connection: MonitorConnectionId) -> bool {
        self.connection == Some(connection)
    }

    /// Ends the measurement. The next one begins after `heartbeatFrequencyMS` (MON-70).
    fn rest(&mut self, now: Instant, out: &mut Effects, id: ServerId) {
        self.busy = false;
        out.timers.cancel(Timer::RttLimit(id));
        out.timers
            .set(Timer::RttPace(id), now + out.heartbeat_frequency);
    }
}
