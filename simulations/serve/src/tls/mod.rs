//! TLS of the connections of clients.
//!
//! Without the feature `tls`, a deployment with TLS does not start.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod certificate;
#[cfg(feature = "tls")]
mod session;
#[cfg(feature = "tls")]
mod subject;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::{Tls, TlsSession};
#[cfg(feature = "tls")]
pub(crate) use session::{Tls, TlsSession};

/// The subject of the certificate in `client.pem`, in the form of RFC 2253.
pub const CLIENT_SUBJECT: &str = "C=IS,ST=Reykjavik,L=Reykjavik,O=MongoDB,OU=Drivers,CN=client";
