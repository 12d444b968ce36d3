//! Tests of clients whose Kerberos library never returns, or panics: operations fail in time, one
//! thread is lost for each server, and the client can be shut down.

use onionskin::options::{
    CanonicalizeHostName, ClientOptions, Kerberos, KerberosTarget, SecurityContext,
};
use onionskin_deployment::deployment::User;
use onionskin_serve::{Embedded, ServeOptions};
use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// A library whose calls do not return until it is released.
#[derive(Default)]
struct Blocked {
    /// The number of calls.
    calls: AtomicUsize,
    is_released: Mutex<bool>,
    released: Condvar,
}

impl Blocked {
    fn release(&self) {
        *self.is_released.lock().expect("no panic") = true;
        self.released.notify_all();
    }
}

impl Kerberos for Blocked {
    fn canonical_name(&self, host: &str, _: CanonicalizeHostName) -> Result<String, String> {
        Ok(host.to_owned())
    }

    fn begin(&self, _: &KerberosTarget) -> Result<Box<dyn SecurityContext>, String> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let guard = self.is_released.lock().expect("no panic");
        drop(self.released.wait_while(guard, |is_released| !*is_released));
        Err("released".to_owned())
    }
}

/// A library that panics.
struct Panicking;

impl Kerberos for Panicking {
    fn canonical_name(&self, host: &str, _: CanonicalizeHostName) -> Result<String, String> {
        Ok(host.to_owned())
    }

    fn begin(&self, _: &KerberosTarget) -> Result<Box<dyn SecurityContext>, String> {
        panic!("a panic of a test")
    }
}

/// A server that requires authentication.
fn server() -> Embedded {
    let mut options = ServeOptions::standalone();
    options.users.push(User::new("ada", "pencil"));
    Embedded::start(options).expect("the deployment starts")
}

fn options(server: &Embedded, library: Arc<dyn Kerberos>) -> ClientOptions {
    let address = server.addresses()[0];
    let text = format!(
        "mongodb://ada%40R@{address}/?authMechanism=GSSAPI&connectTimeoutMS=3000\
         &serverSelectionTimeoutMS=10000&maxConnecting=8"
    );
    let mut options = ClientOptions::parse(&text)
        .run()
        .expect("a connection string");
    options.set_kerberos(Some(library));
    options
}

#[test]
fn calls_that_never_return_cost_errors_and_one_thread() {
    let server = server();
    let library = Arc::new(Blocked::default());
    let options = options(&server, library.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let client = onionskin_tokio::Client::with_options(options);
        let client = client.expect("the client is created");
        for _ in 0..2 {
            let since = Instant::now();
            let ping = |client: onionskin_tokio::Client| async move {
                let admin = client.database("admin");
                admin.run_command(bson::doc! { "ping": 1 }).await
            };
            let pings = (0..8).map(|_| tokio::spawn(ping(client.clone())));
            for ping in pings.collect::<Vec<_>>() {
                ping.await.expect("no panic").expect_err("no login");
            }
            assert!(since.elapsed() < Duration::from_secs(60));
            assert_eq!(library.calls.load(Ordering::SeqCst), 1);
        }
        let since = Instant::now();
        client.shutdown().await;
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "it waits for no call"
        );
    });
    library.release();
}

#[test]
fn a_blocking_client_does_not_wait_for_a_call_that_never_returns() {
    use onionskin_blocking::Run;
    let server = server();
    let library = Arc::new(Blocked::default());
    let client = onionskin_blocking::Client::with_options(options(&server, library.clone()));
    let client = client.expect("the client is created");
    let since = Instant::now();
    let admin = client.database("admin");
    let error = admin.run_command(bson::doc! { "ping": 1 }).run();
    let error = error.expect_err("no login").to_string();
    assert!(error.contains("key distribution center"), "{error}");
    client.shutdown().run();
    assert!(since.elapsed() < Duration::from_secs(60));
    library.release();
}

#[test]
fn a_panic_of_the_library_is_an_error() {
    use onionskin_blocking::Run;
    let server = server();
    let client = onionskin_blocking::Client::with_options(options(&server, Arc::new(Panicking)));
    let client = client.expect("the client is created");
    let admin = client.database("admin");
    let error = admin.run_command(bson::doc! { "ping": 1 }).run();
    let error = error.expect_err("no login").to_string();
    assert!(error.contains("the Kerberos library panicked"), "{error}");
}
