//! A snapshot of a client, for reports and tests.

use super::{
    Client, PinState, QuestionId, Timer,
    attempts::operations::Waiting,
    connections::{Role, State},
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

/// The connections, pools, operations, pins, sessions, questions and timers of a client at one
/// moment.
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
    /// The connections and their states.
    pub connections: Vec<(SocketId, ConnectionState)>,
    /// The pools, including closed pools that still have connections in use.
    pub pools: Vec<PoolSnapshot>,
    /// The operations that move no bytes, oldest first.
    pub operations: Vec<WaitingOperation>,
    /// The pinned connections.
    pub pins: Vec<PinnedState>,
    /// The number of sessions that are not in the session pool, because operations, cursors or
    /// callers hold them.
    pub sessions_in_use: usize,
    /// The number of sessions in the session pool.
    pub idle_sessions: usize,
    /// The questions that were asked and not answered.
    pub questions: Vec<QuestionId>,
    /// The number of connections that wait for an answer, including those whose question was not
    /// asked yet.
    pub waiting_for_answers: usize,
    /// The number of received bytes that the client keeps of connections that are being
    /// established, that check a server, or that wait for a late reply.
    pub received_bytes: usize,
    /// The armed timers of the client by deadline, without those of the topology and the pools.
    pub timers: Vec<(Instant, Timer)>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The connection belongs to a monitor, under this id.
    Monitoring(MonitorConnectionId),
    /// The connection is being established for a pool.
    Establishing(ServerId, ConnectionId),
    /// The connection is checked out and authenticates again.
    Authenticating(ServerId, ConnectionId),
    /// The connection is in its pool and not in use.
    Idle(ServerId, ConnectionId),
    /// The connection is granted to this operation, which has not resumed.
    Granted(OperationId),
    /// An exchange uses the connection.
    InUse(ServerId, ConnectionId),
    /// The connection waits for a late reply.
    Draining(ServerId, ConnectionId),
    /// A cursor or a transaction keeps the connection, between two commands.
    Pinned(ServerId, ConnectionId),
}

/// The state of a connection pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The server of the pool.
    pub server: ServerId,
    /// The address of the server.
    pub address: Address,
    /// The state of the pool: paused, ready or closed.
    pub state: PoolState,
    /// The generation of the pool: the number of its clears, without clears of one service.
    pub generation: u64,
    /// The numbers of connections and requests of the pool.
    pub counts: pool::Counts,
}

/// An operation that moves no bytes: it waits, pauses, or has not resumed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitingOperation {
    /// The id of the operation.
    pub id: OperationId,
    /// The reason why the operation waits.
    pub state: OperationState,
    /// The deadline of the operation; `None` for no deadline, and once the operation has failed.
    pub deadline: Option<Instant>,
    /// The criteria by which a server is selected; `None` once the operation has failed.
    pub criteria: Option<Criteria>,
    /// The socket of the pinned connection that the operation uses; `None` without a pin.
    pub pin: Option<SocketId>,
}

/// The reason why an operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationState {
    /// The operation waits for a suitable server.
    ForServer,
    /// The operation waits until this time to begin its next attempt.
    Paused(Instant),
    /// The operation waits for the answer of the application's server selector.
    Asking,
    /// The operation waits for a connection from the pool of this server.
    ForConnection(ServerId),
    /// The operation waits for the end of the late reply on this pinned connection.
    ForPin(SocketId),
    /// The operation waits until this connection has authenticated again.
    ForAuthentication(SocketId),
    /// The operation was granted the connection of this socket; its task has to resume it.
    Granted(SocketId),
    /// The program of the operation waits for the answer to this question.
    ForAnswer(QuestionId),
    /// The question of the program was answered; its task has to resume it.
    Answered,
    /// The operation failed; its task has to resume it.
    Failed,
}

/// A pinned connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedState {
    /// The socket of the connection.
    pub socket: SocketId,
    /// The state of the connection.
    pub state: PinState,
    /// The number of cursors and transactions that keep the connection.
    pub holders: usize,
}

impl Client {
    /// Returns a snapshot of the client. Takes time in proportion to the size of the snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let connections = self.connections.iter();
        let operations = self.attempts.operations.iter();
        Snapshot {
            connections: connections
                .map(|(socket, role, state)| {
                    let is_again = self.connections.is_again(socket);
                    (socket, connection_state(role, state, is_again))
                })
                .collect(),
            pools: self
                .pools
                .iter()
                .map(|(server, pool)| PoolSnapshot {
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
                        deadline: waiting.deadline(),
                        criteria: operation
                            .map(|operation| self.attempts.choice.criteria(operation)),
                        pin: operation
                            .and_then(|operation| operation.request.pinned())
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
            sessions_in_use: self.attempts.sessions.used(),
            idle_sessions: self.attempts.sessions.idle(),
            questions: self.questions.asked(),
            waiting_for_answers: self.questions.waiting(),
            received_bytes: self
                .connections
                .iter()
                .map(|(_, _, state)| received_bytes(state))
                .sum(),
            timers: self.clock.timers.iter().collect(),
        }
    }
}

fn connection_state(role: Role, state: &State, is_again: bool) -> ConnectionState {
    match (role, state) {
        (Role::Monitor(connection), _) => ConnectionState::Monitoring(connection),
        (Role::Pooled(server, pooled), State::Driven(_)) if is_again => {
            ConnectionState::Authenticating(server, pooled)
        }
        (Role::Pooled(server, pooled), State::Driven(_)) => {
            ConnectionState::Establishing(server, pooled)
        }
        (Role::Pooled(server, pooled), State::Idle) => ConnectionState::Idle(server, pooled),
        (Role::Pooled(..), &State::Granted(operation, _)) => ConnectionState::Granted(operation),
        (Role::Pooled(server, pooled), State::InUse | State::Overdue) => {
            ConnectionState::InUse(server, pooled)
        }
        (Role::Pooled(server, pooled), State::Draining(_)) => {
            ConnectionState::Draining(server, pooled)
        }
        (Role::Pooled(server, pooled), State::Pinned) => ConnectionState::Pinned(server, pooled),
    }
}

fn received_bytes(state: &State) -> usize {
    match state {
        State::Driven(connection) => connection.buffered_bytes(),
        State::Draining(drain) => drain.connection.transport.buffered_bytes(),
        _ => 0,
    }
}

fn operation_state(waiting: &Waiting) -> OperationState {
    match waiting {
        Waiting::ForServer(_) => OperationState::ForServer,
        Waiting::Paused(operation) => {
            OperationState::Paused(operation.retry.paused_until.unwrap_or_default())
        }
        Waiting::Asking(_) => OperationState::Asking,
        Waiting::ForConnection(_, server) => OperationState::ForConnection(*server),
        Waiting::ForPin(_, socket) => OperationState::ForPin(*socket),
        Waiting::ForAuthentication(_, socket) => OperationState::ForAuthentication(*socket),
        Waiting::Granted(_, lease) => OperationState::Granted(lease.facts.socket),
        Waiting::ForAnswer(question, _) => OperationState::ForAnswer(*question),
        Waiting::Answered(_) => OperationState::Answered,
        Waiting::Failed(_) => OperationState::Failed,
    }
}
