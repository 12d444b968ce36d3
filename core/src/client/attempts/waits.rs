//! Operations that wait: grants, and the ends of waits and pauses.

use super::{
    end::{End, Next},
    lease::AtEnd,
    operations::Waiting,
};
use crate::{
    client::{
        Action, Client, Timer,
        connections::State,
        recording::{Kind, put_operation},
    },
    connection::Established,
    error::{Error, Wait},
    operation::{Lease, Operation, OperationId},
    pool::CheckOutId,
    time::{Instant, earliest},
};
use std::time::Duration;

/// The time after which a grant to an operation that does not resume ends, if other operations wait
/// for a connection of the same pool: 1 second. If none waits then, the grant lasts for another
/// second. Not an option.
pub const GRANT_LIMIT: Duration = Duration::from_secs(1);

/// The work of one reselection under the client's lock, in comparisons of an operation with the
/// topology description. A comparison takes less than 0.5 µs. The other operations follow after
/// [`RESELECTION_PAUSE`], so that a server that changes its description often does not block the
/// client.
const RESELECTION_WORK: u32 = 1024;

/// The work of an attempt that begins in a reselection, in comparisons.
const ATTEMPT_WORK: u32 = 8;

/// The time after which a reselection continues that was too long: 1 ms.
const RESELECTION_PAUSE: Duration = Duration::from_millis(1);

/// The consequence when the [`Timer::Wait`] of an operation expires.
enum WaitOver {
    /// The next attempt begins. The pause is over, or the operation no longer waits for the rest of
    /// a scan.
    NextAttempt,
    /// The operation fails with this error, because its time limit has passed.
    Stop(Error),
    /// The operation fails, because no server was found in time, or because its time limit passed
    /// during a pause.
    NoServer,
}

impl Client {
    /// Grants a connection to an operation and wakes its task.
    ///
    /// It is possible that the task resumes late, or waits for another operation. So a grant can
    /// end before the task resumes: for example, at the operation's deadline, when the connection
    /// is interrupted, and after [`GRANT_LIMIT`] if other operations wait for a connection.
    pub(in crate::client) fn grant(
        &mut self,
        now: Instant,
        operation: Box<Operation>,
        lease: Lease,
    ) {
        let id = operation.id;
        if operation.deadline.is_some() {
            self.arm(Timer::Wait(id), operation.deadline);
        }
        // The grant of a pinned connection lasts, because no other operation can use it.
        let examined = match operation.request.pin {
            Some(_) => None,
            None => now.checked_add(GRANT_LIMIT),
        };
        if examined.is_some() && self.clock.timers.deadline(Timer::Grants).is_none() {
            self.arm(Timer::Grants, examined);
        }
        self.connections
            .set_state(lease.facts.socket, State::Granted(id, examined));
        self.attempts
            .operations
            .wait(id, Waiting::Granted(operation, lease));
        self.wake(id);
    }

    /// Cancels the timers of a grant that has ended.
    pub(in crate::client) fn disarm_grant(&mut self, operation: &Operation) {
        if operation.deadline.is_some() {
            self.clock.timers.cancel(Timer::Wait(operation.id));
        }
        if !self.attempts.operations.has_grant() {
            self.clock.timers.cancel(Timer::Grants);
        }
    }

    /// Examines the grants whose time has come. A grant ends if other operations wait for a
    /// connection of its pool. Otherwise it is examined again later.
    pub(in crate::client) fn examine_grants(&mut self, now: Instant) {
        let mut next = self.clock.timers.deadline(Timer::Grants);
        let mut due = Vec::new();
        for (socket, operation, at) in self.connections.grants() {
            match at <= now {
                true => due.push((socket, operation)),
                false => next = earliest(next, Some(at)),
            }
        }
        for (socket, id) in due {
            let Some(Waiting::Granted(_, lease)) = self.attempts.operations.get(id) else {
                continue;
            };
            let pool = self.pools.get(lease.facts.server);
            if pool.is_some_and(|pool| pool.counts().waiting > 0) {
                self.end_waiting(now, id, End::NotBegun);
            } else {
                let later = now.checked_add(GRANT_LIMIT);
                self.connections
                    .set_state(socket, State::Granted(id, later));
                next = earliest(next, later);
            }
        }
        self.arm(Timer::Grants, next);
    }

    /// Ends the grant of a connection that its pool interrupted (CMAP-94). The operation begins
    /// another attempt. An operation whose exchange is interrupted fails instead (CMAP-97), because
    /// part of its request may have been sent.
    pub(in crate::client) fn interrupt_grant(
        &mut self,
        now: Instant,
        id: OperationId,
        error: Error,
    ) {
        let is_granted = |waiting: &Waiting| matches!(waiting, Waiting::Granted(..));
        let Some(Waiting::Granted(operation, lease)) =
            self.attempts.operations.take_if(id, is_granted)
        else {
            return;
        };
        self.disarm_grant(&operation);
        self.end_lease(now, lease, AtEnd::Broken(Some(error)));
        let next = self.end_attempt(now, operation, End::NotBegun);
        self.store_progress(id, next);
    }

    /// Gives an operation the pinned connection that it waited for.
    pub(in crate::client) fn on_pin_free(
        &mut self,
        now: Instant,
        id: OperationId,
        connection: Box<Established>,
    ) {
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::ForPin(..));
        match self.attempts.operations.take_if(id, waits) {
            Some(Waiting::ForPin(operation, _)) => {
                self.clock.timers.cancel(Timer::Wait(id));
                self.attempts.choice.started(connection.facts.server);
                self.grant(now, operation, Lease::new(connection));
            }
            // Its pins can have been released since the grant.
            _ => self.return_connection(now, connection, Ok(())),
        }
    }

    /// Queues the next attempt of an operation whose pinned connection broke while it waited. The
    /// attempt that waited does not count.
    pub(in crate::client) fn on_pin_broken(&mut self, id: OperationId) {
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::ForPin(..));
        if let Some(Waiting::ForPin(mut operation, _)) = self.attempts.operations.take_if(id, waits)
        {
            self.clock.timers.cancel(Timer::Wait(id));
            operation.retry.attempts = operation.retry.attempts.saturating_sub(1);
            self.attempts.operations.retry(operation);
        }
    }

    /// Selects again for the operations that wait for a server, oldest first. Called when the
    /// topology description was replaced, and when a scan or one of its checks has ended.
    pub(in crate::client) fn select_again(&mut self, now: Instant) {
        if let Some(last) = self.attempts.operations.last_without_server() {
            self.attempts.reselecting = Some(OperationId(0)..=last);
            self.continue_reselection(now);
        }
    }

    /// Selects again for the next operations that wait for a server, as many as
    /// [`RESELECTION_WORK`] permits.
    pub(in crate::client) fn continue_reselection(&mut self, now: Instant) {
        let Some(mut ids) = self.attempts.reselecting.take() else {
            return;
        };
        let mut work = 0;
        while let Some(operation) = self.attempts.operations.first_without_server(ids.clone()) {
            let id = operation.id;
            if work >= RESELECTION_WORK {
                self.attempts.reselecting = Some(ids);
                let next = now.checked_add(RESELECTION_PAUSE);
                self.arm(Timer::Reselection, next);
                break;
            }
            ids = OperationId(id.0 + 1)..=*ids.end();
            let is_monitored = self.settings.scanning.is_none();
            if is_monitored && self.attempts.choice.finds_none(&self.topology, operation) {
                work += 1;
                continue;
            }
            work += ATTEMPT_WORK;
            if let Some(Waiting::ForServer(operation)) = self.attempts.operations.take(id) {
                self.clock.timers.cancel(Timer::Wait(id));
                self.begin_in_background(now, operation);
            }
        }
        self.want_servers(now);
    }

    /// Handles the end of an operation's wait or pause, or its deadline while it has a grant
    /// ([`Timer::Wait`]).
    pub(in crate::client) fn on_wait_over(&mut self, now: Instant, id: OperationId) {
        let Some(waiting) = self.attempts.operations.get(id) else {
            return;
        };
        match self.wait_over(now, waiting) {
            None => {}
            Some(WaitOver::NextAttempt) => match self.attempts.operations.take(id) {
                Some(Waiting::Paused(operation)) => self.begin_in_background(now, operation),
                // `set_waiting` follows after the selection, so that the check under way is not
                // cancelled if the operation waits again.
                Some(Waiting::ForServer(operation)) => {
                    self.begin_in_background(now, operation);
                    self.want_servers(now);
                }
                _ => {}
            },
            Some(WaitOver::Stop(error)) => self.end_waiting(now, id, End::Stopped(error)),
            Some(WaitOver::NoServer) => {
                if let Some(operation) = self.withdraw(now, id) {
                    let error = self.no_server_error(&operation);
                    let next = self.end_attempt(now, operation, End::Stopped(error));
                    self.store_progress(id, next);
                }
            }
        }
    }

    fn wait_over(&self, now: Instant, waiting: &Waiting) -> Option<WaitOver> {
        let is_late = |operation: &Operation| operation.deadline.is_some_and(|limit| limit <= now);
        let timeout = |message: &str| WaitOver::Stop(Error::timeout(Wait::CheckOut, message));
        Some(match waiting {
            Waiting::Granted(..) => timeout(
                "a connection was checked out in time, but the task of the operation did not \
                     resume it before the time limit",
            ),
            Waiting::ForPin(..) => {
                timeout("an earlier command on the pinned connection did not end in time")
            }
            Waiting::ForAuthentication(..) => timeout(
                "the server required authentication again, which did not end within the \
                 operation's time limit",
            ),
            // A pause before the first attempt says nothing about the servers.
            Waiting::Paused(operation)
                if is_late(operation) && operation.retry.kept_error.is_none() =>
            {
                timeout("the time limit passed in the pause before the command")
            }
            Waiting::ForServer(operation) | Waiting::Paused(operation) if is_late(operation) => {
                WaitOver::NoServer
            }
            Waiting::Paused(_) => WaitOver::NextAttempt,
            Waiting::ForServer(_) if self.scans_for_operations() => WaitOver::NextAttempt,
            Waiting::ForServer(_) => WaitOver::NoServer,
            Waiting::Asking(_)
            | Waiting::ForConnection(..)
            | Waiting::ForAnswer(..)
            | Waiting::Answered(_)
            | Waiting::Failed(_) => return None,
        })
    }

    /// Cancels an operation that waits, because its caller left.
    pub fn cancel(&mut self, now: Instant, id: OperationId) {
        self.begin_entry(now, Kind::Cancel, |out| put_operation(out, id, None));
        if let Some(operation) = self.withdraw(now, id) {
            self.end_attempt(now, operation, End::Abandoned);
        }
        self.settle(now);
        self.end_entry(|_| {});
    }

    /// Removes an operation that waits. Cancels its request to a pool, gives back the connection
    /// that it was granted, or ends its wait for a pinned connection. Returns the operation; `None`
    /// if the operation has failed or is unknown.
    pub(in crate::client) fn withdraw(
        &mut self,
        now: Instant,
        id: OperationId,
    ) -> Option<Box<Operation>> {
        let waiting = self.attempts.operations.take(id)?;
        self.clock.timers.cancel(Timer::Wait(id));
        match waiting {
            Waiting::Asking(operation) | Waiting::Paused(operation) => Some(operation),
            Waiting::ForServer(operation) => {
                self.want_servers(now);
                Some(operation)
            }
            Waiting::ForConnection(operation, server) => {
                self.attempts.choice.finished(server);
                self.pools.cancel(now, server, CheckOutId(id.0));
                Some(operation)
            }
            Waiting::Granted(operation, lease) => {
                self.disarm_grant(&operation);
                self.end_lease(now, lease, AtEnd::Usable);
                Some(operation)
            }
            Waiting::ForPin(operation, socket) => {
                self.pins.leave(socket, id);
                Some(operation)
            }
            Waiting::ForAuthentication(operation, socket) => {
                self.give_up_authentication(now, socket);
                Some(operation)
            }
            Waiting::ForAnswer(question, _) => {
                self.questions.end(now, question, false);
                None
            }
            Waiting::Answered(_) | Waiting::Failed(_) => None,
        }
    }

    /// Ends the attempt of an operation whose check out failed.
    pub(in crate::client) fn on_check_out_failed(
        &mut self,
        now: Instant,
        id: OperationId,
        error: Error,
    ) {
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::ForConnection(..));
        if let Some(Waiting::ForConnection(operation, server)) =
            self.attempts.operations.take_if(id, waits)
        {
            self.attempts.choice.finished(server);
            let next = self.end_attempt(now, operation, End::Failed(error, None));
            self.store_progress(id, next);
        }
    }

    /// Ends the attempt of an operation that waits.
    pub(in crate::client) fn end_waiting(&mut self, now: Instant, id: OperationId, end: End) {
        if let Some(operation) = self.withdraw(now, id) {
            let next = self.end_attempt(now, operation, end);
            self.store_progress(id, next);
        }
    }

    /// Queues the next attempt of an operation whose task waits, or wakes the task if the operation
    /// has failed.
    pub(in crate::client) fn store_progress(&mut self, id: OperationId, next: Next) {
        match next {
            Next::Again(operation) => self.attempts.operations.retry(operation),
            Next::Over(Ok(())) => {}
            Next::Over(Err(error)) => {
                self.attempts.operations.wait(id, Waiting::Failed(error));
                self.wake(id);
            }
        }
    }

    pub(in crate::client) fn wake(&mut self, operation: OperationId) {
        self.out.act(Action::Wake { operation });
    }

    /// Fails all operations that wait, because the client is closed.
    pub(in crate::client) fn fail_all_waiting(&mut self, now: Instant) {
        self.fail_askers(now, &self.life.error());
        // An operation that has failed already keeps its error.
        let is_alive = |waiting: &Waiting| waiting.operation().is_some();
        for id in self.attempts.operations.ids_where(is_alive) {
            let error = self.life.error();
            self.end_waiting(now, id, End::Final(error));
        }
    }
}
