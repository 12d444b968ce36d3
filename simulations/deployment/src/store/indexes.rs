//! Creates, drops and lists indexes.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::built::{BuiltIndex, BuiltIndexes};
use super::catalog::not_found;
use super::change::Change;
use super::collation::Collation;
use super::collection::Collection;
use super::error::StoreError;
use super::expression::truthy;
use super::index::{Index, generated_name, out_of_space};
use super::index_options::{check_expiry, normalized};
use super::index_signature::check_existing;
use super::number::as_double;
use super::order::{display_document, identical_documents};
use super::types::{CreateIndexesResult, Namespace};
use super::{Answer, Store};

/// The largest number of indexes of a collection, that of `_id` included.
const MAX_INDEXES: usize = 64;

/// The largest size of the violations that an error of `collMod` lists, in bytes, as in the server.
const MAX_VIOLATIONS_BYTES: usize = 8 * 1024 * 1024;

impl Store {
    /// Builds indexes from the entries of `createIndexes`. A missing collection is created.
    ///
    /// # Errors
    ///
    /// If the namespace is not valid or is a view, if an entry is malformed or conflicts with an
    /// existing index, if there are too many indexes, or if documents have duplicate keys in a
    /// unique index. An error leaves the store unchanged.
    pub fn create_indexes(
        &mut self,
        namespace: &Namespace,
        indexes: &[Document],
    ) -> Answer<CreateIndexesResult> {
        self.create_built(namespace, indexes, BuiltIndexes::default())
    }

    /// Does the same as [`create_indexes`](Self::create_indexes), with indexes that were built
    /// before. They must [fit](BuiltIndexes::fit) the collection.
    pub(crate) fn create_built(
        &mut self,
        namespace: &Namespace,
        indexes: &[Document],
        built: BuiltIndexes,
    ) -> Answer<CreateIndexesResult> {
        self.refuse_time_series(namespace, "createIndexes")?;
        let mut built = built.into_indexes();
        self.atomically(|store| {
            let created_collection = store.ensure(namespace)?;
            let before = store.count_indexes(namespace);
            for entry in indexes {
                if let Some(change) = store.new_index(namespace, entry, &mut built)? {
                    store.commit(change)?;
                }
            }
            Ok(CreateIndexesResult {
                before,
                after: store.count_indexes(namespace),
                created_collection,
            })
        })
    }

    /// Returns the number of indexes, that of `_id` included.
    fn count_indexes(&self, namespace: &Namespace) -> u32 {
        let secondary = self.collection(namespace).map_or(0, |c| c.indexes.len());
        u32::try_from(secondary + 1).unwrap_or(u32::MAX)
    }

    /// Returns the change that builds an index, or `None` if the index exists already. Takes the
    /// next one of those that were built before.
    fn new_index(
        &self,
        namespace: &Namespace,
        entry: &Document,
        built: &mut impl Iterator<Item = BuiltIndex>,
    ) -> Answer<Option<Change>> {
        let collection = self
            .collection(namespace)
            .ok_or_else(|| not_found(namespace))?;
        let specification = normalized(entry, collection.collation.as_deref(), self.release)?;
        let key = specification
            .get_document("key")
            .cloned()
            .unwrap_or_default();
        if identical_documents(&key, &doc! { "_id": 1 }) {
            let own = collection
                .collation
                .as_deref()
                .map(Collation::specification);
            if specification.get_document("collation").ok() != own {
                let text = "The _id index must have the same collation as the collection.";
                return Err(StoreError::bad_value(text));
            }
            return Ok(None);
        }
        let existing = collection.indexes.iter().map(|i| &*i.specification);
        if check_existing(&specification, existing.clone(), self.release)? {
            return Ok(None);
        }
        if collection.indexes.len() + 2 > MAX_INDEXES {
            let shown = display_document(&key);
            let text = format!("add index fails, too many indexes for {namespace} key:{shown}");
            return Err(StoreError::new(67, text));
        }
        let is_text = |key: &Document| key.contains_key("_fts");
        let mut texts = existing.filter(|other| other.get_document("key").is_ok_and(is_text));
        if let Some(other) = texts.next().filter(|_| is_text(&key)) {
            let text = format!(
                "only one text index per collection allowed, found existing text index \"{}\"",
                other.get_str("name").unwrap_or_default()
            );
            return Err(StoreError::new(67, text));
        }
        let (specification, built) = match built.next() {
            Some(built) => self.checked(specification, built)?,
            None => self.built(namespace, collection, specification)?,
        };
        Ok(Some(Change::CreateIndex {
            namespace: namespace.clone(),
            specification,
            serial: collection.serial,
            built,
        }))
    }

    /// Builds an index.
    fn built(
        &self,
        namespace: &Namespace,
        collection: &Collection,
        specification: Document,
    ) -> Answer<(Arc<Document>, BuiltIndex)> {
        let mut tried = specification.clone();
        // Duplicate keys that exist already do not keep an index from being prepared.
        let is_prepared = tried.remove("prepareUnique").is_some();
        let tried = Arc::new(tried);
        let mut trial = Index::new(tried.clone());
        trial.build(namespace, &collection.records, self.room())?;
        Ok(match is_prepared {
            true => (Arc::new(specification), BuiltIndex::default()),
            false => (tried, BuiltIndex::new(trial, 1)),
        })
    }

    /// Checks whether an index that was built before has the wanted specification and fits into the
    /// memory.
    fn checked(
        &self,
        specification: Document,
        built: BuiltIndex,
    ) -> Answer<(Arc<Document>, BuiltIndex)> {
        match built.description() {
            Some((own, bytes)) if identical_documents(&own, &specification) => {
                match bytes <= self.room() {
                    true => Ok((own, built)),
                    false => Err(out_of_space()),
                }
            }
            _ => Ok((Arc::new(specification), BuiltIndex::default())),
        }
    }

    /// Changes the options `expireAfterSeconds`, `hidden`, `prepareUnique` and `unique` of an
    /// index, as `collMod` does. Returns the old and the new values for the reply.
    ///
    /// # Errors
    ///
    /// If the collection or the index does not exist, if the index has several fields, or if it
    /// becomes unique but is not prepared for it or has duplicate keys.
    pub fn modify_index(&mut self, namespace: &Namespace, change: &Document) -> Answer<Document> {
        let collection = self
            .collection(namespace)
            .ok_or_else(|| not_found(namespace))?;
        let position = match (change.get("name"), change.get("keyPattern")) {
            (Some(Bson::String(name)), _) => {
                let mut indexes = collection.indexes.iter();
                indexes.position(|index| index.name() == name)
            }
            (_, Some(Bson::Document(key))) => position_of_key(collection, key)?,
            _ => {
                let text = "Must specify either index name or key pattern.";
                return Err(StoreError::new(72, text));
            }
        };
        let found = position.and_then(|at| Some((at, collection.indexes.get(at)?)));
        let Some((position, index)) = found else {
            let text = format!(
                "cannot find index {} for ns {namespace}",
                display_document(change)
            );
            return Err(StoreError::new(27, text));
        };
        let before = index.specification.clone();
        let mut after = Document::clone(&before);
        let mut reply = Document::new();
        for option in ["expireAfterSeconds", "hidden", "prepareUnique"] {
            let Some(value) = change.get(option) else {
                continue;
            };
            if let Some(old) = before.get(option) {
                reply.insert(format!("{option}_old"), old.clone());
            }
            reply.insert(format!("{option}_new"), value.clone());
            after.insert(option, value.clone());
        }
        check_expiry(&after)?;
        if change.contains_key("prepareUnique") && !before.contains_key("prepareUnique") {
            reply.insert("prepareUnique_old", false);
        }
        if let Some(unique) = change.get("unique")
            && !before.get("unique").is_some_and(truthy)
        {
            check_conversion(collection, index, truthy(unique))?;
            after.remove("prepareUnique");
            after.insert("unique", true);
            reply.insert("unique_new", true);
        }
        let (namespace, serial) = (namespace.clone(), collection.serial);
        self.atomically(|store| {
            store.commit(Change::DropIndex {
                namespace: namespace.clone(),
                specification: before,
                position,
                serial,
            })?;
            store.commit(Change::CreateIndex {
                namespace,
                specification: Arc::new(after),
                serial,
                built: BuiltIndex::default(),
            })
        })?;
        Ok(reply)
    }

    /// Drops indexes by name, key, list of names, or `"*"`. Returns the number of indexes before
    /// the call (`nIndexesWas`).
    ///
    /// # Errors
    ///
    /// If the collection or an index does not exist, or if the index is that of `_id`.
    pub fn drop_indexes(&mut self, namespace: &Namespace, index: &Bson) -> Answer<u32> {
        let not_there = || StoreError::new(26, format!("ns not found {namespace}"));
        let collection = self.collection(namespace).ok_or_else(not_there)?;
        let result = u32::try_from(collection.indexes.len() + 1).unwrap_or(u32::MAX);
        let wanted: Vec<&Bson> = match index {
            Bson::Array(names) => names.iter().collect(),
            other => vec![other],
        };
        let mut gone = Vec::new();
        for wanted in wanted {
            let position = match wanted {
                Bson::String(all) if all == "*" => {
                    gone.extend(0..collection.indexes.len());
                    continue;
                }
                Bson::String(name) if name == "_id_" || collection.is_clustered_by(name) => {
                    return Err(StoreError::new(72, "cannot drop _id index"));
                }
                Bson::String(name) => collection.indexes.iter().position(|i| i.name() == name),
                Bson::Document(key) if generated_name(key) == "_id_1" => {
                    return Err(StoreError::new(72, "cannot drop _id index"));
                }
                Bson::Document(key) => position_of_key(collection, key)?,
                _ => None,
            };
            gone.push(position.ok_or_else(|| {
                let text = match wanted {
                    Bson::String(name) => format!("index not found with name [{name}]"),
                    other => format!(
                        "can't find index with key: {}",
                        super::order::display(other)
                    ),
                };
                StoreError::new(27, text)
            })?);
        }
        gone.sort_unstable();
        gone.dedup();
        self.atomically(|store| {
            // The last index is dropped first, so that the positions of the others stay valid.
            for position in gone.into_iter().rev() {
                let collection = store.collection(namespace);
                let Some(index) = collection.and_then(|c| c.indexes.get(position)) else {
                    continue;
                };
                let specification = index.specification.clone();
                let serial = store.serial_of(namespace);
                store.commit(Change::DropIndex {
                    namespace: namespace.clone(),
                    specification,
                    position,
                    serial,
                })?;
            }
            Ok(result)
        })
    }

    /// Checks that the index of a `hint` exists. Queries of a collection that does not exist take
    /// any hint.
    ///
    /// # Errors
    ///
    /// If no index has this name or key, if the index is hidden, or if the direction of a natural
    /// order is neither 1 nor -1.
    pub fn check_hint(&self, namespace: &Namespace, hint: &Bson) -> Answer<()> {
        let natural = hint.as_document().and_then(|hint| hint.get("$natural"));
        let is_direction =
            |natural: &Bson| as_double(natural).is_some_and(|n| n.trunc().abs() == 1.0);
        if natural.is_some_and(|natural| !is_direction(natural)) {
            let text = "$natural hint cannot be set to a value other than -1 or 1.";
            return Err(StoreError::bad_value(text));
        }
        // The indexes of a view are those of its collection, which are not looked up here.
        let collection = self.collection(namespace);
        let Some(collection) = collection.filter(|c| c.view().is_none()) else {
            return Ok(());
        };
        let is_hidden = |index: &Index| index.specification.get("hidden").is_some_and(truthy);
        let mut visible = collection.indexes.iter().filter(|index| !is_hidden(index));
        let exists = match hint {
            Bson::String(name) => {
                name == "_id_"
                    || collection.is_clustered_by(name)
                    || visible.any(|index| index.name() == name)
            }
            Bson::Document(key) if key.is_empty() || key.contains_key("$natural") => true,
            Bson::Document(key) => {
                let shown = generated_name(key);
                shown == "_id_1"
                    || visible.any(|index| {
                        let own = index.specification.get_document("key");
                        own.is_ok_and(|own| generated_name(own) == shown)
                    })
            }
            _ => {
                let text = "Hint must be a string or an object";
                return Err(StoreError::failed_to_parse(text));
            }
        };
        if exists {
            return Ok(());
        }
        let text = format!(
            "error processing query: ns={namespace} planner returned error :: caused by :: hint \
             provided does not correspond to an existing index"
        );
        Err(StoreError::bad_value(text))
    }

    /// Returns the entries of `listIndexes`.
    ///
    /// # Errors
    ///
    /// If the collection does not exist.
    pub fn list_indexes(&self, namespace: &Namespace) -> Answer<Vec<Document>> {
        let collection = self
            .collection(namespace)
            .ok_or_else(|| not_found(namespace))?;
        let others = collection
            .indexes
            .iter()
            .map(|i| Document::clone(&i.specification));
        let id = collection
            .time_series()
            .is_none()
            .then(|| collection.id_index());
        Ok(id.into_iter().chain(others).collect())
    }
}

/// Returns the position of the index with this key, or `None` if there is none.
fn position_of_key(collection: &Collection, key: &Document) -> Answer<Option<usize>> {
    let has_key = |index: &Index| {
        let own = index.specification.get_document("key");
        own.is_ok_and(|own| generated_name(own) == generated_name(key))
    };
    let mut found = (0..)
        .zip(&collection.indexes)
        .filter(|(_, index)| has_key(index));
    let first = found.next().map(|(position, _)| position);
    match found.count() {
        0 => Ok(first),
        others => {
            let text = format!(
                "{} indexes found for key: {}, identify by name instead",
                others + 1,
                display_document(key)
            );
            Err(StoreError::new(181, text))
        }
    }
}

/// Returns an error if an index cannot become unique. The error has the groups of documents with
/// the same key, up to [`MAX_VIOLATIONS_BYTES`].
fn check_conversion(collection: &Collection, index: &Index, unique: bool) -> Answer<()> {
    if !unique {
        return Err(StoreError::bad_value("'unique: false' is not supported"));
    }
    if !index.specification.get("prepareUnique").is_some_and(truthy) {
        let text = "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it \
                    first.";
        return Err(StoreError::new(72, text));
    }
    let (mut violations, mut bytes) = (Vec::new(), 0);
    for records in index.duplicates() {
        let documents = records.iter().filter_map(|r| collection.records.get(r));
        let ids: Vec<Bson> = documents.filter_map(|d| d.get("_id").cloned()).collect();
        let violation = doc! { "ids": ids };
        bytes += super::size::of(&violation);
        if bytes > MAX_VIOLATIONS_BYTES {
            break;
        }
        violations.push(violation);
    }
    if bytes == 0 {
        return Ok(());
    }
    let text = "Cannot convert the index to unique. Please resolve conflicting documents before \
                running collMod again.";
    Err(StoreError::new(359, text).with("violations", violations))
}
