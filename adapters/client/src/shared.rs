//! The core behind its lock, and the code that carries out its actions.

use crate::{
    Runtime,
    client::Handle,
    events::{Delivery, Turn},
    exchange::{ActiveExchange, Started},
    failures::FailureFile,
    hosts::Hosts,
    ids::ObjectIds,
    resolver::Resolvers,
    signal::Signal,
    user_code::catch_panic,
    waiters::Waiters,
};
use atomic_waker::AtomicWaker;
use bson::oid::ObjectId;
use onionskin_core::{
    client::{
        AfterExchange, Client as Core, Outcome, Progress, QuestionId, SelectorAnswer, SocketId,
        Table, closed_by_peer,
    },
    error::Error,
    event::Event,
    operation::{Ask, Command, Exchange, OperationId, Span},
    options::Cryptography,
    random::Seed,
    time::{Instant, WallTime},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Duration,
};

/// The state that all handles, tasks and operations of one client share.
pub(crate) struct Shared<R: Runtime> {
    pub(crate) runtime: R,
    /// The time at which the clock of the core started, on the clock of the runtime.
    pub(crate) start: Duration,
    /// One lock for topology, pools and wait queues. Each input changes all of them in one step for
    /// all threads (CMAP-29, CMAP-36, CMAP-146).
    inner: Mutex<Inner<R::Stream>>,
    /// The waker of the timer task, which must wake for an earlier deadline and at the end of the
    /// client.
    pub(crate) timer: AtomicWaker,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) resolvers: Resolvers,
    pub(crate) hosts: Hosts,
    ids: ObjectIds,
    /// True if the operation that began last had to wait. The next one is expected to wait as well.
    /// Nothing depends on this expectation but the number of locks that are taken.
    waited: AtomicBool,
    /// The library for the TLS of HTTP requests.
    pub(crate) cryptography: Cryptography,
    /// The file for the recording after a failure; `None` if there is none.
    failures: Option<FailureFile>,
    /// The handle of the client, for the commands that the client itself runs.
    pub(crate) handle: OnceLock<Weak<Handle<R>>>,
}

/// The state that the lock protects.
pub(crate) struct Inner<S> {
    pub(crate) core: Core,
    pub(crate) sockets: Table<SocketId, Socket<S>>,
    /// The questions that tasks answer, with the signals of these tasks.
    pub(crate) asked: Table<QuestionId, Arc<Signal>>,
    /// Streams without an owner. They are closed after the lock is released.
    pub(crate) abandoned_streams: Vec<S>,
    pub(crate) wakers: Table<OperationId, Waker>,
    /// The deadline for which the timer task waits.
    pub(crate) timer_set: Option<Instant>,
    /// The number of spawned tasks that have not ended.
    tasks: usize,
    /// The wakers of shutdowns, which wait until the client has no tasks and no sockets.
    pub(crate) idle: Waiters,
    /// The wakers of those who wait for the connections of `minPoolSize`.
    pub(crate) warm: Waiters,
    /// The id of the process to which the connections belong; `None` if the runtime does not report
    /// it.
    process: Option<u32>,
}

pub(crate) struct Socket<S> {
    /// The stream while it is parked. Otherwise a task or an exchange has the stream, or a task
    /// still dials.
    pub(crate) stream: Option<S>,
    pub(crate) signal: Arc<Signal>,
}

/// Returns the current time on a clock of the core that started at `start` of the runtime's clock.
pub(crate) fn since(runtime: &impl Runtime, start: Duration) -> Instant {
    let elapsed = runtime.now().saturating_sub(start);
    let seconds = elapsed.as_secs().saturating_mul(1_000_000_000);
    Instant::from_nanos(seconds.saturating_add(elapsed.subsec_nanos().into()))
}

impl<R: Runtime> Shared<R> {
    pub(crate) fn new(
        (runtime, start): (R, Duration),
        core: Core,
        delivery: Arc<Delivery>,
        resolvers: Resolvers,
        ids: ObjectIds,
        cryptography: Cryptography,
        failures: Option<FailureFile>,
    ) -> Arc<Self> {
        let process = runtime.process_id();
        Arc::new(Self {
            runtime,
            start,
            inner: Mutex::new(Inner {
                core,
                sockets: Table::default(),
                asked: Table::default(),
                abandoned_streams: Vec::new(),
                wakers: Table::default(),
                timer_set: None,
                tasks: 0,
                idle: Waiters::default(),
                warm: Waiters::default(),
                process,
            }),
            timer: AtomicWaker::new(),
            delivery,
            resolvers,
            hosts: Hosts::default(),
            ids,
            waited: AtomicBool::new(false),
            cryptography,
            failures,
            handle: OnceLock::new(),
        })
    }

    /// Returns the current time on the clock of the core.
    pub(crate) fn now(&self) -> Instant {
        since(&self.runtime, self.start)
    }

    pub(crate) fn wall_time(&self) -> WallTime {
        WallTime::from_unix(self.runtime.wall_time())
    }

    pub(crate) fn new_object_id(&self) -> ObjectId {
        self.ids.next(&self.runtime, self.wall_time())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner<R::Stream>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the core has panicked, so that its state is unknown.
    pub(crate) fn has_panicked(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Gives the core one input and carries out its actions.
    #[cfg_attr(feature = "__lock-times", track_caller)]
    pub(crate) fn with<T>(
        self: &Arc<Self>,
        input: impl FnOnce(&mut Inner<R::Stream>, Instant) -> T,
    ) -> T {
        let mut guard = self.lock();
        #[cfg(feature = "__lock-times")]
        let watch = crate::lock_times::Watch::start();
        // The time is read under the lock, because the time must not decrease from one input of the
        // core to the next.
        let now = self.now();
        let result = input(&mut guard, now);
        let deferred = guard.collect_orders();
        self.delivery.queue(&mut guard.core);
        let failures = self.failures.as_ref();
        let recording = failures.and_then(|file| Some((file, file.take(&mut guard.core, now)?)));
        drop(guard);
        #[cfg(feature = "__lock-times")]
        drop(watch);
        if let Some(deferred) = deferred {
            if !deferred.dials.is_empty() {
                // A heartbeat started event must be delivered before the socket exists (EVT-18).
                self.deliver();
            }
            self.carry_out(deferred);
        }
        if let Some((file, recording)) = recording {
            file.write(&self.runtime, recording);
        }
        self.deliver();
        result
    }

    /// Starts the delivery of queued events, unless it is running.
    fn deliver(self: &Arc<Self>) {
        if let Some(turn) = self.delivery.turn() {
            self.call_listeners(turn);
        }
    }

    fn call_listeners(self: &Arc<Self>, turn: Turn) {
        if R::RUNS_IN_BACKGROUND {
            return self.runtime.spawn_blocking(move || turn.run());
        }
        // The thread that delivers events has a call of its own. Therefore it delivers a bounded
        // number of events at a time.
        let shared = Arc::downgrade(self);
        self.runtime.spawn_blocking(move || {
            if let Some(turn) = turn.run_some()
                && let Some(shared) = shared.upgrade()
            {
                shared.call_listeners(turn);
            }
        });
    }

    /// Delivers an event of an operation or an exchange.
    pub(crate) fn publish(self: &Arc<Self>, event: Event) {
        self.delivery.publish(event);
        self.deliver();
    }

    /// Spawns a task. The client counts the task until it has ended or is dropped.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(self.counted(task));
    }

    /// Spawns a task that closes something after its owner was dropped. The client counts the task.
    pub(crate) fn spawn_cleanup(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn_cleanup(self.counted(task));
    }

    fn counted(
        self: &Arc<Self>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.lock().tasks += 1;
        let ticket = TaskTicket(self.clone());
        async move {
            let ticket = ticket;
            task.await;
            drop(ticket);
        }
    }

    /// Starts a command of a program. `span` is the span of that program. Returns the progress, and
    /// true if `waker` is left to be woken when the operation should be resumed.
    pub(crate) fn begin(
        self: &Arc<Self>,
        command: Command,
        span: &mut Span,
        waker: &Waker,
    ) -> (Started<R::Stream>, bool) {
        // A waker is cloned and dropped outside of the lock (see `resume`). An operation that finds
        // a connection needs no waker, so it is cloned only if the last operation waited.
        let waker = self.waited.load(Ordering::Relaxed).then(|| waker.clone());
        let (progress, is_left, _unused) = self.with(|inner, now| {
            inner.notice_fork(self, now);
            let progress = inner.core.start_in(now, span, command);
            match (inner.take_socket(now, progress), waker) {
                (Progress::Waiting(id), Some(waker)) => {
                    let old = inner.wakers.insert(id, waker);
                    (Progress::Waiting(id), true, old)
                }
                (progress, unused) => (progress, false, unused),
            }
        });
        let waits = matches!(progress, Progress::Waiting(_));
        if waits != self.waited.load(Ordering::Relaxed) {
            self.waited.store(waits, Ordering::Relaxed);
        }
        (progress, is_left)
    }

    /// Asks the question of a program. `span` is the span of that program, and `held` the exchange
    /// that it keeps meanwhile.
    pub(crate) fn ask(
        self: &Arc<Self>,
        ask: Ask,
        span: &mut Span,
        held: Option<&mut Exchange>,
    ) -> Started<R::Stream> {
        self.with(|inner, now| {
            inner.notice_fork(self, now);
            let progress = inner.core.ask_in(now, span, ask, held);
            inner.take_socket(now, progress)
        })
    }

    /// Returns the progress of a waiting operation. `waker` is woken when the operation should be
    /// resumed.
    pub(crate) fn resume(self: &Arc<Self>, id: OperationId, waker: &Waker) -> Started<R::Stream> {
        // Dropping a waker can drop a task, which can cancel operations and thus take the lock. So
        // wakers are cloned and dropped outside of the lock.
        let mut waker = Some(waker.clone());
        let (progress, _old) = self.with(|inner, now| {
            let progress = inner.core.resume(now, id);
            let progress = inner.take_socket(now, progress);
            let old = match (&progress, waker.take()) {
                (Progress::Waiting(id), Some(waker)) => inner.wakers.insert(*id, waker),
                (_, unused) => {
                    waker = unused;
                    inner.wakers.remove(id)
                }
            };
            (progress, old)
        });
        progress
    }

    /// Gives the answer of the application's server selector to the core.
    pub(crate) fn answer_selector(
        self: &Arc<Self>,
        id: OperationId,
        answer: SelectorAnswer,
    ) -> Started<R::Stream> {
        self.with(|inner, now| {
            let progress = inner.core.handle_selector_answer(now, id, answer);
            inner.take_socket(now, progress)
        })
    }

    pub(crate) fn cancel(self: &Arc<Self>, id: OperationId) {
        let _old = self.with(|inner, now| {
            inner.core.cancel(now, id);
            inner.wakers.remove(id)
        });
    }

    /// Gives an exchange back to the core, because its connection failed before the request was
    /// sent. Returns the progress of the operation.
    pub(crate) fn refuse(
        self: &Arc<Self>,
        active: ActiveExchange<R::Stream>,
        error: Error,
    ) -> Started<R::Stream> {
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

    /// Checks in an exchange and its stream. `Ok(Some(..))` means that the operation has another
    /// attempt.
    pub(crate) fn check_in(
        self: &Arc<Self>,
        active: ActiveExchange<R::Stream>,
        outcome: Outcome,
    ) -> Result<Option<Started<R::Stream>>, Error> {
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
    /// If the process was forked, resets the core before the next input, so that it does not use
    /// the connections and sessions of the parent process (CMAP-37, CMAP-105).
    pub(crate) fn notice_fork<R: Runtime>(&mut self, shared: &Shared<R>, now: Instant) {
        let process = shared.runtime.process_id();
        if process == self.process {
            return;
        }
        self.process = process;
        shared.hosts.handle_forked();
        let mut bytes = [0; 32];
        match shared.runtime.entropy(&mut bytes) {
            Ok(()) => self.core.handle_forked(now, &Seed::new(bytes)),
            // Without a new seed the child would use the same session ids as its parent.
            Err(_) => self.core.close(now),
        }
    }

    /// Parks the stream of an exchange that ends.
    fn take_back(&mut self, stream: S, signal: &Signal, exchange: &Exchange) {
        // An interruption that came too late for this exchange is dropped, because it must not
        // affect the next exchange.
        drop(signal.take());
        self.park(exchange.socket(), stream);
    }

    /// Parks a stream, so that the next exchange of its connection finds it. If the socket is
    /// unknown, the stream is closed.
    pub(crate) fn park(&mut self, id: SocketId, stream: S) {
        match self.sockets.get_mut(id) {
            Some(socket) => socket.stream = Some(stream),
            None => self.abandoned_streams.push(stream),
        }
    }

    /// Removes a socket whose stream is closed.
    pub(crate) fn forget(&mut self, id: SocketId) {
        self.sockets.remove(id);
    }

    fn take_socket(&mut self, now: Instant, mut progress: Progress) -> Started<S> {
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
                Progress::Answered(answer) => return Progress::Answered(answer),
                Progress::Failed(error) => return Progress::Failed(error),
            };
            let socket = self.sockets.get_mut(exchange.socket());
            if let Some((stream, signal)) =
                socket.and_then(|s| Some((s.stream.take()?, s.signal.clone())))
            {
                return Progress::Exchange(ActiveExchange {
                    exchange,
                    stream,
                    signal,
                });
            }
            // The socket of an exchange is parked. If its stream is missing, the socket broke
            // meanwhile.
            let error = closed_by_peer();
            progress = match self.core.check_in(now, exchange, Outcome::Failed(error)) {
                AfterExchange::Again(progress) => progress,
                AfterExchange::Done(Ok(())) => {
                    let message =
                        "the socket of the connection was closed before the command was sent";
                    return Progress::Failed(Error::argument(message));
                }
                AfterExchange::Done(Err(error)) => return Progress::Failed(error),
            };
        }
    }

    /// True if the timer task must wake earlier than it is set for, or must end.
    pub(crate) fn must_rearm(&self) -> bool {
        match (self.core.deadline(), self.timer_set) {
            (Some(deadline), Some(set)) if deadline < set => true,
            (Some(_), None) => true,
            _ => self.core.is_terminated(),
        }
    }

    /// True if there are no tasks and no sockets.
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
