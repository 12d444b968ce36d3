//! The results of writes.

use bson::Bson;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// The result of an insert of one document.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsertOneResult {
    /// The `_id` of the document. The client generates one if the document has none.
    pub inserted_id: Bson,
    #[serde(skip)]
    pub(crate) unacknowledged: bool,
}

/// The result of an insert of several documents.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsertManyResult {
    /// The `_id` of each inserted document, by its index in the caller's list.
    pub inserted_ids: BTreeMap<usize, Bson>,
    #[serde(skip)]
    pub(crate) unacknowledged: bool,
}

/// The result of an update.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateResult {
    /// The number of documents that matched the filter, without an upserted one. With an upserted
    /// one in a [`VerboseBulkWriteResult`], as the server counts there (CRUD unified tests,
    /// *client-bulkWrite-results*).
    pub matched_count: u64,
    /// The number of documents that were changed.
    pub modified_count: u64,
    /// The `_id` of the document that an upsert inserted; `None` if no document was inserted.
    pub upserted_id: Option<Bson>,
    #[serde(skip)]
    pub(crate) unacknowledged: bool,
}

/// The result of a delete.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeleteResult {
    /// The number of documents that were deleted.
    pub deleted_count: u64,
    #[serde(skip)]
    pub(crate) unacknowledged: bool,
}

impl InsertOneResult {
    /// Returns the result of an insert of the document with this `_id`.
    ///
    /// ```
    /// use bson::Bson;
    /// use onionskin_core::operation::crud::InsertOneResult;
    ///
    /// // For a test double of the application.
    /// let result = InsertOneResult::new(Bson::from(7));
    /// assert_eq!(result.inserted_id, Bson::from(7));
    /// ```
    #[must_use]
    pub const fn new(inserted_id: Bson) -> Self {
        Self {
            inserted_id,
            unacknowledged: false,
        }
    }
}

impl InsertManyResult {
    /// Returns the result of an insert of documents with these `_id`s, by their index in the
    /// caller's list.
    ///
    /// ```
    /// use bson::Bson;
    /// use onionskin_core::operation::crud::InsertManyResult;
    ///
    /// // For a test double of the application.
    /// let result = InsertManyResult::new([(0, Bson::from(7))].into());
    /// assert_eq!(result.inserted_ids.len(), 1);
    /// ```
    #[must_use]
    pub const fn new(inserted_ids: BTreeMap<usize, Bson>) -> Self {
        Self {
            inserted_ids,
            unacknowledged: false,
        }
    }
}

/// The sums of a bulk write (Bulk Write Specification, *Result*).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SummaryBulkWriteResult {
    /// The number of documents that were inserted.
    pub inserted_count: i64,
    /// The number of documents that matched the filters of updates, without upserted ones.
    pub matched_count: i64,
    /// The number of documents that updates changed.
    pub modified_count: i64,
    /// The number of documents that upserts inserted.
    pub upserted_count: i64,
    /// The number of documents that were deleted.
    pub deleted_count: i64,
    #[serde(skip)]
    pub(crate) unacknowledged: bool,
}

/// The sums of a bulk write, and the result of each operation by its index in the caller's list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VerboseBulkWriteResult {
    /// The sums.
    #[serde(flatten)]
    pub summary: SummaryBulkWriteResult,
    /// The results of the inserts that succeeded.
    pub insert_results: BTreeMap<usize, InsertOneResult>,
    /// The results of the updates and replacements that succeeded.
    pub update_results: BTreeMap<usize, UpdateResult>,
    /// The results of the deletes that succeeded.
    pub delete_results: BTreeMap<usize, DeleteResult>,
}

/// The result of the bulk write of a collection (CRUD, *Write Results*).
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BulkWriteResult {
    /// The number of documents that were inserted.
    pub inserted_count: u64,
    /// The `_id` of each inserted document, by the index of its operation. With an unacknowledged
    /// write concern these are the documents that were sent.
    pub inserted_ids: BTreeMap<usize, Bson>,
    /// The number of documents that matched the filters of updates, without upserted ones.
    pub matched_count: u64,
    /// The number of documents that updates changed.
    pub modified_count: u64,
    /// The number of documents that were deleted.
    pub deleted_count: u64,
    /// The number of documents that upserts inserted.
    pub upserted_count: u64,
    /// The `_id` of each upserted document, by the index of its operation.
    pub upserted_ids: BTreeMap<usize, Bson>,
    #[serde(skip)]
    pub(crate) unacknowledged: bool,
}

impl From<VerboseBulkWriteResult> for SummaryBulkWriteResult {
    fn from(result: VerboseBulkWriteResult) -> Self {
        result.summary
    }
}

/// Declares for each of these results, with its public fields, whether its write was acknowledged.
macro_rules! acknowledged {
    ($($result:ident { $($field:ident),* })*) => {$(
        impl $result {
            /// False if the write concern was unacknowledged (`w: 0`). Then the server sent no
            /// reply: the counts are zero, and the write may have had no effect (CRUD, *Write
            /// Results*).
            ///
            /// ```
            /// use bson::Bson;
            /// use onionskin_core::operation::crud::InsertOneResult;
            ///
            /// assert!(InsertOneResult::new(Bson::from(7)).is_acknowledged());
            /// ```
            #[must_use]
            pub const fn is_acknowledged(&self) -> bool {
                !self.unacknowledged
            }
        }

        /// Shows the public fields, and whether the write was unacknowledged if it was.
        impl fmt::Debug for $result {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Self { $($field,)* unacknowledged } = self;
                let mut shown = f.debug_struct(stringify!($result));
                $(shown.field(stringify!($field), $field);)*
                if *unacknowledged {
                    shown.field("is_acknowledged", &false);
                }
                shown.finish()
            }
        }
    )*};
}

acknowledged! {
    InsertOneResult { inserted_id }
    InsertManyResult { inserted_ids }
    UpdateResult { matched_count, modified_count, upserted_id }
    DeleteResult { deleted_count }
    SummaryBulkWriteResult {
        inserted_count, matched_count, modified_count, upserted_count, deleted_count
    }
    BulkWriteResult {
        inserted_count, inserted_ids, matched_count, modified_count, deleted_count, upserted_count,
        upserted_ids
    }
}
