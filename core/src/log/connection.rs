//! Log messages of connections and connection pools (CMAP-126 to CMAP-140).

use super::Record;
use crate::{
    address::Address,
    event::{CheckOutFailure, CloseReason, PoolEvent, ReportedPoolOptions},
};

/// The template of a message about a connection: the given words, the address and the connection
/// id.
macro_rules! connection {
    ($($words:literal),*) => {
        concat!($($words,)* ": address={server}, driver-generated ID={driverConnectionId}")
    };
}

pub(super) fn record(event: &PoolEvent) -> Record {
    match event {
        PoolEvent::Created { address, options } => created(address, options),
        PoolEvent::Ready { address } => of_pool(
            "Connection pool ready",
            "Connection pool ready for {server}",
            address,
        ),
        PoolEvent::Cleared {
            address, service, ..
        } => {
            let template = "Connection pool for {server} cleared[ for serviceId {serviceId}]";
            let mut record = of_pool("Connection pool cleared", template, address);
            if let Some(service) = service {
                record.text("serviceId", service.to_hex());
            }
            record
        }
        PoolEvent::Closed { address } => of_pool(
            "Connection pool closed",
            "Connection pool closed for {server}",
            address,
        ),
        PoolEvent::CheckOutStarted { address } => of_pool(
            "Connection checkout started",
            "Checkout started for connection to {server}",
            address,
        ),
        PoolEvent::CheckOutFailed {
            address,
            reason,
            error,
            duration,
        } => {
            let template = "Checkout failed for connection to {server}. Reason: {reason}.\
                            [ Error: {error}.] Duration: {durationMS} ms";
            let mut record = of_pool("Connection checkout failed", template, address);
            record.text("reason", check_out_reason(*reason));
            // The reasons `PoolClosed` and `Timeout` have no further cause.
            if let (CheckOutFailure::ConnectionError, Some(error)) = (reason, error) {
                record.text("error", error.to_string());
            }
            record.duration(*duration);
            record
        }
        PoolEvent::ConnectionCreated { .. }
        | PoolEvent::ConnectionReady { .. }
        | PoolEvent::ConnectionClosed { .. }
        | PoolEvent::CheckedOut { .. }
        | PoolEvent::CheckedIn { .. } => of_connection(event),
    }
}

/// Returns the message and the template for an event of a connection.
const fn words(event: &PoolEvent) -> (&'static str, &'static str) {
    match event {
        PoolEvent::ConnectionCreated { .. } => {
            ("Connection created", connection!("Connection created"))
        }
        PoolEvent::ConnectionReady { .. } => (
            "Connection ready",
            concat!(
                connection!("Connection ready"),
                ", established in={durationMS} ms"
            ),
        ),
        PoolEvent::ConnectionClosed { .. } => (
            "Connection closed",
            concat!(
                connection!("Connection closed"),
                ". Reason: {reason}.[ Error: {error}]"
            ),
        ),
        PoolEvent::CheckedOut { .. } => (
            "Connection checked out",
            concat!(
                connection!("Connection checked out"),
                ", duration={durationMS} ms"
            ),
        ),
        _ => (
            "Connection checked in",
            connection!("Connection checked in"),
        ),
    }
}

fn of_connection(event: &PoolEvent) -> Record {
    let (message, template) = words(event);
    let mut record = Record::new(message, template);
    match event {
        PoolEvent::ConnectionReady {
            address,
            connection,
            duration,
        }
        | PoolEvent::CheckedOut {
            address,
            connection,
            duration,
        } => {
            record.server(address);
            record.count("driverConnectionId", *connection);
            record.duration(*duration);
        }
        PoolEvent::ConnectionClosed {
            address,
            connection,
            reason,
            error,
        } => {
            record.server(address);
            record.count("driverConnectionId", *connection);
            record.text("reason", close_reason(*reason));
            if let (CloseReason::Error, Some(error)) = (reason, error) {
                record.text("error", error.to_string());
            }
        }
        PoolEvent::ConnectionCreated {
            address,
            connection,
        }
        | PoolEvent::CheckedIn {
            address,
            connection,
        } => {
            record.server(address);
            record.count("driverConnectionId", *connection);
        }
        _ => {}
    }
    record
}

fn created(address: &Address, options: &ReportedPoolOptions) -> Record {
    let template = "Connection pool created for {server}[ using options {options}]";
    let mut record = of_pool("Connection pool created", template, address);
    if let Some(time) = options.max_idle_time {
        record.millis("maxIdleTimeMS", time);
    }
    for (name, number) in [
        ("minPoolSize", options.min_pool_size),
        ("maxPoolSize", options.max_pool_size),
        ("maxConnecting", options.max_connecting),
    ] {
        if let Some(number) = number {
            record.integer(name, i64::from(number));
        }
    }
    if let Some(time) = options.wait_queue_timeout {
        record.millis("waitQueueTimeoutMS", time);
    }
    record
}

fn of_pool(message: &'static str, template: &'static str, address: &Address) -> Record {
    let mut record = Record::new(message, template);
    record.server(address);
    record
}

/// Returns the text that the specification defines for this reason (CMAP-139).
fn close_reason(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Stale => "Connection became stale because the pool was cleared",
        CloseReason::Idle => {
            "Connection has been available but unused for longer than the configured max idle time"
        }
        CloseReason::Error => "An error occurred while using the connection",
        CloseReason::PoolClosed => "Connection pool was closed",
    }
}

/// Returns the text that the specification defines for this reason (CMAP-140).
fn check_out_reason(reason: CheckOutFailure) -> &'static str {
    match reason {
        CheckOutFailure::PoolClosed => "Connection pool was closed",
        CheckOutFailure::Timeout => {
            "Wait queue timeout elapsed without a connection becoming available"
        }
        CheckOutFailure::ConnectionError => {
            "An error occurred while trying to establish a new connection"
        }
    }
}
