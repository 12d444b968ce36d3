//! Log messages, made of events: what a line says, and who wants it.
//!
//! The specifications fix the names, levels and fields of messages (EVT-25 to EVT-35, SEL-61 to
//! SEL-64, CMAP-126 to CMAP-140, and those of the commands). A [`Record`] is one of them, to be
//! handed to whatever writes logs; [`LogOptions`] say which are wanted.

mod command;
mod connection;
mod json;
mod options;
mod record;
mod selection;
#[cfg(test)]
mod tests;
mod topology;

pub use json::extended_json;
pub use options::{DEFAULT_MAX_DOCUMENT_LENGTH_BYTES, LogOptions};
pub use record::{Record, Value};

use crate::{
    event::{Event, EventKind, SdamEvent, SelectionEvent},
    uri::Warning,
};
use std::fmt;

/// The parts of the driver that log, each with its own greatest level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Component {
    /// Commands of operations.
    Command,
    /// Discovery and monitoring of servers.
    Topology,
    /// The choice of a server for each operation.
    ServerSelection,
    /// Connections and their pools.
    Connection,
    /// The client as a whole: what was odd about its connection string.
    Client,
}

impl Component {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Command,
        Self::Topology,
        Self::ServerSelection,
        Self::Connection,
        Self::Client,
    ];

    /// The name that the specifications use, `client` excepted, which is our own.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Topology => "topology",
            Self::ServerSelection => "serverSelection",
            Self::Connection => "connection",
            Self::Client => "client",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much a message matters, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed of which no caller is told. Nothing is logged so at present: failures that
    /// callers are told of are [`Debug`](Self::Debug).
    Error,
    /// The application may not get what it wants.
    Warn,
    /// What the driver does, in large steps.
    Info,
    /// What the driver does, step by step.
    Debug,
    /// More than that. Nothing is logged so at present.
    Trace,
}

impl Level {
    /// The name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which component logs an event, and at which level; `None` for an event that has no message.
#[must_use]
pub fn class(event: &Event) -> Option<(Component, Level)> {
    Some(match &event.kind {
        EventKind::Command(_) => (Component::Command, Level::Debug),
        EventKind::Pool(_) => (Component::Connection, Level::Debug),
        EventKind::Selection(SelectionEvent::Waiting { .. }) => {
            (Component::ServerSelection, Level::Info)
        }
        EventKind::Selection(_) => (Component::ServerSelection, Level::Debug),
        // No specification has a message for them.
        EventKind::Operation(_) => return None,
        // The message of the changed topology says it (EVT-26).
        EventKind::Sdam(SdamEvent::ServerDescriptionChanged { .. }) => return None,
        EventKind::Sdam(SdamEvent::NoServers { .. }) => (Component::Topology, Level::Warn),
        EventKind::Sdam(_) => (Component::Topology, Level::Debug),
        EventKind::Dropped { .. } => (Component::Client, Level::Warn),
    })
}

/// The message of an event, with documents of at most `max_document_length_bytes`; `None` for an
/// event that has none.
///
/// ```
/// use onionskin_core::{
///     description::TopologyId,
///     event::{Event, EventKind, SdamEvent},
///     log,
///     time::Instant,
/// };
///
/// let topology = TopologyId(bson::oid::ObjectId::from_bytes([1; 12]));
/// let kind = EventKind::Sdam(SdamEvent::TopologyOpening { topology });
/// let record = log::record(&Event { at: Instant::ZERO, kind }, 1000).expect("it has a message");
/// assert_eq!(record.message(), "Starting topology monitoring");
/// assert_eq!(
///     record.to_string(),
///     "Starting monitoring for topology with ID 010101010101010101010101"
/// );
/// ```
#[must_use]
pub fn record(event: &Event, max_document_length_bytes: usize) -> Option<Record> {
    let (component, level) = class(event)?;
    let limit = max_document_length_bytes;
    let mut record = match &event.kind {
        EventKind::Sdam(event) => topology::record(event, limit)?,
        EventKind::Selection(event) => selection::record(event),
        EventKind::Pool(event) => connection::record(event),
        EventKind::Command(event) => command::record(event, limit),
        EventKind::Operation(_) => return None,
        EventKind::Dropped { count } => dropped(*count),
    };
    (record.component, record.level) = (component, level);
    Some(record)
}

fn dropped(count: u64) -> Record {
    let mut record = Record::new(
        "Events dropped",
        "{droppedEvents} events were dropped: listeners or log subscribers do not keep up",
    );
    record.integer("droppedEvents", i64::try_from(count).unwrap_or(i64::MAX));
    record
}

/// The message of something odd in a connection string or among a client's options.
#[must_use]
pub fn warning(warning: &Warning) -> Record {
    let mut record = match warning {
        Warning::WithoutEffect { .. } => {
            Record::new("Client option warning", "Client options: {warning}")
        }
        _ => Record::new("Connection string warning", "Connection string: {warning}"),
    };
    record.text("warning", warning.to_string());
    (record.component, record.level) = (Component::Client, Level::Warn);
    record
}
