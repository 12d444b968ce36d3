//! Prints important events of the client during a demonstration.

use onionskin::{
    error::ErrorKind,
    event::{CloseReason, Event, EventKind, EventListener, PoolEvent, SdamEvent},
};
use onionskin_worlds::{recorder::Recorder, world::picture::MarkKind};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Prints a line for each important event, with the time since the start.
#[derive(Clone, Debug)]
pub(super) struct Narrator {
    start: Instant,
    memory: Arc<Mutex<Memory>>,
    /// The recorder that also notes what happens to the deployment.
    recorder: Option<Recorder>,
}

#[derive(Debug, Default)]
struct Memory {
    /// The number of connections that were closed as stale or after an error, by pool, until the
    /// pool's next connection is ready.
    closed: BTreeMap<String, usize>,
    /// The servers whose last check failed.
    failing: BTreeSet<String>,
}

impl Narrator {
    pub(super) fn start(recorder: Option<Recorder>) -> Self {
        Self {
            start: Instant::now(),
            memory: Arc::default(),
            recorder,
        }
    }

    /// Prints what happens to the deployment, and marks it in the recording.
    pub(super) fn announce(&self, text: &str) {
        self.print(&format!(">>> {text}"));
        if let Some(recorder) = &self.recorder {
            recorder.mark(MarkKind::Disaster, text);
        }
    }

    pub(super) fn print(&self, text: &str) {
        let elapsed = self.start.elapsed();
        // A reader that has gone does not end the demonstration.
        let _ = writeln!(
            io::stdout(),
            "{:>3}.{:03}s  {text}",
            elapsed.as_secs(),
            elapsed.subsec_millis()
        );
    }

    pub(super) fn listener(&self) -> EventListener {
        let narrator = self.clone();
        Arc::new(move |event| narrator.on_event(event))
    }

    fn on_event(&self, event: &Event) {
        match &event.kind {
            EventKind::Sdam(event) => self.on_topology_event(event),
            EventKind::Pool(event) => self.on_pool_event(event),
            _ => {}
        }
    }

    fn on_topology_event(&self, event: &SdamEvent) {
        match event {
            SdamEvent::ServerDescriptionChanged {
                address,
                previous,
                new,
                ..
            } if previous.server_type != new.server_type => {
                let why = match &new.error {
                    Some(error) => format!(" ({})", error.kind()),
                    None => String::new(),
                };
                let (old, new) = (previous.server_type, new.server_type);
                self.print(&format!("server {address}: {old} -> {new}{why}"));
            }
            SdamEvent::TopologyDescriptionChanged { previous, new, .. }
                if previous.topology_type != new.topology_type =>
            {
                let (old, new) = (previous.topology_type, new.topology_type);
                self.print(&format!("topology: {old} -> {new}"));
            }
            SdamEvent::HeartbeatSucceeded { address, .. } => {
                self.lock().failing.remove(&address.to_string());
            }
            SdamEvent::HeartbeatFailed { address, failure, .. }
                // The first failed check of a server gives a line, and further failed checks in a
                // row give none. Checks that end because the client closes give none either.
                if *failure.kind() != ErrorKind::Shutdown
                    && self.lock().failing.insert(address.to_string()) =>
            {
                self.print(&format!("check of {address} failed: {}", failure.kind()));
            }
            _ => {}
        }
    }

    fn on_pool_event(&self, event: &PoolEvent) {
        match event {
            PoolEvent::Ready { address, .. } => self.print(&format!("pool {address}: ready")),
            PoolEvent::Cleared { address, .. } => self.print(&format!("pool {address}: cleared")),
            PoolEvent::ConnectionReady {
                address,
                connection,
                duration,
                ..
            } => {
                let closed = self.closed_of(&address.to_string());
                let after = match closed {
                    0 => String::new(),
                    n => format!("; {n} had been closed"),
                };
                if *connection <= 2 || closed > 0 {
                    let millis = duration.as_secs_f64() * 1e3;
                    self.print(&format!(
                        "pool {address}: connection {connection} in {millis:.1} ms{after}"
                    ));
                }
            }
            PoolEvent::ConnectionClosed {
                address,
                reason: CloseReason::Error | CloseReason::Stale,
                ..
            } => {
                *self.lock().closed.entry(address.to_string()).or_default() += 1;
            }
            _ => {}
        }
    }

    fn closed_of(&self, address: &str) -> usize {
        self.lock().closed.remove(address).unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
