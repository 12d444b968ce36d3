//! Queries that name an index: its order, its bounds, and the keys and record numbers of documents.

use std::sync::Arc;

use bson::{Bson, Document};

use super::collation::Collation;
use super::collection::Collection;
use super::error::StoreError;
use super::expression::EvaluationContext;
use super::index::{Index, generated_name};
use super::matcher::Matcher;
use super::release::Release;
use super::sort::Sort;
use super::types::{Find, Namespace, Shared};
use super::{Answer, Store, path};

/// The order, the bounds and the place of the index that a hint names.
#[derive(Debug, Default)]
pub(super) struct Hinted {
    /// The key of the index, if the hint is not `$natural`.
    key: Option<Document>,
    /// The order of the index, if the query has no sort pattern.
    order: Option<Sort>,
    is_backward: bool,
    /// The position of the index among the secondary indexes of the collection.
    position: Option<usize>,
}

impl Hinted {
    /// Returns what a query uses of the index of its hint. The index must exist.
    pub(super) fn new(collection: &Collection, find: &Find) -> Answer<Self> {
        let named = |index: &Index| match &find.hint {
            Some(Bson::String(name)) => index.name() == name,
            Some(Bson::Document(key)) => {
                let own = index.specification.get_document("key");
                own.is_ok_and(|own| generated_name(own) == generated_name(key))
            }
            _ => false,
        };
        let position = collection.indexes.iter().position(named);
        let key = match &find.hint {
            Some(Bson::String(name)) if name != "_id_" && !collection.is_clustered_by(name) => {
                let index = position.and_then(|position| collection.indexes.get(position));
                index.and_then(|index| index.specification.get_document("key").ok().cloned())
            }
            Some(Bson::String(_)) => Some(bson::doc! { "_id": 1 }),
            Some(Bson::Document(key)) if !key.is_empty() => Some(key.clone()),
            _ => None,
        };
        let natural = key.as_ref().and_then(|key| key.get("$natural"));
        let is_backward = natural.is_some_and(|n| super::number::as_double(n) == Some(-1.0));
        let mut key = key.filter(|key| !key.contains_key("$natural"));
        if key.is_none() && (find.min.is_some() || find.max.is_some()) {
            let text = "When using min()/max() a hint of which index to use must be provided";
            return Err(StoreError::new(51173, text));
        }
        for bound in [&find.min, &find.max].into_iter().flatten() {
            let fits = key.as_ref().is_some_and(|key| key.keys().eq(bound.keys()));
            if !fits {
                let own = key.as_ref().map(generated_name).unwrap_or_default();
                let text = format!("the bounds of min and max do not have the fields of {own}");
                return Err(StoreError::new(51174, text));
            }
        }
        if find.hint.is_none() && find.return_key {
            key = planned_key(collection, find);
        }
        // Special indexes such as `hashed` and `2dsphere` have no order.
        let is_ordered = |key: &&Document| key.values().all(super::number::is_number);
        let order = key.as_ref().filter(is_ordered).map(|key| {
            // Any positive number stands for ascending order.
            let signs = key.iter().map(|(field, direction)| {
                let is_negative = super::number::as_double(direction).is_some_and(|n| n < 0.0);
                (field.clone(), Bson::Int32(if is_negative { -1 } else { 1 }))
            });
            Sort::new(&signs.collect())
        });
        let order = order.transpose()?;
        Ok(Self {
            key,
            order,
            is_backward,
            position,
        })
    }

    /// Returns the index, if it is not that of `_id`.
    pub(super) fn index<'a>(&self, collection: &'a Collection) -> Option<&'a Index> {
        self.position.and_then(|at| collection.indexes.get(at))
    }

    /// Returns the collation of the index.
    pub(super) fn collation(&self, collection: &Collection) -> Option<Arc<Collation>> {
        self.index(collection).map_or_else(
            || collection.collation.clone(),
            |index| index.collation.clone(),
        )
    }

    /// Orders records as the index does, and removes those outside of the bounds of the query.
    pub(super) fn arrange(
        &self,
        find: &Find,
        found: &mut Vec<(u64, Shared)>,
        context: &EvaluationContext,
    ) {
        // A sort pattern gives the natural order itself.
        let is_natural = |sort: &Document| sort.contains_key("$natural");
        if self.is_backward && !find.sort.as_ref().is_some_and(is_natural) {
            found.reverse();
        }
        let Some(order) = &self.order else { return };
        // The fields of a bound are those of the index, in the same order.
        let bound =
            |given: &Option<Document>| given.as_ref().map(|d| order.key_of_values(d, context));
        let (min, max) = (bound(&find.min), bound(&find.max));
        if min.is_some() || max.is_some() {
            found.retain(|(_, document)| {
                let key = order.key(document, context);
                min.as_ref().is_none_or(|min| key >= *min)
                    && max.as_ref().is_none_or(|max| key < *max)
            });
        }
        let is_sorted = find.sort.as_ref().is_some_and(|sort| !sort.is_empty());
        if !is_sorted {
            found.sort_by_cached_key(|(_, document)| order.key(document, context));
        }
    }

    /// Returns the document that a query with `returnKey` or `showRecordId` returns.
    pub(super) fn shown(&self, find: &Find, record: u64, document: Shared) -> Shared {
        if !find.return_key && !find.show_record_id {
            return document;
        }
        let mut shown = match find.return_key {
            true => {
                let fields = self.key.iter().flat_map(|key| key.keys());
                let values = fields.map(|field| {
                    let value = path::values(&document, field).into_iter().next();
                    (field.clone(), value.cloned().unwrap_or(Bson::Null))
                });
                values.collect()
            }
            false => Document::clone(&document),
        };
        // A server ignores projections with `returnKey`, and the record number is one of them.
        if find.show_record_id && !find.return_key {
            shown.insert("$recordId", record.cast_signed());
        }
        Arc::new(shown)
    }
}

impl Store {
    /// Returns the specification of the index that a query uses, as an explanation shows it, and
    /// true if a document has several keys in it.
    pub(crate) fn planned_index(
        &self,
        namespace: &Namespace,
        find: &Find,
    ) -> Option<(Arc<Document>, bool)> {
        let collection = self.collection(namespace)?;
        if let Some(Bson::String(_) | Bson::Document(_)) = find.hint {
            let hinted = Hinted::new(collection, find).ok()?;
            let own = || (Arc::new(collection.id_index()), false);
            return match hinted.index(collection) {
                Some(index) => Some((index.specification.clone(), index.is_multikey())),
                None => hinted.key.is_some().then(own),
            };
        }
        let key = planned_key(collection, find)?;
        let named = |index: &&Index| index.specification.get_document("key").ok() == Some(&key);
        let index = collection.indexes.iter().find(named)?;
        Some((index.specification.clone(), index.is_multikey()))
    }
}

/// Returns the key of the index that a query without a hint uses: one for its filter, otherwise one
/// for its order.
fn planned_key(collection: &Collection, find: &Find) -> Option<Document> {
    let mut keys = vec![bson::doc! { "_id": 1 }];
    let fits = |index: &&Index| {
        let partial = index.specification.get_document("partialFilterExpression");
        match partial {
            Ok(partial) => index.is_kept() && is_implied(partial, &find.filter),
            Err(_) => index.lookup_field().is_some(),
        }
    };
    let others = collection.indexes.iter().filter(fits);
    keys.extend(others.filter_map(|index| index.specification.get_document("key").ok().cloned()));
    let is_first = |key: &Document, of: &Document| {
        let first = key.keys().next();
        first.is_some_and(|first| of.contains_key(first))
    };
    let by_filter = keys.iter().find(|key| is_first(key, &find.filter));
    let by_order = || {
        let sort = find.sort.as_ref().filter(|sort| !sort.is_empty())?;
        keys.iter()
            .find(|key| sort.len() <= key.len() && sort.keys().zip(key.keys()).all(|(a, b)| a == b))
    };
    by_filter.or_else(by_order).cloned()
}

/// True if each document that a query finds satisfies the filter of a partial index. Of conditions
/// on one field, equality and bounds are compared.
fn is_implied(partial: &Document, filter: &Document) -> bool {
    let Ok(query) = Matcher::new(filter, Release::default()) else {
        return false;
    };
    partial.iter().all(|(field, condition)| {
        let Ok(wanted) = Matcher::new(&bson::doc! { field: condition.clone() }, Release::default())
        else {
            return false;
        };
        let context = EvaluationContext::default();
        let fits = |value: &Bson| {
            let witness = bson::doc! { field: value.clone() };
            wanted.matches(&witness, &context).unwrap_or(false)
        };
        if let Some(values) = query.equalities(field) {
            return values.into_iter().all(fits);
        }
        let is_range = condition.as_document().is_some_and(|operators| {
            let mut names = operators.keys().map(String::as_str);
            names.all(|name| matches!(name, "$gt" | "$gte" | "$lt" | "$lte"))
        });
        let (wanted, given) = (wanted.bounds(field), query.bounds(field));
        let is_within = |wanted: Option<&Bson>, given: Option<&Bson>| {
            wanted.is_none() || given.is_some_and(fits)
        };
        is_range && is_within(wanted.lower, given.lower) && is_within(wanted.upper, given.upper)
    })
}
