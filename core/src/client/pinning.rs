//! Pinned connections: what they wait for, and when they go back to their pool.
//!
//! For its pool a pinned connection is checked out all the time; uses of it are no check-outs
//! (LB-31). One that broke stays where it is until its owner lets go: that it is broken is known to
//! the topology at once, and that it is closed is told when it goes back (LB-36).

use super::{
    Client,
    waiting::{Acquired, Waiting},
};
use crate::{
    connection::{ConnectionFacts, Established, SocketId},
    description::ServerId,
    error::{Error, ErrorKind},
    operation::{
        Command, Keeper, Leftovers, Operation, OperationId, Pin, PinId, PinUse, SessionUse,
        error_at_end,
    },
    pool::{Condition, HeldFor, PooledId},
    time::Instant,
};

/// A connection that somebody keeps.
#[derive(Debug)]
pub(super) struct Pinned {
    server: ServerId,
    pooled: PooledId,
    /// Who keeps it: cursors, and one transaction at most (LB-41).
    keepers: Vec<Keeper>,
    /// Pins that went back while the lease was out from which they were made.
    gone: Vec<PinId>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It waits for its owner's next command.
    Free,
    /// A command runs on it, or is about to.
    Leased,
    /// A command ended before its reply was there. The next one may wait already.
    Draining { next: Option<OperationId> },
    /// It cannot be used any more.
    Broken(Error),
}

impl Pinned {
    fn new(server: ServerId, pooled: PooledId) -> Self {
        Self {
            server,
            pooled,
            keepers: Vec::new(),
            gone: Vec::new(),
            state: State::Leased,
        }
    }

    #[cfg(test)]
    pub(super) fn is_leased(&self) -> bool {
        matches!(self.state, State::Leased)
    }

    #[cfg(test)]
    pub(super) fn is_kept(&self) -> bool {
        !self.keepers.is_empty()
    }

    #[cfg(test)]
    pub(super) fn is_next(&self, id: OperationId) -> bool {
        matches!(self.state, State::Draining { next } if next == Some(id))
    }

    /// What the pool counts it as (LB-44).
    fn held_for(&self) -> HeldFor {
        let keepers = self.keepers.iter().map(|keeper| keeper.held_for);
        keepers.fold(HeldFor::Operation, |held_for, next| {
            match (held_for, next) {
                (HeldFor::Transaction, _) | (_, HeldFor::Transaction) => HeldFor::Transaction,
                (HeldFor::Cursor, _) | (_, HeldFor::Cursor) => HeldFor::Cursor,
                (HeldFor::Operation, HeldFor::Operation) => HeldFor::Operation,
            }
        })
    }

    fn is_kept_by(&self, id: PinId) -> bool {
        self.keepers.iter().any(|keeper| keeper.id == id)
    }
}

impl Client {
    /// A cursor or a transaction no longer needs its connection. It goes back to its pool when
    /// nobody else keeps it.
    pub fn release(&mut self, now: Instant, pin: Pin) {
        self.let_go(now, pin);
        self.settle(now);
    }

    /// What a cursor held goes back.
    pub fn take_leftovers(&mut self, now: Instant, leftovers: Leftovers) {
        if let Some(session) = leftovers.session {
            self.return_session(now, session);
        }
        if let Some(pin) = leftovers.pin {
            self.release(now, pin);
        }
    }

    /// A command will not be run after all: what it was to use goes back.
    pub fn discard(&mut self, now: Instant, mut command: Command) {
        if let SessionUse::Held(session) = std::mem::take(&mut command.session) {
            self.return_session(now, session);
        }
        if let Some(PinUse::Last(pin)) = command.pin {
            self.release(now, pin);
        }
    }

    pub(super) fn let_go(&mut self, now: Instant, pin: Pin) {
        let Pin(Keeper { id, .. }) = pin;
        if id.client != self.topology().id {
            return;
        }
        match self.pins.get_mut(&id.socket) {
            Some(pinned) if pinned.is_kept_by(id) => {
                pinned.keepers.retain(|keeper| keeper.id != id);
                self.after_pin_change(now, id.socket);
            }
            // The lease that tells of the pin has not come back.
            Some(pinned) if matches!(pinned.state, State::Leased) => pinned.gone.push(id),
            Some(_) => {}
            None => {
                if let Some((server, pooled)) = self.leased_as(id.socket) {
                    let mut pinned = Pinned::new(server, pooled);
                    pinned.gone.push(id);
                    self.pins.insert(id.socket, pinned);
                }
            }
        }
    }

    /// The numbers of a connection that is leased. Seldom asked, so nothing is kept for it.
    fn leased_as(&self, socket: SocketId) -> Option<(ServerId, PooledId)> {
        if !self.established.contains(&socket) || self.drains.contains(socket) {
            return None;
        }
        self.pools.iter().find_map(|(&server, slot)| {
            let mut all = slot.sockets.iter();
            let (&pooled, _) = all.find(|&(_, &other)| other == socket)?;
            (!slot.parked.contains_key(&pooled)).then_some((server, pooled))
        })
    }

    /// Every connection that is not leased goes back; the leased ones do when their leases end. Who
    /// waits for one fails.
    pub(super) fn release_all_pins(&mut self, now: Instant) {
        let sockets: Vec<SocketId> = self.pins.keys().copied().collect();
        for socket in sockets {
            if let Some(pinned) = self.pins.get_mut(&socket) {
                pinned.keepers.clear();
                self.after_pin_change(now, socket);
            }
        }
    }

    fn after_pin_change(&mut self, now: Instant, socket: SocketId) {
        let Some(pinned) = self.pins.get(&socket) else {
            return;
        };
        let (server, pooled) = (pinned.server, pinned.pooled);
        if !pinned.keepers.is_empty() {
            let held_for = pinned.held_for();
            if let Some(slot) = self.pools.get_mut(&server) {
                slot.pool.hold_for(pooled, held_for);
            }
            return;
        }
        let condition = match &pinned.state {
            // It goes back when the lease does.
            State::Leased => return,
            State::Free => Condition::Healthy,
            State::Draining { .. } => Condition::ReplyDue,
            State::Broken(error) => Condition::Broken(Some(error.clone())),
        };
        if let State::Draining { next: Some(id) } = pinned.state
            && let Some(mut operation) = self.withdraw(now, id)
        {
            // That has brought the connection back.
            let error = error_at_end(&mut operation, now, pin_is_gone(), false);
            self.finish_operation(now, operation);
            return self.wake_with(id, error);
        }
        self.pins.remove(&socket);
        self.return_pooled(now, server, pooled, condition);
    }

    /// The lease of a connection ended that is to be kept from now on.
    pub(super) fn note_pins(&mut self, facts: &ConnectionFacts, pinned: Vec<Keeper>) {
        if pinned.is_empty() || self.closed {
            return;
        }
        // A connection of the process that this one was forked from is not for later.
        if self.pools.get(&facts.server).is_none_or(|s| s.is_closed) {
            return;
        }
        let new = || Pinned::new(facts.server, facts.pooled);
        let entry = self.pins.entry(facts.socket).or_insert_with(new);
        let gone = std::mem::take(&mut entry.gone);
        let kept = pinned.into_iter().filter(|k| !gone.contains(&k.id));
        entry.keepers.extend(kept);
        let held_for = entry.held_for();
        if let Some(slot) = self.pools.get_mut(&facts.server) {
            slot.pool.hold_for(facts.pooled, held_for);
        }
    }

    /// True if a connection that comes back is kept by somebody. One that nobody keeps any more is
    /// forgotten.
    pub(super) fn is_kept(&mut self, socket: SocketId) -> bool {
        let is_kept = |pinned: &Pinned| !pinned.keepers.is_empty();
        if self.pins.get(&socket).is_some_and(is_kept) {
            return true;
        }
        self.pins.remove(&socket);
        false
    }

    /// Keeps a connection whose lease came back, or whose outstanding reply is gone. Whoever waits
    /// for it goes on.
    pub(super) fn keep(
        &mut self,
        now: Instant,
        mut connection: Box<Established>,
        broken: Option<Error>,
    ) {
        connection.used = now;
        let (server, pooled) = (connection.facts.server, connection.facts.pooled);
        let socket = connection.facts.socket;
        if let Some(slot) = self.pools.get_mut(&server) {
            slot.parked.insert(pooled, connection);
        }
        let Some(pinned) = self.pins.get_mut(&socket) else {
            return;
        };
        let next = match pinned.state {
            State::Draining { next } => next,
            State::Free | State::Leased | State::Broken(_) => None,
        };
        pinned.state = match &broken {
            None => State::Free,
            Some(error) => State::Broken(error.clone()),
        };
        if let Some(id) = next {
            self.go_on_pinned(now, id);
        }
    }

    /// The reply to a command on a pinned connection is outstanding.
    pub(super) fn keep_draining(&mut self, socket: SocketId) {
        if let Some(pinned) = self.pins.get_mut(&socket) {
            pinned.state = State::Draining { next: None };
        }
    }

    /// Takes the pinned connection for this operation, or lets it wait until the connection is
    /// free.
    pub(super) fn acquire_pinned(
        &mut self,
        now: Instant,
        mut operation: Box<Operation>,
        id: PinId,
    ) -> Acquired {
        operation.attempts += 1;
        let is_own = id.client == self.topology().id;
        let pinned = self.pins.get_mut(&id.socket);
        let error = match pinned.filter(|pinned| is_own && pinned.is_kept_by(id)) {
            None => pin_is_gone(),
            Some(pinned) => match &mut pinned.state {
                State::Free => {
                    pinned.state = State::Leased;
                    let (server, pooled) = (pinned.server, pinned.pooled);
                    self.selector.started(server);
                    return Acquired::Granted {
                        operation,
                        server,
                        pooled,
                    };
                }
                State::Draining { next } if next.is_none() => {
                    *next = Some(operation.id);
                    let limit = operation.deadline;
                    if let Some(limit) = limit {
                        self.wait_limits.insert((limit, operation.id));
                    }
                    self.note_deadline(limit);
                    return Acquired::Waiting(Waiting::ForPin {
                        operation,
                        socket: id.socket,
                        limit,
                    });
                }
                State::Broken(error) => error.clone(),
                State::Leased | State::Draining { .. } => {
                    let message = "a cursor or transaction runs one command at a time";
                    Error::argument(message)
                }
            },
        };
        // A retry that gets nowhere raises what the attempt before it met (RR-15, RW-25).
        let error = error_at_end(&mut operation, now, error, false);
        self.finish_operation(now, operation);
        Acquired::Failed(error)
    }

    /// An operation that was granted a pinned connection, or waits for one, leaves.
    /// If nobody keeps the connection any more, it goes back.
    pub(super) fn leave_pinned(&mut self, now: Instant, socket: SocketId) {
        if let Some(pinned) = self.pins.get_mut(&socket) {
            match &mut pinned.state {
                State::Draining { next } => *next = None,
                State::Leased => pinned.state = State::Free,
                State::Free | State::Broken(_) => {}
            }
            self.after_pin_change(now, socket);
        }
    }

    /// The operation that waited for a pinned connection tries again.
    fn go_on_pinned(&mut self, now: Instant, id: OperationId) {
        let Some(Waiting::ForPin {
            mut operation,
            limit,
            ..
        }) = self.waiting.remove(&id)
        else {
            return;
        };
        if let Some(limit) = limit {
            self.wait_limits.remove(&(limit, id));
        }
        operation.attempts = operation.attempts.saturating_sub(1);
        self.acquire_in_background(now, operation);
    }

    /// True for a pinned connection that waits for its owner's next command.
    pub(super) fn is_pin_free(&self, socket: SocketId) -> bool {
        let pinned = self.pins.get(&socket);
        pinned.is_some_and(|pinned| matches!(pinned.state, State::Free))
    }

    /// A pinned connection on which nothing runs was interrupted: the next command on it fails.
    pub(super) fn break_pin(&mut self, now: Instant, socket: SocketId, error: Error) {
        if let Some(pinned) = self.pins.get_mut(&socket) {
            pinned.state = State::Broken(error);
            self.after_pin_change(now, socket);
        }
    }

    /// The error that a kept connection was interrupted with, if it was: for its pool it is checked
    /// out between the commands as well (CMAP-97).
    pub(super) fn interruption_of_pin(&self, facts: &ConnectionFacts) -> Option<Error> {
        if self.pins.is_empty() || !self.pins.contains_key(&facts.socket) {
            return None;
        }
        self.pools
            .get(&facts.server)?
            .pool
            .interruption_of(facts.pooled)
    }

    /// A command on a connection that broke says so itself; one that comes later says why it was
    /// not sent.
    pub(super) fn broken_pin(condition: Condition) -> Option<Error> {
        match condition {
            Condition::Healthy | Condition::ReplyDue => None,
            Condition::Broken(error) => Some(error.unwrap_or_else(|| {
                let message = "the connection is out of step with its server".to_owned();
                ErrorKind::Protocol { message }.into()
            })),
        }
    }
}

fn pin_is_gone() -> Error {
    let message = "the connection that a cursor or transaction is bound to is gone";
    Error::argument(message)
}
