//! The choice of one server, and what it remembers between operations.

use super::{
    Criteria, SelectorAnswer, SelectorQuestion, in_window,
    ranking::{Ranking, window},
    suitable,
};
use crate::{
    address::Address,
    description::{ServerId, TopologyDescription},
    error::{Error, ErrorKind},
    options::ServerSelector,
    random::Random,
};
use std::time::Duration;

/// For how many different criteria the candidates are remembered at once. Applications use few; one
/// that makes up a new read preference for each read recomputes, and memory does not grow.
pub const MAX_CACHED_WINDOWS: usize = 16;

/// Chooses servers for the operations of one client and counts what each has to do (SEL-38).
///
/// The candidates for each kind of operation are computed once for each version of the description.
/// While the version stays, a selection compares two of them and allocates nothing.
#[derive(Debug)]
pub struct Selector {
    local_threshold: Duration,
    heartbeat_frequency: Duration,
    random: Random,
    custom: Option<ServerSelector>,
    /// One draw decides.
    plain: bool,
    rankings: Vec<Ranking>,
    /// Which ranking gives way to the next new one.
    oldest: usize,
    /// Servers at which operations run, sorted, and how many.
    counts: Vec<(ServerId, u32)>,
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
            custom: None,
            plain: false,
            rankings: Vec::new(),
            oldest: 0,
            counts: Vec::new(),
        }
    }

    /// Draws from here on. Children of one process that all drew what it would have drawn would go
    /// to the same servers at the same time.
    pub fn reseed(&mut self, random: Random) {
        self.random = random;
    }

    /// Lets the application have a say (SEL-10): each selection is a [`question`](Self::question)
    /// first, and then [`select_narrowed`](Self::select_narrowed).
    #[must_use]
    pub fn with_server_selector(mut self, custom: Option<ServerSelector>) -> Self {
        self.custom = custom;
        self
    }

    /// Takes any server of the window, whatever the others have to do: for clients whose operations
    /// come one after the other (SEL-58).
    #[must_use]
    pub const fn with_plain_choice(mut self, plain: bool) -> Self {
        self.plain = plain;
        self
    }

    /// Chooses a server and counts the operation as begun there; `finished` has to follow when it
    /// ends, however it ends. `None` means that no server suits now: wait for a change.
    ///
    /// `version` is that of the description ([`Sdam::version`](crate::sdam::Sdam::version)); the
    /// candidates of one version are computed once. The error is an incompatible server (SEL-40) or
    /// a staleness limit that cannot be used here (STALE-6); waiting would change neither.
    pub fn select(
        &mut self,
        version: u64,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        deprioritized: &[Address],
    ) -> Result<Option<ServerId>, Error> {
        check_compatibility(description)?;
        // Retries that avoid servers are rare, and no two of them need be alike.
        if !deprioritized.is_empty() {
            let window = self.compute(description, server_id, criteria, deprioritized, None)?;
            return Ok(self.choose(&window, |&id| id));
        }
        let at = self.ranking(version, description, server_id, criteria)?;
        let mut ranking = std::mem::take(&mut self.rankings[at].entries);
        let chosen = self.choose(window(&ranking, self.local_threshold), |entry| entry.server);
        std::mem::swap(&mut self.rankings[at].entries, &mut ranking);
        Ok(chosen)
    }

    /// Chooses as [`select`](Self::select) does, without remembering the candidates: for a
    /// description that is used once.
    pub fn select_once(
        &mut self,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        deprioritized: &[Address],
    ) -> Result<Option<ServerId>, Error> {
        check_compatibility(description)?;
        let window = self.compute(description, server_id, criteria, deprioritized, None)?;
        Ok(self.choose(&window, |&id| id))
    }

    /// What to ask the application before a server is chosen (SEL-10). `None` where it has no say,
    /// or where no server suits that it could keep.
    pub fn question(
        &self,
        version: u64,
        description: &TopologyDescription,
        criteria: &Criteria,
        deprioritized: &[Address],
    ) -> Result<Option<SelectorQuestion>, Error> {
        let Some(custom) = &self.custom else {
            return Ok(None);
        };
        check_compatibility(description)?;
        let frequency = self.heartbeat_frequency;
        let servers = suitable(description, criteria, frequency, deprioritized)?;
        Ok((!servers.is_empty()).then(|| SelectorQuestion {
            custom: custom.clone(),
            version,
            servers: servers.into_iter().cloned().collect(),
        }))
    }

    /// Chooses as [`select`](Self::select) does, among the servers that the application left. Those
    /// that do not suit any more are passed over.
    pub fn select_narrowed(
        &mut self,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        deprioritized: &[Address],
        narrowed: &SelectorAnswer,
    ) -> Result<Option<ServerId>, Error> {
        check_compatibility(description)?;
        let narrowed = Some(narrowed);
        let window = self.compute(description, server_id, criteria, deprioritized, narrowed)?;
        Ok(self.choose(&window, |&id| id))
    }

    /// An operation that was bound to this server has begun there without being selected.
    pub fn started(&mut self, server: ServerId) {
        match self.counts.binary_search_by_key(&server, |&(id, _)| id) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(1),
            Err(at) => self.counts.insert(at, (server, 1)),
        }
    }

    /// An operation that was counted at this server has ended.
    pub fn finished(&mut self, server: ServerId) {
        if let Ok(at) = self.counts.binary_search_by_key(&server, |&(id, _)| id) {
            if self.counts[at].1 > 1 {
                self.counts[at].1 -= 1;
            } else {
                self.counts.remove(at);
            }
        }
    }

    /// True if the application narrows the choice (SEL-10).
    #[must_use]
    pub const fn is_narrowed(&self) -> bool {
        self.custom.is_some()
    }

    /// How many operations run at this server.
    #[must_use]
    pub fn operation_count(&self, server: ServerId) -> u32 {
        let at = self.counts.binary_search_by_key(&server, |&(id, _)| id);
        at.map_or(0, |at| self.counts[at].1)
    }

    /// Two different candidates are drawn and the one with less to do is taken (SEL-39, steps 6 to
    /// 8). The first drawn wins a tie; the pair comes in random order.
    fn choose<T>(&mut self, candidates: &[T], id: impl Fn(&T) -> ServerId) -> Option<ServerId> {
        let chosen = match candidates {
            [] => return None,
            [only] => id(only),
            _ if self.plain => id(&candidates[self.random.below(candidates.len() as u64) as usize]),
            _ => {
                let count = candidates.len() as u64;
                let first = self.random.below(count);
                let other = self.random.below(count - 1);
                let other = if other < first { other } else { other + 1 };
                let first = id(&candidates[first as usize]);
                let other = id(&candidates[other as usize]);
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

    /// The place of the ranking for these criteria, brought up to date.
    fn ranking(
        &mut self,
        version: u64,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
    ) -> Result<usize, Error> {
        let frequency = self.heartbeat_frequency;
        let known = self
            .rankings
            .iter()
            .position(|ranking| ranking.criteria.is_same(criteria));
        let Some(at) = known else {
            let new = Ranking::new(version, description, server_id, criteria, frequency)?;
            return Ok(self.remember(new));
        };
        self.rankings[at].refresh(version, description, server_id, frequency)?;
        Ok(at)
    }

    /// The window as it is computed from nothing, for what is not remembered.
    fn compute(
        &self,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        deprioritized: &[Address],
        narrowed: Option<&SelectorAnswer>,
    ) -> Result<Vec<ServerId>, Error> {
        let mut servers = suitable(
            description,
            criteria,
            self.heartbeat_frequency,
            deprioritized,
        )?;
        if let Some(narrowed) = narrowed {
            narrowed.narrow(&mut servers)?;
        }
        in_window(&mut servers, self.local_threshold);
        let ids = servers.iter().filter_map(|s| server_id(&s.address));
        Ok(ids.collect())
    }

    fn remember(&mut self, ranking: Ranking) -> usize {
        if self.rankings.len() < MAX_CACHED_WINDOWS {
            self.rankings.push(ranking);
            return self.rankings.len() - 1;
        }
        let at = self.oldest;
        self.oldest = (at + 1) % MAX_CACHED_WINDOWS;
        self.rankings[at] = ranking;
        at
    }
}

/// A server that speaks no version that the driver does fails every selection (SEL-40).
fn check_compatibility(description: &TopologyDescription) -> Result<(), Error> {
    match &description.compatibility_error {
        None => Ok(()),
        Some(message) => {
            let message = message.clone();
            Err(Error::new(ErrorKind::Incompatible { message }))
        }
    }
}
