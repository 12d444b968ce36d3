//! The users of a deployment, their roles, and the mechanisms with which they authenticate.

use crate::identity::{AwsIdentities, TokenIssuer};
use std::fmt;

/// The database of users whose passwords or keys are kept outside of the deployment.
pub const EXTERNAL: &str = "$external";

/// A mechanism of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AuthMechanism {
    /// SCRAM with SHA-1 (RFC 5802).
    ScramSha1,
    /// SCRAM with SHA-256 (RFC 7677).
    ScramSha256,
    /// The certificate of the client's TLS connection identifies the user.
    X509,
    /// The client sends the password as plain text (RFC 4616).
    Plain,
    /// The client signs a request to the AWS Security Token Service.
    Aws,
    /// The client sends a token of an OpenID Connect issuer.
    Oidc,
    /// The client has a Kerberos ticket. The keys of the service are in the keytab that the
    /// environment variable `KRB5_KTNAME` names.
    #[cfg(feature = "gssapi")]
    Gssapi,
}

impl AuthMechanism {
    /// All mechanisms.
    pub const ALL: [Self; 6 + cfg!(feature = "gssapi") as usize] = [
        Self::ScramSha1,
        Self::ScramSha256,
        Self::X509,
        Self::Plain,
        Self::Aws,
        Self::Oidc,
        #[cfg(feature = "gssapi")]
        Self::Gssapi,
    ];

    /// Returns the name of the mechanism in commands and connection strings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ScramSha1 => "SCRAM-SHA-1",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::X509 => "MONGODB-X509",
            Self::Plain => "PLAIN",
            Self::Aws => "MONGODB-AWS",
            Self::Oidc => "MONGODB-OIDC",
            #[cfg(feature = "gssapi")]
            Self::Gssapi => "GSSAPI",
        }
    }

    /// Returns the mechanism with this name, or `None` for an unknown name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// True for the SCRAM mechanisms, whose users can be on any database but `$external`.
    #[must_use]
    pub const fn is_scram(self) -> bool {
        matches!(self, Self::ScramSha1 | Self::ScramSha256)
    }
}

impl fmt::Display for AuthMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A role of a user. Only built-in roles of the server have an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name of the role, such as `readWrite`.
    pub name: String,
    /// The database to which the role belongs.
    pub database: String,
}

impl Role {
    /// Creates a role of a database.
    #[must_use]
    pub fn new(name: &str, database: &str) -> Self {
        Self {
            name: name.to_owned(),
            database: database.to_owned(),
        }
    }

    /// Creates the role `root`, which permits all commands.
    #[must_use]
    pub fn root() -> Self {
        Self::new("root", "admin")
    }
}

/// A user who can authenticate.
#[derive(Clone)]
pub struct User {
    /// The database that defines the user, which clients give as `authSource`.
    pub database: String,
    /// The name with which clients authenticate.
    pub name: String,
    /// The password, as plain text. Only SCRAM and PLAIN use it.
    pub password: String,
    /// The mechanisms with which the user can authenticate. Default: both SCRAM mechanisms.
    pub mechanisms: Vec<AuthMechanism>,
    /// The roles, which decide about the permitted commands. Default: `root` of `admin`.
    pub roles: Vec<Role>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("database", &self.database)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl User {
    /// Creates a user of the `admin` database.
    #[must_use]
    pub fn new(name: &str, password: &str) -> Self {
        Self {
            database: "admin".to_owned(),
            name: name.to_owned(),
            password: password.to_owned(),
            mechanisms: vec![AuthMechanism::ScramSha1, AuthMechanism::ScramSha256],
            roles: vec![Role::root()],
        }
    }

    /// Creates a user of `$external` without a password, for MONGODB-X509, MONGODB-AWS,
    /// MONGODB-OIDC and GSSAPI. The name is the subject of a certificate, the ARN of an AWS user,
    /// the prefix of a token issuer, a slash and the subject of a token, or a principal with its
    /// realm.
    #[must_use]
    pub fn external(name: &str) -> Self {
        Self {
            database: EXTERNAL.to_owned(),
            mechanisms: vec![
                AuthMechanism::X509,
                AuthMechanism::Aws,
                AuthMechanism::Oidc,
                #[cfg(feature = "gssapi")]
                AuthMechanism::Gssapi,
            ],
            ..Self::new(name, "")
        }
    }

    /// Creates a user of `$external` with a password, for PLAIN.
    #[must_use]
    pub fn ldap(name: &str, password: &str) -> Self {
        Self {
            database: EXTERNAL.to_owned(),
            mechanisms: vec![AuthMechanism::Plain],
            ..Self::new(name, password)
        }
    }
}

/// The options of authentication.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// The mechanisms that the servers accept, which is their parameter
    /// `authenticationMechanisms`. Default: SCRAM-SHA-1, SCRAM-SHA-256 and MONGODB-X509, as in the
    /// server.
    pub mechanisms: Vec<AuthMechanism>,
    /// The subject of the TLS client certificate of each connection for which the caller states no
    /// other subject with
    /// [`Deployment::handle_certificate`](super::Deployment::handle_certificate). The form is that
    /// of RFC 2253, such as `CN=client,OU=Drivers,O=MongoDB`. Default: `None`, no certificate.
    pub certificate_subject: Option<String>,
    /// The host of the AWS Security Token Service, which a client of MONGODB-AWS signs. Default:
    /// `sts.amazonaws.com`.
    pub sts_host: String,
    /// The AWS credentials that the servers accept, which are none at first. For each ARN, there
    /// must be a user of `$external`; [`AwsIdentity::user`](crate::identity::AwsIdentity::user)
    /// gives it.
    pub aws: AwsIdentities,
    /// The issuers of tokens for MONGODB-OIDC. Default: none.
    pub issuers: Vec<TokenIssuer>,
    /// The number of SASL conversations out of 1000 that have a fault, which is drawn. Default: 0.
    pub fault_rate: u16,
}

impl Default for AuthOptions {
    fn default() -> Self {
        Self {
            mechanisms: vec![
                AuthMechanism::ScramSha1,
                AuthMechanism::ScramSha256,
                AuthMechanism::X509,
            ],
            certificate_subject: None,
            sts_host: "sts.amazonaws.com".to_owned(),
            aws: AwsIdentities::default(),
            issuers: Vec::new(),
            fault_rate: 0,
        }
    }
}
