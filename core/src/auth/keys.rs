//! The derivation of keys from passwords, and a cache of derived keys, so that a pool does not
//! repeat a derivation for each connection (AUTH-35).

use super::hash::{Hash, SecretBytes};
use sha2::{Digest, Sha256};
use std::fmt;

/// The maximum number of cached keys of servers that proved that they know the password. The least
/// recently used entry is removed first. A client has one credential, but each server can have its
/// own salt.
pub const MAX_CACHED_KEYS: usize = 32;

/// The maximum number of cached keys of servers that have not proved that they know the password.
/// The oldest entry is removed first.
pub const MAX_UNPROVEN_KEYS: usize = 32;

/// The keys that SCRAM derives from a password. With them a client can prove that it knows the
/// password, and can check the proof of the server.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    /// `ClientKey` of RFC 5802, for the proof of the client.
    pub(super) client: SecretBytes,
    /// `ServerKey` of RFC 5802, for the check of the server's proof.
    pub(super) server: SecretBytes,
}

/// The name under which derived keys are cached: a digest of password, salt, iteration count and
/// hash function ([AUTH-36]).
///
/// [AUTH-36]: crate::requirements::authentication#AUTH-36
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName([u8; 32]);

impl fmt::Debug for KeyName {
    /// Omits the digest, because a password could be guessed from it.
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
        // The length of the salt separates salt and password: without it two different pairs could
        // give the same bytes.
        digest.update((salt.len() as u64).to_le_bytes());
        digest.update(salt);
        digest.update(password);
        Self(digest.finalize().into())
    }
}

/// A derivation of keys from a password, before it runs.
///
/// The server chooses the iteration count, and so the duration, up to `MAX_ITERATIONS`. The core
/// therefore gives the derivation to the shell, which runs it where it delays nothing else and
/// passes the keys back.
pub struct KeyDerivation {
    name: KeyName,
    hash: Hash,
    password: SecretBytes,
    salt: Vec<u8>,
    iterations: u32,
}

impl KeyDerivation {
    /// Returns a derivation. The caller has prepared `password` as the mechanism requires.
    pub(super) fn new(hash: Hash, password: SecretBytes, salt: Vec<u8>, iterations: u32) -> Self {
        Self {
            name: KeyName::new(hash, &password, &salt, iterations),
            hash,
            password,
            salt,
            iterations,
        }
    }

    /// Returns the name of the keys. The same hash function, password, salt and iteration count
    /// give the same name.
    #[must_use]
    pub(crate) const fn name(&self) -> KeyName {
        self.name
    }

    /// Returns the iteration count, to which the duration is proportional. One million iterations
    /// take about 0.1 s on a processor with SHA instructions, and several times as long on others.
    #[must_use]
    pub const fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Derives the keys. This blocks the thread and may take seconds.
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

/// The result of a [`KeyDerivation`].
pub struct DerivedKeys {
    name: KeyName,
    keys: Keys,
}

impl DerivedKeys {
    /// Returns the name of the keys, which is that of the derivation.
    #[must_use]
    pub(crate) const fn name(&self) -> KeyName {
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

/// A bounded cache of derived keys, which all connections of a client share.
///
/// The keys of servers that proved that they know the password are kept apart from those of other
/// servers, so that a hostile server cannot displace them. Keys are wiped from memory when they are
/// dropped.
#[derive(Default)]
pub struct KeyCache {
    /// The keys of servers that proved that they know the password. The most recently used entry is
    /// the last.
    entries: Vec<(KeyName, Keys)>,
    /// The keys of servers that have not proved that they know the password. The most recently
    /// derived entry is the last.
    unproven: Vec<(KeyName, Keys)>,
}

impl KeyCache {
    /// Returns the number of cached keys of servers that proved that they know the password.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if [`len`](Self::len) is zero.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all keys and wipes them from memory.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub fn clear(&mut self) {
        self.entries.clear();
        self.unproven.clear();
    }

    /// Adds the keys for a server that has not proved yet that it knows the password. Later
    /// connections can use the keys even if the proof never comes.
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
    fn a_full_key_cache_evicts_the_least_recently_used_key() {
        let mut cache = KeyCache::default();
        for n in 0..MAX_CACHED_KEYS {
            cache.insert(name(n), keys(n));
        }
        assert!(cache.find(name(0)) == Some(keys(0)));
        cache.insert(name(MAX_CACHED_KEYS), keys(MAX_CACHED_KEYS));
        assert_eq!(cache.len(), MAX_CACHED_KEYS);
        assert!(cache.find(name(0)).is_some() && cache.find(name(1)).is_none());
    }

    #[test]
    fn a_key_name_differs_for_each_input_of_the_derivation() {
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
