//! Commands of the CRUD helpers, and the results in their replies.

mod aggregate;
mod bulk;
mod change_event;
mod find_and_modify;
mod held;
mod insert;
mod merge;
mod names;
mod namespace;
mod options;
mod read;
mod results;
mod schema;
mod search;
mod stored;
mod upserted;
mod watch;
mod write;

pub use aggregate::{aggregate, aggregate_database};
pub use bulk::{
    BulkWrite, CollectionBulkWrite, DeleteManyModel, DeleteManyModelBuilder, DeleteOneModel,
    DeleteOneModelBuilder, EncodedModels, InsertOneModel, InsertOneModelBuilder, ReplaceOneModel,
    ReplaceOneModelBuilder, UpdateManyModel, UpdateManyModelBuilder, UpdateOneModel,
    UpdateOneModelBuilder, WriteModel,
};
pub use change_event::{
    ChangeNamespace, ChangeNamespaceType, ChangeStreamEvent, OperationType, ResumeToken,
    TruncatedArray, UpdateDescription,
};
pub use find_and_modify::{
    find_one_and_delete, find_one_and_replace, find_one_and_update, found_document,
};
pub use insert::InsertMany;
pub use names::{Names, is_missing_namespace};
pub use namespace::Namespace;
pub use options::*;
pub use read::{
    count_documents, count_from_reply, decode_first, distinct, estimated_document_count, find,
    find_one, first_document, number_in, values_from_reply,
};
pub use results::{
    CollectionSpecification, CollectionSpecificationInfo, CollectionType, CreateIndexResult,
    CreateIndexesResult, DatabaseSpecification, databases_from_reply,
};
pub use schema::{
    IndexModel, IndexModelBuilder, Listed, create_collection, create_indexes, drop_collection,
    drop_database, drop_indexes, list_collections, list_databases, list_indexes, rename_collection,
};
pub use search::{
    SearchIndexModel, SearchIndexModelBuilder, SearchIndexType, create_search_indexes,
    created_search_indexes, drop_search_index, list_search_indexes, update_search_index,
};
pub(crate) use watch::Position;
pub use watch::Watch;
pub use write::{delete, encode_insert, encode_replacement, insert, replace, update};

use crate::error::Error;
pub use crate::results::{
    BulkWriteResult, DeleteResult, InsertManyResult, InsertOneResult, SummaryBulkWriteResult,
    UpdateResult, VerboseBulkWriteResult,
};
use std::sync::Arc;

/// The names of a database and of one of its collections, shared by the handles and operations of
/// the collection. Applications use [`Namespace`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedNamespace {
    pub(crate) database: Arc<str>,
    pub(crate) collection: Arc<str>,
}

impl SharedNamespace {
    /// Returns the namespace of `database` and `collection`. Fails if a name is empty or contains a
    /// zero byte, which no server accepts.
    pub fn new(
        database: impl Into<Arc<str>>,
        collection: impl Into<Arc<str>>,
    ) -> Result<Self, Error> {
        let namespace = Self::unchecked(database.into(), collection.into());
        namespace.check()?;
        Ok(namespace)
    }

    /// Returns the namespace of these names, which nothing has checked.
    #[must_use]
    pub const fn unchecked(database: Arc<str>, collection: Arc<str>) -> Self {
        Self {
            database,
            collection,
        }
    }

    /// Fails like [`new`](Self::new).
    pub fn check(&self) -> Result<(), Error> {
        check_database_name(&self.database)?;
        check_collection_name(&self.collection)
    }

    /// Returns the name of the database.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Returns the name of the collection.
    #[must_use]
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Returns the name of the database to share.
    #[must_use]
    pub const fn shared_database(&self) -> &Arc<str> {
        &self.database
    }
}

/// The empty namespace, which no call accepts. It is the start of a builder.
impl Default for SharedNamespace {
    fn default() -> Self {
        Self::unchecked("".into(), "".into())
    }
}

impl std::fmt::Display for SharedNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

/// Fails if the name of a database is empty, or if it contains a zero byte or a dot. In a full name
/// such as `a.b.c`, the first dot ends the name of the database.
pub fn check_database_name(name: &str) -> Result<(), Error> {
    check_name("database", name)?;
    if name.contains('.') {
        let message = format!("the name of a database must not contain a dot: {name:?}");
        return Err(Error::argument(message));
    }
    Ok(())
}

/// Fails if the name of a collection is empty or contains a zero byte.
pub(crate) fn check_collection_name(name: &str) -> Result<(), Error> {
    check_name("collection", name)
}

fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::argument(format!("the name of a {what} is empty")));
    }
    if name.contains('\0') {
        return Err(Error::argument(format!(
            "the name of a {what} contains a NUL byte"
        )));
    }
    Ok(())
}
