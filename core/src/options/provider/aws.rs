//! The provider of AWS credentials.

use super::callback::{Callback, CallbackError, ProviderCall, Supplied};
use crate::{options::Secret, time::WallTime};
use std::{fmt, future::Future};

/// AWS credentials, as an AWS SDK returns them. `Debug` shows only the access key id, which is not
/// secret ([AUTH-82]).
///
/// [AUTH-82]: crate::requirements::authentication#AUTH-82
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsCredentials {
    /// The access key id.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: Secret,
    /// The session token of temporary credentials; `None` for other credentials.
    pub session_token: Option<Secret>,
    /// The time at which the credentials expire. Without it, the provider is asked for each
    /// connection. With it, the credentials are cached until 5 minutes before ([AUTH-98]).
    ///
    /// [AUTH-98]: crate::requirements::authentication#AUTH-98
    pub expires_at: Option<WallTime>,
}

impl AwsCredentials {
    /// Returns credentials without a session token and without expiry.
    ///
    /// ```
    /// use onionskin_core::options::AwsCredentials;
    ///
    /// let credentials = AwsCredentials::new("AKIDEXAMPLE", "secret");
    /// assert_eq!(credentials.session_token, None);
    /// ```
    #[must_use]
    pub fn new(access_key_id: impl Into<String>, secret_access_key: impl Into<String>) -> Self {
        Self {
            access_key_id: access_key_id.into(),
            secret_access_key: Secret::new(secret_access_key),
            session_token: None,
            expires_at: None,
        }
    }

    /// Sets the session token.
    ///
    /// ```
    /// use onionskin_core::options::AwsCredentials;
    ///
    /// let temporary = AwsCredentials::new("ASIAEXAMPLE", "secret").with_session_token("token");
    /// assert!(temporary.session_token.is_some());
    /// ```
    #[must_use]
    pub fn with_session_token(mut self, token: impl Into<String>) -> Self {
        self.session_token = Some(Secret::new(token));
        self
    }

    /// Sets the time at which the credentials expire.
    ///
    /// ```
    /// use onionskin_core::{options::AwsCredentials, time::WallTime};
    /// use std::time::Duration;
    ///
    /// let noon = WallTime::from_unix(Duration::from_secs(1_767_268_800));
    /// let credentials = AwsCredentials::new("ASIAEXAMPLE", "secret").with_expiry(noon);
    /// assert_eq!(credentials.expires_at, Some(noon));
    /// ```
    #[must_use]
    pub fn with_expiry(mut self, expires_at: WallTime) -> Self {
        self.expires_at = Some(expires_at);
        self
    }
}

impl fmt::Debug for AwsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsCredentials")
            .field("access_key_id", &self.access_key_id)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// A callback that provides AWS credentials, for example those of an AWS SDK: the mechanism
/// property `AWS_CREDENTIAL_PROVIDER`. With a provider, the driver looks for credentials nowhere
/// else ([AUTH-101]).
///
/// ```
/// use onionskin_core::options::{
///     AwsCredentialProvider, AwsCredentials, Credential, CredentialProvider,
/// };
///
/// let provider = AwsCredentialProvider::new(|| async {
///     Ok(AwsCredentials::new("AKIDEXAMPLE", "secret").with_session_token("token"))
/// });
/// let credential = Credential::with_provider(CredentialProvider::Aws(provider));
/// assert!(credential.validate().is_ok());
/// ```
///
/// [AUTH-101]: crate::requirements::authentication#AUTH-101
#[derive(Clone, Debug, PartialEq)]
pub struct AwsCredentialProvider(Callback<(), AwsCredentials>);

impl AwsCredentialProvider {
    /// Returns a provider that calls a closure, and waits for the future that it returns.
    ///
    /// ```
    /// use onionskin_core::options::{AwsCredentialProvider, AwsCredentials, CallbackError};
    ///
    /// async fn assume_role() -> Result<AwsCredentials, CallbackError> {
    ///     Ok(AwsCredentials::new("ASIAEXAMPLE", "secret").with_session_token("token"))
    /// }
    ///
    /// let provider = AwsCredentialProvider::new(assume_role);
    /// ```
    pub fn new<F>(callback: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<AwsCredentials, CallbackError>> + Send + 'static,
    {
        Self(Callback::future(move |()| callback()))
    }

    /// Returns a provider that calls a closure that may block.
    ///
    /// ```
    /// use onionskin_core::options::{AwsCredentialProvider, AwsCredentials};
    ///
    /// let provider = AwsCredentialProvider::blocking(|| {
    ///     let secret = std::fs::read_to_string("/run/secrets/aws")?;
    ///     Ok(AwsCredentials::new("AKIDEXAMPLE", secret.trim()))
    /// });
    /// ```
    pub fn blocking(
        callback: impl Fn() -> Result<AwsCredentials, CallbackError> + Send + Sync + 'static,
    ) -> Self {
        Self(Callback::blocking(move |()| callback()))
    }

    pub(crate) fn call(&self) -> ProviderCall {
        self.0.call((), Supplied::Aws)
    }
}
