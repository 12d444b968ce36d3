//! Turns: a limit of the work that is under way at once for the hosts of one client.

use crate::time::Instant;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// The maximum number of hosts that are remembered because they answered, and of others because
/// they had a turn. The oldest is forgotten first.
const MAX_REMEMBERED: usize = 1024;

/// The time after which work that is abandoned counts as unanswered.
pub const UNANSWERED_AFTER: Duration = Duration::from_secs(1);

/// The maximum numbers of turns at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// The maximum for all hosts.
    pub all: usize,
    /// The maximum for the hosts that have not answered the last time. The difference to
    /// [`all`](Self::all) is reserved for hosts that have.
    pub unanswered: usize,
}

impl TurnLimits {
    /// The limits of the lookups of host names by the system: 10, of which 8 for hosts that were
    /// not found the last time. Each lookup occupies a thread until it returns, also if nothing
    /// waits for it any more.
    pub const LOOKUPS: Self = Self {
        all: 10,
        unanswered: 8,
    };

    /// The limits of dials: 64 hosts, of which 48 that have not accepted a connection the last
    /// time. A dial has up to [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) sockets.
    pub const DIALS: Self = Self {
        all: 64,
        unanswered: 48,
    };
}

/// The id of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(u64);

/// A limit of the work of one kind that is under way at once for all hosts of a client, such as
/// dials.
///
/// A server can name hundreds of hosts that never answer. Therefore work needs a turn. Hosts that
/// have answered the last time go first and have turns of their own, so that other hosts cannot
/// delay them. Of the other hosts, the one goes first whose last turn is the longest ago, so that
/// each of them gets a turn.
///
/// ```
/// use onionskin_core::{dial::{TurnLimits, Turns}, time::Instant};
///
/// let now = Instant::ZERO;
/// let mut turns = Turns::new(TurnLimits { all: 2, unanswered: 1 });
/// let first = turns.request(now, "a.example.net");
/// let second = turns.request(now, "b.example.net");
/// assert!(turns.is_granted(first) && !turns.is_granted(second));
/// turns.end(now, first, Some(true));
/// assert_eq!(turns.poll_granted(), Some(second));
/// // The second turn at once is reserved for hosts that have answered.
/// let third = turns.request(now, "c.example.net");
/// let fourth = turns.request(now, "a.example.net");
/// assert!(!turns.is_granted(third) && turns.is_granted(fourth));
/// ```
#[derive(Clone, Debug)]
pub struct Turns {
    limits: TurnLimits,
    /// The number of the next turn.
    next: u64,
    running: BTreeMap<TurnId, Running>,
    /// The number of running turns of hosts that had not answered when they requested the turn.
    unanswered: usize,
    /// The requests of hosts that had answered, the oldest first.
    waiting_answered: VecDeque<(TurnId, Arc<str>)>,
    /// The requests of other hosts, by the last turn of the host.
    waiting: BTreeMap<(Option<TurnId>, TurnId), Arc<str>>,
    /// The last turn of each host that has not answered, of the newest [`MAX_REMEMBERED`] turns.
    last: BTreeMap<Arc<str>, TurnId>,
    /// The hosts of `last` by their turns.
    last_hosts: BTreeMap<TurnId, Arc<str>>,
    /// The turns that were granted after they had waited, and that were not polled yet.
    granted: VecDeque<TurnId>,
    answered: BTreeSet<Arc<str>>,
    /// The hosts of `answered`, the oldest first. A host that was removed from `answered` can still
    /// be here.
    order: VecDeque<Arc<str>>,
}

#[derive(Clone, Debug)]
struct Running {
    host: Arc<str>,
    has_answered: bool,
    since: Instant,
}

impl Turns {
    /// Creates the turns of a client with these limits.
    #[must_use]
    pub fn new(limits: TurnLimits) -> Self {
        Self {
            limits,
            next: 0,
            running: BTreeMap::new(),
            unanswered: 0,
            waiting_answered: VecDeque::new(),
            waiting: BTreeMap::new(),
            last: BTreeMap::new(),
            last_hosts: BTreeMap::new(),
            granted: VecDeque::new(),
            answered: BTreeSet::new(),
            order: VecDeque::new(),
        }
    }

    /// Requests a turn for work for a host. The turn is granted at once, or later
    /// ([`poll_granted`](Self::poll_granted)).
    pub fn request(&mut self, now: Instant, host: &str) -> TurnId {
        let id = TurnId(self.next);
        self.next += 1;
        let known = self.answered.get(host).cloned();
        let has_answered = known.is_some();
        let host = known.unwrap_or_else(|| host.into());
        if has_answered {
            self.waiting_answered.push_back((id, host));
        } else {
            let last = self.last.get(&host).copied();
            self.waiting.insert((last, id), host);
        }
        self.grant(now);
        if self.running.contains_key(&id) {
            self.granted.retain(|granted| *granted != id);
        }
        id
    }

    /// True while this turn is granted.
    #[must_use]
    pub fn is_granted(&self, id: TurnId) -> bool {
        self.running.contains_key(&id)
    }

    /// Returns the next turn that was granted after it had waited.
    #[must_use]
    pub fn poll_granted(&mut self) -> Option<TurnId> {
        self.granted.pop_front()
    }

    /// Ends a turn, or withdraws a request. `answered` is true if the host has answered, false if
    /// it has failed, and `None` if the work was abandoned. Does nothing for an unknown turn.
    pub fn end(&mut self, now: Instant, id: TurnId, answered: Option<bool>) {
        let Some(Running {
            host,
            has_answered,
            since,
        }) = self.running.remove(&id)
        else {
            self.waiting_answered.retain(|(waiting, _)| *waiting != id);
            self.waiting.retain(|(_, waiting), _| *waiting != id);
            return;
        };
        self.unanswered -= usize::from(!has_answered);
        self.granted.retain(|granted| *granted != id);
        match answered {
            Some(true) => self.remember(host),
            Some(false) => drop(self.answered.remove(&host)),
            None if now.saturating_since(since) >= UNANSWERED_AFTER => {
                self.answered.remove(&host);
            }
            None => {}
        }
        self.grant(now);
    }

    /// Forgets all turns, because the process was forked: the work is done in the parent process.
    pub fn handle_forked(&mut self) {
        let (answered, order) = (
            std::mem::take(&mut self.answered),
            std::mem::take(&mut self.order),
        );
        *self = Self {
            next: self.next,
            answered,
            order,
            ..Self::new(self.limits)
        };
    }

    fn grant(&mut self, now: Instant) {
        while self.running.len() < self.limits.all {
            let (id, host, has_answered) =
                if let Some((id, host)) = self.waiting_answered.pop_front() {
                    (id, host, true)
                } else if self.unanswered < self.limits.unanswered
                    && let Some(((_, id), host)) = self.waiting.pop_first()
                {
                    self.unanswered += 1;
                    self.note_turn(id, &host);
                    (id, host, false)
                } else {
                    return;
                };
            let running = Running {
                host,
                has_answered,
                since: now,
            };
            self.running.insert(id, running);
            self.granted.push_back(id);
        }
    }

    /// Records the last turn of a host that has not answered.
    fn note_turn(&mut self, id: TurnId, host: &Arc<str>) {
        if let Some(last) = self.last.insert(host.clone(), id) {
            self.last_hosts.remove(&last);
        }
        self.last_hosts.insert(id, host.clone());
        if self.last_hosts.len() > MAX_REMEMBERED
            && let Some((_, oldest)) = self.last_hosts.pop_first()
        {
            self.last.remove(&oldest);
        }
    }

    fn remember(&mut self, host: Arc<str>) {
        if !self.answered.insert(host.clone()) {
            return;
        }
        self.order.push_back(host);
        while self.order.len() > MAX_REMEMBERED {
            if let Some(oldest) = self.order.pop_front()
                && !self.order.contains(&oldest)
            {
                self.answered.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TurnLimits = TurnLimits {
        all: 4,
        unanswered: 3,
    };

    impl Turns {
        /// Requests a turn. Returns true if it is granted at once.
        fn try_now(&mut self, now: Instant, host: &str) -> bool {
            let id = self.request(now, host);
            self.is_granted(id)
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn turns_are_granted_in_order_up_to_the_limit() {
        let mut turns = Turns::new(LIMITS);
        let ids: Vec<_> = (0..5)
            .map(|n| turns.request(at(0), &n.to_string()))
            .collect();
        let granted: Vec<_> = ids.iter().map(|id| turns.is_granted(*id)).collect();
        assert_eq!(granted, [true, true, true, false, false]);
        assert_eq!(turns.poll_granted(), None, "nothing has waited");
        turns.end(at(0), ids[1], Some(false));
        assert_eq!(turns.poll_granted(), Some(ids[3]));
        // A request that is withdrawn is skipped, and a late or double end changes nothing.
        turns.end(at(0), ids[4], None);
        turns.end(at(0), ids[1], Some(true));
        turns.end(at(0), ids[0], Some(false));
        assert_eq!(turns.poll_granted(), None);
        assert!(turns.try_now(at(0), "next"));
    }

    #[test]
    fn hosts_that_never_answer_do_not_delay_one_that_has() {
        let mut turns = Turns::new(LIMITS);
        let good = turns.request(at(0), "good");
        turns.end(at(1), good, Some(true));
        let bad: Vec<_> = (0..250)
            .map(|n| turns.request(at(2), &n.to_string()))
            .collect();
        let good = turns.request(at(3), "good");
        assert!(turns.is_granted(good), "a turn is reserved");
        let again = turns.request(at(3), "good");
        assert!(!turns.is_granted(again));
        turns.end(at(4), bad[0], Some(false));
        assert_eq!(turns.poll_granted(), Some(again), "it goes first");
    }

    #[test]
    fn a_host_that_stops_to_answer_loses_its_precedence() {
        for (answered, ended, keeps) in [
            (Some(false), 1, false),
            (None, 999, true),
            (None, 1000, false),
            (Some(true), 5000, true),
        ] {
            let mut turns = Turns::new(LIMITS);
            let first = turns.request(at(0), "host");
            turns.end(at(0), first, Some(true));
            let second = turns.request(at(0), "host");
            turns.end(at(ended), second, answered);
            let others: Vec<_> = (0..3)
                .map(|n| turns.request(at(0), &n.to_string()))
                .collect();
            assert!(others.iter().all(|id| turns.is_granted(*id)));
            let third = turns.request(at(0), "host");
            assert_eq!(turns.is_granted(third), keeps, "{answered:?} {ended}");
        }
    }

    #[test]
    fn the_host_whose_last_turn_is_the_longest_ago_goes_first() {
        let mut turns = Turns::new(LIMITS);
        let mut served = [0; 20];
        let mut running: VecDeque<(usize, TurnId)> = VecDeque::new();
        // All hosts but the running ones ask again and again, and withdraw before their turn.
        for round in 0..200 {
            let ids: Vec<_> = (0..20)
                .map(|host| (host, turns.request(at(round), &host.to_string())))
                .collect();
            if let Some((_, id)) = running.pop_front() {
                turns.end(at(round), id, Some(false));
            }
            for (host, id) in ids {
                if turns.is_granted(id) {
                    served[host] += 1;
                    running.push_back((host, id));
                } else {
                    turns.end(at(round), id, None);
                }
            }
        }
        let (least, most) = (served.iter().min(), served.iter().max());
        assert!(least >= Some(&9) && most <= Some(&12), "{served:?}");
    }

    #[test]
    fn the_number_of_remembered_hosts_is_bounded() {
        let mut turns = Turns::new(LIMITS);
        for n in 0..3 * MAX_REMEMBERED {
            let id = turns.request(at(0), &n.to_string());
            turns.end(at(0), id, Some(true));
            if n % 2 == 0 {
                let id = turns.request(at(0), &n.to_string());
                turns.end(at(0), id, Some(false));
            }
        }
        assert!(turns.order.len() <= MAX_REMEMBERED && turns.answered.len() <= MAX_REMEMBERED);
        assert!(turns.last.len() == turns.last_hosts.len() && turns.last.len() <= MAX_REMEMBERED);
        assert!(
            turns
                .answered
                .contains(&*(3 * MAX_REMEMBERED - 1).to_string())
        );
        assert!(turns.running.is_empty() && turns.unanswered == 0);
    }

    #[test]
    fn a_fork_ends_all_turns_but_not_the_precedence() {
        let mut turns = Turns::new(LIMITS);
        let ids: Vec<_> = (0..9)
            .map(|n| turns.request(at(0), &n.to_string()))
            .collect();
        turns.end(at(0), ids[0], Some(true));
        turns.handle_forked();
        assert!(ids.iter().all(|id| !turns.is_granted(*id)));
        // The ends of turns from before the fork change nothing.
        turns.end(at(9000), ids[1], Some(false));
        let others: Vec<_> = (10..13)
            .map(|n| turns.request(at(0), &n.to_string()))
            .collect();
        assert!(others.iter().all(|id| turns.is_granted(*id)));
        assert!(turns.try_now(at(0), "0"));
    }
}
