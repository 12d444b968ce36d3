//! Further connections that find the cause of a failure. They send no credential.

use crate::{
    certificate::{Summary, Validity},
    drive::{Clock, Findings, drive},
    report::Step,
    server::{is_refused_certificate, probe},
};
use onionskin::Runtime;
use onionskin_core::{
    address::Address,
    error::Error,
    options::{ClientOptions, TlsOptions},
    probe::{Probe, RevocationStatus, StatusSource, TlsFacts},
    time::WallTime,
};
use std::time::Duration;

/// The time limit of each connection that finds a cause.
const LIMIT: Duration = Duration::from_secs(2);

/// The name of the fact whether the server answers `hello` without TLS.
pub(crate) const PLAIN: &str = "answers without TLS";

/// The name of the fact whether the server does a TLS handshake.
pub(crate) const TLS: &str = "answers TLS";

/// The name of the fact with the names of the server's certificate.
pub(crate) const NAMES: &str = "names";

/// The name of the fact with the validity of the certificates.
pub(crate) const VALIDITY: &str = "validity";

/// The name of the fact that the server signed its certificate itself.
pub(crate) const SELF_SIGNED: &str = "self-signed";

/// The name of the fact with the issuer of the last certificate that the server sent.
pub(crate) const ISSUER: &str = "last issuer";

/// Adds what is known about the revocation of the server's certificate.
pub(crate) fn describe_revocation(step: &mut Step, facts: &TlsFacts) {
    let text = match facts.revocation {
        RevocationStatus::NotChecked => "not checked",
        RevocationStatus::Good(StatusSource::Staple) => "not revoked (stapled OCSP response)",
        RevocationStatus::Good(StatusSource::Crl) => "not revoked (list of tlsCRLFile)",
        RevocationStatus::Good(StatusSource::Responder | StatusSource::Cache) => {
            "not revoked (OCSP responder of the certificate)"
        }
        RevocationStatus::Revoked(_) => "revoked",
        _ => {
            "unknown: no stapled OCSP response, no answer of an OCSP responder, and no list of \
             tlsCRLFile that covers it"
        }
    };
    step.fact("revocation", text);
}

/// Adds the facts of a TLS connection.
pub(crate) fn describe_tls(
    step: &mut Step,
    facts: &TlsFacts,
    options: &ClientOptions,
    wall: WallTime,
) {
    step.fact("version", facts.version.clone());
    step.fact("cipher", facts.cipher_suite.clone());
    let Some(tls) = options.tls() else {
        return;
    };
    let unchecked = [tls.insecure, tls.allow_invalid_certificates].contains(&Some(true));
    let is_checked = !unchecked;
    let trusted = match (is_checked, &tls.ca_pem) {
        _ if tls.has_config() => "the certificates that TlsOptions::config accepts",
        (false, _) => "any certificate",
        (true, Some(_)) => "the authorities in tlsCAFile",
        (true, None) => "the authorities of the system and Mozilla's list",
    };
    step.fact("trusted", trusted);
    let chain: Vec<_> = facts
        .certificates
        .iter()
        .map(|der| Summary::parse(der, wall))
        .collect();
    let lines = chain.iter().map(|summary| match summary {
        Some(summary) => summary.line(),
        None => "(malformed)".to_owned(),
    });
    step.fact("certificates", lines.collect::<Vec<_>>());
    if let Some(Some(last)) = chain.last() {
        step.fact(ISSUER, last.issuer.clone());
    }
    if let Some(Some(own)) = chain.first() {
        step.fact(NAMES, own.names.clone());
        if own.is_self_issued {
            step.fact(SELF_SIGNED, true);
        }
    }
    describe_validity(step, &chain, is_checked);
}

/// Adds the validity of the certificate whose validity is worst.
fn describe_validity(step: &mut Step, chain: &[Option<Summary>], is_checked: bool) {
    let worst = chain
        .iter()
        .flatten()
        .max_by_key(|summary| summary.validity);
    let Some(worst) = worst else { return };
    let text = match worst.validity {
        Validity::Valid | Validity::ExpiresSoon => "valid",
        Validity::NotYet => "not valid yet",
        Validity::Expired => "expired",
    };
    step.fact(VALIDITY, text);
    let renew = || vec!["renew the certificate".to_owned()];
    match worst.validity {
        Validity::ExpiresSoon => {
            let message = format!("the certificate of {} expires soon", worst.line());
            step.warn(message, renew());
        }
        Validity::NotYet | Validity::Expired if !is_checked => {
            let message = format!(
                "a certificate is {text}, and accepted only because certificates are not checked"
            );
            step.warn(message, renew());
        }
        _ => {}
    }
}

/// Connects once more to find out why TLS failed. Adds the certificates that the server shows if
/// they were refused, or else the fact whether the server answers without TLS.
pub(crate) async fn examine_tls<R: Runtime>(
    clock: &Clock<R>,
    step: &mut Step,
    address: &Address,
    options: &ClientOptions,
    error: &Error,
) {
    if is_refused_certificate(error) {
        let findings = connect(clock, address, options, true).await;
        if let Some((facts, _)) = findings.and_then(|findings| findings.tls) {
            describe_tls(step, &facts, options, clock.wall());
        }
        return;
    }
    let findings = connect(clock, address, options, false).await;
    let is_plain = findings.is_some_and(|findings| findings.hello.is_some());
    step.fact(PLAIN, is_plain);
}

/// True if a TLS handshake with the server succeeds.
pub(crate) async fn speaks_tls<R: Runtime>(
    clock: &Clock<R>,
    address: &Address,
    options: &ClientOptions,
) -> bool {
    let findings = connect(clock, address, options, true).await;
    findings.is_some_and(|findings| findings.tls.is_some())
}

/// Connects to a server, through the proxy of the client if it has one. TLS, if it is used, accepts
/// any certificate.
async fn connect<R: Runtime>(
    clock: &Clock<R>,
    address: &Address,
    client: &ClientOptions,
    encrypted: bool,
) -> Option<Findings> {
    let mut options = ClientOptions::default();
    options.connect_timeout = Some(LIMIT);
    options.socks5_proxy = client.socks5_proxy.clone();
    if encrypted {
        options.tls = Some(TlsOptions::builder().insecure(true).build().into());
    }
    let probe = probe(clock, options, address, Probe::new).ok()?;
    let stream = clock.dial(probe.dial_address(), Some(LIMIT)).await.ok()?;
    Some(drive(clock, probe, stream, encrypted).await)
}
