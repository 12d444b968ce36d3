//! Generation of ObjectIds.

use bson::oid::ObjectId;
use std::sync::atomic::{AtomicU32, Ordering};

/// A generator of ObjectIds, without a clock and without randomness of its own.
///
/// An ObjectId has a time in seconds, five random bytes of the process, and a counter that starts
/// at a random number (specification BSON ObjectID, "Specification"). A program draws the random
/// bytes and the start of the counter once. After a fork, the child needs a generator with other
/// random bytes, because it continues the counter of its parent ([`with_random`]).
///
/// [`with_random`]: Self::with_random
///
/// ```
/// use onionskin_bson::ObjectIdGenerator;
///
/// let generator = ObjectIdGenerator::new([1, 2, 3, 4, 5], 0xff_ffff);
/// assert_eq!(generator.next(7).to_hex(), "000000070102030405ffffff");
/// assert_eq!(generator.next(8).to_hex(), "000000080102030405000000");
/// ```
// There is no accessor for the random bytes and the counter (OID-7), and no hash of a name or an
// address (OID-8).
#[derive(Debug)]
pub struct ObjectIdGenerator {
    random: [u8; 5],
    counter: AtomicU32,
}

impl ObjectIdGenerator {
    /// Returns a generator with these random bytes, whose first ObjectId has the lower 24 bits of
    /// `counter`.
    #[must_use]
    pub const fn new(random: [u8; 5], counter: u32) -> Self {
        Self {
            random,
            counter: AtomicU32::new(counter),
        }
    }

    /// Returns a generator with other random bytes, which continues the counter.
    #[must_use]
    pub fn with_random(&self, random: [u8; 5]) -> Self {
        Self::new(random, self.counter.load(Ordering::Relaxed))
    }

    /// Returns the next ObjectId. `seconds` is the time since the Unix epoch, which has 32 bits
    /// until the year 2106.
    #[must_use]
    pub fn next(&self, seconds: u32) -> ObjectId {
        // The counter has three bytes, and begins again at zero (OID-6).
        let counter = self.counter.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..9].copy_from_slice(&self.random);
        bytes[9..].copy_from_slice(&counter[1..]);
        ObjectId::from_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // OID-P1.
    #[test]
    fn the_time_is_unsigned() {
        let generator = ObjectIdGenerator::new([0; 5], 0);
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (0x7fff_ffff, "2038-01-19T03:14:07Z"),
            (0x8000_0000, "2038-01-19T03:14:08Z"),
            (0xffff_ffff, "2106-02-07T06:28:15Z"),
        ] {
            let time = generator.next(seconds).timestamp();
            let text = time.try_to_rfc3339_string().expect("it is in range");
            assert_eq!(text, expected);
        }
    }

    // OID-P2.
    #[test]
    fn the_counter_begins_again_after_its_largest_value() {
        for start in [0xff_ffff, u32::MAX] {
            let generator = ObjectIdGenerator::new([9; 5], start);
            assert_eq!(generator.next(1).bytes()[9..], [0xff, 0xff, 0xff]);
            assert_eq!(generator.next(1).bytes()[9..], [0, 0, 0]);
            assert_eq!(generator.next(1).bytes()[9..], [0, 0, 1]);
        }
    }

    // OID-5.
    #[test]
    fn a_generator_for_a_child_process_differs_in_its_random_bytes() {
        let parent = ObjectIdGenerator::new([1; 5], 7);
        let child = parent.with_random([2; 5]);
        let (of_parent, of_child) = (parent.next(1).bytes(), child.next(1).bytes());
        assert_eq!(of_parent[9..], of_child[9..]);
        assert_ne!(of_parent, of_child);
    }
}
