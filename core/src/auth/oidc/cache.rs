//! Tokens and their cache.

use crate::options::{IdpInfo, Secret};
use std::{fmt, sync::Arc};

/// An access token, with the refresh token and the identity provider that belong to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) idp_info: Option<Arc<IdpInfo>>,
}

impl Token {
    /// Returns the access token.
    pub(in crate::auth) const fn secret(&self) -> &Secret {
        &self.access
    }
}

#[cfg(test)]
impl Token {
    pub(in crate::auth) fn for_test(
        access: &str,
        refresh: Option<&str>,
        idp_info: Option<Arc<IdpInfo>>,
    ) -> Self {
        Self {
            access: Secret::new(access),
            refresh: refresh.map(Secret::new),
            idp_info,
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The token cache of a client: the newest access token and, in the human flow, the refresh token
/// and the identity provider (AUTH-123).
#[derive(Debug, Default)]
pub(crate) struct TokenCache {
    access: Option<Arc<Token>>,
    refresh: Option<Secret>,
    idp_info: Option<Arc<IdpInfo>>,
}

impl TokenCache {
    /// Keeps a new token.
    pub(in crate::auth) fn keep(&mut self, token: &Arc<Token>) {
        self.refresh.clone_from(&token.refresh);
        if token.idp_info.is_some() {
            self.idp_info.clone_from(&token.idp_info);
        }
        self.access = Some(token.clone());
    }

    /// Returns the cached access token.
    pub(in crate::auth) fn access(&self) -> Option<&Arc<Token>> {
        self.access.as_ref()
    }

    /// Returns the refresh token and the identity provider, if both are cached.
    pub(super) fn refresh(&self) -> Option<(&Secret, &Arc<IdpInfo>)> {
        Some((self.refresh.as_ref()?, self.idp_info.as_ref()?))
    }

    /// Removes an access token that a server refused, unless another token has replaced it
    /// (AUTH-127).
    pub(in crate::auth) fn invalidate(&mut self, refused: &Token) {
        if let Some(cached) = &self.access
            && cached.access == refused.access
        {
            self.access = None;
        }
    }

    /// Removes the refresh token, because a server refused the access token that was obtained with
    /// it (AUTH-129). A refresh token that another call has returned since stays.
    pub(super) fn drop_refresh(&mut self, refused: &Token) {
        if self.refresh == refused.refresh {
            self.refresh = None;
        }
    }
}
