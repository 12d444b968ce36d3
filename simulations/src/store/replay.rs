//! Applies changes of this or another member, and reverts them, for example in a rollback.

use std::sync::Arc;

use super::Store;
use super::change::Change;
use super::collection::Collection;
use super::types::Namespace;

impl Store {
    /// Applies a change that this or another store made. The caller passes changes in the order in
    /// which they were made. If the collection does not exist, only a change that creates it has an
    /// effect.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::CreateCollection {
                namespace,
                options,
                serial,
            } => {
                self.serial = self.serial.max(*serial);
                self.place(
                    namespace,
                    Arc::new(Collection::new(options.clone(), *serial)),
                );
            }
            Change::DropCollection { namespace, .. } => {
                self.displace(namespace);
            }
            Change::DropDatabase { .. } => {}
            Change::RenameCollection { from, to } => self.rename(from, to),
            Change::ModifyCollection {
                namespace, after, ..
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.options = after.clone();
                }
            }
            Change::CreateIndex {
                namespace,
                specification,
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.add_index(usize::MAX, specification.clone());
                }
            }
            Change::DropIndex {
                namespace,
                position,
                ..
            } => {
                if let Some(collection) = self.collection_mut(namespace)
                    && *position < collection.indexes.len()
                {
                    collection.indexes.remove(*position);
                }
            }
            Change::Insert {
                namespace,
                record,
                document,
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.put(*record, document.clone());
                }
            }
            Change::Replace {
                namespace,
                record,
                after,
                ..
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.put(*record, after.clone());
                }
            }
            Change::Delete {
                namespace, record, ..
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.take(*record);
                }
            }
        }
    }

    /// Reverts a change. The caller passes changes in reverse order, the latest first.
    pub fn revert(&mut self, change: &Change) {
        match change {
            Change::CreateCollection { namespace, .. } => {
                self.displace(namespace);
            }
            Change::DropCollection { namespace, before } => self.place(namespace, before.clone()),
            Change::DropDatabase { .. } => {}
            Change::RenameCollection { from, to } => self.rename(to, from),
            Change::ModifyCollection {
                namespace, before, ..
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.options = before.clone();
                }
            }
            Change::CreateIndex { namespace, .. } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.indexes.pop();
                }
            }
            Change::DropIndex {
                namespace,
                specification,
                position,
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.add_index(*position, specification.clone());
                }
            }
            Change::Insert {
                namespace, record, ..
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.take(*record);
                }
            }
            Change::Replace {
                namespace,
                record,
                before,
                ..
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.put(*record, before.clone());
                }
            }
            Change::Delete {
                namespace,
                record,
                document,
            } => {
                if let Some(collection) = self.collection_mut(namespace) {
                    collection.put(*record, document.clone());
                }
            }
        }
    }

    fn place(&mut self, namespace: &Namespace, collection: Arc<Collection>) {
        let database = self
            .databases
            .entry(namespace.database.clone())
            .or_default();
        database.insert(namespace.collection.clone(), collection);
    }

    /// Removes a collection. A database without collections is removed as well.
    fn displace(&mut self, namespace: &Namespace) -> Option<Arc<Collection>> {
        let database = self.databases.get_mut(&namespace.database)?;
        let collection = database.remove(&namespace.collection);
        if database.is_empty() {
            self.databases.remove(&namespace.database);
        }
        collection
    }

    fn rename(&mut self, from: &Namespace, to: &Namespace) {
        if let Some(collection) = self.displace(from) {
            self.place(to, collection);
        }
    }
}
