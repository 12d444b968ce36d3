//! Inputs about the sockets that the shell reads.

use crate::{
    address::Address,
    client::{Client, SocketUse, connections::State},
    connection::SocketId,
    error::Error,
    time::Instant,
};

impl Client {
    /// Handles the success of an [`Action::Dial`](crate::client::Action::Dial). Returns how the
    /// shell treats the socket from now on.
    #[must_use = "the shell reads, parks or closes the socket accordingly"]
    pub fn handle_connected(&mut self, now: Instant, id: SocketId) -> SocketUse {
        self.connections.handle_connected(now, id);
        self.settle(now);
        self.socket_use(id)
    }

    /// Handles bytes that arrived on a dialled socket that is not parked. An empty slice means that
    /// the peer closed the connection.
    #[must_use = "the shell reads, parks or closes the socket accordingly"]
    pub fn handle_received(&mut self, now: Instant, id: SocketId, bytes: &[u8]) -> SocketUse {
        self.connections.handle_received(now, id, bytes);
        self.settle(now);
        self.socket_use(id)
    }

    /// Handles a socket that could not be connected, or that failed.
    pub fn handle_failed(&mut self, now: Instant, id: SocketId, error: Error) -> SocketUse {
        self.connections.handle_failed(id, error);
        self.settle(now);
        self.socket_use(id)
    }

    /// Returns the address of the server of a socket. `None` if the socket is parked or its
    /// connection was closed.
    #[must_use]
    pub fn address_of(&self, id: SocketId) -> Option<&Address> {
        self.connections.address_of(id)
    }

    /// True for a host that a reply has named, unless a seed or a member that the primary lists is
    /// there, or a server there has answered. Work for such hosts has fewer turns
    /// ([`dial::Turns`](crate::dial::Turns)).
    #[must_use]
    pub fn is_stranger(&self, host: &str) -> bool {
        self.topology.is_stranger(host)
    }

    fn socket_use(&self, id: SocketId) -> SocketUse {
        match self.connections.state(id) {
            Some(State::Driven(_) | State::Draining(_)) => SocketUse::Open,
            Some(
                State::Idle | State::Granted(..) | State::InUse | State::Overdue | State::Pinned,
            ) => SocketUse::Parked,
            None => SocketUse::Closed,
        }
    }
}
