//! The comparison of the topology description with the outcome in a test file.

use super::{equal, object, only_keys, world::World};
use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription},
    error::TopologyVersion,
};
use serde_json::{Map, Value, json};

const KEYS: [&str; 7] = [
    "topologyType",
    "setName",
    "servers",
    "logicalSessionTimeoutMinutes",
    "maxSetVersion",
    "maxElectionId",
    "compatible",
];

/// Compares each key of the outcome. A null value must match, too.
pub(super) fn compare(expected: &Map<String, Value>, world: &World) -> Result<(), String> {
    only_keys(expected, &KEYS)?;
    let actual = world.sdam().description();
    for (key, value) in expected {
        if key == "servers" {
            compare_servers(object(value)?, actual, world)?;
        } else {
            equal(key, &field(actual, key), value)?;
        }
    }
    Ok(())
}

fn field(actual: &TopologyDescription, key: &str) -> Value {
    match key {
        "topologyType" => json!(actual.topology_type.name()),
        "setName" => json!(actual.set_name),
        "logicalSessionTimeoutMinutes" => json!(actual.logical_session_timeout_minutes),
        "maxSetVersion" => json!(actual.max_set_version),
        "maxElectionId" => object_id(actual.max_election_id),
        "compatible" => json!(actual.compatibility_error.is_none()),
        other => unreachable!("{other} is none of the known keys"),
    }
}

fn compare_servers(
    expected: &Map<String, Value>,
    actual: &TopologyDescription,
    world: &World,
) -> Result<(), String> {
    if expected.len() != actual.servers.len() {
        return Err(format!("the servers are {actual}"));
    }
    for (text, expected) in expected {
        let address: Address = text.parse().map_err(|error| format!("{text}: {error}"))?;
        let Some(server) = actual.servers.get(&address) else {
            return Err(format!("{text} is missing; the servers are {actual}"));
        };
        let id = world
            .sdam()
            .server_id(&address)
            .ok_or("a server without id")?;
        compare_server(object(expected)?, server, world.generation(id))
            .map_err(|reason| format!("{text}: {reason}"))?;
    }
    Ok(())
}

fn compare_server(
    expected: &Map<String, Value>,
    actual: &ServerDescription,
    generation: u64,
) -> Result<(), String> {
    for (key, value) in expected {
        let actual = match key.as_str() {
            "type" => {
                server_type(actual.server_type, value)?;
                continue;
            }
            "error" => {
                error_text(actual, value)?;
                continue;
            }
            "pool" => json!({ "generation": generation }),
            "setName" => json!(actual.set_name),
            "setVersion" => json!(actual.set_version),
            "electionId" => object_id(actual.election_id),
            "topologyVersion" => topology_version(actual.topology_version),
            "logicalSessionTimeoutMinutes" => json!(actual.logical_session_timeout_minutes),
            "minWireVersion" => wire_version(actual.min_wire_version, value),
            "maxWireVersion" => wire_version(actual.max_wire_version, value),
            other => return Err(format!("the key {other:?} is not known to the runner")),
        };
        equal(key, &actual, value)?;
    }
    Ok(())
}

pub(super) fn server_type(actual: ServerType, expected: &Value) -> Result<(), String> {
    equal("type", &json!(actual.name()), expected)
}

fn error_text(actual: &ServerDescription, expected: &Value) -> Result<(), String> {
    let text = actual.error.as_ref().map(ToString::to_string);
    match (&text, expected.as_str()) {
        (None, None) => Ok(()),
        (Some(text), Some(part)) if text.contains(part) => Ok(()),
        _ => equal("error", &json!(text), expected),
    }
}

/// Returns a wire version, or null if the version is 0 and the file has null.
fn wire_version(actual: i32, expected: &Value) -> Value {
    if actual == 0 && expected.is_null() {
        Value::Null
    } else {
        json!(actual)
    }
}

fn object_id(id: Option<ObjectId>) -> Value {
    id.map_or(Value::Null, |id| json!({ "$oid": id.to_hex() }))
}

fn topology_version(version: Option<TopologyVersion>) -> Value {
    version.map_or(Value::Null, |version| {
        json!({
            "processId": { "$oid": version.process_id.to_hex() },
            "counter": { "$numberLong": version.counter.to_string() },
        })
    })
}
