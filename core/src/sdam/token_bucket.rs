//! A limit on the checks that begin without a wait because of a server's replies.

use super::MIN_HEARTBEAT_FREQUENCY;
use crate::time::Instant;
use std::time::Duration;

/// The number of early replies to awaited checks that one server can send in a burst without a
/// delay of its checks. After a further one, the next check waits. A reply is early if it arrives
/// less than [`MIN_HEARTBEAT_FREQUENCY`] after its request or, in a stream, after the reply before
/// it. An election causes only a few early replies.
pub const MAX_EARLY_REPLIES: u32 = 10;

/// A token bucket that gains one token every [`MIN_HEARTBEAT_FREQUENCY`].
///
/// The specification does not limit the checks that begin without a wait: after an awaited reply
/// (MON-56), and of a new server (MON-12). Without a limit, a server that answers awaited checks at
/// once, or that names new members in each reply, would decide how much work the client does.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    /// The time at which the bucket is full if no token is taken before.
    whole_at: Instant,
    /// The time in which an empty bucket becomes full.
    whole: Duration,
}

impl TokenBucket {
    /// Returns a full bucket with that many tokens.
    pub(super) const fn new(tokens: u32) -> Self {
        Self {
            whole_at: Instant::ZERO,
            whole: MIN_HEARTBEAT_FREQUENCY.saturating_mul(tokens),
        }
    }

    /// Takes a token and returns true, or returns false if there is none. A refused call uses up
    /// the next token, so the caller may begin its check [`MIN_HEARTBEAT_FREQUENCY`] later without
    /// another call.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let missing = (self.whole_at - now).min(self.whole);
        let used = missing + MIN_HEARTBEAT_FREQUENCY;
        self.whole_at = now + used;
        used <= self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn taken(token_bucket: &mut TokenBucket, now: Instant) -> usize {
        (0..100).take_while(|_| token_bucket.take(now)).count()
    }

    #[test]
    fn a_burst_is_granted_and_then_one_token_for_each_500_ms() {
        let mut token_bucket = TokenBucket::new(10);
        assert_eq!(taken(&mut token_bucket, at(0)), 10);
        // The eleventh call at 0 ms was refused, and used the token that arrived at 500 ms.
        assert!(!token_bucket.take(at(500)));
        assert!(!token_bucket.take(at(1_499)));
        assert_eq!(taken(&mut token_bucket, at(4_000)), 5);
        assert_eq!(taken(&mut token_bucket, at(60_000)), 10);
    }

    #[test]
    fn a_backward_clock_jump_removes_at_most_all_tokens() {
        let mut token_bucket = TokenBucket::new(10);
        assert!(token_bucket.take(at(3_600_000)));
        assert!(!token_bucket.take(at(0)));
        assert_eq!(taken(&mut token_bucket, at(5_500)), 10);
    }
}
