//! Tests of credentials that do not come from the connection string: callbacks of the application,
//! files, environment variables and endpoints.

use super::{
    Host, end, find,
    server::{Request, Server, Step, answer},
    within,
};
use crate::{peers::Scratch, variables::WithVariables};
use bson::{Binary, Document, doc, spec::BinarySubtype};
use onionskin::{Client, Runtime};
use onionskin_core::{
    error::Error,
    options::{AuthMechanism, CallbackError, Credential, OidcCallback, OidcFlow, OidcTokens},
    random::Seed,
    uri,
};
use onionskin_deployment::identity::{IdentityOptions, IssuerOptions, TokenIssuer};
use onionskin_serve::identity::IdentityEndpoint;
use std::{
    future::{pending, poll_fn},
    task::{Context, Poll},
    thread,
    time::Duration,
};

/// The token that the tests' server refuses.
const WRONG: &str = "wrong";

/// Returns the steps of a server that accepts each token but [`WRONG`].
fn accepts_tokens(request: &Request) -> Vec<Step> {
    if request.name != "saslStart" {
        return answer(request);
    }
    let payload = request.body.get_binary_generic("payload").ok();
    let payload = payload.and_then(|bytes| Document::from_reader(bytes.as_slice()).ok());
    let token = payload.as_ref().and_then(|p| p.get_str("jwt").ok());
    request.reply(&match token {
        None | Some(WRONG) => doc! { "ok": 0, "code": 18, "errmsg": "no" },
        Some(_) => {
            let payload = Binary {
                subtype: BinarySubtype::Generic,
                bytes: Vec::new(),
            };
            doc! { "ok": 1, "conversationId": 1, "done": true, "payload": payload }
        }
    })
}

/// Creates a client with this credential.
fn client<R: Runtime>(runtime: R, server: &Server, options: &str, with: Credential) -> Client<R> {
    let parsed = uri::parse(&server.uri(options)).expect("a connection string");
    let mut options = parsed.options;
    options.credential = Some(with);
    Client::builder(runtime, options).build().expect("a client")
}

fn by_callback<H: Host>(server: &Server, options: &str, callback: OidcCallback) -> Client<H::R> {
    let credential = Credential::with_oidc_callback(callback);
    client(H::runtime(), server, options, credential)
}

fn of_environment(properties: &[(&str, &str)]) -> Credential {
    Credential::builder()
        .mechanism(AuthMechanism::MongoDbOidc)
        .mechanism_properties(properties.iter().copied())
        .build()
}

/// Asserts that a find fails because of its callback, within [`Host::LIMIT`].
async fn expect_failure<H: Host>(server: &Server, callback: OidcCallback, reason: &str) {
    let options = format!("timeoutMS={}", 2 * H::LIMIT.as_millis());
    let options = format!("{options}&connectTimeoutMS={}", H::LIMIT.as_millis());
    let client = by_callback::<H>(server, &options, callback);
    let found = within::<H, _>(2 * H::LIMIT + H::SLACK, "the failure", find(&client, 1)).await;
    let error: Error = found.expect_err("no token");
    assert!(error.to_string().contains(reason), "{error}");
    end::<H>(client, server).await;
}

/// The token of a callback that returns a future, and of one that blocks its thread, authenticates
/// a connection.
pub async fn a_callback_gives_the_token_of_a_connection<H: Host>() {
    let server = Server::scripted::<H>(accepts_tokens);
    let asynchronous = OidcCallback::machine(|_| async { Ok(OidcTokens::new("a.b.c")) });
    let blocking = OidcCallback::blocking(OidcFlow::Machine, |_| Ok(OidcTokens::new("a.b.c")));
    for callback in [asynchronous, blocking] {
        let client = by_callback::<H>(&server, "", callback);
        find(&client, 1).await.expect("a login");
        end::<H>(client, &server).await;
    }
    assert_eq!(server.seen("saslStart").len(), 2);
}

/// The future of a callback runs in a task of the runtime, where it can sleep.
pub async fn a_callback_can_wait_on_the_runtime<H: Host>()
where
    H::R: Clone,
{
    let server = Server::scripted::<H>(accepts_tokens);
    let runtime = H::runtime();
    let callback = OidcCallback::machine(move |_| {
        let sleep = runtime.sleep(Duration::from_millis(20));
        async move {
            sleep.await;
            Ok(OidcTokens::new("a.b.c"))
        }
    });
    let client = by_callback::<H>(&server, "", callback);
    find(&client, 1).await.expect("a login");
    end::<H>(client, &server).await;
}

/// A callback that fails, panics or never returns costs an error. The client can be shut down
/// meanwhile.
pub async fn a_bad_callback_costs_an_error<H: Host>() {
    let server = Server::scripted::<H>(accepts_tokens);
    let failing =
        OidcCallback::machine(|_| async { Err::<OidcTokens, _>("the vault is sealed".into()) });
    expect_failure::<H>(&server, failing, "the vault is sealed").await;
    let refused = OidcCallback::machine(|_| async { Ok(OidcTokens::new(WRONG)) });
    expect_failure::<H>(&server, refused, "the server refused authentication").await;
    type End = Poll<Result<OidcTokens, CallbackError>>;
    let bug = |_: &mut Context<'_>| -> End { panic!("a bug of the application") };
    let panicking = OidcCallback::machine(move |_| poll_fn(bug));
    expect_failure::<H>(&server, panicking, "panicked").await;
    let panicking = OidcCallback::blocking(OidcFlow::Machine, |_| panic!("a bug"));
    expect_failure::<H>(&server, panicking, "panicked").await;
    let endless = OidcCallback::machine(|_| pending::<Result<OidcTokens, _>>());
    expect_failure::<H>(&server, endless, "within the time limit").await;
}

/// A callback that blocks its thread for ever costs an error, and shutdown does not wait for it.
pub async fn a_callback_that_blocks_for_ever_costs_an_error<H: Host>() {
    let server = Server::scripted::<H>(accepts_tokens);
    let endless = OidcCallback::blocking(OidcFlow::Machine, |_| {
        loop {
            thread::park();
        }
    });
    expect_failure::<H>(&server, endless, "within the time limit").await;
}

/// A token is read from the file that a variable names (AUTH-110, AUTH-113). The error of a missing
/// or too long file names it.
pub async fn a_token_is_read_from_a_file<H: Host>() {
    let server = Server::scripted::<H>(accepts_tokens);
    let scratch = Scratch::new().expect("a directory");
    let good = scratch.write("token", "a.b.c\n").expect("a file");
    let long = scratch.write("long", &"a".repeat(1 << 20)).expect("a file");
    let missing = scratch.path().join("missing");
    for (path, reason) in [
        (&good, None),
        (&long, Some("longer than")),
        (&missing, Some("missing")),
    ] {
        let path = path.to_str().expect("a name in UTF-8");
        let runtime = WithVariables::new(H::runtime()).with("OIDC_TOKEN_FILE", path);
        let credential = of_environment(&[("ENVIRONMENT", "test")]);
        let client = client(runtime, &server, "", credential);
        let things = client.database("app").collection::<Document>("things");
        let found = things.find_one(doc! {}).await;
        match reason {
            None => drop(found.expect("a login")),
            Some(reason) => {
                let error = found.expect_err("no token").to_string();
                assert!(error.contains(reason) && error.contains(path), "{error}");
            }
        }
        drop(things);
        client.shutdown().await;
    }
}

/// A token comes from an endpoint over HTTP (AUTH-112).
pub async fn a_token_is_fetched_over_http<H: Host>() {
    let server = Server::scripted::<H>(accepts_tokens);
    let seed = Seed::new([3; 32]);
    let options = IdentityOptions {
        issuer: Some(TokenIssuer::new(IssuerOptions::default(), &seed)),
        ..IdentityOptions::default()
    };
    let endpoint = IdentityEndpoint::start(options, &seed).expect("an endpoint");
    let host = endpoint.address().to_string();
    let runtime = WithVariables::new(H::runtime()).with("GCE_METADATA_HOST", &host);
    let properties = [("ENVIRONMENT", "gcp"), ("TOKEN_RESOURCE", "onionskin")];
    let client = client(runtime, &server, "", of_environment(&properties));
    let things = client.database("app").collection::<Document>("things");
    things.find_one(doc! {}).await.expect("a login");
    assert_eq!(endpoint.server().requests().len(), 1);
    drop(things);
    client.shutdown().await;
}
