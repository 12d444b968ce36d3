//! The lifecycle of a client: open, closing, ended.

use crate::{
    client::{
        Action, Client, Timer,
        connections::{Role, State},
        recording::{Kind, put_reason},
    },
    connection::SocketId,
    description::ServerId,
    error::{Error, ErrorKind},
    time::Instant,
};

/// The lifecycle state of a client.
#[derive(Debug, Default)]
pub(in crate::client) struct Life {
    phase: Phase,
    /// The reason why the shell stopped carrying out actions; `None` if it has not stopped.
    lost: Option<Error>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Open,
    /// No new operation begins. Monitors and pools stay open while connections are in use.
    Closing,
    /// Monitors and pools are closed as well.
    Ended,
}

impl Life {
    #[inline]
    pub(in crate::client) fn is_closed(&self) -> bool {
        self.phase != Phase::Open
    }

    pub(in crate::client) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns the reason why the shell stopped carrying out actions; `None` if it has not stopped.
    pub(in crate::client) fn lost(&self) -> Option<Error> {
        self.lost.clone()
    }

    /// Returns the error of operations on a closed client: the reason why the shell stopped, if it
    /// did.
    pub(in crate::client) fn error(&self) -> Error {
        self.lost().unwrap_or_else(|| ErrorKind::Shutdown.into())
    }
}

impl Client {
    /// Starts the client. Monitors begin to check the servers; a client that scans checks them when
    /// an operation needs a server.
    pub fn open(&mut self, now: Instant) {
        self.begin_entry(now, Kind::Open, |_| Ok(()));
        if self.seeds.list.is_unresolved() {
            self.open_unresolved(now);
        } else {
            self.topology.start(now);
            self.seeds.list.open(now);
            self.arm_rescan();
        }
        self.settle(now);
        self.end_entry(|_| {});
    }

    /// Closes the client. Operations that wait fail at once. Monitors and pools close once no
    /// connection is in use. Until then the monitoring of servers continues: otherwise an operation
    /// on a server that was lost would keep the client open for ever.
    pub fn close(&mut self, now: Instant) {
        if self.life.is_closed() {
            return;
        }
        self.begin_entry(now, Kind::Close, |_| Ok(()));
        self.begin_closing(now);
        self.end_entry(|_| {});
    }

    fn begin_closing(&mut self, now: Instant) {
        self.life.phase = Phase::Closing;
        self.fail_all_waiting(now);
        self.pins.release_all();
        self.settle(now);
    }

    /// Ends a closed client while exchanges still hold connections. Each of these connections
    /// closes when its exchange is checked in.
    pub fn close_now(&mut self, now: Instant) {
        if self.life.is_closed() && !self.life.is_ended() {
            self.begin_entry(now, Kind::CloseNow, |_| Ok(()));
            self.end_parts(now);
            self.settle(now);
            self.end_entry(|_| {});
        }
    }

    /// Ends everything at once, because the tasks of the shell are gone: their async runtime has
    /// ended, or a task has panicked. Operations that wait fail with `why`, exchanges are
    /// interrupted with it, and operations that start later fail with it.
    ///
    /// Changes nothing if the client is terminated or was abandoned already.
    pub fn abandon(&mut self, now: Instant, why: &Error) {
        if self.is_terminated() || self.life.lost.is_some() {
            return;
        }
        self.begin_entry(now, Kind::Abandon, |out| put_reason(out, why));
        self.life.lost = Some(why.clone());
        // A panic of the timer task can have interrupted the orders.
        #[cfg(debug_assertions)]
        {
            self.out.is_carrying = false;
        }
        if !self.life.is_closed() {
            self.begin_closing(now);
        }
        if !self.life.is_ended() {
            self.end_parts(now);
        }
        self.interrupt_exchanges(why);
        self.settle(now);
        self.end_entry(|_| {});
    }

    /// Closes the monitors and pools of a closed client once no connection is in use. True if this
    /// call closed them.
    pub(in crate::client) fn end_if_unused(&mut self, now: Instant) -> bool {
        if !self.life.is_closed() || self.life.is_ended() || self.pools.in_use() > 0 {
            return false;
        }
        self.end_parts(now);
        true
    }

    /// Closes monitors and pools, and withdraws all questions. Connections in use close when they
    /// are checked in.
    pub(in crate::client) fn end_parts(&mut self, now: Instant) {
        self.life.phase = Phase::Ended;
        self.pools.close_all(now);
        self.topology.close(now);
        self.questions.withdraw_all();
        self.connections.forget_secrets();
        self.arm(Timer::Callback, None);
        self.seeds.list.forget_questions();
        self.arm(Timer::Rescan, None);
        self.attempts.reselecting = None;
        self.arm(Timer::Reselection, None);
    }

    /// Interrupts the exchanges on connections of closed pools. A pool does not order these
    /// interrupts when it is closed.
    pub(in crate::client) fn interrupt_exchanges(&mut self, why: &Error) {
        let is_in_use = |(socket, role, state): (SocketId, Role, &State)| match (role, state) {
            (Role::Pooled(server, _), State::InUse | State::Overdue) => Some((socket, server)),
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
