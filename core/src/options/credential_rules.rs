//! The rules of each mechanism about the fields of a credential.

use super::{Credential, Mechanism};
use crate::error::{Error, ErrorKind};

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

const fn rules(mechanism: Mechanism) -> Rules {
    match mechanism {
        // User name and password are required, and properties refused (AUTH-44, AUTH-45, AUTH-47).
        Mechanism::ScramSha1 | Mechanism::ScramSha256 | Mechanism::Plain => USERNAME_AND_PASSWORD,
        // The TLS certificate names the user and needs no password (AUTH-46).
        Mechanism::MongoDbX509 => Rules {
            username: Presence::Optional,
            password: Presence::Forbidden,
            external_source: true,
            properties: &[],
        },
        // A password is optional, because a ticket can replace it (AUTH-48).
        Mechanism::GssApi => Rules {
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
        Mechanism::MongoDbAws => Rules {
            username: Presence::Forbidden,
            password: Presence::Forbidden,
            external_source: true,
            properties: &["AWS_CREDENTIAL_PROVIDER"],
        },
        // A token replaces the password, and a property names the source of the token (AUTH-50).
        Mechanism::MongoDbOidc => Rules {
            username: Presence::Optional,
            password: Presence::Forbidden,
            external_source: true,
            properties: &[
                "ENVIRONMENT",
                "TOKEN_RESOURCE",
                "OIDC_CALLBACK",
                "OIDC_HUMAN_CALLBACK",
                "ALLOWED_HOSTS",
            ],
        },
    }
}

fn invalid(option: &'static str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption {
        option,
        message: message.into(),
    })
}

impl Credential {
    /// Checks that the credential has all fields that its mechanism requires, and none that it
    /// refuses ([AUTH-4]).
    ///
    /// ```
    /// use onionskin_core::options::{Credential, Mechanism};
    ///
    /// let mut credential = Credential::password("me", "pencil");
    /// assert!(credential.validate().is_ok());
    /// credential.mechanism = Some(Mechanism::MongoDbX509);
    /// assert!(credential.validate().is_err(), "a certificate needs no password");
    /// ```
    ///
    /// [AUTH-4]: crate::requirements::authentication#AUTH-4
    pub fn validate(&self) -> Result<(), Error> {
        self.check_from_uri(false)?;
        if self.mechanism.is_none() && self.password.is_none() {
            return Err(invalid("password", "SCRAM needs a password; give one"));
        }
        Ok(())
    }

    /// Checks a credential that was read from a connection string.
    ///
    /// The rules are those of [`validate`](Self::validate) with two exceptions. Without a
    /// mechanism, a user name may be given without a password (AUTH-136). If the properties could
    /// not be read, they are not checked, because the parser has warned already (CS-32).
    pub(crate) fn check_from_uri(&self, properties_dropped: bool) -> Result<(), Error> {
        let rules = self.mechanism.map_or(USERNAME_AND_PASSWORD, rules);
        let name = self.mechanism.map_or("SCRAM", Mechanism::name);
        let username = self.username.as_deref().unwrap_or_default();
        match rules.username {
            // An empty user name, as in `mongodb://@host`, is an error too (AUTH-2, AUTH-5,
            // AUTH-9).
            Presence::Required if username.is_empty() => {
                let message = format!("{name} needs a user name; give one before the @");
                return Err(invalid("username", message));
            }
            Presence::Forbidden if self.username.is_some() => {
                let message = format!("{name} takes no user name; leave it out");
                return Err(invalid("username", message));
            }
            _ => {}
        }
        match rules.password {
            Presence::Required if self.mechanism.is_some() && self.password.is_none() => {
                let message = format!("{name} needs a password; give one after the user name");
                return Err(invalid("password", message));
            }
            Presence::Forbidden if self.password.is_some() => {
                let message = format!("{name} takes no password; leave it out");
                return Err(invalid("password", message));
            }
            _ => {}
        }
        if self.source.is_empty() {
            return Err(invalid(
                "authSource",
                "it is empty; name a database or leave it out",
            ));
        }
        if rules.external_source && self.source != EXTERNAL {
            // These mechanisms authenticate users outside of MongoDB, so the source must be
            // `$external` (AUTH-3).
            let message = format!("{name} works only with {EXTERNAL}; leave authSource out");
            return Err(invalid("authSource", message));
        }
        if properties_dropped {
            return Ok(());
        }
        self.check_properties(&rules, name)
    }

    /// False for the mechanisms that authenticate users outside of MongoDB, whose source is always
    /// `$external`.
    pub(crate) fn permits_sources(&self) -> bool {
        !self
            .mechanism
            .is_some_and(|mechanism| rules(mechanism).external_source)
    }

    fn check_properties(&self, rules: &Rules, name: &str) -> Result<(), Error> {
        let refuse = |message: String| Err(invalid("authMechanismProperties", message));
        for key in self.properties.keys() {
            // An unknown property is an error, not ignored (AUTH-8).
            if !rules.properties.iter().any(|p| p.eq_ignore_ascii_case(key)) {
                return refuse(match rules.properties {
                    [] => format!("{name} takes no properties; remove them"),
                    known => format!("{name} takes only {}", known.join(", ")),
                });
            }
        }
        match self.mechanism {
            Some(Mechanism::GssApi) => self.check_gssapi(),
            Some(Mechanism::MongoDbOidc) => self.check_oidc(),
            _ => Ok(()),
        }
    }

    fn check_gssapi(&self) -> Result<(), Error> {
        let values = ["none", "forward", "forwardAndReverse", "true", "false"];
        match self.property("CANONICALIZE_HOST_NAME") {
            Some(value) if !values.contains(&value.expose()) => Err(invalid(
                "authMechanismProperties",
                "CANONICALIZE_HOST_NAME is one of none, forward, forwardAndReverse",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that exactly one source of tokens is given: an environment or one callback (AUTH-104
    /// to AUTH-106). The environments `azure` and `gcp` require `TOKEN_RESOURCE`, which is an error
    /// with any other source. The environment `test` refuses a user name (AUTH-109).
    fn check_oidc(&self) -> Result<(), Error> {
        let refuse = |message| Err(invalid("authMechanismProperties", message));
        let machine = self.property("OIDC_CALLBACK").is_some();
        let human = self.property("OIDC_HUMAN_CALLBACK").is_some();
        let environment = self.property("ENVIRONMENT").map(|e| e.expose());
        match (environment, machine, human) {
            (None, false, false) => {
                return refuse("MONGODB-OIDC needs ENVIRONMENT (azure, gcp, k8s) or a callback");
            }
            (_, true, true) => {
                return refuse(
                    "OIDC_CALLBACK and OIDC_HUMAN_CALLBACK conflict; remove one of them",
                );
            }
            (Some(_), true, _) | (Some(_), _, true) => {
                return refuse("ENVIRONMENT conflicts with a callback; remove one of them");
            }
            _ => {}
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
            return Err(invalid("username", "ENVIRONMENT test takes no user name"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Secret;
    use Mechanism::{GssApi, MongoDbAws, MongoDbOidc, MongoDbX509, Plain, ScramSha256};

    /// User name, password and source. An empty text means that the field is not set.
    type Fields = (&'static str, &'static str, &'static str);

    type Properties = &'static [(&'static str, &'static str)];

    fn check(
        mechanism: Option<Mechanism>,
        (username, password, source): Fields,
        properties: &[(&str, &str)],
    ) -> Result<(), Error> {
        let given = |text: &'static str| (!text.is_empty()).then_some(text);
        let mut credential = Credential::empty(source);
        credential.mechanism = mechanism;
        credential.username = given(username).map(str::to_owned);
        credential.password = given(password).map(Secret::new);
        let properties = properties.iter();
        credential.properties = properties
            .map(|&(key, value)| (key.to_owned(), Secret::new(value)))
            .collect();
        credential.validate()
    }

    #[test]
    fn each_mechanism_validates_its_credential_fields() {
        // Each mechanism requires some fields and refuses others (AUTH-44 to AUTH-50).
        for (mechanism, fields, allowed) in [
            (None, ("u", "p", "admin"), true),
            (None, ("u", "", "admin"), false),
            (None, ("", "p", "admin"), false),
            (None, ("u", "p", ""), false),
            (Some(ScramSha256), ("u", "p", "db"), true),
            (Some(ScramSha256), ("u", "", "db"), false),
            (Some(Plain), ("u", "p", "db"), true),
            (Some(Plain), ("u", "", "$external"), false),
            (Some(MongoDbX509), ("", "", "$external"), true),
            (Some(MongoDbX509), ("u", "", "$external"), true),
            (Some(MongoDbX509), ("u", "p", "$external"), false),
            (Some(MongoDbX509), ("u", "", "admin"), false),
            (Some(GssApi), ("u", "", "$external"), true),
            (Some(GssApi), ("u", "p", "$external"), true),
            (Some(GssApi), ("", "p", "$external"), false),
            (Some(GssApi), ("u", "", "admin"), false),
            (Some(MongoDbAws), ("", "", "$external"), true),
            (Some(MongoDbAws), ("u", "p", "$external"), false),
            (Some(MongoDbOidc), ("", "", "$external"), false),
        ] {
            let found = check(mechanism, fields, &[]);
            assert_eq!(
                found.is_ok(),
                allowed,
                "{mechanism:?} {fields:?}: {found:?}"
            );
        }
    }

    #[test]
    fn an_authentication_property_of_another_mechanism_is_refused() {
        // A property of another mechanism is an error (AUTH-8), and letter case does not count
        // (AUTH-10).
        for (mechanism, property, allowed) in [
            (None, "SERVICE_NAME", false),
            (Some(ScramSha256), "SERVICE_NAME", false),
            (Some(GssApi), "service_name", true),
            (Some(GssApi), "ENVIRONMENT", false),
            (Some(GssApi), "CANONICALIZE_HOST_NAME", false),
        ] {
            let source = if mechanism == Some(GssApi) {
                "$external"
            } else {
                "admin"
            };
            let found = check(mechanism, ("u", "p", source), &[(property, "x")]);
            assert_eq!(
                found.is_ok(),
                allowed,
                "{mechanism:?} {property}: {found:?}"
            );
        }
        let token = [("AWS_SESSION_TOKEN", "t")];
        assert!(check(Some(MongoDbAws), ("", "", "$external"), &token).is_err());
    }

    #[test]
    fn oidc_needs_one_source_of_tokens() {
        // A token comes from an environment or from one callback (AUTH-104 to AUTH-106). A password
        // is always an error, and a user name is one for the environment `test` (AUTH-109).
        const RESOURCE: (&str, &str) = ("Token_Resource", "r");
        let user = ("u", "", "$external");
        let no_user = ("", "", "$external");
        let cases: &[(Fields, Properties, bool)] = &[
            (user, &[("environment", "azure"), RESOURCE], true),
            (
                ("u", "p", "$external"),
                &[("ENVIRONMENT", "azure"), RESOURCE],
                false,
            ),
            (no_user, &[("ENVIRONMENT", "gcp")], false),
            (no_user, &[("ENVIRONMENT", "k8s")], true),
            (no_user, &[("ENVIRONMENT", "k8s"), RESOURCE], false),
            (no_user, &[("ENVIRONMENT", "test")], true),
            (user, &[("ENVIRONMENT", "test")], false),
            (no_user, &[("ENVIRONMENT", "moon")], false),
            (no_user, &[("OIDC_CALLBACK", "")], true),
            (
                no_user,
                &[("OIDC_CALLBACK", ""), ("OIDC_HUMAN_CALLBACK", "")],
                false,
            ),
            (
                no_user,
                &[("ENVIRONMENT", "k8s"), ("OIDC_CALLBACK", "")],
                false,
            ),
        ];
        for (fields, properties, allowed) in cases {
            let found = check(Some(MongoDbOidc), *fields, properties);
            assert_eq!(
                found.is_ok(),
                *allowed,
                "{fields:?} {properties:?}: {found:?}"
            );
        }
    }
}
