//! SCRAM-SHA-1 and SCRAM-SHA-256 (RFC 5802, RFC 7677): proof of a password without sending it, in
//! both directions.

use super::{
    hash::{Hash, SecretBytes},
    keys::{DerivedKeys, KeyCache, KeyDerivation, KeyName, Keys},
    sasl::{self, SaslReply},
};
use crate::{
    error::{Error, Result},
    options::{Mechanism, Secret},
    random::Random,
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bson::{RawBson, RawDocumentBuf, cstr, rawdoc};
use md5::{Digest, Md5};
use zeroize::Zeroizing;

/// A server that asks for fewer iterations is refused (AUTH-56): the proof would be easy to attack.
pub const MIN_ITERATIONS: u32 = 4096;

/// A server that asks for more iterations is refused: deriving the key occupies a processor. This
/// many take about 0.2 seconds where the processor helps with SHA, and several times as long where
/// it does not. Servers ask for 15,000 by default, and the highest count that is
/// commonly recommended is 1,300,000.
pub const MAX_ITERATIONS: u32 = 2_000_000;

/// The longest salt that is accepted, in bytes; servers use 16 or 28.
const MAX_SALT_BYTES: usize = 1024;

/// Random bytes in a nonce (AUTH-55).
const NONCE_BYTES: usize = 24;

/// "No channel binding, no other identity" (AUTH-57), and the same in base64.
const HEADER: &str = "n,,";
const HEADER_BASE64: &str = "biws";

/// What comes after a server's message.
pub(super) enum ScramStep {
    Send(RawDocumentBuf),
    /// Keys are needed that are not in the cache.
    Derive(KeyDerivation),
    Done,
}

/// Why a conversation cannot go on; never contains a secret.
pub(super) type Refusal = String;

enum State {
    /// The first message is sent or can be.
    First,
    /// The server's first message is there, and the keys are not.
    Deriving { name: KeyName, challenge: Challenge },
    /// The proof is sent.
    Final {
        conversation: RawBson,
        name: KeyName,
        keys: Keys,
        auth_message: String,
    },
    /// The server proved itself; old ones want one more, empty exchange (AUTH-43).
    Empty { conversation: RawBson },
    /// Nothing more is expected.
    Over,
}

/// What the proof answers.
struct Challenge {
    conversation: RawBson,
    /// The server's first message.
    text: String,
    /// Its nonce, which continues the client's.
    nonce: String,
}

/// The client's side of one SCRAM conversation.
pub(super) struct Scram {
    hash: Hash,
    username: String,
    password: Secret,
    nonce: String,
    state: State,
}

impl Scram {
    /// Draws the nonce now, so that the first message can ride in a handshake.
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

    /// Uses this nonce, to compare with published conversations.
    #[cfg(test)]
    pub(super) fn set_nonce(&mut self, nonce: &str) {
        nonce.clone_into(&mut self.nonce);
    }

    pub(super) const fn mechanism(&self) -> Mechanism {
        match self.hash {
            Hash::Sha1 => Mechanism::ScramSha1,
            Hash::Sha256 => Mechanism::ScramSha256,
        }
    }

    /// Fails early on a password that the mechanism cannot use (AUTH-8).
    pub(super) fn check_password(&self) -> Result<()> {
        match self.prepared_password() {
            Ok(_) => Ok(()),
            Err(refusal) => Err(Error::argument(refusal)),
        }
    }

    /// The first command, the same each time.
    pub(super) fn start(&self) -> RawDocumentBuf {
        let message = format!("{HEADER}{}", self.first_bare());
        let mut command = sasl::start(self.mechanism().name(), message.as_bytes());
        // AUTH-58: saves the empty exchange; old servers ignore it.
        command.append(cstr!("options"), rawdoc! { "skipEmptyExchange": true });
        command
    }

    /// Takes a reply to the command that was sent last.
    pub(super) fn on_reply(
        &mut self,
        reply: SaslReply,
        cache: &mut KeyCache,
    ) -> Result<ScramStep, Refusal> {
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
                    return Ok(ScramStep::Done);
                }
                let command = sasl::next(&conversation, &[]);
                self.state = State::Empty { conversation };
                Ok(ScramStep::Send(command))
            }
            State::Empty { conversation } => {
                same_conversation(&conversation, &reply)?;
                if !reply.done {
                    return Err("the server does not end the conversation".to_owned());
                }
                if !reply.payload.is_empty() {
                    return Err("the server's last message is not empty".to_owned());
                }
                Ok(ScramStep::Done)
            }
            State::Deriving { .. } => Err("the server spoke out of turn".to_owned()),
            State::Over => Err("the conversation is over".to_owned()),
        }
    }

    /// Takes the keys that were asked for; those of another derivation are refused.
    pub(super) fn on_keys(&mut self, derived: &DerivedKeys) -> Result<ScramStep, Refusal> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Deriving { name, challenge } if name == derived.name() => {
                Ok(self.prove(name, derived.keys().clone(), challenge))
            }
            _ => Err("these keys were not asked for".to_owned()),
        }
    }

    fn on_server_first(
        &mut self,
        reply: SaslReply,
        cache: &mut KeyCache,
    ) -> Result<ScramStep, Refusal> {
        let text = message(&reply.payload)?;
        let first = ServerFirst::parse(text, &self.nonce)?;
        if reply.done {
            // AUTH-61
            return Err("the server ended the conversation before proving itself".to_owned());
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
        Ok(ScramStep::Derive(derivation))
    }

    /// The proof that the password is known.
    fn prove(&mut self, name: KeyName, keys: Keys, challenge: Challenge) -> ScramStep {
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
        ScramStep::Send(command)
    }

    /// The server must know the password's keys too (AUTH-60).
    fn check_signature(
        &self,
        reply: &SaslReply,
        keys: &Keys,
        auth_message: &str,
    ) -> Result<(), Refusal> {
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

    /// What goes into the key derivation: for SHA-1 a digest in hexadecimal of name and password as
    /// they are (AUTH-53), for SHA-256 the password in prepared form (AUTH-54).
    fn prepared_password(&self) -> Result<SecretBytes, Refusal> {
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
            Hash::Sha256 => match stringprep::saslprep(password) {
                Ok(prepared) => Ok(Zeroizing::new(prepared.into_owned().into_bytes())),
                Err(_) => Err("the password has characters that SASLprep forbids".to_owned()),
            },
        }
    }

    /// The first message without its header; the name is escaped but not prepared (AUTH-52,
    /// AUTH-59).
    fn first_bare(&self) -> String {
        let name = self.username.replace('=', "=3D").replace(',', "=2C");
        format!("n={name},r={}", self.nonce)
    }
}

/// The server's answer to the first message.
struct ServerFirst<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> ServerFirst<'a> {
    fn parse(text: &'a str, client_nonce: &str) -> Result<Self, Refusal> {
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

/// The text of a server's message, unless it reports an error.
fn message(payload: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(payload).map_err(|_| "the server's message is not UTF-8")?;
    match text.strip_prefix("e=") {
        Some(error) => Err(format!(
            "the server reports {:?}",
            error.split(',').next().unwrap_or(error)
        )),
        None => Ok(text),
    }
}

fn same_conversation(expected: &RawBson, reply: &SaslReply) -> Result<(), Refusal> {
    use crate::bson::integer;
    if integer(expected.as_raw_bson_ref()) == integer(reply.conversation.as_raw_bson_ref()) {
        Ok(())
    } else {
        Err("the server answered in another conversation".to_owned())
    }
}
