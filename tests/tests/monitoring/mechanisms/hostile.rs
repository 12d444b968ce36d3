//! Hostile servers: each fault of a server in each mechanism costs its connection, and the round
//! trips of honest servers are the fewest that the mechanism permits.

use super::{all_credentials, everything, issue, reconnect};
use crate::scene::play;
use onionskin_core::{
    error::ErrorKind,
    options::{AuthMechanism, Credential, OidcCallback, OidcTokens},
};
use onionskin_deployment::deployment::{AuthCounts, AuthFault};
use std::time::Duration;

/// The faults that a client accepts, or that do not concern the mechanism.
fn is_harmless(fault: AuthFault, mechanism: AuthMechanism) -> bool {
    use AuthFault::*;
    let is_scram = matches!(
        mechanism,
        AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256
    );
    let is_aws = mechanism == AuthMechanism::MongoDbAws;
    match fault {
        NoIterations | OneIteration | ManyIterations | WrongSignature | ErrorMessage => !is_scram,
        WrongNonce | ShortNonce => !is_scram && !is_aws,
        LongNonce | EmptyHost | EmptyLabel | LongHost => !is_aws,
        // A payload can be a base64 string (AUTH-40).
        TextPayload => true,
        // These mechanisms have one step, whose payload says nothing.
        EarlyDone | OtherConversation | CutPayload | OtherPayload => !is_scram && !is_aws,
        // The command `authenticate` has no conversation.
        _ if mechanism == AuthMechanism::MongoDbX509 => true,
        _ => false,
    }
}

/// A hostile server costs its connection only: the error is typed, the time bounded, and the client
/// works afterwards.
#[test]
fn each_fault_of_a_server_in_each_mechanism_is_a_typed_error() {
    let (options, issuer, identities) = everything();
    play([options], |scene| {
        let (issuer, identities) = (issuer.clone(), identities.clone());
        async move {
            for fault in AuthFault::ALL {
                for (mechanism, credential) in all_credentials(&scene, &issuer, &identities) {
                    let set = |fault| scene.operator.operate(|d| d.set_auth_fault(fault));
                    set(Some(fault));
                    let watched = scene.client_as("retryReads=false", credential);
                    let began = scene.now();
                    let result = watched.find().await;
                    let taken = scene.now() - began;
                    let about = format!("{fault:?} {mechanism}");
                    assert!(taken <= Duration::from_secs(15), "{about}: {taken:?}");
                    let is_harmless = is_harmless(fault, mechanism);
                    assert_eq!(result.is_ok(), is_harmless, "{about}: {result:?}");
                    if let Err(error) = result {
                        let is_typed = matches!(
                            error.kind(),
                            ErrorKind::Authentication { .. }
                                | ErrorKind::Io(_)
                                | ErrorKind::Timeout { .. }
                                | ErrorKind::InvalidResponse { .. }
                        );
                        assert!(is_typed, "{about}: {error}");
                        assert!(error.to_string().len() < 1_000, "{about}: {error}");
                    }
                    set(None);
                    watched
                        .find()
                        .await
                        .unwrap_or_else(|e| panic!("{about}: {e}"));
                    watched.end().await;
                }
            }
        }
    });
}

/// The round trips of a new connection after its hello: none with X.509 and with a cached token,
/// one with SCRAM (AUTH-58) and PLAIN, two with AWS.
#[test]
fn a_new_connection_needs_the_fewest_round_trips() {
    let (options, issuer, identities) = everything();
    play([options], |scene| {
        let (issuer, identities) = (issuer.clone(), identities.clone());
        async move {
            for (mechanism, credential) in all_credentials(&scene, &issuer, &identities) {
                let counts = || scene.operator.inspect(|d| d.auth_counts());
                let watched = scene.client_as("retryReads=false&appname=mechanisms", credential);
                // The first connection fills the caches.
                for is_cold in [true, false] {
                    if !is_cold {
                        reconnect(&scene, &watched).await;
                    }
                    let before = counts();
                    watched.find().await.expect("a login");
                    let after = counts();
                    let spent = (
                        after.starts - before.starts,
                        after.continues - before.continues,
                        after.speculative - before.speculative,
                    );
                    let expected = match (mechanism, is_cold) {
                        (AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256, _) => (0, 1, 1),
                        (AuthMechanism::MongoDbX509, _) => (0, 0, 1),
                        (AuthMechanism::Plain, _) => (1, 0, 0),
                        (AuthMechanism::MongoDbAws, _) => (1, 1, 0),
                        (AuthMechanism::MongoDbOidc, true) => (1, 0, 0),
                        (AuthMechanism::MongoDbOidc, false) => (0, 0, 1),
                        (other, _) => panic!("{other} is new"),
                    };
                    assert_eq!(spent, expected, "{mechanism}, cold: {is_cold}");
                }
                watched.end().await;
            }
        }
    });
}

/// The human flow of a cold client has two steps, and no step with a cached token.
#[test]
fn a_human_login_has_two_steps() {
    let (options, issuer, _) = everything();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
            let callback = OidcCallback::human(move |_| {
                let token = issue(&issuer, &runtime);
                async move { Ok(OidcTokens::new(token)) }
            });
            let mut credential = Credential::with_oidc_callback(callback);
            credential.allowed_hosts = Some(vec!["member0".to_owned()]);
            let counts = || scene.operator.inspect(|d| d.auth_counts());
            let before: AuthCounts = counts();
            let watched = scene.client_as("", credential);
            watched.find().await.expect("a login");
            let after = counts();
            assert_eq!(
                (
                    after.starts - before.starts,
                    after.continues - before.continues
                ),
                (1, 1)
            );
            watched.end().await;
        }
    });
}
