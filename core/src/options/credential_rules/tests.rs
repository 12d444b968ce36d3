//! Tests of the rules about the fields of credentials.

use super::*;
use crate::options::{
    AwsCredentialProvider, AwsCredentials, Login, OidcCallback, OidcTokens, PasswordProvider,
};
use AuthMechanism::{Gssapi, MongoDbAws, MongoDbOidc, MongoDbX509, Plain, ScramSha256};

/// User name, password and source. An empty text means that the field is not set.
type Fields = (&'static str, &'static str, &'static str);

type Properties = &'static [(&'static str, &'static str)];

fn check(
    mechanism: Option<AuthMechanism>,
    (username, password, source): Fields,
    properties: &[(&str, &str)],
) -> Result<(), Error> {
    let given = |text: &'static str| (!text.is_empty()).then_some(text);
    let mut credential = Credential::builder().source(source.to_owned()).build();
    credential.mechanism = mechanism;
    credential.username = given(username).map(str::to_owned);
    credential.password = given(password).map(Secret::new);
    let properties = properties.iter();
    credential.mechanism_properties = properties
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
        (Some(Gssapi), ("u", "", "$external"), true),
        (Some(Gssapi), ("u", "p", "$external"), true),
        (Some(Gssapi), ("", "p", "$external"), false),
        (Some(Gssapi), ("u", "", "admin"), false),
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
        (Some(Gssapi), "service_name", true),
        (Some(Gssapi), "ENVIRONMENT", false),
        (Some(Gssapi), "CANONICALIZE_HOST_NAME", false),
    ] {
        let source = if mechanism == Some(Gssapi) {
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
fn a_provider_replaces_the_secrets_of_its_mechanism_only() {
    let password = PasswordProvider::blocking(|_| Ok(Login::new("u", "p")));
    let aws = AwsCredentialProvider::blocking(|| Ok(AwsCredentials::new("id", "secret")));
    let oidc = OidcCallback::blocking(OidcFlow::Machine, |_| Ok(OidcTokens::new("t")));
    let human = OidcCallback::blocking(OidcFlow::Human, |_| Ok(OidcTokens::new("t")));
    let password = Credential::with_provider(CredentialProvider::Password(password));
    let aws = Credential::with_provider(CredentialProvider::Aws(aws));
    let (oidc, human) = [oidc, human].map(Credential::with_oidc_callback).into();
    let fits_password = |m| matches!(m, AuthMechanism::ScramSha1 | ScramSha256 | Plain);
    let cases: [(&Credential, &dyn Fn(AuthMechanism) -> bool); 4] = [
        (&password, &fits_password),
        (&aws, &|mechanism| mechanism == MongoDbAws),
        (&oidc, &|mechanism| mechanism == MongoDbOidc),
        (&human, &|mechanism| mechanism == MongoDbOidc),
    ];
    for (credential, fits) in cases {
        assert_eq!(credential.validate(), Ok(()), "{credential:?}");
        let mut credential = credential.clone();
        for mechanism in AuthMechanism::ALL {
            credential.mechanism = Some(mechanism);
            let external = !matches!(mechanism, AuthMechanism::ScramSha1 | ScramSha256);
            let source = if external { "$external" } else { "admin" };
            credential.source = Some(source.to_owned());
            let found = credential.validate();
            assert_eq!(found.is_ok(), fits(mechanism), "{mechanism}: {found:?}");
        }
    }
    let mut both = password;
    both.password = Some(Secret::new("p"));
    assert!(
        both.validate().is_err(),
        "a password and a provider of passwords"
    );
    let mut both = oidc.clone();
    both.provider = aws.provider;
    assert!(both.validate().is_err(), "a callback and a provider");
    // OIDC prose 2.4: a callback and an environment conflict (AUTH-104).
    let mut both = oidc.clone();
    let test = ("ENVIRONMENT".to_owned(), Secret::new("test"));
    both.mechanism_properties.extend([test]);
    assert!(both.validate().is_err());
    // OIDC prose 2.5: `ALLOWED_HOSTS` is for the human flow only (AUTH-108).
    for (mut credential, allowed) in [(oidc, false), (human, true)] {
        credential.allowed_hosts = Some(Vec::new());
        assert_eq!(credential.validate().is_ok(), allowed);
    }
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
        (no_user, &[("OIDC_CALLBACK", "")], false),
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

#[test]
fn a_password_that_its_mechanism_cannot_send_is_refused() {
    // PLAIN separates its fields by zero bytes (RFC 4616, section 2), and SASLprep forbids control
    // characters. SCRAM-SHA-1 takes each password (AUTH-53).
    for (mechanism, username, password, expected) in [
        (Plain, "x\0ada", "pencil", Some("the user name")),
        (Plain, "ada", "pen\0cil", Some("the password")),
        (ScramSha256, "ada", "pencil\n", Some("SASLprep")),
        (AuthMechanism::ScramSha1, "ada", "pencil\n", None),
    ] {
        let found = check(Some(mechanism), (username, password, "db"), &[]);
        match expected {
            Some(expected) => {
                let error = found
                    .expect_err("a password that cannot be sent")
                    .to_string();
                assert!(error.contains(expected), "{error}");
                assert!(!error.contains("pencil"), "{error}");
            }
            None => assert!(found.is_ok(), "{found:?}"),
        }
    }
    let mut empty = Credential::password("ada", "");
    empty.mechanism = Some(Plain);
    assert!(empty.validate().is_err());
}
