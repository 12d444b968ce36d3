//! Tests of identity servers on sockets.

use super::{IdentityEndpoint, IdentityTls};
use onionskin_core::random::Seed;
use onionskin_deployment::identity::{IdentityFault, IdentityOptions};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
};

fn seed() -> Seed {
    Seed::new([5; 32])
}

#[test]
fn an_endpoint_answers_on_a_socket_and_stops_at_once() {
    let endpoint = IdentityEndpoint::start(IdentityOptions::default(), &seed()).expect("starts");
    let ask = || {
        let mut stream = TcpStream::connect(endpoint.address()).expect("a connection");
        let request = b"PUT /latest/api/token HTTP/1.1\r\nHost: h\r\n\
                        X-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\n";
        stream.write_all(request).expect("written");
        stream
    };
    let mut answer = String::new();
    ask().read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    endpoint.server().set_fault(Some(IdentityFault::Slow));
    let mut slow = ask();
    while endpoint.server().requests().len() < 2 {
        std::thread::yield_now();
    }
    drop(endpoint);
    let mut answer = String::new();
    slow.read_to_string(&mut answer).expect("the end");
    assert_eq!(answer, "");
}

#[test]
fn an_endpoint_with_tls_answers_clients_that_trust_its_authority() {
    let tls = IdentityTls::generate(&["sts.amazonaws.com"]).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(tls.authority().as_bytes());
    roots
        .add(authority.expect("a certificate"))
        .expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let options = IdentityOptions::default();
    let endpoint = IdentityEndpoint::start_with_tls(options, tls, &seed()).expect("starts");
    let name = "sts.amazonaws.com".try_into().expect("a name");
    let client = rustls::ClientConnection::new(config, name).expect("a client");
    let socket = TcpStream::connect(endpoint.address()).expect("a connection");
    let mut stream = rustls::StreamOwned::new(client, socket);
    let request = b"GET /v2/credentials/onionskin HTTP/1.1\r\nHost: h\r\n\r\n";
    stream.write_all(request).expect("written");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("an answer with an end");
    assert!(answer.contains("SecretAccessKey"), "{answer}");

    let mut plain = TcpStream::connect(endpoint.address()).expect("a connection");
    plain.write_all(request).expect("written");
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).expect("an end");
    assert!(!answer.starts_with(b"HTTP"), "only an alert");
}
