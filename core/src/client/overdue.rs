//! Exchanges whose holder does not check them in after their deadline.

use super::{
    Action, AfterExchange, Client, Outcome, Timer,
    connections::{Role, State},
    end::End,
};
use crate::{
    connection::SocketId,
    error::{Error, Wait},
    operation::Exchange,
    pool::Condition,
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
    pub(super) fn on_exchange_deadline(&mut self, now: Instant, socket: SocketId, at: Instant) {
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
            None => self.take_back(now, socket),
        }
    }

    /// Closes the connection of an exchange, so that its pool has room for another one.
    fn take_back(&mut self, now: Instant, socket: SocketId) {
        if let Some(Role::Pooled(server, pooled)) = self.connections.role(socket) {
            self.taken_back += 1;
            self.choice.finished(server);
            let condition = Condition::Broken(Some(exchange_timeout()));
            self.pools.check_in(now, server, pooled, condition);
        }
    }

    /// True if the client has taken back the connection of this exchange.
    pub(super) fn was_taken_back(&self, exchange: &Exchange) -> bool {
        self.taken_back > 0 && self.connections.state(exchange.socket()).is_none()
    }

    /// Ends an exchange whose connection was taken back. If the reply was read nevertheless, the
    /// operation has its result.
    pub(super) fn end_taken_back(
        &mut self,
        now: Instant,
        mut exchange: Exchange,
        outcome: Outcome,
    ) -> AfterExchange {
        self.taken_back -= 1;
        let assessment = exchange.assessment.take();
        exchange.finish();
        let Exchange {
            connection,
            mut operation,
            ..
        } = exchange;
        let facts = &connection.facts;
        if let (false, Some(session)) = (
            matches!(outcome, Outcome::Completed),
            operation.request.session,
        ) {
            self.sessions.mark_dirty(session);
        }
        let was_abandoned = matches!(outcome, Outcome::Abandoned);
        let result = self.judge(now, facts, outcome, assessment);
        let end = match result {
            _ if was_abandoned => End::Abandoned,
            // The operation that a preliminary ping precedes has not begun.
            _ if operation.after_ping.is_some() => {
                End::Stopped(exchange_timeout().with_server(&facts.address))
            }
            Err(error) => End::Failed(error, Some(Box::new(facts.clone()))),
            Ok(()) => End::Answered,
        };
        let operation = match operation.after_ping.take() {
            Some(operation) => operation,
            None => operation,
        };
        self.after_exchange(now, operation, end, was_abandoned)
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
