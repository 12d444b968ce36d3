//! Connections that authenticate again, because the server required it with the error 391
//! (`ReauthenticationRequired`).
//!
//! The client takes the connection back from the exchange and runs the commands of authentication
//! on it, without a hello (AUTH-38). The operation waits meanwhile and then runs again on the same
//! connection, whether it can be retried or not (AUTH-37). An attempt of an operation does this
//! once: the next error 391 is raised.

use super::{end::End, lease::AtEnd, operations::Waiting};
use crate::{
    client::{AfterExchange, Client, Progress, Timer, connections::Again},
    connection::{Connection, Established, SocketId},
    error::{Error, ErrorKind},
    operation::{Exchange, Lease, OperationId},
    sdam::{self, ApplicationError, Phase},
    time::Instant,
};

/// The code of the error `ReauthenticationRequired`.
pub(in crate::client) const REAUTHENTICATION_REQUIRED: i32 = 391;

impl Client {
    /// True if the exchange failed with `error` because its connection has to authenticate again,
    /// and the operation can continue after that.
    pub(in crate::client) fn must_authenticate_again(
        &self,
        exchange: &Exchange,
        error: &Error,
    ) -> bool {
        error.code() == Some(REAUTHENTICATION_REQUIRED)
            && matches!(error.kind(), ErrorKind::Command(_))
            && !exchange.operation.exchange.is_under_way
            && !exchange.operation.retry.has_authenticated_again
            && exchange.lease.authenticated.is_some()
            && !exchange.lease.facts.is_unauthenticated
            && self.settings.handshake.credential.is_some()
            && self.interruption(exchange.facts()).is_none()
            && !self.was_taken_back(&exchange.lease)
            && !self.life.is_closed()
    }

    /// Begins to authenticate the connection of an exchange again. The operation of the exchange
    /// waits.
    pub(in crate::client) fn authenticate_again(
        &mut self,
        now: Instant,
        exchange: Exchange,
    ) -> AfterExchange {
        let Exchange {
            mut lease,
            mut operation,
        } = exchange;
        self.keep_pinned(&lease, &mut operation);
        let id = operation.id;
        operation.retry.has_authenticated_again = true;
        self.leave_session(now, &mut operation);
        self.disarm(&mut lease);
        self.arm(Timer::Wait(id), operation.deadline);
        self.attempts.operations.wait(
            id,
            Waiting::ForAuthentication(operation, lease.facts.socket),
        );
        let options = self.settings.handshake.clone();
        self.connections
            .authenticate_again(now, lease.into_connection(), id, options);
        AfterExchange::Again(Progress::Waiting(id))
    }

    /// Grants a connection that has authenticated again to the operation that waits for it.
    pub(in crate::client) fn on_authenticated_again(
        &mut self,
        now: Instant,
        id: SocketId,
        again: Again,
    ) {
        let operation = again.operation;
        let Some(lease) = self.end_authentication(now, id, again) else {
            return;
        };
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::ForAuthentication(..));
        match self.attempts.operations.take_if(operation, waits) {
            Some(Waiting::ForAuthentication(operation, _)) => {
                self.grant(now, operation, lease);
            }
            // Not reached: an operation that stops waiting closes its connection.
            _ => self.end_lease(now, lease, AtEnd::Broken(None)),
        }
    }

    /// Handles the failure of a connection that authenticates again. The connection is closed,
    /// because its state at the server is not known.
    pub(in crate::client) fn on_not_authenticated_again(
        &mut self,
        now: Instant,
        id: SocketId,
        again: Again,
        error: Error,
    ) {
        let operation = again.operation;
        let Some(lease) = self.end_authentication(now, id, again) else {
            return;
        };
        let facts = &lease.facts;
        // A plain refusal says nothing about the server, because a token can expire at any time.
        if error.is_connection_failure() || sdam::is_state_change(&error) {
            let report = ApplicationError {
                error: error.clone(),
                phase: Phase::Authentication,
                is_stale: self.pools.is_outdated(facts.server, facts.pooled),
                service: facts.service,
            };
            let server = facts.server;
            self.topology.handle_application_error(now, server, &report);
        }
        self.connections
            .report_not_authenticated(lease, operation, error);
    }

    /// Closes a connection that could not authenticate again, after the topology has cleared its
    /// pool if it has to, and raises the error in the operation that waits.
    pub(in crate::client) fn end_not_authenticated(
        &mut self,
        now: Instant,
        lease: Lease,
        operation: OperationId,
        error: Error,
    ) {
        self.end_lease(now, lease, AtEnd::Broken(Some(error.clone())));
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::ForAuthentication(..));
        if let Some(Waiting::ForAuthentication(operation, _)) =
            self.attempts.operations.take_if(operation, waits)
        {
            let id = operation.id;
            self.clock.timers.cancel(Timer::Wait(id));
            let end = if error.is_pool_cleared() {
                // The pool interrupted the connection. Nothing of the operation has taken effect,
                // so it begins another attempt (CMAP-94).
                End::NotBegun
            } else {
                // The server has refused the command, so this attempt had no effect, like one
                // without a connection.
                End::Failed(error, None)
            };
            let next = self.end_attempt(now, operation, end);
            self.store_progress(id, next);
        }
    }

    /// Closes a connection whose operation no longer waits for the end of its authentication.
    pub(in crate::client) fn give_up_authentication(&mut self, now: Instant, id: SocketId) {
        let Some(again) = self.connections.take_again(id) else {
            return;
        };
        if let Some(lease) = self.end_authentication(now, id, again) {
            self.end_lease(now, lease, AtEnd::Broken(None));
        }
    }

    /// Returns the lease of a connection whose authentication has ended or is given up.
    fn end_authentication(&mut self, now: Instant, id: SocketId, again: Again) -> Option<Lease> {
        let mut connection: Box<Connection> = self.connections.establish(id)?;
        self.questions.forget(id);
        let authenticated = connection.take_authenticated();
        Some(Lease::new(Box::new(Established {
            transport: connection.into_transport(),
            facts: again.facts,
            authenticated,
            used: now,
        })))
    }

    /// Interrupts a connection that authenticates again. Connections that are being established for
    /// the first time are not checked out, so their pool does not interrupt them.
    pub(in crate::client) fn interrupt_authentication(&mut self, id: SocketId, error: Error) {
        if self.connections.is_again(id) {
            self.connections.handle_failed(id, error);
        }
    }
}
