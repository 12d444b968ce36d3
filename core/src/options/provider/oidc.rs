//! The callback that provides OpenID Connect tokens.

use super::callback::{Callback, CallbackError, ProviderCall, Supplied};
use crate::options::Secret;
use std::{fmt, future::Future, time::Duration};

/// The version of the callback's interface, which is passed to each call. The number grows with
/// each change of the interface ([AUTH-116]).
///
/// [AUTH-116]: crate::requirements::authentication#AUTH-116
pub const OIDC_CALLBACK_VERSION: u32 = 1;

/// The flow in which a callback obtains tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OidcFlow {
    /// The machine flow: the callback obtains a token without a human.
    Machine,
    /// The human flow: the callback asks a human to log in at an identity provider, which the
    /// server names.
    Human,
}

/// The identity provider that a server names for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdpInfo {
    /// The URL of the authentication server.
    pub issuer: String,
    /// The id of this client at the authentication server. `None` if the server does not name one
    /// ([AUTH-122]).
    ///
    /// [AUTH-122]: crate::requirements::authentication#AUTH-122
    pub client_id: Option<String>,
    /// Further scopes to request.
    pub request_scopes: Vec<String>,
}

impl IdpInfo {
    pub(crate) const fn new(
        issuer: String,
        client_id: Option<String>,
        request_scopes: Vec<String>,
    ) -> Self {
        Self {
            issuer,
            client_id,
            request_scopes,
        }
    }
}

/// The input of an [`OidcCallback`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OidcRequest {
    /// The time after which the result is no longer used. The driver then drops the future. In the
    /// machine flow: 1 minute or, with `timeoutMS`, the smaller of `timeoutMS` and
    /// `connectTimeoutMS`. In the human flow: 5 minutes ([AUTH-115], [AUTH-119]).
    ///
    /// [AUTH-115]: crate::requirements::authentication#AUTH-115
    /// [AUTH-119]: crate::requirements::authentication#AUTH-119
    pub timeout: Duration,
    /// The version of the interface: [`OIDC_CALLBACK_VERSION`].
    pub version: u32,
    /// The user name of the credential.
    pub username: Option<String>,
    /// The identity provider that the server named. Only in the human flow.
    pub idp_info: Option<IdpInfo>,
    /// The refresh token that an earlier call returned. Only in the human flow.
    pub refresh_token: Option<Secret>,
}

impl OidcRequest {
    pub(crate) const fn new(timeout: Duration, username: Option<String>) -> Self {
        Self {
            timeout,
            version: OIDC_CALLBACK_VERSION,
            username,
            idp_info: None,
            refresh_token: None,
        }
    }
}

/// The tokens that an [`OidcCallback`] returns. `Debug` shows none of them.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OidcTokens {
    /// The access token. The driver does not check it ([AUTH-117]).
    ///
    /// [AUTH-117]: crate::requirements::authentication#AUTH-117
    pub access_token: Secret,
    /// The time for which the access token is valid; `None` for an unknown time. The driver does
    /// not use this value yet: the server says when a token has expired.
    pub expires_in: Option<Duration>,
    /// A refresh token for a later call. Only used in the human flow.
    pub refresh_token: Option<Secret>,
}

impl OidcTokens {
    /// Returns an access token without expiry and without a refresh token.
    ///
    /// ```
    /// use onionskin_core::options::OidcTokens;
    ///
    /// let tokens = OidcTokens::new("eyJhbGciOi...");
    /// assert_eq!(tokens.refresh_token, None);
    /// ```
    #[must_use]
    pub fn new(access_token: impl Into<String>) -> Self {
        Self {
            access_token: Secret::new(access_token),
            expires_in: None,
            refresh_token: None,
        }
    }

    /// Sets the time for which the access token is valid.
    ///
    /// ```
    /// use onionskin_core::options::OidcTokens;
    /// use std::time::Duration;
    ///
    /// let tokens = OidcTokens::new("eyJhbGciOi...").with_expiry(Duration::from_secs(3600));
    /// assert_eq!(tokens.expires_in, Some(Duration::from_secs(3600)));
    /// ```
    #[must_use]
    pub fn with_expiry(mut self, expires_in: Duration) -> Self {
        self.expires_in = Some(expires_in);
        self
    }

    /// Sets the refresh token.
    ///
    /// ```
    /// use onionskin_core::options::OidcTokens;
    ///
    /// let tokens = OidcTokens::new("eyJhbGciOi...").with_refresh_token("8xLOxBtZp8");
    /// assert!(tokens.refresh_token.is_some());
    /// ```
    #[must_use]
    pub fn with_refresh_token(mut self, token: impl Into<String>) -> Self {
        self.refresh_token = Some(Secret::new(token));
        self
    }
}

impl fmt::Debug for OidcTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OidcTokens(..)")
    }
}

/// A callback that provides OpenID Connect tokens. In the specification, callbacks are the
/// mechanism properties `OIDC_CALLBACK` and `OIDC_HUMAN_CALLBACK` ([AUTH-106], [AUTH-114]).
///
/// The client caches the newest access token and calls the callback only if a server refuses that
/// token or there is none. Calls follow each other after at least 100 ms ([AUTH-126]). What
/// [`CredentialProvider`](super::CredentialProvider) says about calls holds here too.
///
/// The default is no callback.
///
/// ```
/// use onionskin_core::options::{Credential, OidcCallback, OidcTokens};
///
/// let callback = OidcCallback::machine(|request| async move {
///     // Ask the identity provider for a token here, within `request.timeout`.
///     assert_eq!(request.version, 1);
///     Ok(OidcTokens::new("eyJhbGciOi..."))
/// });
/// let credential = Credential::with_oidc_callback(callback);
/// assert!(credential.validate().is_ok());
/// ```
///
/// [AUTH-106]: crate::requirements::authentication#AUTH-106
/// [AUTH-114]: crate::requirements::authentication#AUTH-114
/// [AUTH-126]: crate::requirements::authentication#AUTH-126
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OidcCallback(Option<(OidcFlow, Callback<OidcRequest, OidcTokens>)>);

impl OidcCallback {
    /// Returns a callback for the machine flow: a closure, and the future that it returns.
    ///
    /// ```
    /// use onionskin_core::options::{OidcCallback, OidcTokens};
    ///
    /// let callback = OidcCallback::machine(|_request| async {
    ///     // Ask the metadata service of the platform for a token here.
    ///     Ok(OidcTokens::new("eyJhbGciOi..."))
    /// });
    /// ```
    pub fn machine<F, T>(callback: impl Fn(OidcRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, CallbackError>> + Send + 'static,
        T: Into<OidcTokens> + 'static,
    {
        Self(Some((OidcFlow::Machine, Callback::future(callback))))
    }

    /// Returns a callback for the human flow: a closure, and the future that it returns.
    ///
    /// ```
    /// use onionskin_core::options::{OidcCallback, OidcTokens};
    ///
    /// let callback = OidcCallback::human(|request| async move {
    ///     let issuer = request.idp_info.map(|provider| provider.issuer);
    ///     println!("log in at {}", issuer.unwrap_or_default());
    ///     // Wait for the token of the user here, within `request.timeout`.
    ///     Ok(OidcTokens::new("eyJhbGciOi...").with_refresh_token("8xLOxBtZp8"))
    /// });
    /// ```
    pub fn human<F, T>(callback: impl Fn(OidcRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, CallbackError>> + Send + 'static,
        T: Into<OidcTokens> + 'static,
    {
        Self(Some((OidcFlow::Human, Callback::future(callback))))
    }

    /// Returns a callback for this flow: a closure that may block.
    ///
    /// ```
    /// use onionskin_core::options::{OidcCallback, OidcFlow, OidcTokens};
    ///
    /// let callback = OidcCallback::blocking(OidcFlow::Machine, |_request| {
    ///     Ok(OidcTokens::new(std::fs::read_to_string("/run/secrets/token")?))
    /// });
    /// ```
    pub fn blocking(
        flow: OidcFlow,
        callback: impl Fn(OidcRequest) -> Result<OidcTokens, CallbackError> + Send + Sync + 'static,
    ) -> Self {
        Self(Some((flow, Callback::blocking(callback))))
    }

    /// Returns the flow in which the callback obtains tokens. Without a callback that is the
    /// machine flow.
    ///
    /// ```
    /// use onionskin_core::options::{OidcCallback, OidcFlow, OidcTokens};
    ///
    /// let read = |_request| Ok(OidcTokens::new("eyJhbGciOi..."));
    /// let callback = OidcCallback::blocking(OidcFlow::Human, read);
    /// assert_eq!(callback.flow(), OidcFlow::Human);
    /// ```
    #[must_use]
    pub fn flow(&self) -> OidcFlow {
        let chosen = self.0.as_ref();
        chosen.map_or(OidcFlow::Machine, |(flow, _)| *flow)
    }

    /// True if there is a callback.
    pub(crate) const fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Returns a call of the callback, if there is one.
    pub(crate) fn call(&self, request: OidcRequest) -> Option<ProviderCall> {
        let (_, callback) = self.0.as_ref()?;
        Some(callback.call(request, Supplied::Oidc))
    }
}
