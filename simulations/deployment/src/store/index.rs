//! Secondary indexes, which enforce uniqueness and find documents by the values of one field.

use std::sync::Arc;

use bson::{Bson, DateTime, Document, doc};

use super::chunks::{Chunks, Iter};
use super::collation::{self, Collation, display_key};
use super::error::StoreError;
use super::expression::EvaluationContext;
use super::index_key::is_wildcard;
use super::keys::{self, KeyMaker, Keys};
use super::matcher::Matcher;
use super::order::{Key, display, display_document, identical};
use super::release::Release;
use super::types::{Namespace, Shared};

/// A key of a document, with the number of its record.
type Entry = (Arc<[Key]>, u64);

/// An index other than that of `_id`.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) specification: Arc<Document>,
    fields: Vec<String>,
    /// True if no two documents may get the same key: for an index that is unique, or that is
    /// prepared for it.
    unique: bool,
    sparse: bool,
    /// The field whose values are hashed.
    hashed: Option<String>,
    /// False for an index of text or of all fields, whose keys are not kept.
    is_kept: bool,
    partial: Option<Matcher>,
    pub(crate) collation: Option<Arc<Collation>>,
    entries: Chunks<Entry, ()>,
    /// The memory of the keys of all documents in bytes.
    bytes: usize,
    /// True if a document ever had several keys.
    is_multikey: bool,
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
            unique: flag("unique") || flag("prepareUnique"),
            sparse: flag("sparse"),
            hashed: key
                .iter()
                .find(|(_, kind)| kind.as_str() == Some("hashed"))
                .map(|(field, _)| field.clone()),
            is_kept: !key
                .iter()
                .any(|(field, kind)| is_wildcard(field) || kind.as_str() == Some("text")),
            partial: partial.and_then(|filter| Matcher::new(filter, Release::default()).ok()),
            entries: Chunks::default(),
            bytes: 0,
            is_multikey: false,
            specification,
        }
    }

    /// True if no two documents may get the same key.
    pub(super) const fn is_unique(&self) -> bool {
        self.unique
    }

    /// Returns the records that have a key.
    pub(super) fn holders(&self, key: &[Key]) -> impl Iterator<Item = u64> {
        let wanted: Arc<[Key]> = key.into();
        let found = self.entries_from(wanted.clone());
        let found = found.take_while(move |((key, _), ())| *key == wanted);
        found.map(|((_, record), ())| *record)
    }

    /// Returns the entries from a key on, in the order of their keys.
    fn entries_from(&self, key: impl Into<Arc<[Key]>>) -> Iter<'_, Entry, ()> {
        let first: Entry = (key.into(), 0);
        self.entries.iter_from(&first)
    }

    pub(crate) fn name(&self) -> &str {
        self.specification.get_str("name").unwrap_or_default()
    }

    /// Returns the keys that a document has in this index.
    pub(super) fn keys(&self, document: &Document) -> Result<Keys, StoreError> {
        if !self.is_kept {
            return Ok(Keys::default());
        }
        if let Some(partial) = &self.partial {
            let context = EvaluationContext {
                collation: self.collation.clone(),
                ..EvaluationContext::default()
            };
            if !partial.matches(document, &context).unwrap_or(false) {
                return Ok(Keys::default());
            }
        }
        let maker = KeyMaker {
            fields: &self.fields,
            sparse: self.sparse,
            key: &|value| collation::key(self.collation.as_deref(), value),
        };
        maker.keys(document)
    }

    /// Returns an error if the index refuses a document: if the document has no keys for a reason
    /// of [`KeyMaker::keys`], if it has an array in a field that is hashed, if the keys do not fit
    /// into `room` bytes, or if this index is unique and another record than `own` has one of them,
    /// which `own` does not have already.
    /// Returns the memory of the keys.
    pub(crate) fn check(
        &self,
        namespace: &Namespace,
        document: &Document,
        own: Option<u64>,
        room: usize,
    ) -> Result<usize, StoreError> {
        if let Some(field) = &self.hashed
            && keys::has_array(document, field)
        {
            let text = format!(
                "hashed indexes do not currently support array values. Found array at path: {field}"
            );
            return Err(StoreError::new(16766, text));
        }
        let Keys { keys, bytes } = self.keys(document)?;
        if bytes > room {
            return Err(out_of_space());
        }
        for key in keys.iter().filter(|_| self.unique) {
            let has_own = |own| {
                let entry: Entry = (key.as_slice().into(), own);
                self.entries.contains_key(&entry)
            };
            if self.holders(key).next().is_some() && !own.is_some_and(has_own) {
                return Err(self.duplicate(namespace, key));
            }
        }
        Ok(bytes)
    }

    /// Returns the records of each key that several documents have, in the order of the keys.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = Vec<u64>> {
        let mut entries = self.entries.iter().peekable();
        let groups = std::iter::from_fn(move || {
            let ((key, first), ()) = entries.next()?;
            let mut records = vec![*first];
            while let Some(((_, record), ())) = entries.next_if(|((other, _), ())| other == key) {
                records.push(*record);
            }
            Some(records)
        });
        groups.filter(|records| records.len() > 1)
    }

    /// Returns the memory of the keys of all documents in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
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

    /// True if a document that replaces `former` surely has the same keys, because it has the same
    /// values at the first name of each path. That is cheaper to find out than the keys.
    pub(super) fn has_same_keys(&self, former: &Document, document: &Document) -> bool {
        let heads = self
            .fields
            .iter()
            .filter_map(|field| field.split('.').next());
        let mut values = heads.map(|head| (former.get(head), document.get(head)));
        self.partial.is_none()
            && values.all(|values| match values {
                (Some(former), Some(value)) => identical(former, value),
                (former, value) => former.is_none() && value.is_none(),
            })
    }

    /// Adds the keys of a document. A document that [`check`](Self::check) refuses, which another
    /// member accepted, has no key.
    pub(crate) fn insert(&mut self, record: u64, document: &Document) {
        let Ok(Keys { keys, .. }) = self.keys(document) else {
            return;
        };
        self.is_multikey |= keys.len() > 1;
        for key in keys {
            let bytes = keys::bytes_of(&key);
            // After an interrupted change, keys can be there already.
            if self.entries.insert((key.into(), record), ()).is_none() {
                self.bytes += bytes;
            }
        }
    }

    pub(crate) fn remove(&mut self, record: u64, document: &Document) {
        let Ok(Keys { keys, .. }) = self.keys(document) else {
            return;
        };
        for key in keys {
            let entry: Entry = (key.into(), record);
            // After an interrupted insert, keys can be missing.
            if self.entries.remove(&entry).is_some() {
                self.bytes = self.bytes.saturating_sub(keys::bytes_of(&entry.0));
            }
        }
    }

    /// False for an index of text or of all fields, whose keys are not kept.
    pub(super) const fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// True if a document has several keys in this index.
    pub(crate) const fn is_multikey(&self) -> bool {
        self.is_multikey
    }

    /// Returns the first field of an index without a partial filter, and `None` for other indexes.
    /// A lookup by this field finds every document that has one of the values.
    pub(crate) fn lookup_field(&self) -> Option<&str> {
        match self.fields.first() {
            Some(field) if self.partial.is_none() && self.is_kept => Some(field),
            _ => None,
        }
    }

    /// True if a query by the hint of this index does not find documents without a key in it.
    pub(crate) fn omits(&self, document: &Document) -> bool {
        let is_partial = self.sparse || self.partial.is_some();
        is_partial && self.is_kept && self.keys(document).is_ok_and(|keys| keys.keys.is_empty())
    }

    /// Returns the numbers of the records with a date up to `last`. One with several dates can be
    /// there several times.
    pub(crate) fn dated(&self, last: DateTime) -> impl Iterator<Item = u64> + '_ {
        let (first, last) = (DateTime::MIN, [Key(Bson::DateTime(last))]);
        let dates = self.entries_from([Key(Bson::DateTime(first))]);
        let dates = dates.take_while(move |((key, _), ())| key[..] <= last[..]);
        dates.map(|((_, record), ())| *record)
    }

    /// Returns the records whose first field has this value.
    pub(crate) fn lookup(&self, value: &Bson) -> impl Iterator<Item = u64> + '_ {
        let wanted = self.key(value);
        let found = self.entries_from([wanted.clone()]);
        let found = found.take_while(move |((key, _), ())| key.first() == Some(&wanted));
        found.map(|((_, record), ())| *record)
    }

    /// Returns the records whose first field is within the bounds, or in a multikey index within
    /// one of them.
    pub(crate) fn lookup_range(&self, bounds: Bounds<'_>) -> impl Iterator<Item = u64> + '_ {
        let lower = bounds.lower.map(|value| self.key(value));
        let upper = bounds
            .upper
            .filter(|_| lower.is_none() || !self.is_multikey);
        let upper = upper.map(|value| self.key(value));
        let found = match lower {
            Some(lower) => self.entries_from([lower]),
            None => self.entries.iter(),
        };
        let found = found.take_while(move |((key, _), ())| {
            upper
                .as_ref()
                .is_none_or(|upper| key.first() <= Some(upper))
        });
        found.map(|((_, record), ())| *record)
    }

    fn key(&self, value: &Bson) -> Key {
        collation::key(self.collation.as_deref(), value)
    }

    /// Adds all records to a new index. An error of [`check`](Self::check) is an error here, with
    /// `room` for all keys together.
    pub(crate) fn build(
        &mut self,
        namespace: &Namespace,
        records: &Chunks<u64, Shared>,
        room: usize,
    ) -> Result<(), StoreError> {
        for (record, document) in records {
            self.check(namespace, document, None, room.saturating_sub(self.bytes))?;
            self.insert(*record, document);
        }
        Ok(())
    }
}

/// The bounds of a query on a field, as values that the documents may have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds<'a> {
    pub(crate) lower: Option<&'a Bson>,
    pub(crate) upper: Option<&'a Bson>,
}

impl<'a> Bounds<'a> {
    /// Takes over the bounds of another condition on the field, where these have none.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            lower: self.lower.or(other.lower),
            upper: self.upper.or(other.upper),
        }
    }

    pub(crate) fn values(self) -> Vec<&'a Bson> {
        self.lower.into_iter().chain(self.upper).collect()
    }
}

/// Returns the error of a command that would exceed the limit of the data of a member.
pub(super) fn out_of_space() -> StoreError {
    let text = "the data and the indexes of this member have reached its limit of memory; drop \
                data, or raise Limits::max_data_bytes";
    StoreError::new(14031, text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_beside_a_clone_copies_few_entries_although_many_documents_have_one_value() {
        let document = |n: u64| {
            let value = if n.is_multiple_of(2) { "even" } else { "odd" };
            doc! { "a": value }
        };
        let mut index = Index::new(Arc::new(doc! { "key": { "a": 1 }, "name": "a_1" }));
        for n in 0..10_000 {
            index.insert(n, &document(n));
        }
        // A copy of an entry is one more reference to its key.
        let counts = |index: &Index| -> Vec<usize> {
            let keys = index.entries.iter().map(|((key, _), ())| key);
            keys.map(Arc::strong_count).collect()
        };
        let clone = index.clone();
        let before = counts(&clone);
        index.remove(5000, &document(5000));
        index.insert(5000, &document(5000));
        let after = counts(&clone);
        let copied = before.iter().zip(&after).filter(|(b, a)| b != a).count();
        assert!((1..=200).contains(&copied), "{copied} entries were copied");
        assert_eq!(index, clone);
        let found: Vec<u64> = index.lookup(&Bson::from("odd")).collect();
        assert!(found.into_iter().eq((1..10_000).step_by(2)));
        let groups: Vec<usize> = index.duplicates().map(|group| group.len()).collect();
        assert_eq!(groups, [5000, 5000]);
    }
}
