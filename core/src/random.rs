//! Random numbers, which come from one seed. The seed is split by name for each machine.

use hmac::{Hmac, Mac};
use rand_chacha::{
    ChaCha12Rng,
    rand_core::{RngCore, SeedableRng},
};
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroize;

/// The 32 bytes from which the random choices of a client are derived, except those of TLS.
///
/// An adapter reads the seed from the operating system, and a simulation chooses it. The seed is
/// secret, because nonces are derived from it: `Debug` does not show it, and it is erased when
/// dropped.
#[derive(Clone)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Creates a seed of these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for a recording of the client.
    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the seed for `name`. Numbers drawn under one name do not change those of another
    /// name.
    #[must_use]
    pub fn split(&self, name: &str) -> Self {
        let mut mac =
            <Hmac<Sha256> as Mac>::new_from_slice(&self.0).expect("any key length is fine");
        mac.update(name.as_bytes());
        Self(mac.finalize().into_bytes().into())
    }

    /// Returns a generator that starts from this seed.
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

/// A deterministic random number generator that is strong enough for nonces (ChaCha with 12
/// rounds).
///
/// A clone gives the same numbers as the original from then on. Clone a generator only with a
/// machine that is cloned to explore its possible next steps, never for two machines that run side
/// by side.
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
    /// Returns a uniformly distributed 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a uniformly distributed 32-bit number.
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Returns a uniformly distributed number in `0..bound`. Panics if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member");
        // The result is the high half of the product. Products with a low half below the threshold
        // are rejected, so that all results are equally likely.
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns true with the probability `numerator / denominator`. Panics if `denominator` is
    /// zero.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills `bytes` with random bytes.
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
    fn a_seed_split_by_name_gives_one_random_stream_per_name() {
        let seed = Seed::new([1; 32]);
        let draw = |name: &str| seed.split(name).random().next_u64();
        assert_eq!(draw("pool"), draw("pool"));
        assert_ne!(draw("pool"), draw("selection"));
    }

    #[test]
    fn below_returns_every_value_below_its_bound_and_no_other() {
        let mut random = Seed::new([2; 32]).random();
        let mut seen = [0_u32; 5];
        for _ in 0..1000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
    }

    #[test]
    fn debug_output_hides_the_seed() {
        assert_eq!(format!("{:?}", Seed::new([9; 32])), "Seed(..)");
    }
}
