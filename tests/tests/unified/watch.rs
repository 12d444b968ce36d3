//! The events and log messages of a client, in the form in which tests expect them.

use bson::{Bson, Document, RawDocumentBuf, doc};
use onionskin_core::{
    description::{ServerDescription, TopologyDescription},
    event::{
        CheckOutFailure, CloseReason, CommandEvent, CommandFacts, Event, EventKind, PoolEvent,
        SdamEvent,
    },
    log::{self, Component, Level, Record},
};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// The commands whose events only clients with `observeSensitiveCommands` observe.
const SENSITIVE: [&str; 9] = [
    "authenticate",
    "saslStart",
    "saslContinue",
    "getnonce",
    "createUser",
    "updateUser",
    "copydbgetnonce",
    "copydbsaslstart",
    "copydb",
];

/// The length up to which log messages show documents, so that none is cut (Unified Test Format,
/// *observeLogMessages*).
const MAX_DOCUMENT_LENGTH: usize = 100_000;

/// The families of events in `expectEvents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Command,
    Cmap,
    Sdam,
}

/// An observed event.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) family: Family,
    /// The name in test files, for example `commandStartedEvent`.
    pub(crate) name: &'static str,
    pub(crate) fields: Document,
}

/// The events and log messages that a client observes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) events: Vec<String>,
    pub(crate) ignored_commands: Vec<String>,
    pub(crate) sensitive: bool,
    /// The components with the lowest level of messages that the client collects.
    pub(crate) messages: Vec<(Component, Level)>,
}

/// The record of a client.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    wanted: Wanted,
    /// The number of connections that became ready.
    ready: AtomicUsize,
    seen: Mutex<(Vec<Seen>, Vec<Record>)>,
}

impl Watch {
    pub(crate) fn new(wanted: Wanted) -> Arc<Self> {
        Arc::new(Self {
            wanted,
            ready: AtomicUsize::new(0),
            seen: Mutex::default(),
        })
    }

    pub(crate) fn observe(&self, event: &Event) {
        if let Some((component, level)) = log::class(event)
            && self
                .wanted
                .messages
                .iter()
                .any(|(c, most)| *c == component && level <= *most)
        {
            let record = log::record(event, MAX_DOCUMENT_LENGTH);
            self.lock().1.extend(record);
        }
        let Some((family, name, fields)) = described(&event.kind) else {
            return;
        };
        if name == "connectionReadyEvent" {
            self.ready.fetch_add(1, Ordering::SeqCst);
        }
        if !self.wanted.events.iter().any(|wanted| wanted == name)
            || (family == Family::Command && self.ignores(&fields))
        {
            return;
        }
        self.lock().0.push(Seen {
            family,
            name,
            fields,
        });
    }

    fn ignores(&self, fields: &Document) -> bool {
        let command = fields.get_str("commandName").unwrap_or_default();
        let is_hidden = fields.get_bool("isRedacted").unwrap_or_default();
        let is_sensitive = SENSITIVE
            .iter()
            .any(|name| name.eq_ignore_ascii_case(command));
        command == "configureFailPoint"
            || self
                .wanted
                .ignored_commands
                .iter()
                .any(|ignored| ignored == command)
            || ((is_sensitive || is_hidden) && !self.wanted.sensitive)
    }

    /// Returns the number of connections that became ready, also if the client does not observe
    /// their events.
    pub(crate) fn ready_connections(&self) -> usize {
        self.ready.load(Ordering::SeqCst)
    }

    /// Forgets all events and messages so far.
    pub(crate) fn forget(&self) {
        let mut seen = self.lock();
        seen.0.clear();
        seen.1.clear();
    }

    /// Returns the observed events.
    pub(crate) fn events(&self) -> Vec<Seen> {
        self.lock().0.clone()
    }

    /// Returns the collected log messages.
    pub(crate) fn messages(&self) -> Vec<Record> {
        self.lock().1.clone()
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<Seen>, Vec<Record>)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn described(kind: &EventKind) -> Option<(Family, &'static str, Document)> {
    match kind {
        EventKind::Command(event) => {
            let (name, fields) = command(event)?;
            Some((Family::Command, name, fields))
        }
        EventKind::Pool(event) => {
            let (name, fields) = pool(event)?;
            Some((Family::Cmap, name, fields))
        }
        EventKind::Sdam(event) => {
            let (name, fields) = sdam(event)?;
            Some((Family::Sdam, name, fields))
        }
        _ => None,
    }
}

fn command(event: &CommandEvent) -> Option<(&'static str, Document)> {
    let facts = |facts: &CommandFacts| {
        doc! {
            "commandName": &*facts.name,
            "databaseName": &*facts.database,
            "hasServiceId": facts.service.is_some(),
            "hasServerConnectionId": facts.server_connection_id.is_some_and(|id| id > 0),
        }
    };
    let document = |raw: &RawDocumentBuf| Document::try_from(raw).unwrap_or_default();
    let with = |facts: Document, key: &str, raw: &RawDocumentBuf| {
        let mut fields = facts;
        let content = document(raw);
        fields.insert("isRedacted", content.is_empty());
        fields.insert(key, content);
        fields
    };
    Some(match event {
        CommandEvent::Started {
            facts: f, command, ..
        } => ("commandStartedEvent", with(facts(f), "command", command)),
        CommandEvent::Succeeded {
            facts: f, reply, ..
        } => ("commandSucceededEvent", with(facts(f), "reply", reply)),
        CommandEvent::Failed { facts: f, .. } => ("commandFailedEvent", facts(f)),
        _ => return None,
    })
}

fn pool(event: &PoolEvent) -> Option<(&'static str, Document)> {
    Some(match event {
        PoolEvent::Created { .. } => ("poolCreatedEvent", doc! {}),
        PoolEvent::Ready { .. } => ("poolReadyEvent", doc! {}),
        PoolEvent::Cleared {
            service,
            interrupt_in_use,
            ..
        } => {
            let mut fields = doc! { "hasServiceId": service.is_some() };
            fields.insert("interruptInUseConnections", *interrupt_in_use);
            ("poolClearedEvent", fields)
        }
        PoolEvent::Closed { .. } => ("poolClosedEvent", doc! {}),
        PoolEvent::ConnectionCreated { .. } => ("connectionCreatedEvent", doc! {}),
        PoolEvent::ConnectionReady { .. } => ("connectionReadyEvent", doc! {}),
        PoolEvent::ConnectionClosed { reason, .. } => {
            let reason = match reason {
                CloseReason::Stale => "stale",
                CloseReason::Idle => "idle",
                CloseReason::Error => "error",
                CloseReason::PoolClosed => "poolClosed",
            };
            ("connectionClosedEvent", doc! { "reason": reason })
        }
        PoolEvent::CheckOutStarted { .. } => ("connectionCheckOutStartedEvent", doc! {}),
        PoolEvent::CheckOutFailed { reason, .. } => {
            let reason = match reason {
                CheckOutFailure::PoolClosed => "poolClosed",
                CheckOutFailure::Timeout => "timeout",
                CheckOutFailure::ConnectionError => "connectionError",
            };
            ("connectionCheckOutFailedEvent", doc! { "reason": reason })
        }
        PoolEvent::CheckedOut { .. } => ("connectionCheckedOutEvent", doc! {}),
        PoolEvent::CheckedIn { .. } => ("connectionCheckedInEvent", doc! {}),
        _ => return None,
    })
}

fn sdam(event: &SdamEvent) -> Option<(&'static str, Document)> {
    let server = |server: &ServerDescription| doc! { "type": server.server_type.to_string() };
    let topology = |t: &TopologyDescription| doc! { "type": t.topology_type.to_string() };
    let heartbeat = |awaited: bool| doc! { "awaited": awaited };
    Some(match event {
        SdamEvent::ServerDescriptionChanged { previous, new, .. } => (
            "serverDescriptionChangedEvent",
            doc! { "previousDescription": server(previous), "newDescription": server(new) },
        ),
        SdamEvent::TopologyDescriptionChanged { previous, new, .. } => (
            "topologyDescriptionChangedEvent",
            doc! { "previousDescription": topology(previous), "newDescription": topology(new) },
        ),
        SdamEvent::HeartbeatStarted { awaited, .. } => {
            ("serverHeartbeatStartedEvent", heartbeat(*awaited))
        }
        SdamEvent::HeartbeatSucceeded { awaited, .. } => {
            ("serverHeartbeatSucceededEvent", heartbeat(*awaited))
        }
        SdamEvent::HeartbeatFailed { awaited, .. } => {
            ("serverHeartbeatFailedEvent", heartbeat(*awaited))
        }
        SdamEvent::TopologyOpening { .. } => ("topologyOpeningEvent", doc! {}),
        SdamEvent::TopologyClosed { .. } => ("topologyClosedEvent", doc! {}),
        SdamEvent::ServerOpening { .. } => ("serverOpeningEvent", doc! {}),
        SdamEvent::ServerClosed { .. } => ("serverClosedEvent", doc! {}),
        _ => return None,
    })
}

/// Returns a log message in the form in which tests expect it.
pub(crate) fn message(record: &Record) -> Document {
    let mut data = doc! { "message": record.message() };
    for (key, value) in record.fields() {
        let value = match value {
            log::Value::Text(text) => Bson::String(text.clone()),
            log::Value::Integer(number) => Bson::Int64(*number),
            log::Value::Double(number) => Bson::Double(*number),
            log::Value::Boolean(value) => Bson::Boolean(*value),
            _ => continue,
        };
        data.insert(*key, value);
    }
    doc! {
        "level": record.level().name(),
        "component": record.component().name(),
        "failureIsRedacted": data.get("failure").is_some() && is_redacted(record),
        "data": data,
    }
}

/// True if the failure of a message has no words of the server.
fn is_redacted(record: &Record) -> bool {
    matches!(record.field("failure"), Some(log::Value::Text(text)) if text.contains("no message"))
}
