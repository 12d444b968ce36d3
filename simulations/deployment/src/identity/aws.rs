//! The AWS credentials that a deployment accepts.

use super::{hex, lock};
use crate::deployment::User;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use onionskin_core::{
    random::{Random, Seed},
    time::WallTime,
};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The largest number of temporary credentials. If it is exceeded, the oldest ones are removed.
const MAX_TEMPORARY: usize = 1_000;

/// The AWS account of roles that name none.
const ACCOUNT: &str = "123456789012";

/// One set of AWS credentials, with the user whom they identify.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsIdentity {
    /// The access key id, which is not secret.
    pub access_key_id: String,
    /// The secret access key, with which requests are signed.
    pub secret_access_key: String,
    /// The session token, which temporary credentials have.
    pub session_token: Option<String>,
    /// The ARN of the user or of the assumed role.
    pub user_arn: String,
    /// The time at which the credentials become invalid. `None`: never.
    pub expires_at: Option<WallTime>,
}

impl fmt::Debug for AwsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsIdentity")
            .field("access_key_id", &self.access_key_id)
            .field("user_arn", &self.user_arn)
            .finish_non_exhaustive()
    }
}

impl AwsIdentity {
    /// Creates the permanent credentials of the user `arn:aws:iam::123456789012:user/test`.
    #[must_use]
    pub fn new(access_key_id: &str, secret_access_key: &str) -> Self {
        Self {
            access_key_id: access_key_id.to_owned(),
            secret_access_key: secret_access_key.to_owned(),
            session_token: None,
            user_arn: format!("arn:aws:iam::{ACCOUNT}:user/test"),
            expires_at: None,
        }
    }

    /// Returns the user of `$external` with which a deployment accepts these credentials.
    #[must_use]
    pub fn user(&self) -> User {
        User::external(&user_name(&self.user_arn))
    }
}

/// Returns the name of the user for an ARN. As in the server, all sessions of an assumed role are
/// one user, whose name ends with `/*`.
pub(crate) fn user_name(arn: &str) -> String {
    match arn.rsplit_once('/') {
        Some((role, _)) if arn.contains(":assumed-role/") => format!("{role}/*"),
        _ => arn.to_owned(),
    }
}

/// The AWS credentials that are valid, as the AWS Security Token Service knows them. Clones are
/// handles to the same credentials.
#[derive(Clone)]
pub struct AwsIdentities {
    state: Arc<Mutex<State>>,
}

struct State {
    /// The credentials by access key id.
    identities: BTreeMap<String, AwsIdentity>,
    /// The access key ids of temporary credentials, the oldest one first.
    temporary: VecDeque<String>,
    random: Random,
}

impl Default for AwsIdentities {
    fn default() -> Self {
        Self::new(&Seed::new([0; 32]))
    }
}

impl fmt::Debug for AwsIdentities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsIdentities").finish_non_exhaustive()
    }
}

impl AwsIdentities {
    /// Creates an empty table. Temporary credentials are drawn from the seed.
    #[must_use]
    pub fn new(seed: &Seed) -> Self {
        let state = State {
            identities: BTreeMap::new(),
            temporary: VecDeque::new(),
            random: seed.split("aws").random(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Adds credentials, or replaces those with the same access key id.
    pub fn add(&self, identity: AwsIdentity) {
        let id = identity.access_key_id.clone();
        lock(&self.state).identities.insert(id, identity);
    }

    /// Removes the credentials with this access key id. Returns false if there are none.
    pub fn remove(&self, access_key_id: &str) -> bool {
        lock(&self.state).identities.remove(access_key_id).is_some()
    }

    /// Returns the credentials with this access key id.
    #[must_use]
    pub fn find(&self, access_key_id: &str) -> Option<AwsIdentity> {
        lock(&self.state).identities.get(access_key_id).cloned()
    }

    /// Returns the ARNs of the temporary credentials, the oldest one first.
    #[must_use]
    pub fn temporary_arns(&self) -> Vec<String> {
        let state = lock(&self.state);
        let found = state
            .temporary
            .iter()
            .filter_map(|id| state.identities.get(id));
        found.map(|identity| identity.user_arn.clone()).collect()
    }

    /// True if there are no credentials.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock(&self.state).identities.is_empty()
    }

    /// Issues temporary credentials for a role, such as `arn:aws:iam::123456789012:role/app`. A
    /// text without a colon is the name of a role.
    pub fn issue(
        &self,
        role: &str,
        session: &str,
        now: WallTime,
        lifetime: Duration,
    ) -> AwsIdentity {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let mut bytes = [0; 40];
        state.random.fill(&mut bytes);
        let account = role.split(':').nth(4).unwrap_or(ACCOUNT);
        let name = role.rsplit(['/', ':']).next().unwrap_or(role);
        let millis = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let end = now.as_unix_millis().saturating_add(millis);
        let identity = AwsIdentity {
            access_key_id: format!("ASIA{}", hex(&bytes[..8]).to_uppercase()),
            secret_access_key: STANDARD.encode(&bytes[8..38]),
            session_token: Some(STANDARD.encode(bytes)),
            user_arn: format!("arn:aws:sts::{account}:assumed-role/{name}/{session}"),
            expires_at: Some(WallTime::from_unix_millis(end)),
        };
        if state.temporary.len() >= MAX_TEMPORARY
            && let Some(oldest) = state.temporary.pop_front()
        {
            state.identities.remove(&oldest);
        }
        let id = identity.access_key_id.clone();
        state.temporary.push_back(id.clone());
        state.identities.insert(id, identity.clone());
        identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sessions_of_an_assumed_role_are_one_user() {
        let identities = AwsIdentities::default();
        let now = WallTime::from_unix_millis(1_000);
        let issue = |role: &str, session: &str| {
            identities.issue(role, session, now, Duration::from_secs(60))
        };
        let one = issue("arn:aws:iam::42:role/app", "one");
        assert_eq!(one.user_arn, "arn:aws:sts::42:assumed-role/app/one");
        assert_eq!(one.user().name, "arn:aws:sts::42:assumed-role/app/*");
        let two = issue("app", "two");
        assert_eq!(
            two.user_arn,
            "arn:aws:sts::123456789012:assumed-role/app/two"
        );
        assert_eq!(two.expires_at, Some(WallTime::from_unix_millis(61_000)));
        let two_arn = two.user_arn.clone();
        assert_eq!(identities.find(&two.access_key_id), Some(two));
        assert_eq!(identities.temporary_arns(), [one.user_arn, two_arn]);
        let user = AwsIdentity::new("id", "secret").user();
        assert_eq!(user.name, "arn:aws:iam::123456789012:user/test");
    }

    #[test]
    fn the_number_of_temporary_credentials_is_bounded() {
        let identities = AwsIdentities::default();
        identities.add(AwsIdentity::new("permanent", "secret"));
        let now = WallTime::from_unix_millis(0);
        let first = identities.issue("app", "s", now, Duration::ZERO);
        for _ in 0..MAX_TEMPORARY {
            let _ = identities.issue("app", "s", now, Duration::ZERO);
        }
        assert_eq!(identities.find(&first.access_key_id), None);
        assert!(identities.find("permanent").is_some());
        assert!(identities.remove("permanent"));
        assert!(!identities.is_empty());
    }
}
