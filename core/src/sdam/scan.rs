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
//!
//! A scan asks one server at a time, so one server that does not answer could stop all operations.
//! Four rules prevent that. They depart from "scans all the servers before selecting" (MON-25):
//!
//! * After each check the scan pauses until the client has let the waiting operations select again.
//!   An operation that needs the primary continues as soon as the primary was checked in this scan.
//!   The other members are checked when an operation needs them.
//! * A scan for which no operation waits any more is suspended. The next operation continues it
//!   instead of starting the same scan again. A suspended scan ends after `heartbeatFrequencyMS`,
//!   and when the topology becomes stale.
//! * The check under way is cancelled when its scan is suspended. That is no error of the server,
//!   so the server description stays. The server is asked after all others from then on. As after
//!   each check, 500 ms pass before the next check of this server begins (MON-31); the scan checks
//!   other servers meanwhile.
//! * Operations do not wait for servers whose checks were cancelled or ended less than 500 ms ago,
//!   nor for the rest of a scan that outlasted `serverSelectionTimeoutMS`, if a server that was
//!   checked in this scan suits.

use super::{Life, MIN_HEARTBEAT_FREQUENCY, Sdam, action::Action, timers::Timer};
use crate::{
    description::{ServerDescription, ServerId, ServerType, TopologyDescription},
    error::{Error, ErrorKind},
    random::Random,
    time::Instant,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// `cooldownMS`: how long scans leave a server out whose check met a network error (MON-23). Not an
/// option.
pub const COOLDOWN: Duration = Duration::from_secs(5);

/// When scans are due, and how far the running one has come.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// Breaks ties between servers that were last checked at the same time.
    pub(super) random: Random,
    /// `stale` (SDAM-14): a scan comes before the next selection.
    stale: bool,
    pub(super) running: Option<Running>,
    /// Scans that came to their end.
    completed: u64,
    /// When the last of them did.
    ended: Option<Instant>,
    /// The earliest begin of the next one (MON-31).
    earliest: Instant,
    /// Until when servers are left out, by the last network error of a check.
    cooldowns: BTreeMap<ServerId, Instant>,
    /// Servers whose last check was cancelled because the last waiting operation ended, with the
    /// time of the cancellation. They are checked after all other servers, oldest first.
    pub(super) cancelled: BTreeMap<ServerId, Instant>,
}

/// A scan under way.
#[derive(Clone, Debug)]
pub(super) struct Running {
    started: Instant,
    /// Servers whose turn has come, so that each has one (MON-28).
    pub(super) checked: BTreeSet<ServerId>,
    /// The server whose check is under way; none between two checks.
    current: Option<ServerId>,
    /// When the check under way began.
    turn_began: Instant,
    /// The moment since which no operation waits for this scan; `None` while one does.
    suspended: Option<Instant>,
    /// An operation waited for `serverSelectionTimeoutMS` and used a part of this scan.
    is_overdue: bool,
    /// Something made the topology stale meanwhile, so that one more scan has to follow.
    outdated: bool,
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
            cancelled: BTreeMap::new(),
        }
    }
}

impl Running {
    /// True if the server was checked in this scan, and the check is over.
    fn has_checked(&self, id: ServerId) -> bool {
        self.checked.contains(&id) && self.current != Some(id)
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
        // What a suspended scan learned is too old.
        if let Some(running) = &scan.running
            && running.suspended.is_some()
            && running.started + frequency <= now
        {
            scan.running = None;
        }
        scan.stale
    }

    /// True while a scan has to come before the next selection, and while one is under way.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.scan.as_ref().is_some_and(|scan| scan.stale)
    }

    /// True from the begin of a scan to its end, also while it is suspended.
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
            match &mut scan.running {
                Some(Running {
                    suspended: Some(suspended),
                    ..
                }) => {
                    scan.earliest = *suspended + MIN_HEARTBEAT_FREQUENCY;
                    scan.running = None;
                }
                Some(running) => running.outdated = true,
                None => {}
            }
            self.plan_scan(now);
        }
    }

    /// How many scans came to their end.
    #[must_use]
    pub fn scans_completed(&self) -> u64 {
        self.scan.as_ref().map_or(0, |scan| scan.completed)
    }

    /// The value of [`scans_completed`](Self::scans_completed) up to which a selection that begins
    /// now has not seen a whole scan. A scan that is continued checked some servers too early.
    #[must_use]
    pub(crate) fn scans_begun_before(&self) -> u64 {
        let running = self.scan.as_ref().and_then(|scan| scan.running.as_ref());
        let is_suspended = running.is_some_and(|running| running.suspended.is_some());
        self.scans_completed() + u64::from(is_suspended)
    }

    /// True if the primary of a replica set was checked in the scan that is under way.
    #[must_use]
    pub(crate) fn has_scanned_primary(&self) -> bool {
        let Some(running) = self.scan.as_ref().and_then(|scan| scan.running.as_ref()) else {
            return false;
        };
        let mut servers = self.topology.description().servers.values();
        let primary = servers.find(|server| server.server_type == ServerType::RsPrimary);
        primary
            .and_then(|primary| self.server_id(&primary.address))
            .is_some_and(|id| running.has_checked(id))
    }

    /// True if no operation that has a suitable server waits for the rest of the scan under way:
    /// the scan is overdue, or the checks of all servers that are left were cancelled before or
    /// ended less than 500 ms ago.
    #[must_use]
    pub(crate) fn is_rest_of_scan_optional(&self, now: Instant) -> bool {
        let Some(scan) = &self.scan else {
            return false;
        };
        let Some(running) = &scan.running else {
            return false;
        };
        let mut left = self.servers.iter().filter(|(id, server)| {
            let was_cancelled = scan.cancelled.contains_key(id) || server.rests(now);
            !running.has_checked(**id) && !scan.is_cooling(running, **id) && !was_cancelled
        });
        running.is_overdue || left.next().is_none()
    }

    /// An operation waited for `serverSelectionTimeoutMS` and does not wait for the rest of the
    /// scan under way. From now on no other operation does that could be served.
    pub(crate) fn note_scan_overdue(&mut self) {
        if let Some(running) = self.scan.as_mut().and_then(|scan| scan.running.as_mut()) {
            running.is_overdue = true;
        }
    }

    /// The topology description as far as the scan under way has come: servers that were not
    /// checked in it are Unknown. `None` while no scan is under way and before its first check is
    /// over.
    #[must_use]
    pub(crate) fn scanned_description(&self) -> Option<TopologyDescription> {
        let running = self.scan.as_ref()?.running.as_ref()?;
        if !running.checked.iter().any(|&id| running.has_checked(id)) {
            return None;
        }
        let mut description = TopologyDescription::clone(self.topology.description());
        for (address, server) in &mut description.servers {
            let id = self.server_id(address);
            if !id.is_some_and(|id| running.has_checked(id)) {
                *server = Arc::new(ServerDescription::unknown(address.clone()));
            }
        }
        Some(description)
    }

    /// The earliest begin of the next scan: 500 ms after the last one (MON-26).
    #[must_use]
    pub fn earliest_scan(&self) -> Instant {
        self.scan
            .as_ref()
            .map_or(Instant::ZERO, |scan| scan.earliest)
    }

    /// Operations wait for a scan, or no operation does any more. Then the scan under way is
    /// suspended and its check cancelled, because no thread would move the bytes of the check. The
    /// server description stays as it is.
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
        let Some(running) = &mut scan.running else {
            return;
        };
        running.suspended.get_or_insert(now);
        if let Some(current) = running.current.take() {
            running.checked.remove(&current);
            // A check that was cancelled at the moment of its begin was not given any time.
            if running.turn_began < now {
                scan.cancelled.insert(current, now);
            }
            let cause = Error::new(ErrorKind::Abandoned);
            self.with_monitor(current, |m, out| m.cancel(now, out, &cause));
        }
    }

    /// The time for a scan has come: an operation waits for it, and the last one ended long enough
    /// ago.
    fn begin_scan(&mut self, now: Instant) {
        let Some(scan) = &mut self.scan else {
            return;
        };
        let servers = &self.servers;
        scan.cooldowns
            .retain(|id, until| *until > now && servers.contains_key(id));
        scan.cancelled
            .retain(|id, at| *at + COOLDOWN > now && servers.contains_key(id));
        scan.running = Some(Running {
            started: now,
            checked: BTreeSet::new(),
            current: None,
            turn_began: now,
            suspended: None,
            is_overdue: false,
            outdated: false,
        });
        self.take_turn(now);
    }

    /// The next server has its turn, the scan waits until one may be checked again, or the scan is
    /// over.
    fn take_turn(&mut self, now: Instant) {
        let next = self.next_to_check(now);
        self.out.timers.cancel(Timer::Scan);
        if next.is_none()
            && let Some(turn) = self.next_turn(now)
        {
            self.out.timers.set(Timer::Scan, turn);
            return;
        }
        let Some(scan) = &mut self.scan else {
            return;
        };
        if let (Some(id), Some(running)) = (next, &mut scan.running) {
            running.checked.insert(id);
            running.current = Some(id);
            running.turn_began = now;
            running.suspended = None;
            self.with_monitor(id, |monitor, out| monitor.on_due(now, out));
            return;
        }
        scan.stale = scan.running.take().is_some_and(|running| running.outdated);
        scan.completed += 1;
        scan.ended = Some(now);
        scan.earliest = now + MIN_HEARTBEAT_FREQUENCY;
        self.out.push(Action::ScanEnded);
    }

    /// Ends each input: once a check is over, waiting operations select again before the next
    /// server has its turn. After the last check the scan is over.
    pub(super) fn continue_scan(&mut self, now: Instant) {
        let Some(running) = self.scan.as_mut().and_then(|scan| scan.running.as_mut()) else {
            return;
        };
        let Some(current) = running.current else {
            return;
        };
        let monitor = self.servers.get(&current).and_then(|s| s.monitor.as_ref());
        if monitor.is_some_and(|monitor| monitor.is_checking()) {
            return;
        }
        running.current = None;
        if self.left_to_check().next().is_none() {
            self.take_turn(now);
        } else {
            self.out.push(Action::CheckEnded);
        }
    }

    /// An operation found a server that was checked in a suspended scan no longer usable. It is
    /// checked once more when the scan continues.
    pub(super) fn doubt_scanned(&mut self, id: ServerId) {
        let running = self.scan.as_mut().and_then(|scan| scan.running.as_mut());
        if let Some(running) = running.filter(|running| running.suspended.is_some()) {
            running.checked.remove(&id);
        }
    }

    /// A check was answered, or failed.
    pub(super) fn note_check(&mut self, now: Instant, id: ServerId, failure: Option<&Error>) {
        let Some(scan) = &mut self.scan else {
            return;
        };
        scan.cancelled.remove(&id);
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
            scan.cancelled.clear();
        }
    }

    pub(super) fn plan_scan(&mut self, now: Instant) {
        let Some(scan) = &self.scan else {
            return;
        };
        if self.phase != Life::Running || !self.waiting || !scan.stale {
            return;
        }
        if let Some(running) = &scan.running {
            if running.current.is_none() {
                self.take_turn(now);
            }
        } else if scan.earliest > now {
            self.out.timers.set(Timer::Scan, scan.earliest);
        } else {
            self.out.timers.cancel(Timer::Scan);
            self.begin_scan(now);
        }
    }
}

impl Scan {
    /// True if this scan leaves the server out (MON-23).
    pub(super) fn is_cooling(&self, running: &Running, id: ServerId) -> bool {
        let until = self.cooldowns.get(&id);
        until.is_some_and(|&until| until > running.started)
    }
}
