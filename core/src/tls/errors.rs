//! The errors of TLS.

use super::StatusSource;
use crate::error::{Error, ErrorKind, TlsFault};
use rustls::CertificateError;

pub(super) fn fault(fault: TlsFault, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Tls {
        fault,
        message: message.into(),
    })
}

/// Returns the error for a TLS option that cannot be used.
pub(super) fn configuration(message: impl Into<String>) -> Error {
    fault(TlsFault::Configuration, message)
}

/// Converts an error of `rustls` on an established connection.
pub(super) fn broken(error: &rustls::Error) -> Error {
    let message = shortened(error);
    fault(
        TlsFault::Broken,
        format!("the TLS connection failed: {message}"),
    )
}

/// Converts an error of `rustls` during a handshake. The [`TlsFault`] of the result shows users
/// what to check.
pub(super) fn from_library(error: &rustls::Error) -> Error {
    let kind = match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => TlsFault::HostName,
        rustls::Error::InvalidCertificate(CertificateError::Revoked) => TlsFault::Revoked,
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            TlsFault::Certificate
        }
        rustls::Error::FailedToGetCurrentTime => {
            return configuration(
                "the time of day was not set, which the check of certificates needs; call \
                 Client::set_wall_time first",
            );
        }
        _ => TlsFault::Handshake,
    };
    fault(kind, shortened(error))
}

/// The message about a certificate that was revoked.
const REVOKED: &str = "invalid peer certificate: its issuer has revoked it";

/// Returns the message about a certificate that was revoked, as `source` states.
pub(super) fn revoked(source: StatusSource) -> String {
    let source = match source {
        StatusSource::Staple => " (stapled OCSP response)",
        // CRLs are searched for the authorities of the chain also.
        StatusSource::Crl => ", or an authority of its chain was revoked (CRL of tlsCRLFile)",
        StatusSource::Responder => " (OCSP responder)",
        StatusSource::Cache => " (earlier OCSP response)",
    };
    format!("{REVOKED}{source}")
}

/// The maximum length in bytes of an error message of `rustls`; a longer one is truncated. The
/// message about a wrong host name lists all names of the certificate.
pub(super) const MAX_MESSAGE_BYTES: usize = 512;

fn shortened(error: &rustls::Error) -> String {
    let mut text = match error {
        // `rustls` formats this variant with `Debug`, which is hard to read.
        rustls::Error::InvalidCertificate(CertificateError::Other(why)) => why.0.to_string(),
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "invalid peer certificate: no trusted authority has issued it (UnknownIssuer); \
             tlsCAFile names the authority"
                .to_owned()
        }
        // The session itself has the message about a stapled response.
        rustls::Error::InvalidCertificate(CertificateError::Revoked) => revoked(StatusSource::Crl),
        other => other.to_string(),
    };
    if text.len() > MAX_MESSAGE_BYTES {
        let mut end = MAX_MESSAGE_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(" ...");
        text.shrink_to_fit();
    }
    text
}
