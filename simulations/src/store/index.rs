//! Secondary indexes, which enforce uniqueness and find documents by the equality of one field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bson::{Bson, DateTime, Document, doc};

use super::collation::{self, Collation, display_key};
use super::error::StoreError;
use super::expression::EvaluationContext;
use super::index_options::is_wildcard;
use super::matcher::Matcher;
use super::order::{Key, display, display_document};
use super::types::{Namespace, Shared};
use super::{path, size};

/// The largest number of keys of one document in an index. Further keys are left out.
const MAX_KEYS: usize = 10_000;

/// The memory that one document's keys in an index may take, in bytes. Further keys are left out.
const MAX_KEY_BYTES: usize = 512 * 1024 * 1024;

/// An index other than that of `_id`.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) specification: Arc<Document>,
    fields: Vec<String>,
    unique: bool,
    sparse: bool,
    /// The field whose values are hashed.
    hashed: Option<String>,
    /// False for an index of text or of all fields, whose keys are not kept.
    is_kept: bool,
    partial: Option<Matcher>,
    pub(crate) collation: Option<Arc<Collation>>,
    entries: BTreeMap<Vec<Key>, BTreeSet<u64>>,
}

impl PartialEq for Index {
    fn eq(&self, other: &Self) -> bool {
        self.specification == other.specification && self.entries == other.entries
    }
}

impl Index {
    pub(crate) fn new(specification: Arc<Document>) -> Self {
        let flag = |name: &str| {
            specification
                .get(name)
                .is_some_and(super::expression::truthy)
        };
        let key = specification
            .get_document("key")
            .cloned()
            .unwrap_or_default();
        let partial = specification.get_document("partialFilterExpression").ok();
        let collation = specification.get_document("collation").ok();
        Self {
            collation: collation.and_then(|given| Collation::parse(given).ok().flatten()),
            fields: key.keys().cloned().collect(),
            unique: flag("unique"),
            sparse: flag("sparse"),
            hashed: key
                .iter()
                .find(|(_, kind)| kind.as_str() == Some("hashed"))
                .map(|(field, _)| field.clone()),
            is_kept: !key
                .iter()
                .any(|(field, kind)| is_wildcard(field) || kind.as_str() == Some("text")),
            partial: partial.and_then(|filter| Matcher::new(filter).ok()),
            entries: BTreeMap::new(),
            specification,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.specification.get_str("name").unwrap_or_default()
    }

    /// Returns the keys that a document has in this index.
    fn keys(&self, document: &Document) -> BTreeSet<Vec<Key>> {
        if !self.is_kept {
            return BTreeSet::new();
        }
        if let Some(partial) = &self.partial {
            let context = EvaluationContext {
                collation: self.collation.clone(),
                ..EvaluationContext::default()
            };
            if !partial.matches(document, &context).unwrap_or(false) {
                return BTreeSet::new();
            }
        }
        let key = |value: &Bson| collation::key(self.collation.as_deref(), value);
        let mut keys: Vec<Vec<Key>> = vec![Vec::new()];
        let mut present = false;
        for field in &self.fields {
            let mut values = BTreeSet::new();
            path::any(document, field, &mut |value| {
                present |= value.is_some();
                match value {
                    None => values.insert(Key(Bson::Null)),
                    Some(Bson::Array(items)) if items.is_empty() => {
                        values.insert(Key(Bson::Undefined))
                    }
                    Some(Bson::Array(items)) => {
                        values.extend(items.iter().map(key));
                        true
                    }
                    Some(value) => values.insert(key(value)),
                };
                false
            });
            if values.is_empty() {
                values.insert(Key(Bson::Null));
            }
            keys = keys
                .iter()
                .flat_map(|key| {
                    values
                        .iter()
                        .map(|v| [key.as_slice(), std::slice::from_ref(v)].concat())
                })
                .take(MAX_KEYS)
                .scan(0_usize, |bytes, key| {
                    let more: usize = key.iter().map(|part| size::memory(&part.0)).sum();
                    *bytes = bytes.saturating_add(more);
                    (*bytes <= MAX_KEY_BYTES).then_some(key)
                })
                .collect();
        }
        if self.sparse && !present {
            return BTreeSet::new();
        }
        keys.into_iter().collect()
    }

    /// Returns an error if this index is unique and another record than `own` has one of the
    /// document's keys, if the document has an array in a field that is hashed, or if it has
    /// different arrays in two fields.
    pub(crate) fn check(
        &self,
        namespace: &Namespace,
        document: &Document,
        own: Option<u64>,
    ) -> Result<(), StoreError> {
        if let Some(field) = &self.hashed {
            let is_array = path::any(document, field, &mut |v| matches!(v, Some(Bson::Array(_))));
            if is_array {
                let text = format!(
                    "hashed indexes do not currently support array values. Found array at path: \
                     {field}"
                );
                return Err(StoreError::new(16766, text));
            }
        }
        self.check_arrays(document)?;
        if !self.unique {
            return Ok(());
        }
        for key in self.keys(document) {
            let taken = self.entries.get(&key);
            if taken.is_some_and(|records| records.iter().any(|r| Some(*r) != own)) {
                return Err(self.duplicate(namespace, &key));
            }
        }
        Ok(())
    }

    /// Returns an error if two fields of the key have different arrays on their paths, because the
    /// document would have a key for each pair of their elements.
    fn check_arrays(&self, document: &Document) -> Result<(), StoreError> {
        if !self.is_kept || self.fields.len() < 2 {
            return Ok(());
        }
        let mut first = None;
        for field in &self.fields {
            let Some(array) = path::first_array(document, field) else {
                continue;
            };
            let other = *first.get_or_insert(array);
            if other != array {
                let text = format!("cannot index parallel arrays [{array}] [{other}]");
                return Err(StoreError::new(171, text));
            }
        }
        Ok(())
    }

    fn duplicate(&self, namespace: &Namespace, key: &[Key]) -> StoreError {
        let values: Document = self
            .fields
            .iter()
            .zip(key)
            .map(|(f, k)| (f.clone(), k.0.clone()))
            .collect();
        duplicate_key(namespace, &self.specification, values)
    }

    pub(crate) fn insert(&mut self, record: u64, document: &Document) {
        for key in self.keys(document) {
            self.entries.entry(key).or_default().insert(record);
        }
    }

    pub(crate) fn remove(&mut self, record: u64, document: &Document) {
        for key in self.keys(document) {
            if let Some(records) = self.entries.get_mut(&key) {
                records.remove(&record);
                if records.is_empty() {
                    self.entries.remove(&key);
                }
            }
        }
    }

    /// Returns the field of an index over one field without a partial filter, and `None` for other
    /// indexes. A lookup by equality in such an index finds every document that matches, unless the
    /// keys of the document exceed [`MAX_KEYS`] or [`MAX_KEY_BYTES`].
    pub(crate) fn lookup_field(&self) -> Option<&str> {
        match self.fields.as_slice() {
            [field] if self.partial.is_none() && self.is_kept => Some(field),
            _ => None,
        }
    }

    /// True if a query by the hint of this index does not find documents without a key in it.
    pub(crate) fn omits(&self, document: &Document) -> bool {
        let is_partial = self.sparse || self.partial.is_some();
        is_partial && self.is_kept && self.keys(document).is_empty()
    }

    /// Returns the numbers of the records with a date up to `last`.
    pub(crate) fn dated(&self, last: DateTime) -> BTreeSet<u64> {
        let first = vec![Key(Bson::DateTime(DateTime::MIN))];
        let dates = self.entries.range(first..=vec![Key(Bson::DateTime(last))]);
        dates.flat_map(|(_, records)| records).copied().collect()
    }

    pub(crate) fn lookup(&self, value: &Bson) -> impl Iterator<Item = u64> + '_ {
        self.entries
            .get([collation::key(self.collation.as_deref(), value)].as_slice())
            .into_iter()
            .flatten()
            .copied()
    }

    /// Adds all records to a new index. A duplicate key in a unique index is an error.
    pub(crate) fn build(
        &mut self,
        namespace: &Namespace,
        records: &BTreeMap<u64, Shared>,
    ) -> Result<(), StoreError> {
        for (record, document) in records {
            self.check(namespace, document, None)?;
            self.insert(*record, document);
        }
        Ok(())
    }
}

/// Returns the error for a key in an index that another document already has. The server does not
/// show strings of a collation, but their sort keys.
pub(crate) fn duplicate_key(
    namespace: &Namespace,
    specification: &Document,
    mut values: Document,
) -> StoreError {
    let collation = specification.get_document("collation").ok();
    for value in values.iter_mut().map(|(_, value)| value) {
        if let (Bson::String(key), Some(_)) = (&value, collation) {
            *value = Bson::String(display_key(key));
        }
    }
    let shown: Vec<_> = values
        .iter()
        .map(|(k, v)| format!("{k}: {}", display(v)))
        .collect();
    let index = specification.get_str("name").unwrap_or_default();
    let of = collation.map(|c| format!(" collation: {}", display_document(c)));
    let message = format!(
        "E11000 duplicate key error collection: {namespace} index: {index}{} dup key: {{ {} }}",
        of.unwrap_or_default(),
        shown.join(", ")
    );
    let pattern = specification.get_document("key");
    let error = StoreError::new(11000, message)
        .with("keyPattern", pattern.cloned().unwrap_or_default())
        .with("keyValue", values);
    match collation {
        Some(collation) => error.with("collation", collation.clone()),
        None => error,
    }
}

/// Returns the specification of the index on `_id` of a collection with a default collation.
pub(crate) fn id_index(collation: Option<&Collation>) -> Document {
    let mut index = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" };
    if let Some(collation) = collation {
        index.insert("collation", collation.specification().clone());
    }
    index
}

/// Returns the name that the server makes from the key of an index without a name, such as
/// `a_1_b_-1`.
pub(crate) fn generated_name(key: &Document) -> String {
    let parts: Vec<_> = key
        .iter()
        .map(|(field, direction)| match direction {
            Bson::String(kind) => format!("{field}_{kind}"),
            other => match super::number::as_integer(other) {
                Some(n) => format!("{field}_{n}"),
                None => format!("{field}_{other}"),
            },
        })
        .collect();
    parts.join("_")
}
