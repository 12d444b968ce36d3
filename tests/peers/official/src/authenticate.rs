//! Authenticates by each mechanism, and prints one JSON object with the result of each case: the
//! name of the user, or the code of the error. MONGODB-AWS is left out, because its feature brings
//! the AWS SDK.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::oidc::{Callback, IdpServerResponse};
use mongodb::options::{AuthMechanism, ClientOptions, Credential, Tls};
use serde_json::{Value, json};

use crate::Result;

/// Returns the results of all cases. The URI has no user; the directory has the token files.
pub async fn run(uri: &str, tokens: &str) -> Result<Value> {
    let mut results = serde_json::Map::new();
    let mut note = |name: &str, result: Value| results.insert(name.to_owned(), result);
    let mechanisms = [
        ("negotiated", None),
        ("SCRAM-SHA-1", Some(AuthMechanism::ScramSha1)),
        ("SCRAM-SHA-256", Some(AuthMechanism::ScramSha256)),
        ("PLAIN", Some(AuthMechanism::Plain)),
    ];
    for (name, mechanism) in mechanisms {
        for (suffix, word) in [("", "pencil"), (" wrong", "crayon")] {
            let mut credential = Credential::default();
            credential.username = Some("ada".to_owned());
            credential.password = Some(word.to_owned());
            credential.mechanism.clone_from(&mechanism);
            let result = log_in(uri, credential, None).await?;
            note(&format!("{name}{suffix}"), result);
        }
    }
    let mut x509 = Credential::default();
    x509.mechanism = Some(AuthMechanism::MongoDbX509);
    note("x509", log_in(uri, x509, None).await?);
    for (name, file, is_human) in [
        ("oidc machine", "test_machine", false),
        ("oidc human", "test_user1", true),
        ("oidc expired", "test_expired", false),
    ] {
        let (credential, _) = by_callback(tokens, file, is_human).await?;
        note(name, log_in(uri, credential, None).await?);
    }
    let (credential, calls) = by_callback(tokens, "test_user2", false).await?;
    note("oidc again", log_in(uri, credential, Some(391)).await?);
    note("oidc again calls", json!(calls.load(Ordering::Relaxed)));
    Ok(Value::Object(results))
}

/// Returns a credential whose callback returns the token of a file, and the number of its calls.
async fn by_callback(
    tokens: &str,
    file: &str,
    is_human: bool,
) -> Result<(Credential, Arc<AtomicUsize>)> {
    let token = tokio::fs::read_to_string(Path::new(tokens).join(file)).await?;
    let calls = Arc::new(AtomicUsize::new(0));
    let inside = calls.clone();
    let call = move |_| {
        inside.fetch_add(1, Ordering::Relaxed);
        let token = token.clone();
        async move { Ok(IdpServerResponse::builder().access_token(token).build()) }.boxed()
    };
    let mut credential = Credential::default();
    credential.mechanism = Some(AuthMechanism::MongoDbOidc);
    credential.oidc_callback = match is_human {
        true => Callback::human(call),
        false => Callback::machine(call),
    };
    Ok((credential, calls))
}

/// Returns the name of the user, or the code of the error. With `fails`, a find fails once with
/// this code.
async fn log_in(uri: &str, credential: Credential, fails: Option<i32>) -> Result<Value> {
    let mut options = ClientOptions::parse(uri).await?;
    if credential.mechanism == Some(AuthMechanism::MongoDbX509)
        && let Some(Tls::Enabled(tls)) = &mut options.tls
        && let Some(authority) = &tls.ca_file_path
    {
        tls.cert_key_file_path = Some(authority.with_file_name("client.pem"));
    }
    options.credential = Some(credential);
    options.retry_reads = Some(false);
    let client = Client::with_options(options)?;
    if let Some(code) = fails {
        let data = doc! { "failCommands": ["find"], "errorCode": code };
        let command =
            doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
        client.database("admin").run_command(command).await?;
    }
    let found = client
        .database("peer")
        .collection::<Document>("items")
        .find_one(doc! {})
        .await;
    if let Err(error) = found {
        return Ok(json!(code_of(&error)));
    }
    let status = client
        .database("admin")
        .run_command(doc! { "connectionStatus": 1 })
        .await?;
    let info = status.get_document("authInfo")?;
    let users = info.get_array("authenticatedUsers")?;
    let user = users.first().and_then(|user| user.as_document());
    Ok(json!(user.and_then(|user| user.get_str("user").ok())))
}

/// Returns the code with which the server refused the login, or the text of another error. The
/// driver keeps the server's error inside of its own, where only `Debug` shows it.
fn code_of(error: &mongodb::error::Error) -> Value {
    let text = format!("{error:?}");
    let code = text.split("CommandError { code: ").nth(1);
    let code = code.and_then(|rest| rest.split(',').next());
    match code.and_then(|code| code.parse::<i32>().ok()) {
        Some(code) => json!(code),
        None => json!(text),
    }
}
