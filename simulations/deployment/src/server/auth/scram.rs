//! The server's side of SCRAM-SHA-1 and SCRAM-SHA-256 (RFC 5802, RFC 7677).

use super::{Step, accounts::Account, roles::Login};
use crate::deployment::{AuthFault, AuthMechanism, User};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use onionskin_core::random::Random;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The size in bytes of the largest SCRAM message that the server accepts. A larger one makes the
/// authentication fail.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The number of random bytes in the server's part of a nonce.
const NONCE_BYTES: usize = 24;

/// The hash function of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha1,
    Sha256,
}

impl Hash {
    const fn of(mechanism: AuthMechanism) -> Self {
        match mechanism {
            AuthMechanism::ScramSha1 => Self::Sha1,
            _ => Self::Sha256,
        }
    }

    fn hmac(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => {
                let mac = <Hmac<Sha1> as Mac>::new_from_slice(key).expect("any key length is fine");
                mac.chain_update(text).finalize().into_bytes().to_vec()
            }
            Self::Sha256 => {
                let mac =
                    <Hmac<Sha256> as Mac>::new_from_slice(key).expect("any key length is fine");
                mac.chain_update(text).finalize().into_bytes().to_vec()
            }
        }
    }

    fn hash(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(text).to_vec(),
            Self::Sha256 => Sha256::digest(text).to_vec(),
        }
    }

    /// Returns the size of a salt in bytes, as the server has it.
    const fn salt_bytes(self) -> usize {
        match self {
            Self::Sha1 => 16,
            Self::Sha256 => 28,
        }
    }
}

/// A password from which keys are made.
#[derive(Clone, Copy)]
pub(super) enum Secret<'a> {
    /// The password itself.
    Password(&'a str),
    /// The hexadecimal MD5 digest of user name and password (AUTH-53), which a client sends with
    /// `digestPassword: false`. Only SCRAM-SHA-1 can use it.
    Digest(&'a str),
}

/// The keys that a server stores instead of a password.
#[derive(Clone)]
pub(super) struct Keys {
    hash: Hash,
    salt: Vec<u8>,
    iterations: u32,
    stored: Vec<u8>,
    server: Vec<u8>,
}

impl Keys {
    /// Makes the keys of a user. Returns `None` if SASLprep prohibits the password.
    ///
    /// SCRAM-SHA-1 uses the raw bytes of the password (AUTH-53). SCRAM-SHA-256 uses the form that
    /// SASLprep gives (AUTH-54).
    pub(super) fn new(
        mechanism: AuthMechanism,
        user: &str,
        secret: Secret<'_>,
        iterations: u32,
        random: &mut Random,
    ) -> Option<Self> {
        let hash = Hash::of(mechanism);
        let mut salt = vec![0; hash.salt_bytes()];
        random.fill(&mut salt);
        let salted = match (hash, secret) {
            (Hash::Sha1, _) => {
                let digest = match secret {
                    Secret::Password(password) => digest(user, password),
                    Secret::Digest(digest) => digest.to_owned(),
                };
                let mut key = [0; 20];
                pbkdf2::pbkdf2_hmac::<Sha1>(digest.as_bytes(), &salt, iterations, &mut key);
                key.to_vec()
            }
            (Hash::Sha256, Secret::Password(password)) => {
                let password = stringprep::saslprep(password).ok()?;
                let mut key = [0; 32];
                pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, iterations, &mut key);
                key.to_vec()
            }
            (Hash::Sha256, Secret::Digest(_)) => return None,
        };
        let client = hash.hmac(&salted, b"Client Key");
        Some(Self {
            hash,
            salt,
            iterations,
            stored: hash.hash(&client),
            server: hash.hmac(&salted, b"Server Key"),
        })
    }
}

/// Returns the hexadecimal MD5 digest of a user name and password (AUTH-53).
fn digest(user: &str, password: &str) -> String {
    let digest = md5::Md5::digest(format!("{user}:mongo:{password}").as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A conversation after the server's first message.
pub(in crate::server) struct Conversation {
    keys: Keys,
    user: User,
    header: String,
    client_first: String,
    server_first: String,
    nonce: String,
    skip_empty: bool,
    /// True after the client's proof was verified. Only the client's last message, which is empty,
    /// is missing.
    is_proven: bool,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The client's first message.
struct ClientFirst<'a> {
    header: &'a str,
    bare: &'a str,
    user: String,
    nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    fn parse(payload: &'a [u8]) -> Option<Self> {
        let text = text(payload)?;
        let bare_at = text.match_indices(',').nth(1)?.0 + 1;
        let (header, bare) = text.split_at(bare_at);
        if !(header.starts_with("n,") || header.starts_with("y,")) {
            return None;
        }
        let (name, nonce) = bare.strip_prefix("n=")?.split_once(",r=")?;
        Some(Self {
            header,
            bare,
            user: unescaped(name)?,
            nonce,
        })
    }
}

/// Returns a user name without its escapes (AUTH-59). Returns `None` if an equals sign is not the
/// start of an escape.
fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut unescaped = parts.next()?.to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            (None, None) => return None,
        };
        unescaped.push(character);
        unescaped.push_str(rest);
    }
    Some(unescaped)
}

/// Returns the name of the user in the client's first message, or `None` if the message is not
/// valid.
pub(super) fn user_name(payload: &[u8]) -> Option<String> {
    Some(ClientFirst::parse(payload)?.user)
}

/// Handles the client's first message. Returns `None` if the message is not valid or the user
/// cannot use the mechanism.
pub(super) fn start(
    account: Account,
    mechanism: AuthMechanism,
    (skip_empty, fault): (bool, Option<AuthFault>),
    payload: &[u8],
    random: &mut Random,
) -> Option<Step> {
    let first = ClientFirst::parse(payload)?;
    let mut keys = account.keys(mechanism)?;
    if matches!(
        fault,
        Some(AuthFault::NoIterations | AuthFault::OneIteration)
    ) {
        let secret = Secret::Password(&account.user.password);
        keys = Keys::new(mechanism, &account.user.name, secret, 1, random)?;
    }
    let mut own = [0; NONCE_BYTES];
    random.fill(&mut own);
    let own = STANDARD.encode(own);
    let nonce = match fault {
        Some(AuthFault::WrongNonce) => own,
        Some(AuthFault::ShortNonce) => {
            let mut nonce = first.nonce.to_owned();
            nonce.pop();
            nonce
        }
        _ => format!("{}{own}", first.nonce),
    };
    let iterations = match fault {
        Some(AuthFault::NoIterations) => 0,
        Some(AuthFault::ManyIterations) => 1 << 31,
        _ => keys.iterations,
    };
    let salt = STANDARD.encode(&keys.salt);
    let server_first = format!("r={nonce},s={salt},i={iterations}");
    let conversation = Conversation {
        keys,
        user: account.user,
        header: first.header.to_owned(),
        client_first: first.bare.to_owned(),
        server_first: server_first.clone(),
        nonce,
        skip_empty,
        is_proven: false,
    };
    let conversation = super::Conversation::Scram(Box::new(conversation));
    Some(Step::More(conversation, server_first.into_bytes()))
}

impl Conversation {
    /// Handles a further message of the client. Returns `None` if the message is not valid or the
    /// proof is wrong.
    pub(super) fn advance(mut self, payload: &[u8]) -> Option<Step> {
        if self.is_proven {
            return payload
                .is_empty()
                .then(|| Step::Done(Login::of(&self.user), Vec::new()));
        }
        let signature = self.prove(payload)?;
        if self.skip_empty {
            return Some(Step::Done(Login::of(&self.user), signature));
        }
        self.is_proven = true;
        Some(Step::More(
            super::Conversation::Scram(Box::new(self)),
            signature,
        ))
    }

    /// Verifies the client's proof. Returns the server's last message, which has the server's
    /// signature, or `None` if the message is not valid or the proof is wrong.
    fn prove(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let text = text(payload)?;
        let (without_proof, proof) = text.rsplit_once(",p=")?;
        let (binding, nonce) = without_proof.strip_prefix("c=")?.split_once(",r=")?;
        if STANDARD.decode(binding).ok()? != self.header.as_bytes() || nonce != self.nonce {
            return None;
        }
        let proof = STANDARD.decode(proof).ok()?;
        let keys = &self.keys;
        let message = format!(
            "{},{},{without_proof}",
            self.client_first, self.server_first
        );
        let signature = keys.hash.hmac(&keys.stored, message.as_bytes());
        if proof.len() != signature.len() {
            return None;
        }
        let client: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        if keys.hash.hash(&client) != keys.stored {
            return None;
        }
        let server = keys.hash.hmac(&keys.server, message.as_bytes());
        Some(format!("v={}", STANDARD.encode(server)).into_bytes())
    }
}

fn text(payload: &[u8]) -> Option<&str> {
    if payload.len() > MAX_MESSAGE_BYTES {
        return None;
    }
    std::str::from_utf8(payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equals_sign_in_a_name_starts_an_escape() {
        for (name, expected) in [
            ("ada", Some("ada")),
            ("a=2Cb=3Dc", Some("a,b=c")),
            ("=3D2C", Some("=2C")),
            ("a=b", None),
            ("a=", None),
            ("a=2c", None),
        ] {
            assert_eq!(unescaped(name).as_deref(), expected, "{name}");
        }
    }
}
