//! The comparison of events with those of a test file.

use super::{equal, list, object, only_keys, outcome::server_type};
use onionskin_core::{
    address::Address,
    description::{ServerDescription, TopologyDescription},
    event::SdamEvent,
};
use serde_json::{Map, Value, json};

/// Returns an error unless the events are those of `expected`, in this order.
pub(super) fn compare(expected: &[Value], actual: &[SdamEvent]) -> Result<(), String> {
    let names = || actual.iter().map(name).collect::<Vec<_>>().join(", ");
    if expected.len() != actual.len() {
        return Err(format!(
            "{} events expected, not {}",
            expected.len(),
            names()
        ));
    }
    for (number, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        compare_event(object(expected)?, actual)
            .map_err(|reason| format!("event {number}: {reason}; the events are {}", names()))?;
    }
    Ok(())
}

fn compare_event(expected: &Map<String, Value>, actual: &SdamEvent) -> Result<(), String> {
    only_keys(expected, &[name(actual)])?;
    for (key, value) in object(expected.get(name(actual)).ok_or("no event is named")?)? {
        match (key.as_str(), actual) {
            // The files have a placeholder for this id. The type of the event guarantees an id.
            ("topologyId", _) => {}
            ("address", _) => {
                let address = address(actual).map(ToString::to_string);
                equal("address", &json!(address), value)?;
            }
            ("previousDescription", SdamEvent::ServerDescriptionChanged { previous, .. }) => {
                compare_server(object(value)?, previous)?;
            }
            ("newDescription", SdamEvent::ServerDescriptionChanged { new, .. }) => {
                compare_server(object(value)?, new)?;
            }
            ("previousDescription", SdamEvent::TopologyDescriptionChanged { previous, .. }) => {
                compare_topology(object(value)?, previous)?;
            }
            ("newDescription", SdamEvent::TopologyDescriptionChanged { new, .. }) => {
                compare_topology(object(value)?, new)?;
            }
            (other, _) => return Err(format!("the field {other:?} is not known to the runner")),
        }
    }
    Ok(())
}

fn compare_topology(
    expected: &Map<String, Value>,
    actual: &TopologyDescription,
) -> Result<(), String> {
    only_keys(expected, &["topologyType", "setName", "servers"])?;
    if let Some(name) = expected.get("setName") {
        equal("setName", &json!(actual.set_name), name)?;
    }
    if let Some(kind) = expected.get("topologyType") {
        equal("topologyType", &json!(actual.topology_type.name()), kind)?;
    }
    let servers = list(expected.get("servers"))?;
    if servers.len() != actual.servers.len() {
        return Err(format!("the servers are {actual}"));
    }
    for server in servers {
        let server = object(server)?;
        let text = server
            .get("address")
            .and_then(Value::as_str)
            .ok_or("no address")?;
        let address: Address = text.parse().map_err(|error| format!("{text}: {error}"))?;
        let actual = actual
            .servers
            .get(&address)
            .ok_or_else(|| format!("{text} is missing"))?;
        compare_server(server, actual)?;
    }
    Ok(())
}

fn compare_server(expected: &Map<String, Value>, actual: &ServerDescription) -> Result<(), String> {
    for (key, value) in expected {
        let actual = match key.as_str() {
            "type" => {
                server_type(actual.server_type, value)?;
                continue;
            }
            "address" => json!(actual.address.to_string()),
            "hosts" => texts(&actual.hosts),
            "passives" => texts(&actual.passives),
            "arbiters" => texts(&actual.arbiters),
            "setName" => json!(actual.set_name),
            "primary" => json!(actual.primary.as_ref().map(ToString::to_string)),
            other => return Err(format!("the key {other:?} is not known to the runner")),
        };
        equal(key, &actual, &sorted(value))?;
    }
    Ok(())
}

/// Sorts a list of members, whose order has no meaning.
fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(list) = value.as_array_mut() {
        list.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
    value
}

fn texts(addresses: &[Address]) -> Value {
    addresses.iter().map(ToString::to_string).collect()
}

fn name(event: &SdamEvent) -> &'static str {
    match event {
        SdamEvent::TopologyOpening { .. } => "topology_opening_event",
        SdamEvent::TopologyDescriptionChanged { .. } => "topology_description_changed_event",
        SdamEvent::TopologyClosed { .. } => "topology_closed_event",
        SdamEvent::ServerOpening { .. } => "server_opening_event",
        SdamEvent::ServerDescriptionChanged { .. } => "server_description_changed_event",
        SdamEvent::ServerClosed { .. } => "server_closed_event",
        _ => "another event",
    }
}

fn address(event: &SdamEvent) -> Option<&Address> {
    match event {
        SdamEvent::ServerOpening { address, .. }
        | SdamEvent::ServerDescriptionChanged { address, .. }
        | SdamEvent::ServerClosed { address, .. } => Some(address),
        _ => None,
    }
}
