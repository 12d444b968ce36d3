//! The operations on whole collections (create, modify, rename, drop, list) and on databases (drop,
//! list).

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

use super::change::Change;
use super::collection::Collection;
use super::collection_options::{
    check_bounds, check_changed, check_given, check_id_index, check_validated, given_collation,
    not_clustered,
};
use super::error::StoreError;
use super::expression::EvaluationContext;
use super::index_options;
use super::matcher::Matcher;
use super::names::{SYSTEM_DATABASES, check_name};
use super::order::identical_documents;
use super::release::Release;
use super::types::Namespace;
use super::validation::Validator;
use super::{Answer, Store, time_series};

impl Store {
    /// Creates a collection or a view with the options of the `create` command.
    ///
    /// # Errors
    ///
    /// If the collection exists with other options, if the name, the collation or the validator is
    /// not valid, or if `capped` is given without `size`.
    pub fn create_collection(
        &mut self,
        namespace: &Namespace,
        mut options: Document,
    ) -> Answer<()> {
        check_name(namespace)?;
        options.remove("create");
        check_given(namespace, &options)?;
        check_bounds(&mut options, self.release)?;
        Validator::check_options(&options, self.release)?;
        match index_options::clustered(&options)? {
            None => options.remove("clusteredIndex"),
            Some(full) => options.insert("clusteredIndex", full),
        };
        match time_series::check_options(&options)? {
            None => options.remove("timeseries"),
            Some(full) => options.insert("timeseries", full),
        };
        let can_expire = ["clusteredIndex", "timeseries"];
        if options.contains_key("expireAfterSeconds")
            && !can_expire.iter().any(|option| options.contains_key(option))
        {
            return Err(not_clustered());
        }
        if let Some(full) = given_collation(&options)? {
            match full {
                None => options.remove("collation"),
                Some(full) => options.insert("collation", full),
            };
        }
        check_id_index(&mut options)?;
        self.check_view(namespace, &options)?;
        self.check_case(&namespace.database)?;
        if let Some(existing) = self.collection(namespace) {
            if identical_documents(&existing.options, &options) {
                return Ok(());
            }
            let text = format!("Collection {namespace} already exists.");
            return Err(StoreError::new(48, text));
        }
        let serial = self.data.serial + 1;
        check_validated(namespace, &options, serial)?;
        let change = Change::CreateCollection {
            namespace: namespace.clone(),
            options: Arc::new(options),
            serial,
        };
        self.commit(change)
    }

    /// Changes the options of a collection, as `collMod` does.
    ///
    /// # Errors
    ///
    /// If there is no such collection, or if the validator is malformed.
    pub fn modify_collection(&mut self, namespace: &Namespace, options: &Document) -> Answer<()> {
        let collection = self
            .collection(namespace)
            .ok_or_else(|| not_found(namespace))?;
        Validator::check_options(options, self.release)?;
        check_changed(namespace, collection, options, self.release)?;
        check_validated(namespace, options, collection.serial)?;
        let before = collection.options.clone();
        let mut after = Document::clone(&before);
        let fields = options
            .iter()
            .filter(|(name, _)| *name != "collMod" && *name != "index");
        let fields: Vec<_> = fields.collect();
        // The command without an option is a change as well, of which change streams have an event.
        if fields.is_empty() && options.contains_key("index") {
            return Ok(());
        }
        let fields = fields.into_iter();
        after.extend(fields.map(|(name, value)| {
            let name = match name.as_str() {
                "cappedSize" => "size",
                "cappedMax" => "max",
                name => name,
            };
            (name.to_owned(), value.clone())
        }));
        if after
            .get_document("validator")
            .is_ok_and(Document::is_empty)
        {
            after.remove("validator");
        }
        self.check_view(namespace, &after)?;
        let change = Change::ModifyCollection {
            namespace: namespace.clone(),
            before,
            after: Arc::new(after),
            serial: collection.serial,
        };
        self.commit(change)
    }

    /// Makes a collection sharded, and creates it if it does not exist. The data stays where it is.
    ///
    /// # Errors
    ///
    /// If the name is not valid, or is that of a view.
    pub fn shard_collection(&mut self, namespace: &Namespace, key: &Document) -> Answer<()> {
        self.ensure(namespace)?;
        let serial = self.serial_of(namespace);
        self.commit(Change::ShardCollection {
            namespace: namespace.clone(),
            key: Arc::new(key.clone()),
            serial,
        })
    }

    /// Drops a collection. Returns the number of indexes that the collection had (`nIndexesWas`),
    /// or `None` if the collection does not exist.
    ///
    /// # Errors
    ///
    /// If the name is not valid.
    pub fn drop_collection(&mut self, namespace: &Namespace) -> Answer<Option<u32>> {
        check_name(namespace)?;
        let Some(before) = self.data.collection(namespace).cloned() else {
            return Ok(None);
        };
        let indexes = u32::try_from(before.indexes.len() + 1).unwrap_or(u32::MAX);
        self.commit(Change::DropCollection {
            namespace: namespace.clone(),
            before,
        })?;
        Ok(Some(indexes))
    }

    /// Returns the names of all databases, in order.
    pub fn databases(&self) -> impl Iterator<Item = &str> {
        self.data.databases.keys().map(String::as_str)
    }

    /// Drops a database. Returns true if the database existed.
    ///
    /// # Errors
    ///
    /// If the name of one of its collections is not valid.
    pub fn drop_database(&mut self, database: &str) -> Answer<bool> {
        let names = self
            .data
            .databases
            .get(database)
            .map(|d| d.keys().cloned().collect::<Vec<_>>());
        let Some(names) = names else {
            return Ok(false);
        };
        self.atomically(|store| {
            for name in names {
                store.drop_collection(&Namespace::new(database, name))?;
            }
            store.commit(Change::DropDatabase {
                database: database.to_owned(),
            })
        })?;
        Ok(true)
    }

    /// Drops the collections of a database but this one.
    pub(crate) fn drop_others(&mut self, kept: &Namespace) -> Answer<()> {
        let names = self.data.databases.get(&kept.database);
        let names = names.map(|collections| collections.keys().cloned().collect::<Vec<_>>());
        self.atomically(|store| {
            for name in names
                .into_iter()
                .flatten()
                .filter(|n| *n != kept.collection)
            {
                store.drop_collection(&Namespace::new(&kept.database, name))?;
            }
            Ok(())
        })
    }

    /// Renames a collection.
    ///
    /// # Errors
    ///
    /// If `from` does not exist, if `to` is not a valid name or equals `from`, or if `to` exists
    /// and `drop_target` is false.
    pub fn rename_collection(
        &mut self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
    ) -> Answer<()> {
        check_name(to)?;
        if !self.contains(from) {
            let text = format!("Source collection {from} does not exist");
            return Err(StoreError::new(26, text));
        }
        if self.collection(from).is_some_and(|c| c.view().is_some()) {
            let text = format!("cannot rename view: {from}");
            return Err(StoreError::new(166, text));
        }
        if self
            .collection(from)
            .is_some_and(|c| c.time_series().is_some())
        {
            let text = format!("cannot rename the time-series collection {from}");
            return Err(StoreError::new(20, text));
        }
        if from == to {
            return Err(StoreError::new(20, "Can't rename a collection to itself"));
        }
        if self.collection(to).is_some_and(|c| c.view().is_some()) {
            let text = format!("a view already exists with that name: {to}");
            return Err(StoreError::new(48, text));
        }
        let is_taken = self.contains(to);
        if is_taken && !drop_target {
            return Err(StoreError::new(48, "target namespace exists"));
        }
        self.atomically(|store| {
            if is_taken {
                store.drop_collection(to)?;
            }
            let serial = store.serial_of(from);
            store.commit(Change::RenameCollection {
                from: from.clone(),
                to: to.clone(),
                serial,
            })
        })
    }

    /// Returns the entries of `listCollections`, sorted by name.
    ///
    /// # Errors
    ///
    /// If the filter is malformed or fails on an entry.
    pub fn list_collections(
        &self,
        database: &str,
        filter: &Document,
        name_only: bool,
    ) -> Answer<Vec<Document>> {
        let collections = self.data.databases.get(database).into_iter().flatten();
        let entries = collections.flat_map(|(name, collection)| {
            let namespace = Namespace::new(database, name);
            entries(&namespace, collection)
        });
        let mut entries: Vec<Document> = entries.collect();
        entries.sort_by(|a, b| a.get_str("name").ok().cmp(&b.get_str("name").ok()));
        let kept = matching(entries.into_iter(), filter, self.release)?;
        if !name_only {
            return Ok(kept);
        }
        let short = |mut entry: Document| {
            entry.remove("options");
            entry.remove("info");
            entry.remove("idIndex");
            entry
        };
        Ok(kept.into_iter().map(short).collect())
    }

    /// Returns the entries of `listDatabases`, sorted by name, with those of the server itself.
    ///
    /// # Errors
    ///
    /// If the filter is malformed or fails on an entry.
    pub fn list_databases(&self, filter: &Document, name_only: bool) -> Answer<Vec<Document>> {
        let names = self.data.databases.keys().map(String::as_str);
        let names: BTreeSet<&str> = names.chain(SYSTEM_DATABASES).collect();
        let entries = names.into_iter().map(|name| {
            let collections = self.data.databases.get(name).into_iter().flatten();
            let bytes: u64 = collections.map(|(_, c)| c.size_bytes()).sum();
            doc! {
                "name": name,
                "sizeOnDisk": i64::try_from(bytes).unwrap_or(i64::MAX),
                "empty": false,
            }
        });
        let kept = matching(entries, filter, self.release)?;
        if !name_only {
            return Ok(kept);
        }
        let name = |entry: Document| doc! { "name": entry.get_str("name").unwrap_or_default() };
        Ok(kept.into_iter().map(name).collect())
    }
}

/// Returns the entries of a list that match a filter.
///
/// # Errors
///
/// If the filter is malformed, or fails on an entry.
pub(crate) fn matching(
    entries: impl Iterator<Item = Document>,
    filter: &Document,
    release: Release,
) -> Answer<Vec<Document>> {
    let matcher = Matcher::new(filter, release)?;
    let context = EvaluationContext::default();
    let mut kept = Vec::new();
    for entry in entries {
        if matcher.matches(&entry, &context)? {
            kept.push(entry);
        }
    }
    Ok(kept)
}

/// Returns the entries of `listCollections` of a collection: those of a time series collection are
/// its own and that of its buckets.
fn entries(namespace: &Namespace, collection: &Collection) -> Vec<Document> {
    if collection.time_series().is_some() {
        let uuid = uuid_value(namespace, collection);
        return time_series::entries(namespace, &collection.options, uuid).into();
    }
    vec![entry(namespace, collection)]
}

fn uuid_value(namespace: &Namespace, collection: &Collection) -> Bson {
    collection_uuid(namespace, collection.serial)
}

impl Store {
    /// Returns the UUID of a collection. A view and a time series collection have none.
    #[must_use]
    pub fn uuid(&self, namespace: &Namespace) -> Option<Bson> {
        let collection = self.collection(namespace)?;
        let has_uuid = collection.view().is_none() && collection.time_series().is_none();
        has_uuid.then(|| uuid_value(namespace, collection))
    }

    /// Returns the collection of a database with this UUID.
    #[must_use]
    pub fn collection_of_uuid(&self, database: &str, uuid: &Bson) -> Option<Namespace> {
        let collections = self.data.databases.get(database)?;
        let mut names = collections
            .keys()
            .map(|name| Namespace::new(database, name.as_str()));
        names.find(|name| self.uuid(name).as_ref() == Some(uuid))
    }
}

/// Returns the UUID of the collection whose creation has this serial number.
pub(super) fn collection_uuid(namespace: &Namespace, serial: u64) -> Bson {
    let uuid = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: uuid(namespace, serial).to_vec(),
    };
    Bson::Binary(uuid)
}

fn entry(namespace: &Namespace, collection: &Collection) -> Document {
    let view = collection.view().is_some();
    let mut entry = doc! {
        "name": namespace.collection.as_str(),
        "type": if view { "view" } else { "collection" },
        "options": Document::clone(&collection.options),
    };
    if view {
        entry.insert("info", doc! { "readOnly": true });
    } else {
        let uuid = uuid_value(namespace, collection);
        entry.insert("info", doc! { "readOnly": false, "uuid": uuid });
        if collection.clustered().is_none() {
            entry.insert("idIndex", collection.id_index());
        }
    }
    entry
}

/// Returns the UUID of a collection. The UUID is the same on every member, and different after the
/// collection was dropped and created again.
pub(super) fn uuid(namespace: &Namespace, serial: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    // FNV-1a over the database's name and the serial, once for each half. A rename within one
    // database keeps the UUID.
    for (half, start) in [(0, 0xcbf2_9ce4_8422_2325_u64), (8, 0x9e37_79b9_7f4a_7c15)] {
        let text = namespace.database.bytes().chain(serial.to_be_bytes());
        let hash = text.fold(start, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        bytes[half..half + 8].copy_from_slice(&hash.to_be_bytes());
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

pub(super) fn not_found(namespace: &Namespace) -> StoreError {
    StoreError::new(26, format!("ns does not exist: {namespace}"))
}
