//! The transactions of the sessions that applications start.

use super::sessions::ended_session_error;
use crate::{
    address::Address,
    client::{
        Client,
        recording::{Kind, SessionInput},
    },
    description::ServerType,
    error::{Error, Label},
    operation::{
        Command, CommandKind, Exchange, ExplicitSession, Operation, PinUse, PinnedFor, Place,
        RunLimit, TransactionOptions, TransactionRun, TransactionState, TransactionStep,
        crud::Defaults, is_retryable_overload,
    },
    session::SessionId,
    time::Instant,
};
use std::time::Duration;

/// The ways in which an application ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum TransactionEnd {
    Commit,
    Abort,
    /// The session ends, and its transaction is aborted if one is in progress.
    AbortAtEnd,
}

impl Client {
    /// Starts a transaction in a session of the application. Nothing is sent: the next command of
    /// the session starts the transaction on the server. `of_client` has the options that neither
    /// `options` nor the session sets.
    ///
    /// Fails if the session is in a transaction or takes snapshots, and for an unacknowledged write
    /// concern.
    pub fn start_transaction(
        &mut self,
        now: Instant,
        session: SessionId,
        options: &TransactionOptions,
        of_client: &Defaults,
    ) -> Result<(), Error> {
        self.begin_entry(now, Kind::Session, |out| {
            SessionInput::start_transaction(session, options, of_client).put(out)
        });
        let started = self.begin_transaction(now, session, options, of_client);
        self.end_entry(|digest| digest.started_transaction(&started));
        started
    }

    fn begin_transaction(
        &mut self,
        now: Instant,
        session: SessionId,
        options: &TransactionOptions,
        of_client: &Defaults,
    ) -> Result<(), Error> {
        let attempts = &mut self.attempts;
        let state = attempts.explicit.get_mut(&session);
        let state = state.ok_or_else(ended_session_error)?;
        if state.is_snapshot() {
            let message = "Transactions are not supported in snapshot sessions";
            return Err(Error::argument(message));
        }
        state.transaction.check_start()?;
        let options = options.resolved(state.default_transaction.as_ref(), of_client)?;
        let number = attempts.sessions.next_txn_number(session);
        let number = number.ok_or_else(ended_session_error)?;
        let place = state.transaction.start(number, options);
        self.give_up(place);
        self.settle(now);
        Ok(())
    }

    /// Commits the transaction of a session: returns the command to run, or `None` if there is
    /// nothing to send because no operation has run in the transaction. After a commit, also one
    /// that failed, the same transaction can be committed again.
    ///
    /// Fails if there is no transaction or it was aborted, and if an operation of the transaction
    /// was dropped after its command was sent, because then nobody knows what would be committed.
    ///
    /// `timeout` is the time limit; `None` for that of the session or the client.
    pub fn commit_transaction(
        &mut self,
        now: Instant,
        session: SessionId,
        timeout: Option<Duration>,
    ) -> Result<Option<Command>, Error> {
        self.end_transaction(now, session, TransactionEnd::Commit, timeout)
    }

    /// Aborts the transaction of a session: returns the command to run, or `None` if there is
    /// nothing to send. The error of the command does not matter, because servers abort by
    /// themselves what they are not told to commit.
    ///
    /// Fails if there is no transaction, or if it was committed or aborted.
    ///
    /// `timeout` is the time limit; `None` for that of the session or the client.
    pub fn abort_transaction(
        &mut self,
        now: Instant,
        session: SessionId,
        timeout: Option<Duration>,
    ) -> Result<Option<Command>, Error> {
        self.end_transaction(now, session, TransactionEnd::Abort, timeout)
    }

    /// Aborts the transaction of a session that ends, if one is in progress: returns the command to
    /// run, or `None` if there is nothing to send.
    ///
    /// `timeout` is the time limit; `None` for that of the session or the client.
    pub fn abort_at_end(
        &mut self,
        now: Instant,
        session: SessionId,
        timeout: Option<Duration>,
    ) -> Result<Option<Command>, Error> {
        self.end_transaction(now, session, TransactionEnd::AbortAtEnd, timeout)
    }

    /// Ends the transaction of a session with a commit or an abort.
    pub(in crate::client) fn end_transaction(
        &mut self,
        now: Instant,
        session: SessionId,
        end: TransactionEnd,
        timeout: Option<Duration>,
    ) -> Result<Option<Command>, Error> {
        let input = SessionInput::EndTransaction(session, end, timeout);
        self.begin_entry(now, Kind::Session, |out| input.put(out));
        let ended = self.next_end_of_transaction(now, session, end, timeout);
        self.end_entry(|digest| digest.ended_transaction(&ended));
        ended
    }

    /// Returns the command that ends the transaction. Gives up the place of the transaction if that
    /// needs no command.
    fn next_end_of_transaction(
        &mut self,
        now: Instant,
        session: SessionId,
        end: TransactionEnd,
        timeout: Option<Duration>,
    ) -> Result<Option<Command>, Error> {
        let state = self.attempts.explicit.get_mut(&session);
        let is_active = |state: &ExplicitSession| state.transaction.state().is_active();
        if end == TransactionEnd::AbortAtEnd && !state.as_deref().is_some_and(is_active) {
            return Ok(None);
        }
        let state = state.ok_or_else(ended_session_error)?;
        if end == TransactionEnd::Commit && timeout.is_some() && state.run.is_some() {
            return Err(own_timeout_error());
        }
        let timeout = timeout.or_else(|| state.end_timeout());
        let timeout = timeout.or(self.settings.timeout);
        let transaction = &mut state.transaction;
        let command = match end {
            TransactionEnd::Commit => transaction.commit(session, timeout)?,
            TransactionEnd::Abort | TransactionEnd::AbortAtEnd => {
                transaction.abort(session, timeout)?
            }
        };
        if command.is_none() {
            let place = transaction.leave_place();
            self.give_up(place);
            self.settle(now);
        }
        Ok(command)
    }

    /// Begins to run a transaction of the session until it succeeds. The time limit is `timeout`,
    /// or that of the session or the client. It limits all operations of the session until
    /// [`end_transaction_run`](Self::end_transaction_run).
    pub fn begin_transaction_run(
        &mut self,
        now: Instant,
        session: SessionId,
        timeout: Option<Duration>,
    ) -> TransactionRun {
        let input = SessionInput::BeginRun(session, timeout);
        self.begin_entry(now, Kind::Session, |out| input.put(out));
        let run = match self.attempts.explicit.get_mut(&session) {
            None => TransactionRun::new(now, timeout),
            Some(state) => {
                let timeout = timeout.or(state.default_timeout);
                let timeout = timeout.or(self.settings.timeout);
                let run = TransactionRun::new(now, timeout);
                let deadline = run.deadline();
                let limit = timeout.map(|timeout| RunLimit { timeout, deadline });
                run.within(std::mem::replace(&mut state.run, limit))
            }
        };
        self.end_entry(|_| {});
        run
    }

    /// Ends the time limit of a transaction that was run until it succeeded. If it ran within
    /// another run of the session, the limit of that one applies again.
    pub fn end_transaction_run(&mut self, session: SessionId, run: &TransactionRun) {
        let input = SessionInput::EndRun(session, run.outer());
        self.begin_timeless_entry(Kind::Session, |out| input.put(out));
        if let Some(state) = self.attempts.explicit.get_mut(&session) {
            state.run = run.outer();
        }
        self.end_entry(|_| {});
    }

    /// Returns a random number for the pause before a transaction is repeated.
    pub fn jitter(&mut self) -> u64 {
        self.begin_timeless_entry(Kind::Session, |out| SessionInput::Jitter.put(out));
        let number = self.attempts.pauses.next_u64();
        self.end_entry(|digest| digest.number(number));
        number
    }

    /// Returns the state of the transaction of a session.
    #[must_use]
    pub fn transaction_state(&self, session: SessionId) -> TransactionState {
        let state = self.attempts.explicit.get(&session);
        state.map_or(TransactionState::None, |state| state.transaction.state())
    }

    /// Returns the address of the router or the load balancer to which the transaction of a session
    /// is pinned; `None` if it is not pinned.
    #[must_use]
    pub fn transaction_server(&self, session: SessionId) -> Option<&Address> {
        self.attempts.explicit.get(&session)?.transaction.address()
    }

    /// Makes a command that begins take part in the transaction of its session. Otherwise it ends
    /// the state of a transaction that is over. A command of an open cursor leaves that state.
    ///
    /// Fails for settings that a transaction does not allow. Outside of transactions, fails for an
    /// unacknowledged write, whose session would not be known to the server (Driver Sessions
    /// Specification, *When using unacknowledged writes*).
    #[inline]
    pub(super) fn enter_session(
        &mut self,
        now: Instant,
        operation: &mut Operation,
    ) -> Result<(), Error> {
        match operation.request.is_explicit {
            true => self.enter_explicit(now, operation),
            false => Ok(()),
        }
    }

    /// Gives an operation of an explicit session the time limit of the run that it belongs to, in
    /// place of others. Fails if the operation has one of its own.
    pub(super) fn take_run_limit(
        &self,
        now: Instant,
        operation: &mut Operation,
    ) -> Result<(), Error> {
        let request = &mut operation.request;
        if !request.is_explicit || request.closes_cursors() {
            return Ok(());
        }
        let session = request.session;
        let state = session.and_then(|id| self.attempts.explicit.get(&id));
        if let Some(RunLimit { timeout, deadline }) = state.and_then(|state| state.run)
            && request.transaction_step() != Some(TransactionStep::Abort)
        {
            if request.own.timeout {
                return Err(own_timeout_error());
            }
            operation.deadline = deadline;
            let left = deadline.map(|deadline| deadline.saturating_since(now));
            request.timeout = left.or(Some(timeout));
        }
        Ok(())
    }

    fn enter_explicit(&mut self, now: Instant, operation: &mut Operation) -> Result<(), Error> {
        let (id, request) = (operation.id, &mut operation.request);
        let session = request.session;
        // The server closes cursors within a transaction and outside of it.
        if request.closes_cursors() {
            return Ok(());
        }
        if request.transaction.is_some() {
            return Ok(());
        }
        let state = session.and_then(|id| self.attempts.explicit.get_mut(&id));
        if let Some(state) = state
            && state.transaction.state().is_active()
        {
            return state.transaction.admit(id, request);
        }
        if !request.acknowledged {
            let message = "an unacknowledged write (w: 0) cannot run in a session; remove one of \
                           them";
            return Err(Error::argument(message));
        }
        let state = session.and_then(|id| self.attempts.explicit.get_mut(&id));
        if let Some(state) = state
            && request.kind != CommandKind::CursorFollowUp
        {
            let place = state.transaction.leave();
            self.give_up(place);
            // The connection of the transaction is available before another one is checked out.
            self.carry(now);
        }
        Ok(())
    }

    /// Binds the transaction to the router or the connection of its first command.
    pub(super) fn pin_transaction(&mut self, exchange: &mut Exchange) {
        let request = &exchange.operation.request;
        let (session, number) = (request.session, request.txn_number);
        let (Some(session), Some(number)) = (session, number) else {
            return;
        };
        let Some(state) = self.attempts.explicit.get_mut(&session) else {
            return;
        };
        if !state.transaction.lacks_place(number) {
            return;
        }
        let facts = exchange.facts();
        let is_router = facts.server_type == ServerType::Mongos;
        let address = facts.address.clone();
        let pin = exchange.pin(PinnedFor::Transaction);
        if pin.is_none() && !is_router {
            return;
        }
        let request = &mut exchange.operation.request;
        if pin.is_none() {
            request.bind_to(&address);
        }
        if let Some(part) = &mut request.transaction {
            part.decides_place = true;
        }
        state.transaction.set_place(Place { address, pin });
    }

    /// Forgets the place of a transaction whose first command was not begun there. Its pin was not
    /// kept, so it need not be released.
    pub(super) fn forget_place(&mut self, operation: &mut Operation) {
        let request = &mut operation.request;
        match &mut request.transaction {
            Some(part) if part.decides_place && !part.is_sent_there => part.decides_place = false,
            _ => return,
        }
        operation.exchange.pinned.clear();
        request.pin = None;
        request.target = None;
        if let (Some(session), Some(number)) = (request.session, request.txn_number)
            && let Some(state) = self.attempts.explicit.get_mut(&session)
        {
            state.transaction.take_place(number);
        }
    }

    /// Unpins a transaction after an attempt that failed, if another router or connection may have
    /// to answer the next command (Transactions Specification, *When to unpin*). An attempt to
    /// commit that counts makes later ones ask for a majority.
    pub(super) fn unpin_transaction(&mut self, operation: &mut Operation, error: &Error) {
        let request = &mut operation.request;
        let (Some(step), Some(number)) = (request.transaction_step(), request.txn_number) else {
            return;
        };
        let is_over = match step {
            TransactionStep::Statement => error.has_label(&Label::TransientTransactionError),
            TransactionStep::Commit => {
                error.has_label(&Label::UnknownTransactionCommitResult)
                    || error.has_label(&Label::TransientTransactionError)
            }
            TransactionStep::Abort => true,
        };
        let state = request
            .session
            .and_then(|id| self.attempts.explicit.get_mut(&id));
        let transaction = state.map(|state| &mut state.transaction);
        let place = match transaction {
            Some(transaction) => {
                if step == TransactionStep::Commit {
                    transaction.end_commit(number, !is_retryable_overload(error));
                    let concern = transaction.commit_concern(request.timeout.is_some());
                    request.set_write_concern(concern.as_ref());
                }
                // A cursor can be open on a connection that the transaction has left before.
                let is_there = transaction.is_at(request.pinned());
                (is_over && is_there)
                    .then(|| transaction.take_place(number))
                    .flatten()
            }
            None => None,
        };
        // If the statement is retried, it decides the place again. A `getMore` keeps the pin of its
        // cursor.
        let pin = place.as_ref().map(|place| place.pin.as_ref());
        let is_left = match (pin, &request.transaction) {
            (Some(Some(pin)), _) if request.pinned() == Some(pin.0.id) => {
                request.pin = None;
                true
            }
            // The retry of the first statement can use another router.
            (Some(None), Some(part)) if part.decides_place => {
                request.target = None;
                true
            }
            _ => false,
        };
        if let (true, Some(part)) = (is_left, &mut request.transaction) {
            part.decides_place = false;
            part.is_sent_there = false;
        }
        match is_over && request.ends_transaction() {
            true => self.move_end(operation, place),
            false => self.give_up(place),
        }
    }

    /// Lets the end of a transaction run elsewhere than at its place, which the transaction has
    /// left.
    fn move_end(&mut self, operation: &mut Operation, place: Option<Place>) {
        let request = &mut operation.request;
        request.target = None;
        if let Some(PinUse::Last(pin)) = request.pin.take() {
            self.release_pin(pin);
        }
        self.give_up(place);
    }

    /// Lets the end of a transaction run on another connection, because that of the transaction
    /// cannot be used.
    pub(super) fn leave_broken_place(&mut self, operation: &mut Operation) {
        let request = &operation.request;
        let state = request
            .session
            .and_then(|id| self.attempts.explicit.get_mut(&id));
        let place = state
            .zip(request.txn_number)
            .and_then(|(state, number)| state.transaction.take_place(number));
        self.move_end(operation, place);
    }

    /// Notes in the session that a command of its transaction has ended. A commit of which the
    /// caller dropped the operation counts as an attempt if part of it was sent, because the server
    /// may have applied it.
    pub(super) fn end_in_transaction(
        &mut self,
        operation: &Operation,
        is_success: bool,
        was_abandoned: bool,
    ) {
        let (id, request) = (operation.id, &operation.request);
        let (Some(part), Some(number)) = (&request.transaction, request.txn_number) else {
            return;
        };
        let session = request.session;
        let state = session.and_then(|id| self.attempts.explicit.get_mut(&id));
        let Some(state) = state else { return };
        let transaction = &mut state.transaction;
        transaction.end_command(id, number, part, was_abandoned);
        let counts = is_success || was_abandoned && part.is_sent;
        if part.step == TransactionStep::Commit && counts {
            transaction.end_commit(number, true);
        }
    }

    /// Forgets a session that its holder has dropped. Returns true if a command now aborts its
    /// transaction, and then ends the session.
    pub(super) fn abort_dropped(&mut self, session: SessionId) -> bool {
        let Some(mut state) = self.attempts.explicit.remove(&session) else {
            return false;
        };
        if state.transaction.is_running() {
            // The abort can overtake the command of that operation.
            self.attempts.sessions.mark_dirty(session);
        }
        if !self.life.is_closed()
            && let Some(command) = state.transaction.abort_dropped(session)
        {
            self.run_in_background(Some(command));
            return true;
        }
        let place = state.transaction.leave();
        self.give_up(place);
        false
    }

    /// Releases the pin of a transaction that has left its place.
    fn give_up(&mut self, place: Option<Place>) {
        if let Some(Place { pin: Some(pin), .. }) = place {
            self.release_pin(pin);
        }
    }
}

fn own_timeout_error() -> Error {
    Error::argument(
        "an operation of a transaction that runs with a time limit has none of its own; remove its \
         time limit",
    )
}
