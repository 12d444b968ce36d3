//! Tests of client certificates and MONGODB-X509 on real sockets.

use super::{addresses, connect, send_command};
use crate::{CLIENT_SUBJECT, Embedded, ServeOptions};
use bson::{RawDocumentBuf, rawdoc};
use onionskin_deployment::deployment::User;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use std::{net::TcpStream, path::Path, sync::Arc};

/// A directory for certificates, which is removed with the value.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("onionskin-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.0.join(file)).expect("a file")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn deployment(directory: &Path, authority: Option<&Path>) -> Embedded {
    let mut options = ServeOptions::standalone();
    options.tls = true;
    options.tls_directory = Some(directory.to_owned());
    options.tls_ca_file = authority.map(Path::to_owned);
    options.users.push(User::external(CLIENT_SUBJECT));
    Embedded::start(options).expect("starts")
}

/// Connects to a deployment whose authority is in `server`, with the certificate of a client in
/// `client`.
fn connect_with(
    deployment: &Embedded,
    server: &Directory,
    client: Option<&Directory>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&server.read("ca.pem")).expect("a certificate");
    roots.add(authority).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match client.map(|directory| directory.read("client.pem")) {
        None => config.with_no_client_auth(),
        Some(pem) => {
            let certificate = CertificateDer::from_pem_slice(&pem).expect("a certificate");
            let key = PrivateKeyDer::from_pem_slice(&pem).expect("a key");
            config
                .with_client_auth_cert(vec![certificate], key)
                .expect("a configuration")
        }
    };
    let stream = connect(&addresses(deployment.uri())[0]).expect("a connection");
    let name = "localhost".try_into().expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(tls, stream)
}

fn authenticate() -> RawDocumentBuf {
    rawdoc! { "authenticate": 1, "mechanism": "MONGODB-X509", "$db": "$external" }
}

#[test]
fn a_client_certificate_identifies_the_user() {
    let directory = Directory::new("x509");
    let deployment = deployment(&directory.0, None);
    let mut stream = connect_with(&deployment, &directory, Some(&directory));
    let find = rawdoc! { "find": "c", "$db": "d" };
    let refused = send_command(&mut stream, &find).expect("a reply");
    assert_eq!(refused.get_i32("code").ok(), Some(13));
    let reply = send_command(&mut stream, &authenticate()).expect("a reply");
    assert_eq!(
        reply.get_str("user").ok(),
        Some(CLIENT_SUBJECT),
        "{reply:?}"
    );
    let found = send_command(&mut stream, &find).expect("a reply");
    assert!(found.get_document("cursor").is_ok(), "{found:?}");
    deployment.require_reauthentication();
    let stale = send_command(&mut stream, &find).expect("a reply");
    assert_eq!(stale.get_i32("code").ok(), Some(391), "{stale:?}");
    send_command(&mut stream, &authenticate()).expect("a reply");
    let found = send_command(&mut stream, &find).expect("a reply");
    assert!(found.get_document("cursor").is_ok(), "{found:?}");
    assert_eq!(
        deployment.status().map(|status| status.auth.successes),
        Some(2)
    );

    let mut stream = connect_with(&deployment, &directory, None);
    let reply = send_command(&mut stream, &authenticate()).expect("a reply");
    assert_eq!(reply.get_i32("code").ok(), Some(18), "{reply:?}");
}

#[test]
fn only_the_authorities_in_the_file_sign_client_certificates() {
    let (own, other) = (Directory::new("x509-own"), Directory::new("x509-other"));
    let issuer = deployment(&other.0, None);
    drop(issuer);
    let deployment = deployment(&own.0, Some(&other.0.join("ca.pem")));
    let mut stream = connect_with(&deployment, &own, Some(&other));
    let reply = send_command(&mut stream, &authenticate()).expect("a reply");
    assert_eq!(
        reply.get_str("user").ok(),
        Some(CLIENT_SUBJECT),
        "{reply:?}"
    );
    let mut stream = connect_with(&deployment, &own, Some(&own));
    assert!(send_command(&mut stream, &authenticate()).is_none());
}

#[test]
fn the_own_directory_of_certificates_is_private_and_removed_at_the_end() {
    let mut options = ServeOptions::standalone();
    options.tls = true;
    let deployment = Embedded::start(options).expect("starts");
    let directory = deployment.tls_directory().expect("it has one").clone();
    let file = std::fs::metadata(directory.join("server.pem")).expect("it is there");
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o77,
        0
    );
    assert!(file.is_file());
    drop(deployment);
    assert!(!directory.exists());
}
