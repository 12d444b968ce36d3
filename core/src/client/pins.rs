//! The pins part: connections that cursors and transactions keep, behind a load balancer.
//!
//! For its pool a pinned connection is checked out all the time; uses of it are no check-outs
//! (LB-31). A pinned connection that broke stays checked out until its holders let go: the topology
//! knows at once that it broke, and that it closed is told when it goes back (LB-36).

use crate::{
    connection::{ConnectionFacts, Established, SocketId},
    description::{ServerId, TopologyId},
    error::{Error, ErrorKind},
    operation::{OperationId, Pin, PinHolder, PinId},
    pool::{Condition, ConnectionId, PinnedFor},
};
use std::collections::{BTreeMap, VecDeque};

/// A connection that somebody keeps.
#[derive(Debug)]
struct Pinned {
    server: ServerId,
    pooled: ConnectionId,
    /// Who keeps it: cursors, and one transaction at most (LB-41).
    holders: Vec<PinHolder>,
    /// Pins that were released before the exchange came back from which they were made.
    gone: Vec<PinId>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No command runs on the connection.
    Free(Box<Established>),
    /// A command runs on it, or is about to.
    InUse,
    /// A command ended before its reply was there. The next command may wait for the reply's end.
    Draining { next: Option<OperationId> },
    /// The connection cannot be used any more.
    Broken(Error),
}

/// How a pinned connection is, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinState {
    /// It waits for its holder's next command.
    Free,
    /// A command runs on it, or is about to.
    InUse,
    /// A late reply is thrown away; the next command may wait for that already.
    Draining(Option<OperationId>),
    /// It cannot be used any more.
    Broken,
}

/// What the part orders.
#[derive(Debug)]
pub(super) enum Order {
    /// Nobody keeps the connection any more: it goes back to its pool.
    GiveBack {
        socket: SocketId,
        server: ServerId,
        pooled: ConnectionId,
        condition: Condition<Box<Established>>,
    },
    /// The pool counts the connection as held for this.
    Hold(ServerId, ConnectionId, PinnedFor),
    /// The operation that waited for the connection goes on.
    GoOn(OperationId),
    /// The operation that waited for the connection fails: nobody keeps it any more.
    Fail(OperationId),
}

/// The answer to an operation that asks for its pinned connection.
pub(super) enum Borrowed {
    /// The connection.
    Connection(Box<Established>),
    /// The reply to an earlier command is outstanding: [`Order::GoOn`] follows.
    Waiting(SocketId),
    /// It cannot be had.
    Refused(Error),
}

impl Pinned {
    fn new(server: ServerId, pooled: ConnectionId) -> Self {
        Self {
            server,
            pooled,
            holders: Vec::new(),
            gone: Vec::new(),
            state: State::InUse,
        }
    }

    /// What the pool counts it as (LB-44).
    fn pinned_for(&self) -> PinnedFor {
        let holders = self.holders.iter().map(|holder| holder.pinned_for);
        holders.fold(PinnedFor::Operation, |pinned_for, next| {
            match (pinned_for, next) {
                (PinnedFor::Transaction, _) | (_, PinnedFor::Transaction) => PinnedFor::Transaction,
                (PinnedFor::Cursor, _) | (_, PinnedFor::Cursor) => PinnedFor::Cursor,
                (PinnedFor::Operation, PinnedFor::Operation) => PinnedFor::Operation,
            }
        })
    }

    fn is_kept_by(&self, id: PinId) -> bool {
        self.holders.iter().any(|holder| holder.id == id)
    }
}

/// All pinned connections of a client.
#[derive(Debug)]
pub(super) struct Pins {
    /// The id of the client that made the pins.
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

    #[inline]
    pub(super) fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Releases a pin. Its connection goes back to its pool when nobody else keeps it. `leased`
    /// says which connection of which pool a socket is that is in use.
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
                pinned.holders.retain(|holder| holder.id != id);
                self.after_change(id.socket);
            }
            // The exchange that tells of the pin has not come back.
            Some(pinned) if matches!(pinned.state, State::InUse) => pinned.gone.push(id),
            Some(_) => {}
            None => {
                if let Some((server, pooled)) = in_use(id.socket) {
                    let mut pinned = Pinned::new(server, pooled);
                    pinned.gone.push(id);
                    self.pinned.insert(id.socket, pinned);
                }
            }
        }
    }

    /// Releases all pins. Checked-out connections go back when their exchanges end, and operations
    /// that wait for a pinned connection fail.
    pub(super) fn release_all(&mut self) {
        let sockets: Vec<SocketId> = self.pinned.keys().copied().collect();
        for socket in sockets {
            if let Some(pinned) = self.pinned.get_mut(&socket) {
                pinned.holders.clear();
                self.after_change(socket);
            }
        }
    }

    /// An exchange ended whose connection these holders want to keep.
    pub(super) fn keep(&mut self, facts: &ConnectionFacts, holders: Vec<PinHolder>) {
        let new = || Pinned::new(facts.server, facts.pooled);
        let entry = self.pinned.entry(facts.socket).or_insert_with(new);
        let gone = std::mem::take(&mut entry.gone);
        let kept = holders.into_iter().filter(|k| !gone.contains(&k.id));
        entry.holders.extend(kept);
        let hold = Order::Hold(facts.server, facts.pooled, entry.pinned_for());
        self.orders.push_back(hold);
    }

    /// True if somebody keeps a connection that comes back. A connection that nobody keeps any more
    /// is forgotten.
    pub(super) fn keeps(&mut self, socket: SocketId) -> bool {
        let is_kept = |pinned: &Pinned| !pinned.holders.is_empty();
        if self.pinned.get(&socket).is_some_and(is_kept) {
            return true;
        }
        self.pinned.remove(&socket);
        false
    }

    /// True if the connection is pinned, kept or about to be forgotten.
    pub(super) fn knows(&self, socket: SocketId) -> bool {
        !self.pinned.is_empty() && self.pinned.contains_key(&socket)
    }

    /// Takes a connection back whose exchange or whose late reply has ended. The operation that
    /// waits for it goes on.
    pub(super) fn take_back(&mut self, connection: Box<Established>, broken: Option<Error>) {
        let Some(pinned) = self.pinned.get_mut(&connection.facts.socket) else {
            return;
        };
        let next = match pinned.state {
            State::Draining { next } => next,
            State::Free(_) | State::InUse | State::Broken(_) => None,
        };
        pinned.state = match broken {
            None => State::Free(connection),
            Some(error) => State::Broken(error),
        };
        if let Some(id) = next {
            self.orders.push_back(Order::GoOn(id));
        }
    }

    /// The reply to a command on a pinned connection is outstanding.
    pub(super) fn begin_drain(&mut self, socket: SocketId) {
        if let Some(pinned) = self.pinned.get_mut(&socket) {
            pinned.state = State::Draining { next: None };
        }
    }

    /// Lends a pinned connection to an operation of its holder, or lets the operation wait.
    pub(super) fn borrow(&mut self, id: PinId, operation: OperationId) -> Borrowed {
        let is_own = id.client == self.client;
        let pinned = self.pinned.get_mut(&id.socket);
        let Some(pinned) = pinned.filter(|pinned| is_own && pinned.is_kept_by(id)) else {
            return Borrowed::Refused(pin_is_gone());
        };
        match std::mem::replace(&mut pinned.state, State::InUse) {
            State::Free(connection) => Borrowed::Connection(connection),
            State::Draining { next: None } => {
                let next = Some(operation);
                pinned.state = State::Draining { next };
                Borrowed::Waiting(id.socket)
            }
            State::Broken(error) => {
                pinned.state = State::Broken(error.clone());
                Borrowed::Refused(error)
            }
            other @ (State::InUse | State::Draining { .. }) => {
                pinned.state = other;
                let message = "a cursor or transaction runs one command at a time";
                Borrowed::Refused(Error::argument(message))
            }
        }
    }

    /// An operation that waited for a pinned connection leaves.
    pub(super) fn leave(&mut self, socket: SocketId) {
        if let Some(pinned) = self.pinned.get_mut(&socket)
            && let State::Draining { next } = &mut pinned.state
        {
            *next = None;
        }
    }

    /// An operation gives a pinned connection back that it did not use.
    pub(super) fn return_unused(&mut self, connection: Box<Established>) {
        let socket = connection.facts.socket;
        if let Some(pinned) = self.pinned.get_mut(&socket) {
            pinned.state = State::Free(connection);
            self.after_change(socket);
        }
    }

    /// A pinned connection on which nothing runs was interrupted: the next command on it fails.
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
        if !pinned.holders.is_empty() {
            let hold = Order::Hold(server, pooled, pinned.pinned_for());
            self.orders.push_back(hold);
            return;
        }
        let condition = match std::mem::replace(&mut pinned.state, State::InUse) {
            // It goes back when the exchange does.
            State::InUse => return,
            State::Free(connection) => Condition::Healthy(connection),
            State::Draining { next } => {
                self.orders.extend(next.map(Order::Fail));
                Condition::ReplyDue
            }
            State::Broken(error) => Condition::Broken(Some(error)),
        };
        self.pinned.remove(&socket);
        self.orders.push_back(Order::GiveBack {
            socket,
            server,
            pooled,
            condition,
        });
    }

    /// All pinned connections, each with its state and how many keep it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SocketId, PinState, usize)> {
        self.pinned.iter().map(|(&socket, pinned)| {
            let state = match &pinned.state {
                State::Free(_) => PinState::Free,
                State::InUse => PinState::InUse,
                State::Draining { next } => PinState::Draining(*next),
                State::Broken(_) => PinState::Broken,
            };
            (socket, state, pinned.holders.len())
        })
    }
}

/// The error of the commands that follow on a pinned connection which comes back broken.
pub(super) fn broken(error: Option<Error>) -> Error {
    error.unwrap_or_else(|| {
        let message = "the connection is out of step with its server".to_owned();
        ErrorKind::Protocol { message }.into()
    })
}

/// The error of an operation whose pinned connection nobody keeps any more.
pub(super) fn pin_is_gone() -> Error {
    let message = "the connection that a cursor or transaction is bound to is gone";
    Error::argument(message)
}
