//! The monitor of one server: one check at a time, on a connection of its own (table E.4, MON-14).
//!
//! Servers whose replies have a `topologyVersion` are asked to push them (MON-33), and each pushed
//! reply is a check of its own, in the order of arrival (MON-37, MON-53).

use super::{
    MIN_HEARTBEAT_FREQUENCY,
    action::{MonitorConnectionId, MonitorTask},
    outbox::Outbox,
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
use bson::RawDocument;
use std::{sync::Arc, time::Duration};

/// What the monitor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between two checks.
    Waiting {
        /// When the last one ended; `None` before the first.
        ended: Option<Instant>,
    },
    /// A check that opens a connection.
    Connecting {
        /// When it began.
        started: Instant,
    },
    /// A check on an open connection, to be answered at once.
    Asking {
        /// When it began.
        started: Instant,
    },
    /// A check whose answer the server holds back until something changes.
    Streaming {
        /// When it began.
        started: Instant,
    },
    /// The server is gone or the client closed.
    Stopped,
}

/// A running check, as its events describe it.
#[derive(Clone, Copy)]
struct Running {
    started: Instant,
    awaited: bool,
}

/// Checks one server.
#[derive(Clone, Debug)]
pub(super) struct Monitor {
    id: ServerId,
    address: Address,
    state: State,
    connection: Option<MonitorConnectionId>,
    server_connection_id: Option<i64>,
    hello_ok: bool,
    round_trips: RoundTrips,
    rtt_monitor: Option<RttMonitor>,
    /// When a check last followed a failed one without a wait.
    retried: Option<Instant>,
    /// How many awaited replies may still come early.
    token_bucket: TokenBucket,
    /// The reply to the last check was an early one.
    was_early: bool,
    /// After the wait, the next check on the open connection is awaited, from this version on.
    next_awaited: Option<TopologyVersion>,
}

impl Monitor {
    /// A monitor whose first check begins at once, or with the next scan. If it `waits`, the server
    /// counts as one that was checked just now: the check comes with the next heartbeat, or after
    /// [`MIN_HEARTBEAT_FREQUENCY`] if it is requested.
    pub(super) fn start(
        now: Instant,
        out: &mut Outbox,
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

    /// The time for the next check has come, or the server's turn in a scan.
    pub(super) fn on_due(&mut self, now: Instant, out: &mut Outbox) {
        if matches!(self.state, State::Waiting { .. }) {
            self.check(now, out);
        }
    }

    /// Somebody wants a check soon: it comes as early as 500 ms after the last one; a running one
    /// is enough (MON-17). Its reply is wanted at once, so that it is no awaited one. Scans have an
    /// order of their own.
    pub(super) fn request(&mut self, now: Instant, out: &mut Outbox) {
        let State::Waiting { ended } = self.state else {
            return;
        };
        if out.scanning {
            return;
        }
        self.next_awaited = None;
        let rested = ended.map_or(now, |ended| ended + MIN_HEARTBEAT_FREQUENCY);
        let earliest = now.max(rested);
        let timer = Timer::Heartbeat(self.id);
        if out.timers.deadline(timer).is_none_or(|due| due > earliest) {
            if earliest > now {
                out.timers.set(timer, earliest);
            } else {
                self.check(now, out);
            }
        }
    }

    /// True if a handshake's answer (`connected`) or a further one is what the connection owes.
    pub(super) fn expects(&self, connected: bool) -> bool {
        match self.state {
            State::Connecting { .. } => connected,
            State::Asking { .. } | State::Streaming { .. } => !connected,
            State::Waiting { .. } | State::Stopped => false,
        }
    }

    /// True if the running check may have more replies than one.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(self.state, State::Streaming { .. })
    }

    /// The check was answered with `ok: 1`. What comes next is up to [`Self::proceed`], once the
    /// answer is known to all.
    pub(super) fn succeed(
        &mut self,
        now: Instant,
        out: &mut Outbox,
        hello: &HelloReply,
        reply: &RawDocument,
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
            // An awaited answer says nothing about the way to the server (MON-47, MON-72).
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
            reply: Arc::new(reply.to_owned()),
        });
    }

    /// Goes on after a success: the next awaited check at once, or a wait (MON-20, MON-39, MON-40,
    /// MON-56). A server whose replies come early too often is checked again after 500 ms only.
    pub(super) fn proceed(
        &mut self,
        now: Instant,
        out: &mut Outbox,
        version: Option<TopologyVersion>,
        more_to_come: bool,
    ) {
        if !matches!(self.state, State::Waiting { .. }) {
            return;
        }
        let Some(check) = self.connection else {
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
                self.give_up_stream(out, check);
            } else {
                self.next_awaited = version;
            }
            return;
        }
        out.timers.cancel(Timer::Heartbeat(self.id));
        self.begin(now, out, State::Streaming { started: now });
        if !more_to_come {
            out.send_hello(check, self.hello_ok, version);
        }
    }

    /// Closes the connection of a server that pushes too many replies; nothing else makes it stop.
    /// That says nothing about the server, which stays known: a client whose process stood still
    /// for an hour finds the pushed replies of an hour as well. The next check opens another
    /// connection, and its handshake tells the latest state.
    fn give_up_stream(&mut self, out: &mut Outbox, check: MonitorConnectionId) {
        out.close(check);
        self.connection = None;
        self.server_connection_id = None;
        self.hello_ok = false;
    }

    /// The check failed: its connection is closed and what was measured forgotten. What comes next
    /// is up to [`Self::retry`] or [`Self::wait`].
    pub(super) fn fail(&mut self, now: Instant, out: &mut Outbox, error: &Error) {
        self.end_with_failure(now, out, error);
        self.disconnect(out);
    }

    /// Returns the earliest time of the next turn in a scan, if that is later than `now`: 500 ms
    /// after the end of the last check, however that ended (MON-31).
    pub(super) fn next_turn(&self, now: Instant) -> Option<Instant> {
        let State::Waiting { ended: Some(ended) } = self.state else {
            return None;
        };
        Some(ended + MIN_HEARTBEAT_FREQUENCY).filter(|&turn| turn > now)
    }

    /// Forgets the time of the last check, which another process made.
    pub(super) fn forget_last_check(&mut self) {
        if let State::Waiting { ended } = &mut self.state {
            *ended = None;
        }
    }

    /// Checks again without a wait (MON-66). A server that shakes hands and breaks every later
    /// check could be asked without end in this way, so that a second time within 500 ms waits for
    /// their end.
    pub(super) fn retry(&mut self, now: Instant, out: &mut Outbox) {
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

    /// Waits for the next check, counted from now (MON-16), or for the next scan (MON-29).
    pub(super) fn wait(&mut self, now: Instant, out: &mut Outbox) {
        if matches!(self.state, State::Waiting { .. }) && !out.scanning {
            let due = now + out.heartbeat_frequency;
            out.timers.set(Timer::Heartbeat(self.id), due);
        }
    }

    /// An operation found the server lost: a running check is given up, without a word about the
    /// server; while waiting only the connection goes (MON-59, MON-60).
    pub(super) fn cancel(&mut self, now: Instant, out: &mut Outbox, cause: &Error) {
        let was_running = self.end_with_failure(now, out, cause);
        self.disconnect(out);
        if was_running {
            self.wait(now, out);
        }
    }

    /// The end: nothing of it stays armed or open (MON-57, MON-58).
    pub(super) fn stop(mut self, now: Instant, out: &mut Outbox, cause: &Error) {
        self.end_with_failure(now, out, cause);
        self.disconnect(out);
        out.timers.cancel(Timer::Heartbeat(self.id));
        self.state = State::Stopped;
    }

    /// The connection broke between two checks: the next one opens another.
    pub(super) fn lose_idle_connection(&mut self, out: &mut Outbox) {
        if matches!(self.state, State::Waiting { .. }) {
            self.disconnect(out);
        }
    }

    /// True while a check runs.
    pub(super) fn is_checking(&self) -> bool {
        self.running().is_some()
    }

    /// True for the connection that checks.
    pub(super) fn owns(&self, check: MonitorConnectionId) -> bool {
        self.connection == Some(check)
    }

    /// The round trip times measured.
    pub(super) fn round_trips(&self) -> &RoundTrips {
        &self.round_trips
    }

    /// The server is unknown, for another reason than a failed check.
    pub(super) fn doubt_round_trips(&mut self) {
        self.round_trips.begin_anew();
    }

    /// A measuring connection was answered.
    pub(super) fn on_ping_reply(
        &mut self,
        now: Instant,
        out: &mut Outbox,
        check: MonitorConnectionId,
        hello: &HelloReply,
        round_trip: Duration,
    ) {
        if let Some(rtt_monitor) = self
            .rtt_monitor
            .as_mut()
            .filter(|rtt_monitor| rtt_monitor.owns(check))
            && rtt_monitor.on_reply(now, out, self.id, hello)
        {
            self.round_trips.add(round_trip, out.check_limit(false));
        }
    }

    /// The measuring connection failed, or took too long.
    pub(super) fn on_ping_failed(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(rtt_monitor) = &mut self.rtt_monitor {
            rtt_monitor.on_failed(now, out, self.id);
        }
    }

    /// The time for the next measurement has come.
    pub(super) fn on_ping_due(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(rtt_monitor) = &mut self.rtt_monitor {
            rtt_monitor.ping(now, out, self.id, &self.address);
        }
    }

    /// Starts a check on the open connection, or on a new one.
    fn check(&mut self, now: Instant, out: &mut Outbox) {
        out.timers.cancel(Timer::Heartbeat(self.id));
        let awaited = self.next_awaited.take();
        if let Some(check) = self.connection {
            let state = match awaited {
                Some(_) => State::Streaming { started: now },
                None => State::Asking { started: now },
            };
            self.begin(now, out, state);
            out.send_hello(check, self.hello_ok, awaited);
        } else {
            let check = out.reserve(self.id);
            self.connection = Some(check);
            self.begin(now, out, State::Connecting { started: now });
            out.open(check, self.id, &self.address, MonitorTask::Check);
        }
    }

    /// Enters the state of a running check, with its limit and its event (EVT-18).
    fn begin(&mut self, now: Instant, out: &mut Outbox, state: State) {
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

    /// Ends a running check, if there is one, with the event that it needs (EVT-5).
    fn end_with_failure(&mut self, now: Instant, out: &mut Outbox, failure: &Error) -> bool {
        let Some(running) = self.running() else {
            return false;
        };
        out.timers.cancel(Timer::CheckLimit(self.id));
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

    /// Closes both connections; the next one starts with nothing known (MON-52, MON-62).
    fn disconnect(&mut self, out: &mut Outbox) {
        if let Some(check) = self.connection.take() {
            out.close(check);
        }
        self.stop_rtt_monitor(out);
        self.server_connection_id = None;
        self.hello_ok = false;
        self.next_awaited = None;
        self.round_trips.reset();
    }

    fn stop_rtt_monitor(&mut self, out: &mut Outbox) {
        if let Some(rtt_monitor) = self.rtt_monitor.take() {
            rtt_monitor.stop(out, self.id);
        }
    }

    fn connection_number(&self) -> u64 {
        self.connection.map_or(0, |check| check.0)
    }

    fn running(&self) -> Option<Running> {
        let (started, awaited) = match self.state {
            State::Connecting { started } | State::Asking { started } => (started, false),
            State::Streaming { started } => (started, true),
            State::Waiting { .. } | State::Stopped => return None,
        };
        Some(Running { started, awaited })
    }
}
