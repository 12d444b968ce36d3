//! Documents whose time to live has ended.

use bson::DateTime;

use super::collection::Collection;
use super::number;
use super::{Answer, Store};

/// The most documents that one pass deletes, so that its oplog entry stays small. The next pass
/// deletes the others.
const MAX_DELETES: usize = 50_000;

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

    /// Deletes the documents whose time to live has ended, as far as one pass deletes.
    ///
    /// # Errors
    ///
    /// If a change does not fit the data, which is a defect.
    pub(crate) fn expire(&mut self, now: DateTime) -> Answer<()> {
        let mut expired = Vec::new();
        for (namespace, collection) in self.collections() {
            let left = MAX_DELETES - expired.len();
            let records = expired_in(collection, now).into_iter().take(left);
            expired.extend(records.map(|record| (namespace.clone(), record)));
        }
        for (namespace, record) in expired {
            let collection = self.collection(&namespace);
            if let Some(document) = collection.and_then(|c| c.records.get(&record).cloned()) {
                self.remove(&namespace, record, document)?;
            }
        }
        Ok(())
    }
}

/// Returns the numbers of the records whose time to live has ended.
fn expired_in(collection: &Collection, now: DateTime) -> std::collections::BTreeSet<u64> {
    let last = |options: &bson::Document| {
        let seconds = number::truncated(options.get("expireAfterSeconds")?)?;
        let millis = seconds.checked_mul(1000)?;
        let last = now.timestamp_millis().checked_sub(millis)?;
        Some(DateTime::from_millis(last))
    };
    let mut expired = std::collections::BTreeSet::new();
    if let Some(last) = last(&collection.options) {
        match collection.time_series() {
            Some(_) => expired.extend(collection.timed(last)),
            None => expired.extend(collection.dated(last)),
        }
    }
    for index in &collection.indexes {
        if let Some(last) = last(&index.specification) {
            expired.extend(index.dated(last));
        }
    }
    expired
}
