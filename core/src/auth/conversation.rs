//! From a credential to an authenticated connection.

use super::{
    hash::Hash,
    keys::{DerivedKeys, KeyCache, KeyDerivation},
    sasl::SaslReply,
    scram::{Refusal, Scram, ScramStep},
};
use crate::{
    bson::is_ok,
    error::{CommandError, Error, ErrorKind, Labels, Result},
    options::{Credential, Mechanism},
    random::Random,
};
use bson::{RawDocument, RawDocumentBuf, cstr};
use std::fmt;

/// What to do next.
pub enum Step {
    /// Send this and hand the reply to [`Conversation::handle_reply`]. Never compressed, never
    /// shown (AUTH-21, AUTH-22).
    Send {
        /// The database that it goes to.
        database: String,
        /// The command, without `$db`.
        command: RawDocumentBuf,
    },
    /// Derive these keys, which may take long, and hand them to [`Conversation::handle_keys`].
    Derive(KeyDerivation),
    /// The connection is authenticated.
    Done,
    /// It is not, and must be closed.
    Failed(Error),
}

impl fmt::Debug for Step {
    /// Leaves out the command: it holds names, nonces and proofs.
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

/// The mechanisms that are built; each has its own file.
enum Machine {
    Scram(Scram),
}

impl Machine {
    const fn mechanism(&self) -> Mechanism {
        match self {
            Self::Scram(scram) => scram.mechanism(),
        }
    }

    /// The first command; the same each time.
    fn start(&self) -> RawDocumentBuf {
        match self {
            Self::Scram(scram) => scram.start(),
        }
    }

    /// The first command as it rides in a handshake, for mechanisms that do (AUTH-33).
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
    ) -> Result<ScramStep, Refusal> {
        match self {
            Self::Scram(scram) => scram.on_reply(SaslReply::read(reply)?, keys),
        }
    }

    fn on_keys(&mut self, derived: &DerivedKeys) -> Result<ScramStep, Refusal> {
        match self {
            Self::Scram(scram) => scram.on_keys(derived),
        }
    }
}

/// The authentication of one connection.
///
/// Its first command can ride in the handshake ([`speculative`](Self::speculative)). Afterwards
/// [`handle_hello`](Self::handle_hello) begins, and each reply gives the next step.
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
/// // The server did not take the speculative command: begin in the ordinary way.
/// let offer = ["SCRAM-SHA-256".to_owned()];
/// let step = conversation.handle_hello(Some(&offer), None, &mut KeyCache::new());
/// assert!(matches!(step, Step::Send { database, .. } if database == "admin"));
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
pub struct Conversation {
    database: String,
    /// "database.user" if the server's offer decides about the mechanism.
    negotiation: Option<String>,
    machine: Machine,
    /// Takes over if the server's offer decides against `machine`. It has its own nonce, so that
    /// none is used twice.
    fallback: Option<Machine>,
}

impl Conversation {
    /// Prepares to authenticate with `credential` and draws the nonces from `random`.
    ///
    /// Fails if the credential lacks something that its mechanism needs (AUTH-9), or if the
    /// mechanism is not available in this driver.
    pub fn new(credential: &Credential, random: &mut Random) -> Result<Self> {
        let mut scram = |hash| scram(hash, credential, random);
        let (machine, fallback) = match credential.mechanism {
            // AUTH-27, AUTH-32
            None => (scram(Hash::Sha256)?, Some(scram(Hash::Sha1)?)),
            Some(Mechanism::ScramSha1) => (scram(Hash::Sha1)?, None),
            Some(Mechanism::ScramSha256) => {
                let scram = scram(Hash::Sha256)?;
                scram.check_password()?;
                (scram, None)
            }
            // A client with such a credential is refused when it is made.
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
            negotiation: fallback
                .is_some()
                .then(|| format!("{}.{user}", credential.source)),
            machine: Machine::Scram(machine),
            fallback: fallback.map(Machine::Scram),
        })
    }

    /// Begins after the handshake: with the field `saslSupportedMechs` of its reply, and the field
    /// `speculativeAuthenticate` if the server took that command already.
    ///
    /// Names in `mechanisms` that are not known mean nothing (AUTH-26).
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
                // AUTH-28, unless the server took the stronger mechanism already (AUTH-34).
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

    /// Takes the reply to the command of the last [`Step::Send`]; it may be an error.
    pub fn handle_reply(&mut self, reply: &RawDocument, keys: &mut KeyCache) -> Step {
        if is_ok(reply) {
            return self.on_success(reply, keys);
        }
        let fault = CommandError::from_reply(reply);
        let error = self.error("the server refused", Some(Box::new(fault)));
        // The labels decide whether the pool is cleared (AUTH-19).
        Step::Failed(error.with_labels(&Labels::from_reply(reply)))
    }

    /// Takes the keys of the last [`Step::Derive`].
    pub fn handle_keys(&mut self, derived: &DerivedKeys) -> Step {
        let progress = self.machine.on_keys(derived);
        self.step(progress)
    }

    /// What the handshake asks for as `saslSupportedMechs`, if no mechanism was given (AUTH-24).
    #[must_use]
    pub fn sasl_supported_mechs(&self) -> Option<String> {
        self.negotiation.clone()
    }

    /// What the handshake carries as `speculativeAuthenticate` (AUTH-32, HELLO-37).
    #[must_use]
    pub fn speculative(&self) -> Option<RawDocumentBuf> {
        self.machine.speculative(&self.database)
    }

    /// The mechanism in use; before the handshake's reply the one that is tried first.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        self.machine.mechanism()
    }

    fn on_success(&mut self, reply: &RawDocument, keys: &mut KeyCache) -> Step {
        let progress = self.machine.on_success(reply, keys);
        self.step(progress)
    }

    fn step(&self, progress: Result<ScramStep, Refusal>) -> Step {
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

/// The machine of a mechanism that needs a name and a password (AUTH-44, AUTH-45).
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
