//! Authentication, and the check that a command is authorized.

use super::{
    Member,
    connection::Request,
    document::truth,
    fault::{Fault, fault},
    reply::Reply,
    scram::{Conversation, Mechanism},
};
use crate::deployment::ConnId;
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

impl Member {
    /// Returns an error if the command requires authentication and no user has authenticated on the
    /// connection.
    pub(super) fn check_authorized(&self, conn: ConnId, request: &Request) -> Result<(), Fault> {
        let open = matches!(
            request.name.as_str(),
            "hello"
                | "isMaster"
                | "ismaster"
                | "ping"
                | "buildInfo"
                | "buildinfo"
                | "saslStart"
                | "saslContinue"
                | "logout"
                | "connectionStatus"
                | "authenticate"
                | "getnonce"
                | "whatsmyuri"
        );
        let known = self
            .connections
            .get(&conn)
            .is_some_and(|c| !c.users.is_empty());
        if self.users.is_empty() || open || known {
            return Ok(());
        }
        let text = format!("Command {} requires authentication", request.name);
        Err(fault(13, text))
    }

    pub(super) fn sasl_start(&mut self, conn: ConnId, request: &Request) -> Result<Reply, Fault> {
        let reply = self.start_conversation(conn, &request.command, &request.database)?;
        Ok(reply.into())
    }

    /// Starts authentication, for `saslStart` and for `speculativeAuthenticate` of a hello.
    pub(super) fn start_conversation(
        &mut self,
        conn: ConnId,
        command: &Document,
        database: &str,
    ) -> Result<Document, Fault> {
        let name = command.get_str("mechanism").unwrap_or_default();
        let Some(mechanism) = Mechanism::from_name(name) else {
            return Err(fault(
                334,
                format!("Received authentication for mechanism {name} which is not enabled"),
            ));
        };
        let payload = payload(command);
        let started =
            Conversation::start(&self.users, mechanism, database, &payload, &mut self.random);
        let Some((mut conversation, answer)) = started else {
            return Err(failed());
        };
        let options = command.get_document("options").ok();
        conversation.skip_empty = truth(options.and_then(|o| o.get("skipEmptyExchange")));
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.conversation = Some(conversation);
        }
        Ok(step(answer, false))
    }

    pub(super) fn sasl_continue(
        &mut self,
        conn: ConnId,
        request: &Request,
    ) -> Result<Reply, Fault> {
        let connection = self.connections.get_mut(&conn);
        let Some(connection) = connection else {
            return Err(failed());
        };
        let Some(mut conversation) = connection.conversation.take() else {
            return Err(fault(17, "No SASL session state found"));
        };
        let payload = payload(&request.command);
        let done = if conversation.proven {
            if !payload.is_empty() {
                return Err(failed());
            }
            true
        } else {
            let Some(answer) = conversation.prove(&self.users, &payload) else {
                return Err(failed());
            };
            if !conversation.skip_empty {
                connection.conversation = Some(conversation);
                return Ok(step(answer, false).into());
            }
            let reply = step(answer, true);
            let user = (conversation.database, conversation.name);
            connection.users.retain(|u| *u != user);
            connection.users.push(user);
            return Ok(reply.into());
        };
        let user = (conversation.database, conversation.name);
        connection.users.retain(|u| *u != user);
        connection.users.push(user);
        Ok(step(Vec::new(), done).into())
    }

    pub(super) fn logout(&mut self, conn: ConnId, request: &Request) -> Reply {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.users.retain(|(db, _)| *db != request.database);
        }
        Reply::default()
    }

    pub(super) fn connection_status(&self, conn: ConnId) -> Reply {
        let users = self.connections.get(&conn).map(|c| c.users.clone());
        let users: Vec<Bson> = users
            .unwrap_or_default()
            .into_iter()
            .map(|(db, user)| doc! { "user": user, "db": db }.into())
            .collect();
        let roles = if users.is_empty() {
            vec![]
        } else {
            vec![Bson::Document(doc! { "role": "root", "db": "admin" })]
        };
        doc! { "authInfo": { "authenticatedUsers": users, "authenticatedUserRoles": roles } }.into()
    }
}

fn failed() -> Fault {
    fault(18, "Authentication failed.")
}

fn payload(command: &Document) -> Vec<u8> {
    match command.get("payload") {
        Some(Bson::Binary(binary)) => binary.bytes.clone(),
        Some(Bson::String(text)) => text.clone().into_bytes(),
        _ => Vec::new(),
    }
}

fn step(payload: Vec<u8>, done: bool) -> Document {
    let payload = Binary {
        subtype: BinarySubtype::Generic,
        bytes: payload,
    };
    doc! { "conversationId": 1, "done": done, "payload": payload }
}
