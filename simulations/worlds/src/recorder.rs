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
//! # async fn example<R: Runtime>(builder: ClientBuilder<R>) -> Result<String, onionskin::Error> {
//! let recorder = Recorder::of_slow_operations(Duration::from_millis(50));
//! let client = builder.event_listener(recorder.listener()).build()?;
//! // … use the client. When an operation has failed:
//! client.flush_events().await;
//! let page = recorder.page("orders", Some("an order was not placed"));
//! # Ok(page)
//! # }
//! ```
//!
//! A page has texts of events and errors, but no documents: neither commands nor replies. Names of
//! commands, databases, collections and hosts are in it, and messages of servers.

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
pub use onionskin_deployment::deployment::MemberState;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

/// The largest number of events that are held of operations that have not ended. With a further
/// event, those of the earliest operation of the first client that has one are dropped.
const MAX_HELD_EVENTS: usize = 100_000;

/// Records the events of clients. Clones share one recording.
///
/// A recording has the last 100,000 events, and as many spans of each server, pool and list of
/// operations. The page says how many earlier ones it lacks. Servers and pools that a client no
/// longer has stay in the recording.
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
    /// The operations that have not ended, by client and operation.
    held: BTreeMap<(usize, u64), Held>,
    /// The number of events in `held`.
    held_events: usize,
}

/// The events of an operation that has not ended.
#[derive(Clone, Debug)]
struct Held {
    start: Instant,
    has_failed_attempt: bool,
    /// True after a server was selected, until a command is sent or the next selection begins.
    waits_for_connection: bool,
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

    /// Returns a recorder that leaves out operations which succeed without a failed attempt in less
    /// than this time, and which connections are in use. For clients with many operations, whose
    /// recording would otherwise cover a short time only. The error of a write concern in a reply
    /// does not count as a failed attempt.
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
        let recorder = self.clone();
        let start = OnceLock::new();
        Arc::new(move |event: &Event| {
            // The time of an event is that since the start of its client.
            let since_start = event.at.since_start();
            let start = start.get_or_init(|| recorder.start.elapsed().saturating_sub(since_start));
            let mut recording = recorder.lock();
            recording.observe(event.at + *start, client, &event.kind, recorder.slow);
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
    ///
    /// Events reach a listener after the calls that caused them. So call `flush_events` of the
    /// client before, to have all of them in the page.
    #[must_use]
    pub fn page(&self, title: &str, failure: Option<&str>) -> String {
        let now = self.now();
        let (mut picture, held) = {
            let recording = self.lock();
            (recording.picture.clone(), recording.held.clone())
        };
        for ((client, _), operation) in &held {
            show(&mut picture, *client, operation);
        }
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
                let held = Held {
                    start: at,
                    has_failed_attempt: false,
                    waits_for_connection: false,
                    events: Vec::new(),
                };
                // Clients that share a listener have the same numbers.
                self.take_held((client, operation));
                self.held.insert((client, operation), held);
                self.hold(at, (client, operation), event);
            }
            (EventKind::Operation(OperationEvent::Ended { failure, .. }), Some(operation)) => {
                let held = self.take_held((client, operation));
                let is_shown = held.as_ref().is_some_and(|held| {
                    held.has_failed_attempt || at.saturating_since(held.start) >= slow
                });
                if is_shown || failure.is_some() {
                    if let Some(held) = held {
                        show(&mut self.picture, client, &held);
                    }
                    self.picture.observe(at, client, event);
                }
            }
            (_, Some(operation)) => self.hold(at, (client, operation), event),
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
                let operations = self.held.range((client, 0)..=(client, u64::MAX));
                let operations: Vec<_> = operations.map(|(key, _)| *key).collect();
                for operation in operations {
                    if let Some(held) = self.take_held(operation) {
                        show(&mut self.picture, client, &held);
                    }
                }
                self.picture.observe(at, client, event);
            }
            (_, None) => self.picture.observe(at, client, event),
        }
    }

    /// Holds an event of an operation until the operation ends. Does nothing if the start of the
    /// operation is not held, because it was dropped.
    fn hold(&mut self, at: Instant, operation: (usize, u64), event: &EventKind) {
        let Some(held) = self.held.get_mut(&operation) else {
            return;
        };
        held.note_attempt(event);
        held.events.push((at, without_documents(event)));
        self.held_events += 1;
        while self.held_events > MAX_HELD_EVENTS {
            let Some((_, held)) = self.held.pop_first() else {
                return;
            };
            self.held_events -= held.events.len();
            self.picture.miss(held.events.len());
        }
    }

    fn take_held(&mut self, operation: (usize, u64)) -> Option<Held> {
        let held = self.held.remove(&operation)?;
        self.held_events -= held.events.len();
        Some(held)
    }
}

impl Held {
    /// Notes if an attempt has failed. An attempt whose check-out failed has no command, and is
    /// followed by another selection.
    fn note_attempt(&mut self, event: &EventKind) {
        match event {
            EventKind::Command(CommandEvent::Failed { .. })
            | EventKind::Selection(SelectionEvent::Failed { .. }) => self.has_failed_attempt = true,
            EventKind::Selection(SelectionEvent::Started { .. }) => {
                self.has_failed_attempt |= self.waits_for_connection;
            }
            _ => {}
        }
        let is_selected = matches!(
            event,
            EventKind::Selection(SelectionEvent::Succeeded { .. })
        );
        self.waits_for_connection = is_selected;
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
