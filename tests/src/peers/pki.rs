//! The certificates of one test: those of an authority, a server, and a signer of OCSP responses.
//!
//! `openssl ocsp` makes the responses. It does not answer clients itself, because its server
//! listens on all addresses of the machine.

use super::{Scratch, rsa_key};
use crate::handshake::Always;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
};

/// The serial number of the server's certificate.
const SERIAL: u64 = 0x1001;

/// A serial number of 24 bytes. Authorities should use at most 20 (RFC 5280, section 4.1.2.2).
const LONG_SERIAL: [u8; 24] = [0x5a; 24];

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// RSA with 2,048 bits.
    Rsa2048,
    /// ECDSA on the curve P-256.
    EcdsaP256,
    /// ECDSA on the curve P-384.
    EcdsaP384,
}

/// The purpose of a key.
#[derive(Clone, Copy)]
enum Role {
    Authority,
    Signer,
    Server,
}

impl Keys {
    /// Makes a key. Each role has one RSA key, because it takes long to find one.
    fn new_key(self, openssl: &Path, role: Role) -> KeyPair {
        static RSA: [OnceLock<String>; 3] = [const { OnceLock::new() }; 3];
        match self {
            Self::Rsa2048 => {
                let new = || rsa_key(openssl).expect("an RSA key").serialize_pem();
                let text = RSA[role as usize].get_or_init(new);
                KeyPair::from_pem(text).expect("it was written by the same library")
            }
            Self::EcdsaP256 => KeyPair::generate().expect("a key"),
            Self::EcdsaP384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key"),
        }
    }
}

/// The properties that vary in the certificates.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The kind of all keys.
    pub keys: Keys,
    /// True if the authority delegates signing to another certificate.
    pub is_delegated: bool,
    /// True if the serial number of the server's certificate is longer than authorities should
    /// make it.
    pub has_long_serial: bool,
    /// True if the server must staple a response.
    pub must_staple: bool,
    /// True if the authority has revoked the server's certificate.
    pub is_revoked: bool,
}

/// The certificates and keys, as files for `openssl ocsp`.
#[derive(Debug)]
pub struct Pki {
    openssl: PathBuf,
    scratch: Scratch,
    server: CertificateDer<'static>,
    key: KeyPair,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// Makes the certificates. The server's one names responders at these ports of 127.0.0.1.
    pub fn new(openssl: &Path, kind: Kind, responders: &[u16]) -> Self {
        let new_key = |role| kind.keys.new_key(openssl, role);
        let scratch = Scratch::new().expect("a directory");
        let write = |name: &str, text: &str| drop(scratch.write(name, text).expect("a file"));

        let authority_key = new_key(Role::Authority);
        let mut authority = named("Onionskin authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = authority
            .self_signed(&authority_key)
            .expect("a certificate");
        write("ca.pem", &certificate.pem());
        let text = (certificate.pem(), authority_key.serialize_pem());
        let issuer = Issuer::new(authority, authority_key);

        let (signer, signer_key) = if kind.is_delegated {
            let key = new_key(Role::Signer);
            let mut params = named("Onionskin OCSP signer");
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::OcspSigning];
            let certificate = params.signed_by(&key, &issuer).expect("a certificate");
            (certificate.pem(), key.serialize_pem())
        } else {
            text
        };
        write("signer.pem", &signer);
        write("signer.key", &signer_key);

        let key = new_key(Role::Server);
        let mut params = named("127.0.0.1");
        params.subject_alt_names = CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .expect("a name")
            .subject_alt_names;
        let serial = match kind.has_long_serial {
            true => SerialNumber::from_slice(&LONG_SERIAL),
            false => SerialNumber::from(SERIAL),
        };
        params.serial_number = Some(serial.clone());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.custom_extensions.push(responders_at(responders));
        if kind.must_staple {
            let oid = [1, 3, 6, 1, 5, 5, 7, 1, 24];
            let content = vec![0x30, 0x03, 0x02, 0x01, 0x05];
            let extension = CustomExtension::from_oid_content(&oid, content);
            params.custom_extensions.push(extension);
        }
        let server = params.signed_by(&key, &issuer).expect("a certificate");
        write("server.pem", &server.pem());
        // The database of `openssl ca`: status, end, revocation, serial number, file and subject.
        let (status, revoked) = match kind.is_revoked {
            true => ("R", "240101000000Z"),
            false => ("V", ""),
        };
        let serial: String = serial
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        let line = format!("{status}\t400101000000Z\t{revoked}\t{serial}\tunknown\t/CN=server\n");
        write("index.txt", &line);
        write("index.txt.attr", "unique_subject = no\n");
        Self {
            openssl: openssl.to_owned(),
            server: server.der().clone(),
            key,
            issuer,
            scratch,
        }
    }

    /// Returns the authority's certificate, for `tlsCAFile`.
    pub fn authority(&self) -> PathBuf {
        self.scratch.path().join("ca.pem")
    }

    /// Returns the response of `openssl ocsp` to this request, or to one of its own about the
    /// server's certificate.
    pub fn respond(&self, request: Option<&[u8]>) -> Vec<u8> {
        let folder = Scratch::new().expect("a directory");
        let output = folder.path().join("response.der");
        let mut command = Command::new(&self.openssl);
        command.current_dir(self.scratch.path());
        command.args([
            "ocsp",
            "-index",
            "index.txt",
            "-CA",
            "ca.pem",
            "-ndays",
            "1",
        ]);
        command.args(["-rsigner", "signer.pem", "-rkey", "signer.key", "-noverify"]);
        match request {
            Some(request) => {
                let input = folder.path().join("request.der");
                fs::write(&input, request).expect("a file");
                command.arg("-reqin").arg(input);
            }
            None => drop(command.args(["-issuer", "ca.pem", "-cert", "server.pem"])),
        }
        let done = command
            .arg("-respout")
            .arg(&output)
            .output()
            .expect("openssl runs");
        let text = String::from_utf8_lossy(&done.stderr);
        fs::read(&output).unwrap_or_else(|error| panic!("no response: {error}: {text}"))
    }

    /// Returns a CRL of the authority as PEM text. It has this number of entries, and none of them
    /// is the server's certificate.
    ///
    /// # Panics
    ///
    /// Panics if the list cannot be signed.
    pub fn revocation_list(&self, entries: u64) -> String {
        let entry = |n| RevokedCertParams {
            serial_number: SerialNumber::from(SERIAL + 1 + n),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2040, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: (0..entries).map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("a list");
        list.pem().expect("PEM text")
    }

    /// Returns the configuration of the server, which staples this response.
    pub fn server(&self, staple: Option<Vec<u8>>) -> ServerConfig {
        let provider = ring::default_provider();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let chain = vec![self.server.clone()];
        let mut certified = CertifiedKey::from_der(chain, key, &provider).expect("they match");
        certified.ocsp = staple;
        ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Always(Arc::new(certified))))
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Returns the extension that names the responders (RFC 5280, section 4.2.2.1).
fn responders_at(ports: &[u16]) -> CustomExtension {
    let wrapped = |tag: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).expect("a short extension");
        match length {
            0..=127 => [&[tag, length], content].concat(),
            _ => [&[tag, 0x81, length], content].concat(),
        }
    };
    let ocsp = [0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01];
    let descriptions = ports.iter().map(|port| {
        let url = format!("http://127.0.0.1:{port}/");
        let description = [&ocsp[..], &wrapped(0x86, url.as_bytes())].concat();
        wrapped(0x30, &description)
    });
    let content = wrapped(0x30, &descriptions.collect::<Vec<_>>().concat());
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], content)
}
