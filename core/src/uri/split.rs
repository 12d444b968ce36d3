//! The first step of parsing: splits a connection string into its parts, without decoding (CS-42).

use super::{Result, invalid};
use crate::error::UriPart;

/// The parts of a connection string, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// True for the scheme `mongodb+srv`, false for `mongodb`.
    pub(super) srv: bool,
    /// The text before the last `@` of the authority. `Some("")` if the `@` comes first, `None` if
    /// there is no `@`.
    pub(super) userinfo: Option<&'a str>,
    /// The hosts, separated by commas.
    pub(super) hosts: &'a str,
    /// The text between the slash after the hosts and the options.
    pub(super) database: &'a str,
    /// The text after the first question mark.
    pub(super) options: &'a str,
}

/// Splits `text` after its scheme at the first `/` or `?`, at the last `@` before that, and at the
/// first `?`. The slash before the `?` is optional; a slash after the `?` belongs to the options.
pub(super) fn split(text: &str) -> Result<Parts<'_>> {
    let (srv, rest) = if let Some(rest) = text.strip_prefix("mongodb://") {
        (false, rest)
    } else if let Some(rest) = text.strip_prefix("mongodb+srv://") {
        (true, rest)
    } else {
        // Only these two schemes exist, and the empty string is an error too (CS-1).
        let defect = match text.chars().next() {
            None => "it is empty; it",
            Some('"' | '\'') => "it begins with a quotation mark; it",
            Some(first) if first.is_whitespace() => "it begins with white space; it",
            Some(_) => "it",
        };
        let message = format!("{defect} must begin with mongodb:// or mongodb+srv://");
        return Err(invalid(UriPart::Scheme, message));
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

/// The message for a text that [`decode`] cannot decode.
pub(super) const BAD_PERCENT: &str = "a % must be followed by two hexadecimal digits of UTF-8 \
                                      text; write a % itself as %25";

/// Decodes percent-encoded text. `None` if a `%` is not followed by two hexadecimal digits, or if
/// the bytes are not UTF-8. A plus sign is not decoded to a space (CS-39).
pub(super) fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
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
