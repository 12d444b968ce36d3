//! Log messages of server discovery and monitoring: their common fields (EVT-25 to EVT-27), the
//! topology (EVT-28, EVT-29, EVT-32, SDAM-65), servers (EVT-30, EVT-31) and heartbeats (EVT-33,
//! EVT-34, EVT-35).

use super::{Record, extended_json};
use crate::{
    address::Address,
    description::TopologyId,
    event::{NoServersCause, SdamEvent},
};

pub(super) fn record(event: &SdamEvent, limit: usize) -> Option<Record> {
    let mut record;
    match event {
        SdamEvent::TopologyOpening { topology } => {
            record = of_topology(
                "Starting topology monitoring",
                "Starting monitoring for topology with ID {topologyId}",
                *topology,
            );
        }
        SdamEvent::TopologyClosed { topology } => {
            record = of_topology(
                "Stopped topology monitoring",
                "Stopped monitoring for topology with ID {topologyId}",
                *topology,
            );
        }
        SdamEvent::TopologyDescriptionChanged {
            topology,
            previous,
            new,
        } => {
            record = of_topology(
                "Topology description changed",
                "Description changed for topology with ID {topologyId}. Previous description: \
                 {previousDescription}. New description: {newDescription}",
                *topology,
            );
            record.text("previousDescription", previous.to_string());
            record.text("newDescription", new.to_string());
        }
        SdamEvent::ServerOpening { topology, address } => {
            record = of_server(
                "Starting server monitoring",
                "Starting monitoring for server {server} in topology with ID {topologyId}",
                *topology,
                address,
            );
        }
        SdamEvent::ServerClosed { topology, address } => {
            record = of_server(
                "Stopped server monitoring",
                "Stopped monitoring for server {server} in topology with ID {topologyId}",
                *topology,
                address,
            );
        }
        SdamEvent::NoServers { topology, cause } => {
            record = of_topology(
                "No servers left",
                "No server is left to be monitored in topology with ID {topologyId}: {reason}",
                *topology,
            );
            record.text("reason", reason(*cause));
        }
        // The message about the changed topology description contains this change (EVT-26).
        SdamEvent::ServerDescriptionChanged { .. } => return None,
        SdamEvent::HeartbeatStarted { .. }
        | SdamEvent::HeartbeatSucceeded { .. }
        | SdamEvent::HeartbeatFailed { .. } => return of_heartbeat(event, limit),
    }
    Some(record)
}

/// Returns the message and the template for an event of a heartbeat.
const fn heartbeat(event: &SdamEvent) -> (&'static str, &'static str) {
    match event {
        SdamEvent::HeartbeatStarted { .. } => (
            "Server heartbeat started",
            "Heartbeat started for {server} on connection with driver-generated ID \
             {driverConnectionId}[ and server-generated ID {serverConnectionId}] in topology with \
             ID {topologyId}. Awaited: {awaited}",
        ),
        SdamEvent::HeartbeatSucceeded { .. } => (
            "Server heartbeat succeeded",
            "Heartbeat succeeded in {durationMS} ms for {server} on connection with \
             driver-generated ID {driverConnectionId}[ and server-generated ID \
             {serverConnectionId}] in topology with ID {topologyId}. Awaited: {awaited}. Reply: \
             {reply}",
        ),
        _ => (
            "Server heartbeat failed",
            "Heartbeat failed in {durationMS} ms for {server} on connection with \
             driver-generated ID {driverConnectionId}[ and server-generated ID \
             {serverConnectionId}] in topology with ID {topologyId}. Awaited: {awaited}. Failure: \
             {failure}",
        ),
    }
}

fn of_heartbeat(event: &SdamEvent, limit: usize) -> Option<Record> {
    let (message, template) = heartbeat(event);
    let (SdamEvent::HeartbeatStarted {
        topology,
        address,
        driver_connection_id,
        server_connection_id,
        awaited,
    }
    | SdamEvent::HeartbeatSucceeded {
        topology,
        address,
        driver_connection_id,
        server_connection_id,
        awaited,
        ..
    }
    | SdamEvent::HeartbeatFailed {
        topology,
        address,
        driver_connection_id,
        server_connection_id,
        awaited,
        ..
    }) = event
    else {
        return None;
    };
    let mut record = of_server(message, template, *topology, address);
    record.count("driverConnectionId", *driver_connection_id);
    if let Some(id) = server_connection_id {
        record.integer("serverConnectionId", *id);
    }
    record.boolean("awaited", *awaited);
    match event {
        SdamEvent::HeartbeatSucceeded {
            duration, reply, ..
        } => {
            record.duration(*duration);
            // Monitors do not authenticate, so their replies lack `speculativeAuthenticate`. A
            // reply that has the field all the same is not shown.
            let is_sensitive = !matches!(reply.get("speculativeAuthenticate"), Ok(None));
            let shown = if is_sensitive {
                "{}".to_owned()
            } else {
                extended_json(reply, limit)
            };
            record.text("reply", shown);
        }
        SdamEvent::HeartbeatFailed {
            duration, failure, ..
        } => {
            record.duration(*duration);
            record.text("failure", failure.to_string());
        }
        _ => {}
    }
    Some(record)
}

fn of_topology(message: &'static str, template: &'static str, topology: TopologyId) -> Record {
    let mut record = Record::new(message, template);
    record.text("topologyId", topology.to_string());
    record
}

fn of_server(
    message: &'static str,
    template: &'static str,
    topology: TopologyId,
    address: &Address,
) -> Record {
    let mut record = of_topology(message, template, topology);
    record.server(address);
    record
}

fn reason(cause: NoServersCause) -> &'static str {
    match cause {
        NoServersCause::NoSeeds => "the client was made without any",
        NoServersCause::LastRemoved => {
            "the last one was removed for what it said about itself; check the hosts and the \
             replica set's name in the connection string"
        }
    }
}
