//! The authentication conversation of one connection.

use super::{
    hash::Hash,
    keys::{DerivedKeys, KeyCache, KeyDerivation},
    sasl::SaslReply,
    scram::{Failure, Scram, ScramStep},
};
use crate::{
    bson::is_ok,
    error::{CommandError, Error, ErrorKind, Labels, Result},
    options::{Credential, Mechanism},
    random::Random,
};
use bson::{RawDocument, RawDocumentBuf, cstr};
use std::fmt;

/// The next step of a conversation.
pub enum Step {
    /// Send a command, and pass the reply to [`Conversation::handle_reply`]. The command must not
    /// be compressed ([AUTH-21]) or shown in events and logs ([AUTH-22]).
    ///
    /// [AUTH-21]: crate::requirements::authentication#AUTH-21
    /// [AUTH-22]: crate::requirements::authentication#AUTH-22
    Send {
        /// The database to which the command goes.
        database: String,
        /// The command, without the field `$db`.
        command: RawDocumentBuf,
    },
    /// Derive keys, which may take seconds, and pass them to [`Conversation::handle_keys`].
    Derive(KeyDerivation),
    /// Authentication succeeded.
    Done,
    /// Authentication failed, and the connection must be closed.
    Failed(Error),
}

impl fmt::Debug for Step {
    /// Omits the command, because user names, nonces and proofs must not be shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { database, .. } => f
                .debug_struct("Send")
                .field("database", database)
                .finish_non_exhaustive(),
            Self::Derive(derivation) => f.debug_tuple("Derive").field(derivation).finish(),
            Self::Done => f.write_str("Done"),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

/// The state machine of a mechanism. `scram.rs` has the one for both SCRAM mechanisms.
enum Machine {
    Scram(Scram),
}

impl Machine {
    const fn mechanism(&self) -> Mechanism {
        match self {
            Self::Scram(scram) => scram.mechanism(),
        }
    }

    /// Returns the first command of the mechanism. Each call returns the same command.
    fn start(&self) -> RawDocumentBuf {
        match self {
            Self::Scram(scram) => scram.start(),
        }
    }

    /// Returns the first command with a field `db`, for speculative authentication. `None` for a
    /// mechanism without speculative authentication (AUTH-33).
    fn speculative(&self, database: &str) -> Option<RawDocumentBuf> {
        match self {
            Self::Scram(scram) => {
                let mut command = scram.start();
                command.append(cstr!("db"), database);
                Some(command)
            }
        }
    }

    fn on_success(
        &mut self,
        reply: &RawDocument,
        keys: &mut KeyCache,
    ) -> Result<ScramStep, Failure> {
        match self {
            Self::Scram(scram) => scram.on_reply(SaslReply::read(reply)?, keys),
        }
    }

    fn on_keys(&mut self, derived: &DerivedKeys) -> Result<ScramStep, Failure> {
        match self {
            Self::Scram(scram) => scram.on_keys(derived),
        }
    }
}

/// The authentication conversation of one connection.
///
/// The handshake can carry the first command ([`speculative`](Self::speculative)). After the reply
/// to hello, call [`handle_hello`](Self::handle_hello). Then pass each reply to
/// [`handle_reply`](Self::handle_reply), and derived keys to [`handle_keys`](Self::handle_keys).
///
/// ```
/// use onionskin_core::auth::{Conversation, KeyCache, Step};
/// use onionskin_core::{options::Credential, random::Seed};
///
/// let mut random = Seed::new([1; 32]).random();
/// let credential = Credential::password("user", "pencil");
/// let mut conversation = Conversation::new(&credential, &mut random)?;
/// assert_eq!(conversation.sasl_supported_mechs().as_deref(), Some("admin.user"));
///
/// // The reply to hello has no `speculativeAuthenticate`, so the first command is sent now.
/// let offer = ["SCRAM-SHA-256".to_owned()];
/// let step = conversation.handle_hello(Some(&offer), None, &mut KeyCache::new());
/// assert!(matches!(step, Step::Send { database, .. } if database == "admin"));
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
pub struct Conversation {
    database: String,
    /// The value of `saslSupportedMechs` in the hello ("database.user"); `None` if the credential
    /// names a mechanism.
    sasl_supported_mechs: Option<String>,
    machine: Machine,
    /// The machine of SCRAM-SHA-1, which replaces `machine` if the server does not offer
    /// SCRAM-SHA-256. This machine has a nonce of its own, so that no nonce is used twice. `None`
    /// after the reply to hello, and if the credential names a mechanism.
    fallback: Option<Machine>,
}

impl Conversation {
    /// Returns a conversation for `credential`, with nonces from `random`.
    ///
    /// Fails if the credential lacks a field that its mechanism requires ([AUTH-9]), if this driver
    /// does not have the mechanism, or if `SCRAM-SHA-256` is named and the password cannot be
    /// prepared with SASLprep.
    ///
    /// [AUTH-9]: crate::requirements::authentication#AUTH-9
    pub fn new(credential: &Credential, random: &mut Random) -> Result<Self> {
        let mut scram = |hash| scram(hash, credential, random);
        let (machine, fallback) = match credential.mechanism {
            // The hello carries the first command of SCRAM-SHA-256 (AUTH-32). SCRAM-SHA-1 replaces
            // that mechanism if the server does not offer it (AUTH-27).
            None => (scram(Hash::Sha256)?, Some(scram(Hash::Sha1)?)),
            Some(Mechanism::ScramSha1) => (scram(Hash::Sha1)?, None),
            Some(Mechanism::ScramSha256) => {
                let scram = scram(Hash::Sha256)?;
                scram.check_password()?;
                (scram, None)
            }
            Some(
                mechanism @ (Mechanism::MongoDbX509
                | Mechanism::Plain
                | Mechanism::GssApi
                | Mechanism::MongoDbAws
                | Mechanism::MongoDbOidc),
            ) => {
                return Err(Error::new(ErrorKind::InvalidOption {
                    option: "authMechanism",
                    message: format!("{mechanism} is not available in this version of the driver"),
                }));
            }
        };
        let user = credential.username.as_deref().unwrap_or_default();
        Ok(Self {
            database: credential.source.clone(),
            sasl_supported_mechs: fallback
                .is_some()
                .then(|| format!("{}.{user}", credential.source)),
            machine: Machine::Scram(machine),
            fallback: fallback.map(Machine::Scram),
        })
    }

    /// Starts authentication after the reply to hello. `mechanisms` and `speculative_reply` are the
    /// fields `saslSupportedMechs` and `speculativeAuthenticate` of that reply.
    ///
    /// Unknown names in `mechanisms` are ignored ([AUTH-26]).
    ///
    /// [AUTH-26]: crate::requirements::authentication#AUTH-26
    pub fn handle_hello(
        &mut self,
        mechanisms: Option<&[String]>,
        speculative_reply: Option<&RawDocument>,
        keys: &mut KeyCache,
    ) -> Step {
        if let Some(fallback) = self.fallback.take() {
            let name = self.machine.mechanism().name();
            let offered = match mechanisms {
                Some(offer) => offer.iter().any(|mechanism| mechanism == name),
                // Without `saslSupportedMechs` SCRAM-SHA-1 is the default (AUTH-28). A reply to the
                // speculative command shows that the server has SCRAM-SHA-256 (AUTH-34).
                None => speculative_reply.is_some(),
            };
            if !offered {
                self.machine = fallback;
                return self.send(self.machine.start());
            }
        }
        match speculative_reply {
            Some(reply) => self.on_success(reply, keys),
            None => self.send(self.machine.start()),
        }
    }

    /// Handles the reply to the command of the last [`Step::Send`], with `ok: 1` or without.
    pub fn handle_reply(&mut self, reply: &RawDocument, keys: &mut KeyCache) -> Step {
        if is_ok(reply) {
            return self.on_success(reply, keys);
        }
        let fault = CommandError::from_reply(reply);
        let error = self.error("the server refused authentication", Some(Box::new(fault)));
        // With the label `SystemOverloadedError` the pool is not cleared (AUTH-19).
        Step::Failed(error.with_labels(&Labels::from_reply(reply)))
    }

    /// Handles the keys of the last [`Step::Derive`].
    pub fn handle_keys(&mut self, derived: &DerivedKeys) -> Step {
        let progress = self.machine.on_keys(derived);
        self.step(progress)
    }

    /// Returns the value of `saslSupportedMechs` for the handshake. `None` if the credential has a
    /// mechanism ([AUTH-24]).
    ///
    /// [AUTH-24]: crate::requirements::authentication#AUTH-24
    #[must_use]
    pub fn sasl_supported_mechs(&self) -> Option<String> {
        self.sasl_supported_mechs.clone()
    }

    /// Returns the value of `speculativeAuthenticate` for the handshake ([AUTH-32], [HELLO-37]).
    /// `None` if the mechanism has no speculative authentication.
    ///
    /// [AUTH-32]: crate::requirements::authentication#AUTH-32
    /// [HELLO-37]: crate::requirements::handshake#HELLO-37
    #[must_use]
    pub fn speculative(&self) -> Option<RawDocumentBuf> {
        self.machine.speculative(&self.database)
    }

    /// Returns the mechanism in use. Before the reply to hello, this is the mechanism that is tried
    /// first.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        self.machine.mechanism()
    }

    fn on_success(&mut self, reply: &RawDocument, keys: &mut KeyCache) -> Step {
        let progress = self.machine.on_success(reply, keys);
        self.step(progress)
    }

    fn step(&self, progress: Result<ScramStep, Failure>) -> Step {
        match progress {
            Ok(ScramStep::Derive(derivation)) => Step::Derive(derivation),
            Ok(ScramStep::Send(command)) => self.send(command),
            Ok(ScramStep::Done) => Step::Done,
            Err(refusal) => Step::Failed(self.error(&refusal, None)),
        }
    }

    fn send(&self, command: RawDocumentBuf) -> Step {
        Step::Send {
            database: self.database.clone(),
            command,
        }
    }

    fn error(&self, message: &str, cause: Option<Box<CommandError>>) -> Error {
        Error::new(ErrorKind::Authentication {
            mechanism: self.mechanism().name(),
            message: message.to_owned(),
            cause,
        })
    }

    #[cfg(test)]
    pub(super) fn set_nonce(&mut self, nonce: &str) {
        let Machine::Scram(scram) = &mut self.machine;
        scram.set_nonce(nonce);
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation")
            .field("mechanism", &self.mechanism())
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// Returns the state machine of a SCRAM mechanism. Fails without a user name or a password
/// (AUTH-44, AUTH-45).
fn scram(hash: Hash, credential: &Credential, random: &mut Random) -> Result<Scram> {
    let username = credential.username.as_deref().filter(|u| !u.is_empty());
    let Some(username) = username else {
        return Err(Error::argument("the credential needs a user name"));
    };
    let Some(password) = credential.password.clone() else {
        return Err(Error::argument("the credential needs a password"));
    };
    Ok(Scram::new(hash, username, password, random))
}
