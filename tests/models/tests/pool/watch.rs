//! Checks each order and event of a pool against the inputs, orders and events before it. The
//! counts that follow from them must be the pool's counts.

use crate::{
    bench::{Found, id_of},
    services::Services,
};
use onionskin_core::{
    event::{CheckOutFailure, CloseReason},
    time::Instant,
    unstable::pool::{Counts, Pool, PoolOptions, PoolState},
};
use onionskin_models::pool::{Answer, Input, Output};
use std::{collections::BTreeMap, time::Duration};

/// The state of a connection, as it follows from orders and inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    /// The connection is being established, for the request with this number if there is one.
    Pending(Option<u64>),
    Available,
    InUse,
    /// The connection was checked in by the current input.
    Returned,
    /// The connection was checked in by the current input, while a reply is outstanding.
    Left,
    /// The connection is draining: its late reply is outstanding.
    Draining,
    /// The closed event of the connection came, and the order to close it has to follow.
    Closing,
}

/// The state of a pool, as it follows from its inputs, orders and events.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    options: PoolOptions,
    subscribed: bool,
    connections: BTreeMap<u64, ConnectionState>,
    last_id: u64,
    /// The requests that wait for a connection or for permission to establish one, oldest first.
    queue: Vec<u64>,
    /// The requests whose connection was closed during its establishment. The failure of these
    /// requests has to follow.
    orphans: Vec<u64>,
    generation: u64,
    paused: bool,
    closed: bool,
    /// The number of check outs that have started and not ended, by the events.
    open: usize,
    /// The connection and duration of the last checked out event, whose grant has to follow.
    granted: Option<(u64, Duration)>,
    /// The reason and duration of the last check out failed event, whose failure has to follow.
    failed: Option<(CheckOutFailure, Duration)>,
    /// The latest connection that became ready, and the duration of its establishment. The check
    /// out that waits for it takes at least as long (CMAP-125).
    ready: Option<(u64, Duration)>,
    interrupted: Vec<u64>,
    services: Services,
}

impl Watcher {
    pub(crate) fn new(options: PoolOptions, subscribed: bool) -> Self {
        Self {
            options,
            subscribed,
            connections: BTreeMap::new(),
            last_id: 0,
            queue: Vec::new(),
            orphans: Vec::new(),
            generation: 0,
            paused: true,
            closed: false,
            open: 0,
            granted: None,
            failed: None,
            ready: None,
            interrupted: Vec::new(),
            services: Services::default(),
        }
    }

    /// Checks the outputs of a new pool: the pool created event, or nothing without subscribers
    /// (CMAP-52).
    pub(crate) fn first(&self, outputs: &[Output]) -> Found {
        let expected: &[Output] = if self.subscribed {
            &[Output::PoolCreated]
        } else {
            &[]
        };
        want(outputs == expected, || format!("begins with {outputs:?}"))
    }

    pub(crate) fn connections(&self) -> Vec<u64> {
        self.connections.keys().copied().collect()
    }

    fn in_state(&self, wanted: impl Fn(ConnectionState) -> bool) -> Vec<u64> {
        let there = self.connections.iter().filter(|(_, state)| wanted(**state));
        there.map(|(id, _)| *id).collect()
    }

    pub(crate) fn pending(&self) -> Vec<u64> {
        self.in_state(|state| matches!(state, ConnectionState::Pending(_)))
    }

    pub(crate) fn available(&self) -> Vec<u64> {
        self.in_state(|state| state == ConnectionState::Available)
    }

    pub(crate) fn draining(&self) -> Vec<u64> {
        self.in_state(|state| state == ConnectionState::Draining)
    }

    pub(crate) fn in_use(&self) -> Vec<u64> {
        self.in_state(|state| state == ConnectionState::InUse)
    }

    pub(crate) const fn is_balanced(&self) -> bool {
        self.options.load_balanced
    }

    /// True if the connection can be established now. Behind a load balancer the `hello` reply with
    /// the service must come first (LB-28).
    pub(crate) fn may_be_established(&self, connection: u64) -> bool {
        !self.options.load_balanced || self.services.knows(connection)
    }

    /// Returns the requests that have no result yet.
    pub(crate) fn waiting(&self) -> Vec<u64> {
        let bound = self.connections.values().filter_map(|state| match state {
            ConnectionState::Pending(request) => *request,
            _ => None,
        });
        self.queue.iter().copied().chain(bound).collect()
    }

    /// Checks one input and all orders and events that followed it.
    pub(crate) fn handle(
        &mut self,
        input: &Input,
        answer: &Answer,
        outputs: &[Output],
        pool: &Pool<u64>,
    ) -> Found {
        let waited = !self.queue.is_empty();
        self.services.before(input, answer, &self.pending())?;
        self.before(input, answer);
        for output in outputs {
            self.note(input, output)
                .map_err(|what| format!("{output:?} of {outputs:?}: {what}"))?;
        }
        if let Answer::Granted(id) = answer {
            want(!waited, || "a newcomer overtakes (CMAP-33)".into())?;
            self.mark_in_use(*id)?;
            self.granted = None;
        }
        if matches!(answer, Answer::Failed(_)) {
            self.failed = None;
        }
        self.after(pool)
    }

    /// Applies the effects of the input itself.
    fn before(&mut self, input: &Input, answer: &Answer) {
        match (input, answer) {
            (Input::CheckOut { request, .. }, Answer::Waiting) => self.queue.push(*request),
            (Input::Cancel(request), _) => self.remove_request(*request),
            (Input::CheckIn { connection, .. }, Answer::Done) => {
                self.connections
                    .insert(*connection, ConnectionState::Returned);
                self.interrupted.retain(|id| id != connection);
            }
            (Input::CheckInDue(connection), Answer::Done) => {
                self.connections.insert(*connection, ConnectionState::Left);
                self.interrupted.retain(|id| id != connection);
            }
            (Input::Drained(id), _) => {
                if let Some(state @ ConnectionState::Draining) = self.connections.get_mut(id) {
                    *state = ConnectionState::Available;
                }
            }
            (Input::Established(id), _) => {
                if let Some(state @ ConnectionState::Pending(None)) = self.connections.get_mut(id) {
                    *state = ConnectionState::Available;
                }
            }
            (Input::Clear { .. }, _) => self.paused = true,
            (Input::Ready, _) => self.paused = false,
            (Input::Close, _) => self.closed = true,
            _ => {}
        }
    }

    fn remove_request(&mut self, request: u64) {
        self.queue.retain(|r| *r != request);
        for state in self.connections.values_mut() {
            if *state == ConnectionState::Pending(Some(request)) {
                *state = ConnectionState::Pending(None);
            }
        }
    }

    fn note(&mut self, input: &Input, output: &Output) -> Found {
        if self.granted.is_some() && self.subscribed {
            let follows = matches!(output, Output::Grant(..));
            want(follows, || {
                "nothing comes between event and grant (CMAP-86)".into()
            })?;
        }
        if output.is_event() && !self.subscribed {
            return Err("nobody listens".into());
        }
        match output {
            Output::PoolCreated
            | Output::PoolReady
            | Output::PoolCleared { .. }
            | Output::PoolClosed => self.note_pool(input, output),
            Output::ServiceCleared(service) => self.services.note_cleared(*service),
            Output::Created(id) => {
                want(*id == self.last_id + 1, || {
                    "numbers go up by one (CMAP-21)".into()
                })?;
                want(!self.paused && !self.closed, || {
                    "not while paused (CMAP-67)".into()
                })
            }
            Output::Open(id) => self.open(*id),
            Output::Ready(id, duration) => {
                self.ready = Some((*id, *duration));
                want(*input == Input::Established(*id), || "it is not".into())
            }
            Output::Closed(id, reason) => self.close(input, *id, *reason),
            Output::Close(id) => {
                if !self.subscribed {
                    self.close(input, *id, CloseReason::Error)?;
                }
                self.services.close(*id)?;
                let gone = self.connections.remove(id);
                want(gone == Some(ConnectionState::Closing), || {
                    format!("it was {gone:?}")
                })
            }
            Output::Started => {
                self.open += 1;
                want(matches!(input, Input::CheckOut { .. }), || {
                    "no check out began".into()
                })
            }
            Output::CheckedOut(id, duration) => {
                self.end()?;
                self.granted = Some((*id, *duration));
                let slow = self.ready.take().filter(|(ready, _)| ready == id);
                let longer = slow.is_some_and(|(_, ready)| ready > *duration);
                let owned = self.connections.get(id) != Some(&ConnectionState::Available);
                want(!(longer && owned), || "ready took longer (CMAP-125)".into())
            }
            Output::Failed(reason, _, duration) => {
                self.end()?;
                self.failed = Some((*reason, *duration));
                if matches!(input, Input::Cancel(_)) {
                    self.failed = None;
                }
                Ok(())
            }
            Output::CheckedIn(id) => {
                use ConnectionState::{Left, Returned};
                let returned = matches!(self.connections.get(id), Some(Returned | Left));
                want(returned, || "it was not checked in".into())
            }
            Output::Grant(request, id) => self.grant(*request, *id),
            Output::Fail(request, _) => self.fail(*request),
            Output::Interrupt(id, _) => self.interrupt(input, *id),
        }
    }

    /// Checks that a connection is interrupted at most once, while it is in use, and only by a
    /// clear with `interruptInUseConnections` (CMAP-94).
    fn interrupt(&mut self, input: &Input, id: u64) -> Found {
        let twice = self.interrupted.contains(&id);
        self.interrupted.push(id);
        let used = self.connections.get(&id) == Some(&ConnectionState::InUse);
        let meant = matches!(input, Input::Clear { interrupt: true });
        want(used && meant && !twice, || {
            "this interruption is not permitted".into()
        })
    }

    fn note_pool(&self, input: &Input, output: &Output) -> Found {
        let meant = match output {
            Output::PoolReady => *input == Input::Ready,
            Output::PoolCleared { interrupt } => {
                let interrupt = *interrupt;
                *input == Input::Clear { interrupt }
            }
            Output::PoolClosed => {
                *input == Input::Close && self.available().is_empty() && self.draining().is_empty()
            }
            _ => false,
        };
        want(meant, || "this output is not permitted".into())
    }

    fn end(&mut self) -> Found {
        let open = self.open.checked_sub(1);
        self.open = open.ok_or("a check out ends that never began (trap 11)")?;
        Ok(())
    }

    fn open(&mut self, id: u64) -> Found {
        self.last_id += 1;
        want(id == self.last_id, || "another was created".into())?;
        // The connection is for the request at the head of the queue, or for no request if the
        // queue is empty.
        let owner = (!self.queue.is_empty()).then(|| self.queue.remove(0));
        let old = self.connections.insert(id, ConnectionState::Pending(owner));
        want(old.is_none(), || "it exists".into())
    }

    fn close(&mut self, input: &Input, id: u64, reason: CloseReason) -> Found {
        let Some(state) = self.connections.get_mut(&id) else {
            return Err("it is gone".into());
        };
        let allowed = match std::mem::replace(state, ConnectionState::Closing) {
            ConnectionState::Pending(owner) => {
                let established = *input == Input::Established(id);
                match owner {
                    // A stale connection does not fail its request behind a load balancer. The
                    // request returns to the head of the queue (CMAP-102).
                    Some(owner) if established && self.options.load_balanced => {
                        self.queue.insert(0, owner);
                    }
                    owner => self.orphans.extend(owner),
                }
                reason != CloseReason::Idle
            }
            ConnectionState::Available => true,
            ConnectionState::Returned | ConnectionState::Left | ConnectionState::Draining => {
                reason != CloseReason::Idle
            }
            ConnectionState::InUse | ConnectionState::Closing => false,
        };
        let because = !self.subscribed
            || self.closed == (reason == CloseReason::PoolClosed)
            || matches!(input, Input::CheckIn { .. } | Input::CheckInDue(_)) && !self.closed;
        let stale = reason != CloseReason::Stale || !self.options.load_balanced;
        let stale = stale || self.services.is_stale(id);
        want(allowed && because && stale, || {
            format!("not for {reason:?}")
        })
    }

    fn grant(&mut self, request: u64, id: u64) -> Found {
        let has_event = self
            .granted
            .take()
            .is_some_and(|(granted, _)| granted == id);
        want(has_event || !self.subscribed, || {
            "no event came before".into()
        })?;
        if self.connections.get(&id) != Some(&ConnectionState::Pending(Some(request))) {
            let next = self.queue.first() == Some(&request);
            want(next, || "an earlier one waits (CMAP-30)".into())?;
        }
        self.remove_request(request);
        self.mark_in_use(id)
    }

    fn mark_in_use(&mut self, id: u64) -> Found {
        let old = self.connections.insert(id, ConnectionState::InUse);
        let free = matches!(
            old,
            Some(
                ConnectionState::Available
                    | ConnectionState::Returned
                    | ConnectionState::Pending(None)
            )
        );
        let stale = self.services.is_stale(id);
        want(free && !stale, || {
            format!("checks out {id}, which was {old:?}")
        })
    }

    fn fail(&mut self, request: u64) -> Found {
        let has_event = self.failed.take().is_some();
        want(has_event || !self.subscribed, || {
            "no event came before".into()
        })?;
        let orphan = self.orphans.iter().position(|r| *r == request);
        if let Some(at) = orphan {
            self.orphans.remove(at);
            return Ok(());
        }
        let waits = self.waiting().contains(&request);
        self.remove_request(request);
        want(waits, || "it did not wait".into())
    }

    /// Checks the conditions that hold between any two inputs.
    fn after(&mut self, pool: &Pool<u64>) -> Found {
        for state in self.connections.values_mut() {
            match state {
                ConnectionState::Returned => *state = ConnectionState::Available,
                ConnectionState::Left => *state = ConnectionState::Draining,
                _ => {}
            }
        }
        let closing = self.in_state(|state| state == ConnectionState::Closing);
        want(closing.is_empty(), || format!("{closing:?} are not closed"))?;
        want(self.orphans.is_empty(), || {
            format!("{:?} got no answer", self.orphans)
        })?;
        want(self.failed.is_none() && self.granted.is_none(), || {
            "an event came without its order".into()
        })?;
        let size = |ids: Vec<u64>| u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let replayed = Counts {
            total: size(self.connections()),
            available: size(self.available()),
            pending: size(self.pending()),
            in_use: size(self.in_use()),
            draining: size(self.draining()),
            waiting: size(self.queue.clone()),
        };
        let counts = pool.counts();
        want(counts == replayed, || {
            format!("{counts:?}, not {replayed:?}")
        })?;
        let sum = counts.available + counts.pending + counts.in_use + counts.draining;
        want(counts.total == sum, || {
            "the counts do not add up (CMAP-24)".into()
        })?;
        let limit = self.options.max_size;
        let full = limit != 0 && counts.total == limit;
        want(full || limit == 0 || counts.total < limit, || {
            "too many (CMAP-42)".into()
        })?;
        let most = self.options.max_connecting.max(1);
        want(counts.pending <= most, || {
            "too many pending (CMAP-43)".into()
        })?;
        if counts.waiting > 0 {
            let serves = pool.state() == PoolState::Ready;
            let needs = counts.available == 0 && (full || counts.pending == most);
            want(serves && needs, || "waits for what is there".into())?;
        }
        if self.subscribed {
            let waiting = self.waiting().len();
            want(self.open == waiting, || {
                "one end for each start (trap 11)".into()
            })?;
        }
        if self.options.load_balanced {
            return self.services.after(pool, self.subscribed);
        }
        let generation = pool.generation();
        want(generation >= self.generation, || {
            "the generation falls".into()
        })?;
        self.generation = generation;
        for id in self.connections() {
            let of = pool.generation_of(id_of(pool, id));
            want(of.is_some_and(|of| of <= generation), || {
                format!("{id} is of {of:?}")
            })?;
        }
        Ok(())
    }

    /// Checks that a closed pool has no connection, no request and no deadline.
    pub(crate) fn is_over(&self, pool: &Pool<u64>) -> Found {
        let due: Option<Instant> = pool.deadline();
        let nothing = self.connections.is_empty() && self.waiting().is_empty() && self.open == 0;
        let nothing = nothing && self.services.is_empty();
        let over = nothing && due.is_none() && pool.counts() == Counts::default();
        want(over, || format!("left behind: {self:?}, due {due:?}"))
    }
}

pub(crate) fn want(holds: bool, what: impl FnOnce() -> String) -> Found {
    if holds { Ok(()) } else { Err(what()) }
}
