//! The provider of user names and passwords.

use super::callback::{Callback, CallbackError, ProviderCall, Supplied};
use crate::options::Secret;
use std::{future::Future, time::Duration};

/// A user name and a password. `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Login {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Secret,
}

impl Login {
    /// Returns a login with this user name and password.
    ///
    /// ```
    /// use onionskin_core::options::Login;
    ///
    /// let login = Login::new("app", "pencil");
    /// assert_eq!(login.password.expose(), "pencil");
    /// ```
    #[must_use]
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            username: username.into(),
            password: Secret::new(password),
        }
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login(..)")
    }
}

/// The input of a [`PasswordProvider`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PasswordRequest {
    /// The time after which the result is no longer used. The driver then drops the future. It is 1
    /// minute or, with `timeoutMS`, the smaller of `timeoutMS` and `connectTimeoutMS`.
    pub timeout: Duration,
    /// The login that a server refused with error 18 (`AuthenticationFailed`), if that is the
    /// reason of the request.
    pub refused: Option<Login>,
}

impl PasswordRequest {
    pub(crate) const fn new(timeout: Duration, refused: Option<Login>) -> Self {
        Self { timeout, refused }
    }
}

/// A callback that provides the user name and the password, so that they can change while the
/// client runs. The specifications have no such provider.
///
/// The client asks for the login when its first connection authenticates, and keeps it in memory.
/// If a server refuses the login, the client asks again. If the callback returns another login, the
/// connection authenticates with that one, by the same mechanism. So if the user name can change,
/// the users must have the same mechanisms, or the credential must name one.
///
/// ```
/// use onionskin_core::options::{Credential, CredentialProvider, Login, PasswordProvider};
///
/// let provider = PasswordProvider::new(|_request| async {
///     // Read the current password from a vault here.
///     Ok(Login::new("app", "pencil"))
/// });
/// let credential = Credential::with_provider(CredentialProvider::Password(provider));
/// assert!(credential.validate().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PasswordProvider(Callback<PasswordRequest, Login>);

impl PasswordProvider {
    /// Returns a provider that calls a closure, and waits for the future that it returns.
    ///
    /// ```
    /// use onionskin_core::options::{Login, PasswordProvider};
    ///
    /// let provider = PasswordProvider::new(|request| async move {
    ///     match request.refused {
    ///         None => Ok(Login::new("app", "pencil")),
    ///         // The password was changed.
    ///         Some(_) => Ok(Login::new("app", "crayon")),
    ///     }
    /// });
    /// ```
    pub fn new<F>(callback: impl Fn(PasswordRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Login, CallbackError>> + Send + 'static,
    {
        Self(Callback::future(callback))
    }

    /// Returns a provider that calls a closure that may block.
    ///
    /// ```
    /// use onionskin_core::options::{Login, PasswordProvider};
    ///
    /// let provider = PasswordProvider::blocking(|_request| {
    ///     let password = std::fs::read_to_string("/run/secrets/mongodb")?;
    ///     Ok(Login::new("app", password.trim()))
    /// });
    /// ```
    pub fn blocking(
        callback: impl Fn(PasswordRequest) -> Result<Login, CallbackError> + Send + Sync + 'static,
    ) -> Self {
        Self(Callback::blocking(callback))
    }

    pub(crate) fn call(&self, request: PasswordRequest) -> ProviderCall {
        self.0.call(request, Supplied::Login)
    }
}
