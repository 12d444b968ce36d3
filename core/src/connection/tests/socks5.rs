//! Tests of connections through a SOCKS5 proxy, with and without TLS above.

use super::*;
use crate::{
    error::{TlsFault, Wait},
    options::Socks5Proxy,
    socks5::Socks5Context,
    tls::tests::{Authority, NOW},
};
use rustls::{ServerConnection, version::TLS13};

const HOST: &str = "db.example.net";
const GREETING: &[u8] = &[5, 2, 0, 2];
/// The messages of a proxy that requires the password and then connects.
const ACCEPTED: &[u8] = &[5, 2, 1, 0, 5, 0, 0, 1, 10, 0, 0, 1, 0, 80];

fn proxied(address: Address, tls: Option<TlsContext>) -> Connection {
    let mut proxy = Socks5Proxy::new("proxy");
    proxy.authentication = Some(("me".to_owned(), "pencil".into()));
    let mut layers = Layers::default();
    layers.push(Socks5Context::new(&proxy).expect("valid options"));
    if let Some(tls) = tls {
        layers.push(tls);
    }
    layers.set_wall_time(NOW);
    let options = HandshakeOptions {
        layers,
        connect_timeout: Some(Duration::from_secs(10)),
        ..options()
    };
    let purpose = ConnectionPurpose::Operations;
    Connection::new(Instant::ZERO, address, purpose, Arc::new(options))
}

/// Returns a connection to the server behind the proxy, whose socket is connected.
fn connected(tls: Option<TlsContext>) -> Connection {
    let mut connection = proxied(Address::tcp(HOST, 27017), tls);
    connection.handle_connected(Instant::ZERO, &mut auth());
    connection
}

fn receive(connection: &mut Connection, bytes: &[u8]) {
    connection.handle_received(Instant::ZERO, bytes, &mut auth());
}

fn sent(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _is_any = connection.poll_transmit(&mut bytes);
    bytes
}

/// Returns the only report of a connection, which is its failure.
fn failure(connection: &mut Connection) -> (Error, Phase) {
    let Some(Output::Failed { error, phase }) = connection.poll_output() else {
        panic!("it has failed");
    };
    assert!(connection.poll_output().is_none(), "one failure");
    assert_eq!(connection.deadline(), None);
    let (shown, server) = (format!("{error:?} {connection:?}"), error.server());
    assert!(!shown.contains("pencil"), "{shown}");
    assert_eq!(server, Some(&Address::tcp(HOST, 27017)), "{error}");
    (error, phase)
}

#[test]
fn the_loss_of_the_connection_at_each_byte_offset_is_an_error_of_the_proxy() {
    // Each such error is a network error in the phase of the proxy (SOCKS-19).
    for (cut, piece) in (0..ACCEPTED.len()).flat_map(|cut| [(cut, 1), (cut, usize::MAX)]) {
        let mut connection = connected(None);
        for bytes in ACCEPTED[..cut].chunks(piece) {
            receive(&mut connection, bytes);
        }
        assert!(connection.poll_output().is_none(), "{cut}");
        let _messages = sent(&mut connection);
        connection.handle_failed(closed_by_peer());
        let (error, phase) = failure(&mut connection);
        assert_eq!(phase, Phase::Proxy, "{cut}");
        let words = "the SOCKS5 proxy proxy:1080 closed the connection";
        assert!(
            error.is_network() && error.to_string().contains(words),
            "{error}"
        );
        // Later input changes nothing.
        receive(&mut connection, ACCEPTED);
        connection.handle_failed(closed_by_peer());
        assert!(connection.poll_output().is_none() && sent(&mut connection).is_empty());
    }
    // After the conversation, the error is not one of the proxy.
    let mut connection = connected(None);
    receive(&mut connection, ACCEPTED);
    connection.handle_failed(closed_by_peer());
    assert_eq!(failure(&mut connection).1, Phase::Hello);
}

#[test]
fn any_single_wrong_byte_fails_the_connection_or_changes_nothing() {
    for offset in 0..ACCEPTED.len() {
        for value in 0..=255 {
            let mut bytes = ACCEPTED.to_vec();
            bytes[offset] = value;
            let mut connection = connected(None);
            receive(&mut connection, &bytes);
            let failure = connection.poll_output();
            // Versions, the result of the login and the reply must be right.
            let is_checked = value != ACCEPTED[offset] && matches!(offset, 0 | 2..=5);
            assert!(!is_checked || failure.is_some(), "{bytes:?}");
            if let Some(Output::Failed { error, phase }) = failure {
                // A wrong length or type of the address leaves bytes that belong to the server.
                let is_later = offset == 0 || offset == 1 || offset == 7 && value == 3;
                assert!(phase == Phase::Proxy || is_later, "{bytes:?}: {error}");
                assert!(phase != Phase::Proxy || error.is_network(), "{error}");
            }
        }
    }
}

#[test]
fn the_hello_follows_the_reply_of_the_proxy() {
    let mut connection = connected(None);
    assert_eq!(connection.dial_address(), &Address::tcp("proxy", 1080));
    assert_eq!(connection.address(), &Address::tcp(HOST, 27017));
    assert_eq!(sent(&mut connection), GREETING);
    receive(&mut connection, &ACCEPTED[..2]);
    assert_eq!(sent(&mut connection), b"\x01\x02me\x06pencil");
    receive(&mut connection, &ACCEPTED[2..4]);
    let request = sent(&mut connection);
    assert_eq!(request[..5], [5, 1, 0, 3, 14]);
    receive(&mut connection, &ACCEPTED[4..13]);
    assert!(!connection.is_open() && sent(&mut connection).is_empty());
    receive(&mut connection, &ACCEPTED[13..]);
    assert!(connection.is_open());
    let hello = sent(&mut connection);
    assert!(
        Header::decode(&hello, MAX_MESSAGE_BYTES).is_ok(),
        "a message"
    );
}

#[test]
fn tls_above_the_proxy_names_and_checks_the_server() {
    // The server name and the check of the certificate are those of the destination (SOCKS-15).
    let run = |connection: &mut Connection, server: &mut ServerConnection| {
        let (last, before) = ACCEPTED.split_last().expect("bytes");
        receive(connection, before);
        let _messages = sent(connection);
        receive(connection, &[*last]);
        loop {
            let bytes = sent(connection);
            let mut rest = &*bytes;
            while !rest.is_empty() {
                server.read_tls(&mut rest).expect("room");
                // After an alert of the client, the server reports an error.
                let _ = server.process_new_packets();
            }
            let mut bytes = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut bytes).expect("a vector");
            }
            if bytes.is_empty() {
                return;
            }
            receive(connection, &bytes);
        }
    };
    let authority = Authority::new();
    let context = || TlsContext::new(&authority.options()).expect("a context");
    let mut connection = connected(Some(context()));
    // The proxy gets no byte of TLS before its reply.
    assert_eq!(sent(&mut connection), GREETING);
    let mut server = authority.server(&TLS13, false);
    run(&mut connection, &mut server);
    assert_eq!(server.server_name(), Some(HOST));
    assert!(connection.is_open() && connection.poll_output().is_none());

    // A certificate for the name of the proxy would not help another server.
    let mut connection = proxied(Address::tcp("other.example.net", 27017), Some(context()));
    connection.handle_connected(Instant::ZERO, &mut auth());
    let _greeting = sent(&mut connection);
    let mut server = authority.server(&TLS13, false);
    run(&mut connection, &mut server);
    let Some(Output::Failed { error, phase }) = connection.poll_output() else {
        panic!("the name is wrong");
    };
    let is_name = |kind: &ErrorKind| {
        let fault = TlsFault::HostName;
        matches!(kind, ErrorKind::Tls { fault: found, .. } if *found == fault)
    };
    assert!(is_name(error.kind()) && phase == Phase::Hello, "{error}");
}

#[test]
fn a_tls_handshake_may_begin_with_the_last_bytes_of_the_proxy() {
    // A server that is no TLS server answers in the same read as the proxy.
    let authority = Authority::new();
    let context = TlsContext::new(&authority.options()).expect("a context");
    let mut connection = connected(Some(context));
    receive(
        &mut connection,
        &[ACCEPTED, b"HTTP/1.1 400 Bad Request"].concat(),
    );
    let (error, phase) = failure(&mut connection);
    assert!(matches!(error.kind(), ErrorKind::Tls { .. }), "{error}");
    assert_eq!(phase, Phase::Hello);
}

#[test]
fn the_conversation_shares_the_connect_timeout() {
    let at = |secs| Instant::ZERO + Duration::from_secs(secs);
    for (cut, words) in [
        (
            None,
            "connecting to the proxy proxy:1080 took longer than 10000 ms",
        ),
        (Some(0), "the SOCKS5 handshake took longer than 10000 ms"),
        (Some(13), "the SOCKS5 handshake took longer than 10000 ms"),
    ] {
        let mut connection = proxied(Address::tcp(HOST, 27017), None);
        if let Some(cut) = cut {
            connection.handle_connected(at(6), &mut auth());
            receive(&mut connection, &ACCEPTED[..cut]);
        }
        assert_eq!(connection.deadline(), Some(at(10)));
        connection.handle_timeout(at(10));
        let (error, phase) = failure(&mut connection);
        let is_timeout = matches!(
            error.kind(),
            ErrorKind::Timeout {
                wait: Wait::Connect,
                ..
            }
        );
        assert!(is_timeout && error.to_string().contains(words), "{error}");
        assert_eq!(phase, Phase::Proxy);
    }
}

#[test]
fn an_error_in_dialling_the_proxy_names_the_proxy_and_the_server() {
    // The shell knows only the address that it dials.
    let proxy = Address::tcp("proxy", 1080);
    let mut connection = proxied(Address::tcp(HOST, 27017), None);
    let refused = Error::network(NetworkFault::Refused, "connection refused");
    connection.handle_failed(refused.with_server(&proxy));
    let (error, phase) = failure(&mut connection);
    assert_eq!(phase, Phase::Proxy);
    let words = "cannot connect to the proxy proxy:1080: connection refused";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_server_name_that_is_too_long_fails_its_connection_only() {
    let address = Address::tcp(&"a".repeat(256), 1);
    let mut connection = proxied(address.clone(), None);
    connection.handle_connected(Instant::ZERO, &mut auth());
    let Some(Output::Failed { error, phase }) = connection.poll_output() else {
        panic!("it has failed");
    };
    assert!(
        error.is_network() && error.server() == Some(&address),
        "{error:?}"
    );
    assert_eq!(phase, Phase::Proxy);
}

#[test]
fn a_server_name_that_no_certificate_has_is_no_error_of_the_proxy() {
    let authority = Authority::new();
    let context = TlsContext::new(&authority.options()).expect("a context");
    let mut connection = proxied(Address::tcp("a..b", 1), Some(context));
    connection.handle_connected(Instant::ZERO, &mut auth());
    let Some(Output::Failed { error, phase }) = connection.poll_output() else {
        panic!("it has failed");
    };
    assert!(matches!(error.kind(), ErrorKind::Tls { .. }), "{error:?}");
    assert_eq!(phase, Phase::Hello);
}

#[test]
fn unix_domain_sockets_are_not_proxied() {
    let address = Address::unix("/tmp/mongodb-27017.sock");
    let mut connection = proxied(address.clone(), None);
    assert_eq!(connection.dial_address(), &address);
    connection.handle_connected(Instant::ZERO, &mut auth());
    let hello = sent(&mut connection);
    assert!(
        Header::decode(&hello, MAX_MESSAGE_BYTES).is_ok(),
        "a message"
    );
    connection.handle_failed(closed_by_peer());
    let Some(Output::Failed { phase, .. }) = connection.poll_output() else {
        panic!("it has failed");
    };
    assert_eq!(phase, Phase::Hello);
}
