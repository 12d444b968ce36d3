//! The life of a client: open, closing, ended.

use super::{
    Action, Client,
    connections::{Role, State},
};
use crate::{
    connection::SocketId,
    description::ServerId,
    error::{Error, ErrorKind},
    time::Instant,
};

/// How far the life of a client is.
#[derive(Debug, Default)]
pub(super) struct Life {
    phase: Phase,
    /// Why nobody carries out orders any more.
    lost: Option<Error>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Open,
    /// No operation begins any more.
    Closing,
    /// Monitors and pools are closed as well.
    Ended,
}

impl Life {
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.phase != Phase::Open
    }

    pub(super) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Why nobody carries out orders any more, if that is so.
    pub(super) fn lost(&self) -> Option<Error> {
        self.lost.clone()
    }

    /// The error of an operation that finds the client closed.
    pub(super) fn error(&self) -> Error {
        self.lost()
            .unwrap_or_else(|| ErrorKind::ClientClosed.into())
    }
}

impl Client {
    /// Begins to look for the deployment.
    pub fn open(&mut self, now: Instant) {
        self.topology.start(now);
        self.settle(now);
    }

    /// Ends everything: operations that wait fail at once, monitors and pools end as soon as no
    /// connection is in use. Until then servers are still checked: one that is lost would otherwise
    /// keep its last operation, and with it the client, for ever.
    pub fn close(&mut self, now: Instant) {
        if self.life.is_closed() {
            return;
        }
        self.life.phase = Phase::Closing;
        self.fail_all_waiting(now);
        self.pins.release_all();
        self.settle(now);
    }

    /// Ends a closed client although connections are in use: whoever holds the exchanges does not
    /// give them back. Their connections close when they do.
    pub fn end_without_exchanges(&mut self, now: Instant) {
        if self.life.is_closed() && !self.life.is_ended() {
            self.end_parts(now);
            self.settle(now);
        }
    }

    /// Ends everything at once, because the tasks that carry out orders are gone: with the async
    /// runtime on which the client was made, or by a panic. Operations that wait fail with `why`,
    /// exchanges are interrupted with it, and operations that start later fail with it.
    ///
    /// Changes nothing where the client has come to its end before.
    pub fn abandon(&mut self, now: Instant, why: &Error) {
        if self.is_over() || self.life.lost.is_some() {
            return;
        }
        self.life.lost = Some(why.clone());
        self.close(now);
        if !self.life.is_ended() {
            self.end_parts(now);
        }
        self.interrupt_exchanges(why);
        self.settle(now);
    }

    /// Closes monitors and pools of a closed client once no connection is in use; true if it did.
    pub(super) fn end_if_unused(&mut self, now: Instant) -> bool {
        if !self.life.is_closed() || self.life.is_ended() || self.pools.exchange_of() > 0 {
            return false;
        }
        self.end_parts(now);
        true
    }

    /// Closes monitors and pools. Checked-out connections close when they are given back.
    pub(super) fn end_parts(&mut self, now: Instant) {
        self.life.phase = Phase::Ended;
        self.pools.close_all(now);
        self.topology.close(now);
        self.questions.withdraw_all();
    }

    /// Interrupts what runs on a connection of a pool that was closed, and not cleared: nobody else
    /// tells it that its reply will not come.
    pub(super) fn interrupt_exchanges(&mut self, why: &Error) {
        let is_in_use = |(socket, role, state): (SocketId, Role, &State)| match (role, state) {
            (Role::Pooled(server, _), State::InUse) => Some((socket, server)),
            _ => None,
        };
        let in_use: Vec<(SocketId, ServerId)> =
            self.connections.iter().filter_map(is_in_use).collect();
        for (socket, server) in in_use {
            if self.pools.is_open(server) {
                continue;
            }
            let error = match self.pools.get(server) {
                Some(pool) => why.clone().with_server(pool.address()),
                None => why.clone(),
            };
            self.out.act(Action::Interrupt { socket, error });
        }
    }
}
