//! The events of commands. The documents of sensitive commands are empty ([AUTH-22]).
//!
//! [AUTH-22]: crate::requirements::authentication#AUTH-22

use super::{document, event, handler};
use crate::{address::ServerAddress, error::Error, event};
use bson::{Document, oid::ObjectId};
use serde::{Serialize, Serializer};
use std::time::Duration;

/// The connection of a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The number of the connection in its pool, from 1.
    pub id: u32,
    /// The server's number of the connection, if the server reported one.
    pub server_id: Option<i64>,
    /// The address of the server.
    pub address: ServerAddress,
}

event! {
    /// A command is about to be sent.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    CommandStartedEvent {
        /// The command as it is sent. Document sequences are included as arrays. Empty if the
        /// document is nested deeper than [`MAX_DOCUMENT_DEPTH`](super::MAX_DOCUMENT_DEPTH).
        command: Document,
        /// The database on which the command runs.
        db: String,
        /// The name of the command, for example `find`.
        command_name: String,
        /// The request id of the message. Each attempt has its own.
        request_id: i32,
        /// The operation id, which is the same for all attempts of an operation.
        operation_id: u64,
        /// The connection of the command.
        connection: ConnectionInfo,
        /// Behind a load balancer, the id of the service that runs the command.
        service_id: Option<ObjectId>,
    }
}

event! {
    /// The server replied with `ok: 1`, or a command without a reply was sent.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    CommandSucceededEvent {
        /// The time from the encoding of the command to the decoded reply or, for a command without
        /// a reply, to the end of the write.
        duration: Duration,
        /// The reply; `{ ok: 1 }` for a command without a reply. Empty if the document is nested
        /// deeper than [`MAX_DOCUMENT_DEPTH`](super::MAX_DOCUMENT_DEPTH).
        reply: Document,
        /// The name of the command.
        command_name: String,
        /// The database on which the command ran.
        db: String,
        /// The request id of the message.
        request_id: i32,
        /// The operation id, which is the same for all attempts of an operation.
        operation_id: u64,
        /// The connection of the command.
        connection: ConnectionInfo,
        /// Behind a load balancer, the id of the service that ran the command.
        service_id: Option<ObjectId>,
    }
}

event! {
    /// The command failed, or the future of its operation was dropped.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    CommandFailedEvent {
        /// The time from the encoding of the command to the failure.
        duration: Duration,
        /// The name of the command.
        command_name: String,
        /// The error of the command; for a sensitive command, without the message of the server.
        #[serde(serialize_with = "as_text")]
        failure: Error,
        /// The database on which the command ran.
        db: String,
        /// The request id of the message.
        request_id: i32,
        /// The operation id, which is the same for all attempts of an operation.
        operation_id: u64,
        /// The connection of the command.
        connection: ConnectionInfo,
        /// Behind a load balancer, the id of the service that ran the command.
        service_id: Option<ObjectId>,
    }
}

/// Writes a value as its text.
fn as_text<S: Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

/// The events of commands.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum CommandEvent {
    /// A command is about to be sent.
    Started(CommandStartedEvent),
    /// A command succeeded.
    Succeeded(CommandSucceededEvent),
    /// A command failed.
    Failed(CommandFailedEvent),
}

handler! {
    /// The methods that a handler of command events has.
    ///
    /// The names are those of the official driver. An application can also give one function for
    /// all events of the family, with
    /// [`EventHandler::callback`](crate::options::EventHandler::callback).
    ///
    /// ```
    /// use onionskin_core::{
    ///     event::handlers::command::{CommandEventHandler, CommandFailedEvent},
    ///     options::ClientOptions,
    /// };
    /// use std::sync::Arc;
    ///
    /// struct Print;
    ///
    /// impl CommandEventHandler for Print {
    ///     fn handle_command_failed_event(&self, event: CommandFailedEvent) {
    ///         println!("{event:?}");
    ///     }
    /// }
    ///
    /// let options = ClientOptions::builder().command_event_handler(Arc::new(Print)).build();
    /// ```
    CommandEventHandler of CommandEvent {
        /// A command is about to be sent.
        handle_command_started_event: Started(CommandStartedEvent);
        /// A command succeeded.
        handle_command_succeeded_event: Succeeded(CommandSucceededEvent);
        /// A command failed.
        handle_command_failed_event: Failed(CommandFailedEvent);
    }
}

fn connection(facts: &event::CommandFacts) -> ConnectionInfo {
    ConnectionInfo {
        id: super::connection_id(facts.driver_connection_id),
        server_id: facts.server_connection_id,
        address: (&facts.address).into(),
    }
}

impl From<&event::CommandEvent> for CommandEvent {
    fn from(event: &event::CommandEvent) -> Self {
        match event {
            event::CommandEvent::Started { facts, command } => Self::Started(CommandStartedEvent {
                command: document(command),
                db: facts.database.as_ref().to_owned(),
                command_name: facts.name.as_ref().to_owned(),
                request_id: facts.request_id,
                operation_id: facts.operation_id,
                connection: connection(facts),
                service_id: facts.service,
            }),
            event::CommandEvent::Succeeded {
                facts,
                duration,
                reply,
            } => Self::Succeeded(CommandSucceededEvent {
                duration: *duration,
                reply: document(reply),
                command_name: facts.name.as_ref().to_owned(),
                db: facts.database.as_ref().to_owned(),
                request_id: facts.request_id,
                operation_id: facts.operation_id,
                connection: connection(facts),
                service_id: facts.service,
            }),
            event::CommandEvent::Failed {
                facts,
                duration,
                failure,
            } => Self::Failed(CommandFailedEvent {
                duration: *duration,
                command_name: facts.name.as_ref().to_owned(),
                failure: failure.clone(),
                db: facts.database.as_ref().to_owned(),
                request_id: facts.request_id,
                operation_id: facts.operation_id,
                connection: connection(facts),
                service_id: facts.service,
            }),
        }
    }
}
