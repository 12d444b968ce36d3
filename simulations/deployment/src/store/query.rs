//! Queries as values, so that a long query can run in another thread than its command.

use bson::{Bson, Document};

use super::built::BuiltIndexes;
use super::error::StoreError;
use super::parts::{Records, Target};
use super::types::{Environment, Find, Namespace, Position, Shared};
use super::{Answer, Store, size};

/// A query, which changes nothing. The build of indexes is one as well.
#[derive(Clone, Debug)]
pub(crate) enum Query {
    Find(Namespace, Find),
    Count(Namespace, Find),
    /// The distinct values of a field.
    Distinct(Namespace, String, Find),
    /// A pipeline without `$out` and `$merge`, with its database, collection, collation and hint.
    Aggregate(
        String,
        Option<String>,
        Vec<Document>,
        Option<Document>,
        Option<Bson>,
    ),
    /// The documents that a write statement concerns.
    Targets(Namespace, Target),
    /// The new indexes of a `createIndexes`, and the number of copies.
    Indexes(Namespace, Vec<Document>, usize),
    /// The keys of the indexes of a collection.
    Validate(Namespace),
}

/// The result of a query.
#[derive(Debug)]
pub(crate) enum Found {
    /// Documents, and for a find the newest document of the collection.
    Documents(Vec<Shared>, Option<Position>),
    Values(Vec<Bson>),
    Number(u64),
    Records(Records),
    Indexes(BuiltIndexes),
    /// The reason why an index does not have the keys of the documents.
    Problem(Option<String>),
}

impl Found {
    /// Returns the size of the documents that no collection has, in bytes. Returns `None` if the
    /// result is not documents.
    pub(crate) fn own_bytes(&self) -> Option<usize> {
        let Self::Documents(documents, _) = self else {
            return None;
        };
        let own = documents.iter();
        let own = own.filter(|document| Shared::strong_count(document) == 1);
        Some(own.map(|document| size::of(document)).sum())
    }

    pub(crate) fn documents(self) -> Vec<Shared> {
        self.with_end().0
    }

    pub(crate) fn with_end(self) -> (Vec<Shared>, Option<Position>) {
        match self {
            Self::Documents(documents, end) => (documents, end),
            _ => (Vec::new(), None),
        }
    }

    pub(crate) fn values(self) -> Vec<Bson> {
        match self {
            Self::Values(values) => values,
            _ => Vec::new(),
        }
    }

    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            _ => 0,
        }
    }

    pub(crate) fn records(self) -> Records {
        match self {
            Self::Records(records) => records,
            _ => Records::default(),
        }
    }

    pub(crate) fn indexes(self) -> BuiltIndexes {
        match self {
            Self::Indexes(indexes) => indexes,
            _ => BuiltIndexes::default(),
        }
    }

    pub(crate) fn problem(self) -> Option<String> {
        match self {
            Self::Problem(problem) => problem,
            _ => None,
        }
    }
}

impl Query {
    pub(crate) fn run(&self, store: &Store, environment: &mut Environment<'_>) -> Answer<Found> {
        Ok(match self {
            Self::Find(namespace, find) => {
                let found = store.execute_find(namespace, find, environment)?;
                Found::Documents(found, store.end(namespace))
            }
            Self::Count(namespace, find) => {
                Found::Number(store.count(namespace, find, environment)?)
            }
            Self::Distinct(namespace, key, find) => {
                Found::Values(store.distinct(namespace, key, find, environment)?)
            }
            Self::Aggregate(database, collection, pipeline, collation, hint) => {
                let read = store.run_stages(
                    database,
                    collection.as_deref(),
                    pipeline,
                    collation.as_ref(),
                    hint.as_ref(),
                    environment,
                );
                Found::Documents(read?, None)
            }
            Self::Targets(namespace, target) => {
                Found::Records(store.search(namespace, target, environment)?)
            }
            Self::Indexes(namespace, indexes, copies) => {
                Found::Indexes(store.build_indexes(namespace, indexes, *copies))
            }
            Self::Validate(namespace) => {
                let indexes = store
                    .collection(namespace)
                    .map_or(0, |c| c.indexes.len() + 1);
                let steps = store.steps_of_build(namespace, indexes);
                if environment.max_steps.is_some_and(|most| steps > most) {
                    return Err(StoreError::new(50, "the check of the indexes takes long"));
                }
                Found::Problem(store.problem_of(namespace))
            }
        })
    }
}
