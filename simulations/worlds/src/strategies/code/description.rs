//! Descriptions of servers and topologies as Rust code.

use super::{address_code, object_id_code, topology_version_code};
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    error::{Error, ErrorKind, NetworkFault},
};
use std::{fmt::Debug, time::Duration};

/// The fields of a value that have no default, as code.
#[derive(Default)]
struct Fields(String);

impl Fields {
    /// Adds a field, or leaves it out if it has the default.
    fn add(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.0 += &format!("{name}: {value}, ");
        }
    }

    /// Adds a field of the type `Option`.
    fn add_some(&mut self, name: &str, value: Option<String>) {
        self.add(name, value.map(|value| format!("Some({value})")));
    }

    /// Adds a field whose value has the code that `Debug` prints.
    fn add_plain<T: Debug + Default + PartialEq>(&mut self, name: &str, value: &T) {
        self.add(name, (*value != T::default()).then(|| format!("{value:?}")));
    }

    /// Adds a list of addresses.
    fn add_addresses(&mut self, name: &str, addresses: &[Address]) {
        let list: Vec<String> = addresses.iter().map(address_code).collect();
        let code = (!list.is_empty()).then(|| format!("vec![{}]", list.join(", ")));
        self.add(name, code);
    }
}

/// Returns an expression in Rust with this description, as
/// [`History::code`](super::super::History::code) does. An error that is none of the network is
/// printed as a network error with its text.
///
/// ```
/// use onionskin_core::description::ServerDescription;
/// use onionskin_worlds::strategies::{address, server_code};
///
/// let code = server_code(&ServerDescription::unknown(address(2)));
/// assert!(code.ends_with("ServerDescription::unknown(address(2)) }"), "{code}");
/// ```
#[must_use]
pub fn server_code(server: &ServerDescription) -> String {
    let mut fields = Fields::default();
    let kind = server.server_type;
    let code = format!("onionskin_core::description::ServerType::{kind:?}");
    fields.add("server_type", (kind != ServerType::Unknown).then_some(code));
    fields.add_some("error", server.error.as_ref().map(error_code));
    fields.add_plain("min_wire_version", &server.min_wire_version);
    fields.add_plain("max_wire_version", &server.max_wire_version);
    add_times(&mut fields, server);
    add_membership(&mut fields, server);
    fields.add_plain(
        "logical_session_timeout_minutes",
        &server.logical_session_timeout_minutes,
    );
    let version = server.topology_version.map(topology_version_code);
    fields.add_some("topology_version", version);
    fields.add_plain("is_cryptd", &server.is_cryptd);
    format!(
        "onionskin_core::description::ServerDescription {{ {}\
         ..onionskin_core::description::ServerDescription::unknown({}) }}",
        fields.0,
        address_code(&server.address)
    )
}

/// Adds round trip times, and the times of the update and of the last write.
fn add_times(fields: &mut Fields, server: &ServerDescription) {
    let round_trip_time = server.round_trip_time.map(duration_code);
    fields.add_some("round_trip_time", round_trip_time);
    let min = server.min_round_trip_time;
    let code = (!min.is_zero()).then(|| duration_code(min));
    fields.add("min_round_trip_time", code);
    let updated = server.last_update_time.map(|time| {
        let nanos = time.as_nanos();
        format!("onionskin_core::time::Instant::from_nanos({nanos})")
    });
    fields.add_some("last_update_time", updated);
    let written = server.last_write_date.map(|date| {
        let millis = date.as_unix_millis();
        format!("onionskin_core::time::WallTime::from_unix_millis({millis})")
    });
    fields.add_some("last_write_date", written);
    let op_time = server.op_time.map(|op_time| {
        let bson::Timestamp { time, increment } = op_time.timestamp;
        format!(
            "onionskin_core::description::OpTime {{ timestamp: bson::Timestamp {{ time: {time}, \
             increment: {increment} }}, term: {:?} }}",
            op_time.term
        )
    });
    fields.add_some("op_time", op_time);
}

/// Adds what a member of a replica set tells about itself and the set.
fn add_membership(fields: &mut Fields, server: &ServerDescription) {
    fields.add_some("set_name", server.set_name.as_deref().map(text_code));
    fields.add_plain("set_version", &server.set_version);
    fields.add_some("election_id", server.election_id.map(object_id_code));
    fields.add_some("me", server.me.as_ref().map(address_code));
    fields.add_some("primary", server.primary.as_ref().map(address_code));
    fields.add_addresses("hosts", &server.hosts);
    fields.add_addresses("passives", &server.passives);
    fields.add_addresses("arbiters", &server.arbiters);
    let tags = server.tags.iter();
    let tags = tags.map(|(name, value)| format!("({}, {})", text_code(name), text_code(value)));
    let tags: Vec<String> = tags.collect();
    let code = (!tags.is_empty()).then(|| format!("[{}].into()", tags.join(", ")));
    fields.add("tags", code);
}

/// Returns an expression in Rust with this description, as [`server_code`] does.
///
/// ```
/// use bson::oid::ObjectId;
/// use onionskin_core::description::{TopologyDescription, TopologyId};
/// use onionskin_worlds::strategies::topology_code;
///
/// let id = TopologyId(ObjectId::from_bytes([1; 12]));
/// let code = topology_code(&TopologyDescription::unknown(id));
/// assert!(code.contains("TopologyDescription::unknown("), "{code}");
/// ```
#[must_use]
pub fn topology_code(topology: &TopologyDescription) -> String {
    let mut fields = Fields::default();
    let kind = topology.topology_type;
    let code = format!("onionskin_core::description::TopologyType::{kind:?}");
    let is_known = kind != TopologyType::Unknown;
    fields.add("topology_type", is_known.then_some(code));
    fields.add_some("set_name", topology.set_name.as_deref().map(text_code));
    let election_id = topology.max_election_id.map(object_id_code);
    fields.add_some("max_election_id", election_id);
    fields.add_plain("max_set_version", &topology.max_set_version);
    let servers = topology.servers.values();
    let servers: Vec<String> = servers.map(|server| server_code(server)).collect();
    let code = (!servers.is_empty()).then(|| {
        format!(
            "[\n    {},\n].map(|server| (server.address.clone(), \
             std::sync::Arc::new(server))).into()",
            servers.join(",\n    ")
        )
    });
    fields.add("servers", code);
    let error = topology.compatibility_error.as_deref().map(text_code);
    fields.add_some("compatibility_error", error);
    fields.add_plain(
        "logical_session_timeout_minutes",
        &topology.logical_session_timeout_minutes,
    );
    format!(
        "onionskin_core::description::TopologyDescription {{ {}\
         ..onionskin_core::description::TopologyDescription::unknown(\
         onionskin_core::description::TopologyId({})) }}",
        fields.0,
        object_id_code(topology.id.0)
    )
}

fn text_code(text: &str) -> String {
    format!("{text:?}.to_owned()")
}

fn duration_code(duration: Duration) -> String {
    format!(
        "std::time::Duration::new({}, {})",
        duration.as_secs(),
        duration.subsec_nanos()
    )
}

fn error_code(error: &Error) -> String {
    let (fault, text) = match error.kind() {
        ErrorKind::Io(error) => (error.fault, error.message.clone()),
        _ => (NetworkFault::Other, error.to_string()),
    };
    format!(
        "onionskin_core::error::Error::network(onionskin_core::error::NetworkFault::{fault:?}, \
         {text:?})"
    )
}
