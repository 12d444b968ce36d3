//! Canonical names of hosts, by the resolver of the system.

use dns_lookup::{AddrInfoHints, SockType, getaddrinfo, getnameinfo};
use onionskin_core::options::CanonicalizeHostName;

/// Returns the canonical name of a host: the name at the end of the chain of CNAME records, or the
/// name of the reverse lookup of the first address. Fails if the host has no address.
pub(super) fn name(host: &str, mode: CanonicalizeHostName) -> Result<String, String> {
    let hints = AddrInfoHints {
        flags: libc::AI_CANONNAME,
        socktype: SockType::Stream.into(),
        ..AddrInfoHints::default()
    };
    let mut found = getaddrinfo(Some(host), None, Some(hints))
        .map_err(|error| format!("{host} cannot be resolved: {:?}", error.kind()))?;
    let first = found
        .next()
        .ok_or_else(|| format!("{host} has no address"))?;
    let first = first.map_err(|error| error.to_string())?;
    match mode {
        CanonicalizeHostName::Forward => first
            .canonname
            .ok_or_else(|| format!("{host} has no canonical name")),
        CanonicalizeHostName::ForwardAndReverse => {
            let (name, _) = getnameinfo(&first.sockaddr, libc::NI_NAMEREQD).map_err(|error| {
                format!("the address of {host} has no name: {:?}", error.kind())
            })?;
            Ok(name)
        }
    }
}
