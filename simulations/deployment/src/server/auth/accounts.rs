//! The users of a deployment, with the keys of their passwords.

use super::scram::{Keys, Secret};
use crate::deployment::{AuthMechanism, DeploymentOptions, Role, User};
use onionskin_core::random::{Random, Seed};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The largest number of users of a deployment. A command that creates a further one fails.
const MAX_USERS: usize = 10_000;

/// A user with the keys of the SCRAM mechanisms.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) user: User,
    sha1: Option<Keys>,
    sha256: Option<Keys>,
}

impl Account {
    /// Returns the keys for a SCRAM mechanism, or `None` if the user cannot use the mechanism.
    pub(super) fn keys(&self, mechanism: AuthMechanism) -> Option<Keys> {
        match mechanism {
            AuthMechanism::ScramSha1 => self.sha1.clone(),
            AuthMechanism::ScramSha256 => self.sha256.clone(),
            _ => None,
        }
    }

    /// True if the user can authenticate with this mechanism.
    pub(super) fn can_use(&self, mechanism: AuthMechanism) -> bool {
        self.user.mechanisms.contains(&mechanism)
    }
}

/// The reason why a user could not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccountError {
    /// There is a user with this name already.
    Exists,
    /// There is no user with this name.
    Unknown,
    /// SASLprep prohibits a character of the password, or the password is only a digest.
    Password,
    /// There are [`MAX_USERS`] users.
    TooMany,
}

/// A change of a user. `None` leaves a part as it is.
#[derive(Default)]
pub(super) struct AccountChange<'a> {
    pub(super) secret: Option<Secret<'a>>,
    pub(super) mechanisms: Option<Vec<AuthMechanism>>,
    pub(super) roles: Option<Vec<Role>>,
}

/// The users of a deployment. All members share them, so that a change has an effect on all members
/// at once.
pub(crate) struct Accounts {
    /// True if clients must authenticate.
    is_required: bool,
    iterations: u32,
    /// The users at the start.
    initial: Users,
    state: Mutex<State>,
}

/// Users by database and name.
type Users = BTreeMap<(String, String), Account>;

struct State {
    /// The number of changes and removals of users so far.
    changes: u64,
    /// The value of `changes` when the users were last as at the start.
    restored: u64,
    users: Users,
    random: Random,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").finish_non_exhaustive()
    }
}

impl Accounts {
    pub(crate) fn new(options: &DeploymentOptions, seed: &Seed) -> Self {
        let mut accounts = Self {
            is_required: options.requires_authentication(),
            iterations: options.scram_iterations,
            initial: Users::new(),
            state: Mutex::new(State {
                changes: 0,
                restored: 0,
                users: Users::new(),
                random: seed.split("salts").random(),
            }),
        };
        for user in &options.users {
            // A user whose password SASLprep prohibits has no keys for SCRAM-SHA-256.
            let _ = accounts.create(user.clone(), Secret::Password(&user.password));
        }
        let users = accounts.lock().users.clone();
        accounts.initial = users;
        accounts
    }

    /// True if clients must authenticate: the deployment had users at its start.
    pub(super) const fn is_required(&self) -> bool {
        self.is_required
    }

    pub(super) fn find(&self, database: &str, name: &str) -> Option<Account> {
        let key = (database.to_owned(), name.to_owned());
        self.lock().users.get(&key).cloned()
    }

    /// Returns the number of changes and removals of users so far.
    pub(super) fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Returns the users for which `is_wanted` is true, in the order of databases and names.
    pub(super) fn list(&self, is_wanted: impl Fn(&User) -> bool) -> Vec<User> {
        let state = self.lock();
        let users = state.users.values().map(|account| &account.user);
        users.filter(|user| is_wanted(user)).cloned().collect()
    }

    pub(super) fn create(&self, user: User, secret: Secret<'_>) -> Result<(), AccountError> {
        let mut state = self.lock();
        let key = (user.database.clone(), user.name.clone());
        if state.users.contains_key(&key) {
            return Err(AccountError::Exists);
        }
        if state.users.len() >= MAX_USERS {
            return Err(AccountError::TooMany);
        }
        let account = account(user, secret, self.iterations, &mut state.random)?;
        state.users.insert(key, account);
        Ok(())
    }

    /// Changes a user. A new list of mechanisms without a new password can only leave mechanisms
    /// out, because the server has no password from which it could make further keys.
    pub(super) fn update(
        &self,
        database: &str,
        name: &str,
        change: AccountChange<'_>,
    ) -> Result<(), AccountError> {
        let mut state = self.lock();
        let state = &mut *state;
        state.changes += 1;
        let key = (database.to_owned(), name.to_owned());
        let found = state.users.get_mut(&key).ok_or(AccountError::Unknown)?;
        let mut user = found.user.clone();
        if let Some(mechanisms) = change.mechanisms {
            user.mechanisms = mechanisms;
        }
        if let Some(roles) = change.roles {
            user.roles = roles;
        }
        match change.secret {
            Some(secret) => *found = account(user, secret, self.iterations, &mut state.random)?,
            None => {
                let kept = |m: AuthMechanism| user.mechanisms.contains(&m);
                found.sha1.take_if(|_| !kept(AuthMechanism::ScramSha1));
                found.sha256.take_if(|_| !kept(AuthMechanism::ScramSha256));
                found.user = user;
            }
        }
        Ok(())
    }

    /// Removes a user. Returns false if there is none.
    pub(super) fn remove(&self, database: &str, name: &str) -> bool {
        let key = (database.to_owned(), name.to_owned());
        let mut state = self.lock();
        state.changes += 1;
        state.users.remove(&key).is_some()
    }

    /// Makes the users as they were at the start.
    pub(in crate::server) fn restore(&self) {
        let mut state = self.lock();
        if state.changes != state.restored || state.users.len() != self.initial.len() {
            state.users.clone_from(&self.initial);
            state.changes += 1;
            state.restored = state.changes;
        }
    }

    /// Removes all users of a database, and returns their number.
    pub(super) fn remove_all(&self, database: &str) -> usize {
        let mut state = self.lock();
        state.changes += 1;
        let before = state.users.len();
        state.users.retain(|(of, _), _| of != database);
        before - state.users.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the keys of a user.
fn account(
    mut user: User,
    secret: Secret<'_>,
    iterations: u32,
    random: &mut Random,
) -> Result<Account, AccountError> {
    let mut keys = |mechanism| {
        let is_wanted = user.mechanisms.contains(&mechanism);
        let mut keys = || Keys::new(mechanism, &user.name, secret, iterations, random);
        match is_wanted {
            true => keys().ok_or(AccountError::Password).map(Some),
            false => Ok(None),
        }
    };
    let (sha1, sha256) = (
        keys(AuthMechanism::ScramSha1)?,
        keys(AuthMechanism::ScramSha256)?,
    );
    if let Secret::Password(password) = secret {
        password.clone_into(&mut user.password);
    }
    Ok(Account { user, sha1, sha256 })
}
