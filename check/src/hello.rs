//! The facts of a reply to `hello`.

use crate::{
    advice,
    drive::Hello,
    report::{Step, Value},
};
use onionskin::bson::{RawBsonRef, RawDocument};
use onionskin_core::{description::ServerType, options::ClientOptions};
use std::time::Duration;

/// The difference between the clocks of a server and of this machine from which a warning is given.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

/// The maximum number of texts that are read from an array of a reply.
const MAX_STRINGS: usize = 64;

/// Adds the facts of a reply to `hello`.
pub(crate) fn describe(step: &mut Step, hello: &Hello, options: &ClientOptions) {
    let server = &hello.description;
    step.fact("kind", kind(server.server_type));
    if let Some(name) = &server.set_name {
        step.fact("replica set", name.clone());
    }
    if let Some(me) = server.me.as_ref().filter(|me| **me != server.address) {
        step.fact("announced as", me.to_string());
    }
    if let Some(primary) = &server.primary {
        step.fact("primary", primary.to_string());
    }
    step.fact("lowest wire version", server.min_wire_version);
    step.fact("highest wire version", server.max_wire_version);
    if let Some(release) = release_of(server.max_wire_version) {
        step.fact("release", release);
    }
    describe_compression(step, hello, options);
    step.fact("round trip", hello.round_trip);
    if server.server_type == ServerType::RsGhost {
        let message = "the server was started as a member of a replica set that does not exist yet";
        step.warn(message, advice::ghost());
    }
    if let Some(wanted) = options.repl_set_name.as_deref()
        && server.set_name.as_deref() != Some(wanted)
        && server.server_type != ServerType::RsGhost
    {
        let message = match &server.set_name {
            Some(found) => format!(
                "the server belongs to the replica set {found:?}, and the connection string asks \
                 for {wanted:?}"
            ),
            None => format!(
                "the server belongs to no replica set, and the connection string asks for \
                 {wanted:?}"
            ),
        };
        step.warn(message, advice::other_set(server.set_name.as_deref()));
    }
    describe_clock(step, hello);
}

/// Adds the compressors that the client and the server have, and the chosen one.
fn describe_compression(step: &mut Step, hello: &Hello, options: &ClientOptions) {
    let common = strings(&hello.reply, "compression").unwrap_or_default();
    step.fact("compressors", common);
    if let Some(sample) = hello.compression {
        let (plain, compressed) = (sample.plain_bytes, sample.compressed_bytes);
        let percent = compressed * 100 / plain.max(1);
        step.fact("compressor", sample.compressor.name());
        let text = format!("this reply: {compressed} of {plain} bytes, {percent} %");
        step.fact("compressed sample", text);
        return;
    }
    let configured = options.compressors().into_iter();
    let configured: Vec<_> = configured.filter(|c| c.is_available()).collect();
    if !configured.is_empty() {
        let names: Vec<_> = configured.iter().map(|c| c.name()).collect();
        let names = names.join(", ");
        let message = format!("the server accepts none of these compressors: {names}");
        step.warn(message, advice::no_compressor());
    }
}

/// Compares the clock of the server with that of this machine.
fn describe_clock(step: &mut Step, hello: &Hello) {
    let Ok(Some(RawBsonRef::DateTime(time))) = hello.reply.get("localTime") else {
        return;
    };
    let own = i64::try_from(hello.wall.as_unix_millis()).unwrap_or(i64::MAX);
    let difference = time.timestamp_millis().saturating_sub(own);
    step.fact("clock difference", Value::Millis(difference as f64));
    if u128::from(difference.unsigned_abs()) >= CLOCK_DIFFERENCE.as_millis() {
        let seconds = difference.unsigned_abs() / 1000;
        let direction = if difference > 0 { "ahead of" } else { "behind" };
        let message =
            format!("the clock of the server is {seconds} s {direction} that of this machine");
        step.warn(message, advice::clock());
    }
}

/// Returns the strings of an array of a reply; `None` if there is no such array.
pub(crate) fn strings(reply: &RawDocument, key: &str) -> Option<Vec<String>> {
    let array = reply.get_array(key).ok()?;
    let values = array.into_iter().flatten().take(MAX_STRINGS);
    let texts = values.filter_map(|value| value.as_str().map(str::to_owned));
    Some(texts.collect())
}

/// Returns the type of a server in the words of users.
pub(crate) const fn kind(server_type: ServerType) -> &'static str {
    match server_type {
        ServerType::Standalone => "standalone",
        ServerType::Mongos => "mongos (router of a sharded cluster)",
        ServerType::RsPrimary => "primary",
        ServerType::RsSecondary => "secondary",
        ServerType::RsArbiter => "arbiter",
        ServerType::RsOther => "hidden or recovering member",
        ServerType::RsGhost => "member of a replica set that is not initiated",
        ServerType::LoadBalancer => "load balancer",
        ServerType::PossiblePrimary | ServerType::Unknown => "unknown",
    }
}

/// Returns the MongoDB release that introduced a wire version; `None` if it is not known.
const fn release_of(wire_version: i32) -> Option<&'static str> {
    Some(match wire_version {
        6 => "MongoDB 3.6",
        7 => "MongoDB 4.0",
        8 => "MongoDB 4.2",
        9 => "MongoDB 4.4",
        13 => "MongoDB 5.0",
        17 => "MongoDB 6.0",
        21 => "MongoDB 7.0",
        25 => "MongoDB 8.0",
        27 => "MongoDB 8.2",
        _ => return None,
    })
}
