//! The hash functions SHA-1 and SHA-256, with the operations that SCRAM needs.

use hmac::{Hmac, Mac};
use sha1::{Digest, Sha1};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes that are wiped from memory when they are dropped.
pub(super) type SecretBytes = Zeroizing<Vec<u8>>;

/// The hash function of a SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha1,
    Sha256,
}

impl Hash {
    /// Returns the hash of `bytes`, H() in RFC 5802.
    pub(super) fn digest(self, bytes: &[u8]) -> SecretBytes {
        Zeroizing::new(match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        })
    }

    /// Returns the HMAC of `text` with `key`.
    pub(super) fn hmac(self, key: &[u8], text: &[u8]) -> SecretBytes {
        fn sign<M: Mac + hmac::digest::KeyInit>(key: &[u8], text: &[u8]) -> SecretBytes {
            let mut mac = <M as Mac>::new_from_slice(key).expect("any key length is fine");
            mac.update(text);
            Zeroizing::new(mac.finalize().into_bytes().to_vec())
        }
        match self {
            Self::Sha1 => sign::<Hmac<Sha1>>(key, text),
            Self::Sha256 => sign::<Hmac<Sha256>>(key, text),
        }
    }

    /// Derives a key from a password by PBKDF2, Hi() in RFC 5802. The key is as long as a hash.
    pub(super) fn stretch(self, password: &[u8], salt: &[u8], iterations: u32) -> SecretBytes {
        let mut out = Zeroizing::new(vec![0; self.output_bytes()]);
        match self {
            Self::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut out),
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut out),
        }
        out
    }

    /// True if `tag` is the HMAC of `text` with `key`. The comparison takes constant time.
    pub(super) fn verify(self, key: &[u8], text: &[u8], tag: &[u8]) -> bool {
        fn check<M: Mac + hmac::digest::KeyInit>(key: &[u8], text: &[u8], tag: &[u8]) -> bool {
            let mut mac = <M as Mac>::new_from_slice(key).expect("any key length is fine");
            mac.update(text);
            mac.verify_slice(tag).is_ok()
        }
        match self {
            Self::Sha1 => check::<Hmac<Sha1>>(key, text, tag),
            Self::Sha256 => check::<Hmac<Sha256>>(key, text, tag),
        }
    }

    const fn output_bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}
