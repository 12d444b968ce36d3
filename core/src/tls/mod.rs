//! TLS without sockets: ciphertext in, plaintext out, and the other way round.
//!
//! Key exchange and record protection are those of `rustls` with `ring`, which draws its own
//! randomness. So the promise that one seed gives the same bytes ends above this layer: what is
//! decided stays the same, the ciphertext does not.

mod certificates;
mod context;
mod session;
mod verifier;

pub use context::TlsContext;
pub use session::TlsSession;

use crate::error::{Error, ErrorKind, TlsFault};
use rustls::CertificateError;

fn fault(fault: TlsFault, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Tls {
        fault,
        message: message.into(),
    })
}

/// An option that cannot be used.
fn configuration(message: impl Into<String>) -> Error {
    fault(TlsFault::Configuration, message)
}

/// What the library reports, sorted by what a user has to look at.
fn from_library(error: &rustls::Error) -> Error {
    let kind = match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => TlsFault::HostName,
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            TlsFault::Certificate
        }
        rustls::Error::FailedToGetCurrentTime => {
            return configuration("the time of day, which certificates need, was not given");
        }
        _ => TlsFault::Handshake,
    };
    fault(kind, error.to_string())
}

#[cfg(test)]
mod tests;
