//! The rules for the names of databases and collections.

use super::error::StoreError;
use super::types::Namespace;
use super::{Answer, Store, time_series};

/// The databases that each server has.
pub(crate) const SYSTEM_DATABASES: [&str; 3] = ["admin", "config", "local"];

/// The largest length of `database.collection`, in bytes.
const MAX_NAMESPACE_BYTES: usize = 255;

/// The names after `system.` of collections that users can write.
const SYSTEM: [&str; 3] = ["js", "profile", "views"];

/// The largest size of the name of a database, in bytes.
const MAX_DATABASE_BYTES: usize = 63;

impl Store {
    /// Returns an error if there is a database whose name differs from this one only in case.
    pub(super) fn check_case(&self, database: &str) -> Answer<()> {
        let mut names = self.data.databases.keys();
        match names.find(|name| *name != database && name.eq_ignore_ascii_case(database)) {
            None => Ok(()),
            Some(name) => {
                let text = format!(
                    "db already exists with different case already have: [{name}] trying to \
                     create [{database}]"
                );
                Err(StoreError::new(13297, text))
            }
        }
    }
}

pub(super) fn check_name(namespace: &Namespace) -> Answer<()> {
    let Namespace {
        database,
        collection,
    } = namespace;
    let bad = database.is_empty()
        || database.len() > MAX_DATABASE_BYTES
        || database.contains(['.', '/', '\\', ' ', '"', '\0', '$'])
        || collection.is_empty()
        || collection.starts_with('.')
        || collection.ends_with('.')
        || collection.contains(['\0', '$'])
        || namespace.to_string().len() > MAX_NAMESPACE_BYTES;
    let is_internal = SYSTEM_DATABASES.contains(&database.as_str());
    let system = collection.strip_prefix("system.");
    if system.is_some_and(|name| !is_internal && !SYSTEM.contains(&name))
        && !collection.starts_with(time_series::BUCKETS)
    {
        return Err(invalid_system(namespace));
    }
    if collection.starts_with(time_series::BUCKETS) {
        let error = invalid_system(namespace);
        return Err(error.not_simulated("the buckets of time series collections"));
    }
    if bad {
        return Err(StoreError::new(
            73,
            format!("Invalid namespace specified '{namespace}'"),
        ));
    }
    Ok(())
}

fn invalid_system(namespace: &Namespace) -> StoreError {
    StoreError::new(73, format!("Invalid system namespace: {namespace}"))
}
