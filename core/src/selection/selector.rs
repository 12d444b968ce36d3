//! The choice of one server, with the suitable servers and operation counts kept between
//! operations.

use super::{
    Criteria, SelectorAnswer, SelectorQuestion, in_window,
    ranking::{Ranking, window},
    suitable,
};
use crate::{
    address::Address,
    description::{ServerId, TopologyDescription},
    error::{Error, ErrorKind},
    options::{ReadPreference, ServerSelector},
    random::Random,
};
use std::{sync::Arc, time::Duration};

/// The maximum number of criteria for which a [`Selector`] keeps the suitable servers.
pub const MAX_CACHED_WINDOWS: usize = 16;

/// Chooses servers for the operations of one client and counts the operations at each server
/// ([SEL-38]).
///
/// The suitable servers for up to [`MAX_CACHED_WINDOWS`] criteria are kept, and computed again for
/// a new version of the topology description. A choice from kept servers does not copy them.
///
/// [SEL-38]: crate::requirements::server_selection#SEL-38
#[derive(Debug)]
pub struct Selector {
    /// `localThresholdMS`, the width of the latency window.
    local_threshold: Duration,
    /// `heartbeatFrequencyMS`, for the estimate of staleness.
    heartbeat_frequency: Duration,
    random: Random,
    /// The application's server selector.
    custom: Option<ServerSelector>,
    /// True if one server is chosen at random, without comparing the operation counts of two.
    plain: bool,
    /// The kept suitable servers, one ranking per criteria.
    rankings: Vec<Ranking>,
    /// The index of the ranking that the next new one replaces, once `MAX_CACHED_WINDOWS` are kept.
    oldest: usize,
    /// The number of operations at each server, sorted by server. A server without operations is
    /// absent.
    counts: Vec<(ServerId, u32)>,
}

impl Selector {
    /// Returns a selector with these options.
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

    /// Replaces the source of random choices, in a forked child process. Otherwise all children of
    /// a process would choose the same servers in the same order.
    pub fn reseed(&mut self, random: Random) {
        self.random = random;
    }

    /// Sets the application's server selector. With a server selector, each selection asks a
    /// [`question`](Self::question) and then calls [`select_from_answer`](Self::select_from_answer)
    /// ([SEL-10]).
    ///
    /// [SEL-10]: crate::requirements::server_selection#SEL-10
    #[must_use]
    pub fn with_server_selector(mut self, custom: Option<ServerSelector>) -> Self {
        self.custom = custom;
        self
    }

    /// Sets whether the choice within the latency window is plainly random, without operation
    /// counts. Single-threaded clients choose so ([SEL-58]).
    ///
    /// [SEL-58]: crate::requirements::server_selection#SEL-58
    #[must_use]
    pub const fn with_plain_choice(mut self, plain: bool) -> Self {
        self.plain = plain;
        self
    }

    /// Chooses a server and counts the operation there. Call [`finished`](Self::finished) when the
    /// operation ends, with success or failure. `None` means that no server is suitable with this
    /// topology description.
    ///
    /// `version` is the version of the description ([`Sdam::version`](crate::sdam::Sdam::version)).
    /// Fails if a server is incompatible or if the maximum staleness is too small ([SEL-40],
    /// [STALE-6]).
    ///
    /// [SEL-40]: crate::requirements::server_selection#SEL-40
    /// [STALE-6]: crate::requirements::server_selection#STALE-6
    pub fn select(
        &mut self,
        version: u64,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        deprioritized: &[Address],
    ) -> Result<Option<ServerId>, Error> {
        check_compatibility(description)?;
        // Two selections seldom have the same deprioritized servers, so nothing is kept for them.
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

    /// Chooses a server as [`select`](Self::select) does, if that is known to be the only suitable
    /// one: for a write, or for a read with this read preference. Otherwise counts nothing.
    #[inline]
    pub(crate) fn select_only(
        &mut self,
        version: u64,
        description: &TopologyDescription,
        preference: Option<&Arc<ReadPreference>>,
    ) -> Option<ServerId> {
        check_compatibility(description).ok()?;
        let mut rankings = self.rankings.iter();
        let only = rankings.find_map(|ranking| ranking.only(version, preference))?;
        self.started(only);
        Some(only)
    }

    /// True if [`select`](Self::select) would find no server, whichever servers are deprioritized.
    /// Counts nothing and draws no random number.
    pub fn finds_none(
        &mut self,
        version: u64,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
    ) -> bool {
        check_compatibility(description).is_ok()
            && self
                .ranking(version, description, server_id, criteria)
                .is_ok_and(|at| self.rankings[at].entries.is_empty())
    }

    /// Chooses a server as [`select`](Self::select) does, and keeps nothing, for a description that
    /// is used once.
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

    /// Returns the question to the application's server selector, and to `own`, the selector of the
    /// operation. `None` without such a selector, or if no server is suitable ([SEL-10]).
    ///
    /// Fails as [`select`](Self::select) does.
    ///
    /// [SEL-10]: crate::requirements::server_selection#SEL-10
    pub fn question(
        &self,
        version: u64,
        description: &TopologyDescription,
        criteria: &Criteria,
        deprioritized: &[Address],
        own: Option<&ServerSelector>,
    ) -> Result<Option<SelectorQuestion>, Error> {
        let custom = match (&self.custom, own) {
            (None, None) => return Ok(None),
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (Some(first), Some(next)) => first.then(next),
        };
        check_compatibility(description)?;
        let frequency = self.heartbeat_frequency;
        let servers = suitable(description, criteria, frequency, deprioritized)?;
        Ok((!servers.is_empty()).then(|| SelectorQuestion {
            custom,
            version,
            servers: servers.into_iter().cloned().collect(),
        }))
    }

    /// Chooses a server as [`select`](Self::select) does, among the servers in the answer of the
    /// application's server selector that are still suitable. Also fails if that selector panicked.
    pub fn select_from_answer(
        &mut self,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        deprioritized: &[Address],
        answer: &SelectorAnswer,
    ) -> Result<Option<ServerId>, Error> {
        check_compatibility(description)?;
        let answer = Some(answer);
        let window = self.compute(description, server_id, criteria, deprioritized, answer)?;
        Ok(self.choose(&window, |&id| id))
    }

    /// Counts an operation at a server that was not chosen by a selection, such as the server of a
    /// cursor.
    #[inline]
    pub fn started(&mut self, server: ServerId) {
        match self.counts.binary_search_by_key(&server, |&(id, _)| id) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(1),
            Err(at) => self.counts.insert(at, (server, 1)),
        }
    }

    /// Ends the count of one operation at a server.
    #[inline]
    pub fn finished(&mut self, server: ServerId) {
        if let Ok(at) = self.counts.binary_search_by_key(&server, |&(id, _)| id) {
            if self.counts[at].1 > 1 {
                self.counts[at].1 -= 1;
            } else {
                self.counts.remove(at);
            }
        }
    }

    /// True if the application has a server selector ([SEL-10]).
    ///
    /// [SEL-10]: crate::requirements::server_selection#SEL-10
    #[must_use]
    pub const fn has_server_selector(&self) -> bool {
        self.custom.is_some()
    }

    /// Returns the number of operations at a server.
    #[must_use]
    pub fn operation_count(&self, server: ServerId) -> u32 {
        let at = self.counts.binary_search_by_key(&server, |&(id, _)| id);
        at.map_or(0, |at| self.counts[at].1)
    }

    /// Draws two different candidates, takes the one with the lower operation count (SEL-39), and
    /// counts the operation there. If both counts are equal, the first one drawn is taken. With a
    /// plain choice, only one candidate is drawn.
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

    /// Returns the index of the ranking for these criteria, computed again if the version has
    /// changed.
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

    /// Returns the servers in the latency window, computed without a kept ranking. With an answer
    /// of the application's server selector, only servers that the selector accepted are left.
    fn compute(
        &self,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        deprioritized: &[Address],
        answer: Option<&SelectorAnswer>,
    ) -> Result<Vec<ServerId>, Error> {
        let mut servers = suitable(
            description,
            criteria,
            self.heartbeat_frequency,
            deprioritized,
        )?;
        if let Some(answer) = answer {
            answer.narrow(&mut servers)?;
        }
        in_window(&mut servers, self.local_threshold);
        let ids = servers.iter().filter_map(|s| server_id(&s.address));
        Ok(ids.collect())
    }

    /// Keeps a ranking, in place of the oldest one if there are too many, and returns its index.
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

/// Fails if a server is incompatible by its wire version (SEL-40).
fn check_compatibility(description: &TopologyDescription) -> Result<(), Error> {
    match &description.compatibility_error {
        None => Ok(()),
        Some(message) => {
            let message = message.clone();
            Err(Error::new(ErrorKind::IncompatibleServer { message }))
        }
    }
}
