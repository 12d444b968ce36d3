//! The reply to `hello`, read once and tolerantly.

use crate::{
    address::Address,
    bson::integer,
    description::{OpTime, ServerDescription, ServerType, Tags},
    error::{MAX_FIELDS, TopologyVersion},
    time::{Instant, WallTime},
    wire::MAX_MESSAGE_BYTES,
};
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId};
use std::time::Duration;

/// How many entries of each of `hosts`, `passives` and `arbiters` are used: as many as a topology
/// may grow to. A replica set has at most 50 members.
pub const MAX_MEMBERS: usize = 256;

/// How many entries of each other list of a reply are used: tags, compressors, mechanisms.
pub const MAX_NAMES: usize = 64;

/// Bytes of a name at most: the set's, a tag's, a mechanism's, a compressor's. A longer one counts
/// as absent. Servers have no bound for tags; names that people give have some tens of bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// Bytes of a member's name with its port at most; a longer one counts as absent. DNS allows 253.
pub const MAX_HOST_BYTES: usize = 264;

/// Bytes of `topologyVersion` and `lastWrite` at most; a larger one counts as absent. Servers send
/// about 150.
const MAX_PART_BYTES: usize = 1024;

/// Bytes of `speculativeAuthenticate` at most; a larger one counts as absent. Twice what the
/// longest payload has that is looked at.
const MAX_SPECULATIVE_BYTES: usize = 32 * 1024;

/// The largest `maxWriteBatchSize` that is believed; servers say 100 000.
pub const MAX_WRITE_BATCH_SIZE: usize = 1_000_000;

/// `maxBsonObjectSize` where a reply has none.
const DEFAULT_BSON_OBJECT_SIZE: usize = 16 * 1024 * 1024;

/// `maxWriteBatchSize` where a reply has none.
const DEFAULT_WRITE_BATCH_SIZE: usize = 100_000;

/// What a server says about itself, in the types of this driver.
///
/// Reading never fails: a field that is absent, malformed, of another type or longer than any
/// server has it counts as absent, and lists are cut at [`MAX_MEMBERS`] and [`MAX_NAMES`]. The
/// three size limits lie between one and what this driver itself could handle, whatever the server
/// claims; absent or not positive, they are the values that all servers of the supported versions
/// have.
///
/// ```
/// use bson::rawdoc;
/// use onionskin_core::{description::ServerType, hello::HelloReply};
///
/// let reply = HelloReply::parse(&rawdoc! {
///     "ok": 1, "isWritablePrimary": true, "setName": "rs", "hosts": ["A:1", "b:1"],
/// });
/// assert_eq!(reply.server_type, ServerType::RsPrimary);
/// assert_eq!(reply.hosts[0].to_string(), "a:1");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HelloReply {
    /// The command succeeded.
    pub ok: bool,
    /// What the server is, by table A.2.2; unknown without `ok: 1` (SDAM-40, SDAM-41).
    pub server_type: ServerType,
    /// `setName`.
    pub set_name: Option<String>,
    /// `setVersion`.
    pub set_version: Option<i64>,
    /// `electionId`.
    pub election_id: Option<ObjectId>,
    /// What the member calls itself.
    pub me: Option<Address>,
    /// `hosts`, sorted, each once.
    pub hosts: Vec<Address>,
    /// `passives`, sorted, each once.
    pub passives: Vec<Address>,
    /// `arbiters`, sorted, each once.
    pub arbiters: Vec<Address>,
    /// Which member this one holds for the primary.
    pub primary: Option<Address>,
    /// `tags`.
    pub tags: Tags,
    /// `lastWrite.lastWriteDate` (SDAM-50, STALE-12).
    pub last_write_date: Option<WallTime>,
    /// `lastWrite.opTime` (SDAM-50).
    pub op_time: Option<OpTime>,
    /// `minWireVersion`; zero where absent (SDAM-58).
    pub min_wire_version: i32,
    /// `maxWireVersion`; zero where absent (SDAM-58).
    pub max_wire_version: i32,
    /// `logicalSessionTimeoutMinutes` (SDAM-54).
    pub logical_session_timeout_minutes: Option<i64>,
    /// `topologyVersion` (SDAM-55).
    pub topology_version: Option<TopologyVersion>,
    /// `maxBsonObjectSize` in bytes, at most [`MAX_MESSAGE_BYTES`].
    pub max_bson_object_size: usize,
    /// `maxMessageSizeBytes`, at most [`MAX_MESSAGE_BYTES`].
    pub max_message_size_bytes: usize,
    /// `maxWriteBatchSize`, at most [`MAX_WRITE_BATCH_SIZE`].
    pub max_write_batch_size: usize,
    /// The server's number of this connection.
    pub connection_id: Option<i64>,
    /// Compressors that the server agreed to, in its order.
    pub compression: Vec<String>,
    /// Mechanisms of the user that was asked about; `None` where the reply says nothing.
    pub sasl_supported_mechs: Option<Vec<String>>,
    /// The server's first answer to authentication that began within the hello.
    pub speculative_authenticate: Option<RawDocumentBuf>,
    /// Behind a load balancer, the service that answered (SDAM-57).
    pub service_id: Option<ObjectId>,
    /// The server understands `hello` under its new name (MON-7).
    pub hello_ok: bool,
    /// The server is mongocryptd.
    pub is_cryptd: bool,
}

impl HelloReply {
    /// Reads a reply.
    #[must_use]
    pub fn parse(reply: &RawDocument) -> Self {
        let reply = &Fields::of(reply);
        let max_message_size_bytes = size(reply, "maxMessageSizeBytes", MAX_MESSAGE_BYTES);
        let ok = reply.get("ok").is_some_and(is_true);
        Self {
            ok,
            server_type: if ok {
                server_type(reply)
            } else {
                ServerType::Unknown
            },
            set_name: text(reply, "setName"),
            set_version: reply.integer("setVersion"),
            election_id: reply.object_id("electionId"),
            me: address(reply, "me"),
            hosts: members(reply, "hosts"),
            passives: members(reply, "passives"),
            arbiters: members(reply, "arbiters"),
            primary: address(reply, "primary"),
            tags: tags(reply),
            last_write_date: last_write_date(reply),
            op_time: op_time(reply),
            min_wire_version: wire_version(reply, "minWireVersion"),
            max_wire_version: wire_version(reply, "maxWireVersion"),
            logical_session_timeout_minutes: reply.integer("logicalSessionTimeoutMinutes"),
            topology_version: reply
                .document("topologyVersion", MAX_PART_BYTES)
                .and_then(TopologyVersion::from_document),
            max_bson_object_size: size(reply, "maxBsonObjectSize", DEFAULT_BSON_OBJECT_SIZE)
                .min(MAX_MESSAGE_BYTES),
            max_message_size_bytes: max_message_size_bytes.min(MAX_MESSAGE_BYTES),
            max_write_batch_size: size(reply, "maxWriteBatchSize", DEFAULT_WRITE_BATCH_SIZE)
                .min(MAX_WRITE_BATCH_SIZE),
            connection_id: reply.integer("connectionId"),
            compression: names(reply, "compression").unwrap_or_default(),
            sasl_supported_mechs: names(reply, "saslSupportedMechs"),
            speculative_authenticate: reply
                .document("speculativeAuthenticate", MAX_SPECULATIVE_BYTES)
                .map(ToOwned::to_owned),
            service_id: reply.object_id("serviceId"),
            hello_ok: flag(reply, "helloOk") == Some(true),
            is_cryptd: flag(reply, "iscryptd") == Some(true),
        }
    }

    /// What this reply says about the server at `address`. A reply without `ok: 1` describes an
    /// unknown server; then there are no round trip times either (SDAM-41, SDAM-49).
    #[must_use]
    pub fn into_description(
        self,
        address: Address,
        now: Instant,
        round_trip_time: Option<Duration>,
        min_round_trip_time: Duration,
    ) -> ServerDescription {
        let unknown = ServerDescription {
            last_update_time: Some(now),
            ..ServerDescription::unknown(address)
        };
        if !self.ok {
            return unknown;
        }
        ServerDescription {
            round_trip_time,
            min_round_trip_time,
            last_write_date: self.last_write_date,
            op_time: self.op_time,
            server_type: self.server_type,
            min_wire_version: self.min_wire_version,
            max_wire_version: self.max_wire_version,
            me: self.me,
            hosts: self.hosts,
            passives: self.passives,
            arbiters: self.arbiters,
            tags: self.tags,
            set_name: self.set_name,
            election_id: self.election_id,
            set_version: self.set_version,
            primary: self.primary,
            logical_session_timeout_minutes: self.logical_session_timeout_minutes,
            topology_version: self.topology_version,
            is_cryptd: self.is_cryptd,
            ..unknown
        }
    }
}

/// The fields of a reply, found in one walk: looking each up by itself would walk the lists of a
/// large set two dozen times.
struct Fields<'a>(Vec<(&'a str, RawBsonRef<'a>)>);

impl<'a> Fields<'a> {
    /// All fields up to the first that is not BSON, and no more than [`MAX_FIELDS`].
    fn of(reply: &'a RawDocument) -> Self {
        let fields = reply.into_iter().map_while(Result::ok).take(MAX_FIELDS);
        Self(fields.map(|(key, value)| (key.as_str(), value)).collect())
    }

    fn get(&self, key: &str) -> Option<RawBsonRef<'a>> {
        self.0
            .iter()
            .find(|(k, _)| *k == key)
            .map(|&(_, value)| value)
    }

    fn integer(&self, key: &str) -> Option<i64> {
        integer(self.get(key)?)
    }

    fn name(&self, key: &str) -> Option<&'a str> {
        name(self.get(key)?)
    }

    fn document(&self, key: &str, max_bytes: usize) -> Option<&'a RawDocument> {
        let document = self.get(key)?.as_document()?;
        (document.as_bytes().len() <= max_bytes).then_some(document)
    }

    fn array(&self, key: &str) -> Option<&'a RawArray> {
        self.get(key)?.as_array()
    }

    fn object_id(&self, key: &str) -> Option<ObjectId> {
        self.get(key)?.as_object_id()
    }
}

fn is_true(ok: RawBsonRef<'_>) -> bool {
    integer(ok) == Some(1) || ok.as_bool() == Some(true)
}

/// Table A.2.2, first match wins.
fn server_type(reply: &Fields<'_>) -> ServerType {
    let is = |key| flag(reply, key) == Some(true);
    // The old name counts only where the new one is absent (SDAM-39).
    let writable = flag(reply, "isWritablePrimary").or_else(|| flag(reply, "ismaster"));
    if is("isreplicaset") {
        ServerType::RsGhost
    } else if reply.name("setName").is_some() {
        if is("hidden") {
            ServerType::RsOther
        } else if writable == Some(true) {
            ServerType::RsPrimary
        } else if is("secondary") {
            ServerType::RsSecondary
        } else if is("arbiterOnly") {
            ServerType::RsArbiter
        } else {
            ServerType::RsOther
        }
    } else if reply.name("msg") == Some("isdbgrid") {
        ServerType::Mongos
    } else {
        ServerType::Standalone
    }
}

/// A text that is short enough to be a name.
fn name(value: RawBsonRef<'_>) -> Option<&str> {
    value.as_str().filter(|text| text.len() <= MAX_NAME_BYTES)
}

fn flag(reply: &Fields<'_>, key: &str) -> Option<bool> {
    let value = reply.get(key)?;
    value.as_bool().or_else(|| integer(value).map(|n| n != 0))
}

fn text(reply: &Fields<'_>, key: &str) -> Option<String> {
    reply.name(key).map(ToOwned::to_owned)
}

fn address(reply: &Fields<'_>, key: &str) -> Option<Address> {
    host(reply.name(key)?)
}

/// A member's address. Members are hosts with ports; a path would have the client connect to
/// whatever listens on its own machine.
fn host(text: &str) -> Option<Address> {
    if text.len() > MAX_HOST_BYTES {
        return None;
    }
    let address = text.parse().ok()?;
    matches!(address, Address::Tcp { .. }).then_some(address)
}

/// The addresses of a list, in the order of the type, so that equal lists compare equal.
fn members(reply: &Fields<'_>, key: &str) -> Vec<Address> {
    let Some(list) = reply.array(key) else {
        return Vec::new();
    };
    let mut members: Vec<Address> = list
        .into_iter()
        .take(MAX_MEMBERS)
        .filter_map(|entry| host(entry.ok()?.as_str()?))
        .collect();
    members.sort_unstable();
    members.dedup();
    members
}

fn names(reply: &Fields<'_>, key: &str) -> Option<Vec<String>> {
    let list = reply.array(key)?;
    let names = list.into_iter().take(MAX_NAMES);
    Some(
        names
            .filter_map(|entry| Some(name(entry.ok()?)?.to_owned()))
            .collect(),
    )
}

fn tags(reply: &Fields<'_>) -> Tags {
    let Some(tags) = reply.document("tags", usize::MAX) else {
        return Tags::new();
    };
    tags.into_iter()
        .take(MAX_NAMES)
        .filter_map(|entry| {
            let (key, value) = entry.ok()?;
            let is_short = key.as_str().len() <= MAX_NAME_BYTES;
            is_short.then_some((key.to_string(), name(value)?.to_owned()))
        })
        .collect()
}

fn last_write_date(reply: &Fields<'_>) -> Option<WallTime> {
    let date = reply
        .document("lastWrite", MAX_PART_BYTES)?
        .get_datetime("lastWriteDate")
        .ok()?;
    let millis = u64::try_from(date.timestamp_millis()).ok()?;
    Some(WallTime::from_unix_millis(millis))
}

fn op_time(reply: &Fields<'_>) -> Option<OpTime> {
    match reply
        .document("lastWrite", MAX_PART_BYTES)?
        .get("opTime")
        .ok()??
    {
        RawBsonRef::Document(time) => Some(OpTime {
            timestamp: time.get_timestamp("ts").ok()?,
            term: time.get("t").ok().flatten().and_then(integer),
        }),
        // Without terms the log's place is a timestamp and no more.
        RawBsonRef::Timestamp(timestamp) => Some(OpTime {
            timestamp,
            term: None,
        }),
        _ => None,
    }
}

fn wire_version(reply: &Fields<'_>, key: &str) -> i32 {
    reply
        .integer(key)
        .and_then(|n| i32::try_from(n).ok())
        .unwrap_or(0)
}

fn size(reply: &Fields<'_>, key: &str, default: usize) -> usize {
    reply
        .integer(key)
        .filter(|&n| n > 0)
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(default)
}

#[cfg(test)]
mod tests;
