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
    probe::TlsFacts,
    time::WallTime,
};
use std::time::Duration;

/// The time limit of each connection that finds a cause.
const LIMIT: Duration = Duration::from_secs(5);

/// The name of the fact that the server answered `hello` without TLS.
pub(crate) const PLAIN: &str = "answers without TLS";

/// The name of the fact with the names of the server's certificate.
pub(crate) const NAMES: &str = "names";

/// The name of the fact with the validity of the server's certificate.
pub(crate) const VALIDITY: &str = "validity";

/// The name of the fact that the server signed its certificate itself.
pub(crate) const SELF_SIGNED: &str = "self-signed";

/// Adds the facts of a TLS connection.
pub(crate) fn describe_tls(step: &mut Step, facts: &TlsFacts, wall: WallTime) {
    step.fact("version", facts.version.clone());
    step.fact("cipher", facts.cipher_suite.clone());
    let chain: Vec<_> = facts
        .certificates
        .iter()
        .filter_map(|der| Summary::parse(der, wall))
        .collect();
    let lines: Vec<String> = chain.iter().map(Summary::line).collect();
    step.fact("certificates", lines);
    let Some(own) = chain.first() else { return };
    step.fact(NAMES, own.names.clone());
    step.fact(
        VALIDITY,
        match own.validity {
            Validity::NotYet => "not valid yet",
            Validity::Expired => "expired",
            Validity::Valid | Validity::ExpiresSoon => "valid",
        },
    );
    if own.is_self_issued {
        step.fact(SELF_SIGNED, true);
    }
    if own.validity == Validity::ExpiresSoon {
        let message = format!("the certificate of the server expires on {}", own.not_after);
        step.warn(message, vec!["renew the certificate".to_owned()]);
    }
}

/// Connects once more to find out why TLS failed. Adds the certificates that the server shows if
/// they were refused, or else the fact that the server answers without TLS.
pub(crate) async fn examine_tls<R: Runtime>(
    clock: &Clock<R>,
    step: &mut Step,
    address: &Address,
    error: &Error,
) {
    if is_refused_certificate(error) {
        let findings = connect(clock, address, true).await;
        if let Some((facts, _)) = findings.and_then(|findings| findings.tls) {
            describe_tls(step, &facts, clock.wall());
        }
        return;
    }
    let findings = connect(clock, address, false).await;
    if findings.is_some_and(|findings| findings.hello.is_some()) {
        step.fact(PLAIN, true);
    }
}

/// True if a TLS handshake with the server succeeds.
pub(crate) async fn speaks_tls<R: Runtime>(clock: &Clock<R>, address: &Address) -> bool {
    let findings = connect(clock, address, true).await;
    findings.is_some_and(|findings| findings.tls.is_some())
}

/// Connects to a server, with TLS that accepts any certificate or without TLS.
async fn connect<R: Runtime>(
    clock: &Clock<R>,
    address: &Address,
    encrypted: bool,
) -> Option<Findings> {
    let mut options = ClientOptions::default();
    options.set_connect_timeout(LIMIT);
    if encrypted {
        let mut tls = TlsOptions::default();
        tls.enabled = true;
        tls.insecure = true;
        options.set_tls(tls);
    }
    let stream = match address {
        Address::Unix { path } => clock.connect_unix(path, Some(LIMIT)).await.ok()?,
        Address::Tcp { host, port } => {
            let resolved = clock.runtime.resolve(host, *port);
            let addresses = clock.within(Some(LIMIT), resolved).await?.ok()?;
            let mut connected = None;
            for address in addresses {
                connected = clock.connect(&address, Some(LIMIT)).await.ok();
                if connected.is_some() {
                    break;
                }
            }
            connected?
        }
    };
    let probe = probe(clock, options, address).ok()?;
    Some(drive(clock, probe, stream, encrypted).await)
}
