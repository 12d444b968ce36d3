//! The suitable servers for some criteria in one version of the topology description, in order.

use super::{
    Criteria, suitable,
    suitable::{distance, rank},
};
use crate::{
    address::Address,
    description::{ServerDescription, ServerId, TopologyDescription},
    error::Error,
    options::ReadPreference,
};
use std::{sync::Arc, time::Duration};

/// A suitable server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// The rank by which the server suits; only servers of the lowest rank are chosen.
    rank: u32,
    /// The average round trip time; the largest duration before the first sample.
    distance: Duration,
    pub(super) server: ServerId,
}

/// The suitable servers for some criteria, sorted by rank and round trip time.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) criteria: Criteria,
    pub(super) entries: Vec<Entry>,
    /// The version of the topology description that the entries come from.
    version: u64,
}

impl Ranking {
    /// Returns the ranking of a topology description. Fails if the maximum staleness is too small
    /// (STALE-6).
    pub(super) fn new(
        version: u64,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        criteria: &Criteria,
        heartbeat_frequency: Duration,
    ) -> Result<Self, Error> {
        let mut ranking = Self {
            criteria: criteria.clone(),
            entries: Vec::new(),
            version,
        };
        ranking.rebuild(description, server_id, heartbeat_frequency)?;
        Ok(ranking)
    }

    /// Returns the server if it is the only suitable one, and this is the ranking of this version
    /// for writes (`None`) or for reads with this read preference.
    #[inline]
    pub(super) fn only(
        &self,
        version: u64,
        preference: Option<&Arc<ReadPreference>>,
    ) -> Option<ServerId> {
        let is_for = match (&self.criteria, preference) {
            (Criteria::Writable, None) => true,
            (Criteria::Readable(own), Some(other)) => Arc::ptr_eq(own, other) || own == other,
            _ => false,
        };
        match self.entries[..] {
            [only] if is_for && self.version == version => Some(only.server),
            _ => None,
        }
    }

    /// Computes the entries again if the version of the topology description has changed. After an
    /// error, the next call computes them again.
    pub(super) fn refresh(
        &mut self,
        version: u64,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        heartbeat_frequency: Duration,
    ) -> Result<(), Error> {
        if self.version != version {
            self.rebuild(description, server_id, heartbeat_frequency)?;
            self.version = version;
        }
        Ok(())
    }

    /// True if a change of one server can change the rank of another one. Staleness is relative to
    /// the primary or to the most recent write. An aggregation that writes depends on the oldest
    /// server.
    fn depends_on_others(&self) -> bool {
        match &self.criteria {
            Criteria::Writable => false,
            Criteria::Readable(preference) => preference.max_staleness().is_some(),
            Criteria::WritingAggregate(_) => true,
        }
    }

    /// Computes the entries from a topology description.
    fn rebuild(
        &mut self,
        description: &TopologyDescription,
        server_id: impl Fn(&Address) -> Option<ServerId>,
        heartbeat_frequency: Duration,
    ) -> Result<(), Error> {
        self.entries.clear();
        let entry = |rank, server: &ServerDescription| {
            Some(Entry {
                rank,
                distance: distance(server),
                server: server_id(&server.address)?,
            })
        };
        if self.depends_on_others() {
            let servers = suitable(description, &self.criteria, heartbeat_frequency, &[])?;
            let entries = servers.into_iter().filter_map(|server| entry(0, server));
            self.entries.extend(entries);
        } else {
            let entries = description
                .servers
                .values()
                .filter_map(|server| entry(rank(description, server, &self.criteria)?, server));
            self.entries.extend(entries);
        }
        self.entries.sort_unstable();
        Ok(())
    }
}

/// Returns the entries of the lowest rank within the latency window (SEL-57). `entries` must be
/// sorted.
pub(super) fn window(entries: &[Entry], local_threshold: Duration) -> &[Entry] {
    let Some(first) = entries.first() else {
        return entries;
    };
    let limit = first.distance.saturating_add(local_threshold);
    let end = entries.partition_point(|e| e.rank == first.rank && e.distance <= limit);
    &entries[..end]
}
