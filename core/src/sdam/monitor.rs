//! The monitor of one server. A monitor runs one check at a time, on its own connection (table E.4,
//! MON-14).
//!
//! If streaming is enabled and the replies of the server have a `topologyVersion`, the monitor uses
//! the streaming protocol (MON-33). Each streamed reply is a check of its own, in the order of
//! arrival (MON-37, MON-53).

use super::{
    MIN_HEARTBEAT_FREQUENCY,
    effects::Effects,
    order::{MonitorConnectionId, MonitorTask},
    rtt::RoundTrips,
    rtt_monitor::RttMonitor,
    timers::Timer,
    token_bucket::{MAX_EARLY_REPLIES, TokenBucket},
};
use crate::{
    address::Address,
    description::ServerId,
    error::{Error, TopologyVersion},
    event::SdamEvent,
    hello::HelloReply,
    time::Instant,
};
use bson::RawDocumentBuf;
use std::{sync::Arc, time::Duration};

/// The state of a monitor (table E.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No check is running.
    Waiting {
        /// The end of the last check, or the start of a monitor whose first check waits. `None` if
        /// the next check can begin at once.
        ended: Option<Instant>,
    },
    /// A check is running that opens a connection and does the handshake.
    Connecting {
        /// The time at which the check began.
        started: Instant,
    },
    /// A check is running with a plain `hello` on an open connection.
    Asking {
        /// The time at which the check began.
        started: Instant,
    },
    /// A check is running that waits for an awaited reply. The server sends an awaited reply when
    /// its state changes, or after `maxAwaitTimeMS`.
    Streaming {
        /// The time at which the check began.
        started: Instant,
    },
    /// The server left the topology, or the client was closed.
    Stopped,
}

/// The start and the kind of a running check, for its heartbeat events.
#[derive(Clone, Copy)]
struct Running {
    /// The time at which the check began.
    started: Instant,
    /// True if the check waits for an awaited reply: the reply to an awaitable `hello`, or a
    /// further reply of its stream (EVT-23).
    awaited: bool,
}

/// The monitor of one server.
#[derive(Clone, Debug)]
pub(super) struct Monitor {
    id: ServerId,
    address: Address,
    state: State,
    /// The connection for checks, open or being opened; `None` if there is none.
    connection: Option<MonitorConnectionId>,
    /// The `connectionId` that the server sent on this connection; `None` if it sent none yet.
    server_connection_id: Option<i64>,
    /// True if the last reply on this connection had `helloOk: true`; see [`Effects::send_hello`].
    hello_ok: bool,
    round_trips: RoundTrips,
    /// Measures the round trip time while this monitor streams; `None` otherwise.
    rtt_monitor: Option<RttMonitor>,
    /// The time at which [`Self::retry`] last began a check at once.
    retried: Option<Instant>,
    /// Limits the early replies to awaited checks; see [`MAX_EARLY_REPLIES`].
    token_bucket: TokenBucket,
    /// True if the last successful check ended with an early reply; see [`MAX_EARLY_REPLIES`].
    was_early: bool,
    /// The `topologyVersion` for the awaitable `hello` of the next check, if that check waits
    /// because of early replies. `None` otherwise.
    next_awaited: Option<TopologyVersion>,
}

impl Monitor {
    /// Starts the monitor of a server. The first check begins at once or, if `waits` is true, after
    /// `heartbeatFrequencyMS`; a request can move this check to 500 ms after `now`. In a client
    /// that checks servers on demand, a scan begins the first check; with `waits`, it does so 500
    /// ms after `now` at the earliest.
    pub(super) fn start(
        now: Instant,
        out: &mut Effects,
        id: ServerId,
        address: Address,
        waits: bool,
    ) -> Self {
        let mut monitor = Self {
            id,
            address,
            state: State::Waiting {
                ended: waits.then_some(now),
            },
            connection: None,
            server_connection_id: None,
            hello_ok: false,
            round_trips: RoundTrips::default(),
            rtt_monitor: None,
            retried: None,
            token_bucket: TokenBucket::new(MAX_EARLY_REPLIES),
            was_early: false,
            next_awaited: None,
        };
        if waits {
            monitor.wait(now, out);
        } else if !out.scanning {
            monitor.check(now, out);
        }
        monitor
    }

    /// Begins a check, unless one is running.
    pub(super) fn on_due(&mut self, now: Instant, out: &mut Effects) {
        if matches!(self.state, State::Waiting { .. }) {
            self.check(now, out);
        }
    }

    /// Handles a request for an immediate check (MON-17). The check begins 500 ms after the end of
    /// the last one at the earliest, and is not awaited. The request is ignored while a check is
    /// running, and in a client that checks servers on demand, where scans decide the order of
    /// checks.
    pub(super) fn request(&mut self, now: Instant, out: &mut Effects) {
        let State::Waiting { ended } = self.state else {
            return;
        };
        if out.scanning {
            return;
        }
        self.next_awaited = None;
        let pause_end = ended.map_or(now, |ended| ended + MIN_HEARTBEAT_FREQUENCY);
        let earliest = now.max(pause_end);
        let timer = Timer::Heartbeat(self.id);
        if out.timers.deadline(timer).is_none_or(|due| due > earliest) {
            if earliest > now {
                out.timers.set(timer, earliest);
            } else {
                self.check(now, out);
            }
        }
    }

    /// True if the running check waits for this kind of reply: with `connected` for the reply to
    /// the handshake, otherwise for a later one.
    pub(super) fn expects(&self, connected: bool) -> bool {
        match self.state {
            State::Connecting { .. } => connected,
            State::Asking { .. } | State::Streaming { .. } => !connected,
            State::Waiting { .. } | State::Stopped => false,
        }
    }

    /// True if the running check waits for an awaited reply.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(self.state, State::Streaming { .. })
    }

    /// Ends the running check after a reply with `ok: 1`. After the new server description is
    /// applied, call [`Self::proceed`] to begin the next check or a wait.
    pub(super) fn succeed(
        &mut self,
        now: Instant,
        out: &mut Effects,
        hello: &HelloReply,
        reply: Arc<RawDocumentBuf>,
        round_trip: Duration,
    ) {
        let Some(running) = self.running() else {
            return;
        };
        self.server_connection_id = hello.connection_id.or(self.server_connection_id);
        self.hello_ok = hello.hello_ok;
        let duration = if running.awaited {
            now - running.started
        } else {
            // The duration of an awaited reply contains the server's wait, so it is no sample of
            // the round trip time (MON-47, MON-72).
            self.round_trips.add(round_trip, out.check_limit(false));
            round_trip
        };
        self.was_early = running.awaited && duration < MIN_HEARTBEAT_FREQUENCY;
        out.timers.cancel(Timer::CheckLimit(self.id));
        self.state = State::Waiting { ended: Some(now) };
        let (address, driver_connection_id) = (&self.address, self.connection_number());
        let server_connection_id = self.server_connection_id;
        out.emit(|topology| SdamEvent::HeartbeatSucceeded {
            topology,
            address: address.clone(),
            driver_connection_id,
            server_connection_id,
            awaited: running.awaited,
            duration,
            reply,
        });
    }

    /// Begins the next awaited check at once, or waits, after a successful check (MON-20, MON-39,
    /// MON-40, MON-56). If the reply was early and the token bucket is empty, the next check begins
    /// after 500 ms.
    pub(super) fn proceed(
        &mut self,
        now: Instant,
        out: &mut Effects,
        version: Option<TopologyVersion>,
        more_to_come: bool,
    ) {
        if !matches!(self.state, State::Waiting { .. }) {
            return;
        }
        let Some(connection) = self.connection else {
            return;
        };
        if !out.streaming || (version.is_none() && !more_to_come) {
            self.stop_rtt_monitor(out);
            self.wait(now, out);
            return;
        }
        if self.rtt_monitor.is_none() {
            self.rtt_monitor = Some(RttMonitor::start(now, out, self.id, &self.address));
        }
        if self.was_early && !self.token_bucket.take(now) {
            let due = now + MIN_HEARTBEAT_FREQUENCY;
            out.timers.set(Timer::Heartbeat(self.id), due);
            if more_to_come {
                self.give_up_stream(out, connection);
            } else {
                self.next_awaited = version;
            }
            return;
        }
        out.timers.cancel(Timer::Heartbeat(self.id));
        self.begin(now, out, State::Streaming { started: now });
        if !more_to_come {
            out.send_hello(connection, self.hello_ok, version);
        }
    }

    /// Closes the connection for checks, to end a stream with too many early replies. The server
    /// description stays, because the cause can be a pause of the client's process: the streamed
    /// replies of the whole pause then arrive at once. The next check opens a new connection.
    fn give_up_stream(&mut self, out: &mut Effects, connection: MonitorConnectionId) {
        out.close(connection);
        self.connection = None;
        self.server_connection_id = None;
        self.hello_ok = false;
    }

    /// Ends the running check after an error. Closes the connections and resets the round trip
    /// times. After the new server description is applied, call [`Self::retry`] or [`Self::wait`].
    pub(super) fn fail(&mut self, now: Instant, out: &mut Effects, error: &Error) {
        self.end_with_failure(now, out, error);
        self.disconnect(out);
    }

    /// Returns the earliest time at which a scan may check this server, which is 500 ms after the
    /// end of the last check (MON-31). `None` if that time is not later than `now`, or while a
    /// check is running.
    pub(super) fn next_turn(&self, now: Instant) -> Option<Instant> {
        let State::Waiting { ended: Some(ended) } = self.state else {
            return None;
        };
        Some(ended + MIN_HEARTBEAT_FREQUENCY).filter(|&turn| turn > now)
    }

    /// Forgets the end of the last check, so that the next one can begin at once. Used in a forked
    /// child process, whose parent process made the last check.
    pub(super) fn forget_last_check(&mut self) {
        if let State::Waiting { ended } = &mut self.state {
            *ended = None;
        }
    }

    /// Checks again at once after a network error of a known server (MON-66). If the last such
    /// retry began less than 500 ms ago, the check begins 500 ms after that retry or, in a client
    /// that checks servers on demand, with the next scan. So a server that completes each handshake
    /// and breaks each later check is not checked in a tight loop.
    pub(super) fn retry(&mut self, now: Instant, out: &mut Effects) {
        if !matches!(self.state, State::Waiting { .. }) {
            return;
        }
        let earliest = self.retried.map(|at| at + MIN_HEARTBEAT_FREQUENCY);
        match earliest.filter(|&at| at > now) {
            Some(_) if out.scanning => {}
            Some(at) => out.timers.set(Timer::Heartbeat(self.id), at),
            None => {
                self.retried = Some(now);
                self.check(now, out);
            }
        }
    }

    /// Schedules the next check `heartbeatFrequencyMS` after `now` (MON-16). Without background
    /// monitoring, the next scan takes the place of this wait (MON-29).
    pub(super) fn wait(&mut self, now: Instant, out: &mut Effects) {
        if matches!(self.state, State::Waiting { .. }) && !out.scanning {
            let due = now + out.heartbeat_frequency;
            out.timers.set(Timer::Heartbeat(self.id), due);
        }
    }

    /// Cancels a running check and closes the connections, for example after a network error of an
    /// operation (MON-59). If a check was running, [`Self::wait`] schedules the next one (MON-60).
    /// Otherwise the time of the next check stays.
    pub(super) fn cancel(&mut self, now: Instant, out: &mut Effects, cause: &Error) {
        let was_running = self.end_with_failure(now, out, cause);
        self.disconnect(out);
        if was_running {
            self.wait(now, out);
        }
    }

    /// Stops the monitor: ends a running check, closes the connections and cancels the timers of
    /// the server (MON-57, MON-58).
    pub(super) fn stop(mut self, now: Instant, out: &mut Effects, cause: &Error) {
        self.end_with_failure(now, out, cause);
        self.disconnect(out);
        out.timers.cancel(Timer::Heartbeat(self.id));
        self.state = State::Stopped;
    }

    /// Closes the connections, after the connection for checks broke between two checks.
    pub(super) fn lose_idle_connection(&mut self, out: &mut Effects) {
        if matches!(self.state, State::Waiting { .. }) {
            self.disconnect(out);
        }
    }

    /// True while a check is running.
    pub(super) fn is_checking(&self) -> bool {
        self.running().is_some()
    }

    /// Returns the connection for checks; `None` if there is none.
    pub(super) const fn connection(&self) -> Option<MonitorConnectionId> {
        self.connection
    }

    /// True if `connection` is the connection for checks.
    pub(super) fn owns(&self, connection: MonitorConnectionId) -> bool {
        self.connection == Some(connection)
    }

    /// Returns the round trip times of the server.
    pub(super) fn round_trips(&self) -> &RoundTrips {
        &self.round_trips
    }

    /// Makes the next sample replace the average round trip time, after the server became Unknown.
    pub(super) fn restart_average(&mut self) {
        self.round_trips.restart_average();
    }

    /// Handles a reply on the connection that measures the round trip time.
    pub(super) fn on_rtt_reply(
        &mut self,
        now: Instant,
        out: &mut Effects,
        connection: MonitorConnectionId,
        hello: &HelloReply,
        round_trip: Duration,
    ) {
        if let Some(rtt_monitor) = self
            .rtt_monitor
            .as_mut()
            .filter(|rtt_monitor| rtt_monitor.owns(connection))
            && rtt_monitor.on_reply(now, out, self.id, hello)
        {
            self.round_trips.add(round_trip, out.check_limit(false));
        }
    }

    /// Handles an error or a timeout of the connection that measures the round trip time.
    pub(super) fn on_rtt_failed(&mut self, now: Instant, out: &mut Effects) {
        if let Some(rtt_monitor) = &mut self.rtt_monitor {
            rtt_monitor.on_failed(now, out, self.id);
        }
    }

    /// Begins the next measurement of the round trip time.
    pub(super) fn on_rtt_due(&mut self, now: Instant, out: &mut Effects) {
        if let Some(rtt_monitor) = &mut self.rtt_monitor {
            rtt_monitor.measure(now, out, self.id, &self.address);
        }
    }

    /// Begins a check on the open connection or a new one, if the server has a turn.
    fn check(&mut self, now: Instant, out: &mut Effects) {
        out.timers.cancel(Timer::Heartbeat(self.id));
        if !out.takes_turn(self.id) {
            return;
        }
        let awaited = self.next_awaited.take();
        if let Some(connection) = self.connection {
            let state = match awaited {
                Some(_) => State::Streaming { started: now },
                None => State::Asking { started: now },
            };
            self.begin(now, out, state);
            out.send_hello(connection, self.hello_ok, awaited);
        } else {
            let connection = out.reserve(self.id);
            self.connection = Some(connection);
            self.begin(now, out, State::Connecting { started: now });
            out.open(connection, self.id, &self.address, MonitorTask::Check);
        }
    }

    /// Enters the state of a running check, arms its limit, and emits its started event (EVT-18).
    fn begin(&mut self, now: Instant, out: &mut Effects, state: State) {
        self.state = state;
        let awaited = self.is_streaming();
        if let Some(limit) = out.check_limit(awaited) {
            out.timers.set(Timer::CheckLimit(self.id), now + limit);
        }
        let (address, driver_connection_id) = (&self.address, self.connection_number());
        let server_connection_id = self.server_connection_id;
        out.emit(|topology| SdamEvent::HeartbeatStarted {
            topology,
            address: address.clone(),
            driver_connection_id,
            server_connection_id,
            awaited,
        });
    }

    /// Ends a running check with a heartbeat failed event (EVT-5). Returns false if none was
    /// running.
    fn end_with_failure(&mut self, now: Instant, out: &mut Effects, failure: &Error) -> bool {
        let Some(running) = self.running() else {
            return false;
        };
        out.timers.cancel(Timer::CheckLimit(self.id));
        out.end_turn(now, self.id);
        self.state = State::Waiting { ended: Some(now) };
        let (address, driver_connection_id) = (&self.address, self.connection_number());
        let server_connection_id = self.server_connection_id;
        out.emit(|topology| SdamEvent::HeartbeatFailed {
            topology,
            address: address.clone(),
            driver_connection_id,
            server_connection_id,
            awaited: running.awaited,
            duration: now - running.started,
            failure: failure.clone(),
        });
        true
    }

    /// Closes both connections and forgets the values learned on them, round trip times included
    /// (MON-52, MON-62).
    fn disconnect(&mut self, out: &mut Effects) {
        if let Some(connection) = self.connection.take() {
            out.close(connection);
        }
        self.stop_rtt_monitor(out);
        self.server_connection_id = None;
        self.hello_ok = false;
        self.next_awaited = None;
        self.round_trips.reset();
    }

    fn stop_rtt_monitor(&mut self, out: &mut Effects) {
        if let Some(rtt_monitor) = self.rtt_monitor.take() {
            rtt_monitor.stop(out, self.id);
        }
    }

    /// Returns the driver's connection id for events; 0 without a connection.
    fn connection_number(&self) -> u64 {
        self.connection.map_or(0, |connection| connection.0)
    }

    /// Returns the running check, if there is one.
    fn running(&self) -> Option<Running> {
        let (started, awaited) = match self.state {
            State::Connecting { started } | State::Asking { started } => (started, false),
            State::Streaming { started } => (started, true),
            State::Waiting { .. } | State::Stopped => return None,
        };
        Some(Running { started, awaited })
    }
}
