//! The choice of one server, and what it remembers between operations.

use super::{Criteria, in_window, suitable};
use crate::{
    address::Address,
    description::{ServerId, TopologyDescription},
    error::{Error, ErrorKind},
    random::Random,
};
use std::time::Duration;

/// The width of the latency window unless told otherwise (SEL-3).
pub const DEFAULT_LOCAL_THRESHOLD: Duration = Duration::from_millis(15);

/// For how many different criteria the candidates are remembered at once. Applications use few; one
/// that makes up a new read preference for each read recomputes, and memory does not grow.
pub const MAX_CACHED_WINDOWS: usize = 16;

/// Chooses servers for the operations of one client and counts what each has to do (SEL-38).
///
/// The candidates for each kind of operation are computed once for each version of the topology's
/// description. While nothing changes, a selection looks at two of them and allocates nothing.
#[derive(Debug)]
pub struct Selector {
    local_threshold: Duration,
    heartbeat_frequency: Duration,
    random: Random,
    /// The version of the description that the windows belong to.
    version: Option<u64>,
    windows: Vec<Window>,
    /// Which window gives way to the next new one.
    oldest: usize,
    /// Operations that run, by server, sorted. Servers of all windows have an entry.
    counts: Vec<(ServerId, u32)>,
}

/// The servers in the latency window for some criteria.
#[derive(Debug)]
struct Window {
    criteria: Criteria,
    candidates: Vec<ServerId>,
}

impl Selector {
    /// A selector of a client with these options.
    #[must_use]
    pub const fn new(
        local_threshold: Duration,
        heartbeat_frequency: Duration,
        random: Random,
    ) -> Self {
        Self {
            local_threshold,
            heartbeat_frequency,
            random,
            version: None,
            windows: Vec::new(),
            oldest: 0,
            counts: Vec::new(),
        }
    }

    /// Chooses a server and counts the operation as begun there; `finished` has to follow when it
    /// ends, however it ends. `None` means that no server suits now: wait for a change.
    ///
    /// `version` names `description`: equal versions are equal descriptions with equal ids. The
    /// error is an incompatible server (SEL-40) or a staleness limit that cannot be used here
    /// (STALE-6); waiting would change neither.
    pub fn select(
        &mut self,
        version: u64,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        deprioritized: &[Address],
    ) -> Result<Option<ServerId>, Error> {
        if let Some(message) = &description.compatibility_error {
            let message = message.clone();
            return Err(Error::new(ErrorKind::Incompatible { message }));
        }
        if self.version != Some(version) {
            self.forget_windows(version);
        }
        // Retries that avoid servers are rare, and no two of them need be alike.
        if !deprioritized.is_empty() {
            let window = self.compute(description, server_id, criteria, deprioritized)?;
            return Ok(self.choose(&window));
        }
        let known = self
            .windows
            .iter()
            .position(|w| w.criteria.is_same(criteria));
        let at = match known {
            Some(at) => at,
            None => {
                let candidates = self.compute(description, server_id, criteria, &[])?;
                self.remember(Window {
                    criteria: criteria.clone(),
                    candidates,
                })
            }
        };
        let candidates = std::mem::take(&mut self.windows[at].candidates);
        let chosen = self.choose(&candidates);
        self.windows[at].candidates = candidates;
        Ok(chosen)
    }

    /// An operation that was bound to this server has begun there without being selected.
    pub fn started(&mut self, server: ServerId) {
        if let Some(count) = self.count_mut(server) {
            *count = count.saturating_add(1);
        }
    }

    /// An operation that was counted at this server has ended.
    pub fn finished(&mut self, server: ServerId) {
        if let Some(count) = self.count_mut(server) {
            *count = count.saturating_sub(1);
        }
    }

    /// How many operations run at this server.
    #[must_use]
    pub fn operation_count(&self, server: ServerId) -> u32 {
        let at = self.counts.binary_search_by_key(&server, |&(id, _)| id);
        at.map_or(0, |at| self.counts[at].1)
    }

    /// Two different candidates are drawn and the one with less to do is taken (SEL-39, steps 6 to
    /// 8). The first drawn wins a tie; the pair comes in random order.
    fn choose(&mut self, candidates: &[ServerId]) -> Option<ServerId> {
        let chosen = match *candidates {
            [] => return None,
            [only] => only,
            _ => {
                let count = candidates.len() as u64;
                let first = self.random.below(count);
                let other = self.random.below(count - 1);
                let other = if other < first { other } else { other + 1 };
                let (first, other) = (candidates[first as usize], candidates[other as usize]);
                if self.operation_count(other) < self.operation_count(first) {
                    other
                } else {
                    first
                }
            }
        };
        self.started(chosen);
        Some(chosen)
    }

    fn compute(
        &mut self,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        deprioritized: &[Address],
    ) -> Result<Vec<ServerId>, Error> {
        let mut servers = suitable(
            description,
            criteria,
            self.heartbeat_frequency,
            deprioritized,
        )?;
        in_window(&mut servers, self.local_threshold);
        let ids = servers.iter().filter_map(|s| server_id(&s.address));
        let candidates: Vec<ServerId> = ids.collect();
        for &id in &candidates {
            if let Err(at) = self.counts.binary_search_by_key(&id, |&(id, _)| id) {
                self.counts.insert(at, (id, 0));
            }
        }
        Ok(candidates)
    }

    fn remember(&mut self, window: Window) -> usize {
        if self.windows.len() < MAX_CACHED_WINDOWS {
            self.windows.push(window);
            return self.windows.len() - 1;
        }
        let at = self.oldest;
        self.oldest = (at + 1) % MAX_CACHED_WINDOWS;
        self.windows[at] = window;
        at
    }

    /// A new description: what was computed is void, and servers that are gone need no count once
    /// their operations have ended.
    fn forget_windows(&mut self, version: u64) {
        self.version = Some(version);
        self.windows.clear();
        self.oldest = 0;
        self.counts.retain(|&(_, count)| count > 0);
    }

    fn count_mut(&mut self, server: ServerId) -> Option<&mut u32> {
        let at = self.counts.binary_search_by_key(&server, |&(id, _)| id);
        at.ok().map(|at| &mut self.counts[at].1)
    }
}
