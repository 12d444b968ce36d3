//! The parsing of a reply to `hello` (table A.2.1). The server type is tested in the order of table
//! A.2.2.

use super::{Facts, Mistake};
use bson::{RawBsonRef, RawDocument};
use onionskin_core::{address::Address, description::ServerType, error::TopologyVersion};
use std::collections::BTreeSet;

/// Returns the facts in a reply; `None` if the reply lacks `ok: 1` (SDAM-41).
///
/// A field of a wrong type counts as absent.
pub(super) fn read(reply: &RawDocument, mistake: Option<Mistake>) -> Option<Facts> {
    if number(reply, "ok") != Some(1) {
        return None;
    }
    let set_name = text(reply, "setName");
    Some(Facts {
        kind: kind(reply, set_name.is_some(), mistake),
        min_wire: wire_version(reply, "minWireVersion"),
        max_wire: wire_version(reply, "maxWireVersion"),
        me: text(reply, "me").and_then(|name| address(&name, mistake)),
        hosts: addresses(reply, "hosts", mistake),
        passives: addresses(reply, "passives", mistake),
        arbiters: addresses(reply, "arbiters", mistake),
        tags: match reply.get_document("tags") {
            Ok(tags) if mistake != Some(Mistake::NoTags) => strings(tags),
            _ => Vec::new(),
        },
        set_name,
        election_id: reply.get_object_id("electionId").ok().map(|id| id.bytes()),
        set_version: number(reply, "setVersion"),
        primary: text(reply, "primary").and_then(|name| address(&name, mistake)),
        session_minutes: number(reply, "logicalSessionTimeoutMinutes"),
        version: version(reply),
        last_write: match reply.get_document("lastWrite") {
            Ok(write) if mistake != Some(Mistake::NoLastWrite) => {
                let date = write.get_datetime("lastWriteDate").ok();
                date.map(bson::DateTime::timestamp_millis)
            }
            _ => None,
        },
        cryptd: is_true(reply, "iscryptd"),
        error: super::ExpectedError::None,
        round_trip: None,
    })
}

/// Returns the server type (table A.2.2, rows 2 to 9).
fn kind(reply: &RawDocument, has_set_name: bool, mistake: Option<Mistake>) -> ServerType {
    let ghost = is_true(reply, "isreplicaset");
    let router = text(reply, "msg").as_deref() == Some("isdbgrid");
    if mistake == Some(Mistake::RouterBeforeGhost) && router && !has_set_name {
        return ServerType::Mongos;
    }
    if ghost && !(mistake == Some(Mistake::SetNameBeforeGhost) && has_set_name) {
        return ServerType::RsGhost;
    }
    if has_set_name {
        return member(reply, mistake);
    }
    if router {
        return ServerType::Mongos;
    }
    ServerType::Standalone
}

/// Returns the server type of a replica set member (table A.2.2, rows 3 to 7).
fn member(reply: &RawDocument, mistake: Option<Mistake>) -> ServerType {
    let hidden_first = mistake != Some(Mistake::HiddenIsSecondary);
    if hidden_first && is_true(reply, "hidden") {
        return ServerType::RsOther;
    }
    if is_writable(reply, mistake) {
        return ServerType::RsPrimary;
    }
    if is_true(reply, "secondary") {
        return ServerType::RsSecondary;
    }
    if is_true(reply, "arbiterOnly") {
        return ServerType::RsArbiter;
    }
    ServerType::RsOther
}

/// True for a primary: `ismaster` decides only if `isWritablePrimary` is absent (SDAM-39).
fn is_writable(reply: &RawDocument, mistake: Option<Mistake>) -> bool {
    match mistake {
        Some(Mistake::NoLegacyPrimary) => return is_true(reply, "isWritablePrimary"),
        Some(Mistake::LegacyOverrules) => {
            return is_true(reply, "isWritablePrimary") || is_true(reply, "ismaster");
        }
        _ => {}
    }
    flag(reply, "isWritablePrimary").unwrap_or_else(|| is_true(reply, "ismaster"))
}

/// Returns the `topologyVersion` of a reply or of an error (SDAM-55).
pub(super) fn version(reply: &RawDocument) -> Option<TopologyVersion> {
    let version = reply.get_document("topologyVersion").ok()?;
    let process_id = version.get_object_id("processId").ok()?;
    let counter = version.get_i64("counter").ok()?;
    Some(TopologyVersion {
        process_id,
        counter,
    })
}

/// Returns a whole number, which BSON can encode as an int32, an int64 or a double.
pub(super) fn number(from: &RawDocument, key: &str) -> Option<i64> {
    match from.get(key).ok()?? {
        RawBsonRef::Int32(n) => Some(i64::from(n)),
        RawBsonRef::Int64(n) => Some(n),
        RawBsonRef::Double(n) if n.fract() == 0.0 && n.abs() < 9.0e15 => Some(n as i64),
        _ => None,
    }
}

/// Returns a wire version; an absent one is 0 (SDAM-58).
fn wire_version(reply: &RawDocument, key: &str) -> i64 {
    number(reply, key).unwrap_or(0)
}

fn is_true(reply: &RawDocument, key: &str) -> bool {
    flag(reply, key) == Some(true)
}

/// Returns a boolean. A number other than zero is true, as in MongoDB.
fn flag(reply: &RawDocument, key: &str) -> Option<bool> {
    match reply.get(key).ok()?? {
        RawBsonRef::Boolean(value) => Some(value),
        _ => number(reply, key).map(|n| n != 0),
    }
}

fn text(reply: &RawDocument, key: &str) -> Option<String> {
    reply.get_str(key).ok().map(ToOwned::to_owned)
}

/// Parses an address, in lower case (SDAM-53).
fn address(name: &str, mistake: Option<Mistake>) -> Option<Address> {
    let address: Address = name.parse().ok()?;
    if mistake == Some(Mistake::NamesKeepCase) && name.chars().any(char::is_uppercase) {
        // The host of an `Address` is always in lower case, so the mistake uses another host
        // instead.
        let Some(port) = address.port() else {
            return Some(address);
        };
        return Some(Address::tcp(&format!("{}-upper", address.host()), port));
    }
    Some(address)
}

/// Returns the addresses of a list without the invalid ones.
fn addresses(reply: &RawDocument, key: &str, mistake: Option<Mistake>) -> BTreeSet<Address> {
    let mut found = BTreeSet::new();
    if let Ok(names) = reply.get_array(key) {
        for name in names.into_iter().flatten() {
            if let RawBsonRef::String(name) = name {
                found.extend(address(name, mistake));
            }
        }
    }
    found
}

fn strings(tags: &RawDocument) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, value) in tags.iter().flatten() {
        if let RawBsonRef::String(value) = value {
            found.push((name.to_string(), value.to_owned()));
        }
    }
    found.sort();
    found
}
