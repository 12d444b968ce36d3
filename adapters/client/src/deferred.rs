//! The actions of the core: collected under the lock, and carried out after it is released.

use crate::{
    Runtime,
    answers::derive,
    events::MAX_EVENT_DELAY,
    inquiry, kerberos_step, lookup,
    shared::{Inner, Shared, Socket},
    signal::Signal,
    socket,
    user_code::catch_panic,
};
use onionskin_core::{
    address::Address,
    client::{Action, Inquiry, KerberosStep, KeyDerivation, Question, QuestionId, SocketId},
    dns::DnsQuery,
    operation::Command,
};
use std::{sync::Arc, task::Waker, time::Duration};

/// The actions that are carried out after the lock is released.
pub(crate) struct Deferred<S> {
    pub(crate) dials: Vec<(SocketId, Address, Arc<Signal>)>,
    pub(crate) drains: Vec<(SocketId, S, Arc<Signal>)>,
    pub(crate) derivations: Vec<(QuestionId, KeyDerivation)>,
    pub(crate) lookups: Vec<(QuestionId, DnsQuery, Duration, Arc<Signal>)>,
    pub(crate) inquiries: Vec<(QuestionId, Inquiry, Arc<Signal>)>,
    pub(crate) kerberos_steps: Vec<(QuestionId, KerberosStep, Arc<Signal>)>,
    pub(crate) signals: Vec<Arc<Signal>>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) commands: Vec<Command>,
    pub(crate) streams: Vec<S>,
    pub(crate) rearm: bool,
}

impl<S> Deferred<S> {
    pub(crate) const fn new(rearm: bool) -> Self {
        Self {
            dials: Vec::new(),
            drains: Vec::new(),
            derivations: Vec::new(),
            lookups: Vec::new(),
            inquiries: Vec::new(),
            kerberos_steps: Vec::new(),
            signals: Vec::new(),
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
            self.spawn(async move {
                let Self {
                    delivery, runtime, ..
                } = &*shared;
                let limit = || runtime.sleep(MAX_EVENT_DELAY);
                delivery.wait_for(mark, limit).await;
                socket::run(shared, socket, address, signal).await;
            });
        }
        for (socket, stream, signal) in deferred.drains {
            let task = socket::pump(self.clone(), socket, stream, signal);
            self.spawn(task);
        }
        for signal in deferred.signals {
            signal.wake();
        }
        for waker in deferred.wakers {
            catch_panic(|| waker.wake());
        }
        for command in deferred.commands {
            // Without a handle the client closes, and then it runs no further command.
            if let Some(client) = self.client() {
                client.run_in_background(command);
            }
        }
        if deferred.rearm {
            catch_panic(|| self.timer.wake());
        }
        for (id, query, limit, signal) in deferred.lookups {
            let asked = lookup::Asked {
                shared: self.clone(),
                id,
            };
            let task = lookup::run(asked, query, limit, signal);
            self.spawn(task);
        }
        for (id, inquiry, signal) in deferred.inquiries {
            let asked = lookup::Asked {
                shared: self.clone(),
                id,
            };
            self.spawn(inquiry::run(asked, inquiry, signal));
        }
        for (id, step, signal) in deferred.kerberos_steps {
            let asked = lookup::Asked {
                shared: self.clone(),
                id,
            };
            self.spawn(kerberos_step::run(asked, step, signal));
        }
        for (id, derivation) in deferred.derivations {
            let shared = self.clone();
            self.runtime.spawn_blocking(move || {
                let answer = derive(derivation);
                shared.with(|inner, now| inner.core.handle_answer(now, id, answer));
            });
        }
        // Closing a socket does not wait for the peer, and happens outside of the lock (CMAP-64).
        drop(deferred.streams);
    }
}

impl<S> Inner<S> {
    /// Collects the actions of the core. Returns `None` if there is nothing to do.
    pub(crate) fn collect_orders(&mut self) -> Option<Deferred<S>> {
        let mut next = self.core.poll_action();
        let rearm = self.must_rearm();
        if next.is_none() && self.abandoned_streams.is_empty() && !rearm && !self.is_idle() {
            return None;
        }
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
                Action::Drain { socket: id } => {
                    if let Some(socket) = self.sockets.get_mut(&id)
                        && let Some(stream) = socket.stream.take()
                    {
                        deferred.drains.push((id, stream, socket.signal.clone()));
                    }
                }
                Action::Transmit { socket, bytes } => {
                    if let Some(socket) = self.sockets.get(&socket) {
                        socket
                            .signal
                            .write(|commands| commands.bytes.extend_from_slice(&bytes));
                        deferred.signals.push(socket.signal.clone());
                    }
                }
                Action::Close { socket } => {
                    if let Some(socket) = self.sockets.remove(&socket) {
                        socket.signal.write(|commands| commands.close = true);
                        deferred.signals.push(socket.signal);
                        deferred.streams.extend(socket.stream);
                    }
                }
                Action::Interrupt { socket, error } => {
                    if let Some(socket) = self.sockets.get(&socket) {
                        socket
                            .signal
                            .write(|commands| commands.interrupt = Some(error));
                        deferred.signals.push(socket.signal.clone());
                    }
                }
                Action::Ask { id, question } => self.ask(&mut deferred, id, question),
                // A lookup and an inquiry are stopped. A computation on another thread cannot be
                // stopped, and the core ignores its answer.
                Action::Withdraw { question } => {
                    if let Some(signal) = self.asked.remove(&question) {
                        signal.write(|commands| commands.close = true);
                        deferred.signals.push(signal);
                    }
                }
                Action::Run { command } => deferred.commands.push(*command),
                Action::Wake { operation } => {
                    deferred.wakers.extend(self.wakers.remove(&operation))
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
        Some(deferred)
    }

    fn ask(&mut self, deferred: &mut Deferred<S>, id: QuestionId, question: Question) {
        match question {
            Question::DeriveKeys(derivation) => deferred.derivations.push((id, derivation)),
            Question::LookUp { query, limit } => {
                let signal = Arc::new(Signal::default());
                self.asked.insert(id, signal.clone());
                deferred.lookups.push((id, query, limit, signal));
            }
            Question::Inquire(inquiry) => {
                let signal = Arc::new(Signal::default());
                self.asked.insert(id, signal.clone());
                deferred.inquiries.push((id, inquiry, signal));
            }
            Question::KerberosStep(step) => {
                let signal = Arc::new(Signal::default());
                self.asked.insert(id, signal.clone());
                deferred.kerberos_steps.push((id, step, signal));
            }
        }
    }
}
