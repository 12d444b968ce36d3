//! The server's side of SCRAM-SHA-1 and SCRAM-SHA-256 (RFC 5802, RFC 7677).

use crate::deployment::{DeploymentOptions, User};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use onionskin_core::random::{Random, Seed};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::fmt;

/// The size in bytes of the largest SCRAM message that the server accepts. A larger one makes the
/// authentication fail.
const MAX_PAYLOAD_BYTES: usize = 4096;

/// A SCRAM mechanism, by its hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Sha1,
    Sha256,
}

impl Mechanism {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "SCRAM-SHA-1" => Some(Self::Sha1),
            "SCRAM-SHA-256" => Some(Self::Sha256),
            _ => None,
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
}

/// The keys that a server stores instead of a password.
#[derive(Clone)]
struct Keys {
    salt: Vec<u8>,
    iterations: u32,
    stored: Vec<u8>,
    server: Vec<u8>,
}

impl Keys {
    fn new(mechanism: Mechanism, user: &User, salt: Vec<u8>, iterations: u32) -> Self {
        let salted = match mechanism {
            Mechanism::Sha1 => {
                let text = format!("{}:mongo:{}", user.name, user.password);
                let digest = md5::Md5::digest(text.as_bytes());
                let password: String = digest.iter().map(|b| format!("{b:02x}")).collect();
                let mut key = [0; 20];
                pbkdf2::pbkdf2_hmac::<Sha1>(password.as_bytes(), &salt, iterations, &mut key);
                key.to_vec()
            }
            Mechanism::Sha256 => {
                let password = stringprep::saslprep(&user.password)
                    .map_or_else(|_| user.password.clone(), std::borrow::Cow::into_owned);
                let mut key = [0; 32];
                pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, iterations, &mut key);
                key.to_vec()
            }
        };
        let client = mechanism.hmac(&salted, b"Client Key");
        Self {
            salt,
            iterations,
            stored: mechanism.hash(&client),
            server: mechanism.hmac(&salted, b"Server Key"),
        }
    }
}

/// The users of a deployment, with their keys.
pub(crate) struct Credentials {
    users: Vec<(User, Keys, Keys)>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    pub(crate) fn new(options: &DeploymentOptions, seed: &Seed) -> Self {
        let mut random = seed.split("salts").random();
        let mut salt = |bytes: usize| {
            let mut salt = vec![0; bytes];
            random.fill(&mut salt);
            salt
        };
        let iterations = options.scram_iterations;
        let users = options.users.iter().map(|user| {
            let one = Keys::new(Mechanism::Sha1, user, salt(16), iterations);
            let two = Keys::new(Mechanism::Sha256, user, salt(28), iterations);
            (user.clone(), one, two)
        });
        Self {
            users: users.collect(),
        }
    }

    /// True if there are no users, so that clients need not authenticate.
    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    pub(super) fn knows(&self, database: &str, name: &str) -> bool {
        self.position(database, name).is_some()
    }

    fn position(&self, database: &str, name: &str) -> Option<usize> {
        self.users
            .iter()
            .position(|(u, ..)| u.database == database && u.name == name)
    }

    fn keys(&self, user: usize, mechanism: Mechanism) -> &Keys {
        match mechanism {
            Mechanism::Sha1 => &self.users[user].1,
            Mechanism::Sha256 => &self.users[user].2,
        }
    }
}

/// An authentication in progress.
#[derive(Debug)]
pub(super) struct Conversation {
    mechanism: Mechanism,
    user: usize,
    header: String,
    client_first: String,
    server_first: String,
    nonce: String,
    pub(super) skip_empty: bool,
    /// True after the client's proof was verified. Only the client's last message, which is empty,
    /// is missing.
    pub(super) proven: bool,
    pub(super) database: String,
    pub(super) name: String,
}

impl Conversation {
    /// Handles the client's first message. Returns the conversation and the server's first message,
    /// or `None` if the message is not valid or the user is unknown.
    pub(super) fn start(
        users: &Credentials,
        mechanism: Mechanism,
        database: &str,
        payload: &[u8],
        random: &mut Random,
    ) -> Option<(Self, Vec<u8>)> {
        let text = text(payload)?;
        let bare_at = text.match_indices(',').nth(1)?.0 + 1;
        let (header, bare) = text.split_at(bare_at);
        if !(header.starts_with("n,") || header.starts_with("y,")) {
            return None;
        }
        let (name, client_nonce) = bare.strip_prefix("n=")?.split_once(",r=")?;
        let name = name.replace("=2C", ",").replace("=3D", "=");
        let user = users.position(database, &name)?;
        let keys = users.keys(user, mechanism);
        let mut own = [0; 24];
        random.fill(&mut own);
        let nonce = format!("{client_nonce}{}", STANDARD.encode(own));
        let salt = STANDARD.encode(&keys.salt);
        let server_first = format!("r={nonce},s={salt},i={}", keys.iterations);
        let conversation = Self {
            mechanism,
            user,
            header: header.to_owned(),
            client_first: bare.to_owned(),
            server_first: server_first.clone(),
            nonce,
            skip_empty: false,
            proven: false,
            database: database.to_owned(),
            name,
        };
        Some((conversation, server_first.into_bytes()))
    }

    /// Verifies the client's proof. Returns the server's last message, which has the server's
    /// signature, or `None` if the message is not valid or the proof is wrong.
    pub(super) fn prove(&mut self, users: &Credentials, payload: &[u8]) -> Option<Vec<u8>> {
        let text = text(payload)?;
        let (without_proof, proof) = text.rsplit_once(",p=")?;
        let (binding, nonce) = without_proof.strip_prefix("c=")?.split_once(",r=")?;
        if STANDARD.decode(binding).ok()? != self.header.as_bytes() || nonce != self.nonce {
            return None;
        }
        let proof = STANDARD.decode(proof).ok()?;
        let keys = users.keys(self.user, self.mechanism);
        let message = format!(
            "{},{},{without_proof}",
            self.client_first, self.server_first
        );
        let signature = self.mechanism.hmac(&keys.stored, message.as_bytes());
        if proof.len() != signature.len() {
            return None;
        }
        let client: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        if self.mechanism.hash(&client) != keys.stored {
            return None;
        }
        self.proven = true;
        let server = self.mechanism.hmac(&keys.server, message.as_bytes());
        Some(format!("v={}", STANDARD.encode(server)).into_bytes())
    }
}

fn text(payload: &[u8]) -> Option<&str> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        return None;
    }
    std::str::from_utf8(payload).ok()
}
