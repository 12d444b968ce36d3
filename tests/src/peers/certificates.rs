//! Certificates for one test: those of an authority, of a server on loopback, and of a client.

use std::io;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::Scratch;

/// PEM files of a new authority and of the two certificates that it signed.
#[derive(Debug)]
pub struct Certificates {
    /// The authority's certificate, for `tlsCAFile`.
    pub authority: PathBuf,
    /// The server's certificate, for `localhost` and `127.0.0.1`.
    pub server_certificate: PathBuf,
    /// The server's private key.
    pub server_key: PathBuf,
    /// The client's certificate and private key in one file, for `tlsCertificateKeyFile`.
    pub client: PathBuf,
    _scratch: Scratch,
}

impl Certificates {
    /// Generates the keys and certificates, and writes them into a directory of their own.
    pub fn generate() -> io::Result<Self> {
        let scratch = Scratch::new()?;
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(DnType::CommonName, "Onionskin test authority");
        let authority_key = KeyPair::generate().map_err(io::Error::other)?;
        let authority_certificate = authority
            .self_signed(&authority_key)
            .map_err(io::Error::other)?;
        let issuer = Issuer::new(authority, authority_key);

        let (server_certificate, server_key) = signed("localhost", &issuer)?;
        let (client_certificate, client_key) = signed("onionskin-client", &issuer)?;
        let client = format!("{client_certificate}{client_key}");
        Ok(Self {
            authority: scratch.write("authority.pem", &authority_certificate.pem())?,
            server_certificate: scratch.write("server.pem", &server_certificate)?,
            server_key: scratch.write("server.key", &server_key)?,
            client: scratch.write("client.pem", &client)?,
            _scratch: scratch,
        })
    }
}

/// Returns a certificate for `name` and for `127.0.0.1`, and its key, as PEM text.
fn signed(name: &str, issuer: &Issuer<'_, KeyPair>) -> io::Result<(String, String)> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let mut params = CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()])
        .map_err(io::Error::other)?;
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, issuer).map_err(io::Error::other)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
