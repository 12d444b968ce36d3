//! The pins part: connections that cursors and transactions keep behind a load balancer.
//!
//! For its pool, a pinned connection stays checked out. Further commands on it are not further
//! check outs (LB-31). A pinned connection that broke also stays checked out until its pin holders
//! release it, and is closed when it is checked in (LB-36).

use crate::{
    connection::{ConnectionFacts, Established, SocketId},
    description::{ServerId, TopologyId},
    error::{Error, NetworkFault},
    operation::{OperationId, Pin, PinHolder, PinId},
    pool::{Condition, ConnectionId, PinnedFor},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The reasons to keep a connection, the class that outranks the others first (LB-44).
const CLASSES: [PinnedFor; 3] = [
    PinnedFor::Transaction,
    PinnedFor::Cursor,
    PinnedFor::Operation,
];

/// The entry of a connection that has a pin, or whose pin was released before its exchange was
/// checked in.
#[derive(Debug)]
struct Pinned {
    server: ServerId,
    pooled: ConnectionId,
    /// The cursors that keep the connection, and at most one transaction (LB-41): the ids of the
    /// pins of each of the [`CLASSES`].
    holders: [BTreeSet<PinId>; 3],
    /// Pins that were released before the exchange that made them was checked in.
    released_early: BTreeSet<PinId>,
    state: State,
    /// The operations that wait for the connection, oldest first.
    waiting: VecDeque<PinRequest>,
}

#[derive(Debug)]
enum State {
    /// No command runs on the connection.
    Free(Box<Established>),
    /// A command runs on the connection, or is about to.
    InUse {
        /// True if the command ends without the application: the `killCursors` of a cursor that was
        /// dropped.
        ends_alone: bool,
    },
    /// The client waits for the late reply to an earlier command.
    Draining,
    /// The connection broke with this error.
    Broken(Error),
}

/// The request of an operation for a pinned connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct PinRequest {
    pub(super) operation: OperationId,
    /// True for a command that ends without the application.
    pub(super) ends_alone: bool,
    /// True for the end of a transaction, which can run on another connection.
    pub(super) can_move: bool,
}

/// The state of a pinned connection, for reports.
#[cfg(any(test, feature = "unstable-machines"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinState {
    /// No command runs on the connection.
    Free,
    /// A command runs on the connection, or is about to.
    InUse,
    /// The client waits for the late reply to an earlier command.
    Draining,
    /// The connection broke, and its next command fails.
    Broken,
}

/// An order of the pins part.
#[derive(Debug)]
pub(super) enum Order {
    /// Check the connection in to its pool: its last pin was released.
    CheckIn {
        socket: SocketId,
        server: ServerId,
        pooled: ConnectionId,
        condition: Condition<Box<Established>>,
    },
    /// Tell the pool the use of the connection: by a cursor, by a transaction, or by one operation.
    PinFor(ServerId, ConnectionId, PinnedFor),
    /// Give the connection to the operation that waited for it.
    Grant(OperationId, Box<Established>),
    /// Continue the operation that waited for the connection, which broke.
    Resume(OperationId),
    /// Fail the operation that waited for the connection: its pin was released.
    Fail(OperationId),
}

/// The result of a request for a pinned connection.
pub(super) enum PinCheckOut {
    /// The connection is free.
    Connection(Box<Established>),
    /// The operation waits for the end of what runs on this socket. [`Order::Grant`],
    /// [`Order::Resume`] or [`Order::Fail`] follows.
    Waiting(SocketId),
    /// The connection cannot be used, for this reason.
    Refused(Error),
}

impl Pinned {
    fn new(server: ServerId, pooled: ConnectionId) -> Self {
        Self {
            server,
            pooled,
            holders: Default::default(),
            released_early: BTreeSet::new(),
            state: State::InUse { ends_alone: false },
            waiting: VecDeque::new(),
        }
    }

    /// Returns what the connection is kept for.
    fn pinned_for(&self) -> PinnedFor {
        let mut classes = CLASSES.iter().zip(&self.holders);
        let first = classes.find(|(_, ids)| !ids.is_empty());
        first.map_or(PinnedFor::Operation, |(class, _)| *class)
    }

    fn is_kept(&self) -> bool {
        self.holders.iter().any(|ids| !ids.is_empty())
    }

    fn is_kept_by(&self, id: PinId) -> bool {
        self.holders.iter().any(|ids| ids.contains(&id))
    }

    fn add(&mut self, holder: PinHolder) {
        for (class, ids) in CLASSES.iter().zip(&mut self.holders) {
            if *class == holder.pinned_for {
                ids.insert(holder.id);
            }
        }
    }

    fn remove(&mut self, id: PinId) {
        for ids in &mut self.holders {
            ids.remove(&id);
        }
    }
}

/// The pinned connections of a client.
#[derive(Debug)]
pub(super) struct Pins {
    /// The id of this client. Pins of other clients are refused.
    client: TopologyId,
    pinned: BTreeMap<SocketId, Pinned>,
    orders: VecDeque<Order>,
}

impl Pins {
    pub(super) const fn new(client: TopologyId) -> Self {
        Self {
            client,
            pinned: BTreeMap::new(),
            orders: VecDeque::new(),
        }
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

    /// Releases a pin. The connection is checked in when its last pin is released. `in_use` returns
    /// the server and the connection id of a socket whose connection is in use.
    pub(super) fn release(
        &mut self,
        pin: Pin,
        in_use: impl FnOnce(SocketId) -> Option<(ServerId, ConnectionId)>,
    ) {
        let Pin(PinHolder { id, .. }) = pin;
        if id.client != self.client {
            return;
        }
        match self.pinned.get_mut(&id.socket) {
            Some(pinned) if pinned.is_kept_by(id) => {
                pinned.remove(id);
                self.after_change(id.socket);
            }
            // The exchange that made the pin has not been checked in yet.
            Some(pinned) if matches!(pinned.state, State::InUse { .. }) => {
                pinned.released_early.insert(id);
            }
            Some(_) => {}
            None => {
                if let Some((server, pooled)) = in_use(id.socket) {
                    let mut pinned = Pinned::new(server, pooled);
                    pinned.released_early.insert(id);
                    self.pinned.insert(id.socket, pinned);
                }
            }
        }
    }

    /// Releases all pins. Connections in use are checked in when their exchanges end. Operations
    /// that wait for a pinned connection fail.
    pub(super) fn release_all(&mut self) {
        let sockets: Vec<SocketId> = self.pinned.keys().copied().collect();
        for socket in sockets {
            if let Some(pinned) = self.pinned.get_mut(&socket) {
                pinned.holders = Default::default();
                self.after_change(socket);
            }
        }
    }

    /// Adds pin holders to the connection of an exchange that ended, without those whose pins were
    /// released early.
    pub(super) fn keep(&mut self, facts: &ConnectionFacts, holders: Vec<PinHolder>) {
        let new = || Pinned::new(facts.server, facts.pooled);
        let entry = self.pinned.entry(facts.socket).or_insert_with(new);
        let released_early = std::mem::take(&mut entry.released_early);
        for holder in holders {
            if !released_early.contains(&holder.id) {
                entry.add(holder);
            }
        }
        let order = Order::PinFor(facts.server, facts.pooled, entry.pinned_for());
        self.orders.push_back(order);
    }

    /// Returns true if a pin holder keeps the connection. Otherwise removes the entry of the
    /// connection.
    pub(super) fn keep_or_remove(&mut self, socket: SocketId) -> bool {
        if self.pinned.get(&socket).is_some_and(Pinned::is_kept) {
            return true;
        }
        self.pinned.remove(&socket);
        false
    }

    /// True if there is an entry for this connection, with or without pin holders.
    pub(super) fn has_entry(&self, socket: SocketId) -> bool {
        !self.pinned.is_empty() && self.pinned.contains_key(&socket)
    }

    /// Takes back a connection whose exchange or drain has ended. The first operation that waits
    /// for the connection gets it. If `broken` is given, all commands on the connection fail with
    /// that error from now on.
    pub(super) fn take_back(&mut self, connection: Box<Established>, broken: Option<Error>) {
        let Some(pinned) = self.pinned.get_mut(&connection.facts.socket) else {
            return;
        };
        if let Some(error) = broken {
            pinned.state = State::Broken(error);
            let waiting = std::mem::take(&mut pinned.waiting).into_iter();
            self.orders
                .extend(waiting.map(|request| Order::Resume(request.operation)));
            return;
        }
        match pinned.waiting.pop_front() {
            None => pinned.state = State::Free(connection),
            Some(next) => {
                let ends_alone = next.ends_alone;
                pinned.state = State::InUse { ends_alone };
                self.orders
                    .push_back(Order::Grant(next.operation, connection));
            }
        }
    }

    /// Marks a pinned connection as draining.
    pub(super) fn begin_drain(&mut self, socket: SocketId) {
        if let Some(pinned) = self.pinned.get_mut(&socket) {
            pinned.state = State::Draining;
        }
    }

    /// Gives a pinned connection to an operation of its pin holder. If a command runs on it or a
    /// late reply is outstanding, the operation waits for the end of that: for example, of the
    /// `killCursors` of a cursor that was dropped. The request is refused if the connection is
    /// broken or not pinned by this holder.
    ///
    /// The end of a transaction does not wait for a command that only the application can end, such
    /// as the `getMore` of a cursor that it no longer polls, also if that one waits itself. It is
    /// refused too.
    pub(super) fn check_out(&mut self, id: PinId, request: PinRequest) -> PinCheckOut {
        let is_own = id.client == self.client;
        let pinned = self.pinned.get_mut(&id.socket);
        let Some(pinned) = pinned.filter(|pinned| is_own && pinned.is_kept_by(id)) else {
            return PinCheckOut::Refused(released_pin_error());
        };
        let ends_alone = request.ends_alone;
        let gives_up = request.can_move
            && (matches!(pinned.state, State::InUse { ends_alone: false })
                || pinned.waiting.iter().any(|waiting| !waiting.ends_alone));
        match &mut pinned.state {
            state @ State::Free(_) => match std::mem::replace(state, State::InUse { ends_alone }) {
                State::Free(connection) => PinCheckOut::Connection(connection),
                _ => PinCheckOut::Waiting(id.socket),
            },
            State::InUse { .. } | State::Draining if gives_up => {
                let message = "another command of the transaction uses its connection";
                PinCheckOut::Refused(Error::network(NetworkFault::Other, message))
            }
            State::InUse { .. } | State::Draining => {
                pinned.waiting.push_back(request);
                PinCheckOut::Waiting(id.socket)
            }
            State::Broken(error) => PinCheckOut::Refused(error.clone()),
        }
    }

    /// Removes an operation that waits for a pinned connection.
    pub(super) fn leave(&mut self, socket: SocketId, operation: OperationId) {
        if let Some(pinned) = self.pinned.get_mut(&socket) {
            pinned
                .waiting
                .retain(|request| request.operation != operation);
        }
    }

    /// Marks a pinned connection on which nothing runs as broken. The next command on it fails with
    /// `error`.
    pub(super) fn interrupt(&mut self, socket: SocketId, error: Error) {
        if let Some(pinned) = self.pinned.get_mut(&socket)
            && !matches!(pinned.state, State::Broken(_))
        {
            pinned.state = State::Broken(error);
            self.after_change(socket);
        }
    }

    fn after_change(&mut self, socket: SocketId) {
        let Some(pinned) = self.pinned.get_mut(&socket) else {
            return;
        };
        let (server, pooled) = (pinned.server, pinned.pooled);
        if pinned.is_kept() {
            let order = Order::PinFor(server, pooled, pinned.pinned_for());
            self.orders.push_back(order);
            return;
        }
        let waiting = std::mem::take(&mut pinned.waiting).into_iter();
        self.orders
            .extend(waiting.map(|request| Order::Fail(request.operation)));
        let in_use = State::InUse { ends_alone: false };
        let condition = match std::mem::replace(&mut pinned.state, in_use) {
            // The connection is checked in when its exchange ends.
            State::InUse { .. } => return,
            State::Free(connection) => Condition::Healthy(connection),
            State::Draining => Condition::ReplyDue,
            State::Broken(error) => Condition::Broken(Some(error)),
        };
        self.pinned.remove(&socket);
        self.orders.push_back(Order::CheckIn {
            socket,
            server,
            pooled,
            condition,
        });
    }

    /// Returns the pinned connections, each with its state and the number of its pin holders.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (SocketId, PinState, usize)> {
        self.pinned.iter().map(|(&socket, pinned)| {
            let state = match &pinned.state {
                State::Free(_) => PinState::Free,
                State::InUse { .. } => PinState::InUse,
                State::Draining => PinState::Draining,
                State::Broken(_) => PinState::Broken,
            };
            let holders: usize = pinned.holders.iter().map(BTreeSet::len).sum();
            (socket, state, holders)
        })
    }
}

/// Returns the error with which later commands on a broken pinned connection fail.
pub(super) fn broken(error: Option<Error>) -> Error {
    error.unwrap_or_else(|| {
        let message = "unexpected bytes or an incomplete request are left on the pinned connection";
        Error::protocol(message)
    })
}

/// Returns the error of an operation whose pin was released or belongs to another client, or whose
/// connection was taken back from the exchange that made the pin.
pub(super) fn released_pin_error() -> Error {
    Error::argument(
        "the cursor or transaction has no connection any more: it was polled only after the limit \
         of its first command, its pin was released, or the pin belongs to another client",
    )
}
