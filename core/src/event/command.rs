//! Events of commands. Events of sensitive commands have neither documents nor error messages of
//! the server, so log messages need no redaction of their own (AUTH-22).

use super::table::{Fields, Visit, events};
use crate::{address::Address, error::Error};
use bson::{RawDocumentBuf, oid::ObjectId};
use std::{sync::Arc, time::Duration};

/// The fields that all events of one attempt of a command have in common.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "unstable-machines"), non_exhaustive)]
pub struct CommandFacts {
    /// The name of the command, for example `find`.
    pub name: Arc<str>,
    /// The database on which the command runs.
    pub database: Arc<str>,
    /// The request id of the message. Each attempt has its own.
    pub request_id: i32,
    /// The operation id, which is the same for all attempts of an operation.
    pub operation_id: u64,
    /// The address of the server.
    pub address: Address,
    /// The number of the connection in its pool.
    pub driver_connection_id: u64,
    /// The server's number of the connection, if the server reported one.
    pub server_connection_id: Option<i64>,
    /// Behind a load balancer, the id of the service that runs the command.
    pub service: Option<ObjectId>,
}

impl Fields for CommandFacts {
    fn visit(&self, _: &'static str, visit: &mut Visit<'_>) {
        self.name.visit("commandName", visit);
        self.database.visit("databaseName", visit);
        i64::from(self.request_id).visit("requestId", visit);
        self.operation_id.visit("operationId", visit);
        self.driver_connection_id.visit("driverConnectionId", visit);
        self.address.visit("server", visit);
        self.server_connection_id.visit("serverConnectionId", visit);
        self.service.visit("serviceId", visit);
    }
}

/// The part of a log message that states the connection and the ids of a command.
macro_rules! command {
    () => {
        " using a connection with driver-generated ID {driverConnectionId}[ and server-generated \
         ID {serverConnectionId}] to {server}[ with service ID {serviceId}]. The requestID is \
         {requestId} and the operation ID is {operationId}."
    };
}

events! {
    /// Events of commands. The documents of sensitive commands are empty ([AUTH-22]).
    ///
    /// [AUTH-22]: crate::requirements::authentication#AUTH-22
    #[derive(Clone, Debug)]
    pub enum CommandEvent {
        /// A command is about to be sent.
        Started {
            /// The name, the ids and the connection of the command.
            facts: Arc<CommandFacts> => "facts",
            /// The command as it is sent. Document sequences are included as arrays.
            command: RawDocumentBuf => "command",
        }
        trace ("{} {} started at {}", facts.name, facts.request_id, facts.address)
        log "Command started",
            concat!("Command \"{commandName}\" started on database \"{databaseName}\"", command!(),
                " Command: {command}");

        /// The server replied with `ok: 1`, or a command without a reply was sent.
        Succeeded {
            /// The name, the ids and the connection of the command.
            facts: Arc<CommandFacts> => "facts",
            /// The time from the encoding of the command to the decoded reply or, for a command
            /// without a reply, to the end of the write.
            duration: Duration => "durationMS",
            /// The reply; `{ ok: 1 }` for a command without a reply.
            reply: RawDocumentBuf => "reply",
        }
        trace ("{} {} succeeded after {duration:?}", facts.name, facts.request_id)
        log "Command succeeded",
            concat!("Command \"{commandName}\" succeeded on database \"{databaseName}\" in \
                {durationMS} ms", command!(), " Command reply: {reply}");

        /// The command failed, or the future of its operation was dropped.
        Failed {
            /// The name, the ids and the connection of the command.
            facts: Arc<CommandFacts> => "facts",
            /// The time from the encoding of the command to the failure.
            duration: Duration => "durationMS",
            /// The error of the command; for a sensitive command, without the message of the
            /// server.
            failure: Error => "failure",
        }
        trace ("{} {} failed: {failure}", facts.name, facts.request_id)
        log "Command failed",
            concat!("Command \"{commandName}\" failed on database \"{databaseName}\" in \
                {durationMS} ms", command!(), " Error: {failure}");
    }
}
