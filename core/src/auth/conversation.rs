//! The authentication conversation of one connection.

use super::{
    caches::{AuthState, Caches},
    gssapi::{KerberosStep, KerberosStepResult},
    hash::Hash,
    keys::{DerivedKeys, KeyDerivation},
    mechanism::{AUTHENTICATION_FAILED, Machine, User, failure, machine},
    need::{Need, Provided},
    oidc::Token,
    progress::{Failure, Progress},
    redaction::redacted,
};
use crate::{
    bson::is_ok,
    error::{CommandError, Error, Labels, MAX_CAUSE_TEXT_BYTES, Result, shortened},
    options::{AuthMechanism, Credential, Login},
    random::Random,
    time::Instant,
};
use bson::{RawDocument, RawDocumentBuf, cstr};
use std::{fmt, sync::Arc};

/// The next step of a conversation.
pub enum Step {
    /// Send a command, and pass the reply to [`Conversation::handle_reply`]. The command must not
    /// be compressed or shown in events and logs ([AUTH-21], [AUTH-22]).
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
    /// Obtain a part of the credential, and pass it to [`Conversation::handle_provided`].
    Fetch(Need),
    /// Run a step of the Kerberos library, which may block for a long time, and pass the result to
    /// [`Conversation::handle_kerberos_step`].
    Kerberos(KerberosStep),
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
            Self::Fetch(need) => f.debug_tuple("Fetch").field(need).finish(),
            Self::Kerberos(work) => f.debug_tuple("Kerberos").field(work).finish(),
            Self::Done => f.write_str("Done"),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

/// The authentication of an established connection.
#[derive(Clone, Debug)]
pub struct Authenticated {
    mechanism: AuthMechanism,
    /// The token of MONGODB-OIDC: the connection cache (AUTH-124).
    token: Option<Arc<Token>>,
}

impl Authenticated {
    /// Returns the mechanism.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub const fn mechanism(&self) -> AuthMechanism {
        self.mechanism
    }
}

/// The authentication conversation of one connection.
///
/// The handshake can carry the first command ([`speculative`](Self::speculative)). After the reply
/// to hello, call [`handle_hello`](Self::handle_hello). Then pass each reply to
/// [`handle_reply`](Self::handle_reply), derived keys to [`handle_keys`](Self::handle_keys), parts
/// of the credential to [`handle_provided`](Self::handle_provided), and results of Kerberos to
/// [`handle_kerberos_step`](Self::handle_kerberos_step).
///
/// ```
/// use onionskin_core::unstable::auth::{Caches, Conversation, Step};
/// use onionskin_core::{options::Credential, random::Seed, time::Instant};
/// use std::sync::Arc;
///
/// let mut random = Seed::new([1; 32]).random();
/// let credential = Arc::new(Credential::password("user", "pencil"));
/// let mut conversation = Conversation::new(&credential, "localhost", None, &mut random)?;
/// assert_eq!(conversation.sasl_supported_mechs().as_deref(), Some("admin.user"));
///
/// // The reply to hello has no `speculativeAuthenticate`, so the first command is sent now.
/// let offer = ["SCRAM-SHA-256".to_owned()];
/// let mut caches = Caches::new();
/// let step = conversation.handle_hello(Instant::ZERO, Some(&offer), None, &mut caches);
/// assert!(matches!(step, Step::Send { database, .. } if database == "admin"));
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
pub struct Conversation {
    credential: Arc<Credential>,
    /// The login of the application's password provider, if the credential has one.
    login: Option<Arc<Login>>,
    /// The value of `saslSupportedMechs` in the hello ("database.user"); `None` if the credential
    /// names a mechanism.
    sasl_supported_mechs: Option<String>,
    machine: Machine,
    /// The machine of SCRAM-SHA-1, which replaces `machine` if the server does not offer
    /// SCRAM-SHA-256. This machine has a nonce of its own, so that no nonce is used twice. `None`
    /// after the reply to hello, and if the credential names a mechanism.
    fallback: Option<Machine>,
    /// The error of the login that the server refused, while the password provider is asked for
    /// another one.
    refusal: Option<Error>,
}

impl Conversation {
    /// Returns a conversation with the server at `host`, with nonces from `random`. `login` is the
    /// login of the password provider, for a credential with such a provider.
    ///
    /// Fails if the credential lacks a field that its mechanism requires, if this driver does not
    /// have the mechanism, if `SCRAM-SHA-256` is named and the password cannot be prepared with
    /// SASLprep, or if `host` is not allowed for the human OIDC flow ([AUTH-9], [AUTH-108]).
    ///
    /// [AUTH-9]: crate::requirements::authentication#AUTH-9
    /// [AUTH-108]: crate::requirements::authentication#AUTH-108
    pub fn new(
        credential: &Arc<Credential>,
        host: &str,
        login: Option<Arc<Login>>,
        random: &mut Random,
    ) -> Result<Self> {
        let user = User::of(credential, login.as_deref());
        let (machine, fallback) = match credential.mechanism {
            // The hello carries the first command of SCRAM-SHA-256 (AUTH-32). SCRAM-SHA-1 replaces
            // that mechanism if the server does not offer it (AUTH-27).
            None => (
                user.scram(Hash::Sha256, random)?,
                Some(user.scram(Hash::Sha1, random)?),
            ),
            Some(mechanism) => (machine(mechanism, credential, &user, host, random)?, None),
        };
        let name = user.name.unwrap_or_default();
        Ok(Self {
            sasl_supported_mechs: fallback
                .is_some()
                .then(|| format!("{}.{name}", credential.source())),
            credential: credential.clone(),
            login,
            machine,
            fallback,
            refusal: None,
        })
    }

    /// Begins the conversation of a connection that was authenticated before, after the server
    /// required authentication again (error 391). The mechanism is that of the earlier
    /// authentication. There is no hello and no speculative command ([AUTH-38], [AUTH-131]).
    ///
    /// Fails as [`new`](Self::new) does.
    ///
    /// [AUTH-38]: crate::requirements::authentication#AUTH-38
    /// [AUTH-131]: crate::requirements::authentication#AUTH-131
    pub fn again(
        now: Instant,
        credential: &Arc<Credential>,
        host: &str,
        login: Option<Arc<Login>>,
        earlier: &Authenticated,
        auth: &mut AuthState,
    ) -> Result<(Self, Step)> {
        let AuthState {
            nonces: random,
            caches,
            ..
        } = auth;
        if let Some(token) = &earlier.token {
            caches.tokens.invalidate(token);
        }
        let user = User::of(credential, login.as_deref());
        let mut conversation = Self {
            machine: machine(earlier.mechanism, credential, &user, host, random)?,
            credential: credential.clone(),
            login,
            sasl_supported_mechs: None,
            fallback: None,
            refusal: None,
        };
        let step = conversation.begin(now, caches);
        Ok((conversation, step))
    }

    /// Starts authentication after the reply to hello. `mechanisms` and `speculative_reply` are the
    /// fields `saslSupportedMechs` and `speculativeAuthenticate` of that reply.
    ///
    /// Unknown names in `mechanisms` are ignored ([AUTH-26]).
    ///
    /// [AUTH-26]: crate::requirements::authentication#AUTH-26
    pub fn handle_hello(
        &mut self,
        now: Instant,
        mechanisms: Option<&[String]>,
        speculative_reply: Option<&RawDocument>,
        caches: &mut Caches,
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
                return self.begin(now, caches);
            }
        }
        match speculative_reply {
            Some(reply) => {
                let progress = self.machine.on_speculative_reply(now, reply, caches);
                self.step(progress, caches)
            }
            None => self.begin(now, caches),
        }
    }

    /// Handles the reply to the command of the last [`Step::Send`], with `ok: 1` or without.
    pub fn handle_reply(&mut self, now: Instant, reply: &RawDocument, caches: &mut Caches) -> Step {
        if is_ok(reply) {
            let progress = self.machine.on_success(now, reply, caches);
            return self.step(progress, caches);
        }
        let fault = self.without_secrets(CommandError::from_reply(reply));
        let code = fault.code();
        if let Some(progress) = self.machine.on_refused(code, caches) {
            return self.step(Ok(progress), caches);
        }
        let error = self.error(&self.refused(code), Some(Box::new(fault)));
        // With the label `SystemOverloadedError` the pool is not cleared (AUTH-19).
        let error = error.with_labels(&Labels::from_reply(reply).known());
        if code == Some(AUTHENTICATION_FAILED)
            && let Some(login) = &self.login
        {
            caches.invalidate_login(login);
            if self.refusal.is_none() {
                let refused = Some(login.clone());
                self.refusal = Some(error);
                return Step::Fetch(Need::Login { refused });
            }
        }
        Step::Failed(error)
    }

    /// Returns the message for a refusal with this code.
    fn refused(&self, code: Option<i32>) -> String {
        let refused = "the server refused authentication";
        match &self.machine {
            Machine::Scram(_) if code == Some(AUTHENTICATION_FAILED) => format!(
                "{refused}; check the user name, the password and authSource: the user was looked \
                 up in the database {:?}",
                self.credential.source(),
            ),
            _ => refused.to_owned(),
        }
    }

    /// Handles the keys of the last [`Step::Derive`].
    pub fn handle_keys(&mut self, derived: &DerivedKeys, caches: &mut Caches) -> Step {
        let progress = self.machine.on_keys(derived);
        self.step(progress, caches)
    }

    /// Handles the result of the last [`Step::Kerberos`].
    pub fn handle_kerberos_step(
        &mut self,
        result: KerberosStepResult,
        caches: &mut Caches,
    ) -> Step {
        let progress = self.machine.on_kerberos_step(result);
        self.step(progress, caches)
    }

    /// Handles the part of the credential that the last [`Step::Fetch`] asked for.
    pub fn handle_provided(
        &mut self,
        now: Instant,
        provided: &Provided,
        caches: &mut Caches,
        random: &mut Random,
    ) -> Step {
        let progress = match (&mut self.machine, provided) {
            (_, Provided::Login(login)) => return self.on_login(now, login, caches, random),
            (Machine::Aws(aws), Provided::AwsKeys(keys)) => Ok(aws.on_keys(keys.clone())),
            (Machine::Oidc(oidc), Provided::Token(token)) => oidc.on_token(token.clone()),
            _ => Err("a part of a credential arrived for another mechanism".to_owned()),
        };
        self.step(progress, caches)
    }

    /// Tries another login after the server refused one, with the same mechanism. If the provider
    /// returns the same login again, the refusal is final.
    fn on_login(
        &mut self,
        now: Instant,
        login: &Arc<Login>,
        caches: &mut Caches,
        random: &mut Random,
    ) -> Step {
        match self.refusal.clone() {
            Some(_) if self.login.as_ref() != Some(login) => {}
            Some(refusal) => {
                caches.invalidate_login(login);
                return Step::Failed(refusal);
            }
            None => {
                let problem = "a login arrived that was not requested";
                return Step::Failed(self.error(problem, None));
            }
        }
        self.login = Some(login.clone());
        let user = User::of(&self.credential, Some(login));
        match machine(self.mechanism(), &self.credential, &user, "", random) {
            Ok(machine) => self.machine = machine,
            Err(error) => {
                caches.invalidate_login(login);
                return Step::Failed(error);
            }
        }
        self.begin(now, caches)
    }

    /// Returns the value of `saslSupportedMechs` for the handshake, which costs no round trip of
    /// its own. `None` if the credential has a mechanism ([AUTH-30], [AUTH-24]).
    ///
    /// [AUTH-30]: crate::requirements::authentication#AUTH-30
    /// [AUTH-24]: crate::requirements::authentication#AUTH-24
    #[must_use]
    pub fn sasl_supported_mechs(&self) -> Option<String> {
        self.sasl_supported_mechs.clone()
    }

    /// Returns the value of `speculativeAuthenticate` for the handshake: the first command with a
    /// field `db`. `None` if the mechanism has no speculative authentication, or if the cache has
    /// no token for it ([AUTH-32], [AUTH-33], [HELLO-37]).
    ///
    /// [AUTH-32]: crate::requirements::authentication#AUTH-32
    /// [AUTH-33]: crate::requirements::authentication#AUTH-33
    /// [HELLO-37]: crate::requirements::handshake#HELLO-37
    #[must_use]
    pub fn speculative(&mut self, caches: &Caches) -> Option<RawDocumentBuf> {
        let mut command = self.machine.speculative(caches)?;
        command.append(cstr!("db"), self.credential.source());
        Some(command)
    }

    /// Returns the mechanism in use. Before the reply to hello, this is the mechanism that is tried
    /// first.
    #[must_use]
    pub const fn mechanism(&self) -> AuthMechanism {
        self.machine.mechanism()
    }

    /// Returns the authentication of the connection, once it has succeeded.
    #[must_use]
    pub fn authenticated(&self) -> Authenticated {
        let token = match &self.machine {
            Machine::Oidc(oidc) => oidc.token().cloned(),
            _ => None,
        };
        Authenticated {
            mechanism: self.mechanism(),
            token,
        }
    }

    /// Returns an error of the server without the secrets of the conversation, which the server can
    /// repeat in its texts, and without the whole reply.
    pub(crate) fn without_secrets(&self, mut fault: CommandError) -> CommandError {
        let login = self.login.as_ref().map(|login| &login.password);
        let own = self.credential.password.as_ref().into_iter().chain(login);
        let secrets: Vec<_> = own.chain(self.machine.secrets()).collect();
        let message = shortened(&fault.message, MAX_CAUSE_TEXT_BYTES);
        fault.message = redacted(message, secrets.iter().copied());
        fault.code_name = redacted(&fault.code_name, secrets);
        fault.reply = None;
        fault
    }

    fn begin(&mut self, now: Instant, caches: &mut Caches) -> Step {
        let progress = self.machine.begin(now, caches);
        self.step(progress, caches)
    }

    fn step(&self, progress: Result<Progress, Failure>, caches: &mut Caches) -> Step {
        match progress {
            Ok(Progress::Derive(derivation)) => Step::Derive(derivation),
            Ok(Progress::Fetch(need)) => Step::Fetch(need),
            Ok(Progress::Kerberos(work)) => Step::Kerberos(work),
            Ok(Progress::Send(command)) => Step::Send {
                database: self.credential.source().to_owned(),
                command,
            },
            Ok(Progress::Done) => Step::Done,
            Err(reason) => {
                // The login can be the cause, for example if SASLprep forbids its password.
                if let Some(login) = &self.login {
                    caches.invalidate_login(login);
                }
                Step::Failed(self.error(&reason, None))
            }
        }
    }

    fn error(&self, message: &str, cause: Option<Box<CommandError>>) -> Error {
        failure(self.mechanism(), message, cause)
    }

    #[cfg(test)]
    pub(super) fn set_nonce(&mut self, nonce: &str) {
        match &mut self.machine {
            Machine::Scram(scram) => scram.set_nonce(nonce),
            Machine::Aws(aws) => {
                let bytes = nonce.as_bytes().try_into().expect("32 bytes");
                aws.set_nonce(bytes);
            }
            _ => panic!("the mechanism has no nonce"),
        }
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation")
            .field("mechanism", &self.mechanism())
            .field("database", &self.credential.source())
            .finish_non_exhaustive()
    }
}
