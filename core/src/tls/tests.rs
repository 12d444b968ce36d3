//! Tests of TLS sessions with a `rustls` server, without sockets.

mod bundles;
mod chains;
mod hostile;
#[cfg(feature = "cert-key-password")]
mod keys;
#[cfg(not(feature = "cert-key-password"))]
mod locked_keys;
mod names;
mod own_config;
mod resumption;
pub(crate) mod revocation;
mod unusable;

use super::{
    errors::MAX_MESSAGE_BYTES,
    key_source::KeySource,
    keys::private_key,
    pem::blocks,
    session::{MAX_BYTES_WITHOUT_DATA, MAX_HANDSHAKE_BYTES},
    *,
};
use crate::{
    error::{Error, ErrorKind, TlsFault},
    options::{Cryptography, Secret, SystemRoots, TlsOptions},
    time::WallTime,
};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime},
    server::WebPkiClientVerifier,
    time_provider::TimeProvider,
    version::{TLS12, TLS13},
};
use std::{
    io::{Read, Write},
    sync::Arc,
    time::Duration,
};

/// 2030-01-01, within the validity of all test certificates.
pub(crate) const NOW: WallTime = WallTime::from_unix_millis(1_893_456_000_000);
/// 2041-01-01, after the validity of all test certificates.
const LATER: WallTime = WallTime::from_unix_millis(2_240_611_200_000);
/// 2019-01-01, before the validity of all test certificates.
const EARLIER: WallTime = WallTime::from_unix_millis(1_546_300_800_000);

/// Reads the private key of a PEM text, with the password of an encrypted key.
fn read_key(
    pem: &str,
    password: Option<&Secret>,
) -> crate::error::Result<Option<PrivateKeyDer<'static>>> {
    let source = KeySource {
        option: "tlsCertificateKeyFile",
        password,
    };
    private_key(blocks(pem), source)
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("valid names");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2040, 1, 1);
    params
}

/// The library that clients use in tests. Their servers use `ring`.
const TESTED: Cryptography = match cfg!(feature = "aws-lc-rs") {
    true => Cryptography::AwsLcRs,
    false => Cryptography::Ring,
};

/// A certificate authority that signs the certificates of a test.
pub(crate) struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Returns a certificate for these names, and its key.
    fn issue(
        &self,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(names);
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate, key)
    }

    /// Returns options that trust this authority.
    pub(crate) fn options(&self) -> TlsOptions {
        TlsOptions {
            ca_pem: Some(self.pem.clone().into_bytes()),
            cryptography: TESTED,
            ..TlsOptions::default()
        }
    }

    fn client_pem(&self) -> Secret {
        let (certificate, key) = self.issue(&["client"], ExtendedKeyUsagePurpose::ClientAuth);
        Secret::new(certificate.pem() + &key.serialize_pem())
    }

    /// Returns a server with a certificate for `db.example.net`, 127.0.0.1 and ::1.
    pub(crate) fn server(
        &self,
        version: &'static SupportedProtocolVersion,
        wants_client: bool,
    ) -> ServerConnection {
        let config = self.server_config(version, wants_client);
        let mut server = ServerConnection::new(Arc::new(config)).expect("a server");
        server.set_buffer_limit(None);
        server
    }

    fn server_config(
        &self,
        version: &'static SupportedProtocolVersion,
        wants_client: bool,
    ) -> ServerConfig {
        let names = ["db.example.net", "127.0.0.1", "::1"];
        let (certificate, key) = self.issue(&names, ExtendedKeyUsagePurpose::ServerAuth);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_details(provider.clone(), Arc::new(Fixed))
            .with_protocol_versions(&[version])
            .expect("a version that the provider has");
        let builder = if wants_client {
            let mut roots = RootCertStore::empty();
            roots.add(self.der.clone()).expect("a usable authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("key and certificate match")
    }
}

/// The clock of a server, which always shows [`NOW`].
#[derive(Debug)]
struct Fixed;

impl TimeProvider for Fixed {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(
            NOW.as_unix_millis(),
        )))
    }
}

fn session(options: &TlsOptions, host: &str) -> TlsSession {
    let context = TlsContext::new(options).expect("usable options");
    context.set_wall_time(NOW);
    TlsSession::new(&context, host).expect("a usable name")
}

/// Exchanges bytes between client and server until both have nothing to send. The plaintext that
/// the server receives is appended to `received`.
fn run(
    client: &mut TlsSession,
    server: &mut ServerConnection,
    piece: usize,
    received: &mut Vec<u8>,
) -> Result<(), Error> {
    for _ in 0..10_000 {
        let mut out = Vec::new();
        let sent = client.poll_transmit(&mut out);
        let mut rest = &out[..];
        while !rest.is_empty() {
            let count = server.read_tls(&mut rest).expect("room for a record");
            assert!(count > 0, "nothing follows a farewell");
            if server.process_new_packets().is_err() {
                // The server's alert is still delivered to the client.
                break;
            }
            let _blocked = server.reader().read_to_end(received);
        }
        let mut back = Vec::new();
        while server.wants_write() {
            server
                .write_tls(&mut back)
                .expect("a vector takes everything");
        }
        for bytes in back.chunks(piece) {
            client.handle_received(bytes)?;
        }
        if !sent && back.is_empty() {
            return Ok(());
        }
    }
    panic!("they talk without end");
}

fn connect(
    options: &TlsOptions,
    host: &str,
    server: &mut ServerConnection,
) -> Result<TlsSession, Error> {
    let mut client = session(options, host);
    run(&mut client, server, usize::MAX, &mut Vec::new())?;
    assert!(!client.is_handshaking());
    Ok(client)
}

fn kind(result: Result<TlsSession, Error>) -> TlsFault {
    match result.expect_err("it must not connect").kind() {
        ErrorKind::Tls { fault, .. } => *fault,
        other => panic!("{other} is no TLS error"),
    }
}

fn read_all(client: &mut TlsSession) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match client.read(&mut buffer).expect("no error came before") {
            0 => return all,
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

#[test]
fn tls_1_2_and_1_3_transfer_data_for_host_names_and_ip_addresses() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        for host in ["db.example.net", "DB.example.net", "127.0.0.1", "::1"] {
            let mut server = authority.server(version, false);
            let mut client = session(&authority.options(), host);
            // Plaintext that is written before the end of the handshake waits for it.
            client.write(b"ping");
            let mut received = Vec::new();
            run(&mut client, &mut server, usize::MAX, &mut received).expect("it connects");
            assert_eq!(received, b"ping");
            server.writer().write_all(b"pong").expect("room");
            run(&mut client, &mut server, usize::MAX, &mut received).expect("it is connected");
            assert_eq!(read_all(&mut client), b"pong");
            assert_eq!(client.read(&mut [0; 8]).ok(), Some(0));
        }
    }
}

#[test]
fn a_tls_session_accepts_input_one_byte_at_a_time() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let mut server = authority.server(version, false);
        let mut client = session(&authority.options(), "db.example.net");
        run(&mut client, &mut server, 1, &mut Vec::new()).expect("it connects");
        let data: Vec<u8> = (0..40_000_u32).map(|n| n as u8).collect();
        server.writer().write_all(&data).expect("no limit");
        run(&mut client, &mut server, 1, &mut Vec::new()).expect("it is connected");
        assert!(read_all(&mut client) == data);
    }
}

#[test]
fn the_largest_message_is_sent_in_bounded_pieces_and_received() {
    let authority = Authority::new();
    let mut server = authority.server(&TLS13, false);
    let mut client = connect(&authority.options(), "db.example.net", &mut server).expect("good");
    let data = vec![7; crate::wire::MAX_MESSAGE_BYTES];
    client.write(&data);
    let (mut out, mut received) = (Vec::new(), Vec::new());
    while client.poll_transmit(&mut out) {
        assert!(out.len() < 128 * 1024, "{}", out.len());
        let mut rest = &out[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).expect("room");
            server.process_new_packets().expect("good records");
            let _blocked = server.reader().read_to_end(&mut received);
        }
        out.clear();
    }
    assert!(received == data);
    server.writer().write_all(&data).expect("no limit");
    let mut total = 0;
    while server.wants_write() {
        let mut back = Vec::new();
        server.write_tls(&mut back).expect("a vector");
        client.handle_received(&back).expect("good records");
        total += read_all(&mut client).len();
    }
    assert_eq!(total, data.len());
}

/// URI-21, with `tlsAllowInvalidHostnames`.
#[test]
fn a_certificate_for_another_host_is_refused_unless_allowed() {
    let authority = Authority::new();
    let other = Authority::new();
    let server = || authority.server(&TLS13, false);
    let mut options = authority.options();
    for host in ["evil.example.net", "127.0.0.2"] {
        assert_eq!(
            kind(connect(&options, host, &mut server())),
            TlsFault::HostName
        );
    }
    options.allow_invalid_hostnames = Some(true);
    connect(&options, "evil.example.net", &mut server()).expect("the name is not checked");
    // The chain is still checked.
    let stranger = &mut other.server(&TLS13, false);
    let refused = connect(&options, "db.example.net", stranger);
    assert_eq!(kind(refused), TlsFault::Certificate);
}

/// URI-21, with `tlsAllowInvalidCertificates` and `tlsInsecure`.
#[test]
fn an_untrusted_certificate_is_refused_unless_allowed() {
    let authority = Authority::new();
    let server = || authority.server(&TLS12, false);
    for mut options in [Authority::new().options(), TlsOptions::default()] {
        let refused = connect(&options, "db.example.net", &mut server());
        assert_eq!(kind(refused), TlsFault::Certificate);
        options.allow_invalid_certificates = Some(true);
        connect(&options, "evil.example.net", &mut server()).expect("nothing is checked");
        options.allow_invalid_certificates = Some(false);
        options.insecure = Some(true);
        connect(&options, "evil.example.net", &mut server()).expect("nothing is checked");
    }
}

#[test]
fn system_roots_are_trusted_unless_a_ca_file_is_given() {
    let authority = Authority::new();
    let broken = vec![0x30, 0x01];
    let roots = || SystemRoots::new([broken.clone(), authority.der.to_vec()]);
    let options = TlsOptions {
        system_roots: roots(),
        ..TlsOptions::default()
    };
    let server = || authority.server(&TLS13, false);
    connect(&options, "db.example.net", &mut server()).expect("the system trusts the issuer");
    let refused = connect(&options, "evil.example.net", &mut server());
    assert_eq!(kind(refused), TlsFault::HostName);
    let options = TlsOptions {
        system_roots: roots(),
        ..Authority::new().options()
    };
    let refused = connect(&options, "db.example.net", &mut server());
    assert_eq!(kind(refused), TlsFault::Certificate);
}

#[test]
fn certificate_validity_is_checked_against_the_given_time() {
    let authority = Authority::new();
    let context = TlsContext::new(&authority.options()).expect("usable options");
    let connect = || {
        let mut client = TlsSession::new(&context, "db.example.net").expect("a name");
        let mut server = authority.server(&TLS13, false);
        run(&mut client, &mut server, usize::MAX, &mut Vec::new()).map(|()| client)
    };
    let unset = connect();
    assert_eq!(kind(unset), TlsFault::Configuration);
    for (now, expected) in [
        (NOW, None),
        (LATER, Some(TlsFault::Certificate)),
        (EARLIER, Some(TlsFault::Certificate)),
        (NOW, None),
    ] {
        context.set_wall_time(now);
        match expected {
            None => assert!(connect().is_ok(), "{now:?}"),
            Some(fault) => assert_eq!(kind(connect()), fault, "{now:?}"),
        }
    }
}

#[test]
fn a_client_certificate_is_sent_if_the_server_requests_one() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let mut options = authority.options();
        let without = connect(
            &options,
            "db.example.net",
            &mut authority.server(version, true),
        );
        assert_eq!(kind(without), TlsFault::Handshake);
        options.certificate_key_pem = Some(authority.client_pem());
        let mut server = authority.server(version, true);
        connect(&options, "db.example.net", &mut server).expect("it has a certificate");
        assert!(server.peer_certificates().is_some());
    }
}

#[test]
fn close_notify_is_sent_after_all_written_data() {
    let authority = Authority::new();
    let mut server = authority.server(&TLS13, false);
    let mut client = connect(&authority.options(), "db.example.net", &mut server).expect("good");
    let data = vec![3; 300_000];
    client.write(&data);
    client.close();
    client.write(b"too late");
    let mut received = Vec::new();
    run(&mut client, &mut server, usize::MAX, &mut received).expect("good");
    client.write(b"later still");
    assert!(
        !client.poll_transmit(&mut Vec::new()),
        "nothing follows a farewell"
    );
    assert_eq!(received.len(), data.len());
    assert!(received == data);
    assert!(!client.peer_closed());
    server.send_close_notify();
    run(&mut client, &mut server, usize::MAX, &mut received).expect("good");
    assert!(client.peer_closed());
    assert!(client.handle_received(b"ignored").is_ok());
}
