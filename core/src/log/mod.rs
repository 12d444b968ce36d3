//! Log messages, which are made from events and from warnings about options.
//!
//! A [`Record`] is one message, for any library that writes logs. [`LogOptions`] select messages by
//! component and level. The specifications define the names, levels and fields of most messages
//! (EVT-25 to EVT-35, SEL-61 to SEL-64, CMAP-126 to CMAP-140, and the command logging
//! specification).

mod json;
mod options;
mod record;
#[cfg(test)]
mod tests;

pub use json::extended_json;
pub use options::{DEFAULT_MAX_DOCUMENT_LENGTH_BYTES, LogOptions};
pub use record::{Record, Value};

use crate::{
    event::{Event, EventKind, SdamEvent, SelectionEvent},
    uri::Warning,
};
use std::fmt;

/// The subject of a log message. Each component has its own level in [`LogOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Component {
    /// The commands of operations: started, succeeded and failed.
    Command,
    /// Server discovery and monitoring.
    Topology,
    /// The server selections of operations.
    ServerSelection,
    /// Connections and connection pools.
    Connection,
    /// The client as a whole: warnings about its options and its connection string, and about
    /// dropped events.
    Client,
}

impl Component {
    /// All components, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::Command,
        Self::Topology,
        Self::ServerSelection,
        Self::Connection,
        Self::Client,
    ];

    /// Returns the name of the component in the specifications. The name `client` is the driver's
    /// own.
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

/// The severity of a message, from the most to the least severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A failure of the driver. No message has this level at present.
    Error,
    /// A condition that probably needs a change by the user.
    Warn,
    /// An important step of the driver: at present only that an operation waits for a server.
    Info,
    /// A single step of the driver, for example a command, a heartbeat or a check out.
    Debug,
    /// Details below [`Debug`](Self::Debug). No message has this level at present.
    Trace,
}

impl Level {
    /// Returns the name of the level in lower case.
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

/// Returns the component and the level of an event's message; `None` if the event has no message.
#[must_use]
pub fn class(event: &Event) -> Option<(Component, Level)> {
    Some(match &event.kind {
        EventKind::Command(_) => (Component::Command, Level::Debug),
        EventKind::Pool(_) => (Component::Connection, Level::Debug),
        EventKind::Selection(SelectionEvent::Waiting { .. }) => {
            (Component::ServerSelection, Level::Info)
        }
        EventKind::Selection(_) => (Component::ServerSelection, Level::Debug),
        // No specification defines messages for operations.
        EventKind::Operation(_) => return None,
        // The message about the changed topology description contains the change of the server
        // description (EVT-26).
        EventKind::Sdam(SdamEvent::ServerDescriptionChanged { .. }) => return None,
        // An option that is ignored causes a warning, also in a TXT record (CS-32, DNS-34).
        EventKind::Sdam(
            SdamEvent::NoServers { .. }
            | SdamEvent::PrimaryRefused { .. }
            | SdamEvent::TxtRecordIgnored { .. },
        ) => (Component::Topology, Level::Warn),
        EventKind::Sdam(_) => (Component::Topology, Level::Debug),
        EventKind::Dropped { .. } => (Component::Client, Level::Warn),
    })
}

/// Returns the message of an event, in which each document is cut to `max_document_length_bytes`.
/// Returns `None` if the event has no message.
///
/// ```
/// use onionskin_core::{
///     event::{Event, EventKind},
///     log,
///     time::Instant,
/// };
///
/// let event = Event::new(Instant::ZERO, EventKind::Dropped { count: 3 });
/// let record = log::record(&event, 1000).expect("the event has a log message");
/// assert_eq!(record.message(), "Events dropped");
/// assert!(record.to_string().starts_with("3 events were dropped"));
/// ```
#[must_use]
pub fn record(event: &Event, max_document_length_bytes: usize) -> Option<Record> {
    let (component, level) = class(event)?;
    let (message, template) = event.kind.message()?;
    let mut record = Record::new(message, template);
    let limit = max_document_length_bytes;
    event
        .kind
        .visit(&mut |key, field| record.add(key, field, limit));
    (record.component, record.level) = (component, level);
    Some(record)
}

/// Returns the message for a warning about a connection string or about a client's options.
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
