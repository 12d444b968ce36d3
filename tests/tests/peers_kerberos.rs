//! Tests of GSSAPI with MIT's key distribution center: this driver, on tokio and on the blocking
//! runtime, and PyMongo log in to a simulated server.
//!
//! The library of Kerberos reads its configuration from environment variables. So each client, and
//! the server, is a process of its own: this test program, which runs the test `client` or
//! `server`. `tests/peers/kerberos` has the programs and libraries that these tests need.

use onionskin_deployment::deployment::{AuthMechanism, User};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::peers::{
    self, Peer,
    kerberos::{self, Kdc, PASSWORD},
};
use std::{
    env,
    ffi::OsStr,
    sync::mpsc,
    time::{Duration, Instant},
};

/// The time limit of one client.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// The text before the result of a client, and before the URI of a server.
const MARK: &str = "RESULT: ";

/// The variable with the connection string of a client.
const URI: &str = "ONIONSKIN_KERBEROS_URI";

/// The variable with the task of a client.
const TASK: &str = "ONIONSKIN_KERBEROS_TASK";

/// The user in connection strings, and the user's name at the server.
const USER: (&str, &str) = ("ada%40ONION.TEST", "ada@ONION.TEST");

/// Runs as a server, which accepts `ada` by GSSAPI until it is killed.
#[test]
#[ignore = "the other tests run it in a process of its own"]
fn server() {
    let mut options = ServeOptions::standalone();
    options.users.push(User::external(USER.1));
    options.auth.mechanisms = vec![AuthMechanism::Gssapi];
    let server = Embedded::start(options).expect("the deployment starts");
    println!("\n{MARK}{}", server.uri());
    // The test kills this process. The limit ends the process if the test was killed itself.
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(Duration::from_secs(600));
}

/// Runs as a client, and prints the name of the user, or the error.
#[test]
#[ignore = "the other tests run it in a process of its own"]
fn client() {
    let uri = env::var(URI).expect("a connection string");
    let task = env::var(TASK).expect("a task");
    let result = match task.as_str() {
        "blocking" => on_blocking(&uri),
        "check" => return println!("\n{MARK}{}", checked(&uri)),
        task => on_tokio(&uri, task),
    };
    println!(
        "\n{MARK}{}",
        result.unwrap_or_else(|error| error.to_string())
    );
}

fn on_blocking(uri: &str) -> onionskin_blocking::Result<String> {
    use onionskin_blocking::{Client, Run, bson::doc};
    let client = Client::with_uri_str(uri)?;
    let admin = client.database("admin");
    let status = admin.run_command(doc! { "connectionStatus": 1 }).run()?;
    Ok(user_of(&status))
}

fn on_tokio(uri: &str, task: &str) -> onionskin_tokio::Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let result = runtime.as_ref().expect("a runtime").block_on(async {
        use onionskin_tokio::{Client, bson::doc};
        let client = Client::with_uri_str(uri).await?;
        let admin = client.database("admin");
        let status = || admin.run_command(doc! { "connectionStatus": 1 });
        let mut user = user_of(&status().await?);
        match task {
            "again" => {
                // The server requires authentication again, once (AUTH-37).
                let point = doc! {
                    "configureFailPoint": "failCommand", "mode": { "times": 1 },
                    "data": { "failCommands": ["ping"], "errorCode": 391 },
                };
                admin.run_command(point).await?;
                admin.run_command(doc! { "ping": 1 }).await?;
                user = user_of(&status().await?);
            }
            "many" => {
                // Commands that take long need a connection each.
                let point = doc! {
                    "configureFailPoint": "failCommand", "mode": { "times": 8 },
                    "data": {
                        "failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 300,
                    },
                };
                admin.run_command(point).await?;
                let ping = |client: Client| async move {
                    client
                        .database("admin")
                        .run_command(doc! { "ping": 1 })
                        .await
                };
                let pings = (0..8).map(|_| tokio::spawn(ping(client.clone())));
                for ping in pings.collect::<Vec<_>>() {
                    ping.await.expect("no panic")?;
                }
            }
            _ => {}
        }
        client.shutdown().await;
        Ok(user)
    });
    drop(runtime);
    result
}

/// Returns the report of `onionskin check` in one line.
fn checked(uri: &str) -> String {
    let options = onionskin_check::CheckOptions::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let check = onionskin_check::check(onionskin_tokio::TokioRuntime::default(), uri, &options);
    let report = runtime.expect("a runtime").block_on(check);
    report.to_text(false).replace('\n', " ")
}

fn user_of(status: &bson::Document) -> String {
    let users = status.get_document("authInfo").expect("a status");
    let users = users.get_array("authenticatedUsers").expect("a list");
    let user = users[0].as_document().expect("a user");
    user.get_str("user").expect("a name").to_owned()
}

/// A key distribution center and a server.
struct Scene {
    center: Kdc,
    server: Peer,
}

/// The result of a client, and the time that it took.
struct Outcome {
    result: String,
    time: Duration,
}

impl Scene {
    fn start() -> Option<Self> {
        let center = kerberos::kdc().expect("a center, or none")?;
        let program = env::current_exe().expect("this program");
        let arguments = ["--exact", "server", "--ignored", "--nocapture"];
        let server = center
            .serve(&program, &arguments, MARK)
            .expect("the server starts");
        Some(Self { center, server })
    }

    /// Returns a connection string for this host name, with these additional options.
    fn uri(&self, user: &str, host: &str, more: &str) -> String {
        let port = self.server.address().expect("an address").port();
        format!("mongodb://{user}@{host}:{port}/?authMechanism=GSSAPI{more}")
    }

    /// Runs a client with this task and these variables.
    fn run<V: AsRef<OsStr>>(&self, task: &str, uri: &str, variables: &[(&str, V)]) -> Outcome {
        let program = env::current_exe().expect("this program");
        let mut command = self.center.command(program);
        command
            .args(["--exact", "client", "--ignored", "--nocapture"])
            .env(URI, uri)
            .env(TASK, task);
        for (name, value) in variables {
            command.env(name, value);
        }
        let since = Instant::now();
        let output = peers::run(command, RUN_TIMEOUT).expect("the client runs");
        let result = output.stdout.split_once(MARK).map(|(_, rest)| rest);
        let line = result.and_then(|rest| rest.lines().next());
        Outcome {
            result: line.unwrap_or_else(|| panic!("{output:?}")).to_owned(),
            time: since.elapsed(),
        }
    }

    fn log_in(&self, task: &str, uri: &str) -> String {
        self.run::<&str>(task, uri, &[]).result
    }
}

fn with_password(password: &str) -> String {
    format!("{}:{password}", USER.0)
}

#[test]
fn both_runtimes_log_in_with_a_password() {
    let Some(scene) = Scene::start() else { return };
    for host in ["127.0.0.1", "localhost"] {
        let uri = scene.uri(&with_password(PASSWORD), host, "");
        for task in ["tokio", "blocking"] {
            assert_eq!(scene.log_in(task, &uri), USER.1, "{task} {host}");
        }
    }
}

#[test]
fn both_runtimes_log_in_with_a_ticket_cache_and_a_client_keytab() {
    let Some(scene) = Scene::start() else { return };
    let uri = scene.uri(USER.0, "127.0.0.1", "");
    let cache = scene.center.ticket("ada.ccache", "1h").expect("a ticket");
    let keytab = scene.center.user_keytab();
    for variable in [("KRB5CCNAME", cache), ("KRB5_CLIENT_KTNAME", keytab)] {
        for task in ["tokio", "blocking"] {
            let outcome = scene.run(task, &uri, &[(variable.0, &variable.1)]);
            assert_eq!(outcome.result, USER.1, "{task} {}", variable.0);
        }
    }
}

#[test]
fn a_failure_is_an_error_with_its_reason() {
    let Some(scene) = Scene::start() else { return };
    let short = "&serverSelectionTimeoutMS=3000";
    let named = |properties: &str| format!("{short}&authMechanismProperties={properties}");
    let right = with_password(PASSWORD);
    for (user, more, expected) in [
        (
            with_password("chalk"),
            short.to_owned(),
            "no ticket was obtained with the password",
        ),
        (
            "eve%40ONION.TEST:x".to_owned(),
            short.to_owned(),
            "not found in Kerberos database",
        ),
        (
            "ada%40NOWHERE.TEST:x".to_owned(),
            short.to_owned(),
            "Cannot find KDC for realm",
        ),
        (USER.0.to_owned(), short.to_owned(), "run kinit"),
        (
            right.clone(),
            named("SERVICE_NAME:unknown"),
            "unknown/127.0.0.1@ONION.TEST",
        ),
        (
            right,
            named("SERVICE_REALM:PEEL.TEST"),
            "mongodb/127.0.0.1@PEEL.TEST",
        ),
    ] {
        let uri = scene.uri(&user, "127.0.0.1", &more);
        for task in ["tokio", "blocking"] {
            let error = scene.log_in(task, &uri);
            assert!(
                error.contains(expected) && error.contains("GSSAPI"),
                "{user} {more}: {error}"
            );
            assert!(!error.contains("chalk"), "{error}");
        }
    }
}

#[test]
fn the_check_explains_each_failure() {
    let Some(scene) = Scene::start() else { return };
    for (user, properties, expected) in [
        (with_password(PASSWORD), "SERVICE_NAME:mongodb", "mechanism"),
        (USER.0.to_owned(), "SERVICE_NAME:mongodb", "run kinit"),
        (
            with_password(PASSWORD),
            "SERVICE_NAME:unknown",
            "KRB5_TRACE",
        ),
        (
            format!("ada:{PASSWORD}"),
            "SERVICE_NAME:mongodb",
            "klist -k",
        ),
    ] {
        let more = format!("&authMechanismProperties={properties}");
        let report = scene.log_in("check", &scene.uri(&user, "127.0.0.1", &more));
        assert!(report.contains(expected), "{user} {properties}: {report}");
        assert!(!report.contains(PASSWORD), "{report}");
    }
}

#[test]
fn an_expired_ticket_is_an_error_that_says_so() {
    let Some(scene) = Scene::start() else { return };
    let cache = scene.center.ticket("old.ccache", "1s").expect("a ticket");
    let expired = scene.center.wait_for_expiry(&cache);
    expired.expect("the ticket expires");
    let uri = scene.uri(USER.0, "127.0.0.1", "&serverSelectionTimeoutMS=3000");
    let outcome = scene.run("tokio", &uri, &[("KRB5CCNAME", &cache)]);
    let is_named = outcome.result.to_lowercase().contains("expired");
    assert!(
        is_named && outcome.result.contains("kinit"),
        "{}",
        outcome.result
    );
}

#[test]
fn each_property_changes_the_service() {
    // `SERVICE_NAME` (AUTH-68), the canonical name of the host (AUTH-71), `SERVICE_REALM` and
    // `SERVICE_HOST` (AUTH-73). Only `localhost` has the service `custom`, and only the other realm
    // has `db.peel.test`.
    let Some(scene) = Scene::start() else { return };
    let user = with_password(PASSWORD);
    for (host, properties) in [
        ("localhost", "SERVICE_NAME:custom"),
        ("127.0.0.1", "SERVICE_NAME:custom,SERVICE_HOST:localhost"),
        ("127.0.0.1", "SERVICE_HOST:db.onion.test"),
        (
            "127.0.0.1",
            "SERVICE_HOST:db.peel.test,SERVICE_REALM:PEEL.TEST",
        ),
        (
            "127.0.0.1",
            "SERVICE_NAME:custom,CANONICALIZE_HOST_NAME:forwardAndReverse",
        ),
        (
            "localhost",
            "SERVICE_NAME:custom,CANONICALIZE_HOST_NAME:forward",
        ),
        (
            "localhost",
            "SERVICE_NAME:custom,CANONICALIZE_HOST_NAME:none",
        ),
    ] {
        let uri = scene.uri(
            &user,
            host,
            &format!("&authMechanismProperties={properties}"),
        );
        for task in ["tokio", "blocking"] {
            assert_eq!(scene.log_in(task, &uri), USER.1, "{host} {properties}");
        }
    }
    let alias = scene.uri(&user, "localhost", "&gssapiServiceName=custom");
    assert_eq!(scene.log_in("tokio", &alias), USER.1, "the alias (AUTH-76)");
}

#[test]
fn a_user_without_a_realm_has_that_of_the_configuration() {
    // The server knows users with their realm, so it refuses the name that the client gives.
    let Some(scene) = Scene::start() else { return };
    let more = "&serverSelectionTimeoutMS=3000";
    let uri = scene.uri(&format!("ada:{PASSWORD}"), "127.0.0.1", more);
    let error = scene.log_in("tokio", &uri);
    assert!(
        error.contains("the server refused authentication"),
        "{error}"
    );
}

#[test]
fn connections_share_the_tickets_of_a_password() {
    let Some(scene) = Scene::start() else { return };
    let uri = scene.uri(&with_password(PASSWORD), "127.0.0.1", "&maxConnecting=8");
    assert_eq!(scene.log_in("many", &uri), USER.1);
    let issued = |kind| scene.center.issued(kind);
    assert_eq!((issued("AS_REQ"), issued("TGS_REQ")), (1, 1));
}

#[test]
fn a_connection_authenticates_again_if_the_server_requires_it() {
    // Error 391 (AUTH-37).
    let Some(scene) = Scene::start() else { return };
    let uri = scene.uri(&with_password(PASSWORD), "127.0.0.1", "");
    assert_eq!(scene.log_in("again", &uri), USER.1);
}

#[test]
fn a_missing_or_silent_center_is_an_error_within_the_time_limits() {
    let Some(mut scene) = Scene::start() else {
        return;
    };
    let more = "&connectTimeoutMS=1000&serverSelectionTimeoutMS=2000";
    let uri = scene.uri(&with_password(PASSWORD), "127.0.0.1", more);
    scene.center.stop();
    for task in ["tokio", "blocking"] {
        let outcome = scene.run::<&str>(task, &uri, &[]);
        assert!(outcome.time < Duration::from_secs(10), "{:?}", outcome.time);
        assert_ne!(outcome.result, USER.1);
    }
    let silent = scene.center.silence().expect("the port is free");
    for task in ["tokio", "blocking"] {
        let outcome = scene.run::<&str>(task, &uri, &[]);
        assert!(outcome.time < Duration::from_secs(10), "{:?}", outcome.time);
        let names_it = outcome.result.contains("key distribution center");
        assert!(names_it, "{task}: {}", outcome.result);
    }
    drop(silent);
    scene.center.restart().expect("the center starts");
    assert_eq!(scene.log_in("tokio", &uri), USER.1);
}

#[test]
fn pymongo_logs_in_to_the_server() {
    // PyMongo implements the mechanism itself. Its library pykerberos takes no password.
    let Some(interpreter) = kerberos::python_with_gssapi() else {
        return;
    };
    let Some(scene) = Scene::start() else { return };
    let cache = scene.center.ticket("ada.ccache", "1h").expect("a ticket");
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/peers/pymongo_gssapi/authenticate.py"
    );
    let run = |more: &str, has_ticket: bool| {
        let mut command = scene.center.command(&interpreter);
        command
            .arg(script)
            .arg(scene.uri(USER.0, "127.0.0.1", more));
        if has_ticket {
            command.env("KRB5CCNAME", &cache);
        }
        peers::run(command, RUN_TIMEOUT).expect("the driver runs")
    };
    for properties in [
        "SERVICE_NAME:mongodb",
        "SERVICE_NAME:custom,SERVICE_HOST:localhost",
        "SERVICE_NAME:custom,CANONICALIZE_HOST_NAME:forwardAndReverse",
    ] {
        let more = format!("&authMechanismProperties={properties}");
        let output = run(&more, true);
        assert_eq!(output.stdout.trim(), USER.1, "{properties}: {output:?}");
    }
    let output = run("", false);
    assert!(!output.status.success(), "{output:?}");
}
