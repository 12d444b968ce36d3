//! Commands of the CRUD helpers, and the results in their replies.

mod aggregate;
mod insert;
mod read;
mod write;

pub use aggregate::{AggregateOptions, aggregate};
pub use insert::InsertMany;
pub use read::{
    CountOptions, FindOptions, count_documents, count_from_reply, decode_first, find,
    first_document,
};
pub use write::{
    DeleteResult, InsertManyResult, InsertOneResult, UpdateOptions, UpdateResult, WriteOptions,
    delete, encode_insert, insert, replace, update,
};

use crate::error::Error;
use std::sync::Arc;

/// The names of a database and of one of its collections.
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
    /// Returns the namespace of `database` and `collection`. Fails if a name is empty or contains a
    /// zero byte, which no server accepts.
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
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

/// Fails if `name` is empty or contains a zero byte. `what` is the kind of name that the error
/// message shows, such as "database".
pub fn check_name(what: &str, name: &str) -> Result<(), Error> {
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
