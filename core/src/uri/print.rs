//! Printing of connection strings, whole or without secrets.

use super::connection_string::{ConnectionString, Hosts};
use super::{
    pairs::{Pair, may_end_a_password},
    table::OptionSpec,
};
use crate::{
    address::Address,
    options::{REDACTED, Secret},
};
use std::fmt::{self, Write};

/// The characters that stay as they are in keys and values of options, besides the unreserved ones
/// of RFC 3986. They separate parts of values, and need no encoding there. A slash is encoded,
/// because some parsers take the last slash of the string for the end of the hosts.
const PLAIN_IN_OPTIONS: &str = ":,$";

/// Returns the whole connection string.
pub(super) fn whole(string: &ConnectionString) -> Secret {
    // The text is written into memory that does not move, because the memory that a growing string
    // leaves is not wiped.
    let mut length = Length(0);
    let mut text = String::new();
    if write(string, &mut length, false).is_ok() {
        text.reserve_exact(length.0);
        // Writing to a string does not fail.
        let _ = write(string, &mut text, false);
    }
    Secret::new(text)
}

/// Prints a connection string without its secrets.
pub(super) fn redacted(string: &ConnectionString, out: &mut impl Write) -> fmt::Result {
    write(string, out, true)
}

fn write(string: &ConnectionString, out: &mut impl Write, is_redacted: bool) -> fmt::Result {
    write!(out, "{}://", string.scheme())?;
    if let Some((name, password)) = &string.userinfo {
        encode(out, name, "")?;
        match password {
            Some(_) if is_redacted => write!(out, ":{REDACTED}")?,
            Some(password) => {
                out.write_char(':')?;
                encode(out, password.expose(), "")?;
            }
            None => {}
        }
        out.write_char('@')?;
    }
    match &string.hosts {
        Hosts::Srv(host) => encode(out, host, "")?,
        Hosts::Seeds(hosts) => {
            for (index, host) in hosts.iter().enumerate() {
                out.write_str(if index == 0 { "" } else { "," })?;
                address(out, host)?;
            }
        }
    }
    let hides_keys = is_redacted && may_end_a_password(&string.options);
    if let Some(database) = &string.database {
        out.write_char('/')?;
        match hides_keys {
            true => out.write_str(REDACTED)?,
            false => encode(out, database, "")?,
        }
    } else if !string.options.is_empty() {
        out.write_char('/')?;
    }
    let mut follows_secret = false;
    for (index, pair) in string.options.iter().enumerate() {
        out.write_char(if index == 0 { '?' } else { '&' })?;
        let is_unknown = pair.spec().is_none();
        follows_secret = pair.spec().map_or(follows_secret, OptionSpec::is_secret);
        if is_redacted && is_unknown && (hides_keys || follows_secret) {
            write!(out, "{REDACTED}={REDACTED}")?;
        } else if hides_keys && pair.value.expose().contains('@') {
            write!(out, "{}={REDACTED}", pair.key)?;
        } else {
            option(out, pair, is_redacted)?;
        }
    }
    Ok(())
}

fn address(out: &mut impl Write, address: &Address) -> fmt::Result {
    match address {
        Address::Tcp { host, port } if host.contains(':') => {
            out.write_char('[')?;
            encode(out, host, ":")?;
            write!(out, "]:{port}")
        }
        Address::Tcp { host, port } => {
            encode(out, host, "")?;
            write!(out, ":{port}")
        }
        Address::Unix { path } => encode(out, path, ""),
    }
}

fn option(out: &mut impl Write, pair: &Pair, is_redacted: bool) -> fmt::Result {
    encode(out, &pair.key, PLAIN_IN_OPTIONS)?;
    out.write_char('=')?;
    // The value of an unknown option may be a secret, because its key may be a misspelled one.
    let is_secret = pair.is_malformed || pair.spec().is_none_or(|spec| spec.is_secret());
    if is_secret && is_redacted {
        return out.write_str(REDACTED);
    }
    if pair.is_malformed {
        return out.write_str(pair.value.expose());
    }
    encode(out, pair.value.expose(), PLAIN_IN_OPTIONS)
}

/// Writes `text` with percent-encoding: all bytes but the unreserved characters of RFC 3986 and
/// those in `plain`.
fn encode(out: &mut impl Write, text: &str, plain: &str) -> fmt::Result {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c) || plain.contains(c);
    let mut rest = text;
    while let Some(at) = rest.find(|c| !is_plain(c)) {
        let (before, after) = rest.split_at(at);
        out.write_str(before)?;
        let length = after.chars().next().map_or(0, char::len_utf8);
        let (encoded, left) = after.split_at(length);
        for byte in encoded.bytes() {
            write!(out, "%{byte:02X}")?;
        }
        rest = left;
    }
    out.write_str(rest)
}

/// A writer that counts bytes.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}
