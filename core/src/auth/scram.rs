//! SCRAM-SHA-1 and SCRAM-SHA-256 (RFC 5802, RFC 7677). Client and server prove to each other that
//! they know the password, without sending it.

use super::{
    hash::{Hash, SecretBytes},
    keys::{DerivedKeys, KeyCache, KeyDerivation, KeyName, Keys},
    progress::{Failure, Progress},
    sasl::{self, SaslReply, same_conversation},
};
use crate::{
    error::Result,
    options::{AuthMechanism, Secret, saslprep},
    random::Random,
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bson::{RawBson, RawDocumentBuf, cstr, rawdoc};
use md5::{Digest, Md5};
use zeroize::Zeroizing;

/// The minimum iteration count. A server that asks for fewer iterations is refused, because an
/// attacker who sees the proof could guess the password fast ([AUTH-56]).
///
/// [AUTH-56]: crate::requirements::authentication#AUTH-56
pub const MIN_ITERATIONS: u32 = 4096;

/// The maximum iteration count. A server that asks for more iterations is refused, because the
/// derivation occupies a processor. This count takes about 0.2 s on a processor with SHA
/// instructions, and several times as long on others. Servers ask by default for 10,000 with
/// SCRAM-SHA-1 and 15,000 with SCRAM-SHA-256. The highest common recommendation is 1,300,000.
pub const MAX_ITERATIONS: u32 = 2_000_000;

/// The maximum length of a salt in bytes. Servers use 16 or 28.
const MAX_SALT_BYTES: usize = 1024;

/// The number of bytes in a nonce, which come from a cryptographically strong generator (AUTH-55).
const NONCE_BYTES: usize = 24;

/// The gs2 header of RFC 5802: no channel binding (AUTH-57) and no authorization identity.
/// [`HEADER_BASE64`] is its base64 form.
const HEADER: &str = "n,,";
const HEADER_BASE64: &str = "biws";

enum State {
    /// The first message can be sent, or its reply is awaited.
    First,
    /// The server's first message was received, and the derivation of keys is awaited.
    Deriving { name: KeyName, challenge: Challenge },
    /// The proof was sent, and the server's proof is awaited.
    Final {
        conversation: RawBson,
        name: KeyName,
        keys: Keys,
        auth_message: String,
    },
    /// The server's proof was correct, but the server expects another command with an empty
    /// payload, as servers before 4.4 do (AUTH-43).
    Empty { conversation: RawBson },
    /// Authentication succeeded or failed.
    Over,
}

/// The server's first message, to which the client replies with its proof.
struct Challenge {
    conversation: RawBson,
    /// The text of the message.
    text: String,
    /// The nonce in the message, which begins with the client's nonce.
    nonce: String,
}

/// The client side of one SCRAM conversation.
pub(super) struct Scram {
    hash: Hash,
    username: String,
    password: Secret,
    nonce: String,
    state: State,
}

impl Scram {
    /// Returns a conversation with a new nonce.
    pub(super) fn new(hash: Hash, username: &str, password: Secret, random: &mut Random) -> Self {
        let mut bytes = [0; NONCE_BYTES];
        random.fill(&mut bytes);
        Self {
            hash,
            username: username.to_owned(),
            password,
            nonce: BASE64.encode(bytes),
            state: State::First,
        }
    }

    /// Replaces the nonce by that of a published conversation.
    #[cfg(test)]
    pub(super) fn set_nonce(&mut self, nonce: &str) {
        nonce.clone_into(&mut self.nonce);
    }

    pub(super) const fn mechanism(&self) -> AuthMechanism {
        match self.hash {
            Hash::Sha1 => AuthMechanism::ScramSha1,
            Hash::Sha256 => AuthMechanism::ScramSha256,
        }
    }

    /// With SCRAM-SHA-256, checks that SASLprep accepts the password, so that an error is raised
    /// early (AUTH-8). SCRAM-SHA-1 accepts each password.
    pub(super) fn check_password(&self) -> Result<(), Failure> {
        self.prepared_password().map(drop)
    }

    /// Returns the first command. Each call returns the same command.
    pub(super) fn start(&self) -> RawDocumentBuf {
        let message = format!("{HEADER}{}", self.first_bare());
        let mut command = sasl::start(self.mechanism().name(), message.as_bytes());
        // With this option the server sends `done: true` together with its proof, which saves a
        // round trip. Servers before 4.4 ignore the option (AUTH-58).
        command.append(cstr!("options"), rawdoc! { "skipEmptyExchange": true });
        command
    }

    /// Handles the reply to the last command.
    pub(super) fn on_reply(
        &mut self,
        reply: SaslReply,
        cache: &mut KeyCache,
    ) -> Result<Progress, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::First => self.on_server_first(reply, cache),
            State::Final {
                conversation,
                name,
                keys,
                auth_message,
            } => {
                same_conversation(&conversation, &reply)?;
                self.check_signature(&reply, &keys, &auth_message)?;
                cache.insert(name, keys);
                if reply.done {
                    return Ok(Progress::Done);
                }
                let command = sasl::next(&conversation, &[]);
                self.state = State::Empty { conversation };
                Ok(Progress::Send(command))
            }
            State::Empty { conversation } => {
                same_conversation(&conversation, &reply)?;
                if !reply.done {
                    return Err("the server does not end the conversation".to_owned());
                }
                if !reply.payload.is_empty() {
                    return Err("the server's last message is not empty".to_owned());
                }
                Ok(Progress::Done)
            }
            State::Deriving { .. } => Err(
                "the server sent a second message before the client replied to the first"
                    .to_owned(),
            ),
            State::Over => Err("the conversation is over".to_owned()),
        }
    }

    /// Handles the derived keys. Keys of another derivation fail the conversation.
    pub(super) fn on_keys(&mut self, derived: &DerivedKeys) -> Result<Progress, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Deriving { name, challenge } if name == derived.name() => {
                Ok(self.prove(name, derived.keys().clone(), challenge))
            }
            _ => Err("the keys belong to another derivation".to_owned()),
        }
    }

    fn on_server_first(
        &mut self,
        reply: SaslReply,
        cache: &mut KeyCache,
    ) -> Result<Progress, Failure> {
        let text = message(&reply.payload)?;
        let first = ServerFirst::parse(text, &self.nonce)?;
        if reply.done {
            // The server has not proved yet that it knows the password (AUTH-61).
            return Err(
                "the server ended the conversation without a proof that it knows the password"
                    .to_owned(),
            );
        }
        let password = self.prepared_password()?;
        let challenge = Challenge {
            conversation: reply.conversation,
            text: text.to_owned(),
            nonce: first.nonce.to_owned(),
        };
        let derivation = KeyDerivation::new(self.hash, password, first.salt, first.iterations);
        let name = derivation.name();
        if let Some(keys) = cache.find(name) {
            return Ok(self.prove(name, keys, challenge));
        }
        self.state = State::Deriving { name, challenge };
        Ok(Progress::Derive(derivation))
    }

    /// Returns the command with the client's proof.
    fn prove(&mut self, name: KeyName, keys: Keys, challenge: Challenge) -> Progress {
        let Challenge {
            conversation,
            text,
            nonce,
        } = challenge;
        let without_proof = format!("c={HEADER_BASE64},r={nonce}");
        let auth_message = format!("{},{text},{without_proof}", self.first_bare());
        let stored = self.hash.digest(&keys.client);
        let signature = self.hash.hmac(&stored, auth_message.as_bytes());
        let proof: SecretBytes = Zeroizing::new(
            keys.client
                .iter()
                .zip(signature.iter())
                .map(|(a, b)| a ^ b)
                .collect(),
        );
        let last = format!("{without_proof},p={}", BASE64.encode(&*proof));
        let command = sasl::next(&conversation, last.as_bytes());
        self.state = State::Final {
            conversation,
            name,
            keys,
            auth_message,
        };
        Progress::Send(command)
    }

    /// Checks the server's proof that it knows the password (AUTH-60).
    fn check_signature(
        &self,
        reply: &SaslReply,
        keys: &Keys,
        auth_message: &str,
    ) -> Result<(), Failure> {
        let text = message(&reply.payload)?;
        let value = text.split(',').next().and_then(|v| v.strip_prefix("v="));
        let signature = value
            .and_then(|value| BASE64.decode(value).ok())
            .ok_or("the server's final message is malformed")?;
        if self
            .hash
            .verify(&keys.server, auth_message.as_bytes(), &signature)
        {
            Ok(())
        } else {
            Err("the server does not know the password: its signature is wrong".to_owned())
        }
    }

    /// Returns the password in the form for the key derivation. For SHA-1 this is the MD5 digest of
    /// user name and password in hexadecimal (AUTH-53). For SHA-256 it is the password, prepared
    /// with SASLprep (AUTH-54).
    fn prepared_password(&self) -> Result<SecretBytes, Failure> {
        let password = self.password.expose();
        match self.hash {
            Hash::Sha1 => {
                let mut md5 = Md5::new();
                for part in [&self.username, ":mongo:", password] {
                    md5.update(part.as_bytes());
                }
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let digest = Zeroizing::new(<[u8; 16]>::from(md5.finalize()));
                let hex = |byte: &u8| [byte >> 4, byte & 15].map(|d| DIGITS[usize::from(d)]);
                Ok(Zeroizing::new(digest.iter().flat_map(hex).collect()))
            }
            Hash::Sha256 => {
                let prepared = saslprep(password)?;
                Ok(Zeroizing::new(prepared.into_owned().into_bytes()))
            }
        }
    }

    /// Returns the first message without its header. The user name is escaped (AUTH-59), but not
    /// prepared with SASLprep (AUTH-52).
    fn first_bare(&self) -> String {
        let name = self.username.replace('=', "=3D").replace(',', "=2C");
        format!("n={name},r={}", self.nonce)
    }
}

/// The server's first message, parsed.
struct ServerFirst<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> ServerFirst<'a> {
    fn parse(text: &'a str, client_nonce: &str) -> Result<Self, Failure> {
        let mut parts = text.split(',');
        let mut part = |key: &str| {
            let value = parts.next().and_then(|part| part.strip_prefix(key));
            value.ok_or_else(|| format!("the server's first message has no {key} in its place"))
        };
        let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        let own = nonce.strip_prefix(client_nonce);
        if own.is_none_or(str::is_empty) || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the server's nonce does not continue the client's".to_owned());
        }
        let salt = match BASE64.decode(salt) {
            Ok(salt) if !salt.is_empty() && salt.len() <= MAX_SALT_BYTES => salt,
            _ => return Err("the server's salt cannot be used".to_owned()),
        };
        if !iterations.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("the server's iteration count is no number".to_owned());
        }
        let count = iterations.parse().unwrap_or(u32::MAX);
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&count) {
            return Err(format!(
                "the server's iteration count lies outside {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            ));
        }
        Ok(Self {
            nonce,
            salt,
            iterations: count,
        })
    }
}

/// Returns the text of a server's message. Fails if the message is not UTF-8 or reports an error
/// (`e=`).
fn message(payload: &[u8]) -> Result<&str, Failure> {
    let text = std::str::from_utf8(payload).map_err(|_| "the server's message is not UTF-8")?;
    match text.strip_prefix("e=") {
        Some(error) => Err(format!(
            "the server reports the error {:?}",
            error.split(',').next().unwrap_or(error)
        )),
        None => Ok(text),
    }
}
