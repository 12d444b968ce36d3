//! Keys that were derived from passwords, kept so that a pool derives them once and not for every
//! connection (AUTH-35).

use super::hash::{Hash, SecretBytes};
use sha2::{Digest, Sha256};
use std::fmt;

/// How many derived keys are kept; the one that was unused for longest goes first. A client has
/// one credential, but each server may have its own salt.
pub const MAX_CACHED_KEYS: usize = 32;

/// What SCRAM derives from a password: enough to prove that it is known and to check the server's
/// proof, without the password itself.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) client: SecretBytes,
    pub(super) server: SecretBytes,
}

/// The name under which keys are kept: a digest of everything they depend on (AUTH-36).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyName([u8; 32]);

impl KeyName {
    pub(super) fn new(hash: Hash, password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let mut digest = Sha256::new();
        digest.update([match hash {
            Hash::Sha1 => 1,
            Hash::Sha256 => 2,
        }]);
        digest.update(iterations.to_le_bytes());
        // Lengths keep two pairs of password and salt apart that read the same one after another.
        digest.update((salt.len() as u64).to_le_bytes());
        digest.update(salt);
        digest.update(password);
        Self(digest.finalize().into())
    }
}

/// A bounded store of derived keys. One per client; all its connections share it.
///
/// Keys enter only after the server proved that it knows them too, so that a hostile server cannot
/// push out those of others. They are wiped when dropped.
#[derive(Default)]
pub struct KeyCache {
    /// The most recently used last.
    entries: Vec<(KeyName, Keys)>,
}

impl KeyCache {
    /// A cache without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Wipes all keys.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn find(&mut self, name: KeyName) -> Option<Keys> {
        let index = self.entries.iter().position(|(kept, _)| *kept == name)?;
        let entry = self.entries.remove(index);
        let keys = entry.1.clone();
        self.entries.push(entry);
        Some(keys)
    }

    pub(super) fn insert(&mut self, name: KeyName, keys: Keys) {
        self.entries.retain(|(kept, _)| *kept != name);
        if self.entries.len() >= MAX_CACHED_KEYS {
            self.entries.remove(0);
        }
        self.entries.push((name, keys));
        assert!(
            self.entries.len() <= MAX_CACHED_KEYS,
            "the cache is bounded"
        );
    }
}

impl fmt::Debug for KeyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyCache")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    fn name(n: usize) -> KeyName {
        KeyName::new(Hash::Sha256, b"pencil", &n.to_le_bytes(), 4096)
    }

    fn keys(n: usize) -> Keys {
        Keys {
            client: Zeroizing::new(n.to_le_bytes().to_vec()),
            server: Zeroizing::new(Vec::new()),
        }
    }

    #[test]
    fn the_longest_unused_key_makes_room() {
        let mut cache = KeyCache::new();
        for n in 0..MAX_CACHED_KEYS {
            cache.insert(name(n), keys(n));
        }
        assert!(cache.find(name(0)) == Some(keys(0)));
        cache.insert(name(MAX_CACHED_KEYS), keys(MAX_CACHED_KEYS));
        assert_eq!(cache.len(), MAX_CACHED_KEYS);
        assert!(cache.find(name(0)).is_some() && cache.find(name(1)).is_none());
    }

    #[test]
    fn everything_that_a_key_depends_on_is_in_its_name() {
        // AUTH-36
        let base = KeyName::new(Hash::Sha1, b"ab", b"c", 4096);
        for other in [
            KeyName::new(Hash::Sha256, b"ab", b"c", 4096),
            KeyName::new(Hash::Sha1, b"b", b"ca", 4096),
            KeyName::new(Hash::Sha1, b"ab", b"d", 4096),
            KeyName::new(Hash::Sha1, b"ab", b"c", 4097),
        ] {
            assert!(base != other);
        }
    }
}
