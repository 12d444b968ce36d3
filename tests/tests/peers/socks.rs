//! Tests of the client behind real SOCKS5 proxies, microsocks and Dante, which share no code with
//! this project. The servers are simulated deployments on real sockets.

use bson::doc;
use onionskin::{Client, Error};
use onionskin_core::error::ErrorKind;
use onionskin_deployment::deployment::User;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::{
    compressors::with_compressors,
    crud,
    peers::{self, FerretDb, ProxyProtocol, Scratch, SocksProxy},
};
use onionskin_tokio::TokioRuntime;

type Login = Option<(&'static str, &'static str)>;

const LOGIN: Login = Some(("username", "p4ssw0rd"));

/// A server on a port on which none listens.
const CLOSED: &str = "mongodb://localhost:1/?directConnection=true";

fn on_tokio<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(future)
}

/// Starts each kind of proxy that lets clients pass, and calls the function with the name of the
/// proxy, the proxy, and the login for it.
fn each_proxy(run: impl Fn(&str, &SocksProxy, Login)) {
    if let Some(proxy) = peers::microsocks(None).expect("starts") {
        run("microsocks", &proxy, None);
        // The proxy chooses to need no login, although one is offered (SOCKS-13).
        run("microsocks, unneeded login", &proxy, LOGIN);
    }
    if let Some(proxy) = peers::microsocks(LOGIN).expect("starts") {
        run("microsocks with login", &proxy, LOGIN);
    }
    if let Some(proxy) = peers::dante(false).expect("starts") {
        run("Dante", &proxy, None);
        run("Dante, unneeded login", &proxy, LOGIN);
    }
}

/// Returns the error of a `ping` with this connection string.
fn failure(uri: &str) -> Error {
    on_tokio(async {
        let runtime = TokioRuntime::default();
        let uri = format!("{uri}&serverSelectionTimeoutMS=1500");
        let client = Client::builder_from_uri(runtime, &with_compressors(&uri))
            .expect("a connection string");
        let client = client.build().expect("a client");
        let admin = client.database("admin");
        let error = admin.run_command(doc! { "ping": 1 }).await;
        drop(admin);
        client.shutdown().await;
        match error.expect_err("the proxy fails").kind() {
            ErrorKind::ServerSelection { cause, .. } => cause.clone().expect("an error"),
            other => panic!("{other:?}"),
        }
    })
}

/// Returns the connection string with the name `localhost` instead of the address, so that the
/// proxy has to resolve a name.
fn by_name(uri: &str) -> String {
    uri.replacen("127.0.0.1:", "localhost:", 1)
}

#[test]
fn operations_succeed_through_each_proxy() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    each_proxy(|name, proxy, login| {
        for uri in [deployment.uri().to_owned(), by_name(deployment.uri())] {
            let uri = proxy.before(&uri, login);
            on_tokio(crud::run::<TokioRuntime>(name, &uri));
        }
    });
}

#[test]
fn operations_succeed_through_each_proxy_with_scram_and_tls() {
    // TLS and the check of the certificate begin after the reply of the proxy (SOCKS-15).
    let certificates = Scratch::new().expect("a directory");
    let mut options = ServeOptions::replica_set("rs", 3);
    options.users.push(User::new("ada", "pencil"));
    options.tls = true;
    options.tls_directory = Some(certificates.path().to_owned());
    let deployment = Embedded::start(options).expect("starts");
    each_proxy(|name, proxy, login| {
        let (name, uri) = (
            format!("{name}, TLS"),
            proxy.before(deployment.uri(), login),
        );
        on_tokio(crud::run::<TokioRuntime>(&name, &uri));
    });
}

#[test]
fn operations_succeed_through_each_proxy_and_a_load_balancer() {
    // With TLS, all layers are used: the proxy, the load balancer, TLS and compression.
    let certificates = Scratch::new().expect("a directory");
    for tls in [false, true] {
        let mut options = ServeOptions::load_balanced(2);
        options.tls = tls;
        options.tls_directory = Some(certificates.path().to_owned());
        let deployment = Embedded::start(options).expect("starts");
        let services = deployment.addresses();
        let haproxy = peers::haproxy(services, ProxyProtocol::Binary).expect("starts");
        let tls_options = deployment.uri().find("tls=true");
        let tls_options = tls_options.map(|start| format!("&{}", &deployment.uri()[start..]));
        let tls_options = tls_options.unwrap_or_default();
        each_proxy(|name, proxy, login| {
            let mut balancers = vec![("a load balancer", deployment.uri().to_owned())];
            let peer = haproxy.as_ref();
            balancers.extend(peer.map(|peer| ("HAProxy", format!("{}{tls_options}", peer.uri()))));
            for (balancer, uri) in balancers {
                let uri = proxy.before(&format!("{uri}&compressors=zlib"), login);
                let name = format!("{name}, {balancer}, TLS {tls}");
                on_tokio(crud::run::<TokioRuntime>(&name, &uri));
            }
        });
    }
}

#[test]
fn operations_succeed_through_each_proxy_on_ferretdb() {
    for options in [FerretDb::default(), FerretDb::default().with_tls()] {
        let Some(server) = peers::ferretdb(options).expect("starts") else {
            return;
        };
        each_proxy(|name, proxy, login| {
            let uri = proxy.before(server.uri(), login);
            on_tokio(crud::run::<TokioRuntime>(
                &format!("{name}, FerretDB"),
                &uri,
            ));
        });
    }
}

#[test]
fn each_failure_of_a_proxy_is_a_network_error_that_names_the_hop() {
    // SOCKS-19.
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let assert_fails = |(uri, words): (String, &str)| {
        let error = failure(&uri);
        assert!(
            error.is_network() && error.to_string().contains(words),
            "{error}"
        );
        let text = format!("{error:?}");
        assert!(
            !text.contains("badauth") && !text.contains("p4ssw0rd"),
            "{text}"
        );
    };
    let wrong = Some(("nonexistentuser", "badauth"));
    let required = "requires authentication; set proxyUsername and proxyPassword";
    let refused = "refused the user name or the password";
    let unreachable = "could not reach the server: connection refused";
    let (micro, dante, open) = (
        peers::microsocks(LOGIN).expect("starts"),
        peers::dante(true).expect("starts"),
        peers::dante(false).expect("starts"),
    );
    let mut cases = Vec::new();
    for proxy in [&micro, &dante].into_iter().flatten() {
        cases.push((proxy.before(deployment.uri(), None), required));
        cases.push((proxy.before(deployment.uri(), wrong), refused));
    }
    let closed = micro.iter().map(|proxy| proxy.before(CLOSED, LOGIN));
    cases.extend(closed.map(|uri| (uri, unreachable)));
    let closed = open.iter().map(|proxy| proxy.before(CLOSED, None));
    cases.extend(closed.map(|uri| (uri, unreachable)));
    // Each client waits until its selection times out, so they wait at the same time.
    let all_fail = |cases: Vec<(String, &str)>| {
        std::thread::scope(|scope| {
            for case in cases {
                scope.spawn(|| assert_fails(case));
            }
        });
    };
    all_fail(cases);
    if let Some(proxy) = micro {
        let gone = format!("cannot connect to the proxy {}: ", proxy.address());
        let uri = proxy.before(deployment.uri(), LOGIN);
        drop(proxy);
        assert_fails((uri, &gone));
    }
}
