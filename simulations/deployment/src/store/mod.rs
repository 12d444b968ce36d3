//! The data of one member of a simulated deployment: databases, collections, documents, indexes.
//!
//! The store implements MongoDB's semantics and error codes, but not its protocol. The store is
//! deterministic: the caller passes the time, the random seed and new ids. The store keeps the
//! [`Change`]s of the running command, also if the command fails, until the caller takes them
//! ([`Store::take_changes`]) or undoes them. Another member applies these changes, and a rollback
//! reverts them.

mod angles;
mod bucket;
mod budget;
mod built;
mod catalog;
mod change;
mod chunks;
mod claims;
mod collation;
mod collection;
mod collection_options;
mod decimal;
mod error;
mod error_codes;
mod exact;
mod executor;
mod expiry;
mod expression;
mod group;
mod hint;
mod index;
mod index_geo;
mod index_key;
mod index_options;
mod index_signature;
mod index_text;
mod indexes;
mod keys;
mod lookup;
mod matcher;
mod merge;
mod names;
mod number;
mod operands;
mod order;
mod output;
mod outputs;
mod parts;
mod path;
mod pattern;
mod pending;
mod pipeline;
mod projection;
mod query;
mod queue;
mod read;
mod redact;
mod release;
mod replay;
mod series;
mod size;
mod slices;
mod sort;
mod sources;
mod stages;
mod stamp;
#[cfg(test)]
mod tests;
mod time_series;
mod types;
mod update;
mod validation;
mod views;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::garbage::{Dropped, Garbage};
use bson::Document;
use budget::Budget;
use collation::Collation;

pub use built::BuiltIndex;
pub(crate) use built::BuiltIndexes;
pub(crate) use catalog::matching;
pub use change::{Change, OperatorPath, Origin, UpdateStyle};
pub(crate) use claims::Claims;
pub use collection::Collection;
pub use error::{StoreError, WriteError};
pub(crate) use error_codes::code_name;
pub(crate) use index_options::{in_specification, without_unknown_options};
pub(crate) use merge::{Merge, namespaces};
pub(crate) use names::SYSTEM_DATABASES;
pub(crate) use order::{display_document as display, identical_documents as identical};
pub(crate) use output::target as output_target;
pub(crate) use outputs::Outputs;
pub use parts::Parts;
pub(crate) use parts::{Records, SEARCH_AGAIN, Target};
pub(crate) use query::{Found, Query};
pub use release::Release;
pub use replay::Unapplied;
pub(crate) use size::of as encoded_bytes;
pub use size::{MAX_DEPTH, MAX_DOCUMENT_BYTES};
pub(crate) use slices::Slices;
pub(crate) use stages::{GIVEN, unrecognized};
pub(crate) use time_series::BUCKETS;
pub use types::{
    CollectionStatistics, CreateIndexesResult, DeleteResult, DeleteStatement, Environment, Find,
    FindAndModify, FindAndModifyResult, InsertResult, Modification, Namespace, Position, Shared,
    StatementResult, Update, UpdateResult, UpdateStatement,
};
pub(crate) use watch::{
    BeforeChange, Focus, FullDocument, Record, Room, Scope, Token, Watch, change_stream,
};
#[cfg(test)]
pub(crate) use {
    expression::OPERATORS as EXPRESSIONS,
    release::Name,
    stages::{Place, STAGES},
    update::OPERATORS as UPDATES,
};

type Answer<T> = Result<T, StoreError>;

/// The data of one member. A clone shares the collections and documents that neither the clone nor
/// the original changes.
///
/// ```
/// use bson::{doc, oid::ObjectId, DateTime, Document, Timestamp};
/// use onionskin_deployment::store::{Environment, Find, Namespace, Parts, Store};
///
/// let mut store = Store::new();
/// let mut replica = Store::new();
/// let mut environment = Environment {
///     now: DateTime::from_millis(0),
///     timestamp: Timestamp { time: 1, increment: 1 },
///     ids: &mut || ObjectId::from_bytes([0; 12]),
///     seed: 0,
///     variables: Document::new(),
///     bypasses_validation: false,
///     keeps_empty_timestamps: false,
///     max_steps: None,
///     parts: Parts::default(),
/// };
/// let namespace = Namespace::new("garden", "onions");
/// store.insert(&namespace, vec![doc! { "_id": 1 }], true, &mut environment)?;
/// for change in store.take_changes() {
///     replica.apply(&change).expect("the stores were equal");
/// }
/// let found = replica.find(&namespace, &Find::default(), &mut environment)?;
/// assert_eq!(*found[0], doc! { "_id": 1 });
/// # Ok::<(), onionskin_deployment::store::StoreError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Store {
    data: Data,
    /// The changes of the running command, in the order in which they were made.
    pending: Vec<Change>,
    /// The largest memory of the data and its indexes that commands may reach, in bytes. `None` for
    /// no limit.
    limit: Option<usize>,
    /// The release that the server claims. Commands can use the operators and stages that it has.
    release: Release,
}

/// The databases, which only [`Change`]s change.
#[derive(Clone, Debug, Default)]
struct Data {
    databases: BTreeMap<String, BTreeMap<String, Arc<Collection>>>,
    /// The memory of all collections in bytes, as [`Collection::memory`] counts it.
    bytes: usize,
    /// The largest serial number that a collection of this store ever got.
    serial: u64,
    /// The collections and indexes that were dropped, if they are freed by a job.
    garbage: Garbage,
}

impl PartialEq for Store {
    /// Compares the databases. Ignores the serial number of the next collection, and whether the
    /// changes of a command were taken.
    fn eq(&self, other: &Self) -> bool {
        self.data.databases == other.data.databases
    }
}

impl Store {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest memory of the data and its indexes, in bytes. A command that would exceed
    /// it fails with the error 14031. The changes of other members are applied nevertheless.
    pub const fn set_limit(&mut self, bytes: usize) {
        self.limit = Some(bytes);
    }

    /// Sets the release that the server claims. Commands can use the operators and stages that it
    /// has. Without a call they can use all.
    pub const fn set_release(&mut self, release: Release) {
        self.release = release;
    }

    pub(crate) const fn release(&self) -> Release {
        self.release
    }

    /// Returns the memory of the data and its indexes, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.data.bytes
    }

    /// Returns an empty store with the same limit and release.
    pub(crate) fn without_data(&self) -> Self {
        Self {
            limit: self.limit,
            release: self.release,
            ..Self::default()
        }
    }

    /// Lets dropped data wait until it is [taken](Self::take_garbage).
    pub(crate) const fn keep_garbage(&mut self) {
        self.data.garbage.keep();
    }

    /// Takes the large data that was dropped.
    pub(crate) fn take_garbage(&mut self) -> Dropped {
        self.data.garbage.take().unwrap_or_default()
    }

    /// Returns the memory that the data and its indexes may still take, in bytes.
    fn room(&self) -> usize {
        let room = |limit: usize| limit.saturating_sub(self.data.bytes);
        self.limit.map_or(usize::MAX, room)
    }

    /// Returns the collection or view with the given name.
    #[must_use]
    pub fn collection(&self, namespace: &Namespace) -> Option<&Collection> {
        self.data.collection(namespace).map(Arc::as_ref)
    }

    /// Returns the serial number of a collection's creation, and 0 for one that does not exist.
    pub(crate) fn serial_of(&self, namespace: &Namespace) -> u64 {
        self.collection(namespace).map_or(0, |found| found.serial)
    }

    /// Returns the context of a command on a collection or view. Without a collation, the command
    /// has the default one of the collection.
    fn context(
        &self,
        namespace: &Namespace,
        collation: Option<&Document>,
        environment: &Environment<'_>,
    ) -> Answer<expression::EvaluationContext> {
        let collection = self.collection(namespace);
        let default = collection.and_then(|collection| collection.collation.clone());
        let collation = match collation.filter(|given| !given.is_empty()) {
            None => default,
            Some(given) => {
                let given = Collation::parse(given)?;
                if collection.is_some_and(|c| c.view().is_some()) && given != default {
                    let text = "Cannot override a view's default collation";
                    return Err(StoreError::new(167, text));
                }
                given
            }
        };
        Ok(expression::EvaluationContext {
            collation,
            release: self.release,
            ..environment.evaluation_context()
        })
    }

    /// Returns all collections and views, ordered by name.
    pub(crate) fn collections(&self) -> impl Iterator<Item = (Namespace, &Collection)> {
        self.data
            .databases
            .iter()
            .flat_map(|(database, collections)| {
                collections.iter().map(|(name, collection)| {
                    (
                        Namespace::new(database.clone(), name.clone()),
                        collection.as_ref(),
                    )
                })
            })
    }
}

impl Environment<'_> {
    /// Evaluates the variables of a command's `let`, which are expressions without a document.
    ///
    /// # Errors
    ///
    /// If a name or an expression is not valid, or if an expression reads a field.
    pub fn set_variables(&mut self, variables: &Document, release: Release) -> Answer<()> {
        let (context, nothing) = (self.evaluation_context(), Document::new());
        let scope = expression::Scope::new(&nothing, &context);
        for (name, operand) in variables {
            expression::check_variable_name(name)?;
            expression::check(operand, release)?;
            let Some(value) = expression::evaluate(operand, &scope)? else {
                let text = "Command let Expression tried to access a field, but this is not \
                            allowed because command let Expressions run before the query examines \
                            any documents.";
                return Err(StoreError::new(4890500, text));
            };
            self.variables.insert(name, value);
        }
        Ok(())
    }

    pub(in crate::store) fn evaluation_context(&self) -> expression::EvaluationContext {
        expression::EvaluationContext {
            now: self.now,
            timestamp: self.timestamp,
            variables: self
                .variables
                .clone()
                .into_iter()
                .map(|(name, value)| (name, Some(value)))
                .collect(),
            random_state: std::cell::Cell::new(self.seed),
            budget: Budget::metered(
                self.max_steps,
                self.parts.meter.clone(),
                self.parts.slices.clone(),
            ),
            ..expression::EvaluationContext::default()
        }
    }
}
