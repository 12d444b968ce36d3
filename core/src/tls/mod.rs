//! TLS without sockets: turns ciphertext into plaintext, and plaintext into ciphertext.
//!
//! Key exchange and record protection are those of `rustls` with `ring`, which has its own source
//! of randomness. The same seed therefore gives the same decisions and the same plaintext, but not
//! the same ciphertext.

mod certificates;
mod context;
mod limits;
mod records;
mod session;
mod verifier;

pub use context::TlsContext;
pub use limits::{MAX_CERTIFICATES, MAX_CHAIN_BYTES, MAX_OF_ONE_SUBJECT, MAX_SHARED_SUBJECTS};
pub use session::{TlsFacts, TlsSession};

use crate::error::{Error, ErrorKind, TlsFault};
use rustls::CertificateError;

fn fault(fault: TlsFault, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Tls {
        fault,
        message: message.into(),
    })
}

/// Returns the error for a TLS option that cannot be used.
fn configuration(message: impl Into<String>) -> Error {
    fault(TlsFault::Configuration, message)
}

/// Converts an error of `rustls` on an established connection.
fn broken(error: &rustls::Error) -> Error {
    let message = shortened(error);
    fault(
        TlsFault::Broken,
        format!("the TLS connection failed: {message}"),
    )
}

/// Converts an error of `rustls` during a handshake. The [`TlsFault`] of the result shows users
/// what to check.
fn from_library(error: &rustls::Error) -> Error {
    let kind = match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => TlsFault::HostName,
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

/// The maximum length in bytes of an error message of `rustls`; a longer one is truncated. The
/// message about a wrong host name lists all names of the certificate.
const MAX_MESSAGE_BYTES: usize = 512;

fn shortened(error: &rustls::Error) -> String {
    let mut text = match error {
        // `rustls` formats this variant with `Debug`, which is hard to read.
        rustls::Error::InvalidCertificate(CertificateError::Other(why)) => why.0.to_string(),
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "invalid peer certificate: no trusted authority has issued it (UnknownIssuer)"
                .to_owned()
        }
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

#[cfg(test)]
pub(crate) mod tests;
