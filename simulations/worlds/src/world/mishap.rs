//! The faults that [`Rates`] draw for a message or a connection attempt.

use super::options::Rates;
use onionskin_core::random::Random;
use std::time::Duration;

/// The divisor for the largest piece of a slow message. The largest piece has the size of the
/// message divided by this number, and at least 3 bytes.
const MAX_PIECES: usize = 48;

/// The limit below which the pause between two pieces of a slow message is drawn.
const MAX_PIECE_PAUSE_MICROS: u64 = 3_000;

/// The limit below which the delay of a stalled direction is drawn, in milliseconds.
const MAX_STALL_MILLIS: u64 = 15_000;

/// The number of bytes at the beginning of a reply that may be corrupted. These are the header, the
/// flags, the kind of the section and the length of the document. A driver cannot notice a fault in
/// later bytes, because replies have no checksum.
const CORRUPTIBLE_BYTES: usize = 25;

/// The faults of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mishaps {
    /// The time for which this message and all later ones in the same direction are delayed.
    pub stall: Option<Duration>,
    /// The other fault.
    pub fault: Option<Mishap>,
}

/// A fault of a message, apart from a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// The connection loses the message and all further bytes in both directions.
    HalfOpen,
    /// The connection breaks.
    Reset {
        /// True if the message arrives before.
        arrives: bool,
    },
    /// The connection breaks after this number of bytes.
    Truncate(usize),
    /// The bit with this number is flipped. The lowest bit of the first byte has the number 0.
    Corrupt(usize),
    /// The message arrives twice.
    Duplicate,
    /// The message arrives in small pieces.
    Slow,
}

impl Rates {
    /// Draws the faults of a message. Only replies are truncated, corrupted or duplicated.
    pub fn draw(&self, random: &mut Random, length: usize, is_reply: bool) -> Mishaps {
        let mut mishaps = Mishaps::default();
        if is_drawn(random, self.half_open) {
            mishaps.fault = Some(Mishap::HalfOpen);
            return mishaps;
        }
        if is_drawn(random, self.stall) {
            mishaps.stall = Some(Duration::from_millis(random.below(MAX_STALL_MILLIS)));
        }
        mishaps.fault = self.draw_fault(random, length, is_reply);
        mishaps
    }

    fn draw_fault(&self, random: &mut Random, length: usize, is_reply: bool) -> Option<Mishap> {
        if is_drawn(random, self.reset) {
            let arrives = random.chance(1, 2);
            return Some(Mishap::Reset { arrives });
        }
        if is_reply && is_drawn(random, self.truncate) {
            return Some(Mishap::Truncate(below(random, length + 1)));
        }
        if is_reply && is_drawn(random, self.corrupt) {
            let reach = length.min(CORRUPTIBLE_BYTES) * 8;
            return Some(Mishap::Corrupt(below(random, reach)));
        }
        if is_reply && is_drawn(random, self.duplicate) {
            return Some(Mishap::Duplicate);
        }
        is_drawn(random, self.slow).then_some(Mishap::Slow)
    }
}

/// True if a fault with this rate happens now.
pub fn is_drawn(random: &mut Random, per_mille: u16) -> bool {
    per_mille > 0 && random.chance(u64::from(per_mille), 1000)
}

/// Draws a time between two others.
pub fn latency(random: &mut Random, (least, most): (Duration, Duration)) -> Duration {
    let spread = most.saturating_sub(least).as_nanos();
    least + Duration::from_nanos(random.below(u64::try_from(spread).unwrap_or(0) + 1))
}

/// Flips a bit, which counts from the lowest bit of the first byte.
pub fn flip(bytes: &mut [u8], bit: usize) {
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

/// Cuts a slow message into small pieces. Each has the time of its arrival after that of the
/// first piece.
pub fn pieces<'a>(random: &mut Random, message: &'a [u8]) -> Vec<(Duration, &'a [u8])> {
    let most = message.len().div_ceil(MAX_PIECES).max(3);
    let (mut at, mut rest, mut pieces) = (Duration::ZERO, message, Vec::new());
    while !rest.is_empty() {
        let length = 1 + below(random, most);
        let (piece, tail) = rest.split_at(length.min(rest.len()));
        rest = tail;
        pieces.push((at, piece));
        at += Duration::from_micros(random.below(MAX_PIECE_PAUSE_MICROS));
    }
    pieces
}

fn below(random: &mut Random, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::options::world_seed;
    use std::collections::BTreeSet;

    #[test]
    fn each_rate_has_its_fault_and_requests_arrive_whole() {
        let random = &mut world_seed(1).random();
        let rates = Rates {
            half_open: 100,
            stall: 100,
            reset: 100,
            truncate: 100,
            corrupt: 100,
            duplicate: 100,
            slow: 100,
            ..Rates::default()
        };
        let mut seen = BTreeSet::new();
        for number in 0..4_000 {
            let is_reply = number % 2 == 0;
            let drawn = rates.draw(random, 10, is_reply);
            seen.extend(drawn.stall.map(|_| "stall"));
            let name = match drawn.fault {
                None => continue,
                Some(Mishap::HalfOpen) => "half-open",
                Some(Mishap::Reset { arrives: true }) => "reset after it",
                Some(Mishap::Reset { arrives: false }) => "reset",
                Some(Mishap::Truncate(length)) => {
                    assert!(is_reply && length <= 10, "{drawn:?}");
                    "truncate"
                }
                Some(Mishap::Corrupt(bit)) => {
                    assert!(is_reply && bit < 80, "{drawn:?}");
                    "corrupt"
                }
                Some(Mishap::Duplicate) => {
                    assert!(is_reply, "{drawn:?}");
                    "duplicate"
                }
                Some(Mishap::Slow) => "slow",
            };
            seen.insert(name);
        }
        assert_eq!(seen.len(), 8, "{seen:?}");
        let none = Rates::default().draw(random, 10, true);
        assert_eq!(none, Mishaps::default());
    }

    #[test]
    fn the_pieces_of_a_message_are_in_order_and_complete() {
        let random = &mut world_seed(2).random();
        for length in [0, 1, 3, 700] {
            let message: Vec<u8> = (0..length).map(|byte| (byte % 251) as u8).collect();
            let pieces = pieces(random, &message);
            assert!(pieces.is_sorted_by_key(|(at, _)| *at));
            let joined: Vec<u8> = pieces
                .iter()
                .flat_map(|(_, piece)| *piece)
                .copied()
                .collect();
            assert_eq!(joined, message);
        }
    }
}
