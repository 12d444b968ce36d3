//! The state machines of the mechanisms behind one type.

use super::{
    aws::Aws,
    caches::Caches,
    gssapi::{GssApi, KerberosStepResult},
    hash::Hash,
    keys::DerivedKeys,
    oidc::{self, Oidc},
    plain::Plain,
    progress::{Failure, Progress},
    sasl::SaslReply,
    scram::Scram,
    x509::X509,
};
use crate::{
    error::{CommandError, Error, ErrorKind, Result},
    options::{AuthMechanism, Credential, Login, Secret},
    random::Random,
    time::Instant,
};
use bson::{RawDocument, RawDocumentBuf};

/// The code of the error with which a server refuses a login or a token.
pub(super) const AUTHENTICATION_FAILED: i32 = 18;

/// The state machine of a mechanism.
pub(super) enum Machine {
    Scram(Scram),
    X509(X509),
    Plain(Plain),
    Aws(Aws),
    Oidc(Oidc),
    GssApi(GssApi),
}

impl Machine {
    pub(super) const fn mechanism(&self) -> AuthMechanism {
        match self {
            Self::Scram(scram) => scram.mechanism(),
            Self::X509(_) => AuthMechanism::MongoDbX509,
            Self::Plain(_) => AuthMechanism::Plain,
            Self::Aws(_) => AuthMechanism::MongoDbAws,
            Self::Oidc(_) => AuthMechanism::MongoDbOidc,
            Self::GssApi(_) => AuthMechanism::Gssapi,
        }
    }

    /// Returns the secrets that the machine has sent or used, beside the password of the
    /// credential.
    pub(super) fn secrets(&self) -> Vec<&Secret> {
        match self {
            Self::Aws(aws) => aws.secrets(),
            Self::Oidc(oidc) => oidc
                .token()
                .map(|token| token.secret())
                .into_iter()
                .collect(),
            Self::Scram(_) | Self::X509(_) | Self::Plain(_) | Self::GssApi(_) => Vec::new(),
        }
    }

    /// Begins authentication by the first command, or by the work that precedes it.
    pub(super) fn begin(&mut self, now: Instant, caches: &Caches) -> Result<Progress, Failure> {
        Ok(match self {
            Self::Scram(scram) => Progress::Send(scram.start()),
            Self::X509(x509) => Progress::Send(x509.start()),
            Self::Plain(plain) => Progress::Send(plain.start()),
            Self::Aws(aws) => aws.begin(now, caches),
            Self::Oidc(oidc) => oidc.begin(caches),
            Self::GssApi(gssapi) => return gssapi.begin(caches),
        })
    }

    /// Returns the first command for the hello. `None` for a mechanism without speculative
    /// authentication (AUTH-33).
    pub(super) fn speculative(&mut self, caches: &Caches) -> Option<RawDocumentBuf> {
        match self {
            Self::Scram(scram) => Some(scram.start()),
            Self::X509(x509) => Some(x509.start()),
            Self::Oidc(oidc) => oidc.speculative(caches),
            Self::Plain(_) | Self::Aws(_) | Self::GssApi(_) => None,
        }
    }

    pub(super) fn on_speculative_reply(
        &mut self,
        now: Instant,
        reply: &RawDocument,
        caches: &mut Caches,
    ) -> Result<Progress, Failure> {
        if let Self::Oidc(oidc) = self {
            let reply = SaslReply::read(reply);
            let progress = reply
                .ok()
                .and_then(|reply| oidc.on_speculative_reply(&reply));
            return Ok(progress.unwrap_or_else(|| oidc.begin(caches)));
        }
        self.on_success(now, reply, caches)
    }

    pub(super) fn on_success(
        &mut self,
        now: Instant,
        reply: &RawDocument,
        caches: &mut Caches,
    ) -> Result<Progress, Failure> {
        match self {
            Self::Scram(scram) => scram.on_reply(SaslReply::read(reply)?, &mut caches.keys),
            Self::X509(x509) => x509.on_reply(),
            Self::Plain(plain) => plain.on_reply(&SaslReply::read(reply)?),
            Self::Aws(aws) => aws.on_reply(now, &SaslReply::read(reply)?, caches),
            Self::Oidc(oidc) => oidc.on_reply(&SaslReply::read(reply)?),
            Self::GssApi(gssapi) => gssapi.on_reply(SaslReply::read(reply)?),
        }
    }

    /// Handles a refused command. `None` if the refusal is final.
    pub(super) fn on_refused(
        &mut self,
        code: Option<i32>,
        caches: &mut Caches,
    ) -> Option<Progress> {
        match self {
            Self::Oidc(oidc) => oidc.on_refused(code, caches),
            Self::Scram(_) | Self::X509(_) | Self::Plain(_) | Self::Aws(_) | Self::GssApi(_) => {
                None
            }
        }
    }

    pub(super) fn on_keys(&mut self, derived: &DerivedKeys) -> Result<Progress, Failure> {
        match self {
            Self::Scram(scram) => scram.on_keys(derived),
            Self::X509(_) | Self::Plain(_) | Self::Aws(_) | Self::Oidc(_) | Self::GssApi(_) => {
                Err("keys arrived for a mechanism without keys".to_owned())
            }
        }
    }

    pub(super) fn on_kerberos_step(
        &mut self,
        result: KerberosStepResult,
    ) -> Result<Progress, Failure> {
        match self {
            Self::GssApi(gssapi) => gssapi.on_kerberos_step(result),
            Self::Scram(_) | Self::X509(_) | Self::Plain(_) | Self::Aws(_) | Self::Oidc(_) => {
                Err("a step of Kerberos ended for another mechanism".to_owned())
            }
        }
    }
}

/// Returns the error of an authentication that failed.
pub(crate) fn failure(
    mechanism: AuthMechanism,
    message: &str,
    cause: Option<Box<CommandError>>,
) -> Error {
    Error::new(ErrorKind::Authentication {
        mechanism: mechanism.name(),
        message: message.to_owned(),
        cause,
    })
}

/// Returns the error of an authentication for which a part of the credential was not obtained.
pub(crate) fn not_provided(credential: &Credential, reason: &str) -> Error {
    // Without a mechanism, SCRAM-SHA-256 is tried first.
    let mechanism = credential.mechanism.unwrap_or(AuthMechanism::ScramSha256);
    failure(mechanism, reason, None)
}

/// The user name and the password of a conversation: those of the credential, or those of its
/// provider.
pub(super) struct User<'a> {
    pub(super) name: Option<&'a str>,
    password: Option<&'a Secret>,
}

impl<'a> User<'a> {
    pub(super) fn of(credential: &'a Credential, login: Option<&'a Login>) -> Self {
        match login {
            Some(login) => Self {
                name: Some(&login.username),
                password: Some(&login.password),
            },
            None => Self {
                name: credential.username.as_deref(),
                password: credential.password.as_ref(),
            },
        }
    }

    /// Returns user name and password. Fails if one is missing (AUTH-44, AUTH-45, AUTH-47).
    fn both(&self) -> Result<(&'a str, Secret)> {
        let Some(name) = self.name.filter(|name| !name.is_empty()) else {
            return Err(Error::argument("the credential needs a user name"));
        };
        let Some(password) = self.password else {
            return Err(Error::argument("the credential needs a password"));
        };
        Ok((name, password.clone()))
    }

    pub(super) fn scram(&self, hash: Hash, random: &mut Random) -> Result<Machine> {
        let (name, password) = self.both()?;
        Ok(Machine::Scram(Scram::new(hash, name, password, random)))
    }
}

/// Returns the state machine of a mechanism.
pub(super) fn machine(
    mechanism: AuthMechanism,
    credential: &Credential,
    user: &User<'_>,
    host: &str,
    random: &mut Random,
) -> Result<Machine> {
    let refuse = |reason: Failure| failure(mechanism, &reason, None);
    Ok(match mechanism {
        AuthMechanism::ScramSha1 => user.scram(Hash::Sha1, random)?,
        AuthMechanism::ScramSha256 => {
            let scram = user.scram(Hash::Sha256, random)?;
            if let Machine::Scram(scram) = &scram {
                scram.check_password().map_err(refuse)?;
            }
            scram
        }
        AuthMechanism::MongoDbX509 => Machine::X509(X509::new(user.name)),
        AuthMechanism::Plain => {
            let (name, password) = user.both()?;
            Machine::Plain(Plain::new(name, password).map_err(refuse)?)
        }
        AuthMechanism::MongoDbAws => Machine::Aws(Aws::new(random)),
        AuthMechanism::MongoDbOidc => {
            oidc::check_host(credential, host).map_err(refuse)?;
            Machine::Oidc(Oidc::new(credential))
        }
        AuthMechanism::Gssapi => Machine::GssApi(GssApi::new(credential, host).map_err(refuse)?),
    })
}
