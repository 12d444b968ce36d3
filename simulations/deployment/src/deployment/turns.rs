//! The turns of connections, and their room for bytes that the deployment has yet to handle.

use super::{ConnId, Deployment, routing};
use onionskin_core::time::Instant;

impl Deployment {
    /// Makes each connection wait for [`next_turn`](Self::next_turn) after each request. The caller
    /// can then limit the replies that wait for a client, and can serve other clients between two
    /// requests. By default, a connection handles each received request as soon as the request
    /// before it is answered.
    pub fn take_turns(&mut self) {
        let members = self.members();
        for member in &mut self.members[..members] {
            member.take_turns();
        }
    }

    /// Handles the next request that was received on a connection. Returns false if nothing was
    /// done, for example because no whole request is buffered or because the previous request was
    /// not answered yet.
    pub fn next_turn(&mut self, now: Instant, connection: ConnId) -> bool {
        if self.is_inner_full(connection) {
            return false;
        }
        let home = self.homes.get(&connection);
        let went_on = home.is_some_and(|&member| self.members[member].next_turn(now, connection));
        if went_on {
            self.settle(now);
        }
        went_on
    }

    /// Returns a connection for which the caller is to call [`next_turn`](Self::next_turn). Such a
    /// connection has bytes of a further request, or has [room](Self::room) again. It is returned
    /// after its previous request was answered, and after new bytes arrived.
    #[must_use]
    pub fn poll_turn(&mut self) -> Option<ConnId> {
        self.turns.pop_front()
    }

    /// Returns how many bytes a connection takes now. While a request waits, a member keeps what
    /// it receives for a later request, up to the largest size of a message and 1 MiB. If half of
    /// [`Limits::max_unfinished_bytes`](super::Limits::max_unfinished_bytes) is in use, it keeps
    /// up to 1 MiB. The caller is to read no more from its client, so that the client has to wait
    /// as well. A connection that gets more can be closed.
    ///
    /// If a connection has no room, or less than 1 MiB, [`poll_turn`](Self::poll_turn) returns it
    /// when its request was answered, when its member goes on after a pause, and when another
    /// member has taken one of its messages. It has more room then. It can have more before, after
    /// the messages of other connections. Without turns, it can have more after any other input.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{ConnId, Deployment, DeploymentOptions};
    ///
    /// let options = DeploymentOptions::standalone(Address::tcp("localhost", 27017));
    /// let mut deployment = Deployment::new(options, &Seed::new([1; 32]))?;
    /// deployment.handle_connected(Instant::ZERO, ConnId(1), 0);
    /// assert_eq!(deployment.room(ConnId(1)), 48_000_000 + 1024 * 1024);
    /// # Ok::<(), onionskin_deployment::deployment::InvalidOptions>(())
    /// ```
    #[must_use]
    pub fn room(&self, connection: ConnId) -> usize {
        if self.is_inner_full(connection) {
            return 0;
        }
        let home = self.homes.get(&connection);
        home.map_or(usize::MAX, |&home| self.members[home].room(connection))
    }

    /// Gives a turn to a client's connection. The argument is this connection, or one between
    /// members that belongs to it.
    pub(super) fn give_turn(&mut self, connection: ConnId) {
        let client = routing::outer(connection);
        let home = self.homes.get(&client);
        if home.is_some_and(|&home| self.members[home].takes_turns()) {
            self.turns.push_back(client);
        }
    }
}
