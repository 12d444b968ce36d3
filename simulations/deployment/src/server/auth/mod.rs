//! The server's side of authentication: conversations of the mechanisms, and logins.
//!
//! A connection has at most one conversation and at most one login. A new conversation replaces an
//! unfinished one, and a successful conversation replaces the login.

mod accounts;
mod aws;
mod commands;
#[cfg(feature = "gssapi")]
mod gssapi;
mod hostile;
mod oidc;
mod plain;
mod roles;
mod scram;
mod x509;

pub(crate) use accounts::Accounts;
pub(super) use roles::{Login, unauthorized};

use super::{
    Member,
    connection::Request,
    dispatch::Answer,
    document::{integer_field, owned, truth},
    fault::{Fault, fault, type_mismatch},
    reply::Reply,
};
use crate::deployment::{AuthMechanism, ConnId, EXTERNAL};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bson::{Binary, Bson, Document, RawDocument, doc, spec::BinarySubtype};
use onionskin_core::time::Instant;

/// The id of each conversation. A connection has at most one conversation, so one id is enough.
const CONVERSATION_ID: i32 = 1;

/// The size in bytes of the largest payload that the server accepts. A larger one makes the
/// authentication fail.
const MAX_PAYLOAD_BYTES: usize = 64 * 1024;

/// A conversation in progress, which the next `saslContinue` continues.
#[derive(Debug)]
pub(super) enum Conversation {
    /// A conversation that never ends, because of a fault.
    Endless,
    Scram(Box<scram::Conversation>),
    Aws(aws::Conversation),
    Oidc(oidc::Conversation),
    #[cfg(feature = "gssapi")]
    Gssapi(gssapi::Conversation),
}

/// The server's next step in a conversation, with the payload of the reply.
enum Step {
    /// The conversation continues.
    More(Conversation, Vec<u8>),
    /// The user has authenticated.
    Done(Login, Vec<u8>),
}

impl Member {
    pub(super) fn sasl_start(&mut self, now: Instant, conn: ConnId, request: &Request) -> Answer {
        self.auth_counts.starts += 1;
        let reply = self.start_conversation(now, conn, &request.command, &request.database)?;
        self.answer_sasl(conn, reply)
    }

    /// Performs speculative authentication of a hello. Returns `None` if it fails, and for PLAIN,
    /// MONGODB-AWS and GSSAPI (AUTH-33, AUTH-34).
    pub(super) fn authenticate_speculatively(
        &mut self,
        now: Instant,
        conn: ConnId,
        command: &Document,
    ) -> Option<Document> {
        self.auth_counts.speculative += 1;
        let database = command.get_str("db");
        let mechanism = command.get_str("mechanism").ok();
        if mechanism.is_some_and(|name| ["PLAIN", "MONGODB-AWS", "GSSAPI"].contains(&name)) {
            return None;
        }
        match command.contains_key("authenticate") {
            true => self.authenticate_x509(conn, command, database.unwrap_or(EXTERNAL)),
            false => self.start_conversation(now, conn, command, database.unwrap_or("admin")),
        }
        .ok()
    }

    fn start_conversation(
        &mut self,
        now: Instant,
        conn: ConnId,
        command: &Document,
        database: &str,
    ) -> Result<Document, Fault> {
        let Some(name) = command.get("mechanism") else {
            let text = "BSON field 'saslStart.mechanism' is missing but a required field";
            return Err(fault(40414, text));
        };
        let mechanism = self.enabled_mechanism(name.as_str().unwrap_or_default())?;
        let fault = self.next_auth_fault();
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.conversation = None;
            connection.mechanism = Some(mechanism);
            connection.auth_fault = fault;
        }
        let payload = payload(command, "saslStart")?;
        let step = match mechanism {
            AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256 => {
                let options = command.get_document("options").ok();
                let skip_empty = truth(options.and_then(|o| o.get("skipEmptyExchange")));
                let user = scram::user_name(&payload).ok_or_else(failed)?;
                let account = self.accounts.find(database, &user).ok_or_else(failed)?;
                scram::start(
                    account,
                    mechanism,
                    (skip_empty, fault),
                    &payload,
                    &mut self.random,
                )
            }
            AuthMechanism::Plain => plain::start(&self.accounts, database, &payload),
            _ if database != EXTERNAL => None,
            AuthMechanism::Aws => {
                let host = &self.options.auth.sts_host;
                aws::start(host, fault, &payload, &mut self.random)
            }
            AuthMechanism::Oidc => {
                let (issuers, now) = (&self.options.auth.issuers, self.wall_time(now));
                oidc::start(issuers, &self.accounts, now, &payload)
            }
            AuthMechanism::X509 => None,
            #[cfg(feature = "gssapi")]
            AuthMechanism::Gssapi => gssapi::start(&self.accounts, &payload),
        };
        let mut reply = self.carry_on(conn, step, false)?;
        use_payload_type(command, &mut reply);
        Ok(reply)
    }

    pub(super) fn sasl_continue(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: &Request,
    ) -> Answer {
        self.auth_counts.continues += 1;
        let connection = self.connections.get_mut(&conn);
        let Some(conversation) = connection.and_then(|c| c.conversation.take()) else {
            return Err(fault(17, "No SASL session state found"));
        };
        if integer_field(&request.command, "conversationId") != Some(CONVERSATION_ID.into()) {
            return Err(fault(17, "sasl: Mismatched conversation id"));
        }
        let payload = payload(&request.command, "saslContinue")?;
        let step = match conversation {
            Conversation::Endless => Some(Step::More(Conversation::Endless, Vec::new())),
            Conversation::Scram(scram) => scram.advance(&payload),
            Conversation::Aws(aws) => {
                let (identities, now) = (&self.options.auth.aws, self.wall_time(now));
                aws.advance(identities, &self.accounts, now, &payload)
            }
            #[cfg(feature = "gssapi")]
            Conversation::Gssapi(gssapi) => gssapi.advance(&self.accounts, &payload),
            Conversation::Oidc(oidc) => oidc.advance(&self.accounts, self.wall_time(now), &payload),
        };
        let mut reply = self.carry_on(conn, step, true)?;
        use_payload_type(&request.command, &mut reply);
        self.answer_sasl(conn, reply)
    }

    /// Keeps the conversation or the login of a step, and returns the reply. Without a step, the
    /// authentication fails.
    fn carry_on(
        &mut self,
        conn: ConnId,
        step: Option<Step>,
        is_continued: bool,
    ) -> Result<Document, Fault> {
        let step = step.ok_or_else(failed)?;
        let connection = self.connections.get_mut(&conn).ok_or_else(failed)?;
        let fault = connection.auth_fault;
        let (payload, done) = match hostile::changed_step(fault, step) {
            Step::More(conversation, payload) => {
                connection.conversation = Some(conversation);
                (payload, false)
            }
            Step::Done(login, payload) => {
                connection.login = Some(login);
                connection.user_changes = self.accounts.changes();
                self.auth_counts.successes += 1;
                (payload, true)
            }
        };
        let mut reply = doc! {
            "conversationId": CONVERSATION_ID, "done": done, "payload": binary(payload),
        };
        hostile::changed_reply(fault, connection.mechanism, is_continued, &mut reply);
        Ok(reply)
    }

    /// Returns the mechanism with this name. Returns an error for a mechanism that is unknown or
    /// not enabled.
    fn enabled_mechanism(&self, name: &str) -> Result<AuthMechanism, Fault> {
        let known = AuthMechanism::from_name(name);
        let is_enabled = |m: &AuthMechanism| self.options.auth.mechanisms.contains(m);
        known.filter(is_enabled).ok_or_else(|| {
            let text = format!("Received authentication for mechanism {name} which is not enabled");
            fault(334, text)
        })
    }

    /// Returns the names of the user's mechanisms, for `saslSupportedMechs` of a hello reply
    /// (AUTH-26). Returns `None` for an unknown user.
    pub(super) fn mechanisms_of(&self, user: &str) -> Option<Vec<&'static str>> {
        let (database, name) = user.split_once('.')?;
        let account = self.accounts.find(database, name)?;
        let enabled = &self.options.auth.mechanisms;
        let mechanisms = account.user.mechanisms.iter();
        let mechanisms = mechanisms.filter(|m| enabled.contains(m));
        Some(mechanisms.map(|mechanism| mechanism.name()).collect())
    }

    /// Removes the login if its user belongs to the request's database.
    pub(super) fn logout(&mut self, conn: ConnId, request: &Request) -> Reply {
        if let Some(connection) = self.connections.get_mut(&conn) {
            let is_ours = |login: &mut Login| login.database == request.database;
            connection.login.take_if(is_ours);
        }
        Reply::default()
    }
}

/// Reads a payload that is a BSON document. Returns `None` if it is malformed.
fn document(payload: &[u8]) -> Option<Document> {
    owned(RawDocument::from_bytes(payload).ok()?)
}

/// Returns the payload for a BSON document.
fn payload_of(document: &Document) -> Vec<u8> {
    document.to_vec().unwrap_or_default()
}

fn failed() -> Fault {
    fault(18, "Authentication failed.")
}

/// Returns the payload of a command. A payload that is a string is base64 (AUTH-40).
fn payload(command: &Document, name: &str) -> Result<Vec<u8>, Fault> {
    let bytes = match command.get("payload") {
        Some(Bson::Binary(binary)) => binary.bytes.clone(),
        Some(Bson::String(text)) => STANDARD.decode(text).map_err(|_| failed())?,
        Some(_) => return Err(type_mismatch(&format!("{name}.payload"))),
        None => {
            let text = format!("BSON field '{name}.payload' is missing but a required field");
            return Err(fault(40414, text));
        }
    };
    match bytes.len() > MAX_PAYLOAD_BYTES {
        true => Err(failed()),
        false => Ok(bytes),
    }
}

/// Gives the payload of a reply the type of the payload in the command. As in the server, a reply
/// to a string is a string, with base64 (AUTH-40).
fn use_payload_type(command: &Document, reply: &mut Document) {
    if let (Some(Bson::String(_)), Some(Bson::Binary(binary))) =
        (command.get("payload"), reply.get("payload"))
    {
        let text = STANDARD.encode(&binary.bytes);
        reply.insert("payload", text);
    }
}

const fn binary(bytes: Vec<u8>) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes,
    }
}
