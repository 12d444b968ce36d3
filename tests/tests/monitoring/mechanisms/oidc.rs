//! The prose tests of MONGODB-OIDC for the machine flow, and tests of tokens that expire.

use super::{Calls, LIFETIME, fail_once, issue, with_issuer};
use crate::{
    event_log::command_name,
    scene::{Scene, Watched, play},
};
use bson::{Document, doc};
use onionskin_core::{
    error::Error,
    event::{CommandEvent, EventKind},
    options::{OidcCallback, OidcFlow, OidcTokens},
};
use onionskin_deployment::identity::TokenIssuer;
use std::time::Duration;

/// The options of the prose tests.
pub(super) const PROSE: &str =
    "retryReads=false&retryWrites=false&maxPoolSize=20&appname=mechanisms";

/// A callback that always returns a valid token.
fn valid(scene: &Scene, issuer: &TokenIssuer) -> (Calls, OidcCallback) {
    let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
    Calls::of(OidcFlow::Machine, move |_, _| {
        Ok::<_, Error>(OidcTokens::new(issue(&issuer, &runtime)))
    })
}

/// A callback that returns a valid token in the first calls, and a wrong one afterwards.
fn valid_until(scene: &Scene, issuer: &TokenIssuer, last_valid: usize) -> (Calls, OidcCallback) {
    let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
    Calls::of(OidcFlow::Machine, move |number, _| {
        Ok::<_, Error>(OidcTokens::new(match number <= last_valid {
            true => issue(&issuer, &runtime),
            false => "wrong".to_owned(),
        }))
    })
}

fn code(error: &Error) -> Option<i32> {
    error.code()
}

/// OIDC prose 1.1: the callback is called during authentication.
#[test]
fn a_callback_is_called_during_authentication() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = valid(&scene, &issuer);
            let watched = scene.client_by(PROSE, provider);
            watched.find().await.expect("a login");
            assert_eq!(calls.count(), 1);
            watched.end().await;
        }
    });
}

/// OIDC prose 1.2: the callback is called once for many connections.
#[test]
fn a_callback_is_called_once_for_many_connections() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = valid(&scene, &issuer);
            let watched = scene.client_by(PROSE, provider);
            let tasks: Vec<_> = (0..10)
                .map(|_| {
                    let things = watched.things();
                    scene.spawn(async move {
                        for _ in 0..100 {
                            things.find_one(doc! {}).await.expect("a login");
                        }
                    })
                })
                .collect();
            for task in tasks {
                scene.ended("the finds", task).await;
            }
            assert_eq!(calls.count(), 1);
            watched.end().await;
        }
    });
}

/// OIDC prose 2.1: the inputs of the callback.
#[test]
fn a_callback_gets_valid_inputs() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = valid(&scene, &issuer);
            let watched = scene.client_by(PROSE, provider);
            watched.find().await.expect("a login");
            let requests = calls.requests();
            assert_eq!(requests.len(), 1);
            assert_eq!(requests[0].timeout, Duration::from_secs(60));
            assert_eq!(requests[0].version, 1);
            assert_eq!(requests[0].username, None);
            assert!(requests[0].idp_info.is_none() && requests[0].refresh_token.is_none());
            watched.end().await;
        }
    });
}

/// OIDC prose 2.2 and 2.3: a callback without a result, and one with an empty token.
#[test]
fn a_callback_without_a_token_fails_the_operation() {
    let (options, _) = with_issuer();
    play([options], |scene| async move {
        let failing = Calls::of(OidcFlow::Machine, |_, _| Err("the vault is sealed"));
        let empty = Calls::of(OidcFlow::Machine, |_, _| {
            Ok::<_, Error>(OidcTokens::new(""))
        });
        for ((calls, provider), reason) in [
            (failing, "the vault is sealed"),
            (empty, "empty access token"),
        ] {
            let watched = scene.client_by(PROSE, provider);
            let error = watched.find().await.expect_err("no token");
            assert!(error.to_string().contains(reason), "{error}");
            assert_eq!(calls.count(), 1);
            watched.end().await;
        }
    });
}

/// OIDC prose 3.1: a token in the cache that the server refuses is replaced.
#[test]
fn a_refused_token_in_the_cache_is_replaced() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = valid(&scene, &issuer);
            let watched = scene.client_by(PROSE, provider);
            watched.find().await.expect("a login");
            // The issuer's keys are replaced, and a new connection authenticates.
            issuer.replace_keys();
            fail_once(&scene, "find", doc! { "closeConnection": true }).await;
            watched.find().await.expect_err("the connection is closed");
            watched.find().await.expect("another token");
            assert_eq!(calls.count(), 2);
            watched.end().await;
        }
    });
}

/// OIDC prose 3.2: a fresh token that the server refuses fails the operation, after one call.
#[test]
fn a_refused_fresh_token_fails_the_operation() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = valid_until(&scene, &issuer, 0);
            let watched = scene.client_by(PROSE, provider);
            let error = watched.find().await.expect_err("no login");
            assert_eq!(code(&error), Some(18));
            assert_eq!(calls.count(), 1);
            watched.end().await;
        }
    });
}

/// OIDC prose 3.3: another error than 18 leaves the cache alone.
#[test]
fn an_unexpected_error_keeps_the_token_in_the_cache() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = valid(&scene, &issuer);
            let watched = scene.client_by(PROSE, provider);
            fail_once(&scene, "saslStart", doc! { "errorCode": 20 }).await;
            let error = watched.find().await.expect_err("no login");
            assert_eq!(code(&error), Some(20));
            watched.find().await.expect("a login");
            assert_eq!(calls.count(), 1);
            watched.end().await;
        }
    });
}

/// Returns the names of the command events, for example `find started`.
fn commands(watched: &Watched) -> Vec<String> {
    watched.events.notes(command_name)
}

/// OIDC prose 4.1: error 391 makes the connection authenticate again, and the operation runs again.
/// The events are those of the official test file `mongodb-oidc-no-retry`.
#[test]
fn a_read_and_a_write_succeed_after_authentication_was_required_again() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            for command in ["find", "insert"] {
                let (calls, provider) = valid(&scene, &issuer);
                let watched = scene.client_by(PROSE, provider);
                fail_once(&scene, command, doc! { "errorCode": 391 }).await;
                match command {
                    "find" => drop(watched.find().await.expect("another login")),
                    _ => watched.insert(1).await.expect("another login"),
                }
                assert_eq!(calls.count(), 2);
                let expected = ["started", "failed", "started", "succeeded"];
                let expected = expected.map(|end| format!("{command} {end}"));
                assert_eq!(commands(&watched), expected);
                // The operation ran on the same connection, without another hello.
                watched.assert_count(1, "connection", crate::event_log::connection_created);
                watched.end().await;
            }
        }
    });
}

/// OIDC prose 4.2 and 4.3: the operation fails if the connection cannot authenticate again.
#[test]
fn an_operation_fails_if_its_connection_cannot_authenticate_again() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            for command in ["find", "insert"] {
                let (calls, provider) = valid_until(&scene, &issuer, 1);
                let watched = scene.client_by(PROSE, provider);
                fail_once(&scene, command, doc! { "errorCode": 391 }).await;
                let error = match command {
                    "find" => watched.find().await.expect_err("no login"),
                    _ => watched.insert(1).await.expect_err("no login"),
                };
                assert_eq!(code(&error), Some(18), "{error}");
                assert_eq!(calls.count(), 2);
                watched.end().await;
            }
        }
    });
}

/// OIDC prose 4.4: speculative authentication is ignored when a connection authenticates again.
#[test]
fn authentication_again_sends_sasl_start() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = valid(&scene, &issuer);
            let watched = scene.client_by(PROSE, provider);
            watched.insert(1).await.expect("a login");
            // A new connection uses the token of the cache in its hello, without `saslStart`.
            fail_once(&scene, "insert", doc! { "closeConnection": true }).await;
            let error = watched
                .insert(2)
                .await
                .expect_err("the connection is closed");
            assert!(error.is_network(), "{error}");
            fail_once(&scene, "saslStart", doc! { "errorCode": 20 }).await;
            watched.insert(3).await.expect("a login in the hello");
            assert_eq!(calls.count(), 1);
            // The fail point still waits for a `saslStart`. When the token has expired, the server
            // requires authentication again, which sends that command.
            scene.pause_for(LIFETIME).await;
            let error = watched.insert(4).await.expect_err("saslStart fails");
            assert_eq!(code(&error), Some(20), "{error}");
            assert_eq!(calls.count(), 2);
            watched.insert(5).await.expect("a login");
            assert_eq!(calls.count(), 2);
            watched.end().await;
        }
    });
}

/// OIDC prose 4.5: an operation keeps its session, explicit or implicit, when its connection
/// authenticates again.
#[test]
fn an_operation_keeps_its_session_when_authentication_is_required_again() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            for is_explicit in [true, false] {
                let (calls, provider) = valid(&scene, &issuer);
                let watched = scene.client_by(PROSE, provider);
                fail_once(&scene, "find", doc! { "errorCode": 391 }).await;
                let mut session = watched.client.start_session().await.expect("a session");
                let things = watched.things();
                let find = things.find_one(doc! {});
                let found = match is_explicit {
                    true => find.session(&mut session).await,
                    false => find.await,
                };
                found.expect("another login");
                assert_eq!(calls.count(), 2);
                let sessions = watched.events.notes(|event| match &event.kind {
                    EventKind::Command(CommandEvent::Started { command, .. }) => {
                        Some(command.get_document("lsid").expect("a session").to_owned())
                    }
                    _ => None,
                });
                assert_eq!(sessions.len(), 2, "{:?}", commands(&watched));
                assert_eq!(sessions[0], sessions[1]);
                let sent = Document::try_from(&*sessions[0]).expect("BSON");
                assert_eq!(sent == *session.id(), is_explicit);
                session.end().await.expect("ended");
                watched.end().await;
            }
        }
    });
}

/// The server requires authentication again when a token has expired, for each kind of operation.
#[test]
fn an_expired_token_is_replaced_without_an_error() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = valid(&scene, &issuer);
            let watched = scene.client_by(PROSE, provider);
            watched.insert_many([1, 2]).await.expect("a login");
            watched.insert_many([3, 4]).await.expect("a login");
            let mut cursor = watched
                .things()
                .find(doc! {})
                .batch_size(2)
                .await
                .expect("a cursor");
            scene.pause_for(LIFETIME).await;
            let mut seen = 0;
            while let Some(document) = cursor.next().await {
                document.expect("another login");
                seen += 1;
            }
            assert_eq!((seen, calls.count()), (4, 2));
            scene.pause_for(LIFETIME).await;
            watched.insert(5).await.expect("another login");
            assert_eq!(calls.count(), 3);
            watched.assert_count(1, "connection", crate::event_log::connection_created);
            watched.end().await;
        }
    });
}

/// Two connections that authenticate again at once share one call of the callback (AUTH-125), and
/// the second one does not remove the new token (AUTH-127).
#[test]
fn connections_that_authenticate_again_share_one_call() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = valid(&scene, &issuer);
            let watched = scene.client_by(&format!("{PROSE}&minPoolSize=10"), provider);
            watched
                .wait_for(10, "ready", crate::event_log::connection_ready)
                .await;
            scene.pause_for(LIFETIME).await;
            let tasks: Vec<_> = (0..10)
                .map(|_| {
                    let things = watched.things();
                    scene.spawn(async move { things.find_one(doc! {}).await.map(drop) })
                })
                .collect();
            for task in tasks {
                scene.ended("the finds", task).await.expect("another login");
            }
            assert_eq!(calls.count(), 2);
            watched.end().await;
        }
    });
}
