//! Log messages of commands. Events of sensitive commands have neither documents nor error messages
//! of the server, so nothing is redacted here (AUTH-22).

use super::{Record, extended_json};
use crate::event::{CommandEvent, CommandFacts};

pub(super) fn record(event: &CommandEvent, limit: usize) -> Record {
    let mut record;
    match event {
        CommandEvent::Started { facts, command } => {
            record = of_command(
                "Command started",
                "Command \"{commandName}\" started on database \"{databaseName}\" using a \
                 connection with driver-generated ID {driverConnectionId}[ and server-generated ID \
                 {serverConnectionId}] to {server}[ with service ID {serviceId}]. The requestID is \
                 {requestId} and the operation ID is {operationId}. Command: {command}",
                facts,
            );
            record.text("command", extended_json(command, limit));
        }
        CommandEvent::Succeeded {
            facts,
            duration,
            reply,
        } => {
            record = of_command(
                "Command succeeded",
                "Command \"{commandName}\" succeeded on database \"{databaseName}\" in \
                 {durationMS} ms using a connection with driver-generated ID {driverConnectionId}[ \
                 and server-generated ID {serverConnectionId}] to {server}[ with service ID \
                 {serviceId}]. The requestID is {requestId} and the operation ID is {operationId}. \
                 Command reply: {reply}",
                facts,
            );
            record.duration(*duration);
            record.text("reply", extended_json(reply, limit));
        }
        CommandEvent::Failed {
            facts,
            duration,
            failure,
        } => {
            record = of_command(
                "Command failed",
                "Command \"{commandName}\" failed on database \"{databaseName}\" in {durationMS} \
                 ms using a connection with driver-generated ID {driverConnectionId}[ and \
                 server-generated ID {serverConnectionId}] to {server}[ with service ID \
                 {serviceId}]. The requestID is {requestId} and the operation ID is {operationId}. \
                 Error: {failure}",
                facts,
            );
            record.duration(*duration);
            record.text("failure", failure.to_string());
        }
    }
    record
}

fn of_command(message: &'static str, template: &'static str, facts: &CommandFacts) -> Record {
    let mut record = Record::new(message, template);
    record.text("commandName", &*facts.name);
    record.text("databaseName", &*facts.database);
    record.integer("requestId", i64::from(facts.request_id));
    record.count("operationId", facts.operation_id);
    record.count("driverConnectionId", facts.driver_connection_id);
    record.server(&facts.address);
    if let Some(id) = facts.server_connection_id {
        record.integer("serverConnectionId", id);
    }
    if let Some(service) = facts.service {
        record.text("serviceId", service.to_hex());
    }
    record
}
