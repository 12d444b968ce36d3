//! The arguments and the results of the store's commands.

use std::fmt;
use std::sync::Arc;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, Timestamp, doc};

use super::error::{StoreError, WriteError};
use super::parts::Parts;
use super::release::Release;

/// The full name of a collection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    /// The name of the database, which has no dot.
    pub database: String,
    /// The name of the collection, which may have dots.
    pub collection: String,
}

impl Namespace {
    /// Creates a name from its two parts.
    #[must_use]
    pub fn new(database: impl Into<String>, collection: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            collection: collection.into(),
        }
    }

    /// Splits `database.collection` at the first dot. Returns `None` if there is no dot or if a
    /// part is empty.
    #[must_use]
    pub fn parse(full: &str) -> Option<Self> {
        let (database, collection) = full.split_once('.')?;
        (!database.is_empty() && !collection.is_empty()).then(|| Self::new(database, collection))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

/// Time, randomness, new ids and variables for one command. The store itself has no clock and no
/// source of randomness.
pub struct Environment<'a> {
    /// The wall clock's time, for example for `$currentDate` and `$$NOW`.
    pub now: DateTime,
    /// The cluster time, for `$currentDate` of type `timestamp` and for `$$CLUSTER_TIME`.
    pub timestamp: Timestamp,
    /// Returns the `_id` for a document without one.
    pub ids: &'a mut dyn FnMut() -> ObjectId,
    /// The seed of the randomness of `$sample` and `$rand`.
    pub seed: u64,
    /// The variables of the command's `let`, which expressions read as `$$name`.
    pub variables: Document,
    /// True if the command writes documents that the validator of the collection refuses
    /// (`bypassDocumentValidation`).
    pub bypasses_validation: bool,
    /// True if empty timestamps of new documents stay as they are (`bypassEmptyTsReplacement`).
    pub keeps_empty_timestamps: bool,
    /// The largest number of steps of a query. A query that needs more fails with the error 50.
    /// `None` for the greatest limit.
    pub max_steps: Option<u64>,
    /// How a write statement is executed in parts. By default it is executed as a whole.
    pub parts: Parts,
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("now", &self.now)
            .field("timestamp", &self.timestamp)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// The result of an insert command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InsertResult {
    /// The number of inserted documents, the reply's `n`.
    pub inserted: u64,
    /// The errors of the statements that failed.
    pub errors: Vec<WriteError>,
}

impl InsertResult {
    /// Adds the result of further documents, of which the first one has this position.
    pub(crate) fn add(&mut self, first: usize, other: Self) {
        self.inserted += other.inserted;
        let errors = other.errors.into_iter().map(|error| WriteError {
            index: first + error.index,
            ..error
        });
        self.errors.extend(errors);
    }
}

/// The modification that an update makes to a matching document.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A document of update operators such as `$set`, or a replacement if it has no operator.
    Document(Document),
    /// A pipeline of stages such as `$set`, `$unset` and `$replaceWith`.
    Pipeline(Vec<Document>),
}

impl Update {
    /// Parses the field `u` or `update` of a command.
    ///
    /// # Errors
    ///
    /// If the value is neither a document nor an array of documents.
    pub fn from_bson(value: Bson) -> Result<Self, StoreError> {
        match value {
            Bson::Document(document) => Ok(Self::Document(document)),
            Bson::Array(stages) => stages
                .into_iter()
                .map(|stage| match stage {
                    Bson::Document(stage) => Ok(stage),
                    _ => Err(StoreError::type_mismatch(
                        "Each element of the 'pipeline' array must be an object",
                    )),
                })
                .collect::<Result<_, _>>()
                .map(Self::Pipeline),
            _ => Err(StoreError::failed_to_parse(
                "Update argument must be either an object or an array",
            )),
        }
    }

    /// Returns an error if this is a pipeline with a stage that is unknown to the release or that
    /// updates must not have. Such an update fails the whole command, and not only its statement.
    ///
    /// # Errors
    ///
    /// The error of the first such stage.
    pub fn check_pipeline(&self, release: Release) -> Result<(), StoreError> {
        match self {
            Self::Pipeline(stages) => super::stages::check_update(stages, release),
            Self::Document(_) => Ok(()),
        }
    }
}

/// An entry of `updates`, the list of an update command.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateStatement {
    /// The filter that selects documents (`q`).
    pub filter: Document,
    /// The modification (`u`).
    pub update: Update,
    /// True to update all matching documents, false to update the first one.
    pub multi: bool,
    /// True to insert a document if none matches.
    pub upsert: bool,
    /// The array filters, which define the elements that `$[name]` in a path means.
    pub array_filters: Vec<Document>,
    /// The sort pattern that decides which matching document is the first. The default is natural
    /// order.
    pub sort: Option<Document>,
    /// The name or the key of an index, which must exist.
    pub hint: Option<Bson>,
    /// The collation, by default that of the collection.
    pub collation: Option<Document>,
    /// The values of variables of an update by a pipeline (`c`).
    pub constants: Option<Document>,
}

impl UpdateStatement {
    /// Creates a statement that updates the first document that matches.
    #[must_use]
    pub fn one(filter: Document, update: Update) -> Self {
        Self {
            filter,
            update,
            multi: false,
            upsert: false,
            array_filters: vec![],
            sort: None,
            hint: None,
            collation: None,
            constants: None,
        }
    }

    /// Defines the constants as variables. Fails if there are constants and the update is not a
    /// pipeline.
    pub(crate) fn define_constants(
        &self,
        environment: &mut Environment<'_>,
        release: Release,
    ) -> Result<(), StoreError> {
        let Some(constants) = &self.constants else {
            return Ok(());
        };
        if let Update::Document(_) = self.update {
            let text = "Constant values may only be specified for pipeline updates";
            return Err(StoreError::new(51198, text));
        }
        let constants = constants.iter();
        let literals: Document = constants
            .map(|(name, value)| (name.clone(), Bson::from(doc! { "$literal": value.clone() })))
            .collect();
        environment.set_variables(&literals, release)
    }
}

/// The result of an update command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateResult {
    /// The number of matching documents to which the updates were applied, without upserts. The
    /// reply's `n` adds the upserts.
    pub matched: u64,
    /// The number of documents that changed, the reply's `nModified`.
    pub modified: u64,
    /// The inserted documents: the index of the statement, and the new `_id`.
    pub upserted: Vec<(usize, Bson)>,
    /// The errors of the statements that failed.
    pub errors: Vec<WriteError>,
    /// The result of each statement. In an ordered command, the statements after the first failure
    /// are missing.
    pub statements: Vec<StatementResult>,
}

/// The result of one statement of an update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementResult {
    /// The number of matching documents to which the update was applied: at most 1 without `multi`.
    pub matched: u64,
    /// The number of documents that changed.
    pub modified: u64,
    /// The `_id` of the document that an upsert inserted.
    pub upserted: Option<Bson>,
}

/// The place of a document in the natural order of a collection.
#[derive(Clone, Debug)]
pub struct Position {
    /// The serial number of the collection's creation.
    pub(crate) serial: u64,
    pub(crate) record: u64,
    pub(crate) document: Shared,
}

/// An entry of `deletes`, the list of a delete command.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteStatement {
    /// The filter that selects documents (`q`).
    pub filter: Document,
    /// The largest number of documents to delete: 1, or 0 for all that match.
    pub limit: u32,
    /// The name or the key of an index, which must exist.
    pub hint: Option<Bson>,
    /// The collation, by default that of the collection.
    pub collation: Option<Document>,
}

/// The result of a delete command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteResult {
    /// The number of deleted documents, the reply's `n`.
    pub deleted: u64,
    /// The errors of the statements that failed.
    pub errors: Vec<WriteError>,
}

/// The modification that `findAndModify` makes to the first matching document.
#[derive(Clone, Debug, PartialEq)]
pub enum Modification {
    /// Deletes the document.
    Remove,
    /// Updates the document.
    Update {
        /// The modification.
        update: Update,
        /// True to insert a document if none matches.
        upsert: bool,
        /// The array filters, which define the elements that `$[name]` in a path means.
        array_filters: Vec<Document>,
        /// True to return the document after the update (`new`), false to return it before the
        /// update.
        return_new: bool,
    },
}

/// A `findAndModify` command.
#[derive(Clone, Debug, PartialEq)]
pub struct FindAndModify {
    /// The filter that selects documents (`query`).
    pub filter: Document,
    /// The sort pattern that decides which matching document is the first.
    pub sort: Option<Document>,
    /// The projection of the returned document (`fields`).
    pub projection: Option<Document>,
    /// The modification of the document.
    pub modification: Modification,
    /// The collation, by default that of the collection.
    pub collation: Option<Document>,
}

/// The result of `findAndModify`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindAndModifyResult {
    /// The document before or after the modification, the reply's `value`.
    pub value: Option<Document>,
    /// 1 if a document matched or was inserted, otherwise 0, the reply's `lastErrorObject.n`.
    pub n: u64,
    /// True if the update was applied to an existing document, the reply's
    /// `lastErrorObject.updatedExisting`.
    pub updated_existing: bool,
    /// The `_id` of an inserted document, the reply's `lastErrorObject.upserted`.
    pub upserted: Option<Bson>,
}

/// A query, with the options of the `find` command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Find {
    /// The filter that selects documents. An empty filter matches all.
    pub filter: Document,
    /// The sort pattern. The default is natural order.
    pub sort: Option<Document>,
    /// The projection of the returned documents.
    pub projection: Option<Document>,
    /// The number of documents to skip at the start.
    pub skip: u64,
    /// The largest number of documents to return. 0 means no limit.
    pub limit: u64,
    /// The name or the key of an index. Without a sort pattern, the documents come in the order of
    /// this index.
    pub hint: Option<Bson>,
    /// The smallest key in the index of the hint.
    pub min: Option<Document>,
    /// The key in the index of the hint below which all returned documents are.
    pub max: Option<Document>,
    /// True to return only the fields of the index of the hint.
    pub return_key: bool,
    /// True to add the record number as `$recordId`.
    pub show_record_id: bool,
    /// The collation, by default that of the collection.
    pub collation: Option<Document>,
}

/// A document, stored or computed. Clones share its memory.
pub type Shared = Arc<Document>;

/// The result of `createIndexes`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateIndexesResult {
    /// The number of indexes before the command, the reply's `numIndexesBefore`.
    pub before: u32,
    /// The number of indexes after the command, the reply's `numIndexesAfter`.
    pub after: u32,
    /// True if the command created the collection, the reply's `createdCollectionAutomatically`.
    pub created_collection: bool,
}

/// The statistics of a collection that `collStats` reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionStatistics {
    /// The number of documents.
    pub count: u64,
    /// The size of all documents together, in bytes.
    pub size_bytes: u64,
    /// The number of indexes, that of `_id` included.
    pub indexes: u32,
    /// True if the collection is capped.
    pub capped: bool,
    /// The largest number of documents of a capped collection, 0 for any number.
    pub max_count: u64,
    /// The largest size of all documents of a capped collection together, in bytes.
    pub max_size_bytes: u64,
}

impl CollectionStatistics {
    /// Returns the fields of `collStats`, with sizes in units of `scale` bytes.
    pub(crate) fn scaled(&self, scale: i64) -> Document {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let units = |bytes: u64| number(bytes).checked_div(scale).unwrap_or(0);
        let mut fields = doc! {
            "count": number(self.count), "size": units(self.size_bytes),
            "storageSize": units(self.size_bytes), "nindexes": self.indexes,
            "capped": self.capped,
        };
        if self.capped {
            let (max, size) = (number(self.max_count), units(self.max_size_bytes));
            fields.extend(doc! { "max": max, "maxSize": size });
        }
        fields.insert("scaleFactor", i32::try_from(scale).unwrap_or(i32::MAX));
        fields
    }
}
