//! The authentication of connections: keys and parts of a credential that come from the shell, and
//! connections that authenticate again.

use super::{Again, Connections, Order, State};
use crate::{
    auth::{Caches, DerivedKeys, KerberosStepResult, Mode, Provided},
    client::recording::ConnectionStep,
    connection::{Connection, Established, HandshakeOptions, SocketId},
    error::{Error, ErrorKind},
    operation::{Lease, OperationId},
    time::{Instant, WallTime},
    tls::{CertId, RevocationStatus},
};
use std::{sync::Arc, time::Duration};

impl Connections {
    /// Gives derived keys to the connections that wait for them, and keeps them for later
    /// connections.
    pub(in crate::client) fn handle_keys(
        &mut self,
        now: Instant,
        waiting: &[SocketId],
        keys: &DerivedKeys,
    ) {
        self.auth.caches.keys.keep_unproven(keys);
        for &id in waiting {
            if let Some((connection, auth)) = self.driven(id) {
                connection.handle_keys(now, keys, auth);
                self.after_step(id);
            }
        }
    }

    /// Gives a part of the credential to the connections that wait for it, and keeps it for later
    /// connections, if it may be cached.
    pub(in crate::client) fn handle_provided(
        &mut self,
        now: Instant,
        waiting: &[SocketId],
        provided: &Provided,
    ) {
        self.auth.caches.keep(now, provided);
        for &id in waiting {
            if let Some((connection, auth)) = self.driven(id) {
                connection.handle_provided(now, provided, auth);
                self.after_step(id);
            }
        }
    }

    /// Fails the connections that wait for a part of the credential, because it was not obtained.
    pub(in crate::client) fn handle_not_provided(&mut self, waiting: &[SocketId], error: &Error) {
        for &id in waiting {
            if let Some((connection, _)) = self.driven(id) {
                connection.handle_failed(error.clone());
                self.after_step(id);
            }
        }
    }

    /// Sets the calendar time for authentication.
    pub(in crate::client) fn set_wall_time(&mut self, now: Instant, wall: WallTime) {
        self.auth.caches.set_wall_time(now, wall);
    }

    /// Removes all cached secrets, because the client is closed.
    pub(in crate::client) fn forget_secrets(&mut self) {
        self.auth.caches.clear();
    }

    /// Returns the caches with which connections authenticate.
    pub(in crate::client) fn caches(&self) -> &Caches {
        &self.auth.caches
    }

    /// Returns how long OCSP responders may take for a connection. `usual` is the time if there is
    /// enough.
    pub(in crate::client) fn status_limit(
        &self,
        now: Instant,
        id: SocketId,
        usual: Duration,
    ) -> Duration {
        match self.state(id) {
            Some(State::Driven(connection)) => connection.status_limit(now, usual),
            _ => usual,
        }
    }

    /// Sets the time limit of a connection that waits for OCSP responders.
    pub(in crate::client) fn wait_for_status(
        &mut self,
        now: Instant,
        id: SocketId,
        usual: Duration,
    ) {
        if let Some((connection, _)) = self.driven(id) {
            connection.wait_for_status(now, usual);
            let deadline = connection.deadline();
            self.orders.push_back(Order::Limit(id, deadline));
        }
    }

    /// Gives the status of a certificate to the connections that wait for it.
    pub(in crate::client) fn handle_status(
        &mut self,
        now: Instant,
        waiting: &[SocketId],
        certificate: &CertId,
        status: RevocationStatus,
    ) {
        for &id in waiting {
            if let Some((connection, auth)) = self.driven(id) {
                connection.handle_status(now, certificate, status, auth);
                self.after_step(id);
            }
        }
    }

    /// Takes what the last input did to a connection whose bytes have secrets, for the recording of
    /// the client.
    pub(in crate::client) fn take_step(
        &mut self,
        id: SocketId,
        is_connect: bool,
    ) -> ConnectionStep {
        let driven = self.driven(id);
        let is_open = driven.is_some_and(|(connection, _)| connection.is_open());
        let (messages, failure) = self.auth.mode.take_kept();
        ConnectionStep {
            is_connect,
            is_open,
            messages,
            failure,
        }
    }

    /// Gives the step of a recorded connection to its replay.
    pub(in crate::client) fn replay_step(
        &mut self,
        now: Instant,
        id: SocketId,
        step: &ConnectionStep,
    ) {
        let Some((connection, auth)) = self.driven(id) else {
            return;
        };
        auth.mode = Mode::Replayed(step.failure.clone());
        match step.is_connect {
            true => connection.handle_connected(now, auth),
            false => connection.replay_received(now, step.is_open, &step.messages, auth),
        }
        if let Some(failure) = auth.mode.take_failure() {
            connection.replay_failure(failure);
        }
        self.after_step(id);
    }

    /// True if the connection is driven and its conversation with a proxy is over.
    pub(in crate::client) fn is_past_proxy(&self, id: SocketId) -> bool {
        matches!(self.state(id), Some(State::Driven(connection)) if !connection.is_at_proxy())
    }

    /// Fails the connections that wait for keys, because the keys were not derived.
    pub(in crate::client) fn handle_no_answer(&mut self, waiting: &[SocketId]) {
        for &id in waiting {
            if let Some((connection, _)) = self.driven(id) {
                let message = "the authentication keys could not be derived".to_owned();
                connection.handle_failed(ErrorKind::Runtime { message }.into());
                self.after_step(id);
            }
        }
    }

    /// Starts the time limit of the work that the authentication of a connection waits for.
    pub(in crate::client) fn handle_work_begun(&mut self, now: Instant, id: SocketId) {
        if let Some((connection, _)) = self.driven(id) {
            connection.handle_work_begun(now);
            self.after_step(id);
        }
    }

    /// Gives the result of a step of Kerberos to the connection that waits for it. Without a result
    /// the connection fails.
    pub(in crate::client) fn handle_kerberos_step(
        &mut self,
        now: Instant,
        id: SocketId,
        result: Option<KerberosStepResult>,
    ) {
        if let Some((connection, auth)) = self.driven(id) {
            match result {
                Some(result) => connection.handle_kerberos_step(now, result, auth),
                None => connection.handle_failed(no_result()),
            }
            self.after_step(id);
        }
    }

    /// Begins to authenticate an established connection again, for an operation that waits.
    pub(in crate::client) fn authenticate_again(
        &mut self,
        now: Instant,
        established: Box<Established>,
        operation: OperationId,
        options: Arc<HandshakeOptions>,
    ) {
        let Established {
            transport,
            facts,
            authenticated,
            ..
        } = *established;
        let (Some(slot), Some(earlier)) = (self.find(facts.socket), authenticated) else {
            debug_assert!(
                false,
                "only an authenticated connection authenticates again"
            );
            return;
        };
        let id = facts.socket;
        let address = facts.address.clone();
        let auth = &mut self.auth;
        let connection = Connection::again(now, address, options, transport, &earlier, auth);
        let record = self.records.get_mut(slot);
        record.state = State::Driven(Box::new(connection));
        record.again = Some(Box::new(Again { operation, facts }));
        self.orders.push_back(Order::Read(id));
        self.after_step(id);
    }

    /// Takes the operation and the facts of a connection that authenticates again; `None` for any
    /// other connection.
    pub(in crate::client) fn take_again(&mut self, id: SocketId) -> Option<Again> {
        self.record(id)?.again.take().map(|again| *again)
    }

    /// True for a connection that authenticates again.
    pub(in crate::client) fn is_again(&self, id: SocketId) -> bool {
        let slot = self.find(id);
        slot.is_some_and(|slot| self.records.get(slot).again.is_some())
    }

    /// Queues [`Order::NotAuthenticated`] before the other orders of this part, as
    /// [`report_lost`](Self::report_lost) does.
    pub(in crate::client) fn report_not_authenticated(
        &mut self,
        lease: Lease,
        operation: OperationId,
        error: Error,
    ) {
        let order = Order::NotAuthenticated(lease, operation, error);
        self.orders.push_front(order);
    }
}

fn no_result() -> Error {
    let message = "the Kerberos library panicked, did not return in time, or could not be run";
    ErrorKind::Runtime {
        message: message.to_owned(),
    }
    .into()
}
