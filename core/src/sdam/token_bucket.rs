//! How much may be done at once because servers say so, before the next of it waits.

use super::MIN_HEARTBEAT_FREQUENCY;
use crate::time::Instant;
use std::time::Duration;

/// How many awaited replies of one server may come early, each less than
/// [`MIN_HEARTBEAT_FREQUENCY`] after its request or after the reply before it, before the next
/// check waits. An election changes a server a handful of times.
pub const MAX_EARLY_REPLIES: u32 = 10;

/// A token bucket, which gains one token every [`MIN_HEARTBEAT_FREQUENCY`].
///
/// The specification has no such bound: it lets a client that streams check without any wait
/// (MON-56) and check a server at once that is new (MON-12). Servers that answer awaited checks at
/// once, or name new members in each reply, would then set the pace of the client's work.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    /// When all tokens are there again.
    whole_at: Instant,
    /// How long it takes from no token to all.
    whole: Duration,
}

impl TokenBucket {
    /// A bucket that holds that many tokens, all of them.
    pub(super) const fn new(tokens: u32) -> Self {
        Self {
            whole_at: Instant::ZERO,
            whole: MIN_HEARTBEAT_FREQUENCY.saturating_mul(tokens),
        }
    }

    /// Takes a token. False if there is none: what asks for it then waits for
    /// [`MIN_HEARTBEAT_FREQUENCY`] or longer, and uses the token that comes meanwhile.
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
        // The refused reply's token is used by the check that waited.
        assert!(!token_bucket.take(at(500)));
        assert!(!token_bucket.take(at(1_499)));
        assert_eq!(taken(&mut token_bucket, at(4_000)), 5);
        assert_eq!(taken(&mut token_bucket, at(60_000)), 10);
    }

    #[test]
    fn a_clock_that_goes_back_takes_no_more_than_the_whole_allowance() {
        let mut token_bucket = TokenBucket::new(10);
        assert!(token_bucket.take(at(3_600_000)));
        assert!(!token_bucket.take(at(0)));
        assert_eq!(taken(&mut token_bucket, at(5_500)), 10);
    }
}
