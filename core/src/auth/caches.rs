//! The caches that all connections of a client share when they authenticate.

use super::{
    aws::AwsCache,
    keys::KeyCache,
    need::{Need, Provided},
    oidc::TokenCache,
    recorded::Mode,
};
use crate::{
    options::{KerberosLibrary, Login},
    random::Random,
    time::{Instant, WallTime},
};
use std::{sync::Arc, time::Duration};

/// The state that all connections of a client share when they authenticate.
#[derive(Debug)]
pub struct AuthState {
    /// The source of random numbers for nonces.
    pub nonces: Random,
    /// The caches.
    pub caches: Caches,
    /// Whether the connections are recorded or replayed.
    pub(crate) mode: Mode,
}

impl AuthState {
    /// Returns the state with empty caches.
    #[must_use]
    pub fn new(nonces: Random) -> Self {
        Self {
            nonces,
            caches: Caches::new(),
            mode: Mode::Live,
        }
    }

    /// Sets the Kerberos library of the client.
    pub(crate) fn with_kerberos(mut self, library: Option<KerberosLibrary>) -> Self {
        self.caches.kerberos = library;
        self
    }
}

/// The caches of a client for authentication: derived keys, the login of a provider, AWS
/// credentials and tokens. Also the calendar time by which AWS credentials expire, and the Kerberos
/// library. Secrets are wiped from memory when they are dropped.
#[derive(Debug, Default)]
pub struct Caches {
    /// Keys that were derived from passwords.
    pub keys: KeyCache,
    pub(super) tokens: TokenCache,
    pub(super) aws: AwsCache,
    pub(super) login: Option<Arc<Login>>,
    /// The Kerberos library of the client; `None` if GSSAPI is not available.
    pub(super) kerberos: Option<KerberosLibrary>,
    clock: Option<(Instant, WallTime)>,
}

impl Caches {
    /// Returns empty caches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the calendar time. AWS credentials expire by this time, and signatures contain it.
    pub fn set_wall_time(&mut self, now: Instant, wall: WallTime) {
        self.clock = Some((now, wall));
    }

    /// Returns the calendar time: the time that was set last and the time since then. `None` if no
    /// time was set.
    pub(crate) fn wall_time(&self, now: Instant) -> Option<WallTime> {
        let (at, wall) = self.clock?;
        let since = u64::try_from((now - at).as_millis()).unwrap_or(u64::MAX);
        let millis = wall.as_unix_millis().saturating_add(since);
        Some(WallTime::from_unix_millis(millis))
    }

    /// Keeps a part of a credential that was obtained for later connections, if it may be cached.
    pub(crate) fn keep(&mut self, now: Instant, provided: &Provided) {
        match provided {
            Provided::Login(login) => self.login = Some(login.clone()),
            Provided::AwsKeys(keys) => {
                let wall = self.wall_time(now);
                self.aws.keep(keys, wall);
            }
            Provided::Token(token) => self.tokens.keep(token),
        }
    }

    /// Returns the part of a credential that a connection needs, if it was cached after the
    /// connection began to need it.
    pub(crate) fn find(&self, now: Instant, need: &Need) -> Option<Provided> {
        match need {
            Need::Login { refused } => {
                let login = self
                    .login()
                    .filter(|login| Some(*login) != refused.as_ref());
                Some(Provided::Login(login?.clone()))
            }
            Need::AwsKeys => {
                let wall = self.wall_time(now);
                Some(Provided::AwsKeys(self.aws.find(wall)?))
            }
            Need::Token { .. } => Some(Provided::Token(self.tokens.access()?.clone())),
        }
    }

    /// Removes the AWS credentials, because an authentication has failed (AUTH-100).
    pub(crate) fn clear_aws(&mut self) {
        self.aws.clear();
    }

    /// Returns the cached login of the application's provider.
    pub(crate) fn login(&self) -> Option<&Arc<Login>> {
        self.login.as_ref()
    }

    /// Removes a login that a server refused or that cannot be used, unless another login has
    /// replaced it.
    pub(crate) fn invalidate_login(&mut self, refused: &Arc<Login>) {
        if self.login.as_ref() == Some(refused) {
            self.login = None;
        }
    }

    /// Removes all secrets, because the client is closed.
    pub(crate) fn clear(&mut self) {
        let clock = self.clock;
        *self = Self::default();
        self.clock = clock;
    }
}

/// Returns the time by which `wall` precedes `end`; `None` if it does not.
pub(super) fn time_until(wall: WallTime, end: WallTime) -> Option<Duration> {
    let millis = end.as_unix_millis().checked_sub(wall.as_unix_millis())?;
    Some(Duration::from_millis(millis))
}
