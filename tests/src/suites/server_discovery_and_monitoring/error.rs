//! The application errors of a test file.

use super::{
    only_keys,
    world::{World, document, raw},
};
use onionskin_core::{
    address::Address,
    error::{CommandError, Error, ErrorKind, InsertManyError, Label, NetworkFault, Wait},
    unstable::sdam::{ApplicationError, Phase},
};
use serde_json::{Map, Value};

const KEYS: [&str; 6] = [
    "address",
    "generation",
    "maxWireVersion",
    "when",
    "type",
    "response",
];

/// Reports one entry of `applicationErrors` to the machine.
pub(super) fn report(world: &mut World, entry: &Map<String, Value>) -> Result<(), String> {
    only_keys(entry, &KEYS)?;
    let text = |key| entry.get(key).and_then(Value::as_str);
    let address: Address = text("address")
        .ok_or("an error without address")?
        .parse()
        .map_err(|error| format!("{error}"))?;
    let server = world
        .sdam()
        .server_id(&address)
        .ok_or_else(|| format!("{address} is not in the topology"))?;
    let generation = match entry.get("generation") {
        Some(generation) => generation.as_u64().ok_or("generation is no number")?,
        None => world.generation(server),
    };
    let phase = match text("when") {
        Some("beforeHandshakeCompletes") => Phase::Hello,
        Some("afterHandshakeCompletes") => Phase::Operation,
        other => return Err(format!("unknown phase {other:?}")),
    };
    let error = match text("type") {
        Some("command") => command_error(entry.get("response"))?,
        Some("network") => Some(overload(
            phase,
            Error::network(NetworkFault::Reset, "reset"),
        )),
        Some("timeout") => Some(overload(phase, Error::timeout(Wait::Exchange, "too slow"))),
        other => return Err(format!("unknown type of error {other:?}")),
    };
    if let Some(error) = error {
        let error = ApplicationError {
            error,
            phase,
            is_stale: generation < world.generation(server),
            service: None,
        };
        world.feed(|sdam, now| sdam.handle_application_error(now, server, &error));
    }
    Ok(())
}

/// Adds the labels that the pool gives network errors and timeouts of connecting and of `hello`
/// (SDAM-105).
fn overload(phase: Phase, error: Error) -> Error {
    match phase {
        Phase::Hello => error
            .with_label(Label::SystemOverloadedError)
            .with_label(Label::RetryableError),
        Phase::Proxy | Phase::Authentication | Phase::Operation => error,
    }
}

/// Returns the error in a reply; `None` if the reply reports no error.
fn command_error(reply: Option<&Value>) -> Result<Option<Error>, String> {
    let reply = raw(&document(reply.ok_or("a command without response")?)?)?;
    if onionskin_core::bson::is_ok(&reply) {
        let fault = InsertManyError::from_reply(&reply).map_err(|error| error.to_string())?;
        return Ok(fault.map(|fault| Error::new(ErrorKind::InsertMany(fault))));
    }
    let fault = CommandError::from_reply(&reply);
    Ok(Some(Error::new(ErrorKind::Command(fault))))
}
