//! Creates a certificate authority, and a server certificate for `localhost`.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{fs, io, path::Path, sync::Arc};

/// Creates keys and certificates, and returns the server's TLS configuration. Writes two files to
/// the directory: `ca.pem`, and `server.pem` with the certificate of the server and its key.
pub(super) fn generate(directory: &Path) -> io::Result<Arc<ServerConfig>> {
    fs::create_dir_all(directory)?;
    let mut authority = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![
        rcgen::KeyUsagePurpose::KeyCertSign,
        rcgen::KeyUsagePurpose::CrlSign,
    ];
    authority
        .distinguished_name
        .push(DnType::CommonName, "Onionskin simulated CA");
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let authority = CertifiedIssuer::self_signed(authority, key).map_err(io::Error::other)?;

    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut server = CertificateParams::new(names).map_err(io::Error::other)?;
    server
        .distinguished_name
        .push(DnType::CommonName, "localhost");
    server.use_authority_key_identifier_extension = true;
    server.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = server
        .signed_by(&key, &authority)
        .map_err(io::Error::other)?;

    fs::write(directory.join("ca.pem"), authority.pem())?;
    let both = format!("{}{}", certificate.pem(), key.serialize_pem());
    fs::write(directory.join("server.pem"), both)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .map(Arc::new)
        .map_err(io::Error::other)
}
