//! Parsers for user name, password, hosts and database.

use super::{
    Result, invalid,
    split::{BAD_PERCENT, decode},
};
use crate::{
    address::{Address, InvalidAddress, name_fault},
    error::UriPart,
    options::Secret,
};
use std::borrow::Cow;

/// A user name, and a password if there is a colon. An empty password differs from none (CS-7).
pub(super) type UserInfo = (String, Option<Secret>);

/// Parses `username[:password]` (CS-3 to CS-7). Error messages do not quote the text.
pub(super) fn userinfo(text: &str) -> Result<UserInfo> {
    let refuse = |message| {
        Err(invalid(
            UriPart::UserInfo,
            format!("{message}; user name and password must be URL encoded (percent encoded)"),
        ))
    };
    let (name, password) = match text.split_once(':') {
        Some((name, password)) => (name, Some(password)),
        None => (text, None),
    };
    if text.contains('@') {
        return refuse("an @ inside must be written %40");
    }
    if password.is_some_and(|p| p.contains(':')) {
        return refuse("a colon inside must be written %3A");
    }
    if text.contains('<') && text.contains('>') {
        return refuse("replace the placeholder, or write < as %3C and > as %3E");
    }
    if !text.chars().all(is_userinfo) {
        return refuse("a character is not allowed there as it is");
    }
    let (Some(name), Some(password)) = (
        decode(name),
        password.map_or(Some(None), |text| decode(text).map(Some)),
    ) else {
        return refuse(BAD_PERCENT);
    };
    Ok((name, password.map(Secret::new)))
}

/// True for letters, digits and the other characters that RFC 3986 allows in userinfo (CS-5), and
/// for all characters outside of ASCII (CS-40).
fn is_userinfo(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~%!$&'()*+,;=:".contains(c)
}

/// The advice for a text of a host that cannot be one.
const ENCODE: &str = "if this is part of a user name or password, encode its special characters";

/// Parses the hosts, separated by commas (CS-8 to CS-14). Error messages give the position of a
/// host but not its text. If an `@`, `/` or `?` in a password is not encoded, the text of a host
/// may be part of the password.
pub(super) fn hosts(text: &str) -> Result<Vec<Address>> {
    if text.is_empty() {
        let message = "there is none; write one, such as in mongodb://localhost:27017; the path of a \
                       Unix domain socket must be URL encoded (write / as %2F)";
        return Err(invalid(UriPart::Host, message));
    }
    text.split(',')
        .enumerate()
        .map(|(index, host)| {
            address(host).map_err(|reason| {
                let message = format!("host {}: {reason}; {ENCODE}", index + 1);
                invalid(UriPart::Host, message)
            })
        })
        .collect()
}

fn address(text: &str) -> Result<Address, String> {
    if text.is_empty() {
        // A path that is not encoded ends the hosts at its first slash (CS-12).
        let reason = "the host is empty; the path of a Unix domain socket must be URL encoded \
                      (write / as %2F)";
        return Err(reason.to_owned());
    }
    let decoded = decoded_address(text)?;
    decoded
        .parse()
        .map_err(|fault: InvalidAddress| fault.to_string())
}

/// Decodes the host of an address. Host and port are told apart before (CS-44), so an encoded
/// colon or bracket has no meaning of its own.
fn decoded_address(text: &str) -> Result<Cow<'_, str>, String> {
    if !text.contains('%') {
        return Ok(text.into());
    }
    let is_literal = text.starts_with('[');
    let end = text.find(if is_literal { ']' } else { ':' });
    let (host, port) = text.split_at(end.unwrap_or(text.len()));
    let Some(host) = decode(host) else {
        return Err(BAD_PERCENT.to_owned());
    };
    let is_path = !is_literal && host.contains('/');
    if is_path && !port.is_empty() {
        return Err("the path of a Unix socket takes no port".to_owned());
    }
    let has_delimiter = match is_literal {
        true => host.contains(']'),
        false => !is_path && host.contains([':', '[', ']']),
    };
    if has_delimiter {
        return Err("an encoded colon or bracket in a host name; write it as it is".to_owned());
    }
    Ok((host + port).into())
}

/// Parses the host of a `mongodb+srv` string: exactly one, without a port (DNS-2, DNS-3). Returns
/// it in lower case (DNS-40).
pub(super) fn srv_host(text: &str) -> Result<String> {
    let reason = if text.is_empty() {
        "name a host"
    } else if text.contains(',') {
        "mongodb+srv takes one host name; DNS supplies the others"
    } else if text.contains(':') {
        "mongodb+srv takes no port; DNS supplies it"
    } else {
        match decode(text) {
            Some(host) if name_fault(&host).is_none() => return Ok(host.to_ascii_lowercase()),
            _ => "mongodb+srv takes a host name",
        }
    };
    // If a character of a password is not encoded, the text is a part of the password.
    let message = match text.is_empty() {
        true => reason.to_owned(),
        false => format!("{reason}; {ENCODE}"),
    };
    Err(invalid(UriPart::Host, message))
}

/// Decodes the database name; `None` if there is none (CS-16). The rule of the option checks
/// which names are allowed (CS-17).
pub(super) fn database(text: &str) -> Result<Option<String>> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.contains('@') {
        // An `@` is valid in a database name, but probably means that an unencoded `/` in a
        // password ended the hosts too early.
        return Err(invalid(
            UriPart::Database,
            "it contains an @; in a user name or password, write / as %2F and @ as %40",
        ));
    }
    match decode(text) {
        Some(name) => Ok(Some(name)),
        None => Err(invalid(UriPart::Database, BAD_PERCENT)),
    }
}
