//! Who the client says it is.

use super::Secret;
use std::{collections::BTreeMap, fmt};

/// How identity is proved (AUTH-44 to AUTH-50). Only SCRAM is [available](Self::is_available) yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mechanism {
    /// `SCRAM-SHA-1`.
    ScramSha1,
    /// `SCRAM-SHA-256`.
    ScramSha256,
    /// `MONGODB-X509`.
    MongoDbX509,
    /// `PLAIN`.
    Plain,
    /// `GSSAPI`.
    GssApi,
    /// `MONGODB-AWS`.
    MongoDbAws,
    /// `MONGODB-OIDC`.
    MongoDbOidc,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: [Self; 7] = [
        Self::ScramSha1,
        Self::ScramSha256,
        Self::MongoDbX509,
        Self::Plain,
        Self::GssApi,
        Self::MongoDbAws,
        Self::MongoDbOidc,
    ];

    /// Its name in `authMechanism` and on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ScramSha1 => "SCRAM-SHA-1",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::MongoDbX509 => "MONGODB-X509",
            Self::Plain => "PLAIN",
            Self::GssApi => "GSSAPI",
            Self::MongoDbAws => "MONGODB-AWS",
            Self::MongoDbOidc => "MONGODB-OIDC",
        }
    }

    /// True if this version of the driver can authenticate with it. A client with another mechanism
    /// is refused when it is made.
    #[must_use]
    pub const fn is_available(self) -> bool {
        match self {
            Self::ScramSha1 | Self::ScramSha256 => true,
            Self::MongoDbX509
            | Self::Plain
            | Self::GssApi
            | Self::MongoDbAws
            | Self::MongoDbOidc => false,
        }
    }

    /// The mechanism of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is needed to authenticate (AUTH-1). Passwords and mechanism properties are not shown by
/// `Debug`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credential {
    /// User name, as given: never prepared or normalised (AUTH-52).
    pub username: Option<String>,
    /// Password, as given.
    pub password: Option<Secret>,
    /// The database that knows the user: for SCRAM the connection string's database, else `admin`.
    pub source: String,
    /// `None` lets the server's offer decide: SCRAM-SHA-256 if it has that, else SCRAM-SHA-1.
    pub mechanism: Option<Mechanism>,
    /// `authMechanismProperties`; keys keep their spelling and compare without case.
    pub properties: BTreeMap<String, Secret>,
}

impl Credential {
    /// A user name and a password for SCRAM, against the database `admin`.
    #[must_use]
    pub fn password(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            username: Some(username.into()),
            password: Some(Secret::new(password)),
            source: "admin".to_owned(),
            mechanism: None,
            properties: BTreeMap::new(),
        }
    }

    /// A credential of which only the source is set.
    #[must_use]
    pub fn empty(source: impl Into<String>) -> Self {
        Self {
            username: None,
            password: None,
            source: source.into(),
            mechanism: None,
            properties: BTreeMap::new(),
        }
    }

    /// The mechanism property of this name, compared without case (AUTH-10).
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Secret> {
        self.properties
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("source", &self.source)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}
