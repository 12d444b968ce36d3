//! Inputs about the sockets that the shell reads.

use crate::{
    address::Address,
    client::{
        Client, SocketUse,
        connections::State,
        recording::{
            ConnectionStep, Kind, LateReply, put_failure, put_id, put_late_reply, put_received,
            put_step,
        },
    },
    connection::SocketId,
    error::Error,
    time::Instant,
};

impl Client {
    /// Handles the success of an [`Action::Dial`](crate::client::Action::Dial). Returns how the
    /// shell treats the socket from now on.
    #[must_use = "the shell reads, parks or closes the socket accordingly"]
    pub fn handle_connected(&mut self, now: Instant, id: SocketId) -> SocketUse {
        self.begin_entry(now, Kind::Connected, |out| put_id(out, id));
        let hides_bytes = self.hides_bytes();
        if hides_bytes {
            // Earlier inputs can have left a step, which is not recorded.
            drop(self.connections.take_step(id, true));
        }
        self.connections.handle_connected(now, id);
        if hides_bytes {
            let step = self.connections.take_step(id, true);
            if step.failure.is_some() {
                // A layer could not begin, for example TLS with this host name.
                self.change_entry(Kind::Step, |out| put_step(out, id, &step));
            }
        }
        self.settle(now);
        self.used(id)
    }

    /// Handles bytes that arrived on a dialled socket that is not parked. An empty slice means that
    /// the peer closed the connection.
    #[must_use = "the shell reads, parks or closes the socket accordingly"]
    pub fn handle_received(&mut self, now: Instant, id: SocketId, bytes: &[u8]) -> SocketUse {
        if self.is_recorded() && !matches!(self.connections.state(id), Some(State::Driven(_))) {
            return self.record_late_reply(now, id, bytes);
        }
        if self.hides_bytes() && !bytes.is_empty() && self.connections.is_past_proxy(id) {
            return self.record_step(now, id, bytes);
        }
        self.begin_entry(now, Kind::Received, |out| put_received(out, id, bytes));
        self.connections.handle_received(now, id, bytes);
        self.settle(now);
        self.used(id)
    }

    /// Handles the bytes of a connection that have secrets. The recording gets its messages without
    /// the secrets.
    #[cold]
    fn record_step(&mut self, now: Instant, id: SocketId, bytes: &[u8]) -> SocketUse {
        // Earlier inputs can have left a step, which is not recorded.
        drop(self.connections.take_step(id, false));
        let unknown = ConnectionStep::default();
        self.begin_entry(now, Kind::Step, |out| put_step(out, id, &unknown));
        self.connections.handle_received(now, id, bytes);
        let step = self.connections.take_step(id, false);
        self.change_entry(Kind::Step, |out| put_step(out, id, &step));
        self.settle(now);
        self.used(id)
    }

    /// Handles bytes that no handshake and no monitor receives: those of a late reply. They can
    /// also come once its connection is no longer there. The recording gets no bytes of the reply,
    /// which has documents of the application, but what became of the connection.
    #[cold]
    fn record_late_reply(&mut self, now: Instant, id: SocketId, bytes: &[u8]) -> SocketUse {
        let part = LateReply::Part;
        self.begin_entry(now, Kind::LateReply, |out| put_late_reply(out, id, part));
        self.connections.handle_received(now, id, bytes);
        match self.connections.drained(id) {
            Err(error) => self.change_entry(Kind::Failed, |out| put_failure(out, id, &error)),
            Ok(LateReply::Part) => {}
            Ok(state) => {
                self.change_entry(Kind::LateReply, |out| put_late_reply(out, id, state));
            }
        }
        self.settle(now);
        self.used(id)
    }

    /// Ends the entry of an input about a socket, and returns how the shell treats the socket.
    fn used(&mut self, id: SocketId) -> SocketUse {
        let socket_use = self.socket_use(id);
        self.end_entry(|digest| digest.socket_use(socket_use));
        socket_use
    }

    /// Handles a socket that could not be connected, or that failed.
    pub fn handle_failed(&mut self, now: Instant, id: SocketId, error: Error) -> SocketUse {
        self.begin_entry(now, Kind::Failed, |out| put_failure(out, id, &error));
        self.connections.handle_failed(id, error);
        self.settle(now);
        self.used(id)
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

    pub(in crate::client) fn socket_use(&self, id: SocketId) -> SocketUse {
        match self.connections.state(id) {
            Some(State::Driven(_) | State::Draining(_)) => SocketUse::Open,
            Some(
                State::Idle | State::Granted(..) | State::InUse | State::Overdue | State::Pinned,
            ) => SocketUse::Parked,
            None => SocketUse::Closed,
        }
    }
}
