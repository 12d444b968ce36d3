//! Checks the lookups of the seed list. Once a client knows servers, there is a pause between two
//! lookups, and there is none once it knows a replica set (SRV-5). Before, each operation can begin
//! a lookup (DNS-12).

use onionskin_core::{
    description::TopologyType,
    event::{Event, EventKind, SdamEvent},
    time::Instant,
};
use std::time::Duration;

/// The shortest pause between two lookups, which follows from the lowest `heartbeatFrequencyMS`.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct NamesChecker {
    last: Option<Instant>,
    knows_servers: bool,
    knows_set: bool,
}

impl NamesChecker {
    pub(super) fn observe(&mut self, event: &Event) {
        if let EventKind::Sdam(SdamEvent::TopologyDescriptionChanged { new, .. }) = &event.kind {
            self.knows_servers |= !new.servers.is_empty();
            self.knows_set |= matches!(
                new.topology_type,
                TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary
            );
        }
    }

    /// Checks that the client may look up its seed list now.
    pub(super) fn look_up(&mut self, now: Instant) -> Result<(), String> {
        let last = self.last.replace(now);
        if self.knows_set {
            return Err("the seed list is looked up although a replica set is known".to_owned());
        }
        match last {
            Some(last) if self.knows_servers && now.saturating_since(last) < PAUSE => Err(format!(
                "the seed list is looked up at {last} and again at {now}"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_without_a_pause_are_refused() {
        let mut checker = NamesChecker::default();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        assert_eq!(checker.look_up(at(0)), Ok(()));
        assert_eq!(checker.look_up(at(0)), Ok(()));
        checker.knows_servers = true;
        assert_eq!(checker.look_up(at(500)), Ok(()));
        assert!(checker.look_up(at(999)).is_err());
        checker.knows_set = true;
        assert!(checker.look_up(at(60_000)).is_err());
    }
}
