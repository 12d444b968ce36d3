//! Which server a scan checks next: the order of MON-27.

use super::{Sdam, transition::MAX_SERVERS};
use crate::{
    description::{ServerDescription, ServerId, ServerType},
    time::Instant,
};

/// Whose turn comes first: the order of MON-27.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Primary,
    PossiblePrimary,
    Known,
    Unknown,
}

impl Rank {
    const fn of(server: ServerType) -> Self {
        match server {
            ServerType::RsPrimary => Self::Primary,
            ServerType::PossiblePrimary => Self::PossiblePrimary,
            ServerType::Unknown | ServerType::RsGhost => Self::Unknown,
            ServerType::Standalone
            | ServerType::Mongos
            | ServerType::RsSecondary
            | ServerType::RsArbiter
            | ServerType::RsOther
            | ServerType::LoadBalancer => Self::Known,
        }
    }
}

impl Sdam {
    pub(super) fn next_to_check(&mut self) -> Option<ServerId> {
        let first = self.candidates();
        match first.len() {
            0 => None,
            1 => Some(first[0]),
            count => {
                let random = &mut self.scan.as_mut()?.random;
                Some(first[random.below(count as u64) as usize])
            }
        }
    }

    /// The servers of which one is checked next: those that come first in the order of MON-27. A
    /// scan has a bound, whatever names servers report meanwhile.
    pub(super) fn candidates(&self) -> Vec<ServerId> {
        let mut first = Vec::new();
        let Some(scan) = &self.scan else {
            return first;
        };
        let Some(running) = &scan.running else {
            return first;
        };
        if running.checked.len() >= MAX_SERVERS {
            return first;
        }
        let mut best = None;
        for (id, server) in &self.servers {
            let known = self.topology.server(&server.address);
            let left = !running.checked.contains(id) && !scan.is_cooling(running, *id);
            let Some(known) = known.filter(|_| left) else {
                continue;
            };
            let order = (scan.cancelled.get(id).copied(), order(known));
            if best.is_none_or(|best| order < best) {
                best = Some(order);
                first.clear();
            }
            if best == Some(order) {
                first.push(*id);
            }
        }
        first
    }
}

/// By rank; within a rank the longest unchecked first, those never checked before all others.
fn order(server: &ServerDescription) -> (Rank, Option<Instant>) {
    (Rank::of(server.server_type), server.last_update_time)
}
