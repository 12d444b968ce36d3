//! Runs the same operations with each adapter, against FerretDB and against the simulated
//! deployment.

use crate::adapters::{Adapter, AsyncStd, Smol, Tokio};
use bson::doc;
use onionskin::{Client, Error, error::ErrorKind, options::ServerApi};
use onionskin_core::{error::TlsFault, uri};
use onionskin_deployment::deployment::{ServerVersion, User};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::{
    crud,
    peers::{self, Certificates, FerretDb},
};
use std::{path::Path, time::Duration};

fn crud<A: Adapter>(deployment: &str, uri: &str) {
    let name = format!("{deployment}, {}", A::NAME);
    A::block_on(crud::run::<A::R>(&name, uri));
}

/// Asserts that a client with a wrong password gets an authentication error.
fn assert_authentication_fails<A: Adapter>(uri: &str) {
    let (error, client) = A::block_on(crud::refusal::<A::R>(uri));
    let ErrorKind::Authentication { mechanism, .. } = error.kind() else {
        panic!("{error:?} is not about the login");
    };
    assert_eq!(*mechanism, "SCRAM-SHA-256", "{error:?}");
    assert!(error.server().is_some(), "{error:?}");
    shut_down::<A>(client);
}

/// Asserts the error of a client that does not trust the server's certificate. Server selection
/// fails, and its error contains the cause (SEL-60), as does the server description.
fn assert_no_trust<A: Adapter>(uri: &str) {
    let uri = format!("{uri}&serverSelectionTimeoutMS=2000");
    let (error, topology) = A::block_on(async {
        let (error, client): (Error, _) = crud::refusal::<A::R>(&uri).await;
        let topology = client.topology();
        client.shutdown().await;
        (error, topology)
    });
    let selection = matches!(error.kind(), ErrorKind::ServerSelection { .. });
    assert!(
        selection && error.to_string().contains("TLS: "),
        "{error:?}"
    );
    assert!(!topology.servers.is_empty());
    for server in topology.servers.values() {
        let cause = server.error.as_ref().map(Error::kind);
        let Some(ErrorKind::Tls { fault, .. }) = cause else {
            panic!("{cause:?} is not about TLS");
        };
        assert_eq!(*fault, TlsFault::Certificate);
    }
}

fn shut_down<A: Adapter>(client: Client<A::R>) {
    A::block_on(client.shutdown());
}

fn ferretdb_plain<A: Adapter>() {
    let Some(server) = peers::ferretdb(FerretDb::default()).expect("starts") else {
        return;
    };
    crud::<A>("FerretDB", server.uri());
}

fn ferretdb_with_scram<A: Adapter>() {
    let options = FerretDb::default().with_authentication();
    let Some(server) = peers::ferretdb(options).expect("starts") else {
        return;
    };
    let uri = format!("{}?authMechanism=SCRAM-SHA-256", server.uri());
    crud::<A>("FerretDB with SCRAM", &uri);
    assert_authentication_fails::<A>(&uri.replace("pencil", "chalk"));
}

fn ferretdb_with_tls<A: Adapter>() {
    let options = FerretDb::default().with_tls();
    let Some(server) = peers::ferretdb(options).expect("starts") else {
        return;
    };
    crud::<A>("FerretDB with TLS", server.uri());
    let others = Certificates::generate().expect("other certificates");
    assert_no_trust::<A>(&with_authority(server.uri(), &others.authority));
}

/// Returns the URI with another `tlsCAFile`.
fn with_authority(uri: &str, authority: &Path) -> String {
    let (before, after) = uri.split_once("tlsCAFile=").expect("an authority");
    let rest = after.split_once('&').map_or("", |(_, rest)| rest);
    let path = authority.display().to_string().replace('/', "%2F");
    format!("{before}tlsCAFile={path}&{rest}")
        .trim_end_matches('&')
        .to_owned()
}

/// Returns the options of a replica set with short times for elections and for the detection of
/// failures.
fn replica_set() -> ServeOptions {
    let mut options = ServeOptions::replica_set("rs0", 3);
    options.election_timeout = Duration::from_millis(200);
    options.heartbeat_interval = Duration::from_millis(40);
    options
}

fn embedded_standalone<A: Adapter>() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    crud::<A>("embedded standalone", deployment.uri());
}

fn embedded_replica_set<A: Adapter>() {
    let deployment = Embedded::start(replica_set()).expect("starts");
    crud::<A>("embedded replica set", deployment.uri());
    let name = format!("embedded, {}", A::NAME);
    A::block_on(crud::replica_set::run::<A::R>(&name, &deployment));
    A::block_on(crud::sessions::run::<A::R>(&name, deployment.uri()));
    A::block_on(crud::search::run::<A::R>(&name, deployment.uri()));
    A::block_on(crud::lifecycle::run::<A::R>(&name, deployment.uri()));
}

fn embedded_replica_set_with_authentication_and_tls<A: Adapter>() {
    let certificates = peers::Scratch::new().expect("a directory");
    let mut options = replica_set();
    options.users.push(User::new("ada", "pen cil:@/"));
    options.tls = true;
    options.tls_directory = Some(certificates.path().to_owned());
    let deployment = Embedded::start(options).expect("starts");
    let uri = deployment.uri();
    crud::<A>("embedded replica set with login and TLS", uri);
    assert_authentication_fails::<A>(&uri.replace("ada:pen", "ada:ink"));
    let others = Certificates::generate().expect("other certificates");
    assert_no_trust::<A>(&with_authority(uri, &others.authority));
}

/// The tests with a server that requires a declared version of the API
/// (`versioned-api/tests/README.md`, "Testing with required API version").
fn embedded_standalone_that_requires_a_declared_api<A: Adapter>() {
    let mut options = ServeOptions::standalone();
    options.users.push(User::new("ada", "pencil"));
    let deployment = Embedded::start(options).expect("starts");
    let api = Some(ServerApi::builder().build());
    A::block_on(async {
        let mut options = uri::parse(deployment.uri()).expect("it is valid").options;
        options.server_api = api;
        let client = Client::builder(A::R::default(), options);
        let client = client.build().expect("a client");
        let require = doc! { "setParameter": 1, "requireApiVersion": true };
        let set = client.database("admin").run_command(require).await;
        set.expect("it is set");
        client.shutdown().await;
        // The server stays unknown, so that the operation waits for this limit.
        let uri = format!("{}?serverSelectionTimeoutMS=500", deployment.uri());
        let (error, client) = crud::refusal::<A::R>(&uri).await;
        let text = error.to_string();
        assert!(
            text.contains("The apiVersion parameter is required"),
            "{text}"
        );
        client.shutdown().await;
    });
    let name = format!("embedded with a required API, {}", A::NAME);
    A::block_on(crud::run_declaring::<A::R>(&name, deployment.uri(), api));
}

fn embedded_bulk_writes<A: Adapter>() {
    let mut options = replica_set();
    options.limits.max_write_batch = crud::bulk::MAX_WRITE_BATCH;
    options.version = ServerVersion::named("8.0").expect("a release");
    let deployment = Embedded::start(options).expect("starts");
    let name = format!("embedded, {}", A::NAME);
    // After a shutdown error of a fail point, the server is unknown until the next check.
    let uri = format!("{}&heartbeatFrequencyMS=500", deployment.uri());
    A::block_on(crud::bulk::run::<A::R>(&name, &uri));
    A::block_on(crud::collection_bulk::run::<A::R>(&name, &uri));
}

/// Makes a test of each function for one adapter.
macro_rules! on {
    ($module:ident, $adapter:ident, [$($test:ident),+ $(,)?]) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::$test::<super::$adapter>();
                }
            )+
        }
    };
    ($($module:ident: $adapter:ident),+ $(,)?) => {
        $(
            on!($module, $adapter, [
                ferretdb_plain,
                ferretdb_with_scram,
                ferretdb_with_tls,
                embedded_standalone,
                embedded_replica_set,
                embedded_replica_set_with_authentication_and_tls,
                embedded_standalone_that_requires_a_declared_api,
                embedded_bulk_writes,
            ]);
        )+
    };
}

on!(on_tokio: Tokio, on_async_std: AsyncStd, on_smol: Smol);
