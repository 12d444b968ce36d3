//! The prose tests of MONGODB-OIDC for the human flow.

use super::{Calls, LIFETIME, fail_once, open_to_all, wall_time};
use crate::{
    event_log::command_name,
    scene::{Scene, Watched, play},
};
use bson::doc;
use onionskin_core::{
    error::{Error, ErrorKind},
    options::{Credential, OidcCallback, OidcFlow, OidcRequest, OidcTokens, Secret},
    random::Seed,
    uri,
};
use onionskin_deployment::{
    deployment::DeploymentOptions,
    identity::{IssuerOptions, TokenClaims, TokenIssuer},
};
use onionskin_worlds::world::SimRuntime;

/// The options of the prose tests.
const PROSE: &str = "retryReads=false&retryWrites=false&appname=mechanisms";

fn issuer(options: IssuerOptions, seed: u8) -> TokenIssuer {
    TokenIssuer::new(options, &Seed::new([seed; 32]))
}

/// Returns the options of a deployment with one issuer, and the issuer.
fn with_one_issuer(options: IssuerOptions) -> (DeploymentOptions, TokenIssuer) {
    let issuer = issuer(options, 7);
    let mut options = open_to_all();
    options.auth.issuers = vec![issuer.clone()];
    (options, issuer)
}

/// Issues a token for a user.
fn issue(issuer: &TokenIssuer, runtime: &SimRuntime, subject: &str) -> String {
    issuer.issue(&TokenClaims::new(subject, wall_time(runtime), LIFETIME))
}

/// Creates a client with a callback, which may connect to all servers of the deployment.
fn client(scene: &Scene, provider: OidcCallback, username: Option<&str>) -> Watched {
    let mut credential = Credential::with_oidc_callback(provider);
    credential.username = username.map(str::to_owned);
    credential.allowed_hosts = Some(vec!["member0".to_owned()]);
    scene.client_as(PROSE, credential)
}

/// A callback that returns a valid token, and the refresh token of `refresh` for the number of the
/// call.
fn logging_in(
    scene: &Scene,
    issuer: &TokenIssuer,
    refresh: impl Fn(usize) -> Option<&'static str> + Send + Sync + 'static,
) -> (Calls, OidcCallback) {
    let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
    Calls::of(OidcFlow::Human, move |number, _| {
        let mut tokens = OidcTokens::new(issue(&issuer, &runtime, "me"));
        tokens.refresh_token = refresh(number).map(Secret::new);
        Ok::<_, Error>(tokens)
    })
}

/// OIDC human prose 1.1 and 1.2: one identity provider, without and with a user name.
#[test]
fn one_identity_provider_needs_no_user_name() {
    let (options, issuer) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            for username in [None, Some("me")] {
                let (calls, provider) = logging_in(&scene, &issuer, |_| None);
                let watched = client(&scene, provider, username);
                watched.find().await.expect("a login");
                let requests = calls.requests();
                assert_eq!(requests.len(), 1);
                assert_eq!(requests[0].username.as_deref(), username);
                watched.end().await;
            }
        }
    });
}

/// OIDC human prose 1.3 to 1.5: with several identity providers the user name chooses one.
#[test]
fn the_user_name_chooses_among_several_identity_providers() {
    let of = |suffix: &str, seed| {
        let options = IssuerOptions {
            issuer: format!("https://{suffix}.test"),
            principal_suffix: Some(format!("@{suffix}")),
            ..IssuerOptions::default()
        };
        issuer(options, seed)
    };
    let (one, two) = (of("one", 1), of("two", 2));
    let mut options = open_to_all();
    options.auth.issuers = vec![one.clone(), two.clone()];
    play([options], |scene| {
        let (one, two) = (one.clone(), two.clone());
        async move {
            let users = [
                (Some("me@one"), true),
                (Some("you@two"), true),
                (None, false),
            ];
            for (username, is_accepted) in users {
                let (one, two, runtime) = (one.clone(), two.clone(), scene.runtime.clone());
                let (_, provider) = Calls::of(OidcFlow::Human, move |_, request| {
                    let named = request.idp_info.as_ref().expect("a named provider");
                    let issuer = match named.issuer.as_str() {
                        "https://one.test" => &one,
                        _ => &two,
                    };
                    let subject = request.username.as_deref().unwrap_or("nobody");
                    Ok::<_, Error>(OidcTokens::new(issue(issuer, &runtime, subject)))
                });
                let watched = client(&scene, provider, username);
                let found = watched.find().await;
                assert_eq!(found.is_ok(), is_accepted, "{username:?}: {found:?}");
                watched.end().await;
            }
        }
    });
}

/// OIDC human prose 1.6: a host that is not allowed is refused before the callback is called
/// (AUTH-108).
#[test]
fn a_host_that_is_not_allowed_is_refused_before_the_callback() {
    let (options, issuer) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let lists: [Option<&[&str]>; 3] = [None, Some(&[]), Some(&["example.com"])];
            for hosts in lists {
                let (calls, provider) = logging_in(&scene, &issuer, |_| None);
                let mut credential = Credential::with_oidc_callback(provider);
                credential.allowed_hosts =
                    hosts.map(|hosts| hosts.iter().map(|&host| host.to_owned()).collect());
                let options = format!("{PROSE}&ignored=example.com");
                let watched = scene.client_as(&options, credential);
                let error = watched.find().await.expect_err("not allowed");
                assert!(error.to_string().contains("ALLOWED_HOSTS"), "{error}");
                assert_eq!(calls.count(), 0);
                watched.end().await;
            }
        }
    });
}

/// OIDC human prose 1.7: `ALLOWED_HOSTS` is refused in a connection string.
#[test]
fn allowed_hosts_are_refused_in_a_connection_string() {
    let string = "mongodb://localhost/?authMechanism=MONGODB-OIDC\
                  &authMechanismProperties=ENVIRONMENT:k8s,ALLOWED_HOSTS:example.com";
    let error = uri::parse(string).expect_err("only code sets the list");
    assert!(error.to_string().contains("ALLOWED_HOSTS"), "{error}");
}

/// OIDC human prose 1.8: an identity provider without a `clientId` (AUTH-122).
#[test]
fn an_identity_provider_needs_no_client_id() {
    let (options, issuer) = with_one_issuer(IssuerOptions {
        client_id: None,
        request_scopes: vec!["a".to_owned(), "b".to_owned()],
        ..IssuerOptions::default()
    });
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = logging_in(&scene, &issuer, |_| None);
            let watched = client(&scene, provider, Some("me"));
            watched.find().await.expect("a login");
            let requests = calls.requests();
            let info = requests[0].idp_info.as_ref().expect("a named provider");
            assert_eq!(
                (info.issuer.as_str(), &info.client_id),
                ("https://issuer.test", &None)
            );
            assert_eq!(info.request_scopes, ["a", "b"]);
            watched.end().await;
        }
    });
}

/// OIDC human prose 2.1: the inputs of the callback.
#[test]
fn a_human_callback_gets_valid_inputs() {
    let (options, issuer) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = logging_in(&scene, &issuer, |_| None);
            let watched = client(&scene, provider, None);
            watched.find().await.expect("a login");
            let requests: Vec<OidcRequest> = calls.requests();
            let info = requests[0].idp_info.as_ref().expect("a named provider");
            assert_eq!(info.issuer, "https://issuer.test");
            assert_eq!(info.client_id.as_deref(), Some("onionskin"));
            assert_eq!(requests[0].timeout.as_secs(), 300);
            assert_eq!(requests[0].version, 1);
            assert!(requests[0].refresh_token.is_none());
            watched.end().await;
        }
    });
}

/// OIDC human prose 2.2: a callback without a token.
#[test]
fn a_human_callback_without_a_token_fails_the_operation() {
    let (options, _) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| async move {
        let (calls, provider) =
            Calls::of(OidcFlow::Human, |_, _| Ok::<_, Error>(OidcTokens::new("")));
        let watched = client(&scene, provider, None);
        let error = watched.find().await.expect_err("no token");
        assert!(
            matches!(error.kind(), ErrorKind::Authentication { .. }),
            "{error}"
        );
        assert_eq!(calls.count(), 1);
        watched.end().await;
    });
}

/// OIDC human prose 2.3: the refresh token is passed to the next call.
#[test]
fn a_refresh_token_is_passed_to_the_next_call() {
    let (options, issuer) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = logging_in(&scene, &issuer, |_| Some("refresh"));
            let watched = client(&scene, provider, None);
            watched.find().await.expect("a login");
            fail_once(&scene, "find", doc! { "errorCode": 391 }).await;
            watched.find().await.expect("another login");
            let tokens = calls
                .requests()
                .into_iter()
                .map(|request| request.refresh_token);
            let tokens: Vec<_> = tokens.collect();
            assert_eq!(tokens, [None, Some(Secret::new("refresh"))]);
            watched.end().await;
        }
    });
}

/// OIDC human prose 3.1: a cached token is sent in the hello of a new connection.
#[test]
fn a_cached_token_authenticates_a_new_connection_speculatively() {
    let (options, issuer) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = logging_in(&scene, &issuer, |_| None);
            let watched = client(&scene, provider, None);
            fail_once(&scene, "find", doc! { "closeConnection": true }).await;
            watched.find().await.expect_err("the connection is closed");
            fail_once(&scene, "saslStart", doc! { "errorCode": 18 }).await;
            watched.find().await.expect("a login in the hello");
            assert_eq!(calls.count(), 1);
            watched.end().await;
        }
    });
}

/// OIDC human prose 3.2: without a cached token there is no speculative authentication.
#[test]
fn without_a_cached_token_there_is_no_speculative_authentication() {
    let (options, issuer) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (calls, provider) = logging_in(&scene, &issuer, |_| None);
            let watched = client(&scene, provider, None);
            fail_once(&scene, "saslStart", doc! { "errorCode": 18 }).await;
            let error = watched.find().await.expect_err("saslStart fails");
            assert_eq!(error.code(), Some(18));
            assert_eq!(calls.count(), 0);
            watched.end().await;
        }
    });
}

/// OIDC human prose 4.1 and 4.2: authentication again, with and without a refresh token.
#[test]
fn a_human_login_is_repeated_when_authentication_is_required_again() {
    let (options, issuer) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            for refresh in [Some("refresh"), None] {
                let (calls, provider) = logging_in(&scene, &issuer, move |_| refresh);
                let watched = client(&scene, provider, None);
                watched.find().await.expect("a login");
                let mark = watched.events.mark();
                fail_once(&scene, "find", doc! { "errorCode": 391 }).await;
                watched.find().await.expect("another login");
                assert_eq!(calls.count(), 2);
                assert_eq!(
                    watched.events.notes_since(mark, command_name),
                    [
                        "find started",
                        "find failed",
                        "find started",
                        "find succeeded"
                    ]
                );
                watched.end().await;
            }
        }
    });
}

/// OIDC human prose 4.3: a token that was obtained with a bad refresh token is refused, and the
/// human logs in again.
#[test]
fn a_bad_refresh_token_leads_to_another_login() {
    let (options, issuer) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
            let (calls, provider) = Calls::of(OidcFlow::Human, move |_, request| {
                let token = match &request.refresh_token {
                    Some(_) => "wrong".to_owned(),
                    None => issue(&issuer, &runtime, "me"),
                };
                Ok::<_, Error>(OidcTokens::new(token).with_refresh_token("bad"))
            });
            let watched = client(&scene, provider, None);
            watched.find().await.expect("a login");
            fail_once(&scene, "find", doc! { "errorCode": 391 }).await;
            watched.find().await.expect("another login");
            // The first login, the refresh, and the second login.
            let requests = calls.requests();
            let is_refresh = requests
                .iter()
                .map(|request| request.refresh_token.is_some());
            assert_eq!(is_refresh.collect::<Vec<_>>(), [false, true, false]);
            watched.end().await;
        }
    });
}

/// OIDC human prose 4.4: bad access tokens after the first login fail the operation.
#[test]
fn bad_tokens_after_a_bad_refresh_token_fail_the_operation() {
    let (options, issuer) = with_one_issuer(IssuerOptions::default());
    play([options], |scene| {
        let issuer = issuer.clone();
        async move {
            let (issuer, runtime) = (issuer.clone(), scene.runtime.clone());
            let (calls, provider) = Calls::of(OidcFlow::Human, move |number, _| {
                let token = match number {
                    1 => issue(&issuer, &runtime, "me"),
                    _ => "wrong".to_owned(),
                };
                Ok::<_, Error>(OidcTokens::new(token).with_refresh_token("bad"))
            });
            let watched = client(&scene, provider, None);
            watched.find().await.expect("a login");
            fail_once(&scene, "find", doc! { "errorCode": 391 }).await;
            let error = watched.find().await.expect_err("no login");
            assert_eq!(error.code(), Some(18));
            assert_eq!(calls.count(), 3);
            watched.end().await;
        }
    });
}
