//! The connections between routers and the shards behind them, and those on which a secondary has
//! the primary write. Each client connection has its own connection to each shard or to the
//! primary, which has no latency.

use super::{Action, ConnId, Deployment, freeze::Held};
use crate::server::{Arrival, Choice, Member, Times};
use onionskin_core::time::Instant;

/// The bit that marks the ids of connections between members.
const INNER: u64 = 1 << 63;

/// The place of the number of the shard's member in the id of a connection between members. The
/// members of all shards count together. The number takes seven bits.
const SHARD_SHIFT: u32 = 56;

/// Bytes in transit between a router and a shard, or between a secondary and the primary.
#[derive(Debug)]
pub(super) enum Traffic {
    /// A request, with the client's connection, and with the index of the member that it is for, or
    /// the number of the shard after the routers and the choice of its member.
    Request(ConnId, usize, Choice, Vec<u8>),
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

impl Deployment {
    /// Returns the member with this index. Returns `None` for a member of a shard, to which clients
    /// cannot connect, and for an index without a member.
    pub(super) fn clients_member(&mut self, member: usize) -> Option<&mut Member> {
        let reachable = member < self.options.addresses.len();
        self.members.get_mut(member).filter(|_| reachable)
    }

    /// Gives a router the times of the shards, if the deployment has routers.
    pub(super) fn inform_router(&mut self, router: usize) {
        let shards = self.members.iter().skip(self.options.addresses.len());
        let times = shards.map(Member::shard_times).reduce(Times::latest);
        if let (Some(times), Some(router)) = (times, self.clients_member(router)) {
            router.note_first_times(times);
        }
    }

    /// Removes a client's connection and its connections to other members. The cursors that end
    /// with the client's connection are closed: those that it opened through a load balancer.
    pub(super) fn forget(&mut self, connection: ConnId) {
        self.end(connection);
        let inner: Vec<ConnId> = self.all_inner(connection).collect();
        for connection in inner {
            let Some(&home) = self.homes.get(&connection) else {
                continue;
            };
            let input = Held::Disconnected(connection);
            if self.frozen.hold(home, input).is_some() {
                self.end(connection);
            }
        }
    }

    /// Removes a connection, unless a write of it goes on.
    pub(super) fn end(&mut self, connection: ConnId) {
        let home = self.homes.get(&connection).copied();
        if let Some(member) = home.filter(|&home| !self.members[home].abandon(connection)) {
            self.homes.remove(&connection);
            let orphans = self.members[member].handle_disconnected(connection);
            let shards = self.members.iter_mut().skip(self.options.addresses.len());
            shards.for_each(|shard| shard.end_cursors(&orphans));
        }
    }

    /// Returns the id of the connection to a member that belongs to a client's connection. All
    /// primaries share one.
    fn inner(&self, connection: ConnId, member: usize) -> ConnId {
        let number = member.saturating_sub(self.options.addresses.len());
        let slot = u64::try_from(number).unwrap_or(0) << SHARD_SHIFT;
        ConnId(outer(connection).0 | INNER | slot)
    }

    /// Returns the ids that the connections to other members of a client's connection can have.
    fn all_inner(&self, connection: ConnId) -> impl Iterator<Item = ConnId> {
        // The connection to a primary has the slot of the first one.
        let routers = self.options.addresses.len();
        let places = routers..self.members.len().max(routers + 1);
        places.map(move |place| self.inner(connection, place))
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
                Traffic::Request(connection, to, choice, bytes) => {
                    self.carry_request(now, connection, (to, choice), &bytes);
                }
                Traffic::Answer(connection) => self.carry_answer(now, connection),
            }
        }
    }

    fn carry_request(
        &mut self,
        now: Instant,
        connection: ConnId,
        (wanted, choice): (usize, Choice),
        bytes: &[u8],
    ) {
        let Some(&from) = self.homes.get(&connection) else {
            return;
        };
        // A request that another member has forwarded is not forwarded again.
        if is_inner(connection) {
            self.members[from].handle_unreachable(now, connection, (wanted, wanted));
            return self.collect(now, from);
        }
        let Some(target) = self.host(from, wanted, choice) else {
            self.members[from].handle_no_host(now, connection, wanted);
            return self.collect(now, from);
        };
        if self.members.len() <= target {
            return;
        }
        self.members[from].note_host(connection, wanted, target);
        let inner = self.inner(connection, target);
        if let Some(&old) = self.homes.get(&inner).filter(|old| **old != target) {
            self.members[old].handle_disconnected(inner);
            self.homes.remove(&inner);
        }
        let is_open = !self.network.is_cut(from, target)
            && (self.homes.contains_key(&inner)
                || self.members[target].handle_connected(now, inner, Arrival::Internal));
        if !is_open {
            self.members[from].handle_unreachable(now, connection, (wanted, target));
            return self.collect(now, from);
        }
        self.homes.insert(inner, target);
        self.members[target].handle_received(now, inner, bytes);
        self.collect(now, target);
    }

    /// Lets routers notice that members of shards which have their requests cannot be reached any
    /// more, if they can choose other members.
    pub(super) fn end_cut_requests(&mut self, now: Instant) {
        if self.options.shard_members == 1 {
            return;
        }
        let inner = self.homes.iter().filter(|(conn, _)| is_inner(**conn));
        let cut = inner.filter_map(|(conn, target)| {
            let client = outer(*conn);
            let from = *self.homes.get(&client)?;
            let is_cut = self.network.is_cut(from, *target);
            is_cut.then_some((client, from, *target))
        });
        let cut: Vec<(ConnId, usize, usize)> = cut.collect();
        for (client, from, target) in cut {
            let member = (self.named(target), target);
            self.members[from].handle_unreachable(now, client, member);
            self.collect(now, from);
        }
        self.settle(now);
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
        let input = Held::Failed(client, target);
        if let Some(&from) = self.homes.get(&client)
            && self.frozen.hold(from, input).is_some()
        {
            let wanted = self.named(target);
            self.members[from].handle_unreachable(now, client, (wanted, target));
            self.collect(now, from);
        }
    }

    fn carry_answer(&mut self, now: Instant, inner: ConnId) {
        let connection = outer(inner);
        let Some(&target) = self.homes.get(&inner) else {
            return;
        };
        // A frozen member gets the reply later.
        if let Some(&from) = self.homes.get(&connection)
            && self.frozen.hold(from, Held::Answer(inner)).is_none()
        {
            return;
        }
        let Some(bytes) = self.members[target].take_output(inner) else {
            return;
        };
        if let Some(&from) = self.homes.get(&connection) {
            let member = (self.named(target), target);
            // A router notices a cut at once, if it can choose another member.
            match self.options.shard_members > 1 && self.network.is_cut(from, target) {
                true => self.members[from].handle_unreachable(now, connection, member),
                false => self.members[from].handle_routed(now, connection, member, &bytes),
            }
            self.collect(now, from);
        }
    }
}
