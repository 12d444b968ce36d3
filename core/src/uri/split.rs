//! The first step: a connection string cut into its parts, nothing decoded yet (CS-42).

use super::{Result, invalid};
use crate::error::UriPart;

/// A connection string in pieces, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// `mongodb+srv` rather than `mongodb`.
    pub(super) srv: bool,
    /// What stands before the last `@` of the authority; `Some("")` if nothing does.
    pub(super) userinfo: Option<&'a str>,
    /// The hosts with their commas.
    pub(super) hosts: &'a str,
    /// What stands between the slash and the options.
    pub(super) database: &'a str,
    /// What follows the first question mark.
    pub(super) options: &'a str,
}

/// Cuts `text` at its scheme, at the first `/` or `?` after it, at the last `@` before that, and at
/// the first `?`. Since the slash is optional before options, a slash may lie inside them.
pub(super) fn split(text: &str) -> Result<Parts<'_>> {
    let (srv, rest) = if let Some(rest) = text.strip_prefix("mongodb://") {
        (false, rest)
    } else if let Some(rest) = text.strip_prefix("mongodb+srv://") {
        (true, rest)
    } else {
        // CS-1
        return Err(invalid(
            UriPart::Scheme,
            "it must begin with mongodb:// or mongodb+srv://",
        ));
    };
    let cut = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(cut);
    let (userinfo, hosts) = match authority.rsplit_once('@') {
        Some((userinfo, hosts)) => (Some(userinfo), hosts),
        None => (None, authority),
    };
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let (database, options) = rest.split_once('?').unwrap_or((rest, ""));
    Ok(Parts {
        srv,
        userinfo,
        hosts,
        database,
        options,
    })
}

/// The pairs of key and value between ampersands, as written (CS-19, CS-20). A piece without an
/// equals sign is an error that names its place only: it may be the tail of a password.
pub(super) fn pairs(options: &str) -> Result<Vec<(&str, &str)>> {
    let mut pairs = Vec::new();
    for (index, piece) in options.split('&').enumerate() {
        if piece.is_empty() {
            continue;
        }
        match piece.split_once('=') {
            Some((key, value)) if !key.is_empty() => pairs.push((key, value)),
            _ => {
                // CS-21
                let message = format!(
                    "option {} is not of the form key=value; if it belongs to the value before \
                     it, write & as %26",
                    index + 1
                );
                return Err(invalid(UriPart::Options, message));
            }
        }
    }
    Ok(pairs)
}

/// Replaces each `%` and its two hex digits by the byte they stand for. `None` if a `%` has no two
/// hex digits behind it or the bytes are not UTF-8. A plus sign stays one (CS-39).
pub(super) fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            decoded.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}
