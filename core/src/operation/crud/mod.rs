//! Commands of the CRUD helpers: what they carry, and what their replies say.

mod aggregate;
mod insert;
mod read;
mod write;

pub use aggregate::{AggregateOptions, aggregate};
pub use insert::InsertMany;
pub use read::{CountOptions, FindOptions, count_documents, counted, find, first_document};
pub use write::{
    DeleteResult, InsertManyResult, InsertOneResult, UpdateOptions, UpdateResult, WriteOptions,
    delete, ensure_id, insert, replace, update,
};

use crate::error::Error;
use std::sync::Arc;

/// Names of a database and of one of its collections.
///
/// ```
/// use onionskin_core::operation::crud::Namespace;
///
/// let people = Namespace::new("app", "people")?;
/// assert_eq!(people.to_string(), "app.people");
/// assert!(Namespace::new("app", "").is_err());
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace {
    pub(crate) database: Arc<str>,
    pub(crate) collection: Arc<str>,
}

impl Namespace {
    /// Fails where a name is empty or holds a NUL, which no server accepts and the wire could not
    /// carry.
    pub fn new(
        database: impl Into<Arc<str>>,
        collection: impl Into<Arc<str>>,
    ) -> Result<Self, Error> {
        let (database, collection) = (database.into(), collection.into());
        check_name("database", &database)?;
        check_name("collection", &collection)?;
        Ok(Self {
            database,
            collection,
        })
    }

    /// The database's name.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The collection's name.
    #[must_use]
    pub fn collection(&self) -> &str {
        &self.collection
    }
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

/// Refuses names that the wire cannot carry.
pub fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::argument(format!("the name of a {what} is empty")));
    }
    if name.contains('\0') {
        return Err(Error::argument(format!(
            "the name of a {what} holds a NUL byte"
        )));
    }
    Ok(())
}
