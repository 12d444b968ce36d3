//! The inputs of the discovery machine, for example replies and errors of checks, errors of
//! operations, and time.

use super::{
    Life, MIN_HEARTBEAT_FREQUENCY, Sdam,
    application::{self, MonitorOrder, judge},
    order::{ApplicationError, MonitorConnectionId},
    step::PoolOrder,
    stored_error::without_reply,
    timers::Timer,
};
use crate::{
    description::{ServerDescription, ServerId},
    error::{Error, ErrorKind, TopologyVersion, Wait},
    hello::{HelloAnswer, HelloReply},
    time::{Instant, deadline_after_freeze},
};
use std::time::Duration;

impl Sdam {
    /// Handles all timers that are due at `now`. A call before the deadline changes nothing.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout_of(now, &|_| None);
    }

    /// Handles everything whose time has come, as [`handle_timeout`](Self::handle_timeout). `step`
    /// returns what a connection that is not open yet waits for, for the error of its check.
    pub(crate) fn handle_timeout_of(
        &mut self,
        now: Instant,
        step: &dyn Fn(MonitorConnectionId) -> Option<String>,
    ) {
        while let Some((deadline, timer)) = self.out.timers.pop_expired(now) {
            match timer {
                Timer::Heartbeat(id) => self.with_monitor(id, |m, out| m.on_due(now, out)),
                Timer::RttPace(id) => self.with_monitor(id, |m, out| m.on_rtt_due(now, out)),
                Timer::RttLimit(id) => self.with_monitor(id, |m, out| m.on_rtt_failed(now, out)),
                // After a pause of the process, the reply may have arrived unread. So the check
                // gets more time.
                Timer::CheckLimit(id) => match deadline_after_freeze(deadline, now) {
                    Some(later) => self.out.timers.set(timer, later),
                    None => self.on_check_timeout(now, id, step),
                },
                Timer::Scan => self.plan_scan(now),
                Timer::Waiters => {
                    self.request_check(now);
                    self.out.timers.set(timer, now + MIN_HEARTBEAT_FREQUENCY);
                }
            }
        }
        self.continue_scan(now);
    }

    /// Handles the reply to the handshake of a connection that
    /// [`Order::Open`](super::Order::Open) asked for. `round_trip` is the time from sending `hello`
    /// to its reply.
    pub fn handle_connected(
        &mut self,
        now: Instant,
        connection: MonitorConnectionId,
        answer: HelloAnswer,
        round_trip: Duration,
    ) {
        self.on_answer(now, connection, answer, round_trip, (true, false));
        self.continue_scan(now);
    }

    /// Handles a reply to a `hello` on an open connection. With `more_to_come` the server sends
    /// further replies without a request; call this method for each of them. `round_trip` is the
    /// time from sending `hello` to its reply; it is ignored for an awaited reply.
    pub fn handle_reply(
        &mut self,
        now: Instant,
        connection: MonitorConnectionId,
        answer: HelloAnswer,
        round_trip: Duration,
        more_to_come: bool,
    ) {
        self.on_answer(now, connection, answer, round_trip, (false, more_to_come));
        self.continue_scan(now);
    }

    /// Handles the error of a monitor's connection that could not be made or that broke.
    pub fn handle_failed(&mut self, now: Instant, connection: MonitorConnectionId, error: Error) {
        let Some((id, owns, checking)) = self.find(connection) else {
            return;
        };
        if !owns {
            self.with_monitor(id, |m, out| m.on_rtt_failed(now, out));
        } else if checking {
            self.on_check_failed(now, id, &error);
        } else {
            self.with_monitor(id, |m, out| m.lose_idle_connection(out));
        }
        self.continue_scan(now);
    }

    /// Handles the reply to the `hello` of a pool's new connection: the reply updates the server
    /// description as the reply to a check does ([MON-22]).
    ///
    /// A reply without `ok: 1` changes nothing, nor does a reply behind a load balancer. An Unknown
    /// server stays Unknown until its monitor gets a reply, since the reply to the pool's
    /// connection can be older than the error that made the server Unknown.
    ///
    /// [MON-22]: crate::requirements::monitoring#MON-22
    pub fn handle_application_handshake(
        &mut self,
        now: Instant,
        server: ServerId,
        hello: HelloReply,
    ) {
        let Some(known) = self.server(server) else {
            return;
        };
        if !known.server_type.is_available() || self.is_load_balanced() || !hello.ok {
            return;
        }
        let (average, minimum) = (known.round_trip_time, known.min_round_trip_time);
        let new = hello.into_description(known.address.clone(), now, average, minimum);
        self.apply(now, new, PoolOrder::Ready);
    }

    /// Handles an error of an operation, or of a pool's connection that could not be made.
    pub fn handle_application_error(
        &mut self,
        now: Instant,
        server: ServerId,
        error: &ApplicationError,
    ) {
        // An error of an older generation changes nothing, and neither does an error of a server
        // that was removed. The generation is compared before `topologyVersion` (SDAM-86).
        if error.is_stale || !self.servers.contains_key(&server) {
            return;
        }
        let version = application::topology_version(&error.error);
        let known = self.server(server).and_then(|s| s.topology_version);
        if has_stale_version(version, known) {
            return;
        }
        let load_balanced = self.is_load_balanced();
        let consequence = judge(error, load_balanced);
        if load_balanced {
            if consequence.clear_pool && error.service.is_some() {
                self.clear_pool(server, error.service, &error.error, false);
            }
            return;
        }
        if consequence.mark_unknown {
            let pool = if consequence.clear_pool {
                PoolOrder::Clear {
                    cause: &error.error,
                    interrupt: false,
                }
            } else {
                PoolOrder::Leave
            };
            // Only a state change error stores its `topologyVersion`. Every other error gives a
            // default Unknown description (SDAM-55, SDAM-95).
            let version = version.filter(|_| consequence.monitor == MonitorOrder::Check);
            self.mark_unknown(now, server, &error.error, version, pool);
            self.check_again(server);
        }
        match consequence.monitor {
            MonitorOrder::Leave => {}
            MonitorOrder::Check => self.with_monitor(server, |m, out| m.request(now, out)),
            MonitorOrder::Cancel => {
                self.with_monitor(server, |m, out| m.cancel(now, out, &error.error));
            }
        }
        if consequence.rescan {
            self.mark_stale(now);
        }
        self.continue_scan(now);
    }

    /// Sets whether operations wait for a suitable server. When operations begin to wait, and then
    /// every 500 ms, the machine requests checks of all servers. In a client that checks servers on
    /// demand, the machine instead begins or continues a scan if the topology is stale, and
    /// suspends the scan when no operation waits any more ([SDAM-119], [MON-26]).
    ///
    /// [SDAM-119]: crate::requirements::discovery#SDAM-119
    /// [MON-26]: crate::requirements::monitoring#MON-26
    pub fn set_waiting(&mut self, now: Instant, waiting: bool) {
        if self.phase != Life::Running {
            return;
        }
        if self.scans() {
            self.set_waiting_for_scan(now, waiting);
            return;
        }
        if self.waiting == waiting {
            return;
        }
        self.waiting = waiting;
        if waiting {
            self.request_check(now);
            let next = now + MIN_HEARTBEAT_FREQUENCY;
            self.out.timers.set(Timer::Waiters, next);
        } else {
            self.out.timers.cancel(Timer::Waiters);
        }
    }

    /// Requests an immediate check of every server. A monitor whose check is running ignores the
    /// request ([MON-17]).
    ///
    /// In a client that checks servers on demand, the topology becomes stale instead, so that a
    /// scan comes before the next server selection.
    ///
    /// [MON-17]: crate::requirements::monitoring#MON-17
    pub fn request_check(&mut self, now: Instant) {
        self.mark_stale(now);
        for server in self.servers.values_mut() {
            if let Some(monitor) = &mut server.monitor {
                monitor.request(now, &mut self.out);
            }
        }
    }

    /// Handles a reply on a monitor's connection: a measurement of the round trip time, or the
    /// outcome of a check. `connected` is true for the reply to the handshake.
    fn on_answer(
        &mut self,
        now: Instant,
        connection: MonitorConnectionId,
        answer: HelloAnswer,
        round_trip: Duration,
        (connected, more_to_come): (bool, bool),
    ) {
        let Some((id, owns, _)) = self.find(connection) else {
            return;
        };
        let HelloAnswer {
            hello,
            fault,
            document,
        } = answer;
        if !owns {
            self.with_monitor(id, |monitor, out| {
                monitor.on_rtt_reply(now, out, connection, &hello, round_trip);
            });
            return;
        }
        let Some(server) = self.servers.get_mut(&id) else {
            return;
        };
        let Some(monitor) = server.monitor.as_mut().filter(|m| m.expects(connected)) else {
            return;
        };
        if let Some(fault) = fault {
            self.on_check_failed(now, id, &ErrorKind::Command(*fault).into());
            return;
        }
        if more_to_come && !monitor.is_streaming() {
            let error = Error::protocol(
                "the server announced further replies (moreToCome) to a command that did not \
                 allow them",
            );
            self.on_check_failed(now, id, &error);
            return;
        }
        monitor.succeed(now, &mut self.out, &hello, document, round_trip);
        let version = hello.topology_version;
        let trips = monitor.round_trips();
        let address = server.address.clone();
        let new = hello.into_description(address, now, trips.average(), trips.minimum());
        self.note_check(now, id, None);
        self.leave_strangers(now, id);
        self.apply(now, new, PoolOrder::Ready);
        self.with_monitor(id, |monitor, out| {
            monitor.proceed(now, out, version, more_to_come);
        });
    }

    /// Handles a check that was not answered within its time limit.
    fn on_check_timeout(
        &mut self,
        now: Instant,
        id: ServerId,
        step: &dyn Fn(MonitorConnectionId) -> Option<String>,
    ) {
        let Some(monitor) = self.servers.get(&id).and_then(|s| s.monitor.as_ref()) else {
            return;
        };
        let Some(address) = self.server(id).map(|server| server.address.clone()) else {
            return;
        };
        let (wait, awaited) = if monitor.expects(true) {
            (Wait::Connect, false)
        } else {
            (Wait::Handshake, monitor.is_streaming())
        };
        let limit = self.out.check_limit(awaited).unwrap_or_default();
        let millis = limit.as_millis();
        let message = match monitor.connection().and_then(step) {
            Some(step) => format!("{step} took longer than {millis} ms"),
            None => format!("no reply to a check within {millis} ms"),
        };
        let error = Error::timeout(wait, message).with_server(&address);
        self.on_check_failed(now, id, &error);
    }

    /// Handles a failed check. The monitor closes its connections, the server becomes Unknown, and
    /// its pool is cleared. Then `Monitor::retry` follows if the server was known and the error is
    /// a network error or a timeout, and `Monitor::wait` otherwise (MON-62 to MON-67).
    fn on_check_failed(&mut self, now: Instant, id: ServerId, error: &Error) {
        let was_known = self
            .server(id)
            .is_some_and(|s| s.server_type.is_available());
        self.note_check(now, id, Some(error));
        self.with_monitor(id, |m, out| m.fail(now, out, error));
        let pool = PoolOrder::Clear {
            cause: error,
            // A timeout interrupts connections in use (MON-63). `is_timeout` is also true for a
            // reply with the code of `MaxTimeMSExpired`, which shows that the server answers.
            interrupt: error.is_timeout() && error.is_connection_failure(),
        };
        self.mark_unknown(now, id, error, None, pool);
        self.with_monitor(id, |monitor, out| {
            if was_known && error.is_connection_failure() {
                monitor.retry(now, out);
            } else {
                monitor.wait(now, out);
            }
        });
    }

    /// Replaces a server description by a default Unknown with this error and `topology_version`,
    /// and carries out the order for the server's pool.
    pub(super) fn mark_unknown(
        &mut self,
        now: Instant,
        id: ServerId,
        error: &Error,
        topology_version: Option<TopologyVersion>,
        pool: PoolOrder<'_>,
    ) {
        let Some(server) = self.servers.get(&id) else {
            return;
        };
        let unknown = ServerDescription {
            error: Some(without_reply(error)),
            topology_version,
            last_update_time: Some(now),
            ..ServerDescription::unknown(server.address.clone())
        };
        self.apply(now, unknown, pool);
    }

    /// Returns the server of a monitor's connection that is not closed; then true if this
    /// connection is the one for checks, and true if a check of the server is running.
    fn find(&self, connection: MonitorConnectionId) -> Option<(ServerId, bool, bool)> {
        let id = self.out.server_of(connection)?;
        let monitor = self.servers.get(&id)?.monitor.as_ref()?;
        Some((id, monitor.owns(connection), monitor.is_checking()))
    }
}

/// True if the `topologyVersion` of the error is not newer than that of the server description.
/// Such an error is ignored (SDAM-87).
fn has_stale_version(error: Option<TopologyVersion>, known: Option<TopologyVersion>) -> bool {
    match (error, known) {
        (Some(error), Some(known)) => {
            error.process_id == known.process_id && error.counter <= known.counter
        }
        (None, _) | (_, None) => false,
    }
}
