//! What changed between two versions of the description, for those who keep something derived from
//! it.

use crate::description::{ServerDescription, ServerId};
use std::{collections::VecDeque, sync::Arc};

/// How many changes are remembered. Whoever looks more rarely than that starts from the whole
/// description.
pub const MAX_REMEMBERED_CHANGES: usize = 128;

/// A server as it is since some version; `None` for one that is gone.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Which.
    pub server: ServerId,
    /// What is known of it now.
    pub description: Option<Arc<ServerDescription>>,
}

/// Versions of a deployment's description, and which servers the latest ones differ in.
///
/// ```
/// use onionskin_core::sdam::Changes;
///
/// let changes = Changes::at(7);
/// assert_eq!(changes.version(), 7);
/// assert_eq!(changes.since(7).map(Iterator::count), Some(0));
/// assert!(changes.since(6).is_none(), "everything may be different");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Changes {
    version: u64,
    /// The oldest version from which the log leads to the present one.
    complete_since: u64,
    /// The version that a change made, and the change.
    log: VecDeque<(u64, Changed)>,
}

impl Changes {
    /// A version without history.
    #[must_use]
    pub const fn at(version: u64) -> Self {
        Self {
            version,
            complete_since: version,
            log: VecDeque::new(),
        }
    }

    /// A new version that differs from the last one in these servers only.
    pub fn advance(&mut self, changed: impl IntoIterator<Item = Changed>) {
        self.version += 1;
        for change in changed {
            if self.log.len() == MAX_REMEMBERED_CHANGES
                && let Some((version, _)) = self.log.pop_front()
            {
                self.complete_since = version;
            }
            self.log.push_back((self.version, change));
        }
    }

    /// A new version that has to be looked at as a whole.
    pub fn start_over(&mut self) {
        self.version += 1;
        self.complete_since = self.version;
        self.log.clear();
    }

    /// The present version. Equal versions are equal descriptions.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The changes that lead from a version to the present one, oldest first; `None` if that is not
    /// known.
    #[must_use]
    pub fn since(&self, version: u64) -> Option<impl Iterator<Item = &Changed>> {
        if version < self.complete_since || version > self.version {
            return None;
        }
        let first = self.log.partition_point(|&(at, _)| at <= version);
        Some(self.log.range(first..).map(|(_, change)| change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(server: u64) -> Changed {
        Changed {
            server: ServerId(server),
            description: None,
        }
    }

    fn since(changes: &Changes, version: u64) -> Option<Vec<u64>> {
        let servers = changes.since(version)?.map(|change| change.server.0);
        Some(servers.collect())
    }

    #[test]
    fn changes_lead_from_a_known_version_to_the_present_one() {
        let mut changes = Changes::at(0);
        changes.advance([gone(1), gone(2)]);
        changes.advance([gone(3)]);
        assert_eq!(since(&changes, 0), Some(vec![1, 2, 3]));
        assert_eq!(since(&changes, 1), Some(vec![3]));
        assert_eq!(since(&changes, 2), Some(vec![]));
        assert_eq!(since(&changes, 3), None);
        changes.start_over();
        assert_eq!(since(&changes, 2), None);
        assert_eq!(since(&changes, 3), Some(vec![]));
    }

    #[test]
    fn a_forgotten_change_makes_earlier_versions_unknown() {
        let mut changes = Changes::at(0);
        changes.advance([gone(0), gone(1)]);
        for n in 2..=MAX_REMEMBERED_CHANGES as u64 {
            changes.advance([gone(n)]);
        }
        // The first change of version 1 is forgotten, so that nothing leads from version 0.
        assert_eq!(since(&changes, 0), None);
        let all = since(&changes, 1).expect("complete");
        assert_eq!(all.len(), MAX_REMEMBERED_CHANGES - 1);
    }
}
