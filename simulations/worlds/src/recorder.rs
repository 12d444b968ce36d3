//! Recordings of clients on real sockets, as pictures.
//!
//! A [`Recorder`] listens to the events of clients and makes the page of HTML that simulated runs
//! have: servers as each client knows them, pools, operations with their phases, and events. Write
//! the page when something goes wrong, or at the end of a test. A client tells of its events
//! through its adapter, so the recorder needs no access to the driver.
//!
//! ```
//! use onionskin::{ClientBuilder, Runtime};
//! use onionskin_worlds::recorder::Recorder;
//! use std::time::Duration;
//!
//! # fn example<R: Runtime>(builder: ClientBuilder<R>) {
//! let recorder = Recorder::of_slow_operations(Duration::from_millis(50));
//! let builder = builder.event_listener(recorder.listener());
//! # let _ = builder;
//! // … build the client and use it. When an operation has failed:
//! let page = recorder.page("orders", Some("an order was not placed"));
//! # let _ = page;
//! # }
//! ```
//!
//! A page has texts of events and errors, but no documents: neither commands nor replies. Names of
//! commands, databases and hosts are in it, and messages of servers.

#[cfg(test)]
mod tests;

use crate::world::{
    picture::{Heading, MarkKind, Picture},
    report::{Failure, FailureKind},
};
use bson::RawDocumentBuf;
use onionskin::event::EventListener;
use onionskin_core::{
    event::{CommandEvent, Event, EventKind, OperationEvent, PoolEvent, SelectionEvent},
    time::Instant,
};
use onionskin_deployment::deployment::MemberState;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The largest number of operations whose events are held until they end. Each further operation
/// replaces the earliest one of the first client that has any, which is not shown.
const MAX_HELD_OPERATIONS: usize = 100_000;

/// The largest number of events that are held of one operation. Further ones are not shown.
const MAX_HELD_EVENTS: usize = 1_000;

/// Records the events of clients. Clones share one recording.
///
/// A recording has the last 100,000 events, and as many spans of each server, pool and list of
/// operations. The page says how many earlier ones it lacks.
#[derive(Clone, Debug)]
pub struct Recorder {
    start: std::time::Instant,
    /// Operations that succeed at once in less than this time are not shown; `None` shows all.
    slow: Option<Duration>,
    recording: Arc<Mutex<Recording>>,
}

#[derive(Debug, Default)]
struct Recording {
    picture: Picture,
    clients: usize,
    /// The events of operations that have not ended, by client and operation.
    held: BTreeMap<(usize, u64), Held>,
}

/// The events of an operation that has not ended.
#[derive(Debug)]
struct Held {
    start: Instant,
    has_failed_attempt: bool,
    events: Vec<(Instant, EventKind)>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Returns a recorder of all events.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: std::time::Instant::now(),
            slow: None,
            recording: Arc::default(),
        }
    }

    /// Returns a recorder that leaves out operations which succeed with their first attempt in less
    /// than this time, and which connections are in use. For clients with many operations, whose
    /// recording would otherwise cover a short time only.
    #[must_use]
    pub fn of_slow_operations(slow: Duration) -> Self {
        let slow = Some(slow);
        Self {
            slow,
            ..Self::new()
        }
    }

    /// Returns a listener for one client, to be set while the client is built. Each listener has
    /// lanes of its own in the recording.
    #[must_use]
    pub fn listener(&self) -> EventListener {
        let client = {
            let mut recording = self.lock();
            recording.clients += 1;
            recording.clients - 1
        };
        let (recorder, offset) = (self.clone(), self.start.elapsed());
        Arc::new(move |event: &Event| {
            let mut recording = recorder.lock();
            recording.observe(event.at + offset, client, &event.kind, recorder.slow);
        })
    }

    /// Notes something that happens now and concerns all lanes, such as a fault.
    pub fn mark(&self, kind: MarkKind, text: impl Into<String>) {
        let now = self.now();
        self.lock().picture.mark(now, kind, text.into());
    }

    /// Notes the present state of a member of the deployment, if the program knows it. `member` is
    /// the place of the lane, and `name` its name.
    pub fn set_member(&self, member: usize, name: &str, state: MemberState) {
        let now = self.now();
        self.lock().picture.set_member(now, member, name, state, "");
    }

    /// Returns a page of HTML that shows the recording until now, with this title and with the
    /// failure that it is to explain. The page needs no other file.
    #[must_use]
    pub fn page(&self, title: &str, failure: Option<&str>) -> String {
        let now = self.now();
        let mut picture = self.lock().finished();
        picture.finish(now);
        let mut summary = format!("{:.1} s of real time", now.since_start().as_secs_f64());
        if let Some(slow) = self.slow {
            summary += &format!("; operations that succeed at once within {slow:?} are not shown");
        }
        let failure = failure.map(|text| Failure::new(FailureKind::Correctness, now, text));
        let heading = Heading {
            title,
            summary: &summary,
            replay: None,
            failure: failure.as_ref(),
        };
        picture.page(heading, now)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recording {
    fn observe(&mut self, at: Instant, client: usize, event: &EventKind, slow: Option<Duration>) {
        let Some(slow) = slow else {
            return self.picture.observe(at, client, event);
        };
        match (event, operation_of(event)) {
            (EventKind::Operation(OperationEvent::Started { .. }), Some(operation)) => {
                if self.held.len() >= MAX_HELD_OPERATIONS {
                    self.held.pop_first();
                }
                let held = Held {
                    start: at,
                    has_failed_attempt: false,
                    events: vec![(at, event.clone())],
                };
                self.held.insert((client, operation), held);
            }
            (EventKind::Operation(OperationEvent::Ended { failure, .. }), Some(operation)) => {
                let Some(held) = self.held.remove(&(client, operation)) else {
                    return;
                };
                let is_slow = at.saturating_since(held.start) >= slow;
                if is_slow || held.has_failed_attempt || failure.is_some() {
                    show(&mut self.picture, client, &held);
                    self.picture.observe(at, client, event);
                }
            }
            // An operation that the application did not begin has no event of its start.
            (_, Some(operation)) => {
                if let Some(held) = self.held.get_mut(&(client, operation)) {
                    held.has_failed_attempt |= is_failure(event);
                    if held.events.len() < MAX_HELD_EVENTS {
                        held.events.push((at, without_documents(event)));
                    }
                }
            }
            (
                EventKind::Pool(
                    PoolEvent::CheckOutStarted { .. }
                    | PoolEvent::CheckedOut { .. }
                    | PoolEvent::CheckedIn { .. },
                ),
                None,
            ) => {}
            (EventKind::Dropped { .. }, None) => {
                // The dropped events may have been the ends of operations.
                self.held.retain(|(other, _), _| *other != client);
                self.picture.observe(at, client, event);
            }
            (_, None) => self.picture.observe(at, client, event),
        }
    }

    /// Returns the picture with the operations that have not ended.
    fn finished(&self) -> Picture {
        let mut picture = self.picture.clone();
        for ((client, _), held) in &self.held {
            show(&mut picture, *client, held);
        }
        picture
    }
}

/// Shows what is held of an operation.
fn show(picture: &mut Picture, client: usize, held: &Held) {
    for (at, event) in &held.events {
        picture.observe(*at, client, event);
    }
}

/// Returns the operation of an event; `None` for an event that belongs to none.
fn operation_of(event: &EventKind) -> Option<u64> {
    match event {
        EventKind::Operation(
            OperationEvent::Started { facts, .. } | OperationEvent::Ended { facts, .. },
        ) => Some(facts.operation_id),
        EventKind::Command(
            CommandEvent::Started { facts, .. }
            | CommandEvent::Succeeded { facts, .. }
            | CommandEvent::Failed { facts, .. },
        ) => Some(facts.operation_id),
        EventKind::Selection(
            SelectionEvent::Started { facts, .. }
            | SelectionEvent::Waiting { facts, .. }
            | SelectionEvent::Succeeded { facts, .. }
            | SelectionEvent::Failed { facts, .. },
        ) => Some(facts.operation_id),
        _ => None,
    }
}

fn is_failure(event: &EventKind) -> bool {
    matches!(
        event,
        EventKind::Command(CommandEvent::Failed { .. })
            | EventKind::Selection(SelectionEvent::Failed { .. })
    )
}

/// Copies an event without the documents of commands and replies, which can be large.
fn without_documents(event: &EventKind) -> EventKind {
    match event {
        EventKind::Command(CommandEvent::Started { facts, .. }) => {
            let (facts, command) = (facts.clone(), RawDocumentBuf::new());
            EventKind::Command(CommandEvent::Started { facts, command })
        }
        EventKind::Command(CommandEvent::Succeeded {
            facts, duration, ..
        }) => EventKind::Command(CommandEvent::Succeeded {
            facts: facts.clone(),
            duration: *duration,
            reply: RawDocumentBuf::new(),
        }),
        _ => event.clone(),
    }
}
