//! The candidates for one kind of operation in one version of the description, in order.

use super::{
    Criteria, suitable,
    suitable::{distance, rank},
};
use crate::{
    address::Address,
    description::{ServerDescription, ServerId, TopologyDescription},
    error::Error,
};
use std::time::Duration;

/// A server that suits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Servers of the lowest rank are chosen from; the others only when there are none of it.
    rank: u32,
    distance: Duration,
    pub(super) server: ServerId,
}

/// The servers that suit some criteria, best first.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) criteria: Criteria,
    pub(super) entries: Vec<Entry>,
    version: u64,
}

impl Ranking {
    /// The ranking of a description.
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

    /// Reads the description if its version is another one. Where that fails, the next call tries
    /// again.
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

    /// True if one server's news can change how another one ranks: staleness is measured against
    /// the freshest, and writing aggregations look at the oldest.
    fn depends_on_others(&self) -> bool {
        match &self.criteria {
            Criteria::Writable => false,
            Criteria::Readable(preference) => preference.max_staleness().is_some(),
            Criteria::WritingAggregate(_) => true,
        }
    }

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

/// The entries among which chance decides (SEL-57).
pub(super) fn window(entries: &[Entry], local_threshold: Duration) -> &[Entry] {
    let Some(first) = entries.first() else {
        return entries;
    };
    let limit = first.distance.saturating_add(local_threshold);
    let end = entries.partition_point(|e| e.rank == first.rank && e.distance <= limit);
    &entries[..end]
}
