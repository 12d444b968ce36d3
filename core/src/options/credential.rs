//! The credential of a client, and the authentication mechanisms.

use super::{CredentialProvider, OidcCallback, OidcFlow, Secret, fields, parsed};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// The hosts to which a client with a human OIDC flow may connect by default. The credential can
/// have a list of its own ([AUTH-107]).
///
/// [AUTH-107]: crate::requirements::authentication#AUTH-107
pub const DEFAULT_ALLOWED_HOSTS: [&str; 8] = [
    "*.mongodb.net",
    "*.mongodb-qa.net",
    "*.mongodb-dev.net",
    "*.mongodbgov.net",
    "*.mongo.com",
    "localhost",
    "127.0.0.1",
    "::1",
];

/// An authentication mechanism. Each mechanism has rules for the fields of the credential
/// ([AUTH-44] to [AUTH-50]).
///
/// [AUTH-44]: crate::requirements::authentication#AUTH-44
/// [AUTH-50]: crate::requirements::authentication#AUTH-50
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AuthMechanism {
    /// `SCRAM-SHA-1`: user name and password.
    #[serde(alias = "SCRAM-SHA-1")]
    ScramSha1,
    /// `SCRAM-SHA-256`: user name and password.
    #[serde(alias = "SCRAM-SHA-256")]
    ScramSha256,
    /// `MONGODB-X509`: the client's TLS certificate.
    #[serde(alias = "MONGODB-X509")]
    MongoDbX509,
    /// `PLAIN`: user name and password, for LDAP.
    #[serde(alias = "PLAIN")]
    Plain,
    /// `GSSAPI`: Kerberos.
    #[serde(alias = "GSSAPI")]
    Gssapi,
    /// `MONGODB-AWS`: credentials of Amazon Web Services.
    #[serde(alias = "MONGODB-AWS")]
    MongoDbAws,
    /// `MONGODB-OIDC`: an OpenID Connect token.
    #[serde(alias = "MONGODB-OIDC")]
    MongoDbOidc,
}

impl AuthMechanism {
    /// All mechanisms, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::ScramSha1,
        Self::ScramSha256,
        Self::MongoDbX509,
        Self::Plain,
        Self::Gssapi,
        Self::MongoDbAws,
        Self::MongoDbOidc,
    ];

    /// Returns the name of the mechanism in `authMechanism` and in commands.
    ///
    /// ```
    /// use onionskin_core::options::AuthMechanism;
    ///
    /// assert_eq!(AuthMechanism::MongoDbX509.name(), "MONGODB-X509");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ScramSha1 => "SCRAM-SHA-1",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::MongoDbX509 => "MONGODB-X509",
            Self::Plain => "PLAIN",
            Self::Gssapi => "GSSAPI",
            Self::MongoDbAws => "MONGODB-AWS",
            Self::MongoDbOidc => "MONGODB-OIDC",
        }
    }

    /// True if a client can authenticate with this mechanism without a library that the application
    /// or a Cargo feature adds. `GSSAPI` needs [`ClientOptions::kerberos`], and the creation of a
    /// client with `GSSAPI` fails without it.
    ///
    /// ```
    /// use onionskin_core::options::AuthMechanism;
    ///
    /// assert!(AuthMechanism::ScramSha256.is_available());
    /// assert!(!AuthMechanism::Gssapi.is_available());
    /// ```
    ///
    /// [`ClientOptions::kerberos`]: super::ClientOptions::kerberos
    #[must_use]
    pub const fn is_available(self) -> bool {
        match self {
            Self::ScramSha1
            | Self::ScramSha256
            | Self::MongoDbX509
            | Self::Plain
            | Self::MongoDbAws
            | Self::MongoDbOidc => true,
            Self::Gssapi => false,
        }
    }

    /// Returns the mechanism with this name; letter case counts.
    ///
    /// ```
    /// use onionskin_core::options::AuthMechanism;
    ///
    /// assert_eq!(AuthMechanism::from_name("PLAIN"), Some(AuthMechanism::Plain));
    /// assert_eq!(AuthMechanism::from_name("plain"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

parsed!(AuthMechanism);

impl fmt::Display for AuthMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fields! {
    /// The user name, password, mechanism and other data with which a client authenticates. `Debug`
    /// shows only the source and the mechanism ([AUTH-1]).
    ///
    /// ```
    /// use onionskin_core::options::{
    ///     AuthMechanism, Credential, CredentialProvider, Login, OidcCallback, OidcTokens,
    ///     PasswordProvider,
    /// };
    ///
    /// let credential = Credential::builder()
    ///     .username("me".to_owned())
    ///     .password("pencil")
    ///     .source("app".to_owned())
    ///     .mechanism(AuthMechanism::ScramSha256)
    ///     .build();
    /// assert_eq!(credential.source(), "app");
    /// // A vault gives the password.
    /// let vault = PasswordProvider::blocking(|_| Ok(Login::new("app", "pencil")));
    /// let app = Credential::builder().provider(CredentialProvider::Password(vault)).build();
    /// assert!(app.validate().is_ok());
    /// // A human logs in, and the token goes to these servers only.
    /// let callback = OidcCallback::human(|_| async { Ok(OidcTokens::new("eyJhbGciOi...")) });
    /// let human = Credential::builder()
    ///     .mechanism(AuthMechanism::MongoDbOidc)
    ///     .oidc_callback(callback)
    ///     .allowed_hosts(vec!["*.example.net".to_owned()])
    ///     .build();
    /// assert!(human.validate().is_ok());
    /// ```
    ///
    /// [AUTH-1]: crate::requirements::authentication#AUTH-1
    #[derive(Clone, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    Credential, built by CredentialBuilder {
        /// The user name. It is not prepared with SASLprep ([AUTH-52]).
        ///
        /// [AUTH-52]: crate::requirements::authentication#AUTH-52
        username: String,
        /// The password, as the application gave it.
        password: Secret => (text),
        /// The authentication database (`authSource`). Default: `$external` for the mechanisms that
        /// authenticate users outside of MongoDB, else `admin`. In a connection string the default
        /// for SCRAM and `PLAIN` is the database of the string, if it has one.
        source: String,
        /// The mechanism. Default: SCRAM-SHA-256 if the server supports it for the user, else
        /// SCRAM-SHA-1.
        mechanism: AuthMechanism,
        /// A callback that provides the password or AWS credentials. Default: none; the fields of
        /// the credential or the environment of the process provide them.
        #[serde(skip)]
        provider: CredentialProvider,
        /// The hosts to which a client with a human OIDC flow may connect: the mechanism property
        /// `ALLOWED_HOSTS`. A name that begins with `*.` allows all subdomains. Default:
        /// [`DEFAULT_ALLOWED_HOSTS`]. An error with any other mechanism or flow ([AUTH-108]).
        ///
        /// [AUTH-108]: crate::requirements::authentication#AUTH-108
        allowed_hosts: Vec<String>,
    }
    also {
        /// The mechanism properties (`authMechanismProperties`). Keys keep their letter case, but
        /// comparisons ignore it. Default: none.
        pub mechanism_properties: BTreeMap<String, Secret>,
        /// A callback that provides tokens. The mechanism is `MONGODB-OIDC` ([AUTH-106]). Default:
        /// none; the mechanism property `ENVIRONMENT` names the source of tokens.
        ///
        /// [AUTH-106]: crate::requirements::authentication#AUTH-106
        #[serde(skip)]
        pub oidc_callback: OidcCallback,
        /// The source in place of one that was not given: the database of a connection string, or
        /// the source of a TXT record.
        #[serde(skip)]
        pub(crate) default_source: Option<String>,
        /// True for the credential of a connection string, whose default a TXT record may replace.
        #[serde(skip)]
        pub(crate) is_parsed: bool,
    }
}

impl CredentialBuilder {
    /// Sets a callback that provides OpenID Connect tokens ([`Credential::oidc_callback`]).
    ///
    /// ```
    /// use onionskin_core::options::{AuthMechanism, Credential, OidcCallback, OidcTokens};
    ///
    /// let callback = OidcCallback::machine(|_| async { Ok(OidcTokens::new("eyJhbGciOi...")) });
    /// let credential = Credential::builder()
    ///     .mechanism(AuthMechanism::MongoDbOidc)
    ///     .oidc_callback(callback)
    ///     .build();
    /// assert!(credential.validate().is_ok());
    /// ```
    pub fn oidc_callback(mut self, callback: OidcCallback) -> Self {
        self.0.oidc_callback = callback;
        self
    }

    /// Sets the mechanism properties ([`Credential::mechanism_properties`]).
    ///
    /// ```
    /// use onionskin_core::options::{AuthMechanism, Credential};
    ///
    /// let credential = Credential::builder()
    ///     .mechanism(AuthMechanism::MongoDbOidc)
    ///     .mechanism_properties([("ENVIRONMENT", "k8s")])
    ///     .build();
    /// assert!(credential.validate().is_ok());
    /// ```
    pub fn mechanism_properties<K, V>(
        mut self,
        properties: impl IntoIterator<Item = (K, V)>,
    ) -> Self
    where
        K: Into<String>,
        V: Into<Secret>,
    {
        let properties = properties.into_iter();
        self.0.mechanism_properties = properties.map(|(k, v)| (k.into(), v.into())).collect();
        self
    }
}

impl Credential {
    /// Returns a credential for SCRAM with this user name and password, and the source `admin`.
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, Credential};
    ///
    /// let credential = Credential::password("me", "pencil");
    /// assert_eq!(credential.source(), "admin");
    /// let options = ClientOptions::builder().credential(credential).build();
    /// ```
    #[must_use]
    pub fn password(username: impl Into<String>, password: impl Into<Secret>) -> Self {
        Self::builder()
            .username(username.into())
            .password(password)
            .build()
    }

    /// Returns a credential with this provider. The mechanism is SCRAM (source `admin`) or
    /// `MONGODB-AWS`.
    ///
    /// ```
    /// use onionskin_core::options::{Credential, CredentialProvider, Login, PasswordProvider};
    ///
    /// let vault = PasswordProvider::blocking(|_request| Ok(Login::new("app", "pencil")));
    /// let credential = Credential::with_provider(CredentialProvider::Password(vault));
    /// assert_eq!(credential.source(), "admin");
    /// ```
    #[must_use]
    pub fn with_provider(provider: CredentialProvider) -> Self {
        let mechanism = match &provider {
            CredentialProvider::Password(_) => None,
            CredentialProvider::Aws(_) => Some(AuthMechanism::MongoDbAws),
        };
        Self::builder()
            .mechanism(mechanism)
            .provider(provider)
            .build()
    }

    /// Returns a credential for `MONGODB-OIDC` with this callback.
    ///
    /// ```
    /// use onionskin_core::options::{Credential, OidcCallback, OidcTokens};
    ///
    /// let callback = OidcCallback::machine(|_| async { Ok(OidcTokens::new("eyJhbGciOi...")) });
    /// let credential = Credential::with_oidc_callback(callback);
    /// assert_eq!(credential.source(), "$external");
    /// ```
    #[must_use]
    pub fn with_oidc_callback(callback: OidcCallback) -> Self {
        Self::builder()
            .mechanism(AuthMechanism::MongoDbOidc)
            .oidc_callback(callback)
            .build()
    }

    /// Returns the authentication database: the field `source`, or its default. The default depends
    /// on the mechanism ([AUTH-133]).
    ///
    /// ```
    /// use onionskin_core::options::{AuthMechanism, Credential};
    ///
    /// let mut credential = Credential::password("me", "pencil");
    /// assert_eq!(credential.source(), "admin");
    /// credential.mechanism = Some(AuthMechanism::Plain);
    /// assert_eq!(credential.source(), "$external");
    /// ```
    ///
    /// [AUTH-133]: crate::requirements::authentication#AUTH-133
    #[must_use]
    pub fn source(&self) -> &str {
        let given = self.default_source.as_deref();
        let default = match self.mechanism {
            None | Some(AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256) => {
                given.unwrap_or("admin")
            }
            Some(AuthMechanism::Plain) => given.unwrap_or("$external"),
            Some(_) => "$external",
        };
        self.source.as_deref().unwrap_or(default)
    }

    /// Returns the mechanism property with this name. Letter case does not count ([AUTH-10]).
    ///
    /// ```
    /// use onionskin_core::options::{Credential, Secret};
    ///
    /// let credential =
    ///     Credential::builder().mechanism_properties([("SERVICE_NAME", "mongo")]).build();
    /// let name = credential.property("service_name").map(Secret::expose);
    /// assert_eq!(name, Some("mongo"));
    /// ```
    ///
    /// [AUTH-10]: crate::requirements::authentication#AUTH-10
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Secret> {
        self.mechanism_properties
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Returns the flow in which tokens are obtained: human with a callback for that flow, else
    /// machine.
    pub(crate) fn oidc_flow(&self) -> OidcFlow {
        self.oidc_callback.flow()
    }

    /// True if a provider of the application gives user name and password.
    pub(crate) fn has_password_provider(&self) -> bool {
        matches!(self.provider, Some(CredentialProvider::Password(_)))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("source", &self.source())
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}
