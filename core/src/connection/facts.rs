//! The facts of an established connection.

use super::{ConnectionId, SocketId, Transport};
use crate::{
    address::Address,
    auth::Authenticated,
    description::{ServerId, ServerType, TopologyId},
    time::Instant,
};
use bson::oid::ObjectId;

/// The ids of an established connection, and the facts that its own hello reply states. The limits
/// of that reply apply to everything that is sent on the connection ([SDAM-125]).
///
/// [SDAM-125]: crate::requirements::discovery#SDAM-125
#[derive(Clone, Debug)]
pub struct ConnectionFacts {
    /// The id of the client that made the connection. `server`, `socket` and `pooled` are ids of
    /// this client only.
    pub client: TopologyId,
    /// The address of the server.
    pub address: Address,
    /// The id of the server in the topology. A server that is removed and added again has a new id.
    pub server: ServerId,
    /// The id of the socket.
    pub socket: SocketId,
    /// The id of the connection in its pool.
    pub pooled: ConnectionId,
    /// The service that the connection leads to, behind a load balancer; `None` otherwise.
    pub service: Option<ObjectId>,
    /// `connectionId` of the hello reply; `None` if the server does not send it.
    pub server_connection_id: Option<i64>,
    /// The type of the server from its hello reply; `LoadBalancer` behind a load balancer.
    pub server_type: ServerType,
    /// `maxWireVersion` of the hello reply.
    pub max_wire_version: i32,
    /// `maxBsonObjectSize`: the largest size of a document, in bytes.
    pub max_bson_object_size: usize,
    /// `maxMessageSizeBytes`: the largest size of a message, in bytes.
    pub max_message_size: usize,
    /// `maxWriteBatchSize`: the largest number of statements in a write command.
    pub max_write_batch_size: usize,
    /// True if the server supports sessions. Always true behind a load balancer.
    pub has_sessions: bool,
    /// True if the server is mongocryptd (`iscryptd`).
    pub is_cryptd: bool,
    /// True if the client has a credential, but this connection is not authenticated: its hello
    /// reply is that of an arbiter, and arbiters have no users ([AUTH-16]).
    ///
    /// [AUTH-16]: crate::requirements::authentication#AUTH-16
    pub is_unauthenticated: bool,
}

/// An established connection of a pool, which runs operations.
#[derive(Debug)]
pub struct Established {
    pub(crate) transport: Transport,
    pub(crate) facts: ConnectionFacts,
    /// The authentication of the connection; `None` if it needed none.
    pub(crate) authenticated: Option<Authenticated>,
    /// The time at which the last exchange or drain on the connection ended; before the first one,
    /// the time at which the connection was established.
    pub(crate) used: Instant,
}
