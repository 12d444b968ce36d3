//! Exchanges whose holder does not check them in after their deadline.

use crate::{
    client::{
        Action, Client, Timer,
        connections::{Role, State},
    },
    connection::SocketId,
    error::{Error, Wait},
    time::{Instant, deadline_after_freeze},
};
use std::time::Duration;

/// How long the holder of an exchange may keep its connection after the deadline of the exchange: 1
/// second. Then the client closes the connection. Not an option.
///
/// A holder that is polled checks the exchange in at once. A future that nobody polls cannot, for
/// example that of a cursor whose `next` was dropped while it fetched a batch.
pub const OVERDUE_LIMIT: Duration = Duration::from_secs(1);

impl Client {
    /// Handles the expiry of [`Timer::Exchange`]: first at the deadline of the exchange, then at
    /// the end of [`OVERDUE_LIMIT`].
    pub(in crate::client) fn on_exchange_deadline(
        &mut self,
        now: Instant,
        socket: SocketId,
        at: Instant,
    ) {
        if !matches!(self.connections.state(socket), Some(State::Overdue)) {
            let error = exchange_timeout();
            self.out.act(Action::Interrupt { socket, error });
            // A pinned connection belongs to its cursor or transaction until that ends.
            if !self.pins.has_entry(socket) {
                self.connections.set_state(socket, State::Overdue);
                self.arm(Timer::Exchange(socket), now.checked_add(OVERDUE_LIMIT));
            }
            return;
        }
        match deadline_after_freeze(at, now) {
            Some(later) => self.arm(Timer::Exchange(socket), Some(later)),
            None => {
                if let Some(Role::Pooled(server, pooled)) = self.connections.role(socket) {
                    self.take_back(now, server, pooled, exchange_timeout());
                }
            }
        }
    }
}

/// Returns the error of an exchange whose reply did not arrive in time.
fn exchange_timeout() -> Error {
    Error::timeout(
        Wait::Exchange,
        "the reply did not arrive within the operation's time limit or, without one, within \
         socketTimeoutMS",
    )
}
