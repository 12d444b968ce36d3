//! A short value that stands for a state of a world, so that many states can be told apart.

use sha2::{Digest, Sha256};
use std::{
    fmt::{self, Write},
    hash::Hasher,
};

/// Collects what a state is made of, as text or by its `Hash`.
#[derive(Debug, Default)]
pub struct Fingerprint(Vec<u8>);

impl Fingerprint {
    /// Returns 16 bytes that differ, for all practical purposes, between different states.
    #[must_use]
    pub fn value(&self) -> u128 {
        let hash = Sha256::digest(&self.0);
        let (first, _) = hash.split_first_chunk().expect("a hash has 32 bytes");
        u128::from_le_bytes(*first)
    }
}

impl Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the first half of the value.
    fn finish(&self) -> u64 {
        let bytes = self.value().to_le_bytes();
        u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
    }
}
