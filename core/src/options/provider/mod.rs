//! The callbacks of an application that provide credentials: passwords, AWS credentials or OpenID
//! Connect tokens.

mod aws;
mod callback;
mod oidc;
mod password;

pub use aws::{AwsCredentialProvider, AwsCredentials};
pub use callback::{CallbackError, CallbackFuture, ProviderCall, Supplied};
pub use oidc::{IdpInfo, OIDC_CALLBACK_VERSION, OidcCallback, OidcFlow, OidcRequest, OidcTokens};
pub use password::{Login, PasswordProvider, PasswordRequest};

/// A callback that provides the secret part of a credential. It replaces the password of the
/// credential, or the source of AWS credentials. [`OidcCallback`] provides tokens.
///
/// The callback is called when a connection has to authenticate and no cached value is available.
/// At most one call of a client runs at a time; all connections that need the value wait for that
/// call. The call is limited in time. If the callback fails, panics, or does not end in time, the
/// connections that wait fail with an error.
///
/// If the time limit passes or the client is closed, the future of the callback is dropped. The
/// thread of a blocking callback cannot be stopped: until the callback returns, there is no other
/// call, and connections that need the value fail at once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CredentialProvider {
    /// Provides the user name and the password for SCRAM or `PLAIN`.
    Password(PasswordProvider),
    /// Provides AWS credentials. The mechanism is `MONGODB-AWS` ([AUTH-101]).
    ///
    /// [AUTH-101]: crate::requirements::authentication#AUTH-101
    Aws(AwsCredentialProvider),
}
