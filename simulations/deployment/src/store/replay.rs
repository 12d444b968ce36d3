//! Applies changes of this or another member, and reverts them, for example in a rollback.

use std::{fmt, sync::Arc};

use bson::Document;

use super::change::Change;
use super::collection::Collection;
use super::order::identical_documents;
use super::types::{Namespace, Shared};
use super::{Data, Store};

/// A change that does not fit the data of a store, so that it cannot be applied. A store that
/// cannot apply a change of its primary has diverged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unapplied {
    change: String,
    reason: &'static str,
}

impl fmt::Display for Unapplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not fit the data: {}", self.change, self.reason)
    }
}

impl std::error::Error for Unapplied {}

impl Store {
    /// Applies a change that another store made. The caller passes changes in the order in which
    /// they were made.
    ///
    /// # Errors
    ///
    /// If the change does not fit, for example because its collection does not exist. Nothing is
    /// changed then.
    pub fn apply(&mut self, change: &Change) -> Result<(), Unapplied> {
        self.data.check(change)?;
        self.data.perform(change);
        Ok(())
    }

    /// Reverts a change that was applied. The caller passes changes in reverse order, the latest
    /// first.
    pub fn revert(&mut self, change: &Change) {
        self.data.revert(change);
    }
}

impl Data {
    pub(super) fn collection(&self, namespace: &Namespace) -> Option<&Arc<Collection>> {
        let database = self.databases.get(&namespace.database)?;
        database.get(&namespace.collection)
    }

    /// Changes a collection, if it exists.
    fn change(&mut self, namespace: &Namespace, change: impl FnOnce(&mut Collection)) {
        let database = self.databases.get_mut(&namespace.database);
        let found = database.and_then(|database| database.get_mut(&namespace.collection));
        if let Some(collection) = found.map(Arc::make_mut) {
            let before = collection.memory();
            change(collection);
            self.bytes = self.bytes.saturating_sub(before) + collection.memory();
        }
    }

    /// Returns an error if a change does not fit the data.
    pub(super) fn check(&self, change: &Change) -> Result<(), Unapplied> {
        self.misfit(change).map_or(Ok(()), |reason| {
            Err(Unapplied {
                change: change.to_string(),
                reason,
            })
        })
    }

    /// Returns the reason why a change does not fit.
    fn misfit(&self, change: &Change) -> Option<&'static str> {
        const NO_COLLECTION: &str = "the collection does not exist";
        let found = change.namespace().and_then(|name| self.collection(name));
        match (change, found) {
            (Change::CreateCollection { .. }, None) => None,
            (Change::CreateCollection { .. }, Some(_)) => Some("the collection exists"),
            (Change::DropDatabase { database }, _) => self
                .databases
                .contains_key(database)
                .then_some("the database has collections"),
            (_, None) => Some(NO_COLLECTION),
            (Change::DropCollection { before, .. }, Some(collection)) => {
                (before.serial != collection.serial).then_some("the collection is another one")
            }
            (Change::FillCollection { contents, .. }, Some(collection)) => {
                let is_new = contents.serial == collection.serial && collection.records.is_empty();
                (!is_new).then_some("the collection is not a new one")
            }
            (Change::RenameCollection { to, .. }, Some(_)) => {
                self.collection(to).map(|_| "the new name is taken")
            }
            (Change::ModifyCollection { before, .. }, Some(collection)) => {
                (!identical_documents(before, &collection.options))
                    .then_some("the collection has other options")
            }
            (Change::ShardCollection { .. }, Some(_)) => None,
            (Change::CreateIndex { specification, .. }, Some(collection)) => {
                let name = specification.get_str("name").unwrap_or_default();
                let mut indexes = collection.indexes.iter();
                indexes
                    .any(|index| index.name() == name)
                    .then_some("the index exists")
            }
            (
                Change::DropIndex {
                    specification,
                    position,
                    ..
                },
                Some(collection),
            ) => {
                let index = collection.indexes.get(*position);
                (!index
                    .is_some_and(|index| identical_documents(&index.specification, specification)))
                .then_some("the index is not there")
            }
            (
                Change::Insert {
                    record, document, ..
                },
                Some(collection),
            ) => misfit_of_new(collection, *record, document),
            (Change::Replace { record, before, .. }, Some(collection)) => {
                misfit_of_stored(collection, *record, before)
            }
            (
                Change::Delete {
                    record, document, ..
                },
                Some(collection),
            ) => misfit_of_stored(collection, *record, document),
        }
    }

    /// Carries out a change that fits.
    pub(super) fn perform(&mut self, change: &Change) {
        match change {
            Change::CreateCollection {
                namespace,
                options,
                serial,
            } => {
                self.serial = self.serial.max(*serial);
                let collection = Collection::new(options.clone(), *serial);
                self.place(namespace, Arc::new(collection));
            }
            Change::DropCollection { namespace, .. } => self.drop_collection(namespace),
            Change::FillCollection {
                namespace,
                contents,
            } => self.exchange(namespace, contents.clone()),
            Change::DropDatabase { .. } | Change::ShardCollection { .. } => {}
            Change::RenameCollection { from, to, .. } => self.rename(from, to),
            Change::ModifyCollection {
                namespace, after, ..
            } => self.set_options(namespace, after),
            Change::CreateIndex {
                namespace,
                specification,
                built,
                ..
            } => match built.take() {
                Some(index) => self.change(namespace, |collection| collection.indexes.push(index)),
                None => self.add_index(namespace, usize::MAX, specification),
            },
            Change::DropIndex {
                namespace,
                position,
                ..
            } => self.remove_index(namespace, *position),
            Change::Insert {
                namespace,
                record,
                document,
                ..
            } => self.put(namespace, *record, document),
            Change::Replace {
                namespace,
                record,
                after,
                ..
            } => self.put(namespace, *record, after),
            Change::Delete {
                namespace, record, ..
            } => self.take(namespace, *record),
        }
    }

    /// Reverts a change that was carried out, or whose carrying out was interrupted.
    pub(super) fn revert(&mut self, change: &Change) {
        match change {
            Change::CreateCollection { namespace, .. } => {
                self.displace(namespace);
            }
            Change::DropCollection { namespace, before } => self.place(namespace, before.clone()),
            Change::FillCollection {
                namespace,
                contents,
            } => {
                let empty = Collection::new(contents.options.clone(), contents.serial);
                self.exchange(namespace, Arc::new(empty));
            }
            Change::DropDatabase { .. } | Change::ShardCollection { .. } => {}
            Change::RenameCollection { from, to, .. } => self.rename(to, from),
            Change::ModifyCollection {
                namespace, before, ..
            } => self.set_options(namespace, before),
            Change::CreateIndex {
                namespace,
                specification,
                ..
            } => {
                let last = self.collection(namespace).and_then(|collection| {
                    let last = collection.indexes.last()?;
                    let is_built = Arc::ptr_eq(&last.specification, specification)
                        || identical_documents(&last.specification, specification);
                    is_built.then(|| collection.indexes.len() - 1)
                });
                if let Some(last) = last {
                    self.remove_index(namespace, last);
                }
            }
            Change::DropIndex {
                namespace,
                specification,
                position,
                ..
            } => self.add_index(namespace, *position, specification),
            Change::Insert {
                namespace, record, ..
            } => self.take(namespace, *record),
            Change::Replace {
                namespace,
                record,
                before,
                ..
            } => self.put(namespace, *record, before),
            Change::Delete {
                namespace,
                record,
                document,
                ..
            } => self.put(namespace, *record, document),
        }
    }

    fn put(&mut self, namespace: &Namespace, record: u64, document: &Shared) {
        self.change(namespace, |collection| {
            collection.put(record, document.clone())
        });
    }

    fn take(&mut self, namespace: &Namespace, record: u64) {
        self.change(namespace, |collection| collection.take(record));
    }

    fn set_options(&mut self, namespace: &Namespace, options: &Arc<Document>) {
        self.change(namespace, |collection| {
            collection.set_options(options.clone())
        });
    }

    fn add_index(&mut self, namespace: &Namespace, position: usize, specification: &Arc<Document>) {
        self.change(namespace, |collection| {
            collection.add_index(position, specification.clone());
        });
    }

    fn remove_index(&mut self, namespace: &Namespace, position: usize) {
        let mut removed = None;
        self.change(namespace, |collection| {
            if position < collection.indexes.len() {
                removed = Some(collection.indexes.remove(position));
            }
        });
        if let Some(index) = removed {
            self.garbage.add(index.bytes(), index);
        }
    }

    fn drop_collection(&mut self, namespace: &Namespace) {
        if let Some(collection) = self.displace(namespace) {
            self.garbage.add(collection.memory(), collection);
        }
    }

    /// Puts a collection in the place of the one with this name, if there is one.
    pub(super) fn exchange(&mut self, namespace: &Namespace, collection: Arc<Collection>) {
        self.drop_collection(namespace);
        self.place(namespace, collection);
    }

    pub(super) fn place(&mut self, namespace: &Namespace, collection: Arc<Collection>) {
        self.bytes += collection.memory();
        let database = self
            .databases
            .entry(namespace.database.clone())
            .or_default();
        database.insert(namespace.collection.clone(), collection);
    }

    /// Removes a collection. A database without collections is removed as well.
    pub(super) fn displace(&mut self, namespace: &Namespace) -> Option<Arc<Collection>> {
        let database = self.databases.get_mut(&namespace.database)?;
        let collection = database.remove(&namespace.collection);
        if database.is_empty() {
            self.databases.remove(&namespace.database);
        }
        let bytes = collection
            .as_ref()
            .map_or(0, |collection| collection.memory());
        self.bytes = self.bytes.saturating_sub(bytes);
        collection
    }

    fn rename(&mut self, from: &Namespace, to: &Namespace) {
        if let Some(collection) = self.displace(from) {
            self.place(to, collection);
        }
    }
}

/// Returns the reason why a new record does not fit.
fn misfit_of_new(
    collection: &Collection,
    record: u64,
    document: &Document,
) -> Option<&'static str> {
    match collection.records.contains_key(&record) {
        true => Some("the record exists"),
        false if collection.has_id_of(document) => Some("the _id exists"),
        false => None,
    }
}

/// Returns the reason why a record does not have this document.
fn misfit_of_stored(
    collection: &Collection,
    record: u64,
    document: &Shared,
) -> Option<&'static str> {
    match collection.records.get(&record) {
        None => Some("the record does not exist"),
        // Members share the documents of a change, so they are seldom compared.
        Some(stored) if Arc::ptr_eq(stored, document) => None,
        Some(stored) if identical_documents(stored, document) => None,
        Some(_) => Some("the record has another document"),
    }
}
