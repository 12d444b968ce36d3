//! When servers are checked (tables C.2 and E.4).

use super::{Mistake, Model};
use onionskin_core::{address::Address, time::Instant};
use std::time::Duration;

/// `minHeartbeatFrequencyMS` (SDAM-9).
const FLOOR: Duration = Duration::from_millis(500);

/// How many awaited replies may come early before the next check waits: a bound of the driver's own
/// against servers that answer awaited checks at once.
const EARLY: u32 = 10;

/// How many servers that others name may be checked at once, likewise against servers that name
/// new ones in each reply.
const NEWCOMERS: u32 = 256;

/// How the reply came after which a server streams, or goes on to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// The server might have held it back.
    pub(super) awaited: bool,
    /// It announces a further one.
    pub(super) pushes: bool,
}

/// What the monitor of a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Monitor {
    /// There is none.
    None,
    /// A check runs since `began`. It fails by itself at `limit`.
    Busy {
        began: Instant,
        limit: Option<Instant>,
    },
    /// A check ended then; the next is due, and awaited or not.
    Idle {
        ended: Instant,
        due: Instant,
        awaited: bool,
    },
}

/// How much may still be done without a wait, as time: each use costs [`FLOOR`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    left: Duration,
    counted: Instant,
    most: Duration,
}

impl Credit {
    /// For the early replies of a server.
    pub(super) fn of_server(now: Instant) -> Self {
        Self::full(EARLY, now)
    }

    /// For the first checks of servers that others name.
    pub(super) fn of_topology() -> Self {
        Self::full(NEWCOMERS, Instant::ZERO)
    }

    fn full(uses: u32, now: Instant) -> Self {
        let most = FLOOR * uses;
        Self {
            left: most,
            counted: now,
            most,
        }
    }

    /// True if what is to be done need not wait. What the wait would bring is spent.
    fn spend(&mut self, now: Instant) -> bool {
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
    /// When something happens of itself.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let monitors = self.servers.values().filter_map(|s| match s.monitor {
            Monitor::None => None,
            Monitor::Busy { limit, .. } => limit,
            Monitor::Idle { due, .. } => Some(due),
        });
        monitors.chain(self.pace).min()
    }

    /// Time has passed. To be called at each deadline, and not later.
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
        if self.pace.is_some_and(|pace| pace <= now) {
            self.pace = Some(now + FLOOR);
            self.request_check();
        }
        for address in &addresses {
            self.start_if_due(address);
        }
    }

    /// Operations wait for a server, or no longer do (SDAM-119).
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

    /// Every server is wanted checked soon.
    pub fn request_check(&mut self) {
        let addresses: Vec<Address> = self.servers.keys().cloned().collect();
        for address in addresses {
            self.request_check_of(&address);
        }
    }

    /// Addresses of the servers whose check runs.
    #[must_use]
    pub fn checking(&self) -> Vec<Address> {
        let busy = self
            .servers
            .iter()
            .filter(|(_, server)| matches!(server.monitor, Monitor::Busy { .. }));
        busy.map(|(address, _)| address.clone()).collect()
    }

    /// MON-17: a request while a check runs is not remembered.
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
            // Such a monitor would check again 500 ms after this check.
            Monitor::Busy { limit, .. } if remembers => *limit = Some(now + FLOOR),
            Monitor::Busy { .. } => {}
            Monitor::Idle {
                ended,
                due,
                awaited,
            } => {
                *due = (*due).min(now.max(*ended + floor));
                // The answer is wanted at once.
                *awaited = false;
            }
        }
        self.start_if_due(address);
    }

    /// C.2, "After the check": a server that streams is checked again without a wait (MON-56), as
    /// long as it is not early too often.
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
        if early && bounded && !server.credit.spend(now) {
            server.monitor = Monitor::Idle {
                ended: now,
                due: now + FLOOR,
                // A server that pushes is left alone by closing the connection.
                awaited: !stream.pushes,
            };
        } else {
            self.start_check(address, true);
        }
    }

    /// MON-66: a failed check is repeated at once; but not twice within 500 ms, which is a bound of
    /// the driver's own against servers that break every check but the first.
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

    /// MON-59, MON-60: the running check ends without a result, and the wait begins.
    pub(super) fn cancel_check(&mut self, address: &Address) {
        match self.servers.get_mut(address).map(|s| &mut s.monitor) {
            Some(Monitor::Busy { .. }) => self.wait(address),
            // The connection goes, and a new one begins with a handshake.
            Some(Monitor::Idle { awaited, .. }) => *awaited = false,
            Some(Monitor::None) | None => {}
        }
    }

    /// A server that was added is checked at once (MON-12), unless others name new ones all the
    /// time; a load balancer never is (SDAM-111).
    pub(super) fn first_check(&mut self, named: bool) -> Monitor {
        if self.config.load_balanced {
            return Monitor::None;
        }
        let bounded = named && !self.makes(Mistake::NoBoundForNewServers);
        if bounded && !self.newcomers.spend(self.now) {
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
        // MON-44
        let more = if awaitable {
            self.config.heartbeat
        } else {
            Duration::ZERO
        };
        let began = self.now;
        let limit = self.config.connect_timeout.map(|l| began + l + more);
        if let Some(server) = self.servers.get_mut(address) {
            server.monitor = Monitor::Busy { began, limit };
        }
    }

    /// Waits for heartbeatFrequencyMS, from now on (MON-16).
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
