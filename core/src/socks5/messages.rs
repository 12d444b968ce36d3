//! The messages of the conversation with a proxy, and the errors for its replies.

use super::Socks5Context;
use crate::{
    error::{Error, NetworkFault},
    options::Socks5Proxy,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use zeroize::Zeroizing;

/// The version of SOCKS, the first byte of most messages (RFC 1928).
pub(super) const VERSION: u8 = 5;

/// The version of the conversation with user name and password (RFC 1929 section 2).
pub(super) const LOGIN_VERSION: u8 = 1;

/// The method "no authentication required" (RFC 1928 section 3).
pub(super) const NO_AUTHENTICATION: u8 = 0;

/// The method "username/password" (RFC 1928 section 3).
pub(super) const LOGIN: u8 = 2;

/// The proxy's answer that it accepts none of the offered methods (RFC 1928 section 3).
pub(super) const NO_METHOD: u8 = 0xFF;

/// The command `CONNECT` (RFC 1928 section 4).
const CONNECT: u8 = 1;

/// The type of an IPv4 address (RFC 1928 section 5).
pub(super) const IPV4: u8 = 1;

/// The type of a domain name, whose first byte is its length (RFC 1928 section 5).
pub(super) const NAME: u8 = 3;

/// The type of an IPv6 address (RFC 1928 section 5).
pub(super) const IPV6: u8 = 4;

/// Returns the first message, which offers the methods of authentication. With credentials, both
/// methods are offered, and the proxy chooses (SOCKS-13).
pub(super) fn greeting(has_credentials: bool) -> Vec<u8> {
    if has_credentials {
        vec![VERSION, 2, NO_AUTHENTICATION, LOGIN]
    } else {
        vec![VERSION, 1, NO_AUTHENTICATION]
    }
}

/// Returns the message with the user name and the password, both of which are at most 255 bytes
/// long. A longer one is truncated; [`Socks5Proxy::validate`] refuses it.
pub(super) fn login(username: &[u8], password: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Vec::with_capacity(3 + username.len() + password.len());
    bytes.push(LOGIN_VERSION);
    for text in [username, password] {
        let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
        bytes.push(length);
        bytes.extend_from_slice(&text[..usize::from(length)]);
    }
    Zeroizing::new(bytes)
}

/// Returns the request to connect to `host`. The proxy resolves a name (SOCKS-14). Fails for a name
/// that is too long for SOCKS5.
pub(super) fn request(host: &str, port: u16) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![VERSION, CONNECT, 0];
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        bytes.push(IPV4);
        bytes.extend(address.octets());
    } else if let Ok(address) = host.parse::<Ipv6Addr>() {
        bytes.push(IPV6);
        bytes.extend(address.octets());
    } else {
        let limit = Socks5Proxy::MAX_TEXT_BYTES;
        let Some(length) = u8::try_from(host.len()).ok().filter(|&length| length > 0) else {
            let message = format!(
                "the SOCKS5 proxy was not asked: the name of the server has {} bytes, but SOCKS5 \
                 needs 1 to {limit}",
                host.len()
            );
            return Err(Error::network(NetworkFault::Other, message));
        };
        bytes.extend([NAME, length]);
        bytes.extend_from_slice(host.as_bytes());
    }
    bytes.extend(port.to_be_bytes());
    Ok(bytes)
}

/// Returns the error for a reply with a code other than success (RFC 1928 section 6). The error
/// says whether the proxy refused the request, or could not reach the server.
pub(super) fn refused(context: &Socks5Context, code: u8) -> Error {
    use NetworkFault::{Other, Refused, Unreachable};
    let (fault, message) = match code {
        1 => (
            Other,
            "failed without a reason: general SOCKS server failure",
        ),
        2 => (
            Refused,
            "refused to connect to the server: its rules do not allow the connection",
        ),
        3 => (
            Unreachable,
            "could not reach the server: network unreachable",
        ),
        4 => (
            Unreachable,
            "could not reach the server: host unreachable; can the proxy resolve its name?",
        ),
        5 => (Refused, "could not reach the server: connection refused"),
        6 => (Unreachable, "could not reach the server: TTL expired"),
        7 => (Other, "refused the request: it does not support CONNECT"),
        8 => (
            Other,
            "refused the request: it does not support this type of address",
        ),
        _ => {
            let message = format!("refused the request with the unknown code {code}");
            return fault_of(context, Other, &message);
        }
    };
    fault_of(context, fault, message)
}

/// Returns a network error that names the proxy (SOCKS-19).
pub(super) fn fault_of(context: &Socks5Context, fault: NetworkFault, message: &str) -> Error {
    Error::network(
        fault,
        format!("the SOCKS5 proxy {} {message}", context.proxy()),
    )
}
