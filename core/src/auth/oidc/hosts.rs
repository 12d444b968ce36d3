//! The hosts to which the human flow may send tokens.

use crate::options::{Credential, DEFAULT_ALLOWED_HOSTS, OidcFlow};

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
fn matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(domain) => {
            let split = host.len().checked_sub(domain.len());
            split.is_some_and(|at| {
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
    use crate::options::{CredentialProvider, OidcCallback, OidcTokens};

    fn credential(flow: OidcFlow, hosts: Option<&[&str]>) -> Credential {
        let callback = OidcCallback::blocking(flow, |_| Ok(OidcTokens::new("t")));
        let mut credential = Credential::with_provider(CredentialProvider::Oidc(callback));
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
