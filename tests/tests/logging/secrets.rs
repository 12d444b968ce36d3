//! Secrets of each mechanism in the output of a client: events, errors, log messages and `Debug`.

mod sources;

use crate::collector::Collector;
use bson::{Document, doc};
use onionskin::{Client, Runtime};
use onionskin_core::{
    event::Event,
    log::LogOptions,
    options::{
        AuthMechanism as Mechanism, AwsCredentialProvider, AwsCredentials, Credential,
        CredentialProvider, Login, OidcCallback, OidcTokens, PasswordProvider, Secret,
    },
    random::Seed,
    time::WallTime,
    uri,
};
use onionskin_deployment::{
    deployment::{AuthMechanism, User},
    identity::{AwsIdentities, AwsIdentity, IssuerOptions, TokenClaims, TokenIssuer},
};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tokio::TokioRuntime;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tracing::Level;

/// The mark in each secret, which no output may have.
const MARK: &str = "m4rk3d";

fn secret(name: &str) -> String {
    format!("{name}-{MARK}-{name}")
}

/// The deployment, and the sources of identities that it accepts.
struct Stage {
    server: Embedded,
    issuer: TokenIssuer,
}

impl Stage {
    fn new() -> Self {
        let seed = Seed::new([7; 32]);
        let issuer = TokenIssuer::new(IssuerOptions::default(), &seed);
        let identities = AwsIdentities::new(&seed);
        let mut identity = AwsIdentity::new("ASIAONE", &secret("aws"));
        identity.session_token = Some(secret("session"));
        identities.add(identity.clone());
        let mut options = ServeOptions::standalone();
        options.auth.mechanisms = AuthMechanism::ALL.to_vec();
        options.auth.issuers = vec![issuer.clone()];
        options.auth.aws = identities;
        options.users = vec![
            User::new("ada", &secret("password")),
            User::ldap("ldap", &secret("ldap")),
            identity.user(),
        ];
        Self {
            server: Embedded::start(options).expect("a server"),
            issuer,
        }
    }

    /// Returns a token whose subject has the mark.
    fn token(&self) -> String {
        let now = WallTime::from_unix(TokioRuntime::default().wall_time());
        self.issuer
            .issue(&TokenClaims::new("me", now, Duration::from_secs(600)))
    }

    /// Returns a credential of each mechanism, right ones and wrong ones.
    fn credentials(&self, token: &str) -> Vec<Credential> {
        let mut found = Vec::new();
        for is_right in [true, false] {
            let of = |name: &str| match is_right {
                true => secret(name),
                false => secret("wrong"),
            };
            for mechanism in [
                None,
                Some(Mechanism::ScramSha1),
                Some(Mechanism::ScramSha256),
            ] {
                let mut scram = Credential::password("ada", of("password"));
                scram.mechanism = mechanism;
                found.push(scram);
            }
            let mut plain = Credential::password("ldap", of("ldap"));
            plain.mechanism = Some(Mechanism::Plain);
            found.push(plain);
            let password = of("password");
            let provider = PasswordProvider::new(move |_| {
                let login = Login::new("ada", password.clone());
                async move { Ok(login) }
            });
            let aws = AwsCredentials::new("ASIAONE", of("aws"));
            let aws = aws.with_session_token(of("session"));
            let aws = AwsCredentialProvider::blocking(move || Ok(aws.clone()));
            let tokens = OidcTokens::new(if is_right {
                token.to_owned()
            } else {
                of("token")
            });
            let tokens = tokens.with_refresh_token(of("refresh"));
            let oidc = OidcCallback::machine(move |_| {
                let tokens = tokens.clone();
                async move { Ok(tokens) }
            });
            for provider in [
                CredentialProvider::Password(provider),
                CredentialProvider::Aws(aws),
            ] {
                found.push(Credential::with_provider(provider));
            }
            found.push(Credential::with_oidc_callback(oidc));
        }
        found
    }
}

/// Uses a client with this credential. Returns whether it was accepted, and everything that the
/// client shows, log messages included.
fn play(runtime: impl Runtime, stage: &Stage, credential: Credential) -> (bool, Vec<String>) {
    let collector = Collector::new(Level::TRACE);
    let _guard = collector.install();
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (is_accepted, mut shown) = tokio.block_on(use_client(runtime, stage, credential));
    shown.extend(collector.lines().iter().map(|line| format!("{line:?}")));
    assert!(shown.len() > 20, "{shown:?}");
    (is_accepted, shown)
}

async fn use_client(
    runtime: impl Runtime,
    stage: &Stage,
    credential: Credential,
) -> (bool, Vec<String>) {
    let address = stage.server.addresses()[0];
    let string = format!("mongodb://{address}/?retryReads=false");
    let mut options = uri::parse(&string).expect("a connection string").options;
    let (provider, callback) = (&credential.provider, &credential.oidc_callback);
    let mut shown = vec![format!("{credential:?} {provider:?} {callback:?}")];
    options.credential = Some(credential);
    shown.push(format!("{options:?}"));
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = events.clone();
    let listener = Arc::new(move |event: &Event| {
        let mut events = sink.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(format!("{event:?} {}", event.kind));
    });
    let client = Client::builder(runtime, options)
        .log_options(LogOptions::default())
        .event_listener(listener)
        .build()
        .expect("a client");
    shown.push(format!("{client:?}"));
    let things = client.database("app").collection::<Document>("things");
    let found = things.find_one(doc! {}).await;
    match &found {
        Err(error) => shown.push(format!("{error} {error:?}")),
        Ok(_) => {
            stage.server.require_reauthentication();
            if let Err(error) = things.find_one(doc! {}).await {
                shown.push(format!("{error} {error:?}"));
            }
        }
    }
    drop(things);
    client.flush_events().await;
    shown.push(format!("{client:?}"));
    client.shutdown().await;
    let events = events.lock().unwrap_or_else(PoisonError::into_inner);
    shown.extend_from_slice(&events);
    (found.is_ok(), shown)
}

#[test]
fn no_secret_of_any_mechanism_is_shown() {
    let stage = Stage::new();
    let token = stage.token();
    let mut accepted = 0;
    let credentials = stage.credentials(&token);
    let half = credentials.len() / 2;
    for credential in credentials {
        let about = format!("{:?}", credential.mechanism);
        let (is_accepted, shown) = play(TokioRuntime::default(), &stage, credential);
        accepted += usize::from(is_accepted);
        for text in &shown {
            assert!(
                !text.contains(MARK) && !text.contains(&token),
                "{about}: {text}"
            );
        }
    }
    assert_eq!(accepted, half, "the right ones");
}

#[test]
fn debug_output_of_provided_secrets_is_redacted() {
    let token = OidcTokens::new(secret("access")).with_refresh_token(secret("refresh"));
    let aws = AwsCredentials::new("AKID", secret("aws")).with_session_token(secret("session"));
    let login = Login::new("ada", secret("password"));
    let text = format!(
        "{token:?} {aws:?} {login:?} {:?}",
        Secret::new(secret("text"))
    );
    assert!(!text.contains(MARK), "{text}");
}
