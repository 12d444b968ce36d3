//! Queries as values, so that a long query can run in another thread than its command.

use bson::{Bson, Document};

use super::parts::Target;
use super::types::{Environment, Find, Namespace, Position, Shared};
use super::{Answer, Store};

/// A query, which changes nothing.
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
}

/// The result of a query.
#[derive(Debug)]
pub(crate) enum Found {
    /// Documents, and for a find the newest document of the collection.
    Documents(Vec<Shared>, Option<Position>),
    Values(Vec<Bson>),
    Number(u64),
    Records(Vec<u64>),
}

impl Found {
    pub(crate) fn documents(self) -> Vec<Shared> {
        self.with_end().0
    }

    pub(crate) fn with_end(self) -> (Vec<Shared>, Option<Position>) {
        match self {
            Self::Documents(documents, end) => (documents, end),
            Self::Values(_) | Self::Number(_) | Self::Records(_) => (Vec::new(), None),
        }
    }

    pub(crate) fn values(self) -> Vec<Bson> {
        match self {
            Self::Values(values) => values,
            Self::Documents(..) | Self::Number(_) | Self::Records(_) => Vec::new(),
        }
    }

    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Documents(..) | Self::Values(_) | Self::Records(_) => 0,
        }
    }

    pub(crate) fn records(self) -> Vec<u64> {
        match self {
            Self::Records(records) => records,
            Self::Documents(..) | Self::Values(_) | Self::Number(_) => Vec::new(),
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
        })
    }
}
