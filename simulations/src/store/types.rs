//! What commands say to the store, and what it answers.

use std::fmt;
use std::sync::Arc;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, Timestamp};

use super::change::Change;
use super::error::{StoreError, WriteError};

/// A collection's full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    /// The database's name, without a dot.
    pub database: String,
    /// The collection's name, which may have dots.
    pub collection: String,
}

impl Namespace {
    /// A name from its two parts.
    #[must_use]
    pub fn new(database: impl Into<String>, collection: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            collection: collection.into(),
        }
    }

    /// Splits `database.collection` at its first dot.
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

/// What a command may know about the world: the store itself has no clock and no chance.
pub struct Environment<'a> {
    /// The wall clock, for `$currentDate` and `$$NOW`.
    pub now: DateTime,
    /// The cluster's time, for `$currentDate` of type `timestamp` and `$$CLUSTER_TIME`.
    pub timestamp: Timestamp,
    /// Gives the `_id` of documents that come without one.
    pub ids: &'a mut dyn FnMut() -> ObjectId,
    /// Seeds `$sample` and `$rand`.
    pub seed: u64,
    /// The command's `let`: variables that expressions read as `$$name`.
    pub variables: Document,
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

/// A write's result, and what it changed; the changes are applied already.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Outcome<T> {
    /// What the command's reply says.
    pub result: T,
    /// What happened, in order: the matter of an oplog.
    pub changes: Vec<Change>,
}

/// The result of an insert command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InsertResult {
    /// How many documents went in, the reply's `n`.
    pub inserted: u64,
    /// What failed.
    pub errors: Vec<WriteError>,
}

/// What an update does to a document that it matches.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Operators (`$set`, ...) or, with no operator, a replacement.
    Document(Document),
    /// Stages (`$set`, `$unset`, `$replaceWith`, ...).
    Pipeline(Vec<Document>),
}

impl Update {
    /// Reads the `u` or `update` field of a command.
    ///
    /// # Errors
    ///
    /// If it is neither a document nor an array of documents.
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
}

/// One entry of an update command's `updates`.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateStatement {
    /// Which documents (`q`).
    pub filter: Document,
    /// What becomes of them (`u`).
    pub update: Update,
    /// All that match, not only the first.
    pub multi: bool,
    /// Insert one if none matches.
    pub upsert: bool,
    /// What `$[name]` in paths stands for.
    pub array_filters: Vec<Document>,
    /// Which of the matching documents is the first; natural order by default.
    pub sort: Option<Document>,
}

impl UpdateStatement {
    /// A statement that updates the first document that matches.
    #[must_use]
    pub fn one(filter: Document, update: Update) -> Self {
        Self {
            filter,
            update,
            multi: false,
            upsert: false,
            array_filters: vec![],
            sort: None,
        }
    }
}

/// The result of an update command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateResult {
    /// Documents that a filter matched, without upserts; the reply's `n` adds the upserts.
    pub matched: u64,
    /// Documents that changed, the reply's `nModified`.
    pub modified: u64,
    /// Documents that were inserted: the statement's index and the new `_id`.
    pub upserted: Vec<(usize, Bson)>,
    /// What failed.
    pub errors: Vec<WriteError>,
    /// What each statement did, until one failed in an ordered command.
    pub statements: Vec<StatementResult>,
}

/// What one statement of an update or delete did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementResult {
    /// Documents that the filter matched.
    pub matched: u64,
    /// Documents that changed or went away.
    pub modified: u64,
    /// The `_id` that an upsert gave.
    pub upserted: Option<Bson>,
}

/// One entry of a delete command's `deletes`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteStatement {
    /// Which documents (`q`).
    pub filter: Document,
    /// 0 for all, 1 for the first.
    pub limit: u32,
}

/// The result of a delete command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteResult {
    /// Documents that went away, the reply's `n`.
    pub deleted: u64,
    /// What failed.
    pub errors: Vec<WriteError>,
}

/// What `findAndModify` does to the document that it finds.
#[derive(Clone, Debug, PartialEq)]
pub enum Modification {
    /// Deletes it.
    Remove,
    /// Updates it.
    Update {
        /// How.
        update: Update,
        /// Insert one if none matches.
        upsert: bool,
        /// What `$[name]` in paths stands for.
        array_filters: Vec<Document>,
        /// Answer with the document as it is afterwards (`new`).
        return_new: bool,
    },
}

/// A `findAndModify` command.
#[derive(Clone, Debug, PartialEq)]
pub struct FindAndModify {
    /// Which documents (`query`).
    pub filter: Document,
    /// Which of them is the first.
    pub sort: Option<Document>,
    /// Which fields to answer with (`fields`).
    pub projection: Option<Document>,
    /// What to do to it.
    pub modification: Modification,
}

/// The result of `findAndModify`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindAndModifyResult {
    /// The reply's `value`.
    pub value: Option<Document>,
    /// `lastErrorObject.n`.
    pub n: u64,
    /// `lastErrorObject.updatedExisting`.
    pub updated_existing: bool,
    /// `lastErrorObject.upserted`.
    pub upserted: Option<Bson>,
}

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Find {
    /// Which documents; all if empty.
    pub filter: Document,
    /// In which order; natural order by default.
    pub sort: Option<Document>,
    /// Which fields.
    pub projection: Option<Document>,
    /// How many to leave out at the start.
    pub skip: u64,
    /// How many at most; 0 is no limit.
    pub limit: u64,
}

/// A stored document, shared rather than copied.
pub type Shared = Arc<Document>;

/// The result of `createIndexes`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateIndexesResult {
    /// `numIndexesBefore`.
    pub before: u32,
    /// `numIndexesAfter`.
    pub after: u32,
    /// `createdCollectionAutomatically`.
    pub created_collection: bool,
}

/// What `collStats` reports, in documents and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionStatistics {
    /// Documents.
    pub count: u64,
    /// The documents' bytes together.
    pub size_bytes: u64,
    /// Indexes, that of `_id` included.
    pub indexes: u32,
    /// True if the collection is capped.
    pub capped: bool,
}
