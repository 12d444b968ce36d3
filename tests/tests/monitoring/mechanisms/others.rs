//! X.509, PLAIN, logins of a provider, authentication again with SCRAM, and many connections at
//! once.

use super::{APP, Calls, fail_once, issue, open_to_all, reconnect, with_issuer};
use crate::{
    event_log::{connection_closed, connection_created, connection_ready, pool_cleared},
    scene::{
        Scene, Watched, authenticated, play, play_with_one_seed, replica_set_of, sharded_alone,
    },
};
use bson::doc;
use onionskin_core::{
    error::{Error, ErrorKind},
    options::{
        AuthMechanism, Credential, CredentialProvider, Login, OidcFlow, OidcTokens,
        PasswordProvider, Secret,
    },
};
use onionskin_deployment::deployment::{Deployment, User};
use onionskin_worlds::world::plan::Disaster;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

fn of_mechanism(
    mechanism: AuthMechanism,
    username: Option<&str>,
    password: Option<&str>,
) -> Credential {
    let mut credential = Credential::builder().source("$external".to_owned()).build();
    credential.mechanism = Some(mechanism);
    credential.username = username.map(str::to_owned);
    credential.password = password.map(Secret::new);
    credential
}

/// MONGODB-X509 with and without a user name (AUTH-62), and with a certificate of another user.
#[test]
fn a_certificate_authenticates_its_user() {
    let subject = "CN=client,OU=Drivers,O=MongoDB,C=IS";
    let mut options = open_to_all();
    options.auth.certificate_subject = Some(subject.to_owned());
    options.users.push(User::external(subject));
    play([options], |scene| async move {
        for (username, is_accepted) in [(None, true), (Some(subject), true), (Some("CN=x"), false)]
        {
            let credential = of_mechanism(AuthMechanism::MongoDbX509, username, None);
            let watched = scene.client_as("", credential);
            let found = watched.find().await;
            assert_eq!(found.is_ok(), is_accepted, "{username:?}: {found:?}");
            watched.end().await;
        }
    });
}

/// PLAIN with a right and a wrong password.
#[test]
fn plain_authenticates_with_the_password() {
    let mut options = open_to_all();
    options.users.push(User::ldap("ldap", "sesame"));
    play([options], |scene| async move {
        for (password, is_accepted) in [("sesame", true), ("wrong", false)] {
            let credential = of_mechanism(AuthMechanism::Plain, Some("ldap"), Some(password));
            let watched = scene.client_as("", credential);
            let found = watched.find().await;
            assert_eq!(found.is_ok(), is_accepted, "{found:?}");
            watched.end().await;
        }
    });
}

/// A provider whose login a test changes, and the number of its calls.
fn provider_of(password: &Arc<Mutex<String>>) -> (Arc<AtomicUsize>, Credential) {
    let calls = Arc::new(AtomicUsize::new(0));
    let (inside, password) = (calls.clone(), password.clone());
    let provider = PasswordProvider::new(move |_| {
        inside.fetch_add(1, Ordering::Relaxed);
        let password = password.lock().expect("no panic before").clone();
        async move { Ok(Login::new("user", password)) }
    });
    let provider = CredentialProvider::Password(provider);
    (calls, Credential::with_provider(provider))
}

/// A password that changes at the server is asked for again, without an error of an operation.
#[test]
fn a_rotated_password_is_asked_for_again() {
    play([authenticated(replica_set_of(1))], |scene| async move {
        let password = Arc::new(Mutex::new("first".to_owned()));
        let create = doc! { "createUser": "rotated", "pwd": "first", "roles": ["root"] };
        scene.tell(0, create).await;
        let calls = Arc::new(AtomicUsize::new(0));
        let (inside, current) = (calls.clone(), password.clone());
        let provider = PasswordProvider::new(move |request| {
            let number = inside.fetch_add(1, Ordering::Relaxed);
            assert_eq!(
                request.refused.is_some(),
                number > 0,
                "only a refusal asks again"
            );
            let password = current.lock().expect("no panic before").clone();
            async move { Ok(Login::new("rotated", password)) }
        });
        let credential = Credential::with_provider(CredentialProvider::Password(provider));
        let options = "retryReads=false&appname=mechanisms";
        let watched = scene.client_as(options, credential);
        watched.find().await.expect("a login");
        reconnect(&scene, &watched).await;
        watched
            .find()
            .await
            .expect("a login with the same password");
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        "second".clone_into(&mut password.lock().expect("no panic before"));
        scene
            .tell(0, doc! { "updateUser": "rotated", "pwd": "second" })
            .await;
        reconnect(&scene, &watched).await;
        let cleared = watched.events.count(pool_cleared);
        watched.find().await.expect("a login with the new password");
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        watched.assert_count(cleared, "pool cleared", pool_cleared);
        watched.end().await;
    });
}

/// A connection that authenticates again asks the provider if the cached login was refused on
/// another connection meanwhile.
#[test]
fn a_connection_asks_for_the_login_again_if_it_was_refused_meanwhile() {
    play([authenticated(replica_set_of(1))], |scene| async move {
        let password = Arc::new(Mutex::new("sesame".to_owned()));
        let (calls, credential) = provider_of(&password);
        let watched = scene.client_as("retryReads=false&appname=mechanisms", credential);
        watched.find().await.expect("a login");
        // The first find waits at the server, and is then refused with the error 391.
        let late = doc! { "errorCode": 391, "blockConnection": true, "blockTimeMS": 500 };
        fail_once(&scene, "find", late).await;
        let things = watched.things();
        let first = scene.spawn(async move { things.find_one(doc! {}).await.map(drop) });
        scene.pause(10).await;
        // Meanwhile the login is refused on another connection, so that it is no longer cached.
        "wrong".clone_into(&mut password.lock().expect("no panic before"));
        fail_once(&scene, "saslContinue", doc! { "errorCode": 18 }).await;
        watched.find().await.expect_err("a refused login");
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        "sesame".clone_into(&mut password.lock().expect("no panic before"));
        scene
            .ended("the first find", first)
            .await
            .expect("another login");
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        watched.end().await;
    });
}

/// A login that stays wrong fails the operation. The next operation asks the provider again.
#[test]
fn a_login_that_stays_wrong_fails_the_operation() {
    play([authenticated(replica_set_of(1))], |scene| async move {
        let password = Arc::new(Mutex::new("wrong".to_owned()));
        let (calls, credential) = provider_of(&password);
        let watched = scene.client_as("retryReads=false", credential);
        let error = watched.find().await.expect_err("a wrong password");
        assert_eq!(error.code(), Some(18), "{error}");
        // The first call, and another one after the refusal.
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        "sesame".clone_into(&mut password.lock().expect("no panic before"));
        watched.find().await.expect("the right password");
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        watched.end().await;
    });
}

/// Error 391 makes a SCRAM connection authenticate again, too (AUTH-39), also the pinned connection
/// of a cursor behind a load balancer, and on a sharded cluster.
#[test]
fn scram_connections_authenticate_again() {
    let deployments = [
        replica_set_of(1),
        sharded_alone(),
        crate::scene::balanced_alone(),
    ];
    play(deployments.map(authenticated), |scene| async move {
        let watched = scene.client("retryReads=false&retryWrites=false&appname=mechanisms");
        watched.insert_many([1, 2]).await.expect("a login");
        watched.insert_many([3, 4]).await.expect("a login");
        let created = watched.events.count(connection_created);
        for command in ["find", "insert", "getMore"] {
            fail_once(&scene, command, doc! { "errorCode": 391 }).await;
            match command {
                "insert" => watched.insert(5).await.expect("another login"),
                _ => {
                    let mut cursor = watched
                        .things()
                        .find(doc! {})
                        .batch_size(2)
                        .await
                        .expect("a cursor");
                    let mut seen = 0;
                    while let Some(document) = cursor.next().await {
                        document.expect("another login");
                        seen += 1;
                    }
                    assert!(seen >= 4, "{seen}");
                }
            }
        }
        watched.assert_count(created, "connection", connection_created);
        watched.assert_count(0, "pool cleared", pool_cleared);
        // A second error 391 of the same operation is raised.
        let data = doc! { "failCommands": ["find"], "appName": APP, "errorCode": 391 };
        scene.fail(0, doc! { "times": 2 }, data).await;
        let error = watched.find().await.expect_err("391 twice");
        assert_eq!(error.code(), Some(391));
        watched.find().await.expect("the connection is usable");
        watched.assert_count(created, "connection", connection_created);
        watched.end().await;
    });
}

/// Returns a client with one connection, which the next operation makes authenticate again. The
/// server then answers `saslStart` after 5 seconds.
async fn slow_to_authenticate_again(scene: &Scene) -> Watched {
    let options = "retryReads=false&maxPoolSize=1&socketTimeoutMS=60000&appname=mechanisms";
    let watched = scene.client(options);
    watched.find().await.expect("a login");
    scene
        .operator
        .operate(|deployment| deployment.require_reauthentication());
    let late = doc! { "blockConnection": true, "blockTimeMS": 5_000 };
    fail_once(scene, "saslStart", late).await;
    watched
}

/// An operation that is dropped or too late while its connection authenticates again closes the
/// connection. The only place of the pool is free at once, for a new connection.
#[test]
fn an_operation_can_leave_while_its_connection_authenticates_again() {
    const LIMIT: Duration = Duration::from_millis(200);
    play([authenticated(replica_set_of(1))], |scene| async move {
        for drops in [true, false] {
            let watched = slow_to_authenticate_again(&scene).await;
            let things = watched.things();
            if drops {
                let left = scene.drop_after(LIMIT, things.find_one(doc! {})).await;
                assert!(left.is_none(), "it is dropped: {left:?}");
            } else {
                let error = things.find_one(doc! {}).timeout(LIMIT).await;
                let error = error.expect_err("too late");
                assert!(error.is_timeout(), "{error}");
            }
            scene.pause(10).await;
            watched.assert_count(1, "connection closed", connection_closed);
            let counts = watched.client.counts();
            assert_eq!((counts.in_use, counts.waiting), (0, 0), "drops: {drops}");
            let began = scene.now();
            watched.find().await.expect("another connection");
            assert!(scene.now() - began < LIMIT, "the late reply is not awaited");
            watched.assert_count(2, "connection created", connection_created);
            watched.assert_count(0, "pool cleared", pool_cleared);
            watched.end().await;
        }
    });
}

/// A client that is shut down while a connection authenticates again fails its operation.
#[test]
fn a_client_can_be_shut_down_while_its_connection_authenticates_again() {
    play([authenticated(replica_set_of(1))], |scene| async move {
        let watched = slow_to_authenticate_again(&scene).await;
        let things = watched.things();
        let find = scene.spawn(async move { things.find_one(doc! {}).await.map(drop) });
        scene.pause(200).await;
        watched.client.clone().shutdown().await;
        let error = scene.ended("the find", find).await;
        assert!(matches!(
            error.expect_err("the client is closed").kind(),
            ErrorKind::Shutdown
        ));
        watched.end().await;
    });
}

/// A client whose last handle is dropped while a connection authenticates again closes its sockets.
#[test]
fn a_client_can_be_dropped_while_its_connection_authenticates_again() {
    play([authenticated(replica_set_of(1))], |scene| async move {
        let watched = slow_to_authenticate_again(&scene).await;
        let things = watched.things();
        let find = async move { things.find_one(doc! {}).await.map(drop) };
        // The future of the find has the last handle.
        drop(watched);
        let left = scene.drop_after(Duration::from_millis(200), find).await;
        assert!(left.is_none(), "it is dropped: {left:?}");
        scene
            .until_within(Duration::from_secs(1), "the end of all sockets", || {
                scene.runtime.open_links() == 0
                    && scene.runtime.inspect(Deployment::connections) == 0
            })
            .await;
    });
}

/// A pool that is cleared interrupts a connection that authenticates again. The operation begins
/// another attempt.
#[test]
fn an_interrupted_authentication_leads_to_another_attempt() {
    play([authenticated(replica_set_of(1))], |scene| async move {
        let options = "retryReads=false&appname=mechanisms&heartbeatFrequencyMS=500\
                       &connectTimeoutMS=500&socketTimeoutMS=60000";
        let watched = scene.client(options);
        watched.find().await.expect("a login");
        scene
            .operator
            .operate(|deployment| deployment.require_reauthentication());
        let late = doc! { "blockConnection": true, "blockTimeMS": 30_000 };
        fail_once(&scene, "saslStart", late).await;
        let things = watched.things();
        let find = scene.spawn(async move { things.find_one(doc! {}).await.map(drop) });
        scene.pause(100).await;
        let cut = Disaster::CutClient {
            client: 0,
            member: 0,
            up: true,
            down: true,
        };
        scene.strike(cut);
        watched.wait_for(1, "pool cleared", pool_cleared).await;
        scene.strike(Disaster::JoinClients);
        scene
            .ended("the find", find)
            .await
            .expect("another attempt");
        watched.end().await;
    });
}

/// 1,000 connections that authenticate at once with a cold credential share one call of the
/// callback for tokens, or of the provider of passwords.
#[test]
fn a_thousand_connections_share_one_call() {
    let (options, issuer) = with_issuer();
    play_with_one_seed([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
            let (calls, provider) = Calls::of(OidcFlow::Machine, move |_, _| {
                Ok::<_, Error>(OidcTokens::new(issue(&issuer, &runtime)))
            });
            let successes = || scene.operator.inspect(|d| d.auth_counts()).successes;
            let many = "minPoolSize=1000&maxPoolSize=1000&maxConnecting=1000";
            let watched = scene.client_by(many, provider);
            watched.wait_for(1000, "connection", connection_ready).await;
            assert_eq!((calls.count(), successes()), (1, 1000));
            let password = Arc::new(Mutex::new("sesame".to_owned()));
            let (calls, credential) = provider_of(&password);
            let others = scene.client_as(many, credential);
            others.wait_for(1000, "connection", connection_ready).await;
            assert_eq!((calls.load(Ordering::Relaxed), successes()), (1, 2000));
            others.client.clone().shutdown().await;
            watched.end().await;
        }
    });
}
