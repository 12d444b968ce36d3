//! The connections between routers and the shard behind them, and those on which a secondary has
//! the primary write. Each client connection has its own connection to the shard or the primary,
//! which has no latency.

use super::{Action, ConnId, Deployment, DeploymentOptions, Shape, set_config};
use crate::{
    replica::Replica,
    server::{Accounts, Arrival, Member},
};
use onionskin_core::{address::Address, random::Seed, time::Instant};
use std::sync::Arc;

/// The bit that marks the ids of connections between members.
const INNER: u64 = 1 << 63;

/// The name of the shard and of its replica set.
pub(crate) const SHARD_NAME: &str = "shard0";

/// Bytes in transit between a router and the shard, or between a secondary and the primary.
#[derive(Debug)]
pub(super) enum Traffic {
    /// A request, with the client's connection, and with the primary; `None` for the shard.
    Request(ConnId, Option<usize>, Vec<u8>),
    /// A reply is ready on this connection between members.
    Answer(ConnId),
}

/// True for a connection between members.
pub(super) const fn is_inner(connection: ConnId) -> bool {
    connection.0 & INNER != 0
}

/// Returns the id of the client's connection. The argument is this id, or the id of the connection
/// to the shard that belongs to it.
pub(super) const fn outer(connection: ConnId) -> ConnId {
    ConnId(connection.0 & !INNER)
}

const fn inner(connection: ConnId) -> ConnId {
    ConnId(connection.0 | INNER)
}

/// Creates the shard, if the deployment has routers.
pub(super) fn shard(options: &DeploymentOptions, seed: &Seed) -> Option<Member> {
    match options.shape {
        Shape::Sharded | Shape::LoadBalanced { .. } => {}
        Shape::Standalone | Shape::ReplicaSet(_) => return None,
    }
    let address = Address::tcp("shard", 27018);
    let mut of_shard = DeploymentOptions::replica_set(SHARD_NAME, vec![address]);
    of_shard.limits = options.limits;
    of_shard.version = options.version;
    of_shard.started_at = options.started_at;
    let seed = seed.split("shard");
    let random = seed.split("replica").random();
    let replica = Replica::new(0, Arc::new(set_config(&of_shard)), random);
    let accounts = Arc::new(Accounts::new(&of_shard, &seed));
    let mut shard = Member::new(0, Arc::new(of_shard), accounts, replica, &seed);
    shard.list_own_shard();
    Some(shard)
}

impl Deployment {
    /// Returns the member with this index. Returns `None` for the shard, to which clients cannot
    /// connect, and for an index without a member.
    pub(super) fn clients_member(&mut self, member: usize) -> Option<&mut Member> {
        let reachable = member < self.options.addresses.len();
        self.members.get_mut(member).filter(|_| reachable)
    }

    /// Gives a router the times of the shard, if the deployment has routers.
    pub(super) fn inform_router(&mut self, router: usize) {
        let times = self.members.get(self.options.addresses.len());
        let times = times.map(Member::shard_times);
        if let (Some(times), Some(router)) = (times, self.clients_member(router)) {
            router.note_first_times(times);
        }
    }

    /// Removes a client's connection and its connection to the shard. The cursors that end with the
    /// client's connection are closed: those that it opened through a load balancer.
    pub(super) fn forget(&mut self, connection: ConnId) {
        let shard = self.options.addresses.len();
        for connection in [connection, inner(connection)] {
            if let Some(member) = self.homes.remove(&connection) {
                let orphans = self.members[member].handle_disconnected(connection);
                if let Some(shard) = self.members.get_mut(shard) {
                    shard.end_cursors(&orphans);
                }
            }
        }
    }

    /// Carries requests to the shard and replies back until there are none.
    pub(super) fn carry_traffic(&mut self, now: Instant) {
        while let Some(traffic) = self.traffic.pop_front() {
            match traffic {
                Traffic::Request(connection, to, bytes) => {
                    self.carry_request(now, connection, to, &bytes);
                }
                Traffic::Answer(connection) => self.carry_answer(now, connection),
            }
        }
    }

    fn carry_request(&mut self, now: Instant, connection: ConnId, to: Option<usize>, bytes: &[u8]) {
        let target = to.unwrap_or(self.options.addresses.len());
        let Some(&from) = self.homes.get(&connection) else {
            return;
        };
        // A request that another member has forwarded is not forwarded again.
        if is_inner(connection) {
            self.members[from].handle_unreachable(now, connection);
            return self.collect(now, from);
        }
        let inner = inner(connection);
        if self.members.len() <= target {
            return;
        }
        if let Some(&old) = self.homes.get(&inner).filter(|old| **old != target) {
            self.members[old].handle_disconnected(inner);
            self.homes.remove(&inner);
        }
        let is_cut = to.is_some() && self.network.is_cut(from, target);
        let is_open = !is_cut
            && (self.homes.contains_key(&inner)
                || self.members[target].handle_connected(now, inner, Arrival::Internal));
        if !is_open && to.is_some() {
            self.members[from].handle_unreachable(now, connection);
            return self.collect(now, from);
        }
        if !is_open {
            return self.actions.push_back(Action::Close(connection));
        }
        self.homes.insert(inner, target);
        self.members[target].handle_received(now, inner, bytes);
        self.collect(now, target);
    }

    /// Closes a connection that a member ends. If that is the connection of a router to the shard,
    /// the client's connection is closed with it. If it is one to a primary, only the request that
    /// was forwarded fails.
    pub(super) fn close(&mut self, now: Instant, connection: ConnId) {
        let shard = self.options.addresses.len();
        let client = outer(connection);
        let home = self.homes.get(&connection).copied();
        if !is_inner(connection) || home == Some(shard) {
            return self.actions.push_back(Action::Close(client));
        }
        if let Some(primary) = home {
            self.homes.remove(&connection);
            self.members[primary].handle_disconnected(connection);
        }
        if let Some(&secondary) = self.homes.get(&client) {
            self.members[secondary].handle_unreachable(now, client);
            self.collect(now, secondary);
        }
    }

    fn carry_answer(&mut self, now: Instant, inner: ConnId) {
        let connection = outer(inner);
        let Some(&shard) = self.homes.get(&inner) else {
            return;
        };
        let Some(bytes) = self.members[shard].take_output(inner) else {
            return;
        };
        if let Some(&router) = self.homes.get(&connection) {
            self.members[router].handle_routed(now, connection, &bytes);
            self.collect(now, router);
        }
    }
}
