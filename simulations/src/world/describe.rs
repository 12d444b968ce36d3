//! Formats events as lines of a trace. A line has only what identifies the event.

use onionskin_core::event::{
    CommandEvent, Event, EventKind, OperationEvent, PoolEvent, SdamEvent, SelectionEvent,
};

/// Formats an event as one line.
#[must_use]
pub(super) fn describe(event: &Event) -> String {
    match &event.kind {
        EventKind::Sdam(event) => sdam(event),
        EventKind::Pool(event) => pool(event),
        EventKind::Command(event) => command(event),
        EventKind::Selection(event) => selection(event),
        EventKind::Operation(event) => operation(event),
        _ => "unknown".to_owned(),
    }
}

fn operation(event: &OperationEvent) -> String {
    match event {
        OperationEvent::Started { facts } => {
            format!("operation {} begins: {}", facts.operation_id, facts.name)
        }
        OperationEvent::Ended { facts, failure, .. } => match failure {
            None => format!("operation {} ends", facts.operation_id),
            Some(error) => format!("operation {} fails: {error}", facts.operation_id),
        },
        _ => "unknown".to_owned(),
    }
}

fn sdam(event: &SdamEvent) -> String {
    match event {
        SdamEvent::TopologyOpening { topology } => format!("topology {topology} opening"),
        SdamEvent::TopologyClosed { topology } => format!("topology {topology} closed"),
        SdamEvent::TopologyDescriptionChanged { new, .. } => format!("topology is {new}"),
        SdamEvent::ServerOpening { address, .. } => format!("{address} opening"),
        SdamEvent::ServerClosed { address, .. } => format!("{address} closed"),
        SdamEvent::ServerDescriptionChanged { new, .. } => format!("server is {new}"),
        SdamEvent::NoServers { cause, .. } => format!("no servers: {cause:?}"),
        SdamEvent::HeartbeatStarted {
            address, awaited, ..
        } => format!("{address} check started, awaited: {awaited}"),
        SdamEvent::HeartbeatSucceeded {
            address, duration, ..
        } => format!("{address} check succeeded after {duration:?}"),
        SdamEvent::HeartbeatFailed {
            address, failure, ..
        } => format!("{address} check failed: {failure}"),
        _ => "unknown".to_owned(),
    }
}

fn pool(event: &PoolEvent) -> String {
    match event {
        PoolEvent::Created { address, options } => format!("{address} pool created: {options:?}"),
        PoolEvent::Ready { address } => format!("{address} pool ready"),
        PoolEvent::Cleared {
            address,
            service,
            interrupt_in_use,
        } => match service {
            Some(service) => format!("{address} pool cleared of service {service}"),
            None => format!("{address} pool cleared, interrupting: {interrupt_in_use}"),
        },
        PoolEvent::Closed { address } => format!("{address} pool closed"),
        PoolEvent::ConnectionCreated {
            address,
            connection,
        } => format!("{address} connection {connection} created"),
        PoolEvent::ConnectionReady {
            address,
            connection,
            duration,
        } => format!("{address} connection {connection} ready after {duration:?}"),
        PoolEvent::ConnectionClosed {
            address,
            connection,
            reason,
            error,
        } => format!("{address} connection {connection} closed: {reason:?} {error:?}"),
        PoolEvent::CheckOutStarted { address } => format!("{address} check-out started"),
        PoolEvent::CheckOutFailed {
            address,
            reason,
            duration,
            ..
        } => format!("{address} check-out failed after {duration:?}: {reason:?}"),
        PoolEvent::CheckedOut {
            address,
            connection,
            duration,
        } => format!("{address} connection {connection} checked out after {duration:?}"),
        PoolEvent::CheckedIn {
            address,
            connection,
        } => format!("{address} connection {connection} checked in"),
        _ => "unknown".to_owned(),
    }
}

fn command(event: &CommandEvent) -> String {
    match event {
        CommandEvent::Started { facts, .. } => {
            format!(
                "{} {} started at {}",
                facts.name, facts.request_id, facts.address
            )
        }
        CommandEvent::Succeeded {
            facts, duration, ..
        } => format!(
            "{} {} succeeded after {duration:?}",
            facts.name, facts.request_id
        ),
        CommandEvent::Failed { facts, failure, .. } => {
            format!("{} {} failed: {failure}", facts.name, facts.request_id)
        }
        _ => "unknown".to_owned(),
    }
}

fn selection(event: &SelectionEvent) -> String {
    match event {
        SelectionEvent::Started { facts } => format!("operation {} selects", facts.operation_id),
        SelectionEvent::Waiting { facts, remaining } => {
            format!("operation {} waits {remaining:?}", facts.operation_id)
        }
        SelectionEvent::Succeeded { facts, address } => {
            format!("operation {} selected {address}", facts.operation_id)
        }
        SelectionEvent::Failed { facts, failure } => {
            format!("operation {} selected none: {failure}", facts.operation_id)
        }
        _ => "unknown".to_owned(),
    }
}
