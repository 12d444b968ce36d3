//! The cache of OCSP responses.

use crate::tls::{CertId, OcspStatement, RevocationStatus, StatusSource, Verdict};
use std::collections::BTreeMap;

/// The maximum number of entries. A client needs one for each server.
const MAX_ENTRIES: usize = 1000;

/// The responses that state whether a certificate was revoked (OCSP-31, OCSP-32).
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: BTreeMap<CertId, Entry>,
}

#[derive(Debug)]
struct Entry {
    is_revoked: bool,
    /// The time of the response, in seconds since 1970.
    this_update: u64,
    /// The time from which the response is used, in seconds since 1970.
    valid_from: u64,
    /// The time at which the response is no longer valid, in seconds since 1970.
    next_update: u64,
}

impl Cache {
    /// Returns the status of a certificate at `now`, in seconds since 1970; `None` if the cache
    /// has no valid response (OCSP-33).
    pub(super) fn find(&self, id: &CertId, now: u64) -> Option<RevocationStatus> {
        let entry = self.entries.get(id)?;
        if now < entry.valid_from || now >= entry.next_update {
            return None;
        }
        Some(match entry.is_revoked {
            true => RevocationStatus::Revoked(StatusSource::Cache),
            false => RevocationStatus::Good(StatusSource::Cache),
        })
    }

    /// Keeps a response, unless it states no status or does not state until when it is valid
    /// (OCSP-32). A response that states that a certificate is good does not replace one that is
    /// valid for longer (OCSP-34), or one that is not older and states that it was revoked. A
    /// response that is not kept can still contradict an earlier one, which is then removed.
    pub(super) fn keep(&mut self, id: &CertId, answer: &OcspStatement, now: u64) {
        let is_revoked = match answer.verdict {
            Verdict::Good => false,
            Verdict::Revoked => true,
            Verdict::Unknown => return,
        };
        let earlier = self.entries.get(id);
        let Some(next_update) = answer.next_update else {
            let is_refuted = |earlier: &Entry| match earlier.is_revoked {
                true => !is_revoked && earlier.this_update < answer.this_update,
                false => is_revoked,
            };
            if earlier.is_some_and(is_refuted) {
                self.entries.remove(id);
            }
            return;
        };
        let is_worse = |earlier: &Entry| match earlier.is_revoked {
            true => earlier.this_update >= answer.this_update,
            false => earlier.next_update >= next_update,
        };
        if !is_revoked && earlier.is_some_and(is_worse) {
            return;
        }
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.retain(|_, entry| entry.next_update > now);
        }
        if self.entries.len() >= MAX_ENTRIES {
            // All entries are valid. The one that ends first is replaced.
            let first = self
                .entries
                .iter()
                .min_by_key(|(_, entry)| entry.next_update);
            if let Some(id) = first.map(|(id, _)| id.clone()) {
                self.entries.remove(&id);
            }
        }
        let entry = Entry {
            is_revoked,
            this_update: answer.this_update,
            // A response from the near future is valid, because clocks differ.
            valid_from: answer.this_update.min(now),
            next_update,
        };
        self.entries.insert(id.clone(), entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::{Authority, revocation::Issued};

    fn answer(verdict: Verdict, this_update: u64, next_update: Option<u64>) -> OcspStatement {
        OcspStatement {
            verdict,
            this_update,
            next_update,
        }
    }

    #[test]
    fn only_conclusive_responses_are_kept_until_their_next_update() {
        // OCSP-31, OCSP-32, OCSP-33.
        let authority = Authority::new();
        let [one, other] = [0, 1].map(|_| Issued::new(&authority, &[], false).id(&authority));
        let mut cache = Cache::default();
        cache.keep(&one, &answer(Verdict::Unknown, 10, Some(20)), 15);
        cache.keep(&one, &answer(Verdict::Good, 10, None), 15);
        assert_eq!(cache.find(&one, 15), None);
        cache.keep(&one, &answer(Verdict::Good, 10, Some(20)), 15);
        let good = Some(RevocationStatus::Good(StatusSource::Cache));
        for (now, expected) in [(9, None), (10, good), (19, good), (20, None)] {
            assert_eq!(cache.find(&one, now), expected, "{now}");
        }
        assert_eq!(cache.find(&other, 15), None);
        // A response whose time is a little ahead of the clock is used at once.
        cache.keep(&other, &answer(Verdict::Good, 18, Some(30)), 15);
        assert_eq!(cache.find(&other, 15), good);
    }

    #[test]
    fn a_later_or_worse_response_replaces_an_earlier_one() {
        // OCSP-34.
        let authority = Authority::new();
        let id = Issued::new(&authority, &[], false).id(&authority);
        let mut cache = Cache::default();
        cache.keep(&id, &answer(Verdict::Good, 10, Some(30)), 15);
        cache.keep(&id, &answer(Verdict::Good, 12, Some(20)), 15);
        let good = Some(RevocationStatus::Good(StatusSource::Cache));
        assert_eq!(cache.find(&id, 25), good);
        cache.keep(&id, &answer(Verdict::Good, 12, Some(40)), 15);
        assert_eq!(cache.find(&id, 35), good);
        cache.keep(&id, &answer(Verdict::Revoked, 12, Some(20)), 15);
        let revoked = Some(RevocationStatus::Revoked(StatusSource::Cache));
        assert_eq!(cache.find(&id, 15), revoked);
        cache.keep(&id, &answer(Verdict::Good, 12, Some(50)), 15);
        assert_eq!(cache.find(&id, 15), revoked);
        cache.keep(&id, &answer(Verdict::Good, 13, Some(18)), 15);
        assert_eq!(cache.find(&id, 15), good);
    }

    #[test]
    fn a_response_without_an_end_removes_an_earlier_one_that_it_contradicts() {
        // OCSP-32, OCSP-34.
        let authority = Authority::new();
        let id = Issued::new(&authority, &[], false).id(&authority);
        for (first, second, this_update, is_removed) in [
            (Verdict::Good, Verdict::Revoked, 9, true),
            (Verdict::Good, Verdict::Good, 11, false),
            (Verdict::Good, Verdict::Unknown, 11, false),
            (Verdict::Revoked, Verdict::Good, 11, true),
            (Verdict::Revoked, Verdict::Good, 10, false),
            (Verdict::Revoked, Verdict::Revoked, 11, false),
        ] {
            let mut cache = Cache::default();
            cache.keep(&id, &answer(first, 10, Some(30)), 15);
            cache.keep(&id, &answer(second, this_update, None), 15);
            let is_found = cache.find(&id, 15).is_some();
            assert_eq!(is_found, !is_removed, "{first:?} {second:?} {this_update}");
        }
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let authority = Authority::new();
        let id = Issued::new(&authority, &[], false).id(&authority);
        let mut cache = Cache::default();
        let ids = (0..MAX_ENTRIES + 10).map(|n| id.with_serial(n));
        for (n, id) in ids.clone().enumerate() {
            cache.keep(&id, &answer(Verdict::Good, 0, Some(n as u64 + 100)), 1);
        }
        assert_eq!(cache.entries.len(), MAX_ENTRIES);
        let found = ids.map(|id| cache.find(&id, 1).is_some());
        assert_eq!(
            found.take_while(|found| !found).count(),
            10,
            "the first to end"
        );
    }
}
