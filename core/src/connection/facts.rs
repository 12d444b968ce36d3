//! What is known of an established connection.

use super::{ConnectionId, SocketId, Transport};
use crate::{
    address::Address,
    description::{ServerId, ServerType, TopologyId},
    time::Instant,
};
use bson::oid::ObjectId;

/// Facts from the connection's own hello reply, which limit what may be sent on it (SDAM-125).
#[derive(Clone, Debug)]
pub struct ConnectionFacts {
    /// The client that made the connection; all ids below are valid for this client only.
    pub client: TopologyId,
    /// The server's address.
    pub address: Address,
    /// The server's id in the topology. A server that comes back has a new one.
    pub server: ServerId,
    /// The id of the socket.
    pub socket: SocketId,
    /// The id of the connection in its pool.
    pub pooled: ConnectionId,
    /// Behind a load balancer, the service that the connection leads to.
    pub service: Option<ObjectId>,
    /// `connectionId` of the hello reply; `None` if the server does not send it.
    pub server_connection_id: Option<i64>,
    /// The type of the server by its hello reply; `LoadBalancer` behind a load balancer.
    pub server_type: ServerType,
    /// `maxWireVersion`.
    pub max_wire_version: i32,
    /// `maxBsonObjectSize` in bytes.
    pub max_bson_object_size: usize,
    /// `maxMessageSizeBytes`.
    pub max_message_size: usize,
    /// `maxWriteBatchSize`: statements per write command.
    pub max_write_batch_size: usize,
    /// True if the server supports sessions.
    pub has_sessions: bool,
    /// True if the client has a credential and this connection was not authenticated, because its
    /// server is an arbiter, which knows no users (AUTH-16).
    pub is_unauthenticated: bool,
}

/// An established connection of a pool, which operations exchange.
#[derive(Debug)]
pub struct Established {
    pub(crate) transport: Transport,
    pub(crate) facts: ConnectionFacts,
    /// When the connection was last checked in.
    pub(crate) used: Instant,
}
