//! Tests of authentication: mechanisms, users and roles.

mod aws;
mod hostile;
mod oidc;
mod scram;
mod users;

use super::world::World;
use crate::deployment::{AuthMechanism, ConnId, DeploymentOptions, User};
use bson::{Binary, Document, doc, spec::BinarySubtype};
use onionskin_core::address::Address;

/// Returns the options of a standalone that accepts all mechanisms and has the user `ada` with the
/// password `pencil`.
fn options() -> DeploymentOptions {
    let mut options = DeploymentOptions::standalone(Address::tcp("s", 1));
    options.auth.mechanisms = AuthMechanism::ALL.to_vec();
    options.users.push(User::new("ada", "pencil"));
    options
}

fn code(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

fn binary(bytes: impl Into<Vec<u8>>) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.into(),
    }
}

fn payload(reply: &Document) -> Vec<u8> {
    let payload = reply.get_binary_generic("payload");
    payload.expect("a payload").clone()
}

/// Sends `saslStart` and returns the reply.
fn start(
    world: &mut World,
    conn: ConnId,
    mechanism: AuthMechanism,
    database: &str,
    payload: &[u8],
) -> Document {
    let start = doc! {
        "saslStart": 1, "mechanism": mechanism.name(), "payload": binary(payload),
        "options": { "skipEmptyExchange": true }, "$db": database,
    };
    world.send_command(conn, &start).expect("a reply")
}

/// Sends `saslContinue` and returns the reply.
fn proceed(world: &mut World, conn: ConnId, database: &str, payload: &[u8]) -> Document {
    let proceed = doc! {
        "saslContinue": 1, "conversationId": 1, "payload": binary(payload), "$db": database,
    };
    world.send_command(conn, &proceed).expect("a reply")
}

/// Returns the name of the connection's user, as `connectionStatus` reports it.
fn user(world: &mut World, conn: ConnId) -> Option<String> {
    let status = doc! { "connectionStatus": 1, "$db": "admin" };
    let reply = world.send_command(conn, &status).expect("a reply");
    let info = reply.get_document("authInfo").expect("a document");
    let users = info.get_array("authenticatedUsers").expect("an array");
    let user = users.first()?.as_document()?;
    Some(user.get_str("user").ok()?.to_owned())
}
