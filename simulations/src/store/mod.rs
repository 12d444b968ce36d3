//! What one member of a simulated deployment holds: databases, collections, documents, indexes.
//!
//! The store speaks MongoDB's semantics and error codes, and nothing of its protocol. It is
//! deterministic: time, chance and new ids come with each call. A write answers with its result and
//! the list of [`Change`]s that it made; another member applies them, a rollback reverts them.

mod change;
mod collection;
mod error;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document};

pub use change::Change;
pub use collection::Collection;
pub use error::{StoreError, WriteError};
pub use types::{
    CollectionStatistics, CreateIndexesResult, DeleteResult, DeleteStatement, Environment, Find,
    FindAndModify, FindAndModifyResult, InsertResult, Modification, Namespace, Outcome, Shared,
    StatementResult, Update, UpdateResult, UpdateStatement,
};

type Answer<T> = Result<T, StoreError>;

/// The data of one member.
#[derive(Clone, Debug, Default)]
pub struct Store {
    databases: BTreeMap<String, BTreeMap<String, Arc<Collection>>>,
    serial: u64,
}

fn missing<T>() -> Answer<T> {
    Err(StoreError::new(1, "not built yet"))
}

#[allow(unused_variables, clippy::missing_errors_doc)]
impl Store {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Does what was done elsewhere.
    pub fn apply(&mut self, change: &Change) {}

    /// Undoes the latest change.
    pub fn revert(&mut self, change: &Change) {}

    /// Inserts documents.
    pub fn insert(
        &mut self,
        namespace: &Namespace,
        documents: Vec<Document>,
        ordered: bool,
        environment: &mut Environment<'_>,
    ) -> Answer<Outcome<InsertResult>> {
        missing()
    }

    /// Runs an update command's statements.
    pub fn update(
        &mut self,
        namespace: &Namespace,
        statements: &[UpdateStatement],
        ordered: bool,
        environment: &mut Environment<'_>,
    ) -> Answer<Outcome<UpdateResult>> {
        missing()
    }

    /// Runs a delete command's statements.
    pub fn delete(
        &mut self,
        namespace: &Namespace,
        statements: &[DeleteStatement],
        ordered: bool,
        environment: &mut Environment<'_>,
    ) -> Answer<Outcome<DeleteResult>> {
        missing()
    }

    /// Finds one document, changes it, and answers with it.
    pub fn find_and_modify(
        &mut self,
        namespace: &Namespace,
        command: &FindAndModify,
        environment: &mut Environment<'_>,
    ) -> Answer<Outcome<FindAndModifyResult>> {
        missing()
    }

    /// Runs a query.
    pub fn find(
        &self,
        namespace: &Namespace,
        find: &Find,
        environment: &mut Environment<'_>,
    ) -> Answer<Vec<Shared>> {
        missing()
    }

    /// Counts documents; a limit of 0 is none.
    pub fn count(
        &self,
        namespace: &Namespace,
        filter: &Document,
        skip: u64,
        limit: u64,
        environment: &mut Environment<'_>,
    ) -> Answer<u64> {
        missing()
    }

    /// The distinct values of a field, in order.
    pub fn distinct(
        &self,
        namespace: &Namespace,
        key: &str,
        filter: &Document,
        environment: &mut Environment<'_>,
    ) -> Answer<Vec<Bson>> {
        missing()
    }

    /// True if a pipeline ends in `$out` or `$merge`.
    #[must_use]
    pub fn pipeline_writes(pipeline: &[Document]) -> bool {
        pipeline
            .iter()
            .any(|s| s.contains_key("$out") || s.contains_key("$merge"))
    }

    /// Runs a pipeline on a collection, or on a database (`aggregate: 1`) if there is none.
    pub fn aggregate(
        &mut self,
        database: &str,
        collection: Option<&str>,
        pipeline: &[Document],
        environment: &mut Environment<'_>,
    ) -> Answer<Outcome<Vec<Shared>>> {
        missing()
    }

    /// Creates a collection (or a view) with the options of the `create` command.
    pub fn create_collection(
        &mut self,
        namespace: &Namespace,
        options: Document,
    ) -> Answer<Outcome<()>> {
        missing()
    }

    /// Changes a collection's options, as `collMod` does.
    pub fn modify_collection(
        &mut self,
        namespace: &Namespace,
        options: &Document,
    ) -> Answer<Outcome<()>> {
        missing()
    }

    /// Drops a collection; answers how many indexes it had (`nIndexesWas`), or none if there was no
    /// such collection.
    pub fn drop_collection(&mut self, namespace: &Namespace) -> Answer<Outcome<Option<u32>>> {
        missing()
    }

    /// Drops a database; answers whether there was one.
    pub fn drop_database(&mut self, database: &str) -> Answer<Outcome<bool>> {
        missing()
    }

    /// Gives a collection another name.
    pub fn rename_collection(
        &mut self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
    ) -> Answer<Outcome<()>> {
        missing()
    }

    /// The entries of `listCollections`, by name.
    pub fn list_collections(
        &self,
        database: &str,
        filter: &Document,
        name_only: bool,
    ) -> Answer<Vec<Document>> {
        missing()
    }

    /// The entries of `listDatabases`, by name.
    pub fn list_databases(&self, filter: &Document, name_only: bool) -> Answer<Vec<Document>> {
        missing()
    }

    /// Builds indexes from the entries of `createIndexes`.
    pub fn create_indexes(
        &mut self,
        namespace: &Namespace,
        indexes: &[Document],
    ) -> Answer<Outcome<CreateIndexesResult>> {
        missing()
    }

    /// Drops indexes by name, key, list of names, or `"*"`; answers how many there were
    /// (`nIndexesWas`).
    pub fn drop_indexes(&mut self, namespace: &Namespace, index: &Bson) -> Answer<Outcome<u32>> {
        missing()
    }

    /// The entries of `listIndexes`.
    pub fn list_indexes(&self, namespace: &Namespace) -> Answer<Vec<Document>> {
        missing()
    }

    /// What `collStats` reports; zeros if there is no such collection.
    #[must_use]
    pub fn statistics(&self, namespace: &Namespace) -> CollectionStatistics {
        CollectionStatistics::default()
    }

    /// True if there is such a collection or view.
    #[must_use]
    pub fn contains(&self, namespace: &Namespace) -> bool {
        false
    }
}
