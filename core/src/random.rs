//! The one source of chance: a seed given at construction, split by name for each machine.

use hmac::{Hmac, Mac};
use rand_chacha::{
    ChaCha12Rng,
    rand_core::{RngCore, SeedableRng},
};
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroize;

/// 32 bytes from which every random choice of a client follows.
///
/// An adapter takes them from the operating system, a simulation from its scenario. Because nonces
/// come from it too, it is a secret: `Debug` does not show it and it is wiped when dropped.
#[derive(Clone)]
pub struct Seed([u8; 32]);

impl Seed {
    /// A seed of exactly these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The seed that belongs to `name`. Drawing from one named generator never shifts another.
    #[must_use]
    pub fn split(&self, name: &str) -> Self {
        let mut mac =
            <Hmac<Sha256> as Mac>::new_from_slice(&self.0).expect("any key length is fine");
        mac.update(name.as_bytes());
        Self(mac.finalize().into_bytes().into())
    }

    /// The generator that starts from this seed.
    #[must_use]
    pub fn random(&self) -> Random {
        Random(ChaCha12Rng::from_seed(self.0))
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// A deterministic generator that is strong enough for nonces (ChaCha with 12 rounds).
///
/// A clone draws the same from then on: it is for machines that are cloned to try what could come
/// next, and never for two that live side by side.
///
/// ```
/// use onionskin_core::random::Seed;
///
/// let mut a = Seed::new([7; 32]).split("pool").random();
/// let mut b = Seed::new([7; 32]).split("pool").random();
/// assert_eq!(a.below(1000), b.below(1000));
/// ```
#[derive(Clone)]
pub struct Random(ChaCha12Rng);

impl Random {
    /// A uniform 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform 32-bit number.
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A uniform number in `0..bound`. `bound` must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member");
        // Multiply and take the high half; reject the few draws that would favour low numbers.
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// True with probability `numerator / denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_gives_the_same_stream_and_another_name_another() {
        let seed = Seed::new([1; 32]);
        let draw = |name: &str| seed.split(name).random().next_u64();
        assert_eq!(draw("pool"), draw("pool"));
        assert_ne!(draw("pool"), draw("selection"));
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut random = Seed::new([2; 32]).random();
        let mut seen = [0_u32; 5];
        for _ in 0..1000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
    }

    #[test]
    fn a_seed_is_not_shown() {
        assert_eq!(format!("{:?}", Seed::new([9; 32])), "Seed(..)");
    }
}
