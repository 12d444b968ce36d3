//! Decryption of private keys, for the feature `cert-key-password`.

use super::{
    configuration,
    key_source::{ENCRYPTED, KeySource},
};
use crate::{
    error::{Error, Result},
    options::Secret,
};
use aes::{Aes128, Aes192, Aes256};
use cbc::{
    Decryptor,
    cipher::{BlockCipher, BlockDecryptMut, KeyInit, KeyIvInit, block_padding::Pkcs7},
};
use des::TdesEde3;
use md5::{Digest, Md5};
use pkcs8::{EncryptedPrivateKeyInfo, pkcs5};
use zeroize::{Zeroize, Zeroizing};

/// The number of bytes of an initialization vector that are the salt of the key (OpenSSL,
/// `EVP_BytesToKey`).
const SALT_BYTES: usize = 8;

/// The first byte of a key in DER form.
const SEQUENCE: u8 = 0x30;

/// The maximum number of bytes of memory that the parameters of scrypt may ask for. The keys that
/// OpenSSL writes need 1 to 16 MiB.
const MAX_SCRYPT_BYTES: u64 = 1024 * 1024 * 1024;

impl<'a> KeySource<'a> {
    fn password(self) -> Result<&'a Secret> {
        self.password.ok_or_else(|| {
            let option = self.option;
            configuration(format!(
                "the key in {option} is encrypted; set tlsCertificateKeyFilePassword"
            ))
        })
    }

    fn wrong(self) -> Error {
        let option = self.option;
        configuration(format!(
            "the key in {option} cannot be decrypted: tlsCertificateKeyFilePassword is wrong, or \
             the file is damaged"
        ))
    }

    fn unsupported(self, reason: &str) -> Error {
        let option = self.option;
        configuration(format!(
            "the key in {option} cannot be decrypted: {reason}; encrypt it again, for example \
             with `openssl pkcs8 -topk8 -v2 aes-256-cbc`"
        ))
    }
}

/// Decrypts a key. Returns the label of the decrypted form, and its bytes. A key with headers keeps
/// its label, a key in PKCS#8 form does not.
pub(super) fn decrypt<'a>(
    label: &'a str,
    headers: &[(&str, &str)],
    der: Zeroizing<Vec<u8>>,
    source: KeySource<'_>,
) -> Result<(&'a str, Vec<u8>)> {
    if label == ENCRYPTED {
        return Ok(("PRIVATE KEY", decrypt_pkcs8(&der, source)?));
    }
    Ok((label, decrypt_old(headers, der, source)?))
}

/// Decrypts a key in PKCS#8 form.
fn decrypt_pkcs8(der: &[u8], source: KeySource<'_>) -> Result<Vec<u8>> {
    let password = source.password()?;
    let info = EncryptedPrivateKeyInfo::try_from(der)
        .map_err(|_| source.unsupported("its algorithm is not supported"))?;
    let scheme = info.encryption_algorithm.pbes2();
    if let Some(params) = scheme.and_then(|scheme| scheme.kdf.scrypt()) {
        let blocks = params
            .cost_parameter
            .saturating_add(params.parallelization.into());
        let bytes = blocks.saturating_mul(128 * u64::from(params.block_size));
        if bytes > MAX_SCRYPT_BYTES {
            return Err(source.unsupported("its parameters of scrypt need too much memory"));
        }
    }
    let key = info
        .decrypt(password.expose())
        .map_err(|error| match error {
            pkcs8::Error::EncryptedPrivateKey(
                pkcs5::Error::NoPbes1CryptSupport | pkcs5::Error::UnsupportedAlgorithm { .. },
            ) => source.unsupported("its algorithm is not supported"),
            _ => source.wrong(),
        })?;
    Ok(key.as_bytes().to_vec())
}

/// Decrypts a key whose header `DEK-Info` names the cipher and the initialization vector.
fn decrypt_old(
    headers: &[(&str, &str)],
    mut der: Zeroizing<Vec<u8>>,
    source: KeySource<'_>,
) -> Result<Vec<u8>> {
    let password = source.password()?.expose().as_bytes();
    let info = headers.iter().find(|(name, _)| *name == "DEK-Info");
    let (cipher, vector) = info
        .and_then(|(_, value)| value.split_once(','))
        .ok_or_else(|| source.unsupported("its header DEK-Info is missing"))?;
    let vector =
        hex(vector.trim()).ok_or_else(|| source.unsupported("its header DEK-Info is damaged"))?;
    let length = match cipher {
        "AES-128-CBC" => decrypt_with::<Aes128>(password, &vector, &mut der),
        "AES-192-CBC" => decrypt_with::<Aes192>(password, &vector, &mut der),
        "AES-256-CBC" => decrypt_with::<Aes256>(password, &vector, &mut der),
        "DES-EDE3-CBC" => decrypt_with::<TdesEde3>(password, &vector, &mut der),
        _ => return Err(source.unsupported("its cipher is not supported")),
    };
    let length = length.ok_or_else(|| source.wrong())?;
    let key = der[..length].to_vec();
    // With a wrong password, the padding is right once in 256 times.
    if key.first() != Some(&SEQUENCE) {
        return Err(source.wrong());
    }
    Ok(key)
}

/// Decrypts `bytes` in place. Returns the number of bytes without the padding; `None` if the vector
/// or the padding is wrong.
fn decrypt_with<C>(password: &[u8], vector: &[u8], bytes: &mut [u8]) -> Option<usize>
where
    C: BlockCipher + BlockDecryptMut + KeyInit,
    Decryptor<C>: KeyIvInit,
{
    let mut key = derive(password, vector.get(..SALT_BYTES)?, C::key_size());
    let cipher = Decryptor::<C>::new_from_slices(&key, vector).ok();
    key.zeroize();
    let plain = cipher?.decrypt_padded_mut::<Pkcs7>(bytes).ok()?;
    Some(plain.len())
}

/// Derives a key of `length` bytes, as the function `EVP_BytesToKey` of OpenSSL does with MD5 and
/// one iteration.
fn derive(password: &[u8], salt: &[u8], length: usize) -> Vec<u8> {
    let mut key: Vec<u8> = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    while key.len() < length {
        let mut hash = Md5::new();
        hash.update(&last);
        hash.update(password);
        hash.update(salt);
        last.zeroize();
        last = hash.finalize().to_vec();
        key.extend_from_slice(&last);
    }
    last.zeroize();
    key.truncate(length);
    key
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    digits.map(byte).collect()
}
