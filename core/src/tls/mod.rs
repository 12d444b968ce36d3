//! TLS without sockets: ciphertext in, plaintext out, and the other way round.
//!
//! Key exchange and record protection are those of `rustls` with `ring`, which draws its own
//! randomness. So the promise that one seed gives the same bytes ends above this layer: what is
//! decided stays the same, the ciphertext does not.

mod certificates;
mod context;
mod limits;
mod records;
mod session;
mod verifier;

pub use context::TlsContext;
pub use limits::{MAX_CERTIFICATES, MAX_CHAIN_BYTES, MAX_OF_ONE_SUBJECT, MAX_SHARED_SUBJECTS};
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

/// What the library reports about an established connection.
fn broken(error: &rustls::Error) -> Error {
    let message = shortened(error);
    fault(TlsFault::Broken, format!("the connection broke: {message}"))
}

/// What the library reports about a handshake, sorted by what a user has to look at.
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
    fault(kind, shortened(error))
}

/// Bytes of the library's words that are kept. The words on a wrong host name list all names of the
/// certificate.
const MAX_MESSAGE_BYTES: usize = 512;

fn shortened(error: &rustls::Error) -> String {
    let mut text = match error {
        // The library would show this one as code.
        rustls::Error::InvalidCertificate(CertificateError::Other(why)) => why.0.to_string(),
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
