//! Inputs about the sockets that the shell reads, and answers to questions.

use super::{Answer, Client, QuestionId, SocketUse, connections::State};
use crate::{
    address::Address,
    connection::SocketId,
    error::{DnsFailure, Error, ErrorKind},
    time::Instant,
};

impl Client {
    /// Handles the success of an [`Action::Dial`](super::Action::Dial). Returns how the shell
    /// treats the socket from now on.
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

    /// Handles the answer to an [`Action::Ask`](super::Action::Ask). The shell calls this once for
    /// each question, from any thread that has the client.
    ///
    /// A call after [`Action::Withdraw`](super::Action::Withdraw), or a second call, does no harm:
    /// no connection waits for the answer, but later connections can use its keys.
    pub fn handle_answer(&mut self, now: Instant, id: QuestionId, answer: Answer) {
        let waiting = self.questions.handle_answer(now, id);
        match answer {
            Answer::Keys(keys) => self.connections.handle_keys(now, &waiting, &keys),
            Answer::KerberosStep(result) => self.on_kerberos_step(now, id, Some(result)),
            Answer::Records(result) => self.on_records(now, id, result),
            Answer::Found(finding) => self.on_finding(now, id, finding, true),
            Answer::None => {
                let gave_up = "the work on it was given up, for example because of a panic";
                self.on_finding(now, id, Err(gave_up.to_owned()), true);
                self.connections.handle_no_answer(&waiting);
                self.on_kerberos_step(now, id, None);
                let (failure, message) =
                    (DnsFailure::Refused, "the lookup was given up".to_owned());
                let error = ErrorKind::Dns { failure, message };
                self.on_records(now, id, Err(error.into()));
            }
        }
        self.settle(now);
    }

    /// Returns the address of the server of a socket. `None` if the socket is parked or its
    /// connection was closed.
    #[must_use]
    pub fn address_of(&self, id: SocketId) -> Option<&Address> {
        self.connections.address_of(id)
    }

    fn socket_use(&self, id: SocketId) -> SocketUse {
        match self.connections.state(id) {
            Some(State::Driven(_) | State::Draining(_)) => SocketUse::Open,
            Some(
                State::Idle | State::Granted(_) | State::InUse | State::Overdue | State::Pinned,
            ) => SocketUse::Parked,
            None => SocketUse::Closed,
        }
    }
}
