//! Carries out the actions of the core, and gives inputs to the core.

use super::{CoreWorld, Holder, Socket, Wakeup};
use crate::world::{
    names::unanswered,
    network::{Incoming, LinkId},
    report::FailureKind,
    trace::Summary,
};
use onionskin_core::{
    address::Address,
    client::{Action, Answer, Finding, Inquiry, Question, SocketUse},
    dns::{DnsAnswer, DnsQuery, RecordKind},
    error::{Error, NetworkFault},
    event::Event,
    options::ProviderCall,
    unstable::connection::{SocketId, closed_by_peer},
};
use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The limit below which the time of a key derivation is drawn, in milliseconds.
const MAX_DERIVATION_MILLIS: u64 = 500;

impl CoreWorld {
    /// Takes all events and actions of a client, and carries out the actions.
    pub(super) fn drain(&mut self, client: usize) {
        self.collect(client);
        while let Some(action) = self.sides[client].actions.pop_front() {
            self.perform(client, action);
            self.collect(client);
        }
    }

    fn collect(&mut self, client: usize) {
        while let Some(event) = self.sides[client].core.poll_event() {
            self.observe(client, &event);
        }
        let side = &mut self.sides[client];
        while let Some(action) = side.core.poll_action() {
            side.actions.push_back(action);
        }
        if side.core.poll_action().is_some() || side.core.poll_event().is_some() {
            let message =
                format!("client {client} gives further actions or events after it gave none");
            self.fail(FailureKind::Crash, message);
        }
    }

    pub(super) fn observe(&mut self, client: usize, event: &Event) {
        let now = self.now;
        self.trace.observe(now, client, event);
        if let Err(what) = self.sides[client].checkers.observe(event) {
            self.fail(FailureKind::Correctness, format!("client {client}: {what}"));
        }
    }

    fn transmit(&mut self, client: usize, socket: SocketId, bytes: &[u8]) {
        let (now, id, summary) = (self.now, socket.number(), Summary(bytes));
        self.trace.note(
            now,
            format_args!("client {client} socket {id} transmit {summary}"),
        );
        let known = self.sides[client].sockets.get_mut(&socket);
        match known.map(|socket| (socket.holder, socket.link, &mut socket.outbox)) {
            Some((Holder::Core, Some(_), outbox)) => {
                outbox.extend(bytes);
                self.flush(client, socket);
            }
            other => {
                let message = format!("client {client} transmits on {other:?}");
                self.fail(FailureKind::Crash, message);
            }
        }
    }

    /// Sends what the core has to send on a socket, as far as there is room.
    pub(super) fn flush(&mut self, client: usize, id: SocketId) {
        let now = self.now;
        let Some(socket) = self.sides[client].sockets.get_mut(&id) else {
            return;
        };
        let Some(link) = socket.link.filter(|_| !socket.outbox.is_empty()) else {
            return;
        };
        let room = self.network.room(now, link, &mut self.trace);
        let count = room.unwrap_or(usize::MAX).min(socket.outbox.len());
        if count > 0 {
            let bytes: Vec<u8> = socket.outbox.drain(..count).collect();
            self.network.send(now, link, &bytes, &mut self.trace);
        }
    }

    /// Continues the writes of connections that have room again.
    pub(super) fn write_again(&mut self) {
        let now = self.now;
        while let Some((link, client)) = self.network.poll_writable() {
            let side = &self.sides[client];
            let Some(&socket) = side.links.get(&link) else {
                continue;
            };
            let holder = side.sockets.get(&socket).map(|socket| socket.holder);
            let wakeup = match holder {
                Some(Holder::Core) => Wakeup::Flush { socket },
                Some(Holder::Task(task)) => {
                    let turn = side.tasks[task].turn;
                    Wakeup::Write { task, turn }
                }
                Some(Holder::Nobody) | None => continue,
            };
            self.schedule(now, client, wakeup);
        }
    }

    fn perform(&mut self, client: usize, action: Action) {
        let now = self.now;
        match action {
            Action::Dial { socket, address } => self.dial(client, socket, &address),
            Action::Transmit { socket, bytes } => self.transmit(client, socket, &bytes),
            Action::Read { socket } => self.on_read(client, socket),
            Action::Close { socket } => self.on_close(client, socket),
            Action::Interrupt { socket, error } => {
                let known = self.sides[client].sockets.get_mut(&socket);
                let holder = known.map(|known| {
                    known.is_interrupted = true;
                    known.holder
                });
                let id = socket.number();
                self.trace.note(
                    now,
                    format_args!("client {client} socket {id} interrupt: {error}"),
                );
                if let Some(Holder::Task(task)) = holder {
                    let turn = self.sides[client].tasks[task].turn;
                    let at = self.next_poll(client, task);
                    self.schedule(at, client, Wakeup::Interrupt { task, turn, error });
                }
            }
            Action::Run { command } => {
                let name = command.name();
                self.trace
                    .note(now, format_args!("client {client} runs {name}"));
                self.run_in_background(client, *command);
            }
            Action::Wake { operation } => {
                self.trace
                    .note(now, format_args!("client {client} wake {}", operation.0));
                let tasks = &self.sides[client].tasks;
                if let Some(task) = tasks.iter().position(|t| t.waits_for(operation)) {
                    let turn = tasks[task].turn;
                    let at = self.next_poll(client, task);
                    self.schedule(at, client, Wakeup::Resume { task, turn });
                }
            }
            Action::Ask { id, question } => {
                self.trace.note(
                    now,
                    format_args!("client {client} asks {} {question:?}", id.0),
                );
                let mut after = None;
                let answer = match question {
                    Question::DeriveKeys(derivation) => Answer::Keys(derivation.derive()),
                    Question::KerberosStep(step) => Answer::KerberosStep(step.run()),
                    Question::LookUp { query, limit } => {
                        let answer = self.look_up(client, &query);
                        after = answer.is_none().then_some(limit);
                        Answer::Records(answer.unwrap_or_else(|| Err(unanswered())))
                    }
                    Question::Inquire(inquiry) => Answer::Found(find(inquiry)),
                };
                let drawn = Duration::from_millis(self.random.below(MAX_DERIVATION_MILLIS));
                let at = now + after.unwrap_or(drawn);
                self.schedule(at, client, Wakeup::Answered { id, answer });
            }
            Action::Withdraw { question } => {
                self.trace.note(
                    now,
                    format_args!("client {client} withdraws {}", question.0),
                );
            }
        }
    }

    fn look_up(&mut self, client: usize, query: &DnsQuery) -> Option<Result<DnsAnswer, Error>> {
        if query.kind == RecordKind::Srv
            && let Err(what) = self.sides[client].checkers.look_up(self.now)
        {
            self.fail(FailureKind::Correctness, format!("client {client}: {what}"));
        }
        self.network.look_up(self.now, query, &mut self.trace)
    }

    fn dial(&mut self, client: usize, socket: SocketId, address: &Address) {
        let now = self.now;
        let rate = u64::from(self.options.rates.unresolved);
        let link = if rate > 0 && self.random.chance(rate, 1000) {
            let at = now + Duration::from_millis(1 + self.random.below(2_000));
            self.schedule(at, client, Wakeup::Unresolved { socket });
            None
        } else if let Some(after) = self.network.fail_host(now, address.host(), &mut self.trace) {
            self.schedule(now + after, client, Wakeup::Unresolved { socket });
            None
        } else {
            Some(self.network.dial(now, client, address, &mut self.trace))
        };
        self.trace.note(
            now,
            format_args!(
                "client {client} socket {} dials {address}: {link:?}",
                socket.number()
            ),
        );
        let side = &mut self.sides[client];
        if let Some(link) = link {
            side.links.insert(link, socket);
        }
        let entry = Socket {
            link,
            holder: Holder::Core,
            is_interrupted: false,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
        };
        if side.sockets.insert(socket, entry).is_some() {
            let message = format!("client {client} dials {socket:?} twice");
            self.fail(FailureKind::Crash, message);
        }
    }

    /// Gives a parked socket back to the core, and then the network events that arrived while the
    /// socket was parked.
    fn on_read(&mut self, client: usize, id: SocketId) {
        self.trace.note(
            self.now,
            format_args!("client {client} socket {} drain", id.number()),
        );
        match self.sides[client].sockets.get_mut(&id) {
            Some(socket) if socket.holder == Holder::Nobody => socket.holder = Holder::Core,
            other => {
                let message = format!("client {client} drains {id:?}, which is {other:?}");
                return self.fail(FailureKind::Crash, message);
            }
        }
        while let Some(socket) = self.sides[client].sockets.get_mut(&id)
            && socket.holder == Holder::Core
            && let Some(incoming) = socket.inbox.pop_front()
        {
            self.give_to_core(client, id, incoming);
        }
    }

    fn on_close(&mut self, client: usize, id: SocketId) {
        let now = self.now;
        self.trace.note(
            now,
            format_args!("client {client} socket {} close", id.number()),
        );
        let Some(socket) = self.sides[client].sockets.remove(&id) else {
            let message = format!("client {client} closes {id:?}, which is not open");
            return self.fail(FailureKind::Crash, message);
        };
        // A client closes the connection of an exchange that nobody polls after its deadline.
        if matches!(socket.holder, Holder::Task(_)) && !socket.is_interrupted {
            let message = format!("client {client} closes {id:?}, which is in use");
            self.fail(FailureKind::Crash, message);
        }
        if let Some(link) = socket.link {
            self.sides[client].links.remove(&link);
            self.network.close(now, link, &mut self.trace);
        }
        // An input about a closed socket must change nothing.
        if self.random.chance(1, 8) {
            let at = now + self.draw_delay();
            self.schedule(at, client, Wakeup::LateInput { socket: id });
        }
    }

    /// Gives a network event to the holder of its socket.
    pub(super) fn on_incoming(&mut self, client: usize, link: LinkId, incoming: Incoming) {
        let side = &mut self.sides[client];
        let Some(&id) = side.links.get(&link) else {
            return;
        };
        let Some(socket) = side.sockets.get_mut(&id) else {
            return;
        };
        match socket.holder {
            Holder::Core => self.give_to_core(client, id, incoming),
            Holder::Nobody => socket.inbox.push_back(incoming),
            Holder::Task(task) => {
                let is_reset = incoming == Incoming::Reset;
                socket.inbox.push_back(incoming);
                // A write that waits fails.
                match is_reset {
                    true => self.write(client, task),
                    false => self.progress(client, task),
                }
            }
        }
    }

    fn give_to_core(&mut self, client: usize, id: SocketId, incoming: Incoming) {
        let now = self.now;
        let core = &mut self.sides[client].core;
        let socket_use = match incoming {
            Incoming::Connected => core.handle_connected(now, id),
            Incoming::Bytes(bytes) => core.handle_received(now, id, &bytes),
            Incoming::Closed => core.handle_received(now, id, &[]),
            Incoming::Refused => {
                let error = Error::network(NetworkFault::Refused, "connection refused");
                core.handle_failed(now, id, error)
            }
            Incoming::Reset => core.handle_failed(now, id, reset()),
        };
        self.follow(client, id, socket_use);
    }

    /// Handles the result of an input about a socket.
    fn follow(&mut self, client: usize, id: SocketId, socket_use: SocketUse) {
        if let Some(socket) = self.sides[client].sockets.get_mut(&id)
            && socket_use == SocketUse::Parked
        {
            socket.holder = Holder::Nobody;
        }
        self.drain(client);
        if socket_use == SocketUse::Closed && self.sides[client].sockets.contains_key(&id) {
            let message =
                format!("client {client} returned Closed for {id:?} without an order to close it");
            self.fail(FailureKind::Crash, message);
        }
    }

    pub(super) fn on_unresolved(&mut self, client: usize, id: SocketId) {
        let error = Error::network(NetworkFault::NotResolved, "no such host");
        let now = self.now;
        if self.sides[client].sockets.contains_key(&id) {
            let socket_use = self.sides[client].core.handle_failed(now, id, error);
            self.follow(client, id, socket_use);
        }
    }

    /// Gives the core inputs about a socket that no longer exists, which must change nothing.
    pub(super) fn give_late_inputs(&mut self, client: usize, id: SocketId) {
        let now = self.now;
        let core = &mut self.sides[client].core;
        let deadline = core.deadline();
        let uses = [
            core.handle_received(now, id, &[1, 2, 3]),
            core.handle_failed(now, id, closed_by_peer()),
            core.handle_connected(now, id),
        ];
        let is_changed = core.deadline() != deadline || core.poll_action().is_some();
        if is_changed
            || uses
                .iter()
                .any(|socket_use| *socket_use != SocketUse::Closed)
        {
            let message =
                format!("client {client} reacts to inputs about the closed {id:?}: {uses:?}");
            self.fail(FailureKind::Crash, message);
        }
    }
}

pub(super) fn reset() -> Error {
    Error::network(NetworkFault::Reset, "connection reset by peer")
}

/// Answers an inquiry. The world has no environment variables, no files and no endpoints. The
/// future of a provider is polled once.
fn find(inquiry: Inquiry) -> Result<Finding, String> {
    let refuse = |reason: &str| Err(reason.to_owned());
    let result = match inquiry {
        Inquiry::Environment(names) => return Ok(Finding::Environment(vec![None; names.len()])),
        Inquiry::File(_) => return refuse("the world has no files"),
        Inquiry::Http(_) => return refuse("the world has no endpoints"),
        Inquiry::Call(ProviderCall::Blocking(work)) => work(),
        Inquiry::Call(ProviderCall::Future(start)) => {
            let mut context = Context::from_waker(Waker::noop());
            match start().as_mut().poll(&mut context) {
                Poll::Ready(result) => result,
                Poll::Pending => return refuse("the future of the provider waits"),
            }
        }
    };
    result
        .map(Finding::Supplied)
        .map_err(|error| error.to_string())
}
