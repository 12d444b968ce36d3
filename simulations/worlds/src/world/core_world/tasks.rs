//! Callers, which pause, start operations, wait for them, and sometimes abandon them.

use super::CoreWorld;
use crate::world::{
    options::WorldOptions,
    report::FailureKind,
    workload::{Absence, Ending, LATE_STEPS, Script, Step},
};
use onionskin_core::{
    client::{Answer, Outcome, Progress, QuestionId},
    error::{Error, ErrorKind},
    operation::{Command, Exchange, OperationId},
    random::Seed,
    time::Instant,
    unstable::connection::SocketId,
};
use std::time::Duration;

/// The time limit of the command that ends sessions.
const END_SESSIONS_TIMEOUT: Duration = Duration::from_secs(2);

/// A caller of one client, which runs one operation after the other.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) script: Script,
    pub(super) state: State,
    /// The number of changes of the state. A scheduled event that has an earlier number is ignored.
    pub(super) turn: u64,
    /// The running operation and its index in the history.
    pub(super) current: Option<(Step, usize)>,
    /// The id of the running operation, once the core has told it.
    operation: Option<OperationId>,
    late_steps: u32,
    /// The number of polls after which the caller abandons its operation, or `None`.
    polls_left: Option<u32>,
    /// The absence of the caller, before the absence begins.
    absence: Option<Absence>,
    /// True if the caller only sends commands that end sessions.
    ends_sessions: bool,
}

#[derive(Debug)]
pub(super) enum State {
    Thinking,
    Waiting(OperationId),
    Exchanging(Box<Exchange>),
    Done,
}

/// A scheduled event. An event with the field `turn` has no effect if the turn of the task has
/// changed.
#[derive(Debug)]
pub(super) enum Wakeup {
    /// A caller starts its next operation.
    Next { task: usize },
    /// A caller abandons the operation with this index in the history.
    Leave { task: usize, place: usize },
    /// A caller resumes its operation.
    Resume { task: usize, turn: u64 },
    /// A caller writes the rest of its request.
    Write { task: usize, turn: u64 },
    /// The core's part of a client writes the rest of what it has to send on a socket.
    Flush { socket: SocketId },
    /// A caller learns that its exchange is interrupted.
    Interrupt {
        task: usize,
        turn: u64,
        error: Error,
    },
    /// The name lookup of a dial fails.
    Unresolved { socket: SocketId },
    /// The derivation of keys is finished.
    Answered { id: QuestionId, answer: Answer },
    /// The core gets inputs about a closed socket.
    LateInput { socket: SocketId },
}

impl Task {
    pub(super) fn new(options: &WorldOptions, seed: &Seed, client: usize, task: usize) -> Self {
        Self {
            script: Script::new(options, seed, client, task),
            state: State::Thinking,
            turn: 0,
            current: None,
            operation: None,
            late_steps: 0,
            polls_left: None,
            absence: None,
            ends_sessions: false,
        }
    }

    /// Counts a wake-up of the caller's operation at `now`. Returns the length of the absence that
    /// begins with this wake-up, or zero. The absence ends at `heals` at the latest.
    fn absence(&mut self, now: Instant, heals: Instant) -> Duration {
        let Some(absence) = &mut self.absence else {
            return Duration::ZERO;
        };
        absence.after = absence.after.saturating_sub(1);
        if absence.after > 0 {
            return Duration::ZERO;
        }
        let time = absence.time.min(heals.saturating_since(now));
        self.absence = None;
        time
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    pub(super) fn waits_for(&self, operation: OperationId) -> bool {
        matches!(self.state, State::Waiting(id) if id == operation)
    }

    pub(super) fn state(&self) -> String {
        match &self.state {
            State::Thinking => "thinks".to_owned(),
            State::Waiting(id) => format!("waits as {} with {:?}", id.0, self.current),
            State::Exchanging(exchange) => {
                format!(
                    "exchanges on {:?} with {:?}",
                    exchange.socket(),
                    self.current
                )
            }
            State::Done => "is done".to_owned(),
        }
    }

    /// Changes the state and returns the former one.
    pub(super) fn turn_to(&mut self, state: State) -> State {
        self.turn += 1;
        match &state {
            State::Waiting(id) => self.operation = Some(*id),
            State::Exchanging(exchange) => self.operation = Some(exchange.operation()),
            State::Thinking | State::Done => {}
        }
        std::mem::replace(&mut self.state, state)
    }
}

impl CoreWorld {
    pub(super) fn on_wakeup(&mut self, client: usize, wakeup: Wakeup) {
        let is_current = |task: usize, turn| self.sides[client].tasks[task].turn == turn;
        match wakeup {
            Wakeup::Next { task } => self.next_step(client, task),
            Wakeup::Leave { task, place } => self.on_leave(client, task, place),
            Wakeup::Resume { task, turn } if is_current(task, turn) => self.resume(client, task),
            Wakeup::Write { task, turn } if is_current(task, turn) => self.write(client, task),
            Wakeup::Interrupt { task, turn, error } if is_current(task, turn) => {
                self.end_exchange(client, task, Outcome::Failed(error));
            }
            Wakeup::Resume { .. } | Wakeup::Write { .. } | Wakeup::Interrupt { .. } => {}
            Wakeup::Flush { socket } => self.flush(client, socket),
            Wakeup::Unresolved { socket } => self.on_unresolved(client, socket),
            Wakeup::Answered { id, answer } => {
                let now = self.now;
                self.sides[client].core.handle_answer(now, id, answer);
                self.drain(client);
            }
            Wakeup::LateInput { socket } => self.give_late_inputs(client, socket),
        }
    }

    /// Returns the time at which a caller polls its operation after a wake-up.
    pub(super) fn next_poll(&mut self, client: usize, task: usize) -> Instant {
        let heals = Instant::ZERO + self.options.safety;
        let absence = self.sides[client].tasks[task].absence(self.now, heals);
        self.now + self.draw_delay() + absence
    }

    pub(super) fn plan_next(&mut self, client: usize, task: usize) {
        let is_late = self.now >= self.late_from;
        let at = self.now + self.sides[client].tasks[task].script.pause(is_late);
        // No operation begins between healing and the end of the time of grace.
        let heals = Instant::ZERO + self.options.safety;
        let at = if at >= heals || self.sides[client].is_closed {
            at.max(self.late_from)
        } else {
            at
        };
        self.schedule(at, client, Wakeup::Next { task });
    }

    fn next_step(&mut self, client: usize, task: usize) {
        let now = self.now;
        let is_late = now >= self.late_from;
        let is_closed = self.sides[client].is_closed;
        let caller = &mut self.sides[client].tasks[task];
        if caller.is_done() {
            return;
        }
        if is_late && (is_closed || caller.late_steps == LATE_STEPS) {
            caller.turn_to(State::Done);
            return;
        }
        caller.late_steps += u32::from(is_late);
        let step = caller.script.step(is_late);
        let place = self.history.begin(client, step, now, is_late);
        caller.current = Some((step, place));
        caller.polls_left = step.polling.polls;
        caller.absence = step.polling.absence;
        if let Some(patience) = step.polling.patience {
            self.schedule(now + patience, client, Wakeup::Leave { task, place });
        }
        self.trace.begin_operation(
            now,
            format_args!(
                "client {client} task {task} begins {:?} of {}",
                step.kind, step.id
            ),
        );
        match step.command(&self.sides[client].preference) {
            Ok(command) => {
                let start = self.sides[client].core.start(now, command);
                self.drain(client);
                self.on_start(client, task, start);
            }
            Err(error) => self.end(client, task, Ending::Failed(error)),
        }
    }

    /// Handles the progress of an operation.
    pub(super) fn on_start(&mut self, client: usize, task: usize, start: Progress) {
        match start {
            Progress::Exchange(exchange) => self.begin_exchange(client, task, exchange),
            Progress::Waiting(id) => {
                self.sides[client].tasks[task].turn_to(State::Waiting(id));
                self.count_poll(client, task);
            }
            Progress::Asking {
                operation,
                question,
            } => {
                let (now, answer) = (self.now, question.ask());
                let next = self.sides[client]
                    .core
                    .handle_selector_answer(now, operation, answer);
                self.drain(client);
                self.on_start(client, task, next);
            }
            Progress::Answered(_) => unreachable!("no program asks here"),
            Progress::Failed(error) => self.end(client, task, Ending::Failed(error)),
        }
    }

    fn resume(&mut self, client: usize, task: usize) {
        let now = self.now;
        let State::Waiting(id) = self.sides[client].tasks[task].state else {
            return;
        };
        let start = self.sides[client].core.resume(now, id);
        self.drain(client);
        if let Progress::Waiting(_) = start {
            return;
        }
        if self.count_poll(client, task) {
            self.on_start(client, task, start);
        } else if let Progress::Exchange(exchange) = start {
            // The caller has abandoned the operation, so the exchange does not begin.
            self.abandon_exchange(client, exchange);
        }
    }

    fn abandon_exchange(&mut self, client: usize, exchange: Exchange) {
        let now = self.now;
        let _ = self.sides[client]
            .core
            .check_in(now, exchange, Outcome::Abandoned);
        self.drain(client);
    }

    /// Counts a poll of the caller. Returns false if the caller abandoned its operation.
    pub(super) fn count_poll(&mut self, client: usize, task: usize) -> bool {
        let caller = &mut self.sides[client].tasks[task];
        match &mut caller.polls_left {
            None => true,
            Some(left) if *left > 1 => {
                *left -= 1;
                true
            }
            Some(_) => {
                self.leave(client, task);
                false
            }
        }
    }

    fn on_leave(&mut self, client: usize, task: usize, place: usize) {
        let current = self.sides[client].tasks[task].current;
        if current.is_some_and(|(_, other)| other == place) {
            self.leave(client, task);
        }
    }

    /// Makes a caller abandon its operation in any state.
    pub(super) fn leave(&mut self, client: usize, task: usize) {
        let now = self.now;
        self.trace
            .note(now, format_args!("client {client} task {task} leaves"));
        if let State::Exchanging(exchange) = &mut self.sides[client].tasks[task].state {
            exchange.end(&Outcome::Abandoned);
        }
        self.observe_exchange(client, task);
        let caller = &mut self.sides[client].tasks[task];
        match caller.turn_to(State::Thinking) {
            State::Waiting(id) => {
                self.sides[client].core.cancel(now, id);
                self.drain(client);
                self.end(client, task, Ending::Abandoned);
            }
            State::Exchanging(exchange) => {
                self.park(client, &exchange);
                let _ = self.sides[client]
                    .core
                    .check_in(now, *exchange, Outcome::Abandoned);
                self.drain(client);
                self.end(client, task, Ending::Abandoned);
            }
            State::Thinking | State::Done => {}
        }
    }

    /// Handles the end of an operation.
    pub(super) fn end(&mut self, client: usize, task: usize, ending: Ending) {
        let now = self.now;
        let caller = &mut self.sides[client].tasks[task];
        caller.turn_to(State::Thinking);
        if let Some(id) = caller.operation.take() {
            self.trace.end_operation(now, client, id, &ending);
        }
        let Some((step, place)) = caller.current.take() else {
            // The operation is a command whose result does not matter.
            if caller.ends_sessions {
                return self.end_sessions_of(client, task);
            }
            caller.turn_to(State::Done);
            return;
        };
        self.trace.note(
            now,
            format_args!("client {client} task {task} ends {:?}: {ending:?}", step.id),
        );
        let is_closed = matches!(&ending, Ending::Failed(e) if is_client_closed(e));
        if is_closed && !self.sides[client].is_closed {
            let message =
                format!("client {client} failed an operation with Shutdown before it was closed");
            self.fail(FailureKind::Correctness, message);
        }
        self.history.end(place, now, ending);
        self.plan_next(client, task);
    }

    /// Starts an additional caller that ends the sessions of a client. Does nothing if the client
    /// is closed.
    pub(super) fn end_sessions(&mut self, client: usize) {
        if self.sides[client].is_closed {
            return;
        }
        let task = self.add_caller(client);
        self.sides[client].tasks[task].ends_sessions = true;
        self.end_sessions_of(client, task);
    }

    /// Runs a command whose result does not matter, by an additional caller.
    pub(super) fn run_in_background(&mut self, client: usize, command: Command) {
        let now = self.now;
        let task = self.add_caller(client);
        let start = self.sides[client].core.start(now, command);
        self.drain(client);
        self.on_start(client, task, start);
    }

    fn add_caller(&mut self, client: usize) -> usize {
        let seed = crate::world::options::world_seed(self.seed);
        let caller = Task::new(&self.options, &seed, client, self.options.most_tasks());
        self.sides[client].tasks.push(caller);
        self.sides[client].tasks.len() - 1
    }

    fn end_sessions_of(&mut self, client: usize, task: usize) {
        let now = self.now;
        let side = &mut self.sides[client];
        let Some(mut command) = side.core.end_sessions() else {
            side.tasks[task].turn_to(State::Done);
            return;
        };
        command.set_timeout(Some(END_SESSIONS_TIMEOUT));
        let start = side.core.start(now, command);
        self.drain(client);
        self.on_start(client, task, start);
    }
}

fn is_client_closed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Shutdown)
}
