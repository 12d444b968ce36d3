//! Tests of the host names and addresses for which a certificate is valid.

use super::*;

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
