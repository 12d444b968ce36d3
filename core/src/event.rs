//! Events: reports of the client about its own work, such as checks, commands and check outs.

mod command;
pub mod handlers;
mod operation;
mod pool;
mod sdam;
mod selection;
mod table;

pub use command::{CommandEvent, CommandFacts};
pub use operation::{OperationEvent, OperationFacts};
pub use pool::{CheckOutFailure, CloseReason, PoolEvent, ReportedPoolOptions};
pub use sdam::{NoServersCause, SdamEvent};
pub use selection::{SelectionEvent, SelectionFacts};
pub(crate) use table::Field;
use table::{Fields, Visit};

use crate::{error::Error, time::Instant};
use std::fmt;

/// An event with the time at which it occurred.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The time of the event, on the clock of the shell.
    pub at: Instant,
    /// The kind of the event, with the fields of this kind.
    pub kind: EventKind,
}

/// The content of an event, by family.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// Events of server discovery and monitoring.
    Sdam(SdamEvent),
    /// Events of connections and connection pools.
    Pool(PoolEvent),
    /// Events of commands.
    Command(CommandEvent),
    /// Events of server selection.
    Selection(SelectionEvent),
    /// The start and the end of operations.
    Operation(OperationEvent),
    /// Events were dropped at this place of the sequence, because listeners were too slow. The
    /// shell creates this event, not the core, and no subscription controls it.
    Dropped {
        /// The number of dropped events.
        count: u64,
    },
}

impl Event {
    /// Creates an event that occurred at the time `at`.
    ///
    /// ```
    /// use onionskin_core::{event::{Event, EventKind}, time::Instant};
    ///
    /// let event = Event::new(Instant::from_nanos(0), EventKind::Dropped { count: 7 });
    /// assert_eq!(event.kind.to_string(), "7 events dropped");
    /// ```
    #[must_use]
    pub const fn new(at: Instant, kind: EventKind) -> Self {
        Self { at, kind }
    }

    /// Returns the size in bytes of the command, the reply, the error or the server description
    /// that the event contains; zero for an event with none of them. A queue of events can limit
    /// its memory by this size.
    ///
    /// ```
    /// use onionskin_core::{event::{Event, EventKind}, time::Instant};
    ///
    /// let event = Event::new(Instant::from_nanos(0), EventKind::Dropped { count: 7 });
    /// assert_eq!(event.document_bytes(), 0);
    /// ```
    #[must_use]
    pub fn document_bytes(&self) -> usize {
        let error = match &self.kind {
            EventKind::Command(CommandEvent::Started { command, .. }) => {
                return command.as_bytes().len();
            }
            EventKind::Command(CommandEvent::Succeeded { reply, .. }) => {
                return reply.as_bytes().len();
            }
            EventKind::Sdam(SdamEvent::HeartbeatSucceeded { reply, .. }) => {
                return reply.as_bytes().len();
            }
            // The event of the topology shares the descriptions of servers with this one.
            EventKind::Sdam(SdamEvent::ServerDescriptionChanged { new, .. }) => {
                return new.received_bytes();
            }
            EventKind::Command(CommandEvent::Failed { failure, .. })
            | EventKind::Sdam(SdamEvent::HeartbeatFailed { failure, .. })
            | EventKind::Selection(SelectionEvent::Failed { failure, .. }) => Some(failure),
            EventKind::Operation(OperationEvent::Ended { failure, .. }) => failure.as_ref(),
            EventKind::Pool(
                PoolEvent::ConnectionClosed { error, .. } | PoolEvent::CheckOutFailed { error, .. },
            ) => error.as_ref(),
            _ => None,
        };
        error.map_or(0, Error::received_bytes)
    }
}

impl EventKind {
    /// Returns the name of the log message and the template of its text. `None` if the event has no
    /// log message.
    pub(crate) const fn message(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Sdam(event) => event.message(),
            Self::Pool(event) => event.message(),
            Self::Command(event) => event.message(),
            Self::Selection(event) => event.message(),
            Self::Operation(event) => event.message(),
            Self::Dropped { .. } => Some((
                "Events dropped",
                "{droppedEvents} events were dropped: listeners or log subscribers do not keep up",
            )),
        }
    }

    /// Calls `visit` with the key and the value of each log field.
    pub(crate) fn visit(&self, visit: &mut Visit<'_>) {
        match self {
            Self::Sdam(event) => event.visit(visit),
            Self::Pool(event) => event.visit(visit),
            Self::Command(event) => event.visit(visit),
            Self::Selection(event) => event.visit(visit),
            Self::Operation(event) => event.visit(visit),
            Self::Dropped { count } => count.visit("droppedEvents", visit),
        }
    }
}

/// Writes the event as one line, without its command or reply. The format can change.
impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sdam(event) => event.fmt(f),
            Self::Pool(event) => event.fmt(f),
            Self::Command(event) => event.fmt(f),
            Self::Selection(event) => event.fmt(f),
            Self::Operation(event) => event.fmt(f),
            Self::Dropped { count } => write!(f, "{count} events dropped"),
        }
    }
}

/// The event families that have a listener. An event of another family is not built, unless
/// `notices` includes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// The events of server discovery and monitoring.
    pub sdam: bool,
    /// The events of connections and connection pools.
    pub pool: bool,
    /// The events of commands: started, succeeded and failed.
    pub command: bool,
    /// The events of server selection.
    pub selection: bool,
    /// The events of operations: started and ended.
    pub operation: bool,
    /// The important events: an operation waits for a server, the topology has no servers or
    /// refuses a primary for long, and SRV or TXT records are ignored or not available. The first
    /// is also in the family `selection`, the others in `sdam`.
    pub notices: bool,
}

impl Subscriptions {
    /// Returns the subscriptions to all families.
    ///
    /// ```
    /// use onionskin_core::event::Subscriptions;
    ///
    /// assert!(Subscriptions::all().command);
    /// assert!(!Subscriptions::default().command);
    /// ```
    #[must_use]
    pub const fn all() -> Self {
        Self {
            sdam: true,
            pool: true,
            command: true,
            selection: true,
            operation: true,
            notices: true,
        }
    }
}
