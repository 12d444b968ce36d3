//! The Kerberos library of a client, which the mechanism `GSSAPI` uses.

use super::Secret;
use std::{fmt, sync::Arc};

/// A Kerberos library, with which a client authenticates by `GSSAPI`.
///
/// The core decides about names, messages and their order. The library finds credentials, gets
/// tickets and makes tokens. With the Cargo feature `gssapi` of the runtime crates, clients use the
/// GSSAPI library of the system. An application can use another implementation, by
/// [`ClientOptions::set_kerberos`](super::ClientOptions::set_kerberos) ([AUTH-42]).
///
/// All functions may block. The client calls them on threads that may block, several at once. At
/// most [`MAX_KERBEROS_STEPS`](crate::client::MAX_KERBEROS_STEPS) calls of one client run at a
/// time. An error is the reason in words. It becomes part of an error message, so it must not
/// contain secrets.
///
/// [AUTH-42]: crate::requirements::authentication#AUTH-42
pub trait Kerberos: Send + Sync {
    /// Returns the canonical name of a host. The client makes the name lower-case, and uses `host`
    /// itself if the name is empty or an error is returned. Fails if the host has no address
    /// ([AUTH-71], [AUTH-72]).
    ///
    /// [AUTH-71]: crate::requirements::authentication#AUTH-71
    /// [AUTH-72]: crate::requirements::authentication#AUTH-72
    fn canonical_name(&self, host: &str, mode: CanonicalizeHostName) -> Result<String, String>;

    /// Returns a new security context between the user and the service. Fails without credentials
    /// of the user.
    fn begin(&self, target: &KerberosTarget) -> Result<Box<dyn SecurityContext>, String>;
}

/// The security context of one connection, which a [`Kerberos`] library makes.
///
/// The context must require mutual authentication and the protection of integrity. All functions
/// may block, but dropping a context must neither block nor panic nor use the client, because the
/// client is locked then.
pub trait SecurityContext: Send {
    /// Continues the context with a token of the service; `None` for the first step. Returns the
    /// next token for the service, or `None` if there is none.
    fn step(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>, String>;

    /// True once no further token is needed and the service has proved its identity.
    fn is_complete(&self) -> bool;

    /// Checks a message of the service, and returns its content.
    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, String>;

    /// Returns a message for the service with this content. The message is protected against
    /// changes and is not encrypted.
    fn wrap(&mut self, content: &[u8]) -> Result<Vec<u8>, String>;
}

/// The lookup that makes the name of a host canonical. The mechanism property
/// `CANONICALIZE_HOST_NAME` chooses the lookup ([AUTH-69]).
///
/// [AUTH-69]: crate::requirements::authentication#AUTH-69
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanonicalizeHostName {
    /// `forward`: the name at the end of the chain of CNAME records.
    Forward,
    /// `forwardAndReverse`: the name that the reverse lookup of the first address gives.
    ForwardAndReverse,
}

impl CanonicalizeHostName {
    /// Returns the lookup for a value of the property. `None` for `none`, `false` and an absent
    /// property, with which names are never made canonical ([AUTH-70]).
    ///
    /// [AUTH-70]: crate::requirements::authentication#AUTH-70
    pub(crate) fn from_property(value: Option<&str>) -> Option<Self> {
        match value {
            Some("forward") => Some(Self::Forward),
            Some("forwardAndReverse" | "true") => Some(Self::ForwardAndReverse),
            _ => None,
        }
    }
}

/// The user and the service of a [`SecurityContext`]. `Debug` shows the service only.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KerberosTarget {
    /// The principal of the user, with or without a realm, as in the credential.
    pub username: String,
    /// The password of the user. `None` if the user has a ticket or a keytab.
    pub password: Option<Secret>,
    /// The principal of the service: `service/host@REALM`. The characters `/`, `@` and `\` of its
    /// parts are escaped by `\`. An empty realm (`service/host@`) means that the library chooses
    /// the realm.
    pub service: String,
}

impl KerberosTarget {
    pub(crate) const fn new(username: String, password: Option<Secret>, service: String) -> Self {
        Self {
            username,
            password,
            service,
        }
    }
}

impl fmt::Debug for KerberosTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KerberosTarget")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

/// The Kerberos library in the options of a client.
#[derive(Clone)]
pub(crate) struct KerberosLibrary(pub(crate) Arc<dyn Kerberos>);

impl fmt::Debug for KerberosLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KerberosLibrary(..)")
    }
}

/// Two libraries are equal only if one is a clone of the other.
impl PartialEq for KerberosLibrary {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
