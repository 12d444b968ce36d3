//! Who, where and which database: what stands before the options.

use super::{Result, invalid, split::decode};
use crate::{address::Address, error::UriPart, options::Secret};
use std::net::Ipv6Addr;

/// A user name, and a password if there was a colon; an empty password is one (CS-7).
pub(super) type Login = (String, Option<Secret>);

/// Reads `username[:password]` (CS-3 to CS-7). No message shows any of it.
pub(super) fn userinfo(text: &str) -> Result<Login> {
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
    if !text.chars().all(is_userinfo) {
        return refuse("a character is not allowed there as it is");
    }
    let (Some(name), Some(password)) = (
        decode(name),
        password.map_or(Some(None), |text| decode(text).map(Some)),
    ) else {
        return refuse("a % must be followed by two hexadecimal digits of UTF-8 text");
    };
    Ok((name, password.map(Secret::new)))
}

/// Letters, digits and the marks that RFC 3986 allows in userinfo; text that is not ASCII passes
/// (CS-5, CS-40).
fn is_userinfo(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~%!$&'()*+,;=:".contains(c)
}

/// Reads the comma-separated hosts (CS-8 to CS-14). A message gives a host's place in the list but
/// not its text, which is part of a password where an `@`, `/` or `?` was not encoded.
pub(super) fn hosts(text: &str) -> Result<Vec<Address>> {
    text.split(',')
        .enumerate()
        .map(|(index, host)| {
            address(host).map_err(|reason| {
                let message = format!(
                    "host {}: {reason}; if this is part of a user name or password, encode its \
                     special characters",
                    index + 1
                );
                invalid(UriPart::Host, message)
            })
        })
        .collect()
}

fn address(text: &str) -> Result<Address, String> {
    let Some(decoded) = decode(text) else {
        return Err("a % must be followed by two hexadecimal digits of UTF-8 text".to_owned());
    };
    let address: Address = decoded.parse().map_err(|e| format!("{e}"))?;
    if let Address::Tcp { host, .. } = &address {
        let literal = host.split('%').next().unwrap_or_default();
        if decoded.starts_with('[') && literal.parse::<Ipv6Addr>().is_err() {
            return Err("what stands in brackets is no IPv6 address".to_owned());
        }
        if host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("a host name has no spaces".to_owned());
        }
    }
    Ok(address)
}

/// Reads the one host of `mongodb+srv`, which has no port (DNS-2, DNS-3).
pub(super) fn srv_host(text: &str) -> Result<String> {
    let reason = if text.is_empty() {
        "name a host"
    } else if text.contains(',') {
        "mongodb+srv takes one host name; DNS supplies the others"
    } else if text.contains(':') {
        "mongodb+srv takes no port; DNS supplies it"
    } else {
        match decode(text) {
            Some(host) if !host.contains(|c: char| c.is_whitespace() || "[]/:,@".contains(c)) => {
                return Ok(host);
            }
            _ => "mongodb+srv takes a host name",
        }
    };
    Err(invalid(UriPart::Host, reason))
}

/// Decodes the database's name; `None` where there is none (CS-16). Which names are allowed is the
/// option's own rule (CS-17).
pub(super) fn database(text: &str) -> Result<Option<String>> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.contains('@') {
        // Nothing forbids this sign, but here it means that the host was cut out of a password.
        return Err(invalid(
            UriPart::Database,
            "it contains an @; in a user name or password, write / as %2F and @ as %40",
        ));
    }
    match decode(text) {
        Some(name) => Ok(Some(name)),
        None => Err(invalid(
            UriPart::Database,
            "a % must be followed by two hexadecimal digits of UTF-8 text",
        )),
    }
}
