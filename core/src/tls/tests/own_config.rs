//! Tests with a `rustls` configuration of the application.

use super::*;
use crate::error::Argument;
use crate::options::{ClientOptions, Cryptography, TlsConfig};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::ServerName,
};

/// A verifier that accepts one certificate, and no signature of TLS 1.2.
#[derive(Debug)]
struct Pinned;

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        _own: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _own: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("not with TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _own: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

fn pinned() -> TlsConfig {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_details(provider, Arc::new(Fixed))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned))
        .with_no_client_auth();
    TlsConfig::new(Arc::new(config))
}

#[test]
fn the_configuration_of_the_application_decides_on_certificates() {
    let authority = Authority::new();
    let options = TlsOptions {
        config: Some(pinned()),
        ..TlsOptions::default()
    };
    // The options trust no authority, and the certificate is for another host.
    let mut server = authority.server(&TLS13, false);
    connect(&options, "evil.example.net", &mut server).expect("the verifier accepts it");
    let refused = connect(
        &options,
        "db.example.net",
        &mut authority.server(&TLS12, false),
    );
    assert_eq!(kind(refused), TlsFault::Handshake);
}

/// A function that sets one option.
type Choose = fn(&mut TlsOptions);

#[test]
fn options_that_a_configuration_of_the_application_replaces_are_refused() {
    let choices: [(&str, Choose); 15] = [
        ("tlsCAFile", |o| o.ca_file_path = Some("a.pem".into())),
        ("tlsCAFile", |o| o.ca_pem = Some(Vec::new())),
        ("tlsCRLFile", |o| o.crl_file_path = Some("a.pem".into())),
        ("tlsCRLFile", |o| o.crl_pem = Some(Vec::new())),
        ("system_roots", |o| {
            o.system_roots = SystemRoots::new([vec![0x30, 0]]);
        }),
        ("tlsCertificateKeyFile", |o| {
            o.cert_key_file_path = Some("a.pem".into());
        }),
        ("tlsCertificateKeyFile", |o| {
            o.certificate_key_pem = Some(Secret::new(""));
        }),
        ("tlsCertificateKeyFilePassword", |o| {
            o.tls_certificate_key_file_password = Some(Secret::new("pencil"));
        }),
        ("private_key_file_path", |o| {
            o.private_key_file_path = Some("a.pem".into());
        }),
        ("cryptography", |o| o.cryptography = Cryptography::Ring),
        ("tlsAllowInvalidCertificates", |o| {
            o.allow_invalid_certificates = Some(true);
        }),
        ("tlsAllowInvalidHostnames", |o| {
            o.allow_invalid_hostnames = Some(true);
        }),
        ("tlsInsecure", |o| o.insecure = Some(true)),
        ("tlsDisableOCSPEndpointCheck", |o| {
            o.disable_ocsp_endpoint_check = Some(true);
        }),
        ("tlsDisableCertificateRevocationCheck", |o| {
            o.disable_certificate_revocation_check = Some(true);
        }),
    ];
    for (name, choose) in choices {
        let mut tls = TlsOptions {
            config: Some(pinned()),
            ..TlsOptions::default()
        };
        let mut options = ClientOptions::default();
        options.tls = Some(tls.clone().into());
        options.validate().expect("nothing beside it");
        choose(&mut tls);
        options.tls = Some(tls.into());
        let error = options.validate().expect_err(name);
        let ErrorKind::InvalidArgument {
            argument: Argument::Option(option),
            ..
        } = error.kind()
        else {
            panic!("{error}");
        };
        assert_eq!(*option, name);
    }
}

#[test]
fn configurations_are_compared_by_identity_and_not_printed() {
    let one = pinned();
    assert_eq!(one, one.clone());
    assert_ne!(one, pinned());
    assert_eq!(format!("{one:?}"), "TlsConfig(..)");
}
