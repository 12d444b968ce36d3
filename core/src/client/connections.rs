//! The connections part: one record per connection, whatever it is for.
//!
//! The state of a record says who owns the connection. While the control plane drives a connection,
//! the record holds its machine; otherwise its owner does: its pool, an operation, or a pin.

use super::Action;
use crate::{
    address::Address,
    arena::{Arena, Slot},
    auth::{DerivedKeys, KeyCache},
    connection::{Connection, Established, LateReply, Output, SocketId, closed_by_peer},
    description::ServerId,
    error::{Error, ErrorKind, TopologyVersion},
    operation::OperationId,
    pool::ConnectionId,
    random::Random,
    sdam::MonitorConnectionId,
    time::Instant,
};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// To check a server, or to measure its round trip time.
    Monitor(MonitorConnectionId),
    /// To run operations, as a member of the pool of this server.
    Pooled(ServerId, ConnectionId),
}

/// Who owns a connection.
#[derive(Debug)]
pub(super) enum State {
    /// The record, which drives it: from dialling to ready, and a monitor's checks.
    Driven(Box<Connection>),
    /// Its pool, which may hand it out.
    Idle,
    /// An operation that has not resumed since the connection was granted to it.
    Granted(OperationId),
    /// An exchange, which is outside.
    InUse,
    /// The record: an operation ended before its reply was there, which is thrown away when it
    /// comes.
    Draining(Box<Drain>),
    /// A cursor or a transaction, between two commands.
    Pinned,
}

/// An established connection whose reply nobody waits for.
#[derive(Debug)]
pub(super) struct Drain {
    pub(super) connection: Box<Established>,
    pub(super) reply: LateReply,
}

#[derive(Debug)]
struct Record {
    role: Role,
    state: State,
}

/// What the part orders.
#[derive(Debug)]
pub(super) enum Order {
    /// An action for whoever drives the client.
    Act(Action),
    /// Read the rest of a reply, unless the connection was closed meanwhile.
    Drain(SocketId),
    /// A connection that is driven reports this.
    Report(SocketId, Role, Output),
    /// A connection of a pool could not be made. The topology knows already, so that a clear comes
    /// before the connection's end (CMAP-151).
    Lost(ServerId, ConnectionId, Error),
    /// The outstanding reply of a connection is gone.
    Drained(Box<Established>),
    /// The outstanding reply will not come: the connection is to be closed.
    NotDrained(Box<Established>, Error),
    /// The next step of a connection that is driven has this limit.
    Limit(SocketId, Option<Instant>),
    /// A connection is no longer driven: nothing that it waits for is wanted.
    Left(SocketId),
}

/// All connections of a client.
#[derive(Debug)]
pub(super) struct Connections {
    records: Arena<Record>,
    by_role: BTreeMap<Role, SocketId>,
    last_number: u64,
    /// Keys that were derived from passwords.
    keys: KeyCache,
    /// Draws nonces.
    nonces: Random,
    orders: VecDeque<Order>,
}

impl Connections {
    pub(super) fn new(nonces: Random) -> Self {
        Self {
            records: Arena::new(),
            by_role: BTreeMap::new(),
            last_number: 0,
            keys: KeyCache::new(),
            nonces,
            orders: VecDeque::new(),
        }
    }

    pub(super) fn reseed(&mut self, nonces: Random) {
        self.nonces = nonces;
    }

    #[inline]
    pub(super) fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Dials a connection.
    pub(super) fn dial(&mut self, role: Role, connection: Connection) -> SocketId {
        self.last_number += 1;
        let number = self.last_number;
        let address = connection.dial_address().clone();
        let limit = connection.deadline();
        let state = State::Driven(Box::new(connection));
        let slot = self.records.insert(number, Record { role, state });
        let socket = SocketId::new(number, slot.0);
        self.by_role.insert(role, socket);
        self.orders
            .push_back(Order::Act(Action::Dial { socket, address }));
        self.orders.push_back(Order::Limit(socket, limit));
        socket
    }

    /// The socket of a connection is connected.
    pub(super) fn handle_connected(&mut self, now: Instant, id: SocketId) {
        let Some(slot) = self.find(id) else {
            return;
        };
        let record = self.records.get_mut(slot);
        if let State::Driven(connection) = &mut record.state {
            connection.handle_connected(now, &mut self.nonces);
            self.after_step(id);
        }
    }

    /// Bytes arrived; none mean that the peer closed the connection.
    pub(super) fn handle_received(&mut self, now: Instant, id: SocketId, bytes: &[u8]) {
        let Some(slot) = self.find(id) else {
            return;
        };
        match &mut self.records.get_mut(slot).state {
            State::Driven(connection) => {
                if bytes.is_empty() {
                    connection.handle_failed(closed_by_peer());
                } else {
                    connection.handle_received(now, bytes, &mut self.nonces, &mut self.keys);
                }
                self.after_step(id);
            }
            State::Draining(_) if bytes.is_empty() => self.give_up_drain(id, closed_by_peer()),
            State::Draining(drain) => {
                let transport = &mut drain.connection.transport;
                let looked = transport
                    .receive(bytes)
                    .and_then(|()| drain.reply.discard(transport));
                match looked {
                    Ok(false) => {}
                    Ok(true) => self.end_drain(now, id),
                    Err(error) => {
                        // The alert that tells the server why its connection is given up.
                        let bytes = transport.take_farewell();
                        self.transmit(id, bytes);
                        self.give_up_drain(id, error);
                    }
                }
            }
            State::Idle | State::Granted(_) | State::InUse | State::Pinned => {}
        }
    }

    /// The socket of a connection could not be connected, or broke.
    pub(super) fn handle_failed(&mut self, id: SocketId, error: Error) {
        let Some(slot) = self.find(id) else {
            return;
        };
        match &mut self.records.get_mut(slot).state {
            State::Driven(connection) => {
                connection.handle_failed(error);
                self.after_step(id);
            }
            State::Draining(_) => self.give_up_drain(id, error),
            State::Idle | State::Granted(_) | State::InUse | State::Pinned => {}
        }
    }

    /// The time for a connection's next step is over.
    pub(super) fn handle_limit(&mut self, now: Instant, id: SocketId) {
        if let Some(connection) = self.driven(id) {
            connection.handle_timeout(now);
            self.after_step(id);
        }
    }

    /// Keys are there that these connections wait for.
    pub(super) fn handle_keys(&mut self, now: Instant, waiting: &[SocketId], keys: &DerivedKeys) {
        self.keys.keep_unproven(keys);
        for &id in waiting {
            if let Some(connection) = self.driven(id) {
                connection.handle_keys(now, keys);
                self.after_step(id);
            }
        }
    }

    /// The keys that these connections wait for will not come.
    pub(super) fn handle_no_answer(&mut self, waiting: &[SocketId]) {
        for &id in waiting {
            if let Some(connection) = self.driven(id) {
                let message = "the keys of authentication could not be derived".to_owned();
                connection.handle_failed(ErrorKind::Runtime { message }.into());
                self.after_step(id);
            }
        }
    }

    /// Sends a check on a monitor's connection.
    pub(super) fn check(
        &mut self,
        now: Instant,
        check: MonitorConnectionId,
        legacy: bool,
        awaitable: Option<(TopologyVersion, Duration)>,
    ) {
        let Some(&id) = self.by_role.get(&Role::Monitor(check)) else {
            return;
        };
        if let Some(connection) = self.driven(id) {
            connection.check(now, legacy, awaitable);
            self.after_step(id);
        }
    }

    /// Takes the machine of a connection that is ready. Its pool owns the connection from now on.
    pub(super) fn establish(&mut self, id: SocketId) -> Option<Box<Connection>> {
        let slot = self.find(id)?;
        let record = self.records.get_mut(slot);
        if !matches!(record.state, State::Driven(_)) {
            return None;
        }
        let State::Driven(connection) = std::mem::replace(&mut record.state, State::Idle) else {
            return None;
        };
        self.orders.push_back(Order::Limit(id, None));
        Some(connection)
    }

    /// Forgets a connection and orders to close it; returns which socket it had.
    pub(super) fn close(&mut self, role: Role) -> Option<SocketId> {
        let socket = self.by_role.remove(&role)?;
        let record = self.find(socket).and_then(|slot| self.records.remove(slot));
        if let Some(State::Driven(_)) = record.map(|record| record.state) {
            self.orders.push_back(Order::Limit(socket, None));
            self.orders.push_back(Order::Left(socket));
        }
        self.orders.push_back(Order::Act(Action::Close { socket }));
        Some(socket)
    }

    /// A connection could not be made, which its pool is to hear after the topology.
    pub(super) fn report_lost(&mut self, server: ServerId, pooled: ConnectionId, error: Error) {
        self.orders.push_front(Order::Lost(server, pooled, error));
    }

    /// A connection that is established has another owner from now on.
    #[inline]
    pub(super) fn set_state(&mut self, id: SocketId, owner: State) {
        if let Some(slot) = self.find(id) {
            self.records.get_mut(slot).state = owner;
        }
    }

    /// Throws away the reply that is outstanding on a connection.
    pub(super) fn drain(&mut self, drain: Box<Drain>) {
        let id = drain.connection.facts.socket;
        self.set_state(id, State::Draining(drain));
        self.orders.push_back(Order::Drain(id));
    }

    /// Ends a drain without its reply.
    pub(super) fn give_up_drain(&mut self, id: SocketId, error: Error) {
        if let Some(connection) = self.take_draining(id) {
            let error = error.with_server(&connection.facts.address);
            self.orders.push_back(Order::NotDrained(connection, error));
        }
    }

    fn end_drain(&mut self, now: Instant, id: SocketId) {
        if let Some(mut connection) = self.take_draining(id) {
            connection.used = now;
            connection.transport.rest();
            self.orders.push_back(Order::Drained(connection));
        }
    }

    /// Takes a connection out of its drain; its next owner is for the caller to say.
    fn take_draining(&mut self, id: SocketId) -> Option<Box<Established>> {
        let slot = self.find(id)?;
        let record = self.records.get_mut(slot);
        if !matches!(record.state, State::Draining(_)) {
            return None;
        }
        match std::mem::replace(&mut record.state, State::Idle) {
            State::Draining(drain) => Some(drain.connection),
            _ => None,
        }
    }

    /// Passes on what a connection reports, and what it transmits.
    fn after_step(&mut self, id: SocketId) {
        let Some(slot) = self.find(id) else {
            return;
        };
        let Record { role, state } = self.records.get_mut(slot);
        let State::Driven(connection) = state else {
            return;
        };
        let mut is_over = false;
        while let Some(output) = connection.poll_output() {
            is_over |= matches!(output, Output::Failed { .. });
            self.orders.push_back(Order::Report(id, *role, output));
        }
        let mut bytes = Vec::new();
        if is_over {
            // The alert that tells the server why its connection is given up.
            bytes = connection.take_farewell();
        } else {
            connection.poll_transmit(&mut bytes);
        }
        let limit = connection.deadline();
        self.transmit(id, bytes);
        self.orders.push_back(Order::Limit(id, limit));
    }

    fn transmit(&mut self, socket: SocketId, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let transmit = Action::Transmit { socket, bytes };
            self.orders.push_back(Order::Act(transmit));
        }
    }

    fn driven(&mut self, id: SocketId) -> Option<&mut Connection> {
        let slot = self.find(id)?;
        match &mut self.records.get_mut(slot).state {
            State::Driven(connection) => Some(connection),
            _ => None,
        }
    }

    fn find(&self, id: SocketId) -> Option<Slot> {
        self.records.find(id.number(), Slot(id.slot()))
    }

    /// Who owns a connection; none that is closed.
    pub(super) fn state(&self, id: SocketId) -> Option<&State> {
        Some(&self.records.get(self.find(id)?).state)
    }

    /// What a connection is for.
    pub(super) fn role(&self, id: SocketId) -> Option<Role> {
        Some(self.records.get(self.find(id)?).role)
    }

    /// The connection with this role.
    pub(super) fn socket(&self, role: Role) -> Option<SocketId> {
        self.by_role.get(&role).copied()
    }

    /// The server of a connection whose socket is read by whoever drives the client.
    pub(super) fn address_of(&self, id: SocketId) -> Option<&Address> {
        match self.state(id)? {
            State::Driven(connection) => Some(connection.address()),
            State::Draining(drain) => Some(&drain.connection.facts.address),
            State::Idle | State::Granted(_) | State::InUse | State::Pinned => None,
        }
    }

    /// How long an attempt to connect may take.
    pub(super) fn attempt_limit(
        &self,
        now: Instant,
        id: SocketId,
        addresses: usize,
    ) -> Option<Duration> {
        match self.state(id)? {
            State::Driven(connection) => connection.attempt_limit(now, addresses),
            _ => None,
        }
    }

    /// The connections with their roles and owners, in the order of their roles.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SocketId, Role, &State)> {
        self.by_role
            .iter()
            .filter_map(|(&role, &id)| Some((id, role, self.state(id)?)))
    }

    pub(super) const fn len(&self) -> usize {
        self.records.len() as usize
    }
}
