//! The model of monitors: the times of checks (tables C.2 and E.4).

use super::{Mistake, Model};
use onionskin_core::{address::Address, time::Instant};
use std::time::Duration;

/// `minHeartbeatFrequencyMS`, the shortest time between two checks of a server (SDAM-9).
const FLOOR: Duration = Duration::from_millis(500);

/// The number of awaited replies that a server can send at once before the next check waits. The
/// specification has no such limit. The limit protects the driver against servers that answer every
/// awaited check at once.
const EARLY: u32 = 10;

/// The number of servers that can be checked at once because another server named them. The
/// specification has no such limit. The limit protects the driver against servers that name new
/// servers in each reply.
const FIRST_CHECKS: u32 = 256;

/// A reply after which the monitor streams, which means that the next check starts without a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// True if the reply answers an awaitable `hello`.
    pub(super) awaited: bool,
    /// True if the reply announces another one.
    pub(super) pushes: bool,
}

/// The state of the monitor of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Monitor {
    /// The server has no monitor.
    None,
    /// A check is under way since `began`, and times out at `limit`. Without `limit` it has no time
    /// limit. `awaited` is true if the check waits for an awaited reply.
    Busy {
        began: Instant,
        limit: Option<Instant>,
        awaited: bool,
    },
    /// The last check ended at `ended`. The next one starts at `due`, and is awaitable if `awaited`
    /// is true.
    Idle {
        ended: Instant,
        due: Instant,
        awaited: bool,
    },
}

/// A budget of actions that need no wait. The budget is kept as a time: each action costs
/// [`FLOOR`], and the time that passes fills the budget up to its maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    left: Duration,
    counted: Instant,
    most: Duration,
}

impl TokenBucket {
    /// Returns the budget of a server for awaited replies that take less than [`FLOOR`].
    pub(super) fn of_server(now: Instant) -> Self {
        Self::full(EARLY, now)
    }

    /// Returns the budget for first checks of servers that other servers name.
    pub(super) fn of_topology() -> Self {
        Self::full(FIRST_CHECKS, Instant::ZERO)
    }

    fn full(uses: u32, now: Instant) -> Self {
        let most = FLOOR * uses;
        Self {
            left: most,
            counted: now,
            most,
        }
    }

    /// Takes one action from the budget. Returns false if the budget is empty: then the action has
    /// to wait for [`FLOOR`], and this time does not fill the budget.
    fn take(&mut self, now: Instant) -> bool {
        let grown = self.left + now.saturating_since(self.counted);
        self.left = grown.min(self.most);
        self.counted = now;
        match self.left.checked_sub(FLOOR) {
            Some(rest) => {
                self.left = rest;
                true
            }
            None => {
                self.counted = now + FLOOR;
                false
            }
        }
    }
}

impl Model {
    /// Returns the earliest time at which the model changes without an input.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let monitors = self.servers.values().filter_map(|s| match s.monitor {
            Monitor::None => None,
            Monitor::Busy { limit, .. } => limit,
            Monitor::Idle { due, .. } => Some(due),
        });
        monitors.chain(self.pace).min()
    }

    /// Advances the time to `now`. The caller must do this at each deadline, and not later.
    pub fn pass(&mut self, now: Instant) {
        assert!(self.deadline().is_none_or(|deadline| now <= deadline));
        self.now = now;
        let addresses: Vec<Address> = self.servers.keys().cloned().collect();
        for address in &addresses {
            let monitor = self.monitor(address);
            if matches!(monitor, Some(Monitor::Busy { limit: Some(l), .. }) if l <= now) {
                self.on_check_failed(address, true);
            }
        }
        for address in &addresses {
            self.start_if_due(address);
        }
        if self.pace.is_some_and(|pace| pace <= now) {
            self.pace = Some(now + FLOOR);
            self.request_check();
        }
    }

    /// Sets whether operations wait for a server. While operations wait, checks of all servers are
    /// requested every 500 ms (SDAM-119).
    pub fn set_waiting(&mut self, waiting: bool) {
        if self.closed || waiting == self.pace.is_some() {
            return;
        }
        self.pace = None;
        if waiting {
            self.pace = Some(self.now + FLOOR);
            self.request_check();
        }
    }

    /// Requests an immediate check of each server.
    pub fn request_check(&mut self) {
        let addresses: Vec<Address> = self.servers.keys().cloned().collect();
        for address in addresses {
            self.request_check_of(&address);
        }
    }

    /// Returns the addresses of the servers with a check under way, and whether the check waits for
    /// an awaited reply.
    #[must_use]
    pub fn checking(&self) -> Vec<(Address, bool)> {
        let busy = self.servers.iter().filter_map(|(a, s)| match s.monitor {
            Monitor::Busy { awaited, .. } => Some((a.clone(), awaited)),
            Monitor::None | Monitor::Idle { .. } => None,
        });
        busy.collect()
    }

    /// Requests an immediate check of a server. A request during a check is ignored (MON-17).
    pub(super) fn request_check_of(&mut self, address: &Address) {
        let now = self.now;
        let floor = if self.makes(Mistake::NoFloor) {
            Duration::ZERO
        } else {
            FLOOR
        };
        let remembers = self.makes(Mistake::RequestRemembered);
        let Some(server) = self.servers.get_mut(address) else {
            return;
        };
        match &mut server.monitor {
            Monitor::None => {}
            // The mistake ends the running check early instead of remembering the request, which is
            // enough to differ from the machine.
            Monitor::Busy { limit, .. } if remembers => *limit = Some(now + FLOOR),
            Monitor::Busy { .. } => {}
            Monitor::Idle {
                ended,
                due,
                awaited,
            } => {
                *due = (*due).min(now.max(*ended + floor));
                // A requested check sends a plain `hello`, which is answered at once.
                *awaited = false;
            }
        }
        self.start_if_due(address);
    }

    /// Starts the next check after a successful one (table C.2, "After the check"). A server that
    /// streams is checked again without a wait (MON-56), unless it sent [`EARLY`] awaited replies
    /// too fast.
    pub(super) fn after_success(&mut self, address: &Address, stream: Option<Stream>) {
        let Some(stream) = stream else {
            return self.wait(address);
        };
        let (now, bounded) = (self.now, !self.makes(Mistake::NoBoundForEarlyReplies));
        let Some(server) = self.servers.get_mut(address) else {
            return;
        };
        let Monitor::Busy { began, .. } = server.monitor else {
            return;
        };
        let early = stream.awaited && now.saturating_since(began) < FLOOR;
        if early && bounded && !server.tokens.take(now) {
            server.monitor = Monitor::Idle {
                ended: now,
                due: now + FLOOR,
                // Only the close of the connection stops a server that announced another reply.
                // After such a close the next check begins with a handshake, which is not
                // awaitable.
                awaited: !stream.pushes,
            };
        } else {
            self.start_check(address, true);
        }
    }

    /// Repeats a failed check at once (MON-66), but not twice within 500 ms. This limit is the
    /// driver's own.
    pub(super) fn repeat_check(&mut self, address: &Address) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(address) else {
            return;
        };
        let earliest = server.repeated.map(|at| at + FLOOR);
        match earliest.filter(|&due| due > now) {
            Some(due) => {
                server.monitor = Monitor::Idle {
                    ended: now,
                    due,
                    awaited: false,
                }
            }
            None => {
                server.repeated = Some(now);
                self.start_check(address, false);
            }
        }
    }

    /// Cancels the check under way, which ends without a result (MON-59). Then the wait for the
    /// next check begins (MON-60).
    pub(super) fn cancel_check(&mut self, address: &Address) {
        match self.servers.get_mut(address).map(|s| &mut s.monitor) {
            Some(Monitor::Busy { .. }) => self.wait(address),
            // The connection is closed, so the next check begins with a handshake.
            Some(Monitor::Idle { awaited, .. }) => *awaited = false,
            Some(Monitor::None) | None => {}
        }
    }

    /// Returns the monitor of a server that was added. The server is checked at once (MON-12),
    /// unless other servers name too many new ones. `named` is true if another server names this
    /// one. A load balancer is not checked (SDAM-111).
    pub(super) fn first_check(&mut self, named: bool) -> Monitor {
        if self.config.load_balanced {
            return Monitor::None;
        }
        let bounded = named && !self.makes(Mistake::NoBoundForNewServers);
        if bounded && !self.first_checks.take(self.now) {
            return Monitor::Idle {
                ended: self.now,
                due: self.now + self.config.heartbeat,
                awaited: false,
            };
        }
        let limit = self.config.connect_timeout.map(|limit| self.now + limit);
        Monitor::Busy {
            began: self.now,
            limit,
            awaited: false,
        }
    }

    fn start_if_due(&mut self, address: &Address) {
        if let Some(Monitor::Idle { due, awaited, .. }) = self.monitor(address)
            && due <= self.now
        {
            self.start_check(address, awaited);
        }
    }

    fn start_check(&mut self, address: &Address, awaitable: bool) {
        // The time limit of an awaitable check is `connectTimeoutMS` plus `heartbeatFrequencyMS`
        // (MON-44).
        let more = if awaitable {
            self.config.heartbeat
        } else {
            Duration::ZERO
        };
        let began = self.now;
        let limit = self.config.connect_timeout.map(|l| began + l + more);
        if let Some(server) = self.servers.get_mut(address) {
            server.monitor = Monitor::Busy {
                began,
                limit,
                awaited: awaitable,
            };
        }
    }

    /// Waits for `heartbeatFrequencyMS`, from now on (MON-16).
    pub(super) fn wait(&mut self, address: &Address) {
        let (now, heartbeat) = (self.now, self.config.heartbeat);
        if let Some(server) = self.servers.get_mut(address) {
            server.monitor = Monitor::Idle {
                ended: now,
                due: now + heartbeat,
                awaited: false,
            };
        }
    }

    fn monitor(&self, address: &Address) -> Option<Monitor> {
        self.servers.get(address).map(|server| server.monitor)
    }
}
