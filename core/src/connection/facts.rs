//! What is known of an established connection.

use super::{PooledId, SocketId, Transport};
use crate::{
    address::Address,
    description::{ServerId, ServerType, TopologyId},
    time::Instant,
};
use bson::oid::ObjectId;

/// Facts from the connection's own hello, which bind what may be sent on it (SDAM-125).
#[derive(Clone, Debug)]
pub struct ConnectionFacts {
    /// The client that made it: all numbers below are its own.
    pub client: TopologyId,
    /// The server's address.
    pub address: Address,
    /// The server's life in the topology.
    pub server: ServerId,
    /// The socket.
    pub socket: SocketId,
    /// The pool's number of the connection.
    pub pooled: PooledId,
    /// The pool's generation when the connection was made; behind a load balancer that of the
    /// service when it answered.
    pub generation: u64,
    /// Behind a load balancer, the service that the connection leads to.
    pub service: Option<ObjectId>,
    /// The server's number of the connection, where it tells.
    pub server_connection_id: Option<i64>,
    /// What the server said it was; a load balancer, where the client was told that there is one.
    pub server_type: ServerType,
    /// `maxWireVersion`.
    pub max_wire_version: i32,
    /// `maxBsonObjectSize` in bytes.
    pub max_bson_object_size: usize,
    /// `maxMessageSizeBytes`.
    pub max_message_size: usize,
    /// `maxWriteBatchSize`: statements per write command.
    pub max_write_batch_size: usize,
    /// The server knows sessions.
    pub has_sessions: bool,
    /// The client has a credential, and this connection was not authenticated: its server calls
    /// itself an arbiter, which knows no users (AUTH-16).
    pub is_unauthenticated: bool,
}

/// An established connection of a pool: what operations lease.
#[derive(Debug)]
pub struct Established {
    pub(crate) transport: Transport,
    pub(crate) facts: ConnectionFacts,
    /// When it last came to rest.
    pub(crate) used: Instant,
}
