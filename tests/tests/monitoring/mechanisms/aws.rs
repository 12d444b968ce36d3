//! MONGODB-AWS with each source of credentials, and the prose tests of the credential cache.

use super::{LIFETIME, fail_once, open_to_all, reconnect, wall_time, with_issuer};
use crate::scene::{Scene, Watched, play};
use bson::doc;
use onionskin_core::{
    options::{
        AuthMechanism, AwsCredentialProvider, AwsCredentials, Credential, CredentialProvider,
        Secret,
    },
    random::Seed,
};
use onionskin_deployment::{
    deployment::{DeploymentOptions, User},
    identity::{AwsIdentities, AwsIdentity, IdentityFault, IdentityOptions, TokenClaims},
};
use onionskin_worlds::world::runtime::SimIdentityServer;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The addresses of the metadata services of EC2 and ECS.
const EC2: &str = "169.254.169.254:80";
const ECS: &str = "169.254.170.2:80";

/// The user of all roles that the identity server assumes.
const ROLE_USER: &str = "arn:aws:sts::123456789012:assumed-role/onionskin/*";

/// Returns the options of a deployment that accepts AWS credentials, and the table of these.
fn with_identities() -> (DeploymentOptions, AwsIdentities) {
    let identities = AwsIdentities::new(&Seed::new([5; 32]));
    let mut options = open_to_all();
    options.auth.aws = identities.clone();
    options.users.push(User::external(ROLE_USER));
    options.users.push(AwsIdentity::new("", "").user());
    (options, identities)
}

fn credential() -> Credential {
    let mut credential = Credential::builder().source("$external".to_owned()).build();
    credential.mechanism = Some(AuthMechanism::MongoDbAws);
    credential
}

fn client(scene: &Scene) -> Watched {
    scene.client_as(
        "retryReads=false&retryWrites=false&appname=mechanisms",
        credential(),
    )
}

/// Starts an identity server with the table of the deployment.
fn start(scene: &Scene, address: &str, identities: &AwsIdentities) -> SimIdentityServer {
    let address: SocketAddr = address.parse().expect("an address");
    let options = IdentityOptions {
        aws: identities.clone(),
        lifetime: LIFETIME * 4,
        ..IdentityOptions::default()
    };
    let server = scene
        .runtime
        .start_identity_server(address, options, &Seed::new([9; 32]));
    server.expect("a free address")
}

/// AWS prose 1, 4 and 6: credentials in the environment, with and without a session token.
#[test]
fn credentials_of_the_environment_are_read_for_each_connection() {
    let (options, identities) = with_identities();
    play([options], |scene| {
        let identities = identities.clone();
        async move {
            let set = |name, value| scene.runtime.set_variable(name, value);
            identities.add(AwsIdentity::new("AKIDONE", "secret one"));
            let mut temporary = AwsIdentity::new("ASIATWO", "secret two");
            temporary.session_token = Some("session".to_owned());
            identities.add(temporary);
            set("AWS_ACCESS_KEY_ID", Some("AKIDONE"));
            set("AWS_SECRET_ACCESS_KEY", Some("secret one"));
            let watched = client(&scene);
            watched.find().await.expect("a login");
            // Another part of the application replaces the credentials (AUTH-89).
            identities.remove("AKIDONE");
            set("AWS_ACCESS_KEY_ID", Some("ASIATWO"));
            set("AWS_SECRET_ACCESS_KEY", Some("secret two"));
            set("AWS_SESSION_TOKEN", Some("session"));
            reconnect(&scene, &watched).await;
            watched
                .find()
                .await
                .expect("a login with the new credentials");
            // Without the session token the server refuses the signature.
            set("AWS_SESSION_TOKEN", None);
            reconnect(&scene, &watched).await;
            let error = watched.find().await.expect_err("no token");
            assert_eq!(error.code(), Some(18));
            assert!(!error.to_string().contains("secret two"), "{error}");
            watched.end().await;
        }
    });
}

/// AWS prose 2: the credentials of an EC2 instance (AUTH-93).
#[test]
fn an_instance_gets_its_credentials_from_the_metadata_service() {
    let (options, identities) = with_identities();
    play([options], |scene| {
        let identities = identities.clone();
        async move {
            let server = start(&scene, EC2, &identities);
            let watched = client(&scene);
            watched.find().await.expect("a login");
            let path = "/latest/meta-data/iam/security-credentials/";
            assert_eq!(
                server.server().requests(),
                [
                    "PUT /latest/api/token 200".to_owned(),
                    format!("GET {path} 200"),
                    format!("GET {path}onionskin 200"),
                ]
            );
            watched.end().await;
        }
    });
}

/// AWS prose 3: the credentials of a task in ECS (AUTH-92).
#[test]
fn a_container_gets_its_credentials_from_its_endpoint() {
    let (options, identities) = with_identities();
    play([options], |scene| {
        let identities = identities.clone();
        async move {
            let server = start(&scene, ECS, &identities);
            let path = "/v2/credentials/onionskin";
            let variable = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
            scene.runtime.set_variable(variable, Some(path));
            let watched = client(&scene);
            watched.find().await.expect("a login");
            assert_eq!(server.server().requests(), [format!("GET {path} 200")]);
            watched.end().await;
        }
    });
}

/// AWS prose 5: a web identity, with and without `AWS_ROLE_SESSION_NAME` (AUTH-91). The real
/// endpoint needs TLS, so the variable of the AWS SDKs names another one.
#[test]
fn a_web_identity_is_exchanged_for_credentials() {
    let (options, identities) = with_identities();
    let (_, issuer) = with_issuer();
    play([options], |scene| {
        let (identities, issuer) = (identities.clone(), issuer.clone());
        async move {
            let server = start(&scene, "10.1.2.3:80", &identities);
            server.server().options_mut().issuer = Some(issuer.clone());
            let set = |name, value| scene.runtime.set_variable(name, value);
            set("AWS_WEB_IDENTITY_TOKEN_FILE", Some("/var/token"));
            set(
                "AWS_ROLE_ARN",
                Some("arn:aws:iam::123456789012:role/onionskin"),
            );
            set("AWS_ENDPOINT_URL_STS", Some("http://10.1.2.3/"));
            let claims = TokenClaims::new("me", wall_time(&scene.runtime), LIFETIME);
            let token = issuer.issue(&claims);
            scene.runtime.set_file("/var/token", Some(&token));
            for name in [None, Some("app1")] {
                set("AWS_ROLE_SESSION_NAME", name);
                let watched = client(&scene);
                watched.find().await.expect("a login");
                watched.end().await;
            }
            assert_eq!(server.server().requests(), ["POST / 200", "POST / 200"]);
            // Each client logged in with the only credentials that were issued for it.
            let arns = identities.temporary_arns();
            let [.., random, named] = arns.as_slice() else {
                panic!("two sessions, not {arns:?}");
            };
            let prefix = ROLE_USER.trim_end_matches('*');
            assert_eq!(*named, format!("{prefix}app1"));
            let random = random.strip_prefix(prefix).expect("a session of the role");
            assert!(random.len() >= 16 && random != "app1", "{random}");
        }
    });
}

/// AWS prose 7a: credentials of an endpoint are cached until 5 minutes before they expire, and
/// until authentication fails (AUTH-98, AUTH-100).
#[test]
fn credentials_of_an_endpoint_are_cached() {
    let (options, identities) = with_identities();
    play([options], |scene| {
        let identities = identities.clone();
        async move {
            let server = start(&scene, EC2, &identities);
            let fetches = || server.server().requests().len() / 3;
            let watched = client(&scene);
            watched.find().await.expect("a login");
            reconnect(&scene, &watched).await;
            watched
                .find()
                .await
                .expect("a login with the cached credentials");
            assert_eq!(fetches(), 1);
            // The credentials are valid for 20 minutes.
            scene.pause_for(Duration::from_secs(14 * 60)).await;
            reconnect(&scene, &watched).await;
            watched
                .find()
                .await
                .expect("a login with the cached credentials");
            assert_eq!(fetches(), 1);
            scene.pause_for(Duration::from_secs(2 * 60)).await;
            reconnect(&scene, &watched).await;
            watched.find().await.expect("a login with new credentials");
            assert_eq!(fetches(), 2);
            // A failure removes the cached credentials. The next connection fetches new ones.
            reconnect(&scene, &watched).await;
            fail_once(&scene, "saslStart", doc! { "errorCode": 18 }).await;
            watched.find().await.expect_err("no login");
            watched.find().await.expect("a login with new credentials");
            assert_eq!(fetches(), 3);
            watched.end().await;
        }
    });
}

/// AWS prose 7b: credentials of the environment are not cached, and do not replace cached ones
/// (AUTH-90, AUTH-98).
#[test]
fn the_environment_is_not_cached_and_does_not_replace_the_cache() {
    let (options, identities) = with_identities();
    play([options], |scene| {
        let identities = identities.clone();
        async move {
            let server = start(&scene, EC2, &identities);
            let set = |name, value| scene.runtime.set_variable(name, value);
            identities.add(AwsIdentity::new("AKIDONE", "secret one"));
            set("AWS_ACCESS_KEY_ID", Some("AKIDONE"));
            set("AWS_SECRET_ACCESS_KEY", Some("secret one"));
            let watched = client(&scene);
            watched.find().await.expect("a login");
            assert!(server.server().requests().is_empty());
            // Wrong credentials in the environment are used, because nothing is cached.
            set("AWS_SECRET_ACCESS_KEY", Some("wrong"));
            reconnect(&scene, &watched).await;
            watched.find().await.expect_err("a wrong secret");
            set("AWS_ACCESS_KEY_ID", None);
            set("AWS_SECRET_ACCESS_KEY", None);
            watched
                .find()
                .await
                .expect("a login with the credentials of the instance");
            assert_eq!(server.server().requests().len(), 3);
            // Wrong credentials in the environment are ignored now.
            set("AWS_ACCESS_KEY_ID", Some("AKIDONE"));
            set("AWS_SECRET_ACCESS_KEY", Some("wrong"));
            reconnect(&scene, &watched).await;
            watched
                .find()
                .await
                .expect("a login with the cached credentials");
            assert_eq!(server.server().requests().len(), 3);
            scene.pause_for(LIFETIME * 4).await;
            reconnect(&scene, &watched).await;
            watched
                .find()
                .await
                .expect("a login with refreshed credentials");
            assert_eq!(server.server().requests().len(), 6);
            watched.end().await;
        }
    });
}

/// AWS prose 8 and 9: a provider of the application authenticates, with and without a session
/// token, and precedes the environment (AUTH-101).
#[test]
fn a_provider_precedes_the_environment() {
    let (options, identities) = with_identities();
    play([options], |scene| {
        let identities = identities.clone();
        async move {
            identities.add(AwsIdentity::new("AKIDONE", "secret one"));
            let mut temporary = AwsIdentity::new("ASIATWO", "secret two");
            temporary.session_token = Some("session".to_owned());
            identities.add(temporary);
            let set = |name, value| scene.runtime.set_variable(name, value);
            set("AWS_ACCESS_KEY_ID", Some("AKIDONE"));
            set("AWS_SECRET_ACCESS_KEY", Some("wrong"));
            let mut with_token = AwsCredentials::new("ASIATWO", "secret two");
            with_token.session_token = Some(Secret::new("session"));
            for (provided, is_known) in [
                (AwsCredentials::new("AKIDONE", "secret one"), true),
                (with_token, true),
                (AwsCredentials::new("ASIATWO", "secret two"), false),
            ] {
                let calls = Arc::new(AtomicUsize::new(0));
                let inside = calls.clone();
                let provider = AwsCredentialProvider::new(move || {
                    inside.fetch_add(1, Ordering::Relaxed);
                    let provided = provided.clone();
                    async move { Ok(provided) }
                });
                let credential = Credential::with_provider(CredentialProvider::Aws(provider));
                let watched = scene.client_as("", credential);
                assert_eq!(watched.find().await.is_ok(), is_known);
                assert!(calls.load(Ordering::Relaxed) >= 1);
                assert!(!is_known || calls.load(Ordering::Relaxed) == 1);
                watched.end().await;
            }
        }
    });
}

/// Without credentials the error names the last source (AUTH-95), and the time is bounded by the
/// limit of one request (AUTH-94).
#[test]
fn missing_credentials_fail_with_the_name_of_the_last_source() {
    let (options, identities) = with_identities();
    play([options], |scene| {
        let identities = identities.clone();
        async move {
            let watched = client(&scene);
            let error = watched.find().await.expect_err("no endpoint").to_string();
            assert!(
                error.contains("no AWS credentials") && error.contains("169.254.169.254"),
                "{error}"
            );
            let server = start(&scene, EC2, &identities);
            server.server().set_fault(Some(IdentityFault::Silence));
            let began = scene.now();
            let error = watched
                .find()
                .await
                .expect_err("a silent endpoint")
                .to_string();
            assert!(error.contains("within the time limit"), "{error}");
            assert_eq!((scene.now() - began).as_secs(), 10);
            server.server().set_fault(None);
            watched.find().await.expect("a login");
            watched.end().await;
        }
    });
}

/// Each fault of an endpoint costs an error or nothing, within the limits of three requests.
#[test]
fn each_fault_of_an_endpoint_is_bounded() {
    let (options, identities) = with_identities();
    play([options], |scene| {
        let identities = identities.clone();
        async move {
            let server = start(&scene, EC2, &identities);
            for fault in IdentityFault::ALL {
                server.server().set_fault(Some(fault));
                let watched = client(&scene);
                let began = scene.now();
                let result = watched.find().await;
                let taken = scene.now() - began;
                assert!(
                    taken <= Duration::from_secs(31),
                    "{fault:?} takes {taken:?}"
                );
                let is_harmless = matches!(
                    fault,
                    IdentityFault::Chunked
                        | IdentityFault::NegativeExpiry
                        | IdentityFault::MissingExpiry
                );
                assert_eq!(result.is_ok(), is_harmless, "{fault:?}: {result:?}");
                if let Err(error) = result {
                    let text = error.to_string();
                    assert!(text.contains("no AWS credentials"), "{fault:?}: {text}");
                    assert!(text.len() < 1000, "{fault:?}: {} bytes", text.len());
                }
                server.server().set_fault(None);
                watched.find().await.expect("a login after the fault");
                watched.end().await;
            }
        }
    });
}
