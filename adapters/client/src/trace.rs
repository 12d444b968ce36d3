//! Log messages as events of the `tracing` library.

use crate::event::EventListener;
use onionskin_core::{
    event::Event,
    log::{self, Component, Level, LogOptions, Record, Value},
};
use std::sync::Arc;
use tracing::{dispatcher::Dispatch, subscriber::NoSubscriber};

// Targets are constants, because `tracing` needs targets, levels and field names at compile time.
const COMMAND: &str = "onionskin::command";
const TOPOLOGY: &str = "onionskin::topology";
const SERVER_SELECTION: &str = "onionskin::server_selection";
const CONNECTION: &str = "onionskin::connection";
const CLIENT: &str = "onionskin::client";

/// True if the `tracing` subscriber of this thread collects messages of this component and level.
pub(crate) fn is_collected(component: Component, level: Level) -> bool {
    macro_rules! asked {
        ($target:expr) => {
            match level {
                Level::Error => tracing::enabled!(target: $target, tracing::Level::ERROR),
                Level::Warn => tracing::enabled!(target: $target, tracing::Level::WARN),
                Level::Info => tracing::enabled!(target: $target, tracing::Level::INFO),
                Level::Debug => tracing::enabled!(target: $target, tracing::Level::DEBUG),
                Level::Trace => tracing::enabled!(target: $target, tracing::Level::TRACE),
            }
        };
    }
    match component {
        Component::Command => asked!(COMMAND),
        Component::Topology => asked!(TOPOLOGY),
        Component::ServerSelection => asked!(SERVER_SELECTION),
        Component::Connection => asked!(CONNECTION),
        Component::Client => asked!(CLIENT),
        _ => false,
    }
}

/// Returns an event listener that writes the log messages that `options` select and the subscriber
/// collects.
///
/// The thread that delivers events writes the messages. They go to the subscriber of the thread
/// that built the client, or to the global subscriber if that thread had none.
pub(crate) fn listener(options: LogOptions) -> EventListener {
    let subscriber = tracing::dispatcher::get_default(Dispatch::clone);
    Arc::new(move |event| {
        if subscriber.is::<NoSubscriber>() {
            emit_event(&options, event);
        } else {
            tracing::dispatcher::with_default(&subscriber, || emit_event(&options, event));
        }
    })
}

fn emit_event(options: &LogOptions, event: &Event) {
    let wanted =
        log::class(event).is_some_and(|(component, level)| is_wanted(options, component, level));
    if wanted && let Some(record) = log::record(event, options.max_document_length_bytes()) {
        emit(&record);
    }
}

/// Writes one message to `tracing`, if `options` select it and the subscriber of this thread
/// collects it.
pub(crate) fn emit_if_wanted(options: &LogOptions, record: &Record) {
    if is_wanted(options, record.component(), record.level()) {
        emit(record);
    }
}

fn is_wanted(options: &LogOptions, component: Component, level: Level) -> bool {
    options.wants(component, level) && is_collected(component, level)
}

/// Emits one `tracing` event with the fields of its target. A field that the message lacks is
/// omitted.
macro_rules! event {
    ($target:expr, $record:expr, $($field:ident)*) => {{
        let record = $record;
        macro_rules! at {
            ($level:expr) => {
                tracing::event!(
                    target: $target,
                    $level,
                    message = record.message(),
                    $($field = value(record, stringify!($field)),)*
                )
            };
        }
        match record.level() {
            Level::Error => at!(tracing::Level::ERROR),
            Level::Warn => at!(tracing::Level::WARN),
            Level::Info => at!(tracing::Level::INFO),
            Level::Debug => at!(tracing::Level::DEBUG),
            Level::Trace => at!(tracing::Level::TRACE),
        }
    }};
}

fn emit(record: &Record) {
    match record.component() {
        Component::Command => event!(COMMAND, record,
            commandName databaseName requestId operationId driverConnectionId serverHost serverPort
            serverConnectionId serviceId command durationMS reply failure),
        Component::Topology => event!(TOPOLOGY, record,
            topologyId serverHost serverPort driverConnectionId serverConnectionId awaited
            durationMS reply failure previousDescription newDescription reason),
        Component::ServerSelection => event!(SERVER_SELECTION, record,
            selector operationId operation topologyDescription serverHost serverPort failure
            remainingTimeMS),
        Component::Connection => event!(CONNECTION, record,
            serverHost serverPort driverConnectionId durationMS reason error serviceId
            maxIdleTimeMS minPoolSize maxPoolSize maxConnecting waitQueueTimeoutMS),
        Component::Client => event!(CLIENT, record, warning droppedEvents),
        _ => {}
    }
}

fn value<'a>(record: &'a Record, name: &str) -> Option<&'a dyn tracing::Value> {
    Some(match record.field(name)? {
        Value::Text(text) => text,
        Value::Integer(number) => number,
        Value::Double(number) => number,
        Value::Boolean(value) => value,
        _ => return None,
    })
}
