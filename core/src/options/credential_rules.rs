//! The rules of each mechanism about the fields of a credential.

use super::{AuthMechanism, Credential, CredentialProvider, OidcFlow, Secret};
use crate::error::Error;
use std::borrow::Cow;

/// The source for mechanisms that authenticate users outside of MongoDB.
const EXTERNAL: &str = "$external";

/// Mechanism properties that a connection string cannot set. `ALLOWED_HOSTS` is a decision of the
/// application (AUTH-108). The values of the others are code (AUTH-106).
pub(crate) const CODE_ONLY_PROPERTIES: [&str; 4] = [
    "OIDC_CALLBACK",
    "OIDC_HUMAN_CALLBACK",
    "ALLOWED_HOSTS",
    "AWS_CREDENTIAL_PROVIDER",
];

/// States whether a credential must have a field, may have it, or must not have it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
    Forbidden,
}

/// The rules of one mechanism about the fields of a credential.
struct Rules {
    username: Presence,
    password: Presence,
    /// True if the source must be `$external`.
    external_source: bool,
    properties: &'static [&'static str],
}

const USERNAME_AND_PASSWORD: Rules = Rules {
    username: Presence::Required,
    password: Presence::Required,
    external_source: false,
    properties: &[],
};

const fn rules(mechanism: AuthMechanism) -> Rules {
    match mechanism {
        // User name and password are required, and properties refused (AUTH-44, AUTH-45, AUTH-47).
        AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256 | AuthMechanism::Plain => {
            USERNAME_AND_PASSWORD
        }
        // The TLS certificate names the user and needs no password (AUTH-46).
        AuthMechanism::MongoDbX509 => Rules {
            username: Presence::Optional,
            password: Presence::Forbidden,
            external_source: true,
            properties: &[],
        },
        // A password is optional, because a ticket can replace it (AUTH-48).
        AuthMechanism::Gssapi => Rules {
            username: Presence::Required,
            password: Presence::Optional,
            external_source: true,
            properties: &[
                "SERVICE_NAME",
                "CANONICALIZE_HOST_NAME",
                "SERVICE_REALM",
                "SERVICE_HOST",
            ],
        },
        // Keys come from the environment or a provider, and are an error in options (AUTH-49,
        // AUTH-88).
        AuthMechanism::MongoDbAws => Rules {
            username: Presence::Forbidden,
            password: Presence::Forbidden,
            external_source: true,
            properties: &[],
        },
        // A token replaces the password, and a property names the source of the token (AUTH-50).
        AuthMechanism::MongoDbOidc => Rules {
            username: Presence::Optional,
            password: Presence::Forbidden,
            external_source: true,
            properties: &["ENVIRONMENT", "TOKEN_RESOURCE"],
        },
    }
}

/// Returns a password in the form for SCRAM-SHA-256 (AUTH-54).
pub(crate) fn saslprep(password: &str) -> Result<Cow<'_, str>, String> {
    let forbidden = |_| "the password has characters that SASLprep forbids".to_owned();
    stringprep::saslprep(password).map_err(forbidden)
}

/// Checks that none of the named texts is empty or has a zero byte. Absent texts are not checked.
pub(crate) fn check_texts<'a>(
    texts: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<(), String> {
    for (name, text) in texts {
        match text {
            Some(text) if text.contains('\0') => {
                return Err(format!("{name} has a zero byte; remove it"));
            }
            Some("") => return Err(format!("{name} is empty")),
            _ => {}
        }
    }
    Ok(())
}

impl Credential {
    /// Checks that the credential fits its mechanism. The credential must have all fields that the
    /// mechanism requires, and none that the mechanism refuses ([AUTH-4]).
    ///
    /// ```
    /// use onionskin_core::options::{Credential, AuthMechanism};
    ///
    /// let mut credential = Credential::password("me", "pencil");
    /// assert!(credential.validate().is_ok());
    /// credential.mechanism = Some(AuthMechanism::MongoDbX509);
    /// assert!(credential.validate().is_err(), "a certificate needs no password");
    /// ```
    ///
    /// [AUTH-4]: crate::requirements::authentication#AUTH-4
    pub fn validate(&self) -> Result<(), Error> {
        self.check_from_uri(false)?;
        self.check_token_source()?;
        if self.mechanism.is_none() && self.password.is_none() && !self.has_password_provider() {
            return Err(Error::invalid_option(
                "password",
                "SCRAM needs a password; give one",
            ));
        }
        let name = self.mechanism.map_or("SCRAM", AuthMechanism::name);
        let refuse =
            |message: String| Error::invalid_option("credential", format!("{name}: {message}"));
        match self.mechanism {
            Some(AuthMechanism::Gssapi) => self.check_kerberos().map_err(refuse),
            Some(AuthMechanism::ScramSha256) => {
                let password = self.password.as_ref().map(Secret::expose);
                saslprep(password.unwrap_or_default())
                    .map(drop)
                    .map_err(refuse)
            }
            _ => Ok(()),
        }
    }

    fn texts(&self) -> [(&'static str, Option<&str>); 2] {
        [
            ("the user name", self.username.as_deref()),
            ("the password", self.password.as_ref().map(Secret::expose)),
        ]
    }

    /// Checks that a Kerberos library gets the same names and password as the credential has. The
    /// interface of such libraries ends a text at a zero byte, so `root\0x@R` would mean `root`.
    pub(crate) fn check_kerberos(&self) -> Result<(), String> {
        let properties = self.mechanism_properties.iter();
        let texts = properties.map(|(name, value)| (name.as_str(), Some(value.expose())));
        check_texts(texts.chain(self.texts()))
    }

    /// Checks a credential that was read from a connection string.
    ///
    /// The rules are those of [`validate`](Self::validate) with three exceptions. Without a
    /// mechanism, a user name may be given without a password (AUTH-136). If the properties could
    /// not be read, they are not checked, because the parser has warned already (CS-32). A source
    /// of tokens may be missing.
    pub(crate) fn check_from_uri(&self, properties_dropped: bool) -> Result<(), Error> {
        let mut rules = self.mechanism.map_or(USERNAME_AND_PASSWORD, rules);
        let name = self.mechanism.map_or("SCRAM", AuthMechanism::name);
        self.check_provider(name)?;
        if self.has_password_provider() {
            // The provider gives both.
            (rules.username, rules.password) = (Presence::Forbidden, Presence::Forbidden);
        }
        let username = self.username.as_deref().unwrap_or_default();
        match rules.username {
            // An empty user name, as in `mongodb://@host`, is an error too (AUTH-2, AUTH-5,
            // AUTH-9).
            Presence::Required if username.is_empty() => {
                let message = format!("{name} needs a user name; give one before the @");
                return Err(Error::invalid_option("username", message));
            }
            Presence::Forbidden if self.username.is_some() => {
                let message = format!("{name} takes no user name; leave it out");
                return Err(Error::invalid_option("username", message));
            }
            _ => {}
        }
        match rules.password {
            Presence::Required if self.mechanism.is_some() && self.password.is_none() => {
                let message = format!("{name} needs a password; give one after the user name");
                return Err(Error::invalid_option("password", message));
            }
            Presence::Forbidden if self.password.is_some() => {
                let message = format!("{name} takes no password; leave it out");
                return Err(Error::invalid_option("password", message));
            }
            _ => {}
        }
        if self.mechanism == Some(AuthMechanism::Plain) {
            // The fields of the mechanism's message are not empty, and end with a zero byte (RFC
            // 4616, section 2).
            check_texts(self.texts()).map_err(|message| {
                Error::invalid_option("credential", format!("{name}: {message}"))
            })?;
        }
        if self.source().is_empty() {
            return Err(Error::invalid_option(
                "authSource",
                "it is empty; name a database or leave it out",
            ));
        }
        if rules.external_source && self.source() != EXTERNAL {
            // These mechanisms authenticate users outside of MongoDB, so the source must be
            // `$external` (AUTH-3).
            let message = format!("{name} works only with {EXTERNAL}; leave authSource out");
            return Err(Error::invalid_option("authSource", message));
        }
        if properties_dropped {
            return Ok(());
        }
        self.check_properties(&rules, name)
    }

    /// Checks that the mechanism has a use for the provider and for the list of allowed hosts.
    fn check_provider(&self, name: &str) -> Result<(), Error> {
        let is_oidc = self.mechanism == Some(AuthMechanism::MongoDbOidc);
        if self.oidc_callback.is_set() && !is_oidc {
            let message = format!("{name} cannot use it; it is for MONGODB-OIDC");
            return Err(Error::invalid_option("OIDC callback", message));
        }
        let (wanted, fits) = match &self.provider {
            None => ("", true),
            Some(CredentialProvider::Password(_)) => (
                "SCRAM or PLAIN",
                matches!(
                    self.mechanism,
                    None | Some(
                        AuthMechanism::ScramSha1
                            | AuthMechanism::ScramSha256
                            | AuthMechanism::Plain
                    )
                ),
            ),
            Some(CredentialProvider::Aws(_)) => (
                "MONGODB-AWS",
                self.mechanism == Some(AuthMechanism::MongoDbAws),
            ),
        };
        if !fits {
            let message = format!("{name} cannot use it; it is for {wanted}");
            return Err(Error::invalid_option("credential provider", message));
        }
        if self.allowed_hosts.is_some() && self.oidc_flow() != OidcFlow::Human {
            // Only the human flow names the hosts to which it may send tokens (OIDC prose 2.5).
            let message = "only an OIDC human callback has allowed hosts; remove the list";
            return Err(Error::invalid_option("ALLOWED_HOSTS", message));
        }
        Ok(())
    }

    fn check_properties(&self, rules: &Rules, name: &str) -> Result<(), Error> {
        let refuse =
            |message: String| Err(Error::invalid_option("authMechanismProperties", message));
        for key in self.mechanism_properties.keys() {
            let mut code_only = CODE_ONLY_PROPERTIES.iter();
            if let Some(code) = code_only.find(|code| code.eq_ignore_ascii_case(key)) {
                return refuse(format!(
                    "{code} is no text; set the provider, the callback or the allowed hosts of the \
                     credential"
                ));
            }
            // An unknown property is an error, not ignored (AUTH-8).
            if !rules.properties.iter().any(|p| p.eq_ignore_ascii_case(key)) {
                return refuse(match rules.properties {
                    [] => format!("{name} takes no properties; remove them"),
                    known => format!("{name} takes only {}", known.join(", ")),
                });
            }
        }
        match self.mechanism {
            Some(AuthMechanism::Gssapi) => self.check_gssapi(),
            Some(AuthMechanism::MongoDbOidc) => self.check_oidc(),
            _ => Ok(()),
        }
    }

    fn check_gssapi(&self) -> Result<(), Error> {
        let values = ["none", "forward", "forwardAndReverse", "true", "false"];
        match self.property("CANONICALIZE_HOST_NAME") {
            Some(value) if !values.contains(&value.expose()) => Err(Error::invalid_option(
                "authMechanismProperties",
                "CANONICALIZE_HOST_NAME is one of none, forward, forwardAndReverse",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that a source of tokens is given: an environment or a callback (AUTH-104). A program
    /// can set the callback after a connection string has been parsed.
    fn check_token_source(&self) -> Result<(), Error> {
        let has_one = self.oidc_callback.is_set() || self.property("ENVIRONMENT").is_some();
        match self.mechanism {
            Some(AuthMechanism::MongoDbOidc) if !has_one => Err(Error::invalid_option(
                "authMechanismProperties",
                "MONGODB-OIDC needs ENVIRONMENT (azure, gcp, k8s) or a callback; a callback is \
                 given in code, in Credential::oidc_callback",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that not both an environment and a callback are given (AUTH-104, AUTH-106). The
    /// environments `azure` and `gcp` require `TOKEN_RESOURCE`, which is an error with any other
    /// source (AUTH-105). The environment `test` refuses a user name (AUTH-109).
    fn check_oidc(&self) -> Result<(), Error> {
        let refuse = |message| Err(Error::invalid_option("authMechanismProperties", message));
        let environment = self.property("ENVIRONMENT").map(|e| e.expose());
        if environment.is_some() && self.oidc_callback.is_set() {
            return refuse("ENVIRONMENT conflicts with a callback; remove one of them");
        }
        let resource = match environment {
            Some("azure" | "gcp") => true,
            Some("k8s" | "test") | None => false,
            Some(_) => return refuse("ENVIRONMENT is one of azure, gcp, k8s"),
        };
        match self.property("TOKEN_RESOURCE").is_some() {
            false if resource => return refuse("this ENVIRONMENT needs TOKEN_RESOURCE"),
            true if !resource => {
                return refuse("only ENVIRONMENT azure and gcp take TOKEN_RESOURCE; remove it");
            }
            _ => {}
        }
        if environment == Some("test") && self.username.is_some() {
            return Err(Error::invalid_option(
                "username",
                "ENVIRONMENT test takes no user name",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
