//! Creates a certificate authority, a server certificate for `localhost`, and a client certificate.

use crate::setup::named;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

/// The attributes of [`CLIENT_SUBJECT`](super::CLIENT_SUBJECT) in the order of the certificate. RFC
/// 2253 reverses the order.
const CLIENT_ATTRIBUTES: [(DnType, &str); 6] = [
    (DnType::CommonName, "client"),
    (DnType::OrganizationalUnitName, "Drivers"),
    (DnType::OrganizationName, "MongoDB"),
    (DnType::LocalityName, "Reykjavik"),
    (DnType::StateOrProvinceName, "Reykjavik"),
    (DnType::CountryName, "IS"),
];

/// Creates keys and certificates, and returns the server's TLS configuration. Writes three files to
/// the directory: `ca.pem`, `server.pem` with the certificate of the server and its key, and
/// `client.pem` with a client's certificate and key.
///
/// The server accepts clients without a certificate. It accepts client certificates that the
/// authorities in `client_authorities` signed, or those of the new authority if there is no such
/// file.
pub(super) fn generate(
    directory: &Path,
    client_authorities: Option<&Path>,
) -> io::Result<Arc<ServerConfig>> {
    fs::create_dir_all(directory).map_err(|error| named(directory, error))?;
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
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let (certificate, key) = signed(server, &authority)?;

    let mut client = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
    client.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, value) in CLIENT_ATTRIBUTES {
        client.distinguished_name.push(kind, value);
    }
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let of_client = signed(client, &authority)?;

    let authority_file = directory.join("ca.pem");
    fs::write(&authority_file, authority.pem()).map_err(|error| named(&authority_file, error))?;
    write_key(&directory.join("server.pem"), &both(&certificate, &key))?;
    let client = both(&of_client.0, &of_client.1);
    write_key(&directory.join("client.pem"), &client)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let authorities = match client_authorities {
        None => vec![authority.der().clone()],
        Some(file) => {
            let pem = fs::read(file).map_err(|error| named(file, error))?;
            certificates(&pem).map_err(|error| named(file, error))?
        }
    };
    let verifier = client_verifier(authorities, &provider);
    let verifier = verifier.map_err(|error| match client_authorities {
        Some(file) => named(file, error),
        None => error,
    })?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key)
        .map(Arc::new)
        .map_err(io::Error::other)
}

/// Writes a file with a private key, which only its owner can read.
fn write_key(path: &Path, text: &str) -> io::Result<()> {
    // An old file could be readable for others.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(path, error)),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|error| named(path, error))?;
    file.write_all(text.as_bytes())
        .map_err(|error| named(path, error))
}

fn signed(
    mut params: CertificateParams,
    authority: &CertifiedIssuer<'_, KeyPair>,
) -> io::Result<(Certificate, KeyPair)> {
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = params.signed_by(&key, authority);
    Ok((certificate.map_err(io::Error::other)?, key))
}

/// Returns a certificate and its key as PEM.
fn both(certificate: &Certificate, key: &KeyPair) -> String {
    format!("{}{}", certificate.pem(), key.serialize_pem())
}

fn certificates(pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    all.map_err(io::Error::other)
}

fn client_verifier(
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> io::Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(io::Error::other)?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .allow_unauthenticated()
        .build()
        .map_err(io::Error::other)
}
