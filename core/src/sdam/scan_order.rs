//! The order in which a scan checks the servers (MON-27).

use super::{Sdam, Server, transition::MAX_SERVERS};
use crate::{
    description::{ServerDescription, ServerId, ServerType},
    time::Instant,
};
use std::sync::Arc;

/// The rank of a server type in a scan: servers of a lower rank are checked first (MON-27).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Primary,
    PossiblePrimary,
    Known,
    Unknown,
}

impl Rank {
    /// Returns the rank of a server type.
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
    /// Returns the server that the scan under way checks next. `None` if no server is left, or if
    /// each of them was checked less than 500 ms ago. Chance decides between equals.
    pub(super) fn next_to_check(&mut self, now: Instant) -> Option<ServerId> {
        let first = self.candidates(now);
        match first.len() {
            0 => None,
            1 => Some(first[0]),
            count => {
                let random = &mut self.scan.as_mut()?.random;
                Some(first[random.below(count as u64) as usize])
            }
        }
    }

    /// Returns the earliest time at which a server that is left may be checked. `None` if no server
    /// is left, or if one may be checked now.
    pub(super) fn next_turn(&self, now: Instant) -> Option<Instant> {
        let turns = self.left_to_check().map(|(_, server, _)| {
            let monitor = server.monitor.as_ref()?;
            monitor.next_turn(now)
        });
        turns.min().flatten()
    }

    /// Returns the servers that the scan under way still has to check. A scan checks at most
    /// [`MAX_SERVERS`] servers, even if replies name new ones without end.
    pub(super) fn left_to_check(
        &self,
    ) -> impl Iterator<Item = (ServerId, &Server, &Arc<ServerDescription>)> {
        let scan = self.scan.as_ref();
        let scan = scan.and_then(|scan| Some((scan, scan.running.as_ref()?)));
        let scan = scan.filter(|(_, running)| running.checked.len() < MAX_SERVERS);
        scan.into_iter().flat_map(|(scan, running)| {
            self.servers.iter().filter_map(|(&id, server)| {
                let left = !running.checked.contains(&id) && !scan.is_in_cooldown(running, id);
                let known = self.topology.server(&server.address)?;
                left.then_some((id, server, known))
            })
        })
    }

    /// Returns the server that is first in the order of MON-27, or all servers that share the first
    /// place. Servers that were checked less than 500 ms ago are left out (MON-31), and servers
    /// whose check was cancelled come last. Only strangers that operations do not wait for come
    /// after them (see `patience.rs`).
    fn candidates(&self, now: Instant) -> Vec<ServerId> {
        let mut first = Vec::new();
        let Some(scan) = &self.scan else {
            return first;
        };
        let ignores_strangers = self.ignores_strangers(now);
        let mut best = None;
        for (id, server, known) in self.left_to_check() {
            if server.was_checked_recently(now) {
                continue;
            }
            let (rank, updated) = order(known);
            // Hosts that never answered come after those that did, so that a server that names
            // many hosts does not hold up the others.
            let is_stranger = self.out.turns.is_stranger(id);
            let cancelled = scan.cancelled.get(&id).copied();
            let is_ignored = is_stranger && ignores_strangers;
            let order = (is_ignored, cancelled, rank, is_stranger, updated);
            if best.is_none_or(|best| order < best) {
                best = Some(order);
                first.clear();
            }
            if best == Some(order) {
                first.push(id);
            }
        }
        first
    }
}

impl Server {
    /// True if the last check of the server ended less than 500 ms ago.
    pub(super) fn was_checked_recently(&self, now: Instant) -> bool {
        let monitor = self.monitor.as_ref();
        monitor.is_some_and(|monitor| monitor.next_turn(now).is_some())
    }
}

/// Returns the sort key of a server: its rank, and then the time of its last update. Servers that
/// were never updated come first in their rank.
fn order(server: &ServerDescription) -> (Rank, Option<Instant>) {
    (Rank::of(server.server_type), server.last_update_time)
}
