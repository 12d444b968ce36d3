//! Private keys, also encrypted ones: PKCS#8 (RFC 5958), and the older form of OpenSSL whose PEM
//! headers name the cipher (RFC 1421, section 4.6.1).

#[cfg(feature = "cert-key-password")]
use super::decryption::decrypt;
use super::{
    configuration,
    key_source::{ENCRYPTED, KeySource},
    pem::Block,
};
use crate::error::Result;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

/// Returns the first private key of a PEM text, decrypted if it is encrypted; `None` if there is no
/// key. Fails if the key is damaged, if the password is missing or wrong, or if the cipher is not
/// supported. Without the feature `cert-key-password`, no cipher is supported.
///
/// Errors contain no part of the file.
pub(super) fn private_key(
    blocks: Vec<Block<'_>>,
    source: KeySource<'_>,
) -> Result<Option<PrivateKeyDer<'static>>> {
    let mut blocks = blocks.into_iter();
    let Some(block) = blocks.find(Block::is_private_key) else {
        return Ok(None);
    };
    let Some(der) = block.der else {
        let option = source.option;
        return Err(configuration(format!(
            "{option} has no private key that can be read"
        )));
    };
    let has_cipher = block.headers.iter().any(|(name, value)| {
        *name == "Proc-Type" && value.split(',').any(|part| part.trim() == "ENCRYPTED")
    });
    let (label, der) = if has_cipher || block.label == ENCRYPTED {
        decrypt(block.label, &block.headers, der, source)?
    } else {
        (block.label, der.to_vec())
    };
    match label {
        "PRIVATE KEY" => Ok(Some(PrivatePkcs8KeyDer::from(der).into())),
        "RSA PRIVATE KEY" => Ok(Some(PrivatePkcs1KeyDer::from(der).into())),
        "EC PRIVATE KEY" => Ok(Some(PrivateSec1KeyDer::from(der).into())),
        _ => Err(configuration(format!(
            "the kind of the key in {} is not supported; use a key of RSA, ECDSA or Ed25519",
            source.option
        ))),
    }
}

/// Decrypts nothing, because the feature is missing.
#[cfg(not(feature = "cert-key-password"))]
fn decrypt<'a>(
    _label: &'a str,
    _headers: &[(&str, &str)],
    _der: zeroize::Zeroizing<Vec<u8>>,
    source: KeySource<'_>,
) -> Result<(&'a str, Vec<u8>)> {
    let option = source.option;
    let password = match source.password {
        Some(_) => "",
        None => "set tlsCertificateKeyFilePassword, and ",
    };
    Err(configuration(format!(
        "the key in {option} is encrypted; {password}enable the feature `cert-key-password`"
    )))
}
