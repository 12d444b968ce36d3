//! The way between routers and the shard behind them: each of a router's connections has one of its
//! own there, and nothing on it takes time.

use super::{Action, ConnId, Deployment, DeploymentOptions, Shape, set_config};
use crate::{
    replica::Replica,
    server::{Arrival, Credentials, Member},
};
use onionskin_core::{address::Address, random::Seed, time::Instant};
use std::sync::Arc;

/// Set in the numbers of connections between routers and the shard.
const INNER: u64 = 1 << 63;

/// The shard's replica set.
const SHARD_NAME: &str = "shard0";

/// Something under way between a router and the shard.
#[derive(Debug)]
pub(super) enum Traffic {
    /// A client's request, on the client's connection.
    Request(ConnId, Vec<u8>),
    /// The shard has answered, on the inner connection.
    Answer(ConnId),
}

/// True for connections between routers and the shard.
pub(super) const fn is_inner(connection: ConnId) -> bool {
    connection.0 & INNER != 0
}

/// The client's connection, be it given itself or the one behind it.
pub(super) const fn outer(connection: ConnId) -> ConnId {
    ConnId(connection.0 & !INNER)
}

const fn inner(connection: ConnId) -> ConnId {
    ConnId(connection.0 | INNER)
}

/// The shard behind the routers, if there are any.
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
    let users = Arc::new(Credentials::new(&of_shard, &seed));
    Some(Member::new(0, Arc::new(of_shard), users, replica, &seed))
}

impl Deployment {
    /// A member that clients can connect to.
    pub(super) fn clients_member(&mut self, member: usize) -> Option<&mut Member> {
        let reachable = member < self.options.addresses.len();
        self.members.get_mut(member).filter(|_| reachable)
    }

    /// Forgets a client's connection, and the one behind it, with the cursors that only it could
    /// have used.
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

    /// Carries requests to the shard and answers back until there are no more.
    pub(super) fn carry_traffic(&mut self, now: Instant) {
        while let Some(traffic) = self.traffic.pop_front() {
            match traffic {
                Traffic::Request(connection, bytes) => self.carry_request(now, connection, &bytes),
                Traffic::Answer(connection) => self.carry_answer(now, connection),
            }
        }
    }

    fn carry_request(&mut self, now: Instant, connection: ConnId, bytes: &[u8]) {
        let shard = self.options.addresses.len();
        let inner = inner(connection);
        if !self.homes.contains_key(&connection) || self.members.len() <= shard {
            return;
        }
        if !self.homes.contains_key(&inner) {
            if !self.members[shard].handle_connected(now, inner, Arrival::Direct) {
                return self.actions.push_back(Action::Close(connection));
            }
            self.homes.insert(inner, shard);
        }
        self.members[shard].handle_received(now, inner, bytes);
        self.collect(now, shard);
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
