//! Revocation of server certificates over real sockets. `openssl ocsp` makes the responses: those
//! that servers staple, and those of responders.

mod check;
mod responder;

use bson::{Document, doc};
use onionskin::{Client, Error, Runtime};
use onionskin_blocking::Run;
use onionskin_core::{
    error::{ErrorKind, TlsFault},
    event::{Event, EventKind, SdamEvent},
};
use onionskin_tests::{
    conformance::server::{Server, SystemPort, answer},
    peers::{
        openssl,
        pki::{Keys, Kind, Pki},
    },
};
use onionskin_tokio::TokioRuntime;
use responder::{Behaviour, Responder};
use std::{
    future::{IntoFuture, poll_fn},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

/// A limit that no test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// A certificate, a server that uses it, and the responder that the certificate names.
struct Stage {
    server: Server,
    pki: Arc<Pki>,
    responder: Responder,
    _closed: SystemPort,
}

impl Stage {
    /// Starts a server that staples a response if `staples` is true. Without a `behaviour` the
    /// certificate names a responder that does not listen.
    fn new(openssl: &Path, kind: Kind, staples: bool, behaviour: Option<Behaviour>) -> Self {
        let responder = Responder::start(behaviour.unwrap_or(Behaviour::Honest));
        let closed = SystemPort::closed();
        let port = match behaviour {
            Some(_) => responder.port(),
            None => closed.address().port(),
        };
        let pki = Arc::new(Pki::new(openssl, kind, &[port]));
        let staple = staples.then(|| pki.respond(None));
        let server = Server::tls(pki.server(staple), answer);
        let source = pki.clone();
        responder.set_answer(Box::new(move |request| source.respond(Some(request))));
        Self {
            server,
            pki,
            responder,
            _closed: closed,
        }
    }

    fn uri(&self, options: &str) -> String {
        let authority = self.pki.authority();
        let common = "serverSelectionTimeoutMS=30000&tls=true&tlsCAFile";
        self.server
            .uri(&format!("{common}={}{options}", authority.display()))
    }
}

/// The first error of the monitor, and the task that waits for it.
#[derive(Default)]
struct Failure {
    error: Option<Error>,
    waker: Option<Waker>,
}

/// Sends a ping. Ends with the first error of the monitor, if there is one.
async fn ping<R: Runtime>(runtime: R, uri: &str) -> Result<(), Error> {
    let failure: Arc<Mutex<Failure>> = Arc::default();
    let sink = failure.clone();
    let listener = Arc::new(move |event: &Event| {
        if let EventKind::Sdam(SdamEvent::HeartbeatFailed { failure, .. }) = &event.kind {
            let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
            sink.error.get_or_insert_with(|| failure.clone());
            if let Some(waker) = sink.waker.take() {
                waker.wake();
            }
        }
    });
    let builder = Client::builder_from_uri(runtime, uri)?;
    let client = builder.event_listener(listener).build()?;
    let admin = client.database("admin");
    let command = admin.run_command(doc! { "ping": 1 });
    let mut operation = Box::pin(command.into_future());
    let result = poll_fn(|context| {
        if let Poll::Ready(result) = operation.as_mut().poll(context) {
            return Poll::Ready(result.map(|_: Document| ()));
        }
        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.error.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => {
                failure.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await;
    drop(operation);
    client.shutdown().await;
    result
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let limited = async { tokio::time::timeout(PATIENCE, future).await };
    runtime.block_on(limited).expect("in time")
}

/// The end of the message about a certificate that was revoked.
const REVOKED: &str = "its issuer has revoked it";

/// Checks the three rows of the specification's table: TLS, with `tlsInsecure`, and with
/// `tlsAllowInvalidCertificates`.
fn check_rows(stage: &Stage, what: &str, refusal: Option<&str>) {
    let met = block_on(ping(TokioRuntime::default(), &stage.uri("")));
    match (met, refusal) {
        (Ok(()), None) => {}
        (Err(error), Some(words)) => {
            let ErrorKind::Tls { fault, message } = error.kind() else {
                panic!("{what}: {error}");
            };
            let expected = match words == REVOKED {
                true => TlsFault::Revoked,
                false => TlsFault::Certificate,
            };
            assert_eq!(*fault, expected, "{what}: {message}");
            assert!(message.contains(words), "{what}: {message}");
        }
        (met, expected) => panic!("{what}: {met:?}, not {expected:?}"),
    }
    let asked = stage.responder.requests();
    for options in ["&tlsInsecure=true", "&tlsAllowInvalidCertificates=true"] {
        let met = block_on(ping(TokioRuntime::default(), &stage.uri(options)));
        met.unwrap_or_else(|error| panic!("{what} {options}: {error}"));
    }
    assert_eq!(
        stage.responder.requests(),
        asked,
        "{what}: revocation is not checked"
    );
}

/// Runs columns 1 to 4 of the table and the two tests of malicious servers, with these keys and
/// this signer of responses. Revocation is checked by default (OCSP-3). The soft fail test passes,
/// so `tlsDisableOCSPEndpointCheck` and `tlsDisableCertificateRevocationCheck` are false by default
/// (OCSP-17, OCSP-21). The malicious servers are refused (OCSP-40, OCSP-41).
fn check_columns(keys: Keys, is_delegated: bool) {
    let Some(openssl) = openssl() else {
        return;
    };
    const UNSTAPLED: &str = "the server has sent none";
    let honest = Some(Behaviour::Honest);
    for (what, is_revoked, must_staple, staples, behaviour, refusal) in [
        ("test 1", false, true, true, honest, None),
        ("test 2", true, true, true, honest, Some(REVOKED)),
        ("test 3", false, false, false, honest, None),
        ("test 4", true, false, false, honest, Some(REVOKED)),
        ("soft fail test", false, false, false, None, None),
        (
            "malicious server test 1",
            true,
            true,
            false,
            honest,
            Some(UNSTAPLED),
        ),
        (
            "malicious server test 2",
            false,
            true,
            false,
            None,
            Some(UNSTAPLED),
        ),
    ] {
        let kind = Kind {
            keys,
            is_delegated,
            must_staple,
            is_revoked,
            ..PLAIN
        };
        let stage = Stage::new(&openssl, kind, staples, behaviour);
        let what = format!("{what} {kind:?}");
        check_rows(&stage, &what, refusal);
        let is_asked = !staples && !must_staple && behaviour.is_some();
        // Monitor and pool share one answer.
        assert_eq!(stage.responder.requests(), usize::from(is_asked), "{what}");
    }
}

#[test]
fn ocsp_table_ecdsa_direct() {
    check_columns(Keys::EcdsaP256, false);
}

#[test]
fn ocsp_table_ecdsa_delegated() {
    check_columns(Keys::EcdsaP256, true);
}

#[test]
fn ocsp_table_rsa_direct() {
    check_columns(Keys::Rsa2048, false);
}

#[test]
fn ocsp_table_rsa_delegated() {
    check_columns(Keys::Rsa2048, true);
}

const PLAIN: Kind = Kind {
    keys: Keys::EcdsaP256,
    is_delegated: false,
    has_long_serial: false,
    must_staple: false,
    is_revoked: false,
};

#[test]
fn a_certificate_with_a_long_serial_number_is_checked() {
    // OCSP-12, OCSP-30.
    let Some(openssl) = openssl() else {
        return;
    };
    for (is_revoked, refusal) in [(false, None), (true, Some(REVOKED))] {
        let kind = Kind {
            has_long_serial: true,
            is_revoked,
            ..PLAIN
        };
        for staples in [false, true] {
            let stage = Stage::new(&openssl, kind, staples, Some(Behaviour::Honest));
            check_rows(&stage, &format!("{kind:?} {staples}"), refusal);
        }
    }
}

#[test]
fn a_faulty_responder_does_not_prevent_connections() {
    // OCSP-14. The certificate is revoked, which no faulty answer shows.
    let Some(openssl) = openssl() else {
        return;
    };
    let kind = Kind {
        is_revoked: true,
        ..PLAIN
    };
    for behaviour in Behaviour::FAULTS {
        let stage = Stage::new(&openssl, kind, false, Some(behaviour));
        // A silent responder is waited for during half of the connect timeout.
        let uri = stage.uri("&connectTimeoutMS=1000");
        let met = block_on(ping(TokioRuntime::default(), &uri));
        met.unwrap_or_else(|error| panic!("{behaviour:?}: {error}"));
        assert!(stage.responder.requests() >= 1, "{behaviour:?}");
    }
}

#[test]
fn options_disable_the_check_of_revocation() {
    // OCSP-16, OCSP-20.
    let Some(openssl) = openssl() else {
        return;
    };
    let kind = Kind {
        is_revoked: true,
        ..PLAIN
    };
    let unstapled = Stage::new(&openssl, kind, false, Some(Behaviour::Honest));
    let stapled = Stage::new(&openssl, kind, true, Some(Behaviour::Honest));
    let without_endpoints = "&tlsDisableOCSPEndpointCheck=true";
    let without_check = "&tlsDisableCertificateRevocationCheck=true";
    let try_it =
        |stage: &Stage, options: &str| block_on(ping(TokioRuntime::default(), &stage.uri(options)));
    try_it(&unstapled, without_endpoints).expect("nothing is known");
    try_it(&unstapled, without_check).expect("nothing is checked");
    assert_eq!(unstapled.responder.requests(), 0);
    // A staple needs no endpoint.
    let error = try_it(&stapled, without_endpoints).expect_err("it was revoked");
    assert!(error.to_string().contains(REVOKED), "{error}");
    try_it(&stapled, without_check).expect("nothing is checked");
}

#[test]
fn revocation_is_checked_on_each_runtime() {
    let Some(openssl) = openssl() else {
        return;
    };
    for is_revoked in [false, true] {
        let kind = Kind {
            is_revoked,
            ..PLAIN
        };
        let stage = Stage::new(&openssl, kind, false, Some(Behaviour::Honest));
        let uri = stage.uri("");
        let smol = smol::block_on(ping(onionskin_smol::SmolRuntime::default(), &uri));
        let runtime = onionskin_async_std::AsyncStdRuntime::default();
        let async_std = async_std::task::block_on(ping(runtime, &uri));
        let runtime = onionskin_blocking::BlockingRuntime::default();
        let client =
            Client::builder_from_uri(runtime, &stage.uri("&serverSelectionTimeoutMS=2000"))
                .and_then(onionskin::ClientBuilder::build)
                .map(onionskin_blocking::Client::from)
                .expect("a client");
        let admin = client.database("admin");
        let blocking = admin.run_command(doc! { "ping": 1 }).run().map(drop);
        client.shutdown().run();
        for (name, met) in [
            ("smol", smol),
            ("async-std", async_std),
            ("blocking", blocking),
        ] {
            assert_eq!(met.is_err(), is_revoked, "{name}: {met:?}");
        }
        assert_eq!(stage.responder.requests(), 3);
    }
}
