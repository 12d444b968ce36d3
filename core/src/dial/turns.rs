//! Turns: a limit of the work that is under way at once for the hosts of one client.

#[cfg(test)]
mod tests;

use crate::time::Instant;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// The maximum number of hosts that are remembered because they answered, and of others because
/// they asked for a turn. The oldest is forgotten first.
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
    /// The maximum for strangers: hosts that no primary lists, that are no seeds, and that never
    /// answered. The difference to [`unanswered`](Self::unanswered) is reserved for other hosts.
    pub strangers: usize,
}

impl TurnLimits {
    /// The limits of the lookups of host names by the system: 10, of which 8 for hosts that were
    /// not found the last time, and 4 for strangers. Each lookup occupies a thread until it
    /// returns, also if nothing waits for it any more.
    pub const LOOKUPS: Self = Self {
        all: 10,
        unanswered: 8,
        strangers: 4,
    };

    /// The limits of dials: 64 hosts, of which 48 that have not accepted a connection the last
    /// time, and 32 strangers. A dial has up to [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) sockets.
    pub const DIALS: Self = Self {
        all: 64,
        unanswered: 48,
        strangers: 32,
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
/// delay them. Hosts that are no strangers have turns of their own as well. Of the other hosts, the
/// one goes first that has waited longest: since its last turn or, before that, since its first
/// request. So each of them gets a turn, however many new names there are.
///
/// ```
/// use onionskin_core::{dial::{TurnLimits, Turns}, time::Instant};
///
/// let now = Instant::ZERO;
/// let mut turns = Turns::new(TurnLimits { all: 2, unanswered: 1, strangers: 1 });
/// let first = turns.request(now, "a.example.net", false);
/// let second = turns.request(now, "b.example.net", false);
/// assert!(turns.is_granted(first) && !turns.is_granted(second));
/// turns.end(now, first, Some(true));
/// assert_eq!(turns.poll_granted(), Some(second));
/// // The second turn at once is reserved for hosts that have answered.
/// let third = turns.request(now, "c.example.net", true);
/// let fourth = turns.request(now, "a.example.net", false);
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
    /// The number of running turns of strangers.
    strangers: usize,
    /// The requests of hosts that had answered, the oldest first.
    waiting_answered: VecDeque<(TurnId, Arc<str>)>,
    /// The requests of other hosts.
    waiting: Queue,
    /// The requests of strangers.
    waiting_strangers: Queue,
    /// The last turn, or else the first request, of each host that has not answered: the newest
    /// [`MAX_REMEMBERED`] of them.
    since: BTreeMap<Arc<str>, TurnId>,
    /// The hosts of `since` by their turns.
    hosts: BTreeMap<TurnId, Arc<str>>,
    /// The turns that were granted after they had waited, and that were not polled yet.
    granted: VecDeque<TurnId>,
    answered: BTreeSet<Arc<str>>,
    /// The hosts of `answered`, the oldest first. A host that was removed from `answered` can still
    /// be here.
    order: VecDeque<Arc<str>>,
}

/// Requests by the last turn of the host, or else by its first request.
type Queue = BTreeMap<(TurnId, TurnId), Arc<str>>;

/// A kind of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The host has answered the last time.
    Answered,
    Unanswered,
    Stranger,
}

#[derive(Clone, Debug)]
struct Running {
    host: Arc<str>,
    standing: Standing,
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
            strangers: 0,
            waiting_answered: VecDeque::new(),
            waiting: Queue::new(),
            waiting_strangers: Queue::new(),
            since: BTreeMap::new(),
            hosts: BTreeMap::new(),
            granted: VecDeque::new(),
            answered: BTreeSet::new(),
            order: VecDeque::new(),
        }
    }

    /// Requests a turn for work for a host. The turn is granted at once, or later
    /// ([`poll_granted`](Self::poll_granted)). [`Client::is_stranger`] tells whether the host is a
    /// stranger.
    ///
    /// [`Client::is_stranger`]: crate::client::Client::is_stranger
    pub fn request(&mut self, now: Instant, host: &str, is_stranger: bool) -> TurnId {
        let id = self.next_id();
        let known = self.answered.get(host).cloned();
        let has_answered = known.is_some();
        let host = known.unwrap_or_else(|| host.into());
        if has_answered {
            self.waiting_answered.push_back((id, host));
        } else {
            let since = match self.since.get(&host) {
                Some(since) => *since,
                None => {
                    self.note(id, &host);
                    id
                }
            };
            let queue = match is_stranger {
                true => &mut self.waiting_strangers,
                false => &mut self.waiting,
            };
            queue.insert((since, id), host);
        }
        self.grant(now);
        if self.running.contains_key(&id) {
            self.granted.retain(|granted| *granted != id);
        }
        id
    }

    const fn next_id(&mut self) -> TurnId {
        let id = TurnId(self.next);
        self.next += 1;
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
            standing,
            since,
        }) = self.running.remove(&id)
        else {
            self.waiting_answered.retain(|(waiting, _)| *waiting != id);
            self.waiting.retain(|(_, waiting), _| *waiting != id);
            self.waiting_strangers
                .retain(|(_, waiting), _| *waiting != id);
            return;
        };
        self.unanswered -= usize::from(standing != Standing::Answered);
        self.strangers -= usize::from(standing == Standing::Stranger);
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
            let Some((id, host, standing)) = self.take_waiting() else {
                return;
            };
            if standing != Standing::Answered {
                let turn = self.next_id();
                self.note(turn, &host);
                self.unanswered += 1;
                self.strangers += usize::from(standing == Standing::Stranger);
            }
            let running = Running {
                host,
                standing,
                since: now,
            };
            self.running.insert(id, running);
            self.granted.push_back(id);
        }
    }

    /// Takes the next request that may have a turn.
    fn take_waiting(&mut self) -> Option<(TurnId, Arc<str>, Standing)> {
        if let Some((id, host)) = self.waiting_answered.pop_front() {
            return Some((id, host, Standing::Answered));
        }
        if self.unanswered >= self.limits.unanswered {
            return None;
        }
        let is_free = self.strangers < self.limits.strangers;
        let stranger = self.waiting_strangers.first_key_value().filter(|_| is_free);
        let is_stranger = match (stranger, self.waiting.first_key_value()) {
            (Some((stranger, _)), Some((other, _))) => stranger < other,
            (stranger, _) => stranger.is_some(),
        };
        let (queue, standing) = match is_stranger {
            true => (&mut self.waiting_strangers, Standing::Stranger),
            false => (&mut self.waiting, Standing::Unanswered),
        };
        let ((_, id), host) = queue.pop_first()?;
        Some((id, host, standing))
    }

    /// Records the last turn, or else the first request, of a host that has not answered.
    fn note(&mut self, id: TurnId, host: &Arc<str>) {
        if let Some(last) = self.since.insert(host.clone(), id) {
            self.hosts.remove(&last);
        }
        self.hosts.insert(id, host.clone());
        if self.hosts.len() > MAX_REMEMBERED
            && let Some((_, oldest)) = self.hosts.pop_first()
        {
            self.since.remove(&oldest);
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
