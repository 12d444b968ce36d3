//! The hosts to which the human flow may send tokens.

use crate::{
    address::{name_fault, without_zone},
    options::{Credential, DEFAULT_ALLOWED_HOSTS, OidcFlow},
};
use std::net::IpAddr;

/// Fails if the human flow must not be used with this host (AUTH-107, AUTH-108). Without this
/// check, a connection string from an attacker could make a human log in at the identity provider
/// of the attacker's server.
pub(in crate::auth) fn check_host(credential: &Credential, host: &str) -> Result<(), String> {
    if credential.oidc_flow() != OidcFlow::Human {
        return Ok(());
    }
    let is_allowed = match &credential.allowed_hosts {
        Some(hosts) => hosts.iter().any(|pattern| matches(pattern, host)),
        None => DEFAULT_ALLOWED_HOSTS
            .iter()
            .any(|pattern| matches(pattern, host)),
    };
    if is_allowed {
        return Ok(());
    }
    Err(format!(
        "the host {host} is not one of the ALLOWED_HOSTS of the OIDC human callback; add it to \
         Credential::allowed_hosts if you trust it"
    ))
}

/// True if `host` is the host of the pattern or, with a leading `*.`, lies below it.
///
/// The zone of an IPv6 address is chosen by whoever writes the connection string, so it never
/// counts. Addresses are compared as numbers, and lie below no name.
fn matches(pattern: &str, host: &str) -> bool {
    let host = without_zone(host);
    if let Ok(address) = host.parse::<IpAddr>() {
        return without_zone(pattern).parse() == Ok(address);
    }
    match pattern.strip_prefix("*.") {
        Some(domain) => {
            let split = host.len().checked_sub(domain.len());
            name_fault(host).is_none()
                && split.is_some_and(|at| {
                    at > 1
                        && host.is_char_boundary(at)
                        && host[..at].ends_with('.')
                        && host[at..].eq_ignore_ascii_case(domain)
                })
        }
        None => pattern.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{OidcCallback, OidcTokens};

    fn credential(flow: OidcFlow, hosts: Option<&[&str]>) -> Credential {
        let callback = OidcCallback::blocking(flow, |_| Ok(OidcTokens::new("t")));
        let mut credential = Credential::with_oidc_callback(callback);
        credential.allowed_hosts = hosts.map(|hosts| hosts.iter().map(|&h| h.to_owned()).collect());
        credential
    }

    #[test]
    fn the_human_flow_is_used_only_with_allowed_hosts() {
        // A leading `*.` matches nested subdomains, and an empty list allows nothing (AUTH-107,
        // AUTH-108, OIDC human prose 1.6).
        let own: &[&str] = &["*.example.com", "db.example.net"];
        for (hosts, host, allowed) in [
            (None, "localhost", true),
            (None, "127.0.0.1", true),
            (None, "::1", true),
            (None, "cluster0.abc.mongodb.net", true),
            (None, "a.mongo.com", true),
            (None, "mongodb.net", false),
            (None, "evilmongodb.net", false),
            (None, "cluster0.mongodb.net.evil.com", false),
            (Some(own), "a.b.example.com", true),
            (Some(own), "A.EXAMPLE.COM", true),
            (Some(own), "example.com", false),
            (Some(own), ".example.com", false),
            (Some(own), "db.example.net", true),
            (Some(own), "x.db.example.net", false),
            (Some(own), "localhost", false),
            (Some(&[]), "localhost", false),
            // The zone of an address is no part of a name, and an address no subdomain.
            (None, "2001:db8::66%x.mongodb.net", false),
            (None, "::1%x.mongodb.net", true),
            (None, "0:0:0:0:0:0:0:1", true),
            (None, "10.0.0.7\0.mongodb.net", false),
            (None, "evil.example%x.mongodb.net", false),
            (Some(&["*.0.0.7", "fe80::7"]), "10.0.0.7", false),
            (Some(&["*.0.0.7", "fe80::7"]), "FE80::7%eth0", true),
        ] {
            let human = credential(OidcFlow::Human, hosts);
            assert_eq!(
                check_host(&human, host).is_ok(),
                allowed,
                "{hosts:?} {host}"
            );
        }
        let machine = credential(OidcFlow::Machine, None);
        assert_eq!(check_host(&machine, "db.example.net"), Ok(()));
    }
}
