//! The actions of the core: collected under the lock, and carried out after it is released.

use crate::{
    Runtime,
    events::MAX_EVENT_DELAY,
    questions,
    shared::{Inner, Shared, Socket},
    signal::{Signal, SocketCommands},
    socket,
    user_code::catch_panic,
};
use onionskin_core::{
    address::Address,
    client::{Action, Question, QuestionId, SocketId},
    operation::Command,
};
use std::{sync::Arc, task::Waker};

/// The actions that are carried out after the lock is released.
pub(crate) struct Deferred<S> {
    pub(crate) dials: Vec<(SocketId, Address, Arc<Signal>)>,
    pub(crate) reads: Vec<(SocketId, S, Arc<Signal>)>,
    pub(crate) questions: Vec<(QuestionId, Question, Arc<Signal>)>,
    pub(crate) signals: Vec<Arc<Signal>>,
    /// The first waker. There is seldom another one, so the list seldom has memory of its own.
    pub(crate) waker: Option<Waker>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) commands: Vec<Command>,
    pub(crate) streams: Vec<S>,
    pub(crate) rearm: bool,
}

impl<S> Deferred<S> {
    pub(crate) const fn new(rearm: bool) -> Self {
        Self {
            dials: Vec::new(),
            reads: Vec::new(),
            questions: Vec::new(),
            signals: Vec::new(),
            waker: None,
            wakers: Vec::new(),
            commands: Vec::new(),
            streams: Vec::new(),
            rearm,
        }
    }
}

impl<R: Runtime> Shared<R> {
    pub(crate) fn carry_out(self: &Arc<Self>, deferred: Deferred<R::Stream>) {
        for (socket, address, signal) in deferred.dials {
            let shared = self.clone();
            let mark = self.delivery.mark();
            let task = async move {
                let Self {
                    delivery, runtime, ..
                } = &*shared;
                let limit = || runtime.sleep(MAX_EVENT_DELAY);
                delivery.wait_for(mark, limit).await;
                socket::run(shared, socket, address, signal).await;
            };
            self.spawn(socket::watched(self.clone(), socket, task));
        }
        for (socket, stream, signal) in deferred.reads {
            let task = socket::pump(self.clone(), socket, stream, signal);
            self.spawn(socket::watched(self.clone(), socket, task));
        }
        for signal in deferred.signals {
            signal.wake();
        }
        for waker in deferred.waker.into_iter().chain(deferred.wakers) {
            catch_panic(|| waker.wake());
        }
        if deferred.rearm {
            catch_panic(|| self.timer.wake());
        }
        for (id, question, signal) in deferred.questions {
            questions::begin(self, id, question, signal);
        }
        // Closing a socket does not wait for the peer, and happens outside of the lock (CMAP-64).
        drop(deferred.streams);
        // These come last, because a runtime can wait for their end.
        for command in deferred.commands {
            // Without a handle the client closes, and then it runs no further command.
            if let Some(client) = self.client() {
                client.run_in_background(command);
            }
        }
    }
}

impl<S> Inner<S> {
    /// Collects the actions of the core. Returns `None` if there is nothing to do.
    #[inline]
    pub(crate) fn collect_orders(&mut self) -> Option<Deferred<S>> {
        let next = self.core.poll_action();
        let rearm = self.must_rearm();
        let is_quiet = self.abandoned_streams.is_empty() && !self.is_idle();
        if next.is_none() && is_quiet && !rearm && self.warm.is_empty() {
            return None;
        }
        Some(self.collect(next, rearm))
    }

    fn collect(&mut self, mut next: Option<Action>, rearm: bool) -> Deferred<S> {
        let mut deferred = Deferred::new(rearm);
        while let Some(action) = next {
            match action {
                Action::Dial { socket, address } => {
                    let signal = Arc::new(Signal::default());
                    deferred.dials.push((socket, address, signal.clone()));
                    self.sockets.insert(
                        socket,
                        Socket {
                            stream: None,
                            signal,
                        },
                    );
                }
                Action::Read { socket: id } => {
                    if let Some(socket) = self.sockets.get_mut(id)
                        && let Some(stream) = socket.stream.take()
                    {
                        deferred.reads.push((id, stream, socket.signal.clone()));
                    }
                }
                Action::Transmit { socket, bytes } => {
                    let write = |commands: &mut SocketCommands| commands.bytes.extend(bytes);
                    deferred.signals.extend(self.instruct(socket, write));
                }
                Action::Interrupt { socket, error } => {
                    let write = |commands: &mut SocketCommands| commands.interrupt = Some(error);
                    deferred.signals.extend(self.instruct(socket, write));
                }
                Action::Close { socket } => {
                    if let Some(socket) = self.sockets.remove(socket) {
                        socket.signal.write(|commands| commands.close = true);
                        deferred.signals.push(socket.signal);
                        deferred.streams.extend(socket.stream);
                    }
                }
                Action::Ask { id, question } => {
                    let signal = Arc::new(Signal::default());
                    self.asked.insert(id, signal.clone());
                    deferred.questions.push((id, question, signal));
                }
                Action::Withdraw { question } => {
                    if let Some(signal) = self.asked.remove(question) {
                        signal.write(|commands| commands.close = true);
                        deferred.signals.push(signal);
                    }
                }
                Action::Run { command } => deferred.commands.push(*command),
                Action::Wake { operation } => {
                    let waker = self.wakers.remove(operation);
                    match deferred.waker {
                        None => deferred.waker = waker,
                        Some(_) => deferred.wakers.extend(waker),
                    }
                }
            }
            next = self.core.poll_action();
        }
        deferred.streams.append(&mut self.abandoned_streams);
        if self.is_idle() {
            // `TaskTicket` wakes the shutdowns when the last task ends. If the last socket is
            // removed later, for example because the runtime has ended, this code wakes them.
            deferred.wakers.extend(self.idle.reached(0));
        }
        if !self.warm.is_empty() && self.core.is_warm() {
            deferred.wakers.extend(self.warm.reached(0));
        }
        deferred
    }

    /// Writes instructions for the owner of a stream. Returns the signal with which to wake it;
    /// `None` if the socket is unknown.
    fn instruct(
        &self,
        socket: SocketId,
        write: impl FnOnce(&mut SocketCommands),
    ) -> Option<Arc<Signal>> {
        let signal = &self.sockets.get(socket)?.signal;
        signal.write(write);
        Some(signal.clone())
    }
}
