//! The results of operations in the replies to the command `bulkWrite`.

use super::{BulkWrite, Held, Kind};
use crate::{
    bson::integer_field,
    error::{Error, ErrorKind, IndexedWriteError, counts},
    operation::crud::merge::add_labels,
    results::{DeleteResult, InsertOneResult, UpdateResult},
};
use bson::{Bson, RawDocument, RawDocumentBuf};

/// The counts in a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// The number of failed operations.
    errors: u64,
    sums: [u64; 5],
}

impl Counts {
    /// Reads the counts of a reply. Fails if one is malformed.
    pub(super) fn of(reply: &RawDocument) -> Result<Self, Error> {
        let keys = [
            "nErrors",
            "nInserted",
            "nMatched",
            "nModified",
            "nUpserted",
            "nDeleted",
        ];
        let [errors, sums @ ..] = counts(reply, keys)?;
        Ok(Self { errors, sums })
    }
}

/// The results in a reply with a write concern error.
#[derive(Debug)]
pub(super) struct FirstResults {
    counts: Counts,
    /// The results in the reply. If its cursor was opened, the cursor gives them.
    entries: Vec<RawDocumentBuf>,
    /// True if the cursor has further results, which are lost unless it is opened.
    pub(super) has_more: bool,
}

impl FirstResults {
    /// Reads the results of a command with this number of operations, and not more results than
    /// operations. Fails if the counts or the cursor are malformed.
    pub(super) fn of(reply: &RawDocument, operations: usize) -> Result<Self, Error> {
        let invalid = || Error::protocol("the reply to the bulk write has no valid results");
        let counts = Counts::of(reply)?;
        let cursor = reply.get_document("cursor").map_err(|_| invalid())?;
        let entries = cursor.get_array("firstBatch").map_err(|_| invalid())?;
        let entries = entries.into_iter().take(operations).map(|entry| {
            let entry = entry.ok().and_then(|entry| entry.as_document());
            entry.map(ToOwned::to_owned).ok_or_else(invalid)
        });
        Ok(Self {
            counts,
            entries: entries.collect::<Result<_, _>>()?,
            has_more: integer_field(cursor, "id") != Some(0),
        })
    }

    /// Leaves the results to the cursor, which is opened.
    pub(super) fn leave_to_cursor(&mut self) {
        self.entries = Vec::new();
        self.has_more = false;
    }
}

impl<O> BulkWrite<O> {
    /// Adds the counts in the reply to a batch.
    pub(super) fn add(&mut self, counts: Counts) {
        self.batch_errors = counts.errors;
        let [inserted, matched, modified, upserted, deleted] = counts.sums;
        let sums = &mut self.result.summary;
        let add = |sum: &mut i64, n: u64| *sum = sum.saturating_add_unsigned(n);
        add(&mut sums.inserted_count, inserted);
        add(&mut sums.matched_count, matched);
        add(&mut sums.modified_count, modified);
        add(&mut sums.upserted_count, upserted);
        add(&mut sums.deleted_count, deleted);
    }

    /// Notes the result of one operation.
    pub(super) fn note(&mut self, entry: &RawDocument) -> Result<(), Error> {
        let index = integer_field(entry, "idx").and_then(|index| usize::try_from(index).ok());
        let index = index.filter(|&index| index < self.batch.documents);
        let missing = || Error::protocol("a result of the bulk write has no valid index");
        let index = index.ok_or_else(missing)? + self.done.documents;
        if integer_field(entry, "ok") != Some(1) {
            let error = IndexedWriteError::from_document(entry);
            let error = self.merged.bound_error(error);
            self.failures.write_errors.insert(index, error.into());
            return Ok(());
        }
        let [n, modified_count] = counts(entry, ["n", "nModified"])?;
        self.has_success = true;
        let results = &mut self.result;
        match self.kinds.get(index) {
            Some(Kind::Insert) => {
                if self.offsets.is_empty() {
                    self.offsets = self.operations.offsets();
                }
                let offset = self.offsets.get(index).copied();
                let id = offset.and_then(|offset| self.operations.inserted_id(offset));
                let inserted = InsertOneResult::new(id.unwrap_or(Bson::Null));
                results.insert_results.insert(index, inserted);
            }
            Some(Kind::Update) => {
                let updated = UpdateResult {
                    matched_count: n,
                    modified_count,
                    upserted_id: self.upserted.in_result(entry)?,
                    unacknowledged: false,
                };
                results.update_results.insert(index, updated);
            }
            Some(Kind::Delete) => {
                let deleted = DeleteResult {
                    deleted_count: n,
                    unacknowledged: false,
                };
                results.delete_results.insert(index, deleted);
            }
            None => {}
        }
        Ok(())
    }

    /// Adds the results and the write concern error of a reply that was held.
    pub(super) fn add_held(&mut self, held: Held<FirstResults>) -> Result<(), Error> {
        if let ErrorKind::InsertMany(fault) = held.error.kind()
            && let Some(concern) = &fault.write_concern_error
        {
            let concern = self.merged.bound_concern(concern.clone());
            self.failures.write_concern_errors.push(concern);
        }
        add_labels(&mut self.labels, held.error.labels());
        // Of a malformed reply, no success is known.
        self.batch_errors = u64::MAX;
        let first = held.results?;
        self.add(first.counts);
        first.entries.iter().try_for_each(|entry| self.note(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawArrayBuf, rawdoc};

    #[test]
    fn a_reply_has_at_most_as_many_results_as_operations() {
        let entries = RawArrayBuf::from_iter((0..1000).map(|_| rawdoc! {}));
        let reply = rawdoc! { "ok": 1, "cursor": { "id": 0_i64, "firstBatch": entries } };
        let first = FirstResults::of(&reply, 3).expect("valid");
        assert_eq!(first.entries.len(), 3);
    }

    #[test]
    fn malformed_counts_and_results_are_a_protocol_error() {
        let cursor = rawdoc! { "id": 0_i64, "firstBatch": [] };
        for reply in [
            rawdoc! { "ok": 1, "nErrors": "1", "cursor": cursor.clone() },
            rawdoc! { "ok": 1, "nErrors": -1, "cursor": cursor.clone() },
            rawdoc! { "ok": 1, "nInserted": {}, "cursor": cursor },
            rawdoc! { "ok": 1, "cursor": { "id": 0_i64, "firstBatch": [5] } },
            rawdoc! { "ok": 1, "cursor": { "id": 0_i64 } },
            rawdoc! { "ok": 1 },
        ] {
            let error = FirstResults::of(&reply, 3).expect_err("it is malformed");
            assert!(matches!(error.kind(), ErrorKind::InvalidResponse { .. }));
        }
    }
}
