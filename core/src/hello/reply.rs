//! The reply to a hello command, parsed with tolerance for wrong fields.

use crate::{
    address::Address,
    bson::integer,
    description::{OpTime, ServerDescription, ServerType, Tags},
    error::{MAX_FIELDS, MAX_WRITE_ERRORS, TopologyVersion},
    time::{Instant, WallTime},
    wire::MAX_MESSAGE_BYTES,
};
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId};
use std::time::Duration;

/// The maximum number of entries that are used of each of `hosts`, `passives` and `arbiters`. A
/// replica set has at most 50 members.
pub const MAX_MEMBERS: usize = 50;

/// The maximum number of entries that are used of each other list: tags, compressors and
/// mechanisms.
pub const MAX_NAMES: usize = 64;

/// The maximum length in bytes of a string, such as the name of a set, mechanism or compressor, and
/// of the key of a tag. A longer one counts as absent. Servers do not limit tags, but names in use
/// have some tens of bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// The maximum length in bytes of a member's address, port included. A longer one counts as absent.
/// A DNS name has at most 253 bytes.
pub const MAX_HOST_BYTES: usize = 264;

/// The maximum size in bytes of `topologyVersion` and of `lastWrite`. A larger one counts as
/// absent. Servers send at most about 150 bytes for each.
const MAX_PART_BYTES: usize = 1024;

/// The maximum size in bytes of `speculativeAuthenticate`. A larger one counts as absent. The
/// longest payload that authentication accepts has 8 KiB, which is about 11 KiB as base64 text.
const MAX_SPECULATIVE_BYTES: usize = 32 * 1024;

/// The maximum of `maxWriteBatchSize`, to which a larger value is reduced, so that a reply can list
/// the errors of all statements. Servers send this value. If a reply has no positive one, it is the
/// default.
pub const MAX_WRITE_BATCH_SIZE: usize = MAX_WRITE_ERRORS;

/// The value of `maxBsonObjectSize` if a reply has no positive one.
const DEFAULT_BSON_OBJECT_SIZE: usize = 16 * 1024 * 1024;

/// A parsed reply to a hello command.
///
/// Parsing never fails. A field counts as absent if it is malformed, of another type or too long.
/// Lists are truncated to [`MAX_MEMBERS`] and [`MAX_NAMES`]. Each of `max_bson_object_size`,
/// `max_message_size_bytes` and `max_write_batch_size` is at least 1 and at most what this driver
/// can handle. If the reply has no positive value, the field has its default.
///
/// ```
/// use bson::rawdoc;
/// use onionskin_core::{description::ServerType, unstable::hello::HelloReply};
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
    /// True if the reply has `ok: 1` or `ok: true`.
    pub ok: bool,
    /// The server type by table A.2.2. `Unknown` if `ok` is false ([SDAM-40], [SDAM-41]).
    ///
    /// [SDAM-40]: crate::requirements::discovery#SDAM-40
    /// [SDAM-41]: crate::requirements::discovery#SDAM-41
    pub server_type: ServerType,
    /// The name of the replica set (`setName`).
    pub set_name: Option<String>,
    /// The version of the configuration of the replica set (`setVersion`).
    pub set_version: Option<i64>,
    /// The id of the election that the primary won (`electionId`).
    pub election_id: Option<ObjectId>,
    /// The address of the server in the configuration of the replica set (`me`).
    pub me: Option<Address>,
    /// The members that are not passive, hidden or arbiters (`hosts`), sorted and without
    /// duplicates.
    pub hosts: Vec<Address>,
    /// The members with priority zero (`passives`), sorted and without duplicates.
    pub passives: Vec<Address>,
    /// The arbiters (`arbiters`), sorted and without duplicates.
    pub arbiters: Vec<Address>,
    /// The address of the primary, as far as the server knows (`primary`).
    pub primary: Option<Address>,
    /// The tags of the server (`tags`).
    pub tags: Tags,
    /// The time of the last write, by the server's clock (`lastWrite.lastWriteDate`; [SDAM-50],
    /// [STALE-12]).
    ///
    /// [SDAM-50]: crate::requirements::discovery#SDAM-50
    /// [STALE-12]: crate::requirements::server_selection#STALE-12
    pub last_write_date: Option<WallTime>,
    /// The position of the last write in the oplog (`lastWrite.opTime`; [SDAM-50]).
    ///
    /// [SDAM-50]: crate::requirements::discovery#SDAM-50
    pub op_time: Option<OpTime>,
    /// The lowest wire version that the server supports (`minWireVersion`). Zero if absent
    /// ([SDAM-58]).
    ///
    /// [SDAM-58]: crate::requirements::discovery#SDAM-58
    pub min_wire_version: i32,
    /// The highest wire version that the server supports (`maxWireVersion`). Zero if absent
    /// ([SDAM-58]).
    ///
    /// [SDAM-58]: crate::requirements::discovery#SDAM-58
    pub max_wire_version: i32,
    /// The session timeout in minutes (`logicalSessionTimeoutMinutes`). `None` if the field is
    /// absent ([SDAM-54]).
    ///
    /// [SDAM-54]: crate::requirements::discovery#SDAM-54
    pub logical_session_timeout_minutes: Option<i64>,
    /// The topology version (`topologyVersion`; [SDAM-55]).
    ///
    /// [SDAM-55]: crate::requirements::discovery#SDAM-55
    pub topology_version: Option<TopologyVersion>,
    /// The maximum size of a document in bytes (`maxBsonObjectSize`). At most
    /// [`MAX_MESSAGE_BYTES`]; default 16 MiB.
    pub max_bson_object_size: usize,
    /// The maximum size of a message in bytes (`maxMessageSizeBytes`). At most, and by default,
    /// [`MAX_MESSAGE_BYTES`].
    pub max_message_size_bytes: usize,
    /// The maximum number of documents in one write command (`maxWriteBatchSize`). At most, and by
    /// default, [`MAX_WRITE_BATCH_SIZE`].
    pub max_write_batch_size: usize,
    /// The server's id of this connection (`connectionId`).
    pub connection_id: Option<i64>,
    /// The compressors that the server accepts (`compression`), in the order of the reply.
    pub compression: Vec<String>,
    /// The mechanisms that the user can use (`saslSupportedMechs`). `None` if the field is absent.
    pub sasl_supported_mechs: Option<Vec<String>>,
    /// The reply to speculative authentication (`speculativeAuthenticate`).
    pub speculative_authenticate: Option<RawDocumentBuf>,
    /// The service that replied, behind a load balancer (`serviceId`; [SDAM-57]).
    ///
    /// [SDAM-57]: crate::requirements::discovery#SDAM-57
    pub service_id: Option<ObjectId>,
    /// True if the server supports the command name `hello` (`helloOk`; [MON-7]).
    ///
    /// [MON-7]: crate::requirements::monitoring#MON-7
    pub hello_ok: bool,
    /// True if the server is mongocryptd (`iscryptd`).
    pub is_cryptd: bool,
}

impl HelloReply {
    /// Parses a reply.
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
            max_write_batch_size: size(reply, "maxWriteBatchSize", MAX_WRITE_BATCH_SIZE)
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

    /// Returns the server description of the server at `address`. If [`ok`](Self::ok) is false, the
    /// server is `Unknown` and has no round trip times ([SDAM-41], [SDAM-49]).
    ///
    /// [SDAM-41]: crate::requirements::discovery#SDAM-41
    /// [SDAM-49]: crate::requirements::discovery#SDAM-49
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

/// The fields of a reply, collected in one pass. A search of the document for each field would pass
/// over the member lists of a large replica set many times.
struct Fields<'a>(Vec<(&'a str, RawBsonRef<'a>)>);

impl<'a> Fields<'a> {
    /// Returns the fields before the first malformed one, at most [`MAX_FIELDS`].
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

/// Returns the server type of a reply with `ok: 1` by table A.2.2, in which the first matching row
/// decides (SDAM-40).
fn server_type(reply: &Fields<'_>) -> ServerType {
    let is = |key| flag(reply, key) == Some(true);
    // The legacy field counts only if `isWritablePrimary` is absent (SDAM-39).
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

/// Returns the text of `value` if it is a string of at most [`MAX_NAME_BYTES`].
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

/// Parses the address of a member, a host with a port. A path of a UNIX socket is refused, because
/// the client would connect to a process on its own machine.
fn host(text: &str) -> Option<Address> {
    if text.len() > MAX_HOST_BYTES {
        return None;
    }
    let address = text.parse().ok()?;
    matches!(address, Address::Tcp { .. }).then_some(address)
}

/// Parses a list of addresses and leaves out invalid ones. The result is sorted, so that lists that
/// differ only in their order compare as equal.
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
        // Replication protocol version 0 has no terms and sends a plain timestamp.
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
