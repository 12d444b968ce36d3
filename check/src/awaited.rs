//! The sources and computations that a probe waits for. The message about a check that had no time
//! left names them.

use onionskin_core::client::Inquiry;
use std::fmt;

/// A source other than the server, or a computation, for which a connection waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The answer to an inquiry, with its name: a request, a file or a callback. The name contains
    /// no secret.
    Source(String),
    /// The response of an OCSP responder, with the names of all requests.
    Responders(String),
    /// A step of the Kerberos library.
    Kerberos,
    /// The derivation of keys from a password.
    Keys,
}

impl Awaited {
    /// Returns the source that answers an inquiry of authentication.
    pub(crate) fn of(inquiry: &Inquiry) -> Self {
        Self::Source(name(inquiry))
    }

    /// Returns the OCSP responders that answer these inquiries.
    pub(crate) fn responders(inquiries: &[Inquiry]) -> Self {
        let names: Vec<_> = inquiries.iter().map(name).collect();
        Self::Responders(names.join(", "))
    }
}

fn name(inquiry: &Inquiry) -> String {
    match inquiry {
        Inquiry::Environment(_) => "the environment variables".to_owned(),
        Inquiry::File(path) => format!("the file {path}"),
        Inquiry::Http(request) => request.to_string(),
        Inquiry::Call(_) => "a callback of the application".to_owned(),
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source(name) | Self::Responders(name) => name,
            Self::Kerberos => "the Kerberos library, which may ask the key distribution center,",
            Self::Keys => "the keys that this machine derives from the password",
        })
    }
}
