//! Tests with long certificate chains, and chains with many paths.

use super::*;
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, SignatureAlgorithm};
use rustls::{
    crypto::ring::sign::any_supported_type,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

/// A resolver that gives the same chain to every client.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesServerCert for Always {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = params(&[]);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// Returns authority certificates with these subjects and issuers.
fn authorities(names: &[(&str, &str)]) -> Vec<CertificateDer<'static>> {
    let sign = |&(subject, issuer): &(&str, &str)| {
        let issuer = Issuer::new(named(issuer), KeyPair::generate().expect("a key"));
        let key = KeyPair::generate().expect("a key");
        let certificate = named(subject).signed_by(&key, &issuer);
        certificate.expect("a certificate").der().clone()
    };
    names.iter().map(sign).collect()
}

/// Returns the result of a handshake in which the server sends a certificate that `own` issued, and
/// then the certificates `added`.
fn handshake_with(
    options: &TlsOptions,
    added: Vec<CertificateDer<'static>>,
    own: &Authority,
) -> Result<TlsSession, Error> {
    let (certificate, key) = own.issue(&["db.example.net"], ExtendedKeyUsagePurpose::ServerAuth);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = any_supported_type(&key).expect("a key");
    let chain = [vec![certificate.der().clone()], added].concat();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Always(Arc::new(CertifiedKey::new(chain, key)))));
    let mut server = ServerConnection::new(Arc::new(config)).expect("a server");
    connect(options, "db.example.net", &mut server)
}

#[test]
fn a_long_or_branching_certificate_chain_is_refused_before_verification() {
    let own = Authority::new();
    let line: Vec<String> = (0..20).map(|n| format!("x{n}")).collect();
    let line: Vec<(&str, &str)> = line.windows(2).map(|w| (&w[0][..], &w[1][..])).collect();
    let triple = [("a", "b"), ("a", "c"), ("a", "d")];
    let pairs = [
        ("a", "b"),
        ("a", "b"),
        ("b", "c"),
        ("b", "c"),
        ("c", "a"),
        ("c", "a"),
    ];
    for (added, expected) in [
        (&line[..MAX_CERTIFICATES - 1], None),
        (&line[..MAX_CERTIFICATES], Some("11 certificates")),
        (&triple[..2], None),
        (&triple[..], Some("more than 2 of")),
        (&pairs[..4], None),
        (&pairs[..], Some("3 subjects")),
    ] {
        // The server's certificate is signed by a trusted authority, so that the added
        // certificates are not needed.
        let met = handshake_with(&own.options(), authorities(added), &own);
        match (met, expected) {
            (Ok(_), None) => {}
            (Err(error), Some(words)) => {
                let ErrorKind::Tls { fault, message } = error.kind() else {
                    panic!("{error}");
                };
                assert_eq!(*fault, TlsFault::Certificate);
                assert!(message.contains(words), "{message}");
            }
            (met, expected) => panic!("{:?}, not {expected:?}", met.map(|_| ())),
        }
        // Without a check of the chain there is no search for paths. Only the number and the size
        // of the certificates are limited, because each session ticket copies them.
        let mut options = own.options();
        options.insecure = Some(true);
        let met = handshake_with(&options, authorities(added), &own);
        let is_too_long = added.len() >= MAX_CERTIFICATES;
        assert_eq!(met.is_err(), is_too_long, "{}", added.len());
    }
}

#[test]
fn a_certificate_chain_of_too_many_bytes_is_refused() {
    let own = Authority::new();
    let large = |bytes: usize| CertificateDer::from(vec![0; bytes]);
    handshake_with(&own.options(), vec![large(16_000)], &own)
        .expect("what is no certificate is no path");
    let met = handshake_with(&own.options(), vec![large(16_000), large(16_700)], &own);
    let error = met.map(|_| ()).expect_err("too much");
    assert!(error.to_string().contains("32768 are accepted"), "{error}");
    // `rustls` limits a handshake message to 64 KiB.
    let met = handshake_with(&own.options(), vec![large(70_000)], &own);
    assert!(met.is_err());
}

#[test]
fn the_host_name_error_is_short_for_a_certificate_with_many_names() {
    let own = Authority::new();
    let names: Vec<String> = (0..500).map(|n| format!("host{n}.example.org")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (certificate, key) = own.issue(&names, ExtendedKeyUsagePurpose::ServerAuth);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("key and certificate match");
    let mut server = ServerConnection::new(Arc::new(config)).expect("a server");
    let refused = connect(&own.options(), "db.example.net", &mut server);
    let error = refused.map(|_| ()).expect_err("another host");
    let ErrorKind::Tls { fault, message } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(*fault, TlsFault::HostName);
    assert!(message.len() <= MAX_MESSAGE_BYTES + 4, "{}", message.len());
    assert!(message.contains("db.example.net"), "{message}");
}

/// Returns the result of a handshake with a server whose path to the authority `root` has this
/// number of signatures.
fn handshake_with_path(
    signatures: usize,
    algorithm: &'static SignatureAlgorithm,
) -> Result<TlsSession, Error> {
    let key = || KeyPair::generate_for(algorithm).expect("a key");
    let root_key = key();
    let root = named("root").self_signed(&root_key).expect("an authority");
    let mut issuer = Issuer::new(named("root"), root_key);
    let mut added = Vec::new();
    for n in 2..signatures {
        let next = key();
        let name = format!("x{n}");
        let certificate = named(&name).signed_by(&next, &issuer);
        added.push(certificate.expect("a certificate").der().clone());
        issuer = Issuer::new(named(&name), next);
    }
    let last = key();
    let certificate = named("last").signed_by(&last, &issuer);
    added.push(certificate.expect("a certificate").der().clone());
    let own = Authority {
        pem: root.pem(),
        der: root.der().clone(),
        issuer: Issuer::new(named("last"), last),
    };
    handshake_with(&own.options(), added, &own)
}

#[test]
fn the_number_of_signatures_on_the_path_to_an_authority_is_limited() {
    // The library itself accepts at most six authorities between the server and the trusted one.
    for signatures in [2, 3, 7] {
        handshake_with_path(signatures, &PKCS_ECDSA_P256_SHA256).expect("a path");
    }
    // Signatures of this algorithm count twice.
    handshake_with_path(4, &PKCS_ECDSA_P384_SHA384).expect("a path");
    let refused = handshake_with_path(5, &PKCS_ECDSA_P384_SHA384);
    let error = refused.map(|_| ()).expect_err("too many");
    assert!(
        error.to_string().contains("8 checks of signatures"),
        "{error}"
    );
}

#[test]
fn the_number_of_checked_signatures_is_limited() {
    let root = named("a").self_signed(&KeyPair::generate().expect("a key"));
    let root = root.expect("an authority");
    // The certificates name the trusted authority `a`, which has signed none of them. There are
    // many paths to it.
    let own = Authority {
        pem: root.pem(),
        der: root.der().clone(),
        issuer: Issuer::new(named("a"), KeyPair::generate().expect("a key")),
    };
    let maze = [("a", "b"), ("b", "a"), ("a", "b"), ("b", "a"), ("x", "b")];
    let met = handshake_with(&own.options(), authorities(&maze), &own);
    let error = met.map(|_| ()).expect_err("no authority has signed it");
    assert!(
        error.to_string().contains("8 checks of signatures"),
        "{error}"
    );
    // With fewer paths, the reason is the signature.
    let met = handshake_with(&own.options(), authorities(&maze[..1]), &own);
    let error = met.map(|_| ()).expect_err("no authority has signed it");
    assert!(error.to_string().contains("BadSignature"), "{error}");
}
