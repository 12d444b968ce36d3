//! Servers whose TLS a client cannot use.

use super::*;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::{
    conformance::server::{Server, answer},
    peers::{FerretDb, Scratch, ferretdb},
};
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::sync::Arc;

/// Starts a TLS server for 127.0.0.1 with a certificate that it signed itself. Returns a connection
/// string that trusts this certificate.
fn server_with(scratch: &Scratch, change: impl FnOnce(&mut CertificateParams)) -> (Server, String) {
    let key = KeyPair::generate().expect("a key");
    let names = vec!["127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("names");
    params
        .distinguished_name
        .push(DnType::CommonName, "db.example.net");
    change(&mut params);
    let certificate = params.self_signed(&key).expect("a certificate");
    let file = scratch.write("ca.pem", &certificate.pem()).expect("a file");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("they belong together");
    let server = Server::tls(config, answer);
    let uri = server.uri(&format!("tls=true&tlsCAFile={}", file.display()));
    (server, uri)
}

/// Checks that TLS fails and returns the problems of the report.
fn tls_problems(uri: &str) -> String {
    let report = report_of(uri);
    assert_eq!(report.exit_code(), 13, "{}", report.to_text(false));
    assert_eq!(
        stages(&report),
        "parse ok, dial ok, tls failed, topology skipped"
    );
    problems(&report, &[]).join("\n")
}

#[test]
fn a_plain_server_is_recognized_with_tls() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("a server");
    let problems = tls_problems(&format!("{}?tls=true", deployment.uri()));
    assert!(
        problems.contains("the server does not use TLS: remove tls=true"),
        "{problems}"
    );
}

#[test]
fn a_self_signed_certificate_is_named() {
    let scratch = Scratch::new().expect("a directory");
    let (server, trusting) = server_with(&scratch, |_| ());
    let report = report_of(&server.uri("tls=true"));
    let text = report.to_text(false);
    for part in [
        "CN=db.example.net, issued by CN=db.example.net, valid from ",
        "names: 127.0.0.1",
        "self-signed: yes",
        "signed its certificate itself: give that certificate as tlsCAFile",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(report.exit_code(), 13);
    let report = report_of(&trusting);
    let text = report.to_text(false);
    assert_eq!(report.exit_code(), 0, "{text}");
    for part in [
        "version: TLS 1.3",
        "cipher: TLS13_",
        "trusted: the authorities in tlsCAFile",
        "validity: valid",
        "name matches: 127.0.0.1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_expired_certificate_is_named() {
    let scratch = Scratch::new().expect("a directory");
    let (_server, uri) = server_with(&scratch, |params| {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 29);
    });
    let report = report_of(&uri);
    assert!(
        report.to_text(false).contains("to 2020-02-29T00:00:00Z"),
        "{report:?}"
    );
    let problems = tls_problems(&uri);
    assert!(
        problems.contains("renew the expired certificate"),
        "{problems}"
    );
    assert!(
        problems.contains("is the clock of this machine right? It says 20"),
        "{problems}"
    );
}

#[test]
fn a_certificate_that_is_not_valid_yet_points_at_the_clock() {
    let scratch = Scratch::new().expect("a directory");
    let (_server, uri) = server_with(&scratch, |params| {
        params.not_before = date_time_ymd(2090, 1, 1);
        params.not_after = date_time_ymd(2091, 1, 1);
    });
    let problems = tls_problems(&uri);
    assert!(
        problems.contains("is the clock of this machine right?"),
        "{problems}"
    );
    assert!(!problems.contains("renew"), "{problems}");
}

#[test]
fn a_certificate_for_another_name_lists_its_names() {
    let scratch = Scratch::new().expect("a directory");
    let (_server, uri) = server_with(&scratch, |params| {
        let name = "db.example.net".try_into().expect("a name");
        params.subject_alt_names = vec![rcgen::SanType::DnsName(name)];
    });
    let problems = tls_problems(&uri);
    assert!(
        problems.contains("the certificate is for db.example.net"),
        "{problems}"
    );
    assert!(problems.contains("give the server a certificate with the subjectAltName 127.0.0.1"));
}

#[test]
fn a_server_that_demands_a_client_certificate_is_recognized() {
    let Some(server) = ferretdb(FerretDb::default().with_tls()).expect("it starts") else {
        return;
    };
    let report = report_of(server.uri());
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    let (without, _) = server
        .uri()
        .split_once("&tlsCertificateKeyFile")
        .expect("it has one");
    let report = report_of(without);
    assert_eq!(report.exit_code(), 13, "{}", report.to_text(false));
    let problems = problems(&report, &[]).join("\n");
    assert!(problems.contains("set tlsCertificateKeyFile"), "{problems}");
}

#[test]
fn a_certificate_without_names_is_recognized() {
    let scratch = Scratch::new().expect("a directory");
    let (_server, uri) = server_with(&scratch, |params| params.subject_alt_names.clear());
    let problems = tls_problems(&uri);
    assert!(
        problems.contains("its common name does not count"),
        "{problems}"
    );
}

#[test]
fn the_wrong_authorities_are_recognized() {
    let (scratch, other) = (
        Scratch::new().expect("one"),
        Scratch::new().expect("another"),
    );
    let (server, _) = server_with(&scratch, |params| {
        params
            .distinguished_name
            .push(DnType::CommonName, "other.example.net");
    });
    let (_other_server, other_uri) = server_with(&other, |_| ());
    let (_, options) = other_uri.split_once("/?").expect("options");
    let problems = tls_problems(&server.uri(options));
    assert!(problems.contains("UnknownIssuer"), "{problems}");
}

#[test]
fn a_certificate_that_is_not_checked_is_named_if_it_is_expired() {
    let scratch = Scratch::new().expect("a directory");
    let (server, _) = server_with(&scratch, |params| {
        params.not_after = date_time_ymd(2020, 2, 29);
    });
    let report = report_of(&server.uri("tls=true&tlsInsecure=true"));
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    let problems = problems(&report, &[]).join("\n");
    assert!(
        problems.contains("a certificate is expired, and accepted only"),
        "{problems}"
    );
}
