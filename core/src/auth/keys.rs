//! Keys that are derived from passwords: the work of deriving them, and the cache that lets a pool
//! do it once and not for every connection (AUTH-35).

use super::hash::{Hash, SecretBytes};
use sha2::{Digest, Sha256};
use std::fmt;

/// How many derived keys are kept; the one that was unused for longest goes first. A client has
/// one credential, but each server may have its own salt.
pub const MAX_CACHED_KEYS: usize = 32;

/// How many derived keys are kept of servers that have not proved themselves.
pub const MAX_UNPROVEN_KEYS: usize = 32;

/// What SCRAM derives from a password: enough to prove that it is known and to check the server's
/// proof, without the password itself.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) client: SecretBytes,
    pub(super) server: SecretBytes,
}

/// The name under which keys are kept: a digest of everything they depend on (AUTH-36).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName([u8; 32]);

impl fmt::Debug for KeyName {
    /// Shows nothing: a password could be guessed from its digest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyName(..)")
    }
}

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

/// The derivation of keys from a password, to be run where it delays nobody.
///
/// A server chooses how long it takes, up to [`MAX_ITERATIONS`](super::MAX_ITERATIONS). The
/// machines of the core give it away as data and go on when the keys are handed back.
pub struct KeyDerivation {
    name: KeyName,
    hash: Hash,
    password: SecretBytes,
    salt: Vec<u8>,
    iterations: u32,
}

impl KeyDerivation {
    /// `password` is in the form that the mechanism prepares.
    pub(super) fn new(hash: Hash, password: SecretBytes, salt: Vec<u8>, iterations: u32) -> Self {
        Self {
            name: KeyName::new(hash, &password, &salt, iterations),
            hash,
            password,
            salt,
            iterations,
        }
    }

    /// Identifies the keys: the same password, salt and iteration count give the same name.
    #[must_use]
    pub const fn name(&self) -> KeyName {
        self.name
    }

    /// How often the hash function is applied, which the time is proportional to: one million
    /// iterations take about 0.1 s where the processor helps with SHA, and several times as long
    /// where it does not.
    #[must_use]
    pub const fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Derives the keys. This may take seconds.
    #[must_use]
    pub fn derive(self) -> DerivedKeys {
        let salted = self
            .hash
            .stretch(&self.password, &self.salt, self.iterations);
        DerivedKeys {
            name: self.name,
            keys: Keys {
                client: self.hash.hmac(&salted, b"Client Key"),
                server: self.hash.hmac(&salted, b"Server Key"),
            },
        }
    }
}

impl fmt::Debug for KeyDerivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyDerivation")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// Keys that a [`KeyDerivation`] gave.
pub struct DerivedKeys {
    name: KeyName,
    keys: Keys,
}

impl DerivedKeys {
    /// The name of the derivation.
    #[must_use]
    pub const fn name(&self) -> KeyName {
        self.name
    }

    pub(super) const fn keys(&self) -> &Keys {
        &self.keys
    }
}

impl fmt::Debug for DerivedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DerivedKeys").finish_non_exhaustive()
    }
}

/// A bounded store of derived keys. One per client; all its connections share it.
///
/// Keys of servers that proved to know them too are kept apart from others, so that a hostile
/// server cannot push them out. They are wiped when dropped.
#[derive(Default)]
pub struct KeyCache {
    /// The most recently used last.
    entries: Vec<(KeyName, Keys)>,
    /// The most recently derived last.
    unproven: Vec<(KeyName, Keys)>,
}

impl KeyCache {
    /// A cache without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys of servers that proved themselves are kept.
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
        self.unproven.clear();
    }

    /// Keeps keys that were derived for a server which has not proved itself, so that one that
    /// fails to do so costs no second derivation.
    pub fn keep_unproven(&mut self, derived: &DerivedKeys) {
        let name = derived.name;
        self.unproven.retain(|(kept, _)| *kept != name);
        if self.unproven.len() >= MAX_UNPROVEN_KEYS {
            self.unproven.remove(0);
        }
        self.unproven.push((name, derived.keys.clone()));
    }

    pub(super) fn find(&mut self, name: KeyName) -> Option<Keys> {
        let Some(index) = self.entries.iter().position(|(kept, _)| *kept == name) else {
            let unproven = self.unproven.iter().find(|(kept, _)| *kept == name);
            return unproven.map(|(_, keys)| keys.clone());
        };
        let entry = self.entries.remove(index);
        let keys = entry.1.clone();
        self.entries.push(entry);
        Some(keys)
    }

    pub(super) fn insert(&mut self, name: KeyName, keys: Keys) {
        self.entries.retain(|(kept, _)| *kept != name);
        self.unproven.retain(|(kept, _)| *kept != name);
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
