//! A snapshot of a client, for reports and tests.

use super::{
    Client, PinState, QuestionId, Timer,
    connections::{Role, State},
    operations::Waiting,
};
use crate::{
    address::Address,
    connection::SocketId,
    description::ServerId,
    operation::OperationId,
    pool::{self, ConnectionId, PoolState},
    sdam::MonitorConnectionId,
    selection::Criteria,
    time::Instant,
};

/// Everything that a client keeps, at one moment.
///
/// ```
/// # use onionskin_core::{client::{Client, ClientConfig}, random::Seed, time::Instant, uri};
/// let options = uri::parse("mongodb://localhost")?.options;
/// let mut client = Client::new(ClientConfig::new(options, Seed::new([0; 32]))?);
/// client.open(Instant::ZERO);
/// // One connection is made, to check the server.
/// assert_eq!(client.snapshot().connections.len(), 1);
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// All connections.
    pub connections: Vec<(SocketId, ConnectionState)>,
    /// All pools, closed ones with connections in use included.
    pub pools: Vec<PooledState>,
    /// The operations that hold no exchange and were not resumed, oldest first.
    pub operations: Vec<WaitingOperation>,
    /// The connections that cursors and transactions keep.
    pub pins: Vec<PinnedState>,
    /// Sessions that operations and cursors use.
    pub sessions_in_use: usize,
    /// Sessions that are kept for later.
    pub idle_sessions: usize,
    /// Questions that were not answered.
    pub questions: Vec<QuestionId>,
    /// Connections that wait for an answer.
    pub waiting_for_answers: usize,
    /// The armed timers of the composition, by deadline.
    pub timers: Vec<(Instant, Timer)>,
}

/// Who owns a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionState {
    /// It is dialled, established, or used by this monitor.
    Monitoring(MonitorConnectionId),
    /// It is made for a pool.
    Establishing(ServerId, ConnectionId),
    /// Its pool holds it.
    Idle(ServerId, ConnectionId),
    /// This operation was granted it and has not resumed.
    Granted(OperationId),
    /// An exchange holds it.
    InUse(ServerId, ConnectionId),
    /// A late reply is thrown away.
    Draining(ServerId, ConnectionId),
    /// A cursor or a transaction holds it between two commands.
    Pinned(ServerId, ConnectionId),
}

/// A pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PooledState {
    /// Its server.
    pub server: ServerId,
    /// The server's address.
    pub address: Address,
    /// Whether it serves.
    pub state: PoolState,
    /// How often it was cleared.
    pub generation: u64,
    /// Its connections and requests.
    pub counts: pool::Counts,
}

/// An operation that waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitingOperation {
    /// Its number.
    pub id: OperationId,
    /// What it waits for.
    pub state: OperationState,
    /// When it must be over.
    pub deadline: Option<Instant>,
    /// What it demands of its server; none once it failed.
    pub criteria: Option<Criteria>,
    /// The pinned connection that it runs on.
    pub pin: Option<SocketId>,
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationState {
    /// A server that suits.
    ForServer,
    /// The instant of its next attempt.
    Paused(Instant),
    /// The application's server selector.
    Asking,
    /// A connection of this server's pool.
    ForConnection(ServerId),
    /// The late reply on this pinned connection.
    ForPin(SocketId),
    /// To be resumed: this connection is granted.
    Granted(SocketId),
    /// To be resumed: it failed.
    Failed,
}

/// A pinned connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedState {
    /// Its socket.
    pub socket: SocketId,
    /// What it is used for.
    pub state: PinState,
    /// How many cursors and transactions keep it.
    pub holders: usize,
}

impl Client {
    /// Everything that the client keeps. Takes time in proportion to that.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let connections = self.connections.iter();
        let operations = self.operations.iter();
        Snapshot {
            connections: connections
                .map(|(socket, role, state)| (socket, connection_state(role, state)))
                .collect(),
            pools: self
                .pools
                .iter()
                .map(|(server, pool)| PooledState {
                    server,
                    address: pool.address().clone(),
                    state: pool.state(),
                    generation: pool.generation(),
                    counts: pool.counts(),
                })
                .collect(),
            operations: operations
                .map(|(id, waiting)| {
                    let operation = waiting.operation();
                    WaitingOperation {
                        id,
                        state: operation_state(waiting),
                        deadline: operation.and_then(|operation| operation.deadline),
                        criteria: operation.map(|operation| self.choice.criteria(operation)),
                        pin: operation
                            .and_then(|operation| operation.command.pinned())
                            .map(|pin| pin.socket),
                    }
                })
                .collect(),
            pins: self
                .pins
                .iter()
                .map(|(socket, state, holders)| PinnedState {
                    socket,
                    state,
                    holders,
                })
                .collect(),
            sessions_in_use: self.sessions.used(),
            idle_sessions: self.sessions.idle(),
            questions: self.questions.asked().collect(),
            waiting_for_answers: self.questions.waiting(),
            timers: self.timers.iter().collect(),
        }
    }
}

fn connection_state(role: Role, state: &State) -> ConnectionState {
    match (role, state) {
        (Role::Monitor(check), _) => ConnectionState::Monitoring(check),
        (Role::Pooled(server, pooled), State::Driven(_)) => {
            ConnectionState::Establishing(server, pooled)
        }
        (Role::Pooled(server, pooled), State::Idle) => ConnectionState::Idle(server, pooled),
        (Role::Pooled(..), &State::Granted(operation)) => ConnectionState::Granted(operation),
        (Role::Pooled(server, pooled), State::InUse) => ConnectionState::InUse(server, pooled),
        (Role::Pooled(server, pooled), State::Draining(_)) => {
            ConnectionState::Draining(server, pooled)
        }
        (Role::Pooled(server, pooled), State::Pinned) => ConnectionState::Pinned(server, pooled),
    }
}

fn operation_state(waiting: &Waiting) -> OperationState {
    match waiting {
        Waiting::ForServer(_) => OperationState::ForServer,
        Waiting::Paused(operation) => {
            OperationState::Paused(operation.paused_until.unwrap_or_default())
        }
        Waiting::Asking(_) => OperationState::Asking,
        Waiting::ForConnection(_, server) => OperationState::ForConnection(*server),
        Waiting::ForPin(_, socket) => OperationState::ForPin(*socket),
        Waiting::Granted(_, connection) => OperationState::Granted(connection.facts.socket),
        Waiting::Failed(_) => OperationState::Failed,
    }
}
