//! Callbacks and environments that provide tokens: their spacing, their limits and their failures.

use super::{Calls, LIFETIME, fail_once, issue, oidc::PROSE, with_issuer};
use crate::scene::play;
use bson::doc;
use onionskin::Runtime;
use onionskin_core::{
    error::Error,
    options::{AuthMechanism, Credential, OidcCallback, OidcFlow, OidcTokens, Secret},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Calls of the callback are at least 100 ms apart (AUTH-126). Nothing else separates the calls
/// here, because the connection authenticates again at once.
#[test]
fn calls_of_a_callback_are_at_least_100_ms_apart() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let runtime = scene.runtime.clone();
            let times = Arc::new(Mutex::new(Vec::new()));
            let inside = times.clone();
            let (_, provider) = Calls::of(OidcFlow::Machine, move |_, _| {
                inside.lock().expect("no panic before").push(runtime.now());
                Ok::<_, Error>(OidcTokens::new(issue(&issuer, &runtime)))
            });
            let watched = scene.client_by(PROSE, provider);
            watched.find().await.expect("a login");
            for _ in 0..4 {
                fail_once(&scene, "find", doc! { "errorCode": 391 }).await;
                watched.find().await.expect("another login");
            }
            let times = times.lock().expect("no panic before").clone();
            assert_eq!(times.len(), 5, "{times:?}");
            for pair in times.windows(2) {
                let gap = (pair[1] - pair[0]).as_millis();
                assert!((100..300).contains(&gap), "{times:?}");
            }
            watched.end().await;
        }
    });
}

/// A callback that never returns costs its waiters an error after its time limit. Afterwards the
/// client works.
#[test]
fn a_callback_that_never_returns_costs_its_waiters_an_error() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let runtime = scene.runtime.clone();
            let calls = Arc::new(AtomicUsize::new(0));
            let callback = OidcCallback::machine(move |_| {
                let number = calls.fetch_add(1, Ordering::Relaxed);
                let token = issue(&issuer, &runtime);
                async move {
                    match number {
                        0 => std::future::pending().await,
                        _ => Ok(OidcTokens::new(token)),
                    }
                }
            });
            let watched = scene.client_by(PROSE, callback);
            let began = scene.now();
            let error = watched.find().await.expect_err("no token");
            assert!(error.to_string().contains("time limit"), "{error}");
            let waited = (scene.now() - began).as_secs();
            assert_eq!(waited, 60);
            watched.find().await.expect("a token");
            watched.end().await;
        }
    });
}

/// A callback that panics costs its waiters an error.
#[test]
fn a_callback_that_panics_costs_its_waiters_an_error() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
            let (_, provider) = Calls::of(OidcFlow::Machine, move |number, _| {
                assert!(number > 1, "the first call panics");
                Ok::<_, Error>(OidcTokens::new(issue(&issuer, &runtime)))
            });
            let watched = scene.client_by(PROSE, provider);
            let error = watched.find().await.expect_err("no token");
            assert!(error.to_string().contains("panicked"), "{error}");
            watched.find().await.expect("a token");
            watched.end().await;
        }
    });
}

/// A client that is closed while its callback runs drops the future of the callback.
#[test]
fn a_closed_client_drops_the_future_of_its_callback() {
    struct Held(Arc<AtomicBool>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let (options, _) = with_issuer();
    play([options], |scene| async move {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let inside = is_dropped.clone();
        let callback = OidcCallback::machine(move |_| {
            let held = Held(inside.clone());
            async move {
                let _held = held;
                std::future::pending::<Result<OidcTokens, _>>().await
            }
        });
        let watched = scene.client_by(PROSE, callback);
        let things = watched.things();
        let find = scene.spawn(async move { things.find_one(doc! {}).await.map(drop) });
        scene.pause(100).await;
        assert!(!is_dropped.load(Ordering::Relaxed));
        watched.client.clone().shutdown().await;
        assert!(is_dropped.load(Ordering::Relaxed));
        let result = scene.ended("the find", find).await;
        result.expect_err("the client is closed");
        watched.end().await;
    });
}

/// The environment `test` reads the token from a file (AUTH-110). The file is read again for each
/// new token.
#[test]
fn the_test_environment_reads_its_file_for_each_token() {
    let (options, issuer) = with_issuer();
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let mut credential = Credential::builder().source("$external".to_owned()).build();
            credential.mechanism = Some(AuthMechanism::MongoDbOidc);
            let test = ("ENVIRONMENT".to_owned(), Secret::new("test"));
            credential.mechanism_properties.extend([test]);
            let watched = scene.client_as(PROSE, credential);
            let error = watched.find().await.expect_err("no variable");
            assert!(
                error.to_string().contains("OIDC_TOKEN_FILE is not set"),
                "{error}"
            );
            scene
                .runtime
                .set_variable("OIDC_TOKEN_FILE", Some("/tokens/me"));
            let error = watched.find().await.expect_err("no file");
            assert!(
                error.to_string().contains("/tokens/me cannot be read"),
                "{error}"
            );
            for _ in 0..2 {
                let token = issue(&issuer, &scene.runtime);
                scene.runtime.set_file("/tokens/me", Some(&token));
                watched.find().await.expect("a login");
                scene.pause_for(LIFETIME).await;
            }
            watched.end().await;
        }
    });
}
