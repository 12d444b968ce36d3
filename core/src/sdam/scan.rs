//! Scans: how a client without background tasks checks its servers, between two steps of an
//! operation and never by itself (MON-23 to MON-30).
//!
//! The monitors are the same; here it is decided which of them checks next. Three points differ
//! from the specification's text, each for a reason:
//!
//! * Checks have a connection per server of their own, as those of other clients have, where the
//!   text lets single-threaded clients check on the connections that operations use. So no check is
//!   ever authenticated, and none can be refused for that (MON-15, MON-30).
//! * Which servers a scan has still to check is remembered, not read from the times of the last
//!   updates. A description is replaced for other reasons than a check as well, and a server that
//!   calls itself primary but is an old one would be checked without end.
//! * The pause after a network error counts only errors of checks, as the text of `cooldownMS`
//!   says, and not those of operations, as its pseudocode would: a server that an operation found
//!   stepped down is what the next scan has to look at.

use super::{
    Life, Sdam,
    action::{Action, MIN_HEARTBEAT_FREQUENCY},
    timers::Timer,
    transition::MAX_SERVERS,
};
use crate::{
    description::{ServerDescription, ServerId, ServerType},
    error::{Error, ErrorKind},
    random::Random,
    time::Instant,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// `cooldownMS`: how long scans leave a server out whose check met a network error (MON-23). Not an
/// option.
pub const COOLDOWN: Duration = Duration::from_secs(5);

/// When scans are due, and how far the running one has come.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// Breaks ties between servers that were last checked at the same time.
    random: Random,
    /// `stale` (SDAM-14): a scan comes before the next selection.
    stale: bool,
    running: Option<Running>,
    /// Scans that came to their end.
    completed: u64,
    /// When the last of them did.
    ended: Option<Instant>,
    /// The earliest begin of the next one (MON-31).
    earliest: Instant,
    /// Until when servers are left out, by the last network error of a check.
    cooldowns: BTreeMap<ServerId, Instant>,
}

/// A scan under way.
#[derive(Clone, Debug)]
struct Running {
    started: Instant,
    /// Servers whose turn has come, so that each has one (MON-28).
    checked: BTreeSet<ServerId>,
    /// The last of them.
    current: Option<ServerId>,
    /// Something made the topology stale meanwhile, so that one more scan has to follow.
    outdated: bool,
}

/// Whose turn comes first: the order of MON-27.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Primary,
    PossiblePrimary,
    Known,
    Unknown,
}

impl Rank {
    const fn of(server: ServerType) -> Self {
        match server {
            ServerType::RsPrimary => Self::Primary,
            ServerType::PossiblePrimary => Self::PossiblePrimary,
            ServerType::Unknown | ServerType::RsGhost => Self::Unknown,
            ServerType::Standalone
            | ServerType::Mongos
            | ServerType::RsSecondary
            | ServerType::RsArbiter
            | ServerType::RsOther
            | ServerType::LoadBalancer => Self::Known,
        }
    }
}

impl Scan {
    /// Nothing is known, so the first operation begins with a scan (SDAM-35).
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            stale: true,
            running: None,
            completed: 0,
            ended: None,
            earliest: Instant::ZERO,
            cooldowns: BTreeMap::new(),
        }
    }
}

impl Sdam {
    /// True if servers are checked by scans. What follows here does nothing otherwise.
    #[must_use]
    pub fn scans(&self) -> bool {
        self.scan.is_some()
    }

    /// An operation begins: does a scan come before its selection? It does when the last one ended
    /// `heartbeat_frequency` ago, or when something happened since that makes the topology stale
    /// (MON-25).
    pub fn wants_scan(&mut self, now: Instant) -> bool {
        let frequency = self.out.heartbeat_frequency;
        let Some(scan) = &mut self.scan else {
            return false;
        };
        scan.stale |= scan.ended.is_none_or(|ended| ended + frequency <= now);
        scan.stale
    }

    /// True while a scan has to come before the next selection, and while one is under way.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.scan.as_ref().is_some_and(|scan| scan.stale)
    }

    /// True from the begin of a scan to its end.
    #[must_use]
    pub fn is_scan_under_way(&self) -> bool {
        self.scan
            .as_ref()
            .is_some_and(|scan| scan.running.is_some())
    }

    /// The next selection has to wait for a scan: the last one found nothing, or an operation was
    /// told that a server is no longer what it was (MON-26, SDAM-97).
    pub fn mark_stale(&mut self, now: Instant) {
        if let Some(scan) = &mut self.scan {
            scan.stale = true;
            if let Some(running) = &mut scan.running {
                running.outdated = true;
            }
            self.plan_scan(now);
        }
    }

    /// How many scans came to their end.
    #[must_use]
    pub fn scans_completed(&self) -> u64 {
        self.scan.as_ref().map_or(0, |scan| scan.completed)
    }

    /// The earliest begin of the next scan: 500 ms after the last one (MON-26).
    #[must_use]
    pub fn earliest_scan(&self) -> Instant {
        self.scan
            .as_ref()
            .map_or(Instant::ZERO, |scan| scan.earliest)
    }

    /// Operations wait for a scan, or nobody waits any more. Then a scan under way is given up,
    /// without a word about the server that it was asking: nobody would move its bytes.
    pub(super) fn set_waiting_for_scan(&mut self, now: Instant, waiting: bool) {
        self.waiting = waiting;
        if waiting {
            self.plan_scan(now);
            return;
        }
        self.out.timers.cancel(Timer::Scan);
        let Some(scan) = &mut self.scan else {
            return;
        };
        if let Some(running) = scan.running.take() {
            scan.earliest = now + MIN_HEARTBEAT_FREQUENCY;
            if let Some(current) = running.current {
                let cause = Error::new(ErrorKind::Abandoned);
                self.with_monitor(current, |m, out| m.cancel(now, out, &cause));
            }
        }
    }

    /// The time for a scan has come: somebody waits for it, and the last one ended long enough ago.
    pub(super) fn begin_scan(&mut self, now: Instant) {
        let Some(scan) = &mut self.scan else {
            return;
        };
        let servers = &self.servers;
        scan.cooldowns
            .retain(|id, until| *until > now && servers.contains_key(id));
        scan.running = Some(Running {
            started: now,
            checked: BTreeSet::new(),
            current: None,
            outdated: false,
        });
        self.continue_scan(now);
    }

    /// What every input ends with: once a check is over, the next server has its turn, or the scan
    /// is over too.
    pub(super) fn continue_scan(&mut self, now: Instant) {
        let Some(running) = self.scan.as_ref().and_then(|scan| scan.running.as_ref()) else {
            return;
        };
        let current = running.current.and_then(|id| self.servers.get(&id));
        if current
            .and_then(|server| server.monitor.as_ref())
            .is_some_and(|monitor| monitor.is_checking())
        {
            return;
        }
        let next = self.next_to_check();
        let Some(scan) = &mut self.scan else {
            return;
        };
        if let (Some(id), Some(running)) = (next, &mut scan.running) {
            running.checked.insert(id);
            running.current = Some(id);
            self.with_monitor(id, |monitor, out| monitor.on_turn(now, out));
            return;
        }
        scan.stale = scan.running.take().is_some_and(|running| running.outdated);
        scan.completed += 1;
        scan.ended = Some(now);
        scan.earliest = now + MIN_HEARTBEAT_FREQUENCY;
        self.out.push(Action::ScanEnded);
    }

    /// A check was answered, or failed.
    pub(super) fn note_check(&mut self, now: Instant, id: ServerId, failure: Option<&Error>) {
        let Some(scan) = &mut self.scan else {
            return;
        };
        if failure.is_some_and(Error::is_network) {
            scan.cooldowns.insert(id, now + COOLDOWN);
        } else {
            scan.cooldowns.remove(&id);
        }
    }

    /// The client closes.
    pub(super) fn end_scans(&mut self) {
        if let Some(scan) = &mut self.scan {
            scan.running = None;
        }
    }

    /// A scan under way is forgotten, and the next one comes as soon as somebody waits for it.
    pub(super) fn drop_scan(&mut self, now: Instant) {
        if let Some(scan) = &mut self.scan {
            scan.running = None;
            scan.stale = true;
            scan.earliest = now;
            scan.cooldowns.clear();
        }
    }

    pub(super) fn plan_scan(&mut self, now: Instant) {
        let Some(scan) = &self.scan else {
            return;
        };
        if self.phase != Life::Running || !self.waiting || !scan.stale || scan.running.is_some() {
            return;
        }
        if scan.earliest > now {
            self.out.timers.set(Timer::Scan, scan.earliest);
        } else {
            self.out.timers.cancel(Timer::Scan);
            self.begin_scan(now);
        }
    }

    /// The order of MON-27. A scan has a bound, whatever names servers report meanwhile.
    fn next_to_check(&mut self) -> Option<ServerId> {
        let Self {
            scan,
            servers,
            topology,
            ..
        } = self;
        let scan = scan.as_mut()?;
        let running = scan.running.as_ref()?;
        if running.checked.len() >= MAX_SERVERS {
            return None;
        }
        let cools = |id| {
            let until = scan.cooldowns.get(id);
            until.is_some_and(|&until| until > running.started)
        };
        let mut best = None;
        let mut first = Vec::new();
        for (id, server) in servers.iter() {
            let known = topology.server(&server.address);
            let Some(known) = known.filter(|_| !running.checked.contains(id) && !cools(id)) else {
                continue;
            };
            let order = order(known);
            if best.is_none_or(|best| order < best) {
                best = Some(order);
                first.clear();
            }
            if best == Some(order) {
                first.push(*id);
            }
        }
        match first.len() {
            0 => None,
            1 => Some(first[0]),
            count => Some(first[scan.random.below(count as u64) as usize]),
        }
    }
}

/// By rank; within a rank the longest unchecked first, those never checked before all others.
fn order(server: &ServerDescription) -> (Rank, Option<Instant>) {
    (Rank::of(server.server_type), server.last_update_time)
}
