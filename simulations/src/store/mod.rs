//! The data of one member of a simulated deployment: databases, collections, documents, indexes.
//!
//! The store implements MongoDB's semantics and error codes, but not its protocol. The store is
//! deterministic: the caller passes the time, the random seed and new ids. A write returns its
//! result and the list of [`Change`]s that it made. Another member applies these changes, and a
//! rollback reverts them.

mod budget;
mod catalog;
mod change;
mod collection;
mod error;
mod expression;
mod group;
mod index;
mod indexes;
mod lookup;
mod matcher;
mod number;
mod order;
mod output;
mod path;
mod pipeline;
mod projection;
mod read;
mod replay;
mod size;
mod sort;
#[cfg(test)]
mod tests;
mod types;
mod update;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use change::Change;
pub use collection::Collection;
pub use error::{StoreError, WriteError};
pub(crate) use size::of as encoded_bytes;
pub use size::{MAX_DEPTH, MAX_DOCUMENT_BYTES};
pub use types::{
    CollectionStatistics, CreateIndexesResult, DeleteResult, DeleteStatement, Environment, Find,
    FindAndModify, FindAndModifyResult, InsertResult, Modification, Namespace, Outcome, Shared,
    StatementResult, Update, UpdateResult, UpdateStatement,
};

type Answer<T> = Result<T, StoreError>;

/// The data of one member. A clone shares the collections and documents that neither the clone nor
/// the original changes.
///
/// ```
/// use bson::{doc, oid::ObjectId, DateTime, Document, Timestamp};
/// use onionskin_simulations::store::{Environment, Find, Namespace, Store};
///
/// let mut store = Store::new();
/// let mut replica = Store::new();
/// let mut environment = Environment {
///     now: DateTime::from_millis(0),
///     timestamp: Timestamp { time: 1, increment: 1 },
///     ids: &mut || ObjectId::from_bytes([0; 12]),
///     seed: 0,
///     variables: Document::new(),
/// };
/// let namespace = Namespace::new("garden", "onions");
/// let outcome = store.insert(&namespace, vec![doc! { "_id": 1 }], true, &mut environment)?;
/// outcome.changes.iter().for_each(|change| replica.apply(change));
/// let found = replica.find(&namespace, &Find::default(), &mut environment)?;
/// assert_eq!(*found[0], doc! { "_id": 1 });
/// # Ok::<(), onionskin_simulations::store::StoreError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Store {
    databases: BTreeMap<String, BTreeMap<String, Arc<Collection>>>,
    serial: u64,
}

impl PartialEq for Store {
    /// Compares the databases. Ignores the store's `serial`, the largest serial number that a
    /// collection of this store ever got.
    fn eq(&self, other: &Self) -> bool {
        self.databases == other.databases
    }
}

impl Store {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the collection or view with the given name.
    #[must_use]
    pub fn collection(&self, namespace: &Namespace) -> Option<&Collection> {
        let database = self.databases.get(&namespace.database)?;
        database.get(&namespace.collection).map(Arc::as_ref)
    }

    fn collection_mut(&mut self, namespace: &Namespace) -> Option<&mut Collection> {
        let database = self.databases.get_mut(&namespace.database)?;
        database.get_mut(&namespace.collection).map(Arc::make_mut)
    }

    /// Applies a change that this store makes itself, and adds the change to `changes`.
    fn commit(&mut self, change: Change, changes: &mut Vec<Change>) {
        self.apply(&change);
        changes.push(change);
    }
}

impl Environment<'_> {
    fn evaluation_context(&self) -> expression::EvaluationContext {
        expression::EvaluationContext {
            now: self.now,
            timestamp: self.timestamp,
            variables: self.variables.clone(),
            random_state: std::cell::Cell::new(self.seed),
            budget: budget::Budget::default(),
        }
    }
}
