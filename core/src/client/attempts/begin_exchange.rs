//! The second step of an attempt: begins an exchange on the connection that was granted.

use super::lease::AtEnd;
use crate::{
    client::{Client, Timer, connections::State},
    connection::ConnectionFacts,
    description::ServerType,
    error::{Error, ErrorKind},
    operation::{Context, Exchange, Lease, Operation},
    options::AuthMechanism,
    time::Instant,
};

impl Client {
    /// Makes an exchange of this operation and this connection. The exchange is a preliminary ping
    /// if the connection has to be pinged first. If the operation cannot run on the connection,
    /// ends the lease, and fails.
    #[inline]
    pub(in crate::client) fn begin_exchange(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        lease: Lease,
    ) -> Result<Exchange, (Box<Operation>, Error)> {
        if self.wants_ping(now, &operation, &lease) {
            return Ok(self.ping_first(now, operation, lease));
        }
        let eligible = self
            .check_session(&operation, &lease.facts)
            .and_then(|()| self.check_eligible(&mut operation, &lease.facts));
        if let Err(error) = eligible {
            self.end_lease(now, lease, AtEnd::Usable);
            return Err((operation, error));
        }
        self.take_session(now, &mut operation, &lease.facts);
        let deadline = match (operation.deadline, self.settings.socket_timeout) {
            (Some(deadline), _) => Some(deadline),
            (None, _) if operation.request.timeout.is_some() => None,
            (None, limit) => limit.and_then(|limit| now.checked_add(limit)),
        };
        operation.retry.attempts_without_wait = 0;
        let needs_idle_check = self.wants_idle_check(now, &operation, &lease);
        let mut exchange = self.new_exchange(lease, operation, deadline);
        exchange.operation.exchange.needs_idle_check = needs_idle_check;
        if exchange.operation.request.transaction.is_some() {
            self.pin_transaction(&mut exchange);
        }
        Ok(exchange)
    }

    #[inline]
    pub(in crate::client) fn new_exchange(
        &mut self,
        mut lease: Lease,
        operation: Box<Operation>,
        deadline: Option<Instant>,
    ) -> Exchange {
        if deadline.is_some() {
            self.arm(Timer::Exchange(lease.facts.socket), deadline);
            lease.is_timed = true;
        }
        let facts = &lease.facts;
        self.connections.set_state(facts.socket, State::InUse);
        self.attempts.last_request = self.attempts.last_request.wrapping_add(1) & i32::MAX;
        let newest = self.attempts.cluster_times.newest().cloned();
        let (session_read_concern, of_session) =
            self.of_session(&operation, facts, newest.as_ref());
        let is_time_of_session = of_session.is_some();
        let cluster_time = of_session.or(newest);
        let context = Context {
            is_time_of_session,
            cluster_time: match facts.server_type {
                ServerType::Standalone => None,
                _ if operation.retry.without_cluster_time => None,
                _ => cluster_time,
            },
            session_read_concern,
            topology_type: self.topology.description().topology_type,
            request_id: self.attempts.last_request,
            server_api: self.settings.handshake.server_api,
            observed: self.settings.subscriptions.command,
        };
        Exchange::new(lease, operation, context)
    }

    /// Fails if the operation cannot run on this connection.
    ///
    /// The retry of a retryable write does not run on a server that does not support retryable
    /// writes; the operation then raises the error of its previous attempt (RW-25). If no attempt
    /// has failed before, the write runs without a transaction number. On a connection that should
    /// have been authenticated and was not, only commands that need no authentication run.
    #[inline]
    fn check_eligible(
        &self,
        operation: &mut Operation,
        facts: &ConnectionFacts,
    ) -> Result<(), Error> {
        if facts.is_unauthenticated && !operation.request.is_allowed_unauthenticated() {
            return Err(self.not_authenticated(operation, facts));
        }
        let is_in_transaction = operation.request.transaction.is_some();
        if operation.request.txn_number.is_none() || is_in_transaction {
            return Ok(());
        }
        let kind = operation.request.kind;
        let is_eligible = self
            .settings
            .retry
            .wants_txn_number(kind, facts.server_type);
        if is_eligible && facts.has_sessions {
            return Ok(());
        }
        if operation.retry.kept_error.is_none() {
            operation.request.txn_number = None;
            return Ok(());
        }
        let message = "the server that was selected for the retry does not support retryable \
                       writes";
        Err(Error::argument(message).with_server(&facts.address))
    }

    /// Returns the error of an operation on a connection that was not authenticated because its
    /// server claims to be an arbiter. Any server can claim this, so no command that needs
    /// authentication is sent to it.
    fn not_authenticated(&self, operation: &Operation, facts: &ConnectionFacts) -> Error {
        let credential = self.settings.handshake.credential.as_ref();
        let mechanism = credential.and_then(|credential| credential.mechanism);
        let message = format!(
            "the server claims to be an arbiter, which cannot authenticate clients; {} was not \
             sent",
            operation.request.name(),
        );
        let kind = ErrorKind::Authentication {
            mechanism: mechanism.unwrap_or(AuthMechanism::ScramSha256).name(),
            message,
            cause: None,
        };
        Error::new(kind).with_server(&facts.address)
    }

    /// Begins the implicit session of an operation that uses one, if the server supports sessions.
    /// Gives a retryable write a transaction number, if `retryWrites` is true, the server accepts
    /// one, and no statement of the command can affect several documents (RW-8). Retries use the
    /// same session (RR-25) and the same number (RW-19).
    #[inline]
    fn take_session(&mut self, now: Instant, operation: &mut Operation, facts: &ConnectionFacts) {
        if let Some(session) = operation.request.session
            && !self.attempts.sessions.is_used(session)
        {
            // The session is from before a fork, so the parent process still uses it.
            operation.request.session = None;
            operation.request.txn_number = None;
        }
        if operation.request.session.is_none()
            && operation.request.ends_session
            && facts.has_sessions
        {
            let timeout = self.topology.description().logical_session_timeout_minutes;
            operation.request.session = Some(self.attempts.sessions.begin(now, timeout));
        }
        operation.request.lsid = None;
        let Some(session) = operation.request.session else {
            return;
        };
        operation.request.lsid = self.attempts.sessions.use_for_command(now, session);
        let kind = operation.request.kind;
        if operation.request.txn_number.is_none()
            && self
                .settings
                .retry
                .wants_txn_number(kind, facts.server_type)
            && !operation.request.may_send_multi(facts)
        {
            operation.request.txn_number = self.attempts.sessions.next_txn_number(session);
        }
    }
}
