//! Moves the bytes of exchanges. In the crate `onionskin`, the task of the caller does this.

use super::{CoreWorld, Holder, Wakeup, actions::reset, tasks::State};
use crate::world::{
    network::Incoming,
    options::index,
    report::FailureKind,
    workload::{Ending, OperationKind, found},
};
use onionskin_core::{
    client::{AfterExchange, Outcome},
    error::Error,
    event::{Event, EventKind},
    operation::{Exchange, crud::first_document},
    unstable::connection::closed_by_peer,
};
use std::{collections::VecDeque, time::Duration};

impl CoreWorld {
    pub(super) fn begin_exchange(&mut self, client: usize, task: usize, mut exchange: Exchange) {
        let now = self.now;
        let id = exchange.socket();
        let checked = match self.sides[client].sockets.get_mut(&id) {
            Some(socket) if socket.holder == Holder::Nobody => {
                let checked = check_idle(&mut exchange, &mut socket.inbox);
                socket.holder = match checked {
                    Ok(()) => Holder::Task(task),
                    Err(_) => Holder::Nobody,
                };
                checked
            }
            other => {
                let message = format!("client {client} exchanges {id:?}, which is {other:?}");
                return self.fail(FailureKind::Crash, message);
            }
        };
        if let Err(error) = checked {
            self.trace.note(
                now,
                format_args!("client {client} socket {} refused: {error}", id.number()),
            );
            let start = self.sides[client].core.refuse(now, exchange, error);
            self.drain(client);
            return self.on_start(client, task, start);
        }
        let result = exchange.begin(now);
        self.sides[client].tasks[task].turn_to(State::Exchanging(Box::new(exchange)));
        match result {
            Err(error) => self.end_exchange(client, task, Outcome::Failed(error)),
            Ok(()) => {
                self.observe_exchange(client, task);
                if self.count_poll(client, task) {
                    self.write(client, task);
                }
            }
        }
    }

    /// Writes the request, or a part of it. A partial write is continued later. Without room, the
    /// write continues when there is some. A write on a connection that was reset ends the
    /// exchange.
    pub(super) fn write(&mut self, client: usize, task: usize) {
        let now = self.now;
        let side = &mut self.sides[client];
        let State::Exchanging(exchange) = &mut side.tasks[task].state else {
            return;
        };
        let id = exchange.socket();
        let mut length = exchange.output().len();
        if length == 0 {
            return self.progress(client, task);
        }
        let socket = side.sockets.get(&id);
        if socket.is_some_and(|socket| socket.inbox.contains(&Incoming::Reset)) {
            return self.end_exchange(client, task, Outcome::Failed(reset()));
        }
        let link = socket.and_then(|socket| socket.link);
        let is_partial = self.random.chance(1, 8);
        if is_partial && length > 1 {
            length = 1 + index(&mut self.random, length - 1);
        }
        let room = link.and_then(|link| self.network.room(now, link, &mut self.trace));
        length = length.min(room.unwrap_or(length));
        if length == 0 {
            return;
        }
        let bytes = exchange.output()[..length].to_vec();
        exchange.sent(length);
        let is_written = exchange.output().is_empty();
        if let Some(link) = link {
            self.network.send(now, link, &bytes, &mut self.trace);
        }
        if is_written {
            return self.progress(client, task);
        }
        let turn = self.sides[client].tasks[task].turn;
        let at = now + Duration::from_micros(self.random.below(20_000));
        self.schedule(at, client, Wakeup::Write { task, turn });
    }

    /// Reads the bytes that have arrived for an exchange. Ends the exchange if its reply is
    /// complete or its connection has failed.
    pub(super) fn progress(&mut self, client: usize, task: usize) {
        loop {
            let side = &mut self.sides[client];
            let State::Exchanging(exchange) = &mut side.tasks[task].state else {
                return;
            };
            let id = exchange.socket();
            if !exchange.output().is_empty() {
                return;
            }
            let Some(socket) = side.sockets.get_mut(&id) else {
                return;
            };
            let outcome = match socket.inbox.pop_front() {
                None => return,
                Some(Incoming::Bytes(mut bytes)) => match feed(exchange, &mut bytes) {
                    Ok(is_whole) => {
                        if !bytes.is_empty() {
                            socket.inbox.push_front(Incoming::Bytes(bytes));
                        }
                        if !is_whole {
                            if !self.count_poll(client, task) {
                                return;
                            }
                            continue;
                        }
                        Outcome::Completed
                    }
                    Err(error) => Outcome::Failed(error),
                },
                Some(Incoming::Closed) => Outcome::Failed(closed_by_peer()),
                Some(_) => Outcome::Failed(reset()),
            };
            return self.end_exchange(client, task, outcome);
        }
    }

    /// Parks the socket of an exchange.
    pub(super) fn park(&mut self, client: usize, exchange: &Exchange) {
        if let Some(socket) = self.sides[client].sockets.get_mut(&exchange.socket()) {
            socket.holder = Holder::Nobody;
            socket.is_interrupted = false;
        }
    }

    /// Ends an exchange and checks it in. Then the operation ends or continues.
    pub(super) fn end_exchange(&mut self, client: usize, task: usize, outcome: Outcome) {
        let now = self.now;
        if let State::Exchanging(exchange) = &mut self.sides[client].tasks[task].state {
            exchange.end(&outcome);
        }
        self.observe_exchange(client, task);
        let caller = &mut self.sides[client].tasks[task];
        let current = caller.current;
        let State::Exchanging(exchange) = caller.turn_to(State::Thinking) else {
            return;
        };
        let result = match &outcome {
            Outcome::Completed => exchange.outcome(),
            Outcome::Failed(error) => Err(error.clone()),
            Outcome::Abandoned => Ok(()),
        };
        let ending = match current {
            Some((step, _)) if result.is_ok() => read(step.kind, &exchange),
            _ => Ok(Ending::Acknowledged),
        };
        self.park(client, &exchange);
        let after = self.sides[client].core.check_in(now, *exchange, outcome);
        self.drain(client);
        match after {
            AfterExchange::Done(Ok(())) => {
                let ending = ending.unwrap_or_else(Ending::Failed);
                self.end(client, task, ending);
            }
            AfterExchange::Done(Err(error)) => self.end(client, task, Ending::Failed(error)),
            AfterExchange::Again(start) => self.on_start(client, task, start),
        }
    }
}

impl CoreWorld {
    /// Passes the events of an exchange to the checkers.
    pub(super) fn observe_exchange(&mut self, client: usize, task: usize) {
        let at = self.now;
        while let State::Exchanging(exchange) = &mut self.sides[client].tasks[task].state
            && let Some(event) = exchange.poll_event(at)
        {
            let kind = EventKind::Command(event);
            self.observe(client, &Event::new(at, kind));
        }
    }
}

/// Probes whether the peer has closed an idle connection.
fn check_idle(exchange: &mut Exchange, inbox: &mut VecDeque<Incoming>) -> Result<(), Error> {
    while exchange.wants_idle_check() {
        match inbox.pop_front() {
            None => exchange.handle_idle_check(None)?,
            Some(Incoming::Bytes(bytes)) => exchange.handle_idle_check(Some(&bytes))?,
            Some(Incoming::Closed) => exchange.handle_idle_check(Some(&[]))?,
            Some(_) => return Err(reset()),
        }
    }
    Ok(())
}

/// Gives bytes to an exchange until its reply is complete, and returns true if it is. Further bytes
/// stay in `bytes`.
fn feed(exchange: &mut Exchange, bytes: &mut Vec<u8>) -> Result<bool, Error> {
    while !bytes.is_empty() {
        let room = exchange.input()?;
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        bytes.drain(..count);
        let mut is_complete = exchange.received(count)?;
        while exchange.is_unpacking() {
            is_complete = exchange.unpack()?;
        }
        if is_complete {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the ending of an operation with a successful reply.
fn read(kind: OperationKind, exchange: &Exchange) -> Result<Ending, Error> {
    match kind {
        OperationKind::Insert | OperationKind::Increment => Ok(Ending::Acknowledged),
        OperationKind::Find | OperationKind::FindNearby | OperationKind::Browse => {
            let reply = exchange
                .reply()
                .ok_or_else(|| Error::protocol("the command has no reply"))?;
            Ok(Ending::Found(found(first_document(reply)?)?))
        }
    }
}
