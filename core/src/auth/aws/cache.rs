//! AWS credentials and their cache.

use crate::{auth::caches::time_until, options::Secret, time::WallTime};
use std::{fmt, sync::Arc, time::Duration};

/// Cached credentials are used until 5 minutes before they expire, so that they do not expire
/// before the server has checked them (AUTH-98).
const VALID_BEFORE_EXPIRY: Duration = Duration::from_secs(5 * 60);

/// The source of AWS credentials, in the order of the search ([AUTH-88]).
///
/// [AUTH-88]: crate::requirements::authentication#AUTH-88
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AwsSource {
    /// The provider of the application.
    Provider,
    /// The variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
    Environment,
    /// The service STS, with `AssumeRoleWithWebIdentity`.
    WebIdentity,
    /// The endpoint of a container in ECS or EKS.
    Container,
    /// The metadata service of an EC2 instance.
    Instance,
}

impl AwsSource {
    /// Returns the name of the source for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provider => "the credential provider of the application",
            Self::Environment => {
                "the environment variables AWS_ACCESS_KEY_ID and \
                                  AWS_SECRET_ACCESS_KEY"
            }
            Self::WebIdentity => "STS with AssumeRoleWithWebIdentity",
            Self::Container => "the container credentials endpoint",
            Self::Instance => "the EC2 instance metadata service",
        }
    }
}

/// AWS credentials and their source. `Debug` shows the access key id, which is not secret
/// ([AUTH-82]).
///
/// [AUTH-82]: crate::requirements::authentication#AUTH-82
#[derive(Clone, PartialEq, Eq)]
pub struct AwsKeys {
    pub(crate) id: String,
    pub(super) secret: Secret,
    pub(super) token: Option<Secret>,
    pub(super) expires_at: Option<WallTime>,
    pub(crate) origin: AwsSource,
}

impl AwsKeys {
    #[cfg(test)]
    pub(in crate::auth) fn for_test(
        id: &str,
        secret: &str,
        token: Option<&str>,
        expires_at: Option<WallTime>,
    ) -> Self {
        Self {
            id: id.to_owned(),
            secret: Secret::new(secret),
            token: token.map(Secret::new),
            expires_at,
            origin: AwsSource::Instance,
        }
    }

    /// True if the credentials are valid for more than 5 minutes from `wall`. Credentials without
    /// an expiry are not valid in this sense, because nothing says when to replace them.
    fn is_valid(&self, wall: WallTime) -> bool {
        let left = self.expires_at.and_then(|end| time_until(wall, end));
        left.is_some_and(|left| left > VALID_BEFORE_EXPIRY)
    }
}

impl fmt::Debug for AwsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsKeys")
            .field("id", &self.id)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// The cache of a client for AWS credentials. It holds the newest credentials of an endpoint or a
/// provider that have an expiry. Those from environment variables are not cached (AUTH-98).
#[derive(Debug, Default)]
pub(crate) struct AwsCache {
    keys: Option<Arc<AwsKeys>>,
}

impl AwsCache {
    pub(in crate::auth) fn keep(&mut self, keys: &Arc<AwsKeys>, wall: Option<WallTime>) {
        let is_valid = wall.is_some_and(|wall| keys.is_valid(wall));
        if keys.origin != AwsSource::Environment && is_valid {
            self.keys = Some(keys.clone());
        }
    }

    /// Returns the cached credentials, if they are valid for more than 5 minutes.
    pub(in crate::auth) fn find(&self, wall: Option<WallTime>) -> Option<Arc<AwsKeys>> {
        let keys = self.keys.as_ref()?;
        wall.filter(|wall| keys.is_valid(*wall))?;
        Some(keys.clone())
    }

    /// Returns the source of the cached credentials, also if these have expired. They are refreshed
    /// from this source, whatever variables have appeared since (AUTH-90).
    pub(in crate::auth) fn origin(&self) -> Option<AwsSource> {
        self.keys.as_ref().map(|keys| keys.origin)
    }

    /// Removes the credentials, because authentication has failed (AUTH-100).
    pub(in crate::auth) fn clear(&mut self) {
        self.keys = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallTime = WallTime::from_unix_millis(1_800_000_000_000);

    fn keys(origin: AwsSource, seconds: Option<u64>) -> Arc<AwsKeys> {
        let end = |seconds| WallTime::from_unix_millis(NOW.as_unix_millis() + 1000 * seconds);
        Arc::new(AwsKeys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: Secret::new("wJalrXUtnFEMI"),
            token: None,
            expires_at: seconds.map(end),
            origin,
        })
    }

    #[test]
    fn endpoint_credentials_are_cached_until_five_minutes_before_their_expiry() {
        // The margin is five minutes (AUTH-98).
        for (origin, seconds, is_cached) in [
            (AwsSource::Instance, Some(301), true),
            (AwsSource::Container, Some(300), false),
            (AwsSource::WebIdentity, None, false),
            (AwsSource::Provider, Some(3600), true),
            (AwsSource::Environment, Some(3600), false),
        ] {
            let mut cache = AwsCache::default();
            cache.keep(&keys(origin, seconds), Some(NOW));
            assert_eq!(cache.find(Some(NOW)).is_some(), is_cached, "{origin:?}");
            assert!(cache.find(None).is_none(), "without a time");
        }
    }

    #[test]
    fn expired_credentials_still_name_their_source() {
        // The credentials are refreshed from the source that gave them (AUTH-90).
        let mut cache = AwsCache::default();
        cache.keep(&keys(AwsSource::Container, Some(400)), Some(NOW));
        let later = WallTime::from_unix_millis(NOW.as_unix_millis() + 200_000);
        assert!(cache.find(Some(later)).is_none());
        assert_eq!(cache.origin(), Some(AwsSource::Container));
        cache.clear();
        assert_eq!(cache.origin(), None);
    }

    #[test]
    fn debug_output_has_the_access_key_id_and_not_the_secret() {
        // Only the secret access key is sensitive (AUTH-82).
        let text = format!("{:?}", keys(AwsSource::Instance, None));
        assert!(
            text.contains("AKIDEXAMPLE") && !text.contains("wJalrXUtnFEMI"),
            "{text}"
        );
    }
}
