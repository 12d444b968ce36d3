//! The core behind its lock, and what carries out its orders.

use crate::{
    Runtime,
    answers::answer,
    events::{Delivery, MAX_EVENT_DELAY},
    ids::ObjectIds,
    signal::Signal,
    socket,
    user_code::catch_panic,
    waiters::Waiters,
};
use atomic_waker::AtomicWaker;
use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    client::{Action, AfterExchange, Client as Core, Outcome, Progress, Question, QuestionId},
    connection::SocketId,
    error::Error,
    event::Event,
    operation::{Command, Exchange, OperationId, Span},
    random::Seed,
    selection::SelectorAnswer,
    time::{Instant, WallTime},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

/// What all handles, tasks and operations of one client share.
pub(crate) struct Shared<R: Runtime> {
    pub(crate) runtime: R,
    start: std::time::Duration,
    /// One lock for topology, pools and queues: what belongs to one step is one step for all
    /// threads (CMAP-29, CMAP-36, CMAP-146).
    inner: Mutex<Inner<R::Stream>>,
    /// Wakes the timer when an earlier deadline came up.
    pub(crate) timer: AtomicWaker,
    pub(crate) delivery: Arc<Delivery>,
    ids: ObjectIds,
}

/// What the lock guards.
pub(crate) struct Inner<S> {
    pub(crate) core: Core,
    sockets: BTreeMap<SocketId, Socket<S>>,
    /// Streams that nobody holds any more; they close once the lock is released.
    left: Vec<S>,
    wakers: BTreeMap<OperationId, Waker>,
    /// What the timer task will wake up for.
    pub(crate) timer_set: Option<Instant>,
    /// Tasks that were spawned and have not ended.
    tasks: usize,
    /// Who waits for the end of everything.
    pub(crate) idle: Waiters,
    /// The process that the connections belong to.
    process: Option<u32>,
}

struct Socket<S> {
    /// The stream while it is parked; its holder has it otherwise.
    stream: Option<S>,
    signal: Arc<Signal>,
}

/// What is left to be done once the lock is released.
struct Deferred<S> {
    dials: Vec<(SocketId, Address, Arc<Signal>)>,
    drains: Vec<(SocketId, S, Arc<Signal>)>,
    questions: Vec<(QuestionId, Question)>,
    signals: Vec<Arc<Signal>>,
    wakers: Vec<Waker>,
    streams: Vec<S>,
    rearm: bool,
}

impl<S> Default for Deferred<S> {
    fn default() -> Self {
        Self {
            dials: Vec::new(),
            drains: Vec::new(),
            questions: Vec::new(),
            signals: Vec::new(),
            wakers: Vec::new(),
            streams: Vec::new(),
            rearm: false,
        }
    }
}

/// An exchange together with its socket.
pub(crate) struct ActiveExchange<S> {
    pub(crate) exchange: Exchange,
    pub(crate) stream: S,
    pub(crate) signal: Arc<Signal>,
}

impl<R: Runtime> Shared<R> {
    pub(crate) fn new(
        runtime: R,
        core: Core,
        delivery: Arc<Delivery>,
        ids: ObjectIds,
    ) -> Arc<Self> {
        let (start, process) = (runtime.now(), runtime.process_id());
        Arc::new(Self {
            runtime,
            start,
            inner: Mutex::new(Inner {
                core,
                sockets: BTreeMap::new(),
                left: Vec::new(),
                wakers: BTreeMap::new(),
                timer_set: None,
                tasks: 0,
                idle: Waiters::default(),
                process,
            }),
            timer: AtomicWaker::new(),
            delivery,
            ids,
        })
    }

    /// The core's time.
    pub(crate) fn now(&self) -> Instant {
        let elapsed = self.runtime.now().saturating_sub(self.start);
        Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn wall_time(&self) -> WallTime {
        let millis = self.runtime.wall_time().as_millis();
        WallTime::from_unix_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    pub(crate) fn new_object_id(&self) -> ObjectId {
        self.ids.next(&self.runtime, self.wall_time())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner<R::Stream>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Feeds the core one input and carries out what it orders.
    #[cfg_attr(feature = "__lock-times", track_caller)]
    pub(crate) fn with<T>(
        self: &Arc<Self>,
        input: impl FnOnce(&mut Inner<R::Stream>, Instant) -> T,
    ) -> T {
        let mut guard = self.lock();
        #[cfg(feature = "__lock-times")]
        let watch = crate::lock_times::Watch::start();
        // Read under the lock: the core's time must not go backwards from one input to the next.
        let now = self.now();
        let result = input(&mut guard, now);
        let deferred = guard.collect_orders();
        self.delivery.queue(&mut guard.core);
        drop(guard);
        #[cfg(feature = "__lock-times")]
        drop(watch);
        if let Some(deferred) = deferred {
            if !deferred.dials.is_empty() {
                // A check is told before its socket exists (EVT-18).
                self.deliver();
            }
            self.carry_out(deferred);
        }
        self.deliver();
        result
    }

    fn carry_out(self: &Arc<Self>, deferred: Deferred<R::Stream>) {
        for (socket, address, signal) in deferred.dials {
            let shared = self.clone();
            let mark = self.delivery.mark();
            self.spawn(async move {
                let Self {
                    delivery, runtime, ..
                } = &*shared;
                let limit = || runtime.sleep(MAX_EVENT_DELAY);
                delivery.heard(mark, limit).await;
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
        if deferred.rearm {
            catch_panic(|| self.timer.wake());
        }
        for (id, question) in deferred.questions {
            let shared = self.clone();
            self.runtime.spawn_blocking(move || {
                let answer = answer(question);
                shared.with(|inner, now| inner.core.handle_answer(now, id, answer));
            });
        }
        // Closing does not wait for the peer, and happens outside of the lock (CMAP-64).
        drop(deferred.streams);
    }

    /// Has the listeners called for what was queued, unless they are being called already.
    fn deliver(&self) {
        if let Some(turn) = self.delivery.turn() {
            self.runtime.spawn_blocking(move || turn.run());
        }
    }

    /// Tells an event of an exchange.
    pub(crate) fn publish(&self, event: Event) {
        self.delivery.publish(event);
        self.deliver();
    }

    /// Spawns a task that counts until it ends.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.lock().tasks += 1;
        let ticket = TaskTicket(self.clone());
        self.runtime.spawn(async move {
            let ticket = ticket;
            task.await;
            drop(ticket);
        });
    }

    /// Starts a command of the program that this span belongs to.
    pub(crate) fn begin(
        self: &Arc<Self>,
        command: Command,
        span: &mut Span,
    ) -> Progress<ActiveExchange<R::Stream>> {
        self.with(|inner, now| {
            inner.notice_fork(&self.runtime, now);
            let progress = inner.core.start_in(now, span, command);
            inner.take_socket(now, progress)
        })
    }

    /// Looks how a waiting operation goes on; `waker` is woken when it is worth another look.
    pub(crate) fn resume(
        self: &Arc<Self>,
        id: OperationId,
        waker: &Waker,
    ) -> Progress<ActiveExchange<R::Stream>> {
        // A waker may own a task, and the task operations that are cancelled when it is dropped. So
        // wakers are cloned and dropped outside of the lock.
        let mut waker = Some(waker.clone());
        let (progress, _old) = self.with(|inner, now| {
            let progress = inner.core.resume(now, id);
            let progress = inner.take_socket(now, progress);
            let old = match (&progress, waker.take()) {
                (Progress::Waiting(id), Some(waker)) => inner.wakers.insert(*id, waker),
                (_, unused) => {
                    waker = unused;
                    inner.wakers.remove(&id)
                }
            };
            (progress, old)
        });
        progress
    }

    /// Hands over what the application's server selector said.
    pub(crate) fn narrowed(
        self: &Arc<Self>,
        id: OperationId,
        answer: SelectorAnswer,
    ) -> Progress<ActiveExchange<R::Stream>> {
        self.with(|inner, now| {
            let progress = inner.core.handle_selector_answer(now, id, answer);
            inner.take_socket(now, progress)
        })
    }

    pub(crate) fn cancel(self: &Arc<Self>, id: OperationId) {
        let _old = self.with(|inner, now| {
            inner.core.cancel(now, id);
            inner.wakers.remove(&id)
        });
    }

    /// Gives an exchange back whose connection turned out to be unusable before anything was sent.
    pub(crate) fn refuse(
        self: &Arc<Self>,
        active: ActiveExchange<R::Stream>,
        error: Error,
    ) -> Progress<ActiveExchange<R::Stream>> {
        let ActiveExchange {
            exchange,
            stream,
            signal,
        } = active;
        self.with(|inner, now| {
            inner.take_back(stream, &signal, &exchange);
            let progress = inner.core.refuse(now, exchange, error);
            inner.take_socket(now, progress)
        })
    }

    /// Gives an exchange and its socket back. `Ok(Some(..))`: the operation is tried again.
    pub(crate) fn check_in(
        self: &Arc<Self>,
        active: ActiveExchange<R::Stream>,
        outcome: Outcome,
    ) -> Result<Option<Progress<ActiveExchange<R::Stream>>>, Error> {
        let ActiveExchange {
            exchange,
            stream,
            signal,
        } = active;
        self.with(|inner, now| {
            inner.take_back(stream, &signal, &exchange);
            match inner.core.check_in(now, exchange, outcome) {
                AfterExchange::Done(result) => result.map(|()| None),
                AfterExchange::Again(progress) => Ok(Some(inner.take_socket(now, progress))),
            }
        })
    }
}

impl<S> Inner<S> {
    /// A child that was forked leaves to its parent what belongs to it, before it does anything
    /// else (CMAP-37, CMAP-105).
    pub(crate) fn notice_fork<R: Runtime>(&mut self, runtime: &R, now: Instant) {
        let process = runtime.process_id();
        if process == self.process {
            return;
        }
        self.process = process;
        let mut bytes = [0; 32];
        match runtime.entropy(&mut bytes) {
            Ok(()) => self.core.handle_forked(now, &Seed::new(bytes)),
            // With the same chance as its parent it would use the sessions of its parent.
            Err(_) => self.core.close(now),
        }
    }

    /// Takes an exchange and its socket back from whoever ends with them.
    fn take_back(&mut self, stream: S, signal: &Signal, exchange: &Exchange) {
        // An interruption that was meant for this exchange must not hit the next one. The core
        // interrupts exchanges only, so what it says from now on is meant for a later one.
        drop(signal.take());
        self.park(exchange.socket(), stream);
    }

    /// Puts a stream where exchanges find it.
    pub(crate) fn park(&mut self, id: SocketId, stream: S) {
        match self.sockets.get_mut(&id) {
            Some(socket) => socket.stream = Some(stream),
            None => self.left.push(stream),
        }
    }

    /// Forgets a socket whose holder lets it go.
    pub(crate) fn forget(&mut self, id: SocketId) {
        self.sockets.remove(&id);
    }

    fn take_socket(&mut self, now: Instant, mut progress: Progress) -> Progress<ActiveExchange<S>> {
        loop {
            let exchange = match progress {
                Progress::Exchange(exchange) => exchange,
                Progress::Waiting(id) => return Progress::Waiting(id),
                Progress::Asking {
                    operation,
                    question,
                } => {
                    return Progress::Asking {
                        operation,
                        question,
                    };
                }
                Progress::Failed(error) => return Progress::Failed(error),
            };
            let socket = self.sockets.get_mut(&exchange.socket());
            if let Some((stream, signal)) =
                socket.and_then(|s| Some((s.stream.take()?, s.signal.clone())))
            {
                return Progress::Exchange(ActiveExchange {
                    exchange,
                    stream,
                    signal,
                });
            }
            // The core exchanges only what was parked, so this is a socket that broke meanwhile.
            let error = onionskin_core::connection::closed_by_peer();
            progress = match self.core.check_in(now, exchange, Outcome::Failed(error)) {
                AfterExchange::Again(progress) => progress,
                AfterExchange::Done(Ok(())) => {
                    return Progress::Failed(Error::argument("lost its socket"));
                }
                AfterExchange::Done(Err(error)) => return Progress::Failed(error),
            };
        }
    }

    /// What the core ordered; `None` where there is nothing to do, as mostly.
    fn collect_orders(&mut self) -> Option<Deferred<S>> {
        let mut next = self.core.poll_action();
        let rearm = self.must_rearm();
        if next.is_none() && self.left.is_empty() && !rearm && !self.is_idle() {
            return None;
        }
        let mut deferred = Deferred {
            rearm,
            ..Deferred::default()
        };
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
                Action::Ask { id, question } => deferred.questions.push((id, question)),
                // What a thread computes cannot be stopped; its answer will change nothing.
                Action::Withdraw { .. } => {}
                Action::Wake { operation } => {
                    deferred.wakers.extend(self.wakers.remove(&operation))
                }
                _ => {}
            }
            next = self.core.poll_action();
        }
        deferred.streams.append(&mut self.left);
        if self.is_idle() {
            // Only the tasks would tell otherwise, and those of a runtime that has ended are gone.
            deferred.wakers.extend(self.idle.reached(0));
        }
        Some(deferred)
    }

    /// True if the timer would sleep for too long.
    fn must_rearm(&self) -> bool {
        match (self.core.deadline(), self.timer_set) {
            (Some(deadline), Some(set)) if deadline < set => true,
            (Some(_), None) => true,
            _ => self.core.is_over(),
        }
    }

    /// True when nothing is left: no task and no socket.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks == 0 && self.sockets.is_empty()
    }
}

struct TaskTicket<R: Runtime>(Arc<Shared<R>>);

impl<R: Runtime> Drop for TaskTicket<R> {
    fn drop(&mut self) {
        let mut guard = self.0.lock();
        guard.tasks -= 1;
        let idle = if guard.tasks == 0 {
            guard.idle.reached(0)
        } else {
            Vec::new()
        };
        drop(guard);
        for waker in idle {
            catch_panic(|| waker.wake());
        }
    }
}
