//! Scans: the checks of a client that checks servers on demand, while operations wait (MON-23 to
//! MON-30).
//!
//! The monitors are the same as with background monitoring; this module decides which server is
//! checked next. It departs from the specification in three points:
//!
//! * Checks have their own connection per server. The specification lets single-threaded clients
//!   check on the connections of operations. So no check is authenticated, and no server can refuse
//!   one for that reason (MON-15, MON-30).
//! * A scan remembers which servers it has checked. The specification compares the times of the
//!   last updates, but a description is also replaced without a check. By that comparison, a stale
//!   primary, whose description becomes a default without a time, would be checked without end.
//! * Only a network error of a check starts the cooldown of a server, as the text about
//!   `cooldownMS` says. Its pseudocode also counts errors of operations. But a server that an
//!   operation found to have stepped down is one that the next scan has to check.
//!
//! A scan checks one server at a time, so a server that does not answer could block all operations.
//! Four rules prevent this. They depart from "scans all the servers before selecting" (MON-25):
//!
//! * After each check the scan pauses until the waiting operations have selected again. An
//!   operation that needs the primary continues as soon as the primary was checked in this scan.
//!   The other servers are checked when an operation needs them.
//! * A scan is suspended when no operation waits for it any more. The next operation continues it.
//!   A suspended scan is dropped `heartbeatFrequencyMS` after its start, or when the topology
//!   becomes stale.
//! * The check under way is cancelled when its scan is suspended. The cancellation is no error of
//!   the server, so the server description stays. The server is then checked after all others, and
//!   500 ms after the cancellation at the earliest (MON-31).
//! * If a server that was checked in this scan is suitable, an operation does not wait for servers
//!   whose last check was cancelled or ended less than 500 ms ago. Nor does it wait for a scan that
//!   outlasted `serverSelectionTimeoutMS`.

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

/// `cooldownMS`: the time for which scans skip a server whose check failed with a network error
/// ([MON-23]). The value is not configurable.
///
/// [MON-23]: crate::requirements::monitoring#MON-23
pub const COOLDOWN: Duration = Duration::from_secs(5);

/// The state of scans: when the next one is due, and the progress of the one under way.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// Chooses between servers that are equal in the order of checks.
    pub(super) random: Random,
    /// The topology is stale (SDAM-14): a scan has to come before the next server selection.
    stale: bool,
    /// The scan under way, also while it is suspended.
    pub(super) running: Option<Running>,
    /// The number of scans that ended.
    completed: u64,
    /// The end of the last scan; `None` before the first.
    ended: Option<Instant>,
    /// The earliest start of the next scan: 500 ms after the end of the last one (MON-26), or after
    /// the suspension of the last one if it was dropped because the topology became stale.
    earliest: Instant,
    /// The ends of the cooldowns of servers whose last check failed with a network error.
    cooldowns: BTreeMap<ServerId, Instant>,
    /// Servers whose last check was cancelled because its scan was suspended, with the time of the
    /// cancellation. A scan checks them after all other servers, oldest cancellation first.
    pub(super) cancelled: BTreeMap<ServerId, Instant>,
}

/// A scan under way.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// The time at which the scan began.
    started: Instant,
    /// The servers that were checked in this scan, or whose check is under way. Each server is
    /// checked once in a scan (MON-28).
    pub(super) checked: BTreeSet<ServerId>,
    /// The server whose check is under way; `None` between two checks.
    current: Option<ServerId>,
    /// The time at which the latest check of the scan began; at first the start of the scan.
    turn_began: Instant,
    /// The time at which the scan was suspended; `None` from the start of its next check on.
    suspended: Option<Instant>,
    /// An operation waited for this scan for `serverSelectionTimeoutMS`, and then used the results
    /// so far.
    is_overdue: bool,
    /// The topology became stale again during this scan, so that another scan has to follow.
    outdated: bool,
}

impl Scan {
    /// Returns the state of a new client, whose first operation begins with a scan (SDAM-35).
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
    /// True if the server was checked in this scan and the check has ended.
    fn has_checked(&self, id: ServerId) -> bool {
        self.checked.contains(&id) && self.current != Some(id)
    }
}

impl Sdam {
    /// True if this client checks servers on demand. Otherwise the methods for scans change
    /// nothing.
    #[must_use]
    pub fn scans(&self) -> bool {
        self.scan.is_some()
    }

    /// True if a scan has to come before the server selection of an operation that begins now
    /// ([MON-25]). A scan is due `heartbeat_frequency` after the end of the last one, and when the
    /// topology has become stale.
    ///
    /// [MON-25]: crate::requirements::monitoring#MON-25
    pub fn wants_scan(&mut self, now: Instant) -> bool {
        let frequency = self.out.heartbeat_frequency;
        let Some(scan) = &mut self.scan else {
            return false;
        };
        scan.stale |= scan.ended.is_none_or(|ended| ended + frequency <= now);
        // The results of a suspended scan are dropped when they are as old as
        // `heartbeat_frequency`.
        if let Some(running) = &scan.running
            && running.suspended.is_some()
            && running.started + frequency <= now
        {
            scan.running = None;
        }
        scan.stale
    }

    /// True while the topology is stale: a scan has to come before the next server selection, or is
    /// under way.
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

    /// Marks the topology as stale, so that the next server selection waits for a scan. Called, for
    /// example, if no server suited after the last scan ([MON-26]), and after a state change error
    /// that makes the topology stale ([SDAM-97]).
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

    /// Returns a number for an operation that begins to select a server now. When
    /// [`scans_completed`](Self::scans_completed) exceeds it, a scan has ended since then. A scan
    /// that is suspended now does not count, because some of its checks came before.
    #[must_use]
    pub(crate) fn scans_begun_before(&self) -> u64 {
        let running = self.scan.as_ref().and_then(|scan| scan.running.as_ref());
        let is_suspended = running.is_some_and(|running| running.suspended.is_some());
        self.scans_completed() + u64::from(is_suspended)
    }

    /// True if the primary of a replica set was checked in the scan under way.
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

    /// True if an operation with a suitable server does not wait for the rest of the scan: the scan
    /// is overdue, or the last check of each server that is left was cancelled or ended less than
    /// 500 ms ago.
    #[must_use]
    pub(crate) fn is_rest_of_scan_optional(&self, now: Instant) -> bool {
        let Some(scan) = &self.scan else {
            return false;
        };
        let Some(running) = &scan.running else {
            return false;
        };
        let mut left = self.servers.iter().filter(|(id, server)| {
            let was_cancelled = scan.cancelled.contains_key(id) || server.was_checked_recently(now);
            !running.has_checked(**id) && !scan.is_in_cooldown(running, **id) && !was_cancelled
        });
        running.is_overdue || left.next().is_none()
    }

    /// Marks the scan under way as overdue: an operation waited for it for
    /// `serverSelectionTimeoutMS`. From now on, no operation with a suitable server waits for the
    /// rest of this scan.
    pub(crate) fn note_scan_overdue(&mut self) {
        if let Some(running) = self.scan.as_mut().and_then(|scan| scan.running.as_mut()) {
            running.is_overdue = true;
        }
    }

    /// Returns the topology description with only the results of the scan under way: servers that
    /// were not checked in it are Unknown. `None` if no scan is under way, or before the end of its
    /// first check.
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

    /// Returns the earliest start of the next scan: 500 ms after the end of the last one
    /// ([MON-26]), or after the suspension of a scan that was dropped because the topology became
    /// stale.
    ///
    /// [MON-26]: crate::requirements::monitoring#MON-26
    #[must_use]
    pub fn earliest_scan(&self) -> Instant {
        self.scan
            .as_ref()
            .map_or(Instant::ZERO, |scan| scan.earliest)
    }

    /// Sets whether operations wait for a scan. If none does, the scan under way is suspended and
    /// its check is cancelled, because no thread would move the bytes of the check. The server
    /// description does not change.
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
            // A check that is cancelled at the instant of its start had no time to succeed. So this
            // server is not checked after all others.
            if running.turn_began < now {
                scan.cancelled.insert(current, now);
            }
            let cause = Error::new(ErrorKind::Abandoned);
            self.with_monitor(current, |m, out| m.cancel(now, out, &cause));
        }
    }

    /// Starts a scan with the check of its first server.
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
        self.out.push(Action::ScanEnded);
    }

    /// Called after each input. If the check of the scan under way has ended, waiting operations
    /// select again before the next check. If no server is left, the scan ends.
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

    /// Drops the scan under way, because the client closes.
    pub(super) fn end_scans(&mut self) {
        if let Some(scan) = &mut self.scan {
            scan.running = None;
        }
    }

    /// Drops the scan under way, all cooldowns and the record of cancelled checks, in a forked
    /// child process. The next scan starts as soon as an operation waits for it.
    pub(super) fn drop_scan(&mut self, now: Instant) {
        if let Some(scan) = &mut self.scan {
            scan.running = None;
            scan.stale = true;
            scan.earliest = now;
            scan.cooldowns.clear();
            scan.cancelled.clear();
        }
    }

    /// Starts or continues a scan if operations wait and the topology is stale. Arms the timer if
    /// the next scan may not start yet.
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
