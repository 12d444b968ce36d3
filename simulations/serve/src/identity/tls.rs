//! TLS of an identity server, for the AWS Security Token Service, which clients reach by HTTPS.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ServerConfig, ServerConnection,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{
    fmt,
    io::{self, Read as _, Write as _},
    sync::Arc,
};

/// The certificate of an identity server, and the authority that signed it.
#[derive(Clone)]
pub struct IdentityTls {
    config: Arc<ServerConfig>,
    authority: Arc<str>,
}

impl fmt::Debug for IdentityTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityTls").finish_non_exhaustive()
    }
}

impl IdentityTls {
    /// Creates an authority, and a certificate for these host names and addresses, such as
    /// `sts.amazonaws.com`.
    pub fn generate(names: &[&str]) -> io::Result<Self> {
        let mut authority = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = "Onionskin identity authority";
        authority.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let authority = CertifiedIssuer::self_signed(authority, key).map_err(io::Error::other)?;

        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let server = CertificateParams::new(names).map_err(io::Error::other)?;
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let signed = server.signed_by(&key, &authority);
        let certificate = signed.map_err(io::Error::other)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(io::Error::other)?;
        Ok(Self {
            config: Arc::new(config),
            authority: authority.pem().into(),
        })
    }

    /// Returns the certificate of the authority as PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Creates the server's end of a connection.
    pub(super) fn connect(&self) -> Option<Box<ServerConnection>> {
        let mut connection = ServerConnection::new(Arc::clone(&self.config)).ok()?;
        connection.set_buffer_limit(None);
        Some(Box::new(connection))
    }
}

/// Decrypts received bytes. Returns an error if they violate TLS.
pub(super) fn open(tls: &mut ServerConnection, mut received: &[u8]) -> io::Result<Vec<u8>> {
    let mut opened = Vec::new();
    while !received.is_empty() {
        tls.read_tls(&mut received)?;
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        let start = opened.len();
        opened.resize(start + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut opened[start..])?;
    }
    Ok(opened)
}

/// Encrypts bytes. An error of the connection gives no bytes.
pub(super) fn seal(tls: &mut ServerConnection, bytes: &[u8]) -> Vec<u8> {
    let _ = tls.writer().write_all(bytes);
    take_output(tls)
}

/// Returns the bytes that TLS has to send, such as messages of the handshake.
pub(super) fn take_output(tls: &mut ServerConnection) -> Vec<u8> {
    let mut output = Vec::new();
    while tls.wants_write() {
        if tls.write_tls(&mut output).is_err() {
            break;
        }
    }
    output
}
