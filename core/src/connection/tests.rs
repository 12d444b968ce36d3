//! Tests of the time limits of a connection's steps, and of the reports and errors of connections.

mod compression;
mod layers;
mod replies;
mod socks5;

pub(crate) use layers::ProxyPlan;
pub(crate) use replies::wrong_heads;

use super::{
    Connection, ConnectionPurpose, HandshakeOptions, Layers, Output, Phase, closed_by_peer,
};
use crate::{
    address::Address,
    auth::AuthState,
    error::{Error, ErrorKind, IoError, NetworkFault},
    hello::HelloReply,
    options::TlsOptions,
    random::Seed,
    time::Instant,
    tls::TlsContext,
    wire::{Header, MAX_MESSAGE_BYTES, MessageWriter},
};
use bson::rawdoc;
use std::{sync::Arc, time::Duration};

/// Returns the state of authentication of a client.
fn auth() -> AuthState {
    AuthState::new(Seed::new([0; 32]).random())
}

fn options() -> HandshakeOptions {
    HandshakeOptions {
        layers: Layers::default(),
        compression: None,
        metadata: bson::RawDocumentBuf::new(),
        credential: None,
        legacy_hello: true,
        load_balanced: false,
        server_api: None,
        connect_timeout: None,
        socket_timeout: None,
        timeout: None,
    }
}

/// Returns TLS as the only layer, or no layers if `tls` is `None`.
fn layers(tls: Option<TlsContext>) -> Layers {
    let mut layers = Layers::default();
    if let Some(tls) = tls {
        layers.push(tls);
    }
    layers
}

/// Returns a connection that is being dialled.
fn dialled(purpose: ConnectionPurpose, options: HandshakeOptions) -> Connection {
    let address = Address::tcp("localhost", 27017);
    Connection::new(Instant::ZERO, address, purpose, Arc::new(options))
}

/// Returns the error of a connection whose peer closes it as soon as it is connected.
fn error_of_early_close(tls: Option<TlsContext>) -> Error {
    let now = Instant::ZERO;
    let options = HandshakeOptions {
        layers: layers(tls),
        ..options()
    };
    let mut connection = dialled(ConnectionPurpose::Monitor, options);
    connection.handle_connected(now, &mut auth());
    connection.handle_failed(closed_by_peer());
    match connection.poll_output() {
        Some(Output::Failed { error, phase }) => {
            // An end of the stream within the TLS handshake counts like an end before the hello
            // reply (CMAP-47).
            assert_eq!(phase, Phase::Hello);
            error
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_early_close_by_the_peer_fails_with_a_hint_about_tls() {
    let context = TlsContext::new(&TlsOptions::default()).expect("a context");
    for (tls, hint) in [
        (None, "does the server require TLS?"),
        (Some(context), "does the server support TLS?"),
    ] {
        let error = error_of_early_close(tls);
        assert!(error.to_string().contains(hint), "{error}");
        let is_closed = matches!(
            error.kind(),
            ErrorKind::Io(IoError {
                fault: NetworkFault::Closed,
                ..
            })
        );
        assert!(is_closed, "{error:?}");
    }
}

#[test]
fn a_hello_reply_is_reported_as_bson_and_with_its_parsed_fields() {
    let now = Instant::ZERO;
    let mut connection = dialled(ConnectionPurpose::Operations, options());
    let mut auth = auth();
    connection.handle_connected(now, &mut auth);
    let mut request = Vec::new();
    assert!(connection.poll_transmit(&mut request));
    let request = Header::decode(&request, MAX_MESSAGE_BYTES).expect("a request");
    let reply = rawdoc! { "ok": 1, "isWritablePrimary": true, "setName": "rs", "hosts": ["a:1"] };
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 1, request.request_id)
        .body(&reply)
        .end();
    connection.handle_received(now, &bytes, &mut auth);
    let Some(Output::HelloAnswered { answer, .. }) = connection.poll_output() else {
        panic!("the hello was answered");
    };
    assert_eq!(*answer.document, reply);
    let hello = answer.hello;
    assert_eq!(hello, HelloReply::parse(&reply));
    assert_eq!(hello.set_name.as_deref(), Some("rs"));
}

#[test]
fn after_a_freeze_a_connection_waits_500_ms_longer() {
    // A deadline that is handled at least one second late shows that the process was frozen
    // (scenario 14). The connection then waits 500 ms more, because data may have arrived during
    // the freeze.
    let timed_out = |connection: &mut Connection| {
        let failed = connection.poll_output();
        matches!(failed, Some(Output::Failed { error, .. }) if error.is_timeout())
    };
    let connect_timeout = Some(Duration::from_secs(10));
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let new = || {
        let options = HandshakeOptions {
            connect_timeout,
            ..options()
        };
        dialled(ConnectionPurpose::Operations, options)
    };
    let mut punctual = new();
    punctual.handle_timeout(at(10_999));
    assert!(timed_out(&mut punctual));

    let mut frozen = new();
    frozen.handle_timeout(at(600_000));
    assert!(!timed_out(&mut frozen));
    assert_eq!(frozen.deadline(), Some(at(600_500)));
    frozen.handle_timeout(at(600_500));
    assert!(timed_out(&mut frozen), "only one more moment");
}

#[test]
fn timeout_options_limit_each_step_of_establishing_a_connection() {
    // The options are `connectTimeoutMS`, `socketTimeoutMS` and `timeoutMS`. The results are the
    // time limits of connecting, of the hello on a connection for an operation (CMAP-153, HELLO-9),
    // and of the hello on a connection for `minPoolSize` (CMAP-154). All are in milliseconds, and
    // `None` means no limit (CMAP-155).
    for (options, expected) in [
        ([Some(10), None, None], [Some(10), Some(10), Some(10)]),
        ([None, None, None], [None, None, None]),
        ([Some(10), Some(20), None], [Some(10), Some(20), Some(20)]),
        ([None, Some(20), None], [None, Some(20), Some(20)]),
        (
            [Some(10), Some(20), Some(30)],
            [Some(10), Some(10), Some(30)],
        ),
        (
            [Some(10), Some(20), Some(0)],
            [Some(10), Some(10), Some(10)],
        ),
        ([None, Some(20), Some(0)], [None, None, None]),
    ] {
        let [connect_timeout, socket_timeout, timeout] =
            options.map(|limit| limit.map(Duration::from_millis));
        let limits =
            [ConnectionPurpose::Operations, ConnectionPurpose::Population].map(|purpose| {
                let mut connection = dialled(
                    purpose,
                    HandshakeOptions {
                        connect_timeout,
                        socket_timeout,
                        timeout,
                        ..self::options()
                    },
                );
                let socket = connection.deadline();
                let later = Instant::ZERO + Duration::from_millis(5);
                connection.handle_connected(later, &mut auth());
                let left = |at: Instant, since| at.saturating_since(since).as_millis();
                let commands = connection.deadline().map(|at| left(at, later));
                (socket.map(|at| left(at, Instant::ZERO)), commands)
            });
        let [(socket, commands), (also_socket, background)] = limits;
        assert_eq!([socket, commands, background], expected, "{options:?}");
        assert_eq!(also_socket, socket);
    }
}

#[test]
fn connecting_and_the_tls_handshake_share_the_connect_timeout() {
    let context = TlsContext::new(&TlsOptions::default()).expect("a context");
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let options = HandshakeOptions {
        layers: layers(Some(context)),
        connect_timeout: Some(Duration::from_millis(300)),
        socket_timeout: Some(Duration::from_millis(100)),
        ..options()
    };
    let mut connection = dialled(ConnectionPurpose::Operations, options);
    connection.handle_connected(at(250), &mut auth());
    assert_eq!(connection.deadline(), Some(at(300)));
    connection.handle_timeout(at(300));
    let Some(Output::Failed { error, .. }) = connection.poll_output() else {
        panic!("it is late");
    };
    let expected = "timed out: the TLS handshake took longer than 300 ms";
    assert!(error.to_string().starts_with(expected), "{error}");
}
