//! Tests of resumed sessions.

use super::*;
use crate::tls::{resumption::SESSIONS_OF_ONE_SERVER, session::MAX_TICKETS};
use rustls::{HandshakeKind, client::ClientSessionStore, pki_types::ServerName};

/// One minute before the end of the validity of all test certificates, 2040-01-01.
const LAST_MINUTE: WallTime = WallTime::from_unix_millis(2_208_988_740_000);
/// Two minutes later.
const EXPIRED: WallTime = WallTime::from_unix_millis(2_208_988_860_000);

fn context(options: &TlsOptions) -> TlsContext {
    let context = TlsContext::new(options).expect("usable options");
    context.set_wall_time(NOW);
    context
}

/// Connects to a new server with this configuration, and exchanges data. Returns the kind of the
/// handshake as the server sees it.
fn connect_again(
    context: &TlsContext,
    host: &str,
    config: &Arc<ServerConfig>,
) -> Result<HandshakeKind, Error> {
    let mut client = TlsSession::new(context, host)?;
    let mut server = ServerConnection::new(config.clone()).expect("a server");
    client.write(b"ping");
    let mut received = Vec::new();
    run(&mut client, &mut server, usize::MAX, &mut received)?;
    assert_eq!(received, b"ping");
    Ok(server.handshake_kind().expect("the handshake is complete"))
}

fn resumed(context: &TlsContext, host: &str, config: &Arc<ServerConfig>) -> bool {
    connect_again(context, host, config).expect("it connects") == HandshakeKind::Resumed
}

#[test]
fn sessions_are_resumed_with_the_same_host_and_by_the_same_client_only() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        for wants_client in [false, true] {
            let mut options = authority.options();
            options.certificate_key_pem = wants_client.then(|| authority.client_pem());
            let server = Arc::new(authority.server_config(version, wants_client));
            let one = context(&options);
            assert!(!resumed(&one, "db.example.net", &server));
            assert!(resumed(&one, "db.example.net", &server));
            assert!(resumed(&one.clone(), "db.example.net", &server));
            assert!(!resumed(&one, "127.0.0.1", &server));
            assert!(resumed(&one, "db.example.net", &server));
            // Another client has its own sessions, with the same options and with others.
            assert!(!resumed(&context(&options), "db.example.net", &server));
            options.insecure = Some(true);
            assert!(!resumed(&context(&options), "db.example.net", &server));
            // A server that does not know the session makes a whole handshake.
            let other = Arc::new(authority.server_config(version, wants_client));
            assert!(!resumed(&one, "db.example.net", &other));
        }
    }
}

#[test]
fn an_expired_certificate_is_refused_on_a_resumed_session() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let server = Arc::new(authority.server_config(version, false));
        let context = context(&authority.options());
        context.set_wall_time(LAST_MINUTE);
        for _ in 0..3 {
            connect_again(&context, "db.example.net", &server).expect("a valid certificate");
        }
        context.set_wall_time(EXPIRED);
        let mut client = TlsSession::new(&context, "db.example.net").expect("a name");
        let mut connection = ServerConnection::new(server.clone()).expect("a server");
        connection.writer().write_all(b"early").expect("room");
        client.write(b"secret");
        let mut received = Vec::new();
        let result = run(&mut client, &mut connection, usize::MAX, &mut received);
        assert_eq!(connection.handshake_kind(), Some(HandshakeKind::Resumed));
        assert_eq!(kind(result.map(|()| client)), TlsFault::Certificate);
        assert_eq!(received, b"");
        // The sessions were dropped, so that a server with a new certificate is accepted.
        context.set_wall_time(LAST_MINUTE);
        assert!(!resumed(&context, "db.example.net", &server));
    }
}

#[test]
fn plaintext_is_read_from_a_resumed_session_only_after_the_check() {
    let authority = Authority::new();
    let server = Arc::new(authority.server_config(&TLS13, false));
    let context = context(&authority.options());
    context.set_wall_time(LAST_MINUTE);
    connect_again(&context, "db.example.net", &server).expect("a valid certificate");
    context.set_wall_time(EXPIRED);
    let mut client = TlsSession::new(&context, "db.example.net").expect("a name");
    let mut connection = ServerConnection::new(server).expect("a server");
    let mut out = Vec::new();
    while client.poll_transmit(&mut out) {}
    connection.read_tls(&mut &out[..]).expect("room");
    connection.process_new_packets().expect("a good message");
    assert_eq!(connection.handshake_kind(), Some(HandshakeKind::Resumed));
    // With TLS 1.3 a server can send data together with the end of its handshake.
    connection.writer().write_all(b"early").expect("room");
    let mut back = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut back).expect("a vector");
    }
    back.extend_from_slice(b"what follows is no TLS record");
    client.handle_received(&back).expect_err("it has expired");
    assert_eq!(read_all(&mut client), b"");
}

#[test]
fn too_many_tickets_are_refused() {
    let authority = Authority::new();
    let context = context(&authority.options());
    for (count, is_refused) in [(0, false), (MAX_TICKETS, false), (MAX_TICKETS + 1, true)] {
        let mut server = authority.server_config(&TLS13, false);
        server.send_tls13_tickets = count;
        let met = connect_again(&context, "db.example.net", &Arc::new(server));
        match met {
            Ok(_) => assert!(!is_refused, "{count}"),
            Err(error) => {
                assert!(is_refused, "{count}: {error}");
                assert!(error.to_string().contains("16 session tickets"), "{error}");
            }
        }
    }
}

#[test]
fn the_number_of_stored_sessions_is_limited() {
    let authority = Authority::new();
    let mut options = authority.options();
    options.allow_invalid_hostnames = Some(true);
    let context = context(&options);
    let mut server = authority.server_config(&TLS13, false);
    server.send_tls13_tickets = MAX_TICKETS;
    let server = Arc::new(server);
    let name = |n: usize| format!("host{n}.example.net");
    let count = MAX_RESUMABLE_SERVERS + 10;
    for n in 0..count {
        assert!(!resumed(&context, &name(n), &server));
    }
    let store = context.sessions().expect("its own configuration");
    for n in 0..count {
        let host = ServerName::try_from(name(n)).expect("a name");
        let mut tickets = 0;
        while store.take_tls13_ticket(&host).is_some() {
            tickets += 1;
        }
        let is_old = n < count - MAX_RESUMABLE_SERVERS;
        let expected = if is_old { 0 } else { SESSIONS_OF_ONE_SERVER };
        assert_eq!(tickets, expected, "{n}");
    }
}
