//! The cache of DNS answers.

use super::{DnsAnswer, DnsQuery};
use crate::{error::Error, time::Instant};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The maximum number of answers that a [`DnsCache`] keeps. The answer that expires first makes
/// room for a new one.
pub const MAX_CACHED_ANSWERS: usize = 256;

/// The maximum time for which an answer is kept: one day, whatever its time to live.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum time for which the absence of records is remembered: 10 seconds. The name server
/// can remember it longer; the client then asks again.
pub const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(10);

/// The answers of earlier lookups, until their time to live is over.
///
/// ```
/// use onionskin_core::{dns::{DnsAnswer, DnsCache, DnsData, DnsQuery, RecordKind}, time::Instant};
/// use std::time::Duration;
///
/// let query = DnsQuery::new("db.example.net", RecordKind::A);
/// let address = DnsData::Address("10.0.0.7".parse()?);
/// let answer = DnsAnswer { records: vec![address], ttl: Some(Duration::from_secs(60)) };
///
/// let mut cache = DnsCache::default();
/// cache.insert(Instant::ZERO, query.clone(), Ok(answer), Duration::from_secs(60));
/// let later = Instant::ZERO + Duration::from_secs(20);
/// let found = cache.get(later, &query).expect("a cached answer")?;
/// assert_eq!(found.ttl, Some(Duration::from_secs(40)));
/// assert!(cache.get(later + Duration::from_secs(40), &query).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DnsCache {
    entries: BTreeMap<DnsQuery, Entry>,
    /// The expiry times of all entries, the earliest first.
    expiries: BTreeSet<(Instant, DnsQuery)>,
}

#[derive(Clone, Debug)]
struct Entry {
    result: Result<DnsAnswer, Error>,
    expires: Instant,
}

impl DnsCache {
    /// Returns the cached result of a query, with what is left of its time to live. `None` if the
    /// query has to be sent.
    pub fn get(&mut self, now: Instant, query: &DnsQuery) -> Option<Result<DnsAnswer, Error>> {
        while let Some((expires, _)) = self.expiries.first()
            && *expires <= now
            && let Some((_, expired)) = self.expiries.pop_first()
        {
            self.entries.remove(&expired);
        }
        let entry = self.entries.get(query)?;
        Some(entry.result.clone().map(|answer| DnsAnswer {
            ttl: Some(entry.expires.saturating_since(now)),
            ..answer
        }))
    }

    /// Keeps the result of a lookup for `ttl`, but not longer than [`MAX_TTL`], or for an error not
    /// longer than [`MAX_NEGATIVE_TTL`]. A `ttl` of zero keeps nothing.
    pub fn insert(
        &mut self,
        now: Instant,
        query: DnsQuery,
        result: Result<DnsAnswer, Error>,
        ttl: Duration,
    ) {
        let limit = if result.is_ok() {
            MAX_TTL
        } else {
            MAX_NEGATIVE_TTL
        };
        if let Some(old) = self.entries.remove(&query) {
            self.expiries.remove(&(old.expires, query.clone()));
        }
        if ttl.is_zero() {
            return;
        }
        if self.entries.len() >= MAX_CACHED_ANSWERS
            && let Some((_, first)) = self.expiries.pop_first()
        {
            self.entries.remove(&first);
        }
        let expires = now + ttl.min(limit);
        self.expiries.insert((expires, query.clone()));
        self.entries.insert(query, Entry { result, expires });
    }

    /// Removes all answers.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.expiries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::{DnsData, RecordKind};

    fn query(number: usize) -> DnsQuery {
        DnsQuery::new(&format!("h{number}.example.net"), RecordKind::Txt)
    }

    fn answer(text: &str) -> Result<DnsAnswer, Error> {
        Ok(DnsAnswer {
            records: vec![DnsData::Text(text.to_owned())],
            ttl: None,
        })
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_answer_that_expires_first_is_removed_from_a_full_cache() {
        let mut cache = DnsCache::default();
        for number in 0..=MAX_CACHED_ANSWERS {
            let ttl = SECOND * (2 + u32::try_from(number).expect("small") % 7);
            cache.insert(Instant::ZERO, query(number), answer("a"), ttl);
        }
        assert_eq!(cache.entries.len(), MAX_CACHED_ANSWERS);
        assert_eq!(cache.expiries.len(), MAX_CACHED_ANSWERS);
        assert!(
            cache.get(Instant::ZERO, &query(0)).is_none(),
            "expires first"
        );
        assert!(cache.get(Instant::ZERO, &query(1)).is_some());
        assert!(cache.get(Instant::ZERO + SECOND * 9, &query(1)).is_none());
        assert!(cache.entries.is_empty() && cache.expiries.is_empty());
    }

    #[test]
    fn a_newer_result_replaces_an_older_one() {
        let mut cache = DnsCache::default();
        cache.insert(Instant::ZERO, query(1), answer("old"), SECOND * 5);
        cache.insert(Instant::ZERO, query(1), answer("new"), SECOND * 9);
        let found = cache.get(Instant::ZERO + SECOND * 8, &query(1));
        let found = found.expect("a cached answer").expect("no error");
        assert_eq!(found.records, [DnsData::Text("new".to_owned())]);
        assert_eq!(found.ttl, Some(SECOND));
        cache.insert(Instant::ZERO, query(1), answer("gone"), Duration::ZERO);
        assert!(cache.get(Instant::ZERO, &query(1)).is_none());
        assert!(cache.expiries.is_empty());
    }

    #[test]
    fn an_error_is_kept_for_ten_seconds_at_most() {
        let mut cache = DnsCache::default();
        let error = Error::argument("no such name");
        cache.insert(Instant::ZERO, query(1), Err(error), MAX_TTL);
        let end = Instant::ZERO + MAX_NEGATIVE_TTL;
        let just_before = Instant::ZERO + (MAX_NEGATIVE_TTL - SECOND);
        assert!(
            cache
                .get(just_before, &query(1))
                .is_some_and(|found| found.is_err())
        );
        assert!(cache.get(end, &query(1)).is_none());
    }
}
