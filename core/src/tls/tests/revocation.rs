//! Tests of revocation: OCSP responses, staples, CRLs and queries of sessions.

mod answers;
mod sessions;

use super::*;
use crate::tls::revocation::Subject;
use rcgen::{CustomExtension, DnType, PublicKeyData, SigningKey};
use rustls::{
    crypto::ring::{default_provider, sign::any_supported_type},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::slice;
use webpki::EndEntityCert;
use x509_cert::{
    Certificate,
    der::{
        Decode, Encode,
        asn1::{BitString, GeneralizedTime, Ia5String, Null, ObjectIdentifier, OctetString},
    },
    ext::pkix::{AccessDescription, AuthorityInfoAccessSyntax, name::GeneralName},
    serial_number::SerialNumber,
    spki::AlgorithmIdentifierOwned,
};
use x509_ocsp::{
    AsResponseBytes, BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspResponse, ResponderId,
    ResponseData, RevokedInfo, SingleResponse,
};

/// The time of the tests, in seconds since 1970.
const NOW_SECONDS: u64 = NOW.as_unix_millis() / 1000;

const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");

/// The URL of the responder in the certificates of the tests.
pub(crate) const RESPONDER: &str = "http://127.0.0.1:8888/status";

/// A certificate for `db.example.net`, and its key.
pub(crate) struct Issued {
    pub(crate) der: CertificateDer<'static>,
    key: KeyPair,
    /// The other certificates that the server sends.
    others: Vec<CertificateDer<'static>>,
}

impl Authority {
    /// Returns an authority whose certificate this authority has issued, and which names these
    /// responders.
    fn intermediate(&self, responders: &[&str]) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "intermediate");
        params.custom_extensions.extend(access(responders));
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }
}

/// Returns the extension that names these responders; `None` for none.
fn access(responders: &[&str]) -> Option<CustomExtension> {
    let responders = responders.iter().map(|url| AccessDescription {
        access_method: OCSP,
        access_location: GeneralName::UniformResourceIdentifier(
            Ia5String::new(url).expect("ASCII"),
        ),
    });
    let responders: Vec<_> = responders.collect();
    if responders.is_empty() {
        return None;
    }
    let content = AuthorityInfoAccessSyntax(responders);
    let content = content.to_der().expect("an extension");
    let oid = [1, 3, 6, 1, 5, 5, 7, 1, 1];
    Some(CustomExtension::from_oid_content(&oid, content))
}

impl Issued {
    /// Returns a certificate that names these responders.
    pub(crate) fn new(authority: &Authority, responders: &[&str], must_staple: bool) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&["db.example.net"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.custom_extensions.extend(access(responders));
        if must_staple {
            let oid = [1, 3, 6, 1, 5, 5, 7, 1, 24];
            let content = vec![0x30, 0x03, 0x02, 0x01, 0x05];
            params
                .custom_extensions
                .push(CustomExtension::from_oid_content(&oid, content));
        }
        let certificate = params.signed_by(&key, &authority.issuer);
        Self {
            der: certificate.expect("a certificate").der().clone(),
            key,
            others: Vec::new(),
        }
    }

    /// Returns the name of the certificate in OCSP.
    pub(crate) fn id(&self, authority: &Authority) -> CertId {
        self.subject(authority).id.clone()
    }

    /// Returns what the check of revocation needs of the certificate.
    fn subject(&self, authority: &Authority) -> Arc<Subject> {
        let certificate = EndEntityCert::try_from(&self.der).expect("a certificate");
        let key = authority.issuer.key().subject_public_key_info();
        Subject::new(&certificate, &key).expect("a key")
    }

    /// Returns a server with this certificate that staples this response.
    pub(crate) fn server(&self, staple: Option<Vec<u8>>) -> ServerConnection {
        ServerConnection::new(self.config(staple)).expect("a server")
    }

    /// Returns the configuration of a server with this certificate that staples this response.
    fn config(&self, staple: Option<Vec<u8>>) -> Arc<ServerConfig> {
        self.config_of(&[&TLS13, &TLS12], staple)
    }

    /// Returns the configuration of a server like [`config`](Self::config), with these versions.
    fn config_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        staple: Option<Vec<u8>>,
    ) -> Arc<ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let key = any_supported_type(&key).expect("a key");
        let chain = [slice::from_ref(&self.der), &*self.others].concat();
        let mut certified = CertifiedKey::new(chain, key);
        certified.ocsp = staple;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Always(Arc::new(certified))));
        Arc::new(config)
    }
}

#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesServerCert for Always {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// The content of an OCSP response. By default, its authority signs that the certificate is good,
/// from one hour ago until in one hour.
pub(crate) struct Response<'a> {
    status: CertStatus,
    this_update: u64,
    next_update: Option<u64>,
    hash: ObjectIdentifier,
    /// The key that signs, and the name of its owner.
    signer: (&'a KeyPair, ResponderId),
    certificates: Vec<CertificateDer<'static>>,
}

impl<'a> Response<'a> {
    pub(crate) fn new(authority: &'a Authority) -> Self {
        Self {
            status: CertStatus::good(),
            this_update: NOW_SECONDS - 3600,
            next_update: Some(NOW_SECONDS + 3600),
            hash: SHA1,
            signer: (authority.issuer.key(), name_of(&authority.der)),
            certificates: Vec::new(),
        }
    }

    pub(crate) fn revoked(authority: &'a Authority) -> Self {
        let mut response = Self::new(authority);
        response.status = CertStatus::revoked(RevokedInfo {
            revocation_time: time(NOW_SECONDS - 7200),
            revocation_reason: None,
        });
        response
    }

    pub(crate) fn unknown(authority: &'a Authority) -> Self {
        let mut response = Self::new(authority);
        response.status = CertStatus::unknown();
        response
    }

    /// Returns the response about a certificate in DER form.
    pub(crate) fn about(&self, issued: &Issued, authority: &Authority) -> Vec<u8> {
        let parsed = Certificate::from_der(&issued.der).expect("a certificate");
        let issuer = Certificate::from_der(&authority.der).expect("a certificate");
        let name = issuer.tbs_certificate.subject.to_der().expect("a name");
        let info = &issuer.tbs_certificate.subject_public_key_info;
        let key = info.subject_public_key.raw_bytes();
        let hash = |bytes: &[u8]| match self.hash {
            SHA1 => Sha1::digest(bytes).to_vec(),
            _ => Sha256::digest(bytes).to_vec(),
        };
        let serial: SerialNumber = parsed.tbs_certificate.serial_number;
        let data = ResponseData {
            version: x509_ocsp::Version::V1,
            responder_id: self.signer.1.clone(),
            produced_at: time(self.this_update),
            responses: vec![SingleResponse {
                cert_id: x509_ocsp::CertId {
                    hash_algorithm: AlgorithmIdentifierOwned {
                        oid: self.hash,
                        parameters: Some(Null.into()),
                    },
                    issuer_name_hash: OctetString::new(hash(&name)).expect("short"),
                    issuer_key_hash: OctetString::new(hash(key)).expect("short"),
                    serial_number: serial,
                },
                cert_status: self.status,
                this_update: time(self.this_update),
                next_update: self.next_update.map(time),
                single_extensions: None,
            }],
            response_extensions: None,
        };
        let signature = self.signer.0.sign(&data.to_der().expect("data"));
        let certificates = self.certificates.iter();
        let certificates = certificates.map(|der| Certificate::from_der(der).expect("one"));
        let certificates: Vec<_> = certificates.collect();
        let basic = BasicOcspResponse {
            tbs_response_data: data,
            signature_algorithm: AlgorithmIdentifierOwned {
                oid: ECDSA_WITH_SHA256,
                parameters: None,
            },
            signature: BitString::from_bytes(&signature.expect("a signature")).expect("bits"),
            certs: (!certificates.is_empty()).then_some(certificates),
        };
        let bytes = basic.to_response_bytes().expect("bytes");
        let response = OcspResponse {
            response_status: x509_ocsp::OcspResponseStatus::Successful,
            response_bytes: Some(bytes),
        };
        response.to_der().expect("a response")
    }
}

fn time(seconds: u64) -> OcspGeneralizedTime {
    let time = GeneralizedTime::from_unix_duration(Duration::from_secs(seconds));
    OcspGeneralizedTime(time.expect("a time"))
}

/// Returns the responder with the subject of this certificate.
fn name_of(der: &CertificateDer<'_>) -> ResponderId {
    let parsed = Certificate::from_der(der).expect("a certificate");
    ResponderId::ByName(parsed.tbs_certificate.subject)
}

/// Returns the responder with this key.
fn key_of(key: &KeyPair) -> ResponderId {
    let hash = Sha1::digest(key.public_key_raw()).to_vec();
    ResponderId::ByKey(OctetString::new(hash).expect("short"))
}
