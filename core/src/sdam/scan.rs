//! Scans: the checks of a client that checks servers on demand, while operations wait (MON-23 to
//! MON-30).
//!
//! The monitors are the same as with background monitoring, but a scan decides which server is
//! checked next. Scans depart from the specification in three points:
//!
//! * Each server has a connection for checks, on which the client does not authenticate (MON-15).
//!   The specification lets single-threaded clients check on the connections of operations, and has
//!   a rule for the refusal of an authenticated check (MON-30).
//! * A scan remembers which servers it has checked. The specification compares the times of the
//!   last updates with the start of the scan. By that comparison a stale primary would be checked
//!   without end, because the specification gives it a default description, without an update time.
//! * Only a network error of a check starts the cooldown of a server, as the specification's text
//!   about `cooldownMS` says. The specification's pseudocode also counts errors of operations. But
//!   if an operation finds that a primary has stepped down, the next scan has to check that server.
//!
//! A scan checks one server at a time, so a server that does not reply could block all operations.
//! Five rules limit this. They depart from the specification's "scans all the servers before
//! selecting" (MON-25):
//!
//! * After each check the scan pauses until the waiting operations have selected again. An
//!   operation that needs the primary continues as soon as the primary was checked in this scan.
//!   The other servers are checked only if an operation still waits.
//! * A scan is suspended when no operation waits for the scan any more. The next operation that
//!   waits continues the scan. But a new scan begins if at least `heartbeatFrequencyMS` have passed
//!   since the start of the suspended one, or if the topology was marked as stale after the
//!   suspension.
//! * The check under way is cancelled when its scan is suspended. The cancellation is no error of
//!   the server, so the server description stays. The server loses its place in the order of checks
//!   (see `Scan::cancelled`), and is checked 500 ms after the cancellation at the earliest
//!   (MON-31).
//! * If a server that was checked in this scan is suitable, an operation does not wait for servers
//!   whose last check was cancelled or ended less than 500 ms ago. The operation does not wait for
//!   an overdue scan either (see `Running::is_overdue`).
//! * Operations wait only for a limited time for hosts that replies named and that never answered
//!   (see `patience.rs`).

use super::{Life, MIN_HEARTBEAT_FREQUENCY, Sdam, order::Order, patience::Patience, timers::Timer};
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

/// `cooldownMS`: the time for which scans skip a server whose check failed with a network error.
/// The value is not configurable ([MON-23]).
///
/// [MON-23]: crate::requirements::monitoring#MON-23
pub const COOLDOWN: Duration = Duration::from_secs(5);

/// The state of scans: when the next one is due, and the progress of the one under way.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// Chooses between servers that are equal in the order of checks.
    pub(super) random: Random,
    /// True if the topology is stale (SDAM-14), so that server selection waits for a scan.
    stale: bool,
    /// The scan under way, also while it is suspended; `None` between two scans.
    pub(super) running: Option<Running>,
    /// The number of scans that ended.
    completed: u64,
    /// The end of the last scan; `None` before the first.
    ended: Option<Instant>,
    /// The earliest start of the next scan: 500 ms after the last scan ended (MON-26) or, if
    /// [`Sdam::mark_stale`] dropped the last scan, 500 ms after its suspension. A forked child
    /// process need not wait.
    earliest: Instant,
    /// The ends of the cooldowns of servers whose last check failed with a network error.
    cooldowns: BTreeMap<ServerId, Instant>,
    /// Servers whose last check was cancelled because its scan was suspended, with the time of the
    /// cancellation. A scan checks them after all other servers, oldest cancellation first.
    pub(super) cancelled: BTreeMap<ServerId, Instant>,
    /// The time spent on hosts that replies named and that never answered.
    pub(super) patience: Patience,
}

/// A scan under way.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// The time at which the scan began.
    started: Instant,
    /// The servers that this scan does not check any more, because it has checked them or their
    /// check is under way. New servers that a reply names are not in this set, so the scan checks
    /// them as well (MON-28).
    pub(super) checked: BTreeSet<ServerId>,
    /// The server whose check is under way; `None` between two checks.
    pub(super) current: Option<ServerId>,
    /// The time at which the latest check of the scan began; at first the start of the scan.
    pub(super) turn_began: Instant,
    /// The time at which the scan was suspended; `None` if a check of the scan has begun since
    /// then, and before the first suspension.
    suspended: Option<Instant>,
    /// True if an operation waited for this scan for `serverSelectionTimeoutMS`, and then used the
    /// results so far.
    is_overdue: bool,
    /// True if the topology was marked as stale during this scan, so that another scan has to
    /// follow.
    outdated: bool,
}

impl Scan {
    /// Returns the state of a new client: the topology is stale, so that the first operation waits
    /// for a scan (SDAM-35).
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
            patience: Patience::new(),
        }
    }
}

impl Running {
    /// True if the server was checked in this scan and the check has ended.
    fn has_checked(&self, id: ServerId) -> bool {
        self.checked.contains(&id) && self.current != Some(id)
    }
}

impl Sdam {
    /// True if this client checks servers on demand. False behind a load balancer.
    #[must_use]
    pub fn scans(&self) -> bool {
        self.scan.is_some()
    }

    /// Marks the topology as stale if `heartbeat_frequency` has passed since the end of the last
    /// scan, and drops a suspended scan that began at least that long ago. Returns true if the
    /// topology is stale, so that an operation that begins now waits for a scan. False with
    /// background monitoring ([MON-25]).
    ///
    /// [MON-25]: crate::requirements::monitoring#MON-25
    pub fn wants_scan(&mut self, now: Instant) -> bool {
        let frequency = self.out.heartbeat_frequency;
        let Some(scan) = &mut self.scan else {
            return false;
        };
        scan.stale |= scan.ended.is_none_or(|ended| ended + frequency <= now);
        if let Some(running) = &scan.running
            && running.suspended.is_some()
            && running.started + frequency <= now
        {
            scan.running = None;
        }
        scan.stale
    }

    /// True if the topology is stale, so that server selection waits for a scan.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.scan.as_ref().is_some_and(|scan| scan.stale)
    }

    /// True from the start of a scan to its end, also while the scan is suspended.
    #[must_use]
    pub fn is_scan_under_way(&self) -> bool {
        self.scan
            .as_ref()
            .is_some_and(|scan| scan.running.is_some())
    }

    /// Marks the topology as stale, so that the next server selection waits for a scan: for example
    /// if no server suits after the last scan, or after a "not writable primary" error ([MON-26],
    /// [SDAM-97]).
    ///
    /// A suspended scan is dropped. A scan under way that is not suspended is followed by another
    /// one. With background monitoring nothing changes.
    ///
    /// [MON-26]: crate::requirements::monitoring#MON-26
    /// [SDAM-97]: crate::requirements::discovery#SDAM-97
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

    /// Returns the number of scans that ended.
    #[must_use]
    pub fn scans_completed(&self) -> u64 {
        self.scan.as_ref().map_or(0, |scan| scan.completed)
    }

    /// Returns the number of scans that ended, plus one if a scan is suspended now. An operation
    /// that begins to select a server compares this number with later values of
    /// [`scans_completed`](Self::scans_completed). A greater value means that a scan has ended
    /// since then which was not suspended at that time.
    #[must_use]
    pub(crate) fn scans_begun_before(&self) -> u64 {
        let running = self.scan.as_ref().and_then(|scan| scan.running.as_ref());
        let is_suspended = running.is_some_and(|running| running.suspended.is_some());
        self.scans_completed() + u64::from(is_suspended)
    }

    /// True if a primary of a replica set is known and was checked in the scan under way.
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

    /// True if an operation with a suitable server need not wait for the rest of the scan under
    /// way: the scan is overdue, or the last check of each server that is left to check was
    /// cancelled or ended less than 500 ms ago. Servers that replies named and that never answered
    /// do not count if operations have waited long enough for such servers (see `patience.rs`).
    #[must_use]
    pub(crate) fn is_rest_of_scan_optional(&self, now: Instant) -> bool {
        let Some(scan) = &self.scan else {
            return false;
        };
        let Some(running) = &scan.running else {
            return false;
        };
        let ignores_strangers = self.ignores_strangers(now);
        let mut left = self.servers.iter().filter(|(id, server)| {
            if ignores_strangers && self.out.turns.is_stranger(**id) {
                return false;
            }
            let was_cancelled = scan.cancelled.contains_key(id) || server.was_checked_recently(now);
            !running.has_checked(**id) && !scan.is_in_cooldown(running, **id) && !was_cancelled
        });
        running.is_overdue || left.next().is_none()
    }

    /// Marks the scan under way as overdue. From then on,
    /// [`is_rest_of_scan_optional`](Self::is_rest_of_scan_optional) returns true during this scan.
    pub(crate) fn note_scan_overdue(&mut self) {
        if let Some(running) = self.scan.as_mut().and_then(|scan| scan.running.as_mut()) {
            running.is_overdue = true;
        }
    }

    /// Returns the topology description with only the results of the scan under way: servers that
    /// were not checked in this scan are Unknown. `None` if no scan is under way, or if none of its
    /// checks has ended.
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

    /// Returns the topology description without the servers that may be silent: those whose check
    /// is under way, or whose last check was cancelled, are Unknown. Servers that were not checked
    /// in this scan keep their descriptions of earlier checks.
    #[must_use]
    pub(crate) fn known_description(&self) -> TopologyDescription {
        let mut description = TopologyDescription::clone(self.topology.description());
        let Some(scan) = &self.scan else {
            return description;
        };
        let current = scan.running.as_ref().and_then(|running| running.current);
        let doubtful = scan.cancelled.keys().copied().chain(current);
        for server in doubtful.filter_map(|id| self.servers.get(&id)) {
            if let Some(known) = description.servers.get_mut(&server.address) {
                *known = Arc::new(ServerDescription::unknown(server.address.clone()));
            }
        }
        description
    }

    /// True while a scan is under way that is not suspended.
    #[must_use]
    pub(crate) fn is_scanning(&self) -> bool {
        let running = self.scan.as_ref().and_then(|scan| scan.running.as_ref());
        running.is_some_and(|running| running.suspended.is_none())
    }

    /// Returns the earliest start of the next scan: 500 ms after the last scan ended or, if
    /// [`mark_stale`](Self::mark_stale) dropped the last scan, 500 ms after its suspension.
    /// [`handle_forked`](Self::handle_forked) sets the time of its call instead. [`Instant::ZERO`]
    /// if no scan has ended or was dropped yet ([MON-26]).
    ///
    /// [MON-26]: crate::requirements::monitoring#MON-26
    #[must_use]
    pub fn earliest_scan(&self) -> Instant {
        self.scan
            .as_ref()
            .map_or(Instant::ZERO, |scan| scan.earliest)
    }

    /// Sets whether operations wait for a scan. If no operation waits, the scan under way is
    /// suspended and its check is cancelled. The server description does not change.
    pub(super) fn set_waiting_for_scan(&mut self, now: Instant, waiting: bool) {
        self.waiting = waiting;
        if waiting {
            self.plan_scan(now);
            return;
        }
        self.out.timers.cancel(Timer::Scan);
        let running = self.scan.as_ref().and_then(|scan| scan.running.as_ref());
        if let Some(current) = running.and_then(|running| running.current) {
            self.note_unanswered(now, current);
        }
        let Some(scan) = &mut self.scan else {
            return;
        };
        let Some(running) = &mut scan.running else {
            return;
        };
        running.suspended.get_or_insert(now);
        if let Some(current) = running.current.take() {
            running.checked.remove(&current);
            // A check that is cancelled at the instant of its start had no time to succeed, so its
            // server keeps the place in the order of checks.
            if running.turn_began < now {
                scan.cancelled.insert(current, now);
            }
            let cause = Error::new(ErrorKind::Abandoned);
            self.with_monitor(current, |m, out| m.cancel(now, out, &cause));
        }
    }

    /// Starts a scan and calls [`Self::take_turn`].
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

    /// Begins the check of the next server. If each server that is left was checked less than 500
    /// ms ago, the scan waits until one may be checked. If no server is left, the scan ends.
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
        self.out.push(Order::ScanEnded);
    }

    /// Continues the scan under way if its current check has ended. If no server is left to check,
    /// the scan ends. Otherwise [`Order::CheckEnded`] lets waiting operations select again before
    /// the next check.
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
            self.out.push(Order::CheckEnded);
        }
    }

    /// Lets a suspended scan check this server once more, because an error of an operation or of a
    /// pool's connection made the server Unknown.
    pub(super) fn check_again(&mut self, id: ServerId) {
        let running = self.scan.as_mut().and_then(|scan| scan.running.as_mut());
        if let Some(running) = running.filter(|running| running.suspended.is_some()) {
            running.checked.remove(&id);
        }
    }

    /// Records the outcome of a check: a network error starts the cooldown of the server, and every
    /// other outcome ends it (MON-23).
    pub(super) fn note_check(&mut self, now: Instant, id: ServerId, failure: Option<&Error>) {
        if failure.is_some() {
            self.note_unanswered(now, id);
        }
        let Some(scan) = &mut self.scan else {
            return;
        };
        scan.cancelled.remove(&id);
        if failure.is_some_and(Error::is_connection_failure) {
            scan.cooldowns.insert(id, now + COOLDOWN);
        } else {
            scan.cooldowns.remove(&id);
        }
    }

    /// Drops the scan under way, because the client closes.
    pub(super) fn end_scans(&mut self) {
        if let Some(scan) = &mut self.scan {
            scan.running = None;
        }
    }

    /// Drops the scan under way, all cooldowns and the record of cancelled checks, in a forked
    /// child process. The topology becomes stale, and the next scan may start at once.
    pub(super) fn drop_scan(&mut self, now: Instant) {
        if let Some(scan) = &mut self.scan {
            scan.running = None;
            scan.stale = true;
            scan.earliest = now;
            scan.cooldowns.clear();
            scan.cancelled.clear();
        }
    }

    /// Starts or continues a scan if operations wait and the topology is stale. If the next scan
    /// may not start yet, arms [`Timer::Scan`].
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
    /// True if the scan `running` skips this server because of the server's cooldown (MON-23).
    pub(super) fn is_in_cooldown(&self, running: &Running, id: ServerId) -> bool {
        let until = self.cooldowns.get(&id);
        until.is_some_and(|&until| until > running.started)
    }
}
