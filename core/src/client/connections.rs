//! The connections part: one record per connection, of monitors and of pools.
//!
//! The state of a record names the owner of the connection. The record itself holds the connection
//! while the core drives the connection (dialling, handshake, checks), and while the connection
//! drains. At other times, the established connection is held by its pool, by the operation that it
//! was granted to, by an exchange, or by a pin.

mod authentication;

use super::{Action, attempts::drain::Drain, recording::LateReply};
use crate::{
    address::Address,
    arena::{Arena, Slot},
    auth::{AuthState, Mode},
    connection::{
        Connection, ConnectionFacts, Established, Output, Phase, SocketId, closed_by_peer,
    },
    description::ServerId,
    error::{Error, TopologyVersion},
    operation::{Lease, OperationId},
    options::{AuthMechanism, KerberosLibrary},
    pool::ConnectionId,
    random::Random,
    sdam::MonitorConnectionId,
    time::Instant,
    tls::RevocationStatus,
};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// The connection checks a server or measures its round trip time.
    Monitor(MonitorConnectionId),
    /// The connection runs operations and belongs to the pool of this server.
    Pooled(ServerId, ConnectionId),
}

/// The owner of a connection.
#[derive(Debug)]
pub(super) enum State {
    /// The record, which drives the connection: from dialling until it is ready, and through the
    /// checks of a monitor.
    Driven(Box<Connection>),
    /// The pool, which can grant the connection.
    Idle,
    /// An operation that has not resumed since the connection was granted to it, and the time at
    /// which this grant is examined. That of a pinned connection is never examined.
    Granted(OperationId, Option<Instant>),
    /// An exchange, which its holder keeps outside of the client.
    InUse,
    /// An exchange whose deadline has passed. Its holder has been told to check it in.
    Overdue,
    /// The record, which waits for a late reply and drops it.
    Draining(Box<Drain>),
    /// A cursor or a transaction, between two commands.
    Pinned,
}

/// The operation and the facts of a connection that authenticates again.
#[derive(Debug)]
pub(super) struct Again {
    /// The operation that waits for the connection.
    pub(super) operation: OperationId,
    pub(super) facts: ConnectionFacts,
}

#[derive(Debug)]
struct Record {
    role: Role,
    state: State,
    /// The operation and the facts of a connection that authenticates again; `None` for any other
    /// connection.
    again: Option<Box<Again>>,
}

/// An order of the connections part.
#[derive(Debug)]
pub(super) enum Order {
    /// An action for the shell.
    Act(Action),
    /// Read the late reply on this socket, unless the connection was closed meanwhile.
    ReadLateReply(SocketId),
    /// Read from this parked socket, unless the connection was closed meanwhile.
    Read(SocketId),
    /// Handle this output of a connection that is driven.
    Report(SocketId, Role, Output),
    /// Notify the pool that its connection was not established. The topology was notified before,
    /// so that a clear precedes the end of the connection (CMAP-151).
    Lost(ServerId, ConnectionId, Error),
    /// Give this connection back to its pin or its pool: its late reply was dropped.
    Drained(Box<Drain>),
    /// Close this connection and raise this error in this operation: the connection could not
    /// authenticate again.
    NotAuthenticated(Lease, OperationId, Error),
    /// Close this connection, or mark it as broken if it is pinned: its drain failed with this
    /// error.
    NotDrained(Box<Established>, Error),
    /// Set the limit of the next step of a connection that is driven; `None` for no limit.
    Limit(SocketId, Option<Instant>),
    /// Remove this connection, which was closed while it was driven, from the questions that it
    /// waits for.
    NotDriven(SocketId),
}

/// The connections of a client.
#[derive(Debug)]
pub(super) struct Connections {
    records: Arena<Record>,
    by_role: BTreeMap<Role, SocketId>,
    last_number: u64,
    /// The nonces and caches with which connections authenticate.
    auth: AuthState,
    orders: VecDeque<Order>,
}

impl Connections {
    pub(super) fn new(nonces: Random, kerberos: Option<KerberosLibrary>, mode: Mode) -> Self {
        let mut auth = AuthState::new(nonces).with_kerberos(kerberos);
        auth.mode = mode;
        Self {
            records: Arena::new(),
            by_role: BTreeMap::new(),
            last_number: 0,
            auth,
            orders: VecDeque::new(),
        }
    }

    pub(super) fn reseed(&mut self, nonces: Random) {
        self.auth.nonces = nonces;
    }

    /// True if [`poll_order`](Self::poll_order) has an order.
    #[inline]
    pub(super) fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    #[inline]
    pub(super) fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Adds a connection and orders to dial its socket.
    pub(super) fn dial(&mut self, role: Role, connection: Connection) -> SocketId {
        self.last_number += 1;
        let number = self.last_number;
        let address = connection.dial_address().clone();
        let limit = connection.deadline();
        let state = State::Driven(Box::new(connection));
        let record = Record {
            role,
            state,
            again: None,
        };
        let slot = self.records.insert(number, record);
        let socket = SocketId::new(number, slot.0);
        self.by_role.insert(role, socket);
        self.orders
            .push_back(Order::Act(Action::Dial { socket, address }));
        self.orders.push_back(Order::Limit(socket, limit));
        socket
    }

    /// Handles a socket that was connected.
    pub(super) fn handle_connected(&mut self, now: Instant, id: SocketId) {
        let Some(slot) = self.find(id) else {
            return;
        };
        let record = self.records.get_mut(slot);
        if let State::Driven(connection) = &mut record.state {
            connection.handle_connected(now, &mut self.auth);
            self.after_step(id);
        }
    }

    /// Handles bytes that arrived. An empty slice means that the peer closed the connection.
    pub(super) fn handle_received(&mut self, now: Instant, id: SocketId, bytes: &[u8]) {
        let Some(slot) = self.find(id) else {
            return;
        };
        match &mut self.records.get_mut(slot).state {
            State::Driven(connection) => {
                if bytes.is_empty() {
                    connection.handle_failed(closed_by_peer());
                } else {
                    connection.handle_received(now, bytes, &mut self.auth);
                }
                self.after_step(id);
            }
            State::Draining(_) if bytes.is_empty() => self.give_up_drain(id, closed_by_peer()),
            State::Draining(drain) => {
                let received = drain.connection.transport.receive(bytes);
                match received.and_then(|()| drain.advance()) {
                    Ok(false) => {}
                    Ok(true) => self.end_drain(now, id),
                    Err(error) => {
                        // A TLS alert tells the server why the connection is closed.
                        let bytes = drain.connection.transport.take_closing_output();
                        self.transmit(id, bytes);
                        self.give_up_drain(id, error);
                    }
                }
            }
            State::Idle | State::Granted(..) | State::InUse | State::Overdue | State::Pinned => {}
        }
    }

    /// Handles a socket that could not be connected, or that failed.
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
            State::Idle | State::Granted(..) | State::InUse | State::Overdue | State::Pinned => {}
        }
    }

    /// Handles the end of the time limit of a connection's current step.
    pub(super) fn handle_limit(&mut self, now: Instant, id: SocketId, is_queued: bool) {
        if let Some((connection, auth)) = self.driven(id) {
            match connection.overdue_status(now) {
                Some(certificate) => {
                    let unknown = RevocationStatus::Unknown;
                    connection.handle_status(now, &certificate, unknown, auth);
                }
                None => connection.handle_limit(now, is_queued),
            }
            self.after_step(id);
        }
    }

    /// Returns what the connection of a monitor waits for, if its layers are not open.
    pub(super) fn unopened(&self, monitor: MonitorConnectionId) -> Option<String> {
        match self.state(self.socket(Role::Monitor(monitor))?)? {
            State::Driven(connection) => connection.unopened(),
            _ => None,
        }
    }

    /// Begins a check on the connection of a monitor.
    pub(super) fn check(
        &mut self,
        now: Instant,
        monitor: MonitorConnectionId,
        legacy: bool,
        awaitable: Option<(TopologyVersion, Duration)>,
    ) {
        let Some(&id) = self.by_role.get(&Role::Monitor(monitor)) else {
            return;
        };
        if let Some((connection, _)) = self.driven(id) {
            connection.check(now, legacy, awaitable);
            self.after_step(id);
        }
    }

    /// Takes the machine of a connection that is ready, and makes the pool the owner of the
    /// connection. `None` if the connection is not driven.
    pub(super) fn establish(&mut self, id: SocketId) -> Option<Box<Connection>> {
        let record = self.record(id)?;
        if !matches!(record.state, State::Driven(_)) {
            return None;
        }
        let State::Driven(connection) = std::mem::replace(&mut record.state, State::Idle) else {
            return None;
        };
        self.orders.push_back(Order::Limit(id, None));
        Some(connection)
    }

    /// Removes a connection and orders to close its socket. Returns the socket.
    pub(super) fn close(&mut self, role: Role) -> Option<SocketId> {
        let socket = self.by_role.remove(&role)?;
        let record = self.find(socket).and_then(|slot| self.records.remove(slot));
        if let Some(State::Driven(_)) = record.map(|record| record.state) {
            self.orders.push_back(Order::Limit(socket, None));
            self.orders.push_back(Order::NotDriven(socket));
        }
        self.orders.push_back(Order::Act(Action::Close { socket }));
        Some(socket)
    }

    /// Queues [`Order::Lost`] before the other orders of this part. The orders that the topology
    /// gave before, such as a clear, are still carried out first.
    pub(super) fn report_lost(&mut self, server: ServerId, pooled: ConnectionId, error: Error) {
        self.orders.push_front(Order::Lost(server, pooled, error));
    }

    /// Sets the owner of an established connection.
    #[inline]
    pub(super) fn set_state(&mut self, id: SocketId, owner: State) {
        if let Some(record) = self.record(id) {
            record.state = owner;
        }
    }

    /// Begins to drain a connection: orders to read its late reply, which is dropped.
    pub(super) fn begin_drain(&mut self, drain: Box<Drain>) {
        let id = drain.connection.facts.socket;
        self.set_state(id, State::Draining(drain));
        self.orders.push_back(Order::ReadLateReply(id));
    }

    /// Ends a drain that failed, for example because the late reply did not arrive in time.
    pub(super) fn give_up_drain(&mut self, id: SocketId, error: Error) {
        if let Some(drain) = self.take_draining(id) {
            let connection = drain.connection;
            let error = error.with_server(&connection.facts.address);
            self.orders.push_back(Order::NotDrained(connection, error));
        }
    }

    /// Returns what the last bytes did to a connection that drained, or the error of its drain.
    pub(super) fn drained(&self, id: SocketId) -> Result<LateReply, Error> {
        match self.orders.back() {
            Some(Order::Drained(drain)) if drain.connection.facts.socket == id => {
                Ok(match drain.end_of_cursor {
                    None => LateReply::Whole,
                    Some(_) => LateReply::WithCursor,
                })
            }
            Some(Order::NotDrained(connection, error)) if connection.facts.socket == id => {
                Err(error.clone())
            }
            _ => Ok(LateReply::Part),
        }
    }

    fn end_drain(&mut self, now: Instant, id: SocketId) {
        if let Some(mut drain) = self.take_draining(id) {
            drain.connection.used = now;
            drain.connection.transport.free_idle_buffers();
            self.orders.push_back(Order::Drained(drain));
        }
    }

    /// Ends a drain and returns it. The caller decides on the next owner of the connection.
    fn take_draining(&mut self, id: SocketId) -> Option<Box<Drain>> {
        let record = self.record(id)?;
        if !matches!(record.state, State::Draining(_)) {
            return None;
        }
        match std::mem::replace(&mut record.state, State::Idle) {
            State::Draining(drain) => Some(drain),
            _ => None,
        }
    }

    /// Queues the outputs, the bytes and the limit that a connection has after an input.
    fn after_step(&mut self, id: SocketId) {
        let Some(slot) = self.find(id) else {
            return;
        };
        let Record { role, state, .. } = self.records.get_mut(slot);
        let State::Driven(connection) = state else {
            return;
        };
        let mut failed_in = None;
        while let Some(output) = connection.poll_output() {
            if let Output::Failed { error, phase } = &output {
                failed_in = Some(*phase);
                self.auth.mode.note_failure(error);
            }
            self.orders.push_back(Order::Report(id, *role, output));
        }
        let is_over = failed_in.is_some();
        if failed_in == Some(Phase::Authentication)
            && connection.mechanism() == Some(AuthMechanism::MongoDbAws)
        {
            // Any failure can be due to the credentials (AUTH-100).
            self.auth.caches.clear_aws();
        }
        let mut bytes = Vec::new();
        if is_over {
            // A TLS alert tells the server why the connection is closed.
            bytes = connection.take_closing_output();
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

    fn driven(&mut self, id: SocketId) -> Option<(&mut Connection, &mut AuthState)> {
        let slot = self.find(id)?;
        match &mut self.records.get_mut(slot).state {
            State::Driven(connection) => Some((connection, &mut self.auth)),
            _ => None,
        }
    }

    #[inline]
    fn find(&self, id: SocketId) -> Option<Slot> {
        self.records.find(id.number(), Slot(id.slot()))
    }

    #[inline]
    fn record(&mut self, id: SocketId) -> Option<&mut Record> {
        self.records.find_mut(id.number(), Slot(id.slot()))
    }

    /// Returns the owner of a connection; `None` if the connection was closed.
    pub(super) fn state(&self, id: SocketId) -> Option<&State> {
        Some(&self.records.get(self.find(id)?).state)
    }

    /// Returns the purpose of a connection; `None` if the connection was closed.
    pub(super) fn role(&self, id: SocketId) -> Option<Role> {
        Some(self.records.get(self.find(id)?).role)
    }

    /// Returns the socket of the connection with this purpose.
    pub(super) fn socket(&self, role: Role) -> Option<SocketId> {
        self.by_role.get(&role).copied()
    }

    /// Returns the address of the server of a connection whose socket the shell reads; `None` for a
    /// parked or closed socket.
    pub(super) fn address_of(&self, id: SocketId) -> Option<&Address> {
        match self.state(id)? {
            State::Driven(connection) => Some(connection.address()),
            State::Draining(drain) => Some(&drain.connection.facts.address),
            State::Idle | State::Granted(..) | State::InUse | State::Overdue | State::Pinned => {
                None
            }
        }
    }

    /// Returns the connections with their purposes and owners, ordered by purpose.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SocketId, Role, &State)> {
        self.by_role
            .iter()
            .filter_map(|(&role, &id)| Some((id, role, self.state(id)?)))
    }

    /// Returns the grants that are examined, each with its time.
    pub(super) fn grants(&self) -> impl Iterator<Item = (SocketId, OperationId, Instant)> {
        self.records
            .iter()
            .filter_map(|(number, slot, record)| match record.state {
                State::Granted(operation, Some(at)) => {
                    Some((SocketId::new(number, slot.0), operation, at))
                }
                _ => None,
            })
    }

    pub(super) const fn len(&self) -> usize {
        self.records.len() as usize
    }
}
