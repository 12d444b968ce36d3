//! Tests of the messages of connections and connection pools.

use super::{ID, TIME, TOPOLOGY, check, reset, server};
use crate::{
    event::{CheckOutFailure, CloseReason, EventKind, PoolEvent, ReportedPoolOptions},
    log::Component,
};
use std::time::Duration;

const AT: &str = "serverHost=a | serverPort=27017";

#[track_caller]
fn connection(event: PoolEvent, message: &str, more: &str, text: &str) {
    let noted = format!("{AT}{more}");
    let kind = EventKind::Pool(event);
    check(kind, (Component::Connection, message, &noted, text));
}

#[test]
fn pool_created_is_logged_with_the_non_default_options() {
    // The message contains the options that differ from their defaults (CMAP-126, CMAP-127).
    let (address, options) = (server(), ReportedPoolOptions::default());
    let message = "Connection pool created";
    let text = "Connection pool created for a:27017";
    connection(PoolEvent::Created { address, options }, message, "", text);
    let chosen = "maxIdleTimeMS=1, minPoolSize=2, maxPoolSize=3, maxConnecting=4, \
                  waitQueueTimeoutMS=5";
    let (address, millis) = (server(), Duration::from_millis);
    let options = ReportedPoolOptions {
        max_pool_size: Some(3),
        min_pool_size: Some(2),
        max_idle_time: Some(millis(1)),
        max_connecting: Some(4),
        wait_queue_timeout: Some(millis(5)),
    };
    connection(
        PoolEvent::Created { address, options },
        message,
        &format!(" | {}", chosen.replace(", ", " | ")),
        &format!("{text} using options {chosen}"),
    );
}

#[test]
fn pool_ready_cleared_and_closed_are_logged() {
    // A pool that becomes ready, is cleared and is closed has these messages (CMAP-128, CMAP-129,
    // CMAP-130).
    let address = server();
    let (message, text) = ("Connection pool ready", "Connection pool ready for a:27017");
    connection(PoolEvent::Ready { address }, message, "", text);
    let of_service = (format!(" | serviceId={ID}"), format!(" for serviceId {ID}"));
    for (service, (more, text)) in [
        (None, (String::new(), String::new())),
        (Some(TOPOLOGY.0), of_service),
    ] {
        connection(
            PoolEvent::Cleared {
                address: server(),
                service,
                interrupt_in_use: false,
            },
            "Connection pool cleared",
            &more,
            &format!("Connection pool for a:27017 cleared{text}"),
        );
    }
    let address = server();
    let (message, text) = (
        "Connection pool closed",
        "Connection pool closed for a:27017",
    );
    connection(PoolEvent::Closed { address }, message, "", text);
}

#[test]
fn check_outs_are_logged() {
    // Check outs have these messages (CMAP-134, CMAP-135), with these texts for the reasons
    // (CMAP-140).
    let address = server();
    connection(
        PoolEvent::CheckOutStarted { address },
        "Connection checkout started",
        "",
        "Checkout started for connection to a:27017",
    );
    for (reason, words, error) in [
        (
            CheckOutFailure::PoolClosed,
            "Connection pool was closed",
            "",
        ),
        (
            CheckOutFailure::Timeout,
            "Wait queue timeout elapsed without a connection becoming available",
            "",
        ),
        (
            CheckOutFailure::ConnectionError,
            "An error occurred while trying to establish a new connection",
            "network error: connection reset",
        ),
    ] {
        let (field, text) = match error {
            "" => (String::new(), String::new()),
            error => (format!(" | error={error}"), format!(" Error: {error}.")),
        };
        connection(
            PoolEvent::CheckOutFailed {
                address: server(),
                reason,
                error: Some(reset()),
                duration: TIME,
            },
            "Connection checkout failed",
            &format!(" | reason={words}{field} | durationMS=1.5"),
            &format!(
                "Checkout failed for connection to a:27017. Reason: {words}.{text} Duration: 1.5 ms"
            ),
        );
    }
}

#[test]
fn the_events_of_a_connection_are_logged() {
    // Connections have these messages (CMAP-131, CMAP-132, CMAP-136, CMAP-137). A duration may be a
    // double (CMAP-138).
    let (address, connection, duration) = (server(), 4, TIME);
    let of = "address=a:27017, driver-generated ID=4";
    let created = PoolEvent::ConnectionCreated {
        address: address.clone(),
        connection,
    };
    let ready = PoolEvent::ConnectionReady {
        address: address.clone(),
        connection,
        duration,
    };
    let out = PoolEvent::CheckedOut {
        address: address.clone(),
        connection,
        duration,
    };
    let back = PoolEvent::CheckedIn {
        address,
        connection,
    };
    let (time, established, took) = (
        " | durationMS=1.5",
        ", established in=1.5 ms",
        ", duration=1.5 ms",
    );
    for (event, message, more, end) in [
        (created, "Connection created", "", ""),
        (ready, "Connection ready", time, established),
        (out, "Connection checked out", time, took),
        (back, "Connection checked in", "", ""),
    ] {
        let noted = format!(" | driverConnectionId=4{more}");
        let text = format!("{message}: {of}{end}");
        super::connections::connection(event, message, &noted, &text);
    }
}

#[test]
fn a_closed_connection_is_logged_with_its_reason() {
    // The message of a closed connection (CMAP-133) has one of the texts for the reason (CMAP-139).
    for (reason, words, error) in [
        (
            CloseReason::Stale,
            "Connection became stale because the pool was cleared",
            "",
        ),
        (
            CloseReason::Idle,
            "Connection has been available but unused for longer than the configured max idle time",
            "",
        ),
        (
            CloseReason::Error,
            "An error occurred while using the connection",
            "network error: connection reset",
        ),
        (CloseReason::PoolClosed, "Connection pool was closed", ""),
    ] {
        let (field, text) = match error {
            "" => (String::new(), String::new()),
            error => (format!(" | error={error}"), format!(" Error: {error}")),
        };
        connection(
            PoolEvent::ConnectionClosed {
                address: server(),
                connection: 4,
                reason,
                error: Some(reset()),
            },
            "Connection closed",
            &format!(" | driverConnectionId=4 | reason={words}{field}"),
            &format!(
                "Connection closed: address=a:27017, driver-generated ID=4. Reason: {words}.{text}"
            ),
        );
    }
}
