//! One collection: its documents in natural order, and the indexes over them.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{Bson, DateTime, Document, doc};

use super::change::Origin;
use super::chunks::Chunks;
use super::claims::UniqueKey;
use super::collation::{self, Collation};
use super::error::StoreError;
use super::expression::EvaluationContext;
use super::index::{Index, duplicate_key, id_index, out_of_space};
use super::matcher::Matcher;
use super::number;
use super::order::Key;
use super::types::{Environment, Namespace, Shared};
use super::validation::Validator;

/// The name of the index on `_id` among unique keys.
const ID_INDEX: &str = "_id_";

/// A collection's documents, options and indexes. Clones share the documents and the entries of the
/// indexes that do not change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collection {
    pub(crate) records: Chunks<u64, Shared>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) options: Arc<Document>,
    pub(crate) serial: u64,
    /// The default collation of the collection, which is also that of the index on `_id`.
    pub(crate) collation: Option<Arc<Collation>>,
    validator: Option<Arc<Validator>>,
    /// The records by their `_id`. Empty for a time series collection, which has no index on `_id`.
    by_id: Chunks<Key, u64>,
    /// The size of all documents together, in bytes.
    bytes: u64,
}

impl Collection {
    pub(crate) fn new(options: Arc<Document>, serial: u64) -> Self {
        let collation = options.get_document("collation").ok();
        let collation = collation.and_then(|given| Collation::parse(given).ok().flatten());
        Self {
            collation,
            validator: Validator::of(&options).map(Arc::new),
            options,
            serial,
            ..Self::default()
        }
    }

    pub(crate) fn set_options(&mut self, options: Arc<Document>) {
        self.validator = Validator::of(&options).map(Arc::new);
        self.options = options;
    }

    /// Returns an error if the validator refuses the new form of a document. `before` is its old
    /// form.
    pub(crate) fn validate(
        &self,
        document: &Document,
        before: Option<&Document>,
        environment: &Environment<'_>,
    ) -> Result<(), StoreError> {
        let Some(validator) = self
            .validator
            .as_ref()
            .filter(|_| !environment.bypasses_validation)
        else {
            return Ok(());
        };
        let context = EvaluationContext {
            collation: self.collation.clone(),
            ..environment.evaluation_context()
        };
        validator.validate(document, before, &context)
    }

    /// Returns the documents in natural order.
    pub fn documents(&self) -> impl Iterator<Item = &Shared> {
        self.ordered().map(|(_, document)| document)
    }

    /// Returns the name of the collection that a view is on. Returns `None` if this is not a view.
    pub(crate) fn view_on(&self) -> Option<&str> {
        self.options.get_str("viewOn").ok()
    }

    /// Returns the name of the collection that a view is on, and the view's pipeline. Returns
    /// `None` if this is not a view.
    pub(crate) fn view(&self) -> Option<(&str, Vec<Document>)> {
        let on = self.view_on()?;
        let stages = self.options.get_array("pipeline").ok();
        let stages = stages
            .into_iter()
            .flatten()
            .filter_map(Bson::as_document)
            .cloned();
        Some((on, stages.collect()))
    }

    /// Returns the facts that change streams use about a write to this collection.
    pub(crate) fn origin(&self) -> Origin {
        let images = self.options.get_document("changeStreamPreAndPostImages");
        let enabled = images.ok().and_then(|images| images.get("enabled"));
        Origin {
            serial: self.serial,
            keeps_images: enabled.is_some_and(super::expression::truthy),
            is_series: self.time_series().is_some(),
        }
    }

    pub(crate) fn is_capped(&self) -> bool {
        self.options
            .get("capped")
            .is_some_and(super::expression::truthy)
    }

    /// Returns the record number of the next document: one more than the largest stored one. So a
    /// reverted insert uses up no number.
    pub(crate) fn next_record(&self) -> u64 {
        self.records
            .last_key_value()
            .map_or(1, |(last, _)| last + 1)
    }

    /// Returns an error if another record than `own` has the document's `_id`, if an index refuses
    /// the document, or if the document and its keys do not fit into `room` bytes. The keys that
    /// the document of `own` has already need no room.
    pub(crate) fn check(
        &self,
        namespace: &Namespace,
        document: &Document,
        own: Option<u64>,
        mut room: usize,
    ) -> Result<(), StoreError> {
        let key = self.key_of_id(document);
        if self
            .by_id
            .get(&key)
            .is_some_and(|record| Some(*record) != own)
        {
            let (index, values) = (self.id_index(), doc! { "_id": key.0 });
            return Err(duplicate_key(namespace, &index, values));
        }
        let size = super::size::of(document);
        room = room.checked_sub(size).ok_or_else(out_of_space)?;
        let former = own.and_then(|own| self.records.get(&own));
        let changed =
            |index: &&Index| !former.is_some_and(|old| index.has_same_keys(old, document));
        for index in self.indexes.iter().filter(changed) {
            room -= index.check(namespace, document, own, room)?;
        }
        Ok(())
    }

    /// Returns the keys of a document in the unique indexes, that of `_id` included.
    pub(super) fn unique_keys(&self, document: &Document) -> BTreeSet<UniqueKey> {
        let mut keys = BTreeSet::new();
        if self.time_series().is_none() {
            keys.insert((ID_INDEX.to_owned(), vec![self.key_of_id(document)]));
        }
        for index in self.indexes.iter().filter(|index| index.is_unique()) {
            let name = index.name();
            let found = index.keys(document).unwrap_or_default().keys.into_iter();
            keys.extend(found.map(|key| (name.to_owned(), key)));
        }
        keys
    }

    /// Returns the records that have a key of a unique index.
    pub(super) fn holders(&self, (name, key): &UniqueKey) -> impl Iterator<Item = u64> {
        let is_id = name == ID_INDEX;
        let by_id = key.first().filter(|_| is_id);
        let by_id = by_id.and_then(|id| self.by_id.get(id)).copied();
        let mut indexes = self.indexes.iter().filter(|_| !is_id);
        let index = indexes.find(|index| index.name() == name);
        let found = index.map(|index| index.holders(key));
        by_id.into_iter().chain(found.into_iter().flatten())
    }

    /// Returns the memory of the collection in bytes: the encoding of its documents, and the keys
    /// of its secondary indexes.
    pub(super) fn memory(&self) -> usize {
        let documents = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let keys = self.indexes.iter().map(Index::bytes).sum();
        documents.saturating_add(keys)
    }

    /// Returns the specification of the index by which the collection is clustered, or `None` if it
    /// is not clustered.
    pub(crate) fn clustered(&self) -> Option<&Document> {
        self.options.get_document("clusteredIndex").ok()
    }

    /// True if the collection is clustered by an index of this name.
    pub(super) fn is_clustered_by(&self, name: &str) -> bool {
        let index = self.clustered();
        index.is_some_and(|index| index.get_str("name").is_ok_and(|own| own == name))
    }

    /// Returns the specification of the index on `_id`.
    pub(super) fn id_index(&self) -> Document {
        let mut index = id_index(self.collation.as_deref());
        if let Some(clustered) = self.clustered() {
            index.extend(clustered.clone());
            index.insert("clustered", true);
        }
        index
    }

    /// Returns the records in natural order: the order of the inserts, or that of `_id` in a
    /// clustered collection.
    fn ordered(&self) -> Box<dyn Iterator<Item = (u64, &Shared)> + '_> {
        match self.clustered() {
            None => Box::new(
                self.records
                    .iter()
                    .map(|(record, document)| (*record, document)),
            ),
            Some(_) => Box::new(self.by_id.values().filter_map(|record| {
                let document = self.records.get(record)?;
                Some((*record, document))
            })),
        }
    }

    /// Returns the numbers of the records whose `_id` is a date up to `last`.
    pub(super) fn dated(&self, last: DateTime) -> impl Iterator<Item = u64> + '_ {
        let (first, last) = (DateTime::MIN, Key(Bson::DateTime(last)));
        let dates = self.by_id.iter_from(&Key(Bson::DateTime(first)));
        let dates = dates.take_while(move |(date, _)| **date <= last);
        dates.map(|(_, record)| *record)
    }

    /// Returns the stored document with the same `_id` as the given one.
    pub(super) fn with_id_of(&self, document: &Document) -> Option<&Shared> {
        self.records.get(self.by_id.get(&self.key_of_id(document))?)
    }

    /// True if a document has the `_id` of this document.
    pub(super) fn has_id_of(&self, document: &Document) -> bool {
        self.by_id.contains_key(&self.key_of_id(document))
    }

    fn key_of_id(&self, document: &Document) -> Key {
        let id = document.get("_id").unwrap_or(&Bson::Null);
        collation::key(self.collation.as_deref(), id)
    }

    /// Stores a document, in the place of the record's former document if there is one. The record
    /// is set first, so that [`take`](Self::take), or a call with the former document, can undo an
    /// interrupted call.
    pub(crate) fn put(&mut self, record: u64, document: Shared) {
        self.bytes += bytes_of(&document);
        let former = self.records.insert(record, document.clone());
        let former = former.as_deref();
        self.bytes -= former.map_or(0, bytes_of);
        let has_own_id = former.is_none_or(|former| former.get("_id") != document.get("_id"));
        if self.time_series().is_none() && has_own_id {
            if let Some(former) = former {
                self.by_id.remove(&self.key_of_id(former));
            }
            self.by_id.insert(self.key_of_id(&document), record);
        }
        for index in &mut self.indexes {
            match former {
                Some(former) if index.has_same_keys(former, &document) => {}
                Some(former) => {
                    index.remove(record, former);
                    index.insert(record, &document);
                }
                None => index.insert(record, &document),
            }
        }
    }

    /// Returns the reason if an index does not have exactly the keys of the documents.
    pub(crate) fn check_indexes(&self) -> Result<(), String> {
        let mut rebuilt = Self::new(self.options.clone(), self.serial);
        for index in &self.indexes {
            rebuilt.add_index(usize::MAX, index.specification.clone());
        }
        for (record, document) in &self.records {
            rebuilt.put(*record, document.clone());
        }
        if rebuilt.by_id != self.by_id {
            return Err("the index of _id does not have the keys of the documents".to_owned());
        }
        for (index, rebuilt) in self.indexes.iter().zip(&rebuilt.indexes) {
            if index != rebuilt {
                let name = index.name();
                return Err(format!(
                    "the index {name} does not have the keys of the documents"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, record: u64) {
        let Some(document) = self.records.remove(&record) else {
            return;
        };
        self.bytes -= bytes_of(&document);
        if self.time_series().is_none() {
            self.by_id.remove(&self.key_of_id(&document));
        }
        for index in &mut self.indexes {
            index.remove(record, &document);
        }
    }

    /// Builds an index, and inserts it at `position` among the secondary indexes. Duplicate keys
    /// are not an error here.
    pub(crate) fn add_index(&mut self, position: usize, specification: Arc<Document>) {
        let mut index = Index::new(specification);
        for (record, document) in &self.records {
            index.insert(*record, document);
        }
        self.indexes.insert(position.min(self.indexes.len()), index);
    }

    /// Returns the numbers of the records that an index finds for the filter. `None` means that all
    /// records must be tested: no index can be used, or it finds most of the records. An index of
    /// another collation than that of the query does not find strings.
    fn candidates(&self, matcher: &Matcher, query: Option<&Collation>) -> Option<Vec<u64>> {
        let fits = |own: Option<&Collation>, values: &[&Bson]| {
            own == query || values.iter().all(|value| collation::is_independent(value))
        };
        let own = self.collation.as_deref();
        if let Some(ids) = matcher.ids()
            && self.time_series().is_none()
            && fits(own, &ids)
        {
            let found = ids
                .iter()
                .filter_map(|id| self.by_id.get(&collation::key(own, id)).copied());
            return Some(sorted(found.collect()));
        }
        let by_equality = |index: &Index| {
            let values = matcher.equalities(index.lookup_field()?)?;
            let fits = fits(index.collation.as_deref(), &values);
            fits.then(|| sorted(values.iter().flat_map(|v| index.lookup(v)).collect()))
        };
        let by_range = |index: &Index| {
            let bounds = matcher.bounds(index.lookup_field()?);
            let values = bounds.values();
            if values.is_empty() || !fits(index.collation.as_deref(), &values) {
                return None;
            }
            // To test all records is faster than to sort the numbers of most of them.
            let most = self.records.len() / 2;
            let found: Vec<_> = index.lookup_range(bounds).take(most + 1).collect();
            (found.len() <= most).then(|| sorted(found))
        };
        let mut indexes = self.indexes.iter();
        indexes
            .find_map(by_equality)
            .or_else(|| self.indexes.iter().find_map(by_range))
    }

    /// Returns the numbers of at most `limit` matching records, in natural order.
    pub(crate) fn matching(
        &self,
        matcher: &Matcher,
        context: &EvaluationContext,
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let mut found = Vec::new();
        let mut consider = |record: u64, document: &Document| {
            context.budget.step(1)?;
            if matcher.matches(document, context)? {
                found.push(record);
            }
            Ok(found.len() < limit)
        };
        match self.candidates(matcher, context.collation.as_deref()) {
            Some(mut candidates) => {
                if self.clustered().is_some() {
                    candidates.sort_by_cached_key(|record| {
                        self.records
                            .get(record)
                            .map(|document| self.key_of_id(document))
                    });
                }
                for record in candidates {
                    let Some(document) = self.records.get(&record) else {
                        continue;
                    };
                    if !consider(record, document)? {
                        break;
                    }
                }
            }
            None => {
                for (record, document) in self.ordered() {
                    if !consider(record, document)? {
                        break;
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns the records that a capped collection must delete to keep its limits `max` and
    /// `size`, the oldest first. The newest record always stays.
    pub(crate) fn overflow(&self) -> Vec<u64> {
        if !self.is_capped() {
            return Vec::new();
        }
        let most = self.bound("max").filter(|n| *n > 0).unwrap_or(u64::MAX);
        let bytes = self.bound("size").unwrap_or(u64::MAX);
        let (mut count, mut size) = (self.records.len() as u64, self.bytes);
        let mut gone = Vec::new();
        for (record, document) in &self.records {
            if count <= most && size <= bytes || count <= 1 {
                break;
            }
            gone.push(*record);
            count -= 1;
            size -= bytes_of(document);
        }
        gone
    }

    /// Returns the option `max` or `size` of a capped collection.
    pub(crate) fn bound(&self, name: &str) -> Option<u64> {
        let value = self.options.get(name).and_then(number::as_integer)?;
        u64::try_from(value).ok()
    }

    pub(crate) const fn size_bytes(&self) -> u64 {
        self.bytes
    }
}

/// Returns the numbers of records in natural order, each of them once.
fn sorted(mut records: Vec<u64>) -> Vec<u64> {
    records.sort_unstable();
    records.dedup();
    records
}

fn bytes_of(document: &Document) -> u64 {
    super::size::of(document) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_was_interrupted_before_the_indexes_can_be_undone() {
        let mut collection = Collection::new(Arc::default(), 1);
        collection.add_index(0, Arc::new(doc! { "key": { "a": 1 }, "name": "a_1" }));
        let former = Arc::new(doc! { "_id": 1, "a": ["x", "y"] });
        collection.put(1, former.clone());
        let (before, bytes) = (collection.clone(), collection.indexes[0].bytes());
        assert!(bytes > 0);
        let changed = Arc::new(doc! { "_id": 1, "a": ["y", "z"] });
        collection.bytes = collection.bytes - bytes_of(&former) + bytes_of(&changed);
        collection.records.insert(1, changed);
        collection.put(1, former);
        assert_eq!(collection, before);
        assert_eq!(collection.indexes[0].bytes(), bytes);
    }
}
