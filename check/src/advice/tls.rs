//! Hints about failed TLS handshakes.

use super::{ATLAS, access_list, texts};
use crate::{
    diagnosis::{ISSUER, NAMES, PLAIN, SELF_SIGNED, VALIDITY},
    report::{Step, Value},
    server::{is_closed, wall_text},
};
use onionskin_core::{
    address::Address,
    error::{Error, ErrorKind, TlsFault},
    options::ClientOptions,
    time::WallTime,
};

/// Returns hints about a failed TLS handshake. `step` has the facts about TLS.
pub(crate) fn failed(
    error: &Error,
    step: &Step,
    address: &Address,
    options: &ClientOptions,
    wall: WallTime,
) -> Vec<String> {
    let ErrorKind::Tls { fault, message } = error.kind() else {
        return lost(error, step, address);
    };
    let client_certificate = "the server demands a certificate of the client: set \
                              tlsCertificateKeyFile";
    match fault {
        TlsFault::Configuration => unusable_options(),
        TlsFault::HostName => other_name(step, address),
        TlsFault::Revoked => {
            texts(["the certificate must not be trusted any more: give the server a new one"])
        }
        TlsFault::Certificate if message.contains("staple") => texts([
            "the server must reach the OCSP responder of its certificate; look for OCSP in the log \
             of the server",
            "is the clock right, here and on the server?",
        ]),
        TlsFault::Certificate => certificate_refused(step, options, wall),
        _ if message.contains("CertificateRequired") => texts([client_certificate]),
        _ if message.contains("HandshakeFailure") => texts([
            "client and server have no TLS version or cipher in common; this client has TLS 1.2 \
             and 1.3 with ciphers that keep past traffic secret",
            client_certificate,
        ]),
        _ => lost(error, step, address),
    }
}

/// Returns hints about TLS options that cannot be used.
pub(super) fn unusable_options() -> Vec<String> {
    texts(["check the files of tlsCAFile, tlsCertificateKeyFile and tlsCRLFile"])
}

/// Returns hints about a certificate for another host.
fn other_name(step: &Step, address: &Address) -> Vec<String> {
    if matches!(address, Address::Unix { .. }) {
        return texts([
            "a certificate is for a host: use TLS with a host name instead of a socket",
        ]);
    }
    let host = address.host();
    let first = match step.value(NAMES) {
        Some(Value::List(names)) if !names.is_empty() => format!(
            "the certificate is for {}: connect by a name that matches",
            names.join(", ")
        ),
        _ => "the certificate has no subjectAltName, and its common name does not count".to_owned(),
    };
    let second = format!("or give the server a certificate with the subjectAltName {host}");
    vec![first, second]
}

fn certificate_refused(step: &Step, options: &ClientOptions, wall: WallTime) -> Vec<String> {
    let clock = format!(
        "is the clock of this machine right? It says {}",
        wall_text(wall)
    );
    match step.value(VALIDITY) {
        Some(Value::Text(text)) if text == "expired" => {
            return vec!["renew the expired certificate".to_owned(), clock];
        }
        Some(Value::Text(text)) if text == "not valid yet" => return vec![clock],
        _ => {}
    }
    let issuer = match step.value(ISSUER) {
        Some(Value::Text(issuer)) => issuer.as_str(),
        _ => "that signed it",
    };
    let mut hints = Vec::new();
    if step.value(SELF_SIGNED).is_some() {
        hints.push(
            "the server signed its certificate itself: give that certificate as tlsCAFile"
                .to_owned(),
        );
    } else if options.tls().is_some_and(|tls| tls.ca_pem.is_some()) {
        hints.push(format!(
            "tlsCAFile must have the certificate of the authority {issuer}"
        ));
        hints.push("the server may not send its intermediate certificates".to_owned());
    } else {
        hints.push(format!(
            "if the deployment has a certificate authority of its own ({issuer}), give the file \
             with its certificate as tlsCAFile"
        ));
    }
    hints.push(
        "a proxy that inspects TLS shows certificates of its own: compare the issuer above"
            .to_owned(),
    );
    hints
}

/// Returns hints about a TLS handshake that ended without a reason.
fn lost(error: &Error, step: &Step, address: &Address) -> Vec<String> {
    if step.value(PLAIN) == Some(&Value::Bool(true)) {
        return texts([
            "the server does not use TLS: remove tls=true (ssl=true) from the connection string, \
             or enable TLS on the server (net.tls.mode)",
        ]);
    }
    let mut hints = Vec::new();
    if address.host().ends_with(ATLAS) || is_closed(error) {
        hints.push(access_list());
    }
    hints.push("does the server, or a proxy before it, use TLS on this port?".to_owned());
    hints
}
