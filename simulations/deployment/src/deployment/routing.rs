//! The connections between routers and the shards behind them, and those on which a secondary has
//! the primary write. Each client connection has its own connection to each shard or to the
//! primary, which has no latency.

use super::{Action, ConnId, Deployment, DeploymentOptions, set_config};
use crate::{
    replica::Replica,
    server::{Accounts, Arrival, Member, Times},
};
use onionskin_core::{address::Address, random::Seed, time::Instant};
use std::sync::Arc;

/// The bit that marks the ids of connections between members.
const INNER: u64 = 1 << 63;

/// The place of the number of the shard in the id of a connection between members. The number takes
/// seven bits.
const SHARD_SHIFT: u32 = 56;

/// Bytes in transit between a router and a shard, or between a secondary and the primary.
#[derive(Debug)]
pub(super) enum Traffic {
    /// A request, with the client's connection, and with the index of the member that it is for.
    Request(ConnId, usize, Vec<u8>),
    /// A reply is ready on this connection between members.
    Answer(ConnId),
}

/// True for a connection between members.
pub(super) const fn is_inner(connection: ConnId) -> bool {
    connection.0 & INNER != 0
}

/// Returns the id of the client's connection. The argument is this id, or the id of a connection
/// between members that belongs to it.
pub(super) const fn outer(connection: ConnId) -> ConnId {
    match is_inner(connection) {
        true => ConnId(connection.0 & ((1 << SHARD_SHIFT) - 1)),
        false => connection,
    }
}

/// Returns the name of a shard, which is also the name of its replica set.
pub(crate) fn shard_name(shard: usize) -> String {
    format!("shard{shard}")
}

/// Returns the address of a shard.
pub(crate) fn shard_address(shard: usize) -> Address {
    let port = 27018_u16.saturating_add(u16::try_from(shard).unwrap_or(u16::MAX));
    Address::tcp("shard", port)
}

/// Creates the shards, if the deployment has routers.
pub(super) fn shards(options: &DeploymentOptions, seed: &Seed) -> Vec<Member> {
    if !options.shape.has_routers() {
        return Vec::new();
    }
    let shard = |number| {
        let name = shard_name(number);
        let addresses = vec![shard_address(number)];
        let mut of_shard = DeploymentOptions::replica_set(&name, addresses);
        of_shard.shards = options.shards;
        of_shard.limits = options.limits;
        of_shard.version = options.version;
        of_shard.started_at = options.started_at;
        let seed = match number {
            0 => seed.split("shard"),
            _ => seed.split(&name),
        };
        let random = seed.split("replica").random();
        let replica = Replica::new(0, Arc::new(set_config(&of_shard)), random);
        let accounts = Arc::new(Accounts::new(&of_shard, &seed));
        let mut shard = Member::new(0, Arc::new(of_shard), accounts, replica, &seed);
        shard.become_shard(number);
        shard
    };
    (0..options.shards).map(shard).collect()
}

impl Deployment {
    /// Returns the member with this index. Returns `None` for a shard, to which clients cannot
    /// connect, and for an index without a member.
    pub(super) fn clients_member(&mut self, member: usize) -> Option<&mut Member> {
        let reachable = member < self.options.addresses.len();
        self.members.get_mut(member).filter(|_| reachable)
    }

    /// Returns the index of a shard among the members, or `None` if there is no such shard.
    fn place_of_shard(&self, shard: usize) -> Option<usize> {
        let place = self.options.addresses.len().checked_add(shard)?;
        (place < self.members.len()).then_some(place)
    }

    /// Ends the process of a shard, as [`kill`](Self::kill) does. Its open transactions are lost,
    /// but not the prepared ones. Without effect if there is no such shard, or if it does not run.
    pub fn kill_shard(&mut self, now: Instant, shard: usize) {
        let place = self.place_of_shard(shard);
        if let Some(place) = place.filter(|place| self.members[*place].is_up()) {
            self.stop(now, place);
        }
    }

    /// Starts a killed shard again with its data. It becomes primary at once.
    pub fn restart_shard(&mut self, now: Instant, shard: usize) {
        let place = self.place_of_shard(shard);
        if let Some(place) = place.filter(|place| self.members[*place].may_restart()) {
            self.members[place].restart(now);
            self.settle(now);
        }
    }

    /// Makes a shard step down and become primary again in a later term. Its open transactions are
    /// aborted, but not the prepared ones. Returns false if it is not the primary.
    pub fn step_down_shard(&mut self, now: Instant, shard: usize) -> bool {
        let place = self.place_of_shard(shard);
        let Some(place) = place.filter(|place| self.members[*place].is_up()) else {
            return false;
        };
        let stepped_down = self.members[place].fail_over(now);
        self.settle(now);
        stepped_down
    }

    /// Gives a router the times of the shards, if the deployment has routers.
    pub(super) fn inform_router(&mut self, router: usize) {
        let shards = self.members.iter().skip(self.options.addresses.len());
        let times = shards.map(Member::shard_times).reduce(Times::latest);
        if let (Some(times), Some(router)) = (times, self.clients_member(router)) {
            router.note_first_times(times);
        }
    }

    /// Removes a client's connection and its connections to shards. The cursors that end with the
    /// client's connection are closed: those that it opened through a load balancer.
    pub(super) fn forget(&mut self, connection: ConnId) {
        let inner = self.all_inner(connection);
        let all: Vec<ConnId> = std::iter::once(connection).chain(inner).collect();
        for connection in all {
            let home = self.homes.get(&connection).copied();
            if let Some(member) = home.filter(|&home| !self.members[home].abandon(connection)) {
                self.homes.remove(&connection);
                let orphans = self.members[member].handle_disconnected(connection);
                let shards = self.members.iter_mut().skip(self.options.addresses.len());
                shards.for_each(|shard| shard.end_cursors(&orphans));
            }
        }
    }

    /// Returns the id of the connection to a member that belongs to a client's connection. All
    /// primaries share one.
    fn inner(&self, connection: ConnId, member: usize) -> ConnId {
        let shard = member.saturating_sub(self.options.addresses.len());
        let slot = u64::try_from(shard).unwrap_or(0) << SHARD_SHIFT;
        ConnId(outer(connection).0 | INNER | slot)
    }

    /// Returns the ids that the connections to other members of a client's connection can have.
    fn all_inner(&self, connection: ConnId) -> impl Iterator<Item = ConnId> {
        let first = self.options.addresses.len();
        (0..self.options.shards).map(move |shard| self.inner(connection, first + shard))
    }

    /// True if another member cannot take a further request of a client now, because an earlier one
    /// waits there.
    pub(super) fn is_inner_full(&self, connection: ConnId) -> bool {
        self.all_inner(connection).any(|inner| {
            let home = self.homes.get(&inner);
            home.is_some_and(|&home| self.members[home].room(inner) == 0)
        })
    }

    /// Carries requests to other members and replies back until there are none.
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

    fn carry_request(&mut self, now: Instant, connection: ConnId, target: usize, bytes: &[u8]) {
        let Some(&from) = self.homes.get(&connection) else {
            return;
        };
        // A request that another member has forwarded is not forwarded again.
        if is_inner(connection) {
            self.members[from].handle_unreachable(now, connection, target);
            return self.collect(now, from);
        }
        if self.members.len() <= target {
            return;
        }
        let inner = self.inner(connection, target);
        if let Some(&old) = self.homes.get(&inner).filter(|old| **old != target) {
            self.members[old].handle_disconnected(inner);
            self.homes.remove(&inner);
        }
        let is_open = !self.network.is_cut(from, target)
            && (self.homes.contains_key(&inner)
                || self.members[target].handle_connected(now, inner, Arrival::Internal));
        if !is_open {
            self.members[from].handle_unreachable(now, connection, target);
            return self.collect(now, from);
        }
        self.homes.insert(inner, target);
        self.members[target].handle_received(now, inner, bytes);
        self.collect(now, target);
    }

    /// Closes a connection that a member ends. If that is the connection of a router to a shard
    /// that runs, the client's connection is closed with it. If it is one to another member, only
    /// the request that was forwarded fails.
    pub(super) fn close(&mut self, now: Instant, connection: ConnId) {
        let client = outer(connection);
        let home = self.homes.get(&connection).copied();
        let is_shard = |home: usize| home >= self.options.addresses.len();
        let ends_client = home.is_some_and(|home| is_shard(home) && self.members[home].is_up());
        if !is_inner(connection) || ends_client {
            return self.actions.push_back(Action::Close(client));
        }
        let Some(target) = home else {
            return;
        };
        self.homes.remove(&connection);
        self.members[target].handle_disconnected(connection);
        self.give_turn(client);
        if let Some(&from) = self.homes.get(&client) {
            self.members[from].handle_unreachable(now, client, target);
            self.collect(now, from);
        }
    }

    fn carry_answer(&mut self, now: Instant, inner: ConnId) {
        let connection = outer(inner);
        let Some(&target) = self.homes.get(&inner) else {
            return;
        };
        let Some(bytes) = self.members[target].take_output(inner) else {
            return;
        };
        if let Some(&from) = self.homes.get(&connection) {
            self.members[from].handle_routed(now, connection, target, &bytes);
            self.collect(now, from);
        }
    }
}
