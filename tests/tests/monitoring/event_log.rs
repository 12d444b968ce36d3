//! The event log, which stores the events of a client, and conditions to search it with.

use onionskin::event::EventListener;
use onionskin_core::{
    description::{ServerType, TopologyDescription, TopologyType},
    event::{CommandEvent, Event, EventKind, PoolEvent, SdamEvent},
    time::Instant,
};
use onionskin_worlds::world::runtime::member_addresses;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A condition on an event.
pub(crate) type Is = fn(&Event) -> bool;

/// All events of a client so far.
#[derive(Clone, Default)]
pub(crate) struct EventLog(Arc<Mutex<Vec<Event>>>);

impl EventLog {
    pub(crate) fn listener(&self) -> EventListener {
        let events = self.clone();
        Arc::new(move |event: &Event| events.lock().push(event.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.lock().iter().filter(|event| is(event)).count()
    }

    /// Returns the times of the events that fulfil the condition.
    pub(crate) fn times(&self, is: impl Fn(&Event) -> bool) -> Vec<Instant> {
        let events = self.lock();
        events.iter().filter(|e| is(e)).map(|e| e.at).collect()
    }

    /// Calls `note` with each event, in order, and returns the results that are not `None`.
    pub(crate) fn notes<T>(&self, note: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.lock().iter().filter_map(note).collect()
    }

    /// Returns the number of events so far, for [`notes_since`](Self::notes_since).
    pub(crate) fn mark(&self) -> usize {
        self.lock().len()
    }

    /// Calls `note` with each event after a [`mark`](Self::mark), and returns the results that are
    /// not `None`.
    pub(crate) fn notes_since<T>(&self, mark: usize, note: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.lock()[mark..].iter().filter_map(note).collect()
    }

    /// Returns the times and short names of all events, for failure messages.
    pub(crate) fn names(&self) -> Vec<String> {
        self.notes(|event| Some(format!("{:?} {}", event.at.since_start(), name(event))))
    }
}

/// True if the event reports that a server became unknown.
pub(crate) fn unknown(event: &Event) -> bool {
    became(ServerType::Unknown)(event)
}

/// Returns a condition that is true for an event which reports that a server now has this type.
pub(crate) fn became(wanted: ServerType) -> impl Fn(&Event) -> bool {
    move |event| {
        matches!(
            &event.kind,
            EventKind::Sdam(SdamEvent::ServerDescriptionChanged { new, .. })
                if new.server_type == wanted
        )
    }
}

pub(crate) fn server_changed(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::Sdam(SdamEvent::ServerDescriptionChanged { .. })
    )
}

pub(crate) fn pool_cleared(event: &Event) -> bool {
    matches!(&event.kind, EventKind::Pool(PoolEvent::Cleared { .. }))
}

pub(crate) fn pool_ready(event: &Event) -> bool {
    matches!(&event.kind, EventKind::Pool(PoolEvent::Ready { .. }))
}

pub(crate) fn connection_closed(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::Pool(PoolEvent::ConnectionClosed { .. })
    )
}

pub(crate) fn connection_created(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::Pool(PoolEvent::ConnectionCreated { .. })
    )
}

pub(crate) fn connection_ready(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::Pool(PoolEvent::ConnectionReady { .. })
    )
}

pub(crate) fn check_out_failed(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::Pool(PoolEvent::CheckOutFailed { .. })
    )
}

pub(crate) fn heartbeat_started(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::Sdam(SdamEvent::HeartbeatStarted { .. })
    )
}

pub(crate) fn heartbeat_succeeded(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::Sdam(SdamEvent::HeartbeatSucceeded { .. })
    )
}

pub(crate) fn heartbeat_failed(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::Sdam(SdamEvent::HeartbeatFailed { .. })
    )
}

/// Returns a condition that is true for heartbeat events of this member that fulfil `is`.
pub(crate) fn heartbeats_of(member: usize, is: Is) -> impl Fn(&Event) -> bool {
    let wanted = member_addresses(member + 1).swap_remove(member);
    move |event| {
        let EventKind::Sdam(
            SdamEvent::HeartbeatStarted { address, .. }
            | SdamEvent::HeartbeatSucceeded { address, .. }
            | SdamEvent::HeartbeatFailed { address, .. },
        ) = &event.kind
        else {
            return false;
        };
        *address == wanted && is(event)
    }
}

/// Returns `started`, `succeeded` or `failed` for a heartbeat event, and whether the heartbeat is
/// awaited; `None` for other events.
pub(crate) fn heartbeat(event: &Event) -> Option<(&'static str, bool)> {
    match &event.kind {
        EventKind::Sdam(SdamEvent::HeartbeatStarted { awaited, .. }) => Some(("started", *awaited)),
        EventKind::Sdam(SdamEvent::HeartbeatSucceeded { awaited, .. }) => {
            Some(("succeeded", *awaited))
        }
        EventKind::Sdam(SdamEvent::HeartbeatFailed { awaited, .. }) => Some(("failed", *awaited)),
        _ => None,
    }
}

/// Returns `changed` for a change of the topology description, with the topology types before and
/// after the change. Returns `opening` or `closed`, with the type `Unknown` twice, for the events
/// of these names; `None` for other events.
pub(crate) fn topology_event(event: &Event) -> Option<(&'static str, TopologyType, TopologyType)> {
    let unknown = TopologyType::Unknown;
    let kind = |description: &TopologyDescription| description.topology_type;
    match &event.kind {
        EventKind::Sdam(SdamEvent::TopologyOpening { .. }) => Some(("opening", unknown, unknown)),
        EventKind::Sdam(SdamEvent::TopologyDescriptionChanged { previous, new, .. }) => {
            Some(("changed", kind(previous), kind(new)))
        }
        EventKind::Sdam(SdamEvent::TopologyClosed { .. }) => Some(("closed", unknown, unknown)),
        _ => None,
    }
}

pub(crate) fn topology_changed(event: &Event) -> bool {
    matches!(
        &event.kind,
        EventKind::Sdam(SdamEvent::TopologyDescriptionChanged { .. })
    )
}

/// Returns the short name of an event of a pool, such as `checked out`; `None` for other events.
pub(crate) fn pool_name(event: &Event) -> Option<&'static str> {
    let EventKind::Pool(event) = &event.kind else {
        return None;
    };
    Some(match event {
        PoolEvent::Created { .. } => "created",
        PoolEvent::Ready { .. } => "ready",
        PoolEvent::Cleared {
            interrupt_in_use: true,
            ..
        } => "cleared, interrupting",
        PoolEvent::Cleared { .. } => "cleared",
        PoolEvent::Closed { .. } => "closed",
        PoolEvent::ConnectionCreated { .. } => "connection created",
        PoolEvent::ConnectionReady { .. } => "connection ready",
        PoolEvent::ConnectionClosed { .. } => "connection closed",
        PoolEvent::CheckOutStarted { .. } => "check out started",
        PoolEvent::CheckOutFailed { .. } => "check out failed",
        PoolEvent::CheckedOut { .. } => "checked out",
        PoolEvent::CheckedIn { .. } => "checked in",
        _ => return None,
    })
}

/// Returns the name of a command event, such as `find started` or `insert failed`; `None` for other
/// events.
pub(crate) fn command_name(event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, .. }) => {
            Some(format!("{} started", facts.name))
        }
        EventKind::Command(CommandEvent::Succeeded { facts, .. }) => {
            Some(format!("{} succeeded", facts.name))
        }
        EventKind::Command(CommandEvent::Failed { facts, .. }) => {
            Some(format!("{} failed", facts.name))
        }
        _ => None,
    }
}

/// Returns the server of a command that was started.
pub(crate) fn server_of_command(event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, .. }) => Some(facts.address.to_string()),
        _ => None,
    }
}

fn name(event: &Event) -> String {
    if let Some(name) = pool_name(event) {
        return format!("pool {name}");
    }
    if let Some(name) = command_name(event) {
        return name;
    }
    if let Some((what, awaited)) = heartbeat(event) {
        return format!("heartbeat {what}{}", if awaited { ", awaited" } else { "" });
    }
    match &event.kind {
        EventKind::Sdam(SdamEvent::ServerDescriptionChanged { new, .. }) => new.to_string(),
        EventKind::Sdam(SdamEvent::TopologyDescriptionChanged { new, .. }) => {
            new.topology_type.to_string()
        }
        EventKind::Sdam(other) => {
            let text = format!("{other:?}");
            text.split(' ').next().unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}
