//! Tests of the host names and addresses for which a certificate is valid.

use super::*;
use rustls::server::Acceptor;

/// Returns the result of a handshake with `host`, with a server certificate for these names.
fn handshake_with(names: &[&str], host: &str) -> Result<TlsSession, Error> {
    let own = Authority::new();
    let (certificate, key) = own.issue(names, ExtendedKeyUsagePurpose::ServerAuth);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("key and certificate match");
    let mut server = ServerConnection::new(Arc::new(config)).expect("a server");
    connect(&own.options(), host, &mut server)
}

#[test]
fn a_certificate_must_match_the_host_name_or_ip_address() {
    for (names, host, is_good) in [
        (&["db.example.net"][..], "db.example.net.", true),
        (&["*.example.net"], "db.example.net", true),
        (&["*.example.net"], "a.db.example.net", false),
        (&["*.example.net"], "example.net", false),
        (&["*"], "localhost", false),
        (&["my_db"], "my_db", true),
        (&["localhost"], "127.0.0.1", false),
        // A host name that begins like an address is not that address.
        (&["127.0.0.1.example.net"], "127.0.0.1", false),
        (&["::1"], "0:0:0:0:0:0:0:1", true),
        (&["127.0.0.1"], "::ffff:127.0.0.1", false),
        (&["10.0.0.1"], "10.0.0.10", false),
        (&["10.0.0.1", "10.0.0.10"], "10.0.0.10", true),
        (&["2001:db8::1"], "2001:db8::1", true),
        (&["2001:db8::1"], "2001:db8::2", false),
        // The zone of an address is not part of the name.
        (&["fe80::1"], "fe80::1%eth0", true),
        (&["fe80::1"], "fe80::2%eth0", false),
        (&[], "db.example.net", false),
    ] {
        match handshake_with(names, host) {
            Ok(_) => assert!(is_good, "{names:?} for {host}"),
            Err(error) => {
                assert!(!is_good, "{names:?} for {host}: {error}");
                assert_eq!(kind(Err(error)), TlsFault::HostName);
            }
        }
    }
}

/// Returns the name in the extension `server_name` of the first message of a client.
fn name_sent(options: &TlsOptions, host: &str) -> Option<String> {
    let mut client = session(options, host);
    let mut out = Vec::new();
    assert!(client.poll_transmit(&mut out));
    let mut acceptor = Acceptor::default();
    acceptor.read_tls(&mut &out[..]).expect("room");
    let accepted = acceptor.accept().map_err(|(error, _)| error);
    let accepted = accepted.expect("a good message").expect("all of it");
    accepted.client_hello().server_name().map(str::to_owned)
}

/// Servers choose their certificate by the name, so it is sent even if no name is checked
/// (OCSP-29). The extension has no form for addresses.
#[test]
fn the_name_of_the_server_is_sent_for_names_but_not_for_addresses() {
    let choices: [fn(&mut TlsOptions); 4] = [
        |_| (),
        |o| o.insecure = Some(true),
        |o| o.allow_invalid_certificates = Some(true),
        |o| o.allow_invalid_hostnames = Some(true),
    ];
    for choose in choices {
        let mut options = TlsOptions::default();
        choose(&mut options);
        let sent = |host| name_sent(&options, host);
        assert_eq!(sent("db.example.net").as_deref(), Some("db.example.net"));
        assert_eq!(sent("localhost").as_deref(), Some("localhost"));
        assert_eq!(sent("127.0.0.1"), None);
        assert_eq!(sent("2001:db8::1"), None);
    }
}
