//! The tokens of a callback in the form of the official driver.

use onionskin_core::options::OidcTokens;
use std::{fmt, time::Instant};

/// The tokens that a callback returns, with the point in time at which they expire. A callback can
/// also return [`OidcTokens`], which have a duration instead. `Debug` shows no token.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdpServerResponse {
    /// The access token.
    pub access_token: String,
    /// The time at which the access token expires; `None` for an unknown time.
    pub expires: Option<Instant>,
    /// A refresh token for a later call. Only used in the human flow.
    pub refresh_token: Option<String>,
}

impl IdpServerResponse {
    /// Returns a builder without tokens.
    ///
    /// ```
    /// use onionskin::options::oidc::{Callback, IdpServerResponse};
    /// use std::time::{Duration, Instant};
    ///
    /// let callback = Callback::human(|_context| async {
    ///     let response = IdpServerResponse::builder()
    ///         .access_token("eyJhbGciOi...")
    ///         .expires(Instant::now() + Duration::from_secs(3600))
    ///         .build();
    ///     Ok(response)
    /// });
    /// ```
    pub fn builder() -> IdpServerResponseBuilder {
        IdpServerResponseBuilder::default()
    }
}

/// A builder of [`IdpServerResponse`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before `build`"]
pub struct IdpServerResponseBuilder(IdpServerResponse);

impl IdpServerResponseBuilder {
    /// Sets the access token ([`IdpServerResponse::access_token`]).
    ///
    /// ```
    /// use onionskin::options::oidc::IdpServerResponse;
    ///
    /// let response = IdpServerResponse::builder().access_token("eyJhbGciOi...").build();
    /// assert_eq!(response.expires, None);
    /// ```
    pub fn access_token(mut self, token: impl Into<String>) -> Self {
        self.0.access_token = token.into();
        self
    }

    /// Sets the time at which the access token expires ([`IdpServerResponse::expires`]).
    ///
    /// ```
    /// use onionskin::options::oidc::IdpServerResponse;
    /// use std::time::{Duration, Instant};
    ///
    /// let soon = Instant::now() + Duration::from_secs(300);
    /// let response = IdpServerResponse::builder().access_token("eyJhbGciOi...").expires(soon);
    /// assert_eq!(response.build().expires, Some(soon));
    /// ```
    pub fn expires(mut self, at: impl Into<Option<Instant>>) -> Self {
        self.0.expires = at.into();
        self
    }

    /// Sets the refresh token ([`IdpServerResponse::refresh_token`]).
    ///
    /// ```
    /// use onionskin::options::oidc::IdpServerResponse;
    ///
    /// let refresh = "8xLOxBtZp8".to_owned();
    /// let response = IdpServerResponse::builder().refresh_token(refresh).build();
    /// assert!(response.refresh_token.is_some());
    /// ```
    pub fn refresh_token(mut self, token: impl Into<Option<String>>) -> Self {
        self.0.refresh_token = token.into();
        self
    }

    /// Returns the tokens.
    ///
    /// ```
    /// use onionskin::options::oidc::IdpServerResponse;
    ///
    /// let response = IdpServerResponse::builder().access_token("eyJhbGciOi...").build();
    /// assert_eq!(response.access_token, "eyJhbGciOi...");
    /// ```
    #[must_use]
    pub fn build(self) -> IdpServerResponse {
        self.0
    }
}

impl fmt::Debug for IdpServerResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdpServerResponse").finish_non_exhaustive()
    }
}

impl From<IdpServerResponse> for OidcTokens {
    fn from(response: IdpServerResponse) -> Self {
        let mut tokens = Self::new(response.access_token);
        if let Some(at) = response.expires {
            tokens = tokens.with_expiry(at.saturating_duration_since(Instant::now()));
        }
        match response.refresh_token {
            Some(refresh) => tokens.with_refresh_token(refresh),
            None => tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::options::Secret;
    use std::time::Duration;

    #[test]
    fn a_response_becomes_tokens() {
        let hour = Duration::from_secs(3600);
        let response = IdpServerResponse::builder()
            .access_token("one")
            .expires(Instant::now() + hour)
            .refresh_token("two".to_owned())
            .build();
        assert_eq!(format!("{response:?}"), "IdpServerResponse { .. }");
        let tokens = OidcTokens::from(response);
        assert_eq!(tokens.access_token.expose(), "one");
        assert_eq!(
            tokens.refresh_token.as_ref().map(Secret::expose),
            Some("two")
        );
        let left = tokens.expires_in.expect("a time");
        assert!(left <= hour && left > hour / 2, "{left:?}");
        let past = IdpServerResponse::builder().expires(Instant::now()).build();
        let tokens = OidcTokens::from(past);
        assert_eq!(tokens.expires_in, Some(Duration::ZERO));
        assert_eq!(tokens.refresh_token, None);
    }
}
