//! Documents whose time to live has ended.

use std::collections::BTreeSet;

use bson::{DateTime, Document};

use super::collection::Collection;
use super::number;
use super::parts::Parts;
use super::{Answer, Store};

/// The most documents that one pass deletes as a whole, so that its oplog entry stays small. The
/// next pass deletes the others.
const MAX_DELETES: usize = 50_000;

/// The most documents that a part of a pass deletes.
const MAX_DELETES_OF_PART: usize = 250;

impl Store {
    /// True if documents of a collection have a time to live.
    pub(crate) fn has_expiry(&self) -> bool {
        self.collections().any(|(_, collection)| {
            collection.options.contains_key("expireAfterSeconds")
                || collection
                    .indexes
                    .iter()
                    .any(|index| index.specification.contains_key("expireAfterSeconds"))
        })
    }

    /// Deletes the documents whose time to live has ended, as far as one pass deletes, or as a part
    /// of a pass does. Returns true if none is left.
    ///
    /// # Errors
    ///
    /// If a change does not fit the data, which is a defect.
    pub(crate) fn expire(&mut self, now: DateTime, parts: &Parts) -> Answer<bool> {
        let most = parts
            .pause_after
            .map_or(MAX_DELETES, |_| MAX_DELETES_OF_PART);
        let mut expired = Vec::new();
        for (namespace, collection) in self.collections() {
            let left = most - expired.len();
            let records = expired_in(collection, now, left).into_iter();
            expired.extend(records.map(|record| (namespace.clone(), record)));
        }
        let is_last = expired.len() < most;
        for (namespace, record) in expired {
            if parts.is_over() {
                return Ok(false);
            }
            let collection = self.collection(&namespace);
            if let Some(document) = collection.and_then(|c| c.records.get(&record).cloned()) {
                parts.count_change(collection, &document);
                self.remove(&namespace, record, document)?;
            }
        }
        Ok(is_last)
    }
}

/// Returns the numbers of at most `most` records whose time to live has ended.
fn expired_in(collection: &Collection, now: DateTime, most: usize) -> BTreeSet<u64> {
    let last = |options: &Document| {
        let seconds = number::truncated(options.get("expireAfterSeconds")?)?;
        let millis = seconds.checked_mul(1000)?;
        let last = now.timestamp_millis().checked_sub(millis)?;
        Some(DateTime::from_millis(last))
    };
    let mut expired = BTreeSet::new();
    if let Some(last) = last(&collection.options) {
        match collection.time_series() {
            Some(_) => add(&mut expired, collection.timed(last), most),
            None => add(&mut expired, collection.dated(last), most),
        }
    }
    for index in &collection.indexes {
        if let Some(last) = last(&index.specification) {
            add(&mut expired, index.dated(last), most);
        }
    }
    expired
}

/// Adds records until there are `most`.
fn add(expired: &mut BTreeSet<u64>, mut records: impl Iterator<Item = u64>, most: usize) {
    while expired.len() < most
        && let Some(record) = records.next()
    {
        expired.insert(record);
    }
}
