//! The secrets that a recording leaves out.

use crate::{
    auth::{Kept, Mode},
    client::ClientConfig,
    error::Error,
    options::{AuthMechanism, Credential},
};

/// The secrets of a client that its bytes have.
#[derive(Clone, Copy)]
pub(super) struct Secrets {
    /// True if the client has a credential.
    pub(super) has_credential: bool,
    /// True if the connections of the client use TLS.
    pub(super) has_tls: bool,
}

impl Secrets {
    /// Returns the secrets of a client with this configuration, which can be that of a replay.
    pub(super) fn of(config: &ClientConfig) -> Self {
        Self {
            has_credential: config.options.credential.is_some(),
            has_tls: config.tls.is_some() || config.replays_tls,
        }
    }

    /// True if the client has such secrets.
    pub(super) const fn exist(self) -> bool {
        self.has_credential || self.has_tls
    }
}

impl ClientConfig {
    /// Returns how the connections of the client are recorded or replayed.
    pub(in crate::client) fn mode(&self) -> Mode {
        match Secrets::of(self).exist() {
            true if self.is_replay => Mode::Replayed(None),
            true if self.recorder.is_some() => Mode::Recorded(Kept::default()),
            _ => Mode::Live,
        }
    }
}

/// Fails for a credential of which a part is fetched, because the answers of its source have
/// secrets.
pub(super) fn check_credential(credential: &Credential) -> Result<(), Error> {
    let refused = |what: &str| {
        Err(Error::argument(format!(
            "a client with {what} cannot be recorded, because the answers to its questions have \
             secrets; leave out the recording"
        )))
    };
    match credential.mechanism {
        _ if credential.has_password_provider() => refused("a password provider"),
        None
        | Some(
            AuthMechanism::ScramSha1
            | AuthMechanism::ScramSha256
            | AuthMechanism::Plain
            | AuthMechanism::MongoDbX509,
        ) => Ok(()),
        Some(mechanism) => refused(&format!("the mechanism {}", mechanism.name())),
    }
}

/// Returns the credential of a replayed client, which has no secret of the recorded one.
pub(super) fn replayed_credential() -> Credential {
    let mut credential = Credential::password("user", "password");
    credential.mechanism = Some(AuthMechanism::ScramSha256);
    credential
}
