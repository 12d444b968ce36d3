//! Sort patterns.

use std::cmp::{Ordering, Reverse};

use bson::{Bson, Document};

use super::error::StoreError;
use super::expression::EvaluationContext;
use super::keys::KeyMaker;
use super::order::Key;
use super::{number, path, size};

type Answer<T> = Result<T, StoreError>;

/// The largest number of fields of a pattern.
const MAX_FIELDS: usize = 32;

/// A parsed sort pattern: the fields, and whether each of them is descending.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    fields: Vec<String>,
    descending: Vec<bool>,
    /// The number of parts of paths that are numbers.
    numbers: usize,
}

/// The number of bytes of a document that are searched in one step.
const BYTES_PER_STEP: usize = 64;

/// One part of a sort key, in reverse order where the pattern is descending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Ascending(Key),
    Descending(Reverse<Key>),
}

impl Part {
    const fn new(key: Key, descending: bool) -> Self {
        match descending {
            true => Self::Descending(Reverse(key)),
            false => Self::Ascending(key),
        }
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Part {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Ascending(a), Self::Ascending(b)) => a.cmp(b),
            (Self::Descending(a), Self::Descending(b)) => a.cmp(b),
            (Self::Ascending(_), Self::Descending(_)) => Ordering::Less,
            (Self::Descending(_), Self::Ascending(_)) => Ordering::Greater,
        }
    }
}

impl Sort {
    /// Parses the key of an index, or a pattern whose names need no check.
    pub(crate) fn new(pattern: &Document) -> Answer<Self> {
        if pattern.len() > MAX_FIELDS {
            return Err(StoreError::bad_value("too many compound keys"));
        }
        let (mut fields, mut descending) = (Vec::new(), Vec::new());
        for (name, direction) in pattern {
            path::check(name)?;
            descending.push(is_descending(name, direction)?);
            fields.push(name.clone());
        }
        let parts = fields.iter().flat_map(|field| field.split('.'));
        let numbers = parts.filter(|part| path::index(part).is_some()).count();
        Ok(Self {
            fields,
            descending,
            numbers,
        })
    }

    /// Parses the pattern of the stage `$sort`.
    pub(crate) fn of_stage(pattern: &Document) -> Answer<Self> {
        if pattern.is_empty() {
            let text = "$sort stage must have at least one sort key";
            return Err(StoreError::new(15976, text));
        }
        pattern
            .keys()
            .try_for_each(|name| path::check_field(name))?;
        Self::new(pattern)
    }

    /// Parses the pattern of a query or of an update, which can be `$natural`.
    pub(crate) fn of_query(pattern: &Document) -> Answer<Self> {
        let Some(direction) = pattern.get("$natural") else {
            pattern
                .keys()
                .try_for_each(|name| path::check_field(name))?;
            return Self::new(pattern);
        };
        if pattern.len() > 1 || !matches!(number::as_integer(direction), Some(1 | -1)) {
            let text = "$natural sort cannot be set to a value other than -1 or 1.";
            return Err(StoreError::bad_value(text));
        }
        Self::new(pattern)
    }

    /// Sorts values by the documents that `document` returns for them.
    ///
    /// # Errors
    ///
    /// If the pattern is ambiguous for a document, or two of its fields are in different arrays.
    pub(crate) fn arrange<T>(
        &self,
        values: &mut Vec<T>,
        context: &EvaluationContext,
        document: impl Fn(&T) -> &Document,
    ) -> Answer<()> {
        if self.is_natural() {
            // The documents are in natural order already.
            if self.is_reversed_natural() {
                values.reverse();
            }
            return Ok(());
        }
        context.budget.step(values.len() as u64)?;
        let mut keyed = Vec::with_capacity(values.len());
        for value in values.drain(..) {
            keyed.push((self.try_key(document(&value), context)?, value));
        }
        keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
        values.extend(keyed.into_iter().map(|(_, value)| value));
        Ok(())
    }

    /// Returns the key by which a document is sorted under the collation of the context. A document
    /// for which the pattern is ambiguous comes first.
    pub(crate) fn key(&self, document: &Document, context: &EvaluationContext) -> Vec<Part> {
        self.try_key(document, context).unwrap_or_default()
    }

    /// Returns the key by which a document is sorted. An array counts as its least element in
    /// ascending order and as its greatest one in descending order, but an array that the pattern
    /// names by its index counts as a whole. A missing value counts as null. An empty array comes
    /// before null.
    fn try_key(&self, document: &Document, context: &EvaluationContext) -> Answer<Vec<Part>> {
        let maker = KeyMaker {
            fields: &self.fields,
            sparse: false,
            key: &|value| context.key(value),
        };
        if self.numbers > 0 {
            // For each number, an array is searched for a field of this name.
            let steps = size::of(document) / BYTES_PER_STEP;
            context
                .budget
                .step(steps.saturating_mul(self.numbers) as u64)?;
        }
        let mut best: Option<Vec<Part>> = None;
        let made = maker.each(document, &mut |key| {
            context.budget.count(key.len());
            let key = self.directed(key);
            if best.as_ref().is_none_or(|best| key < *best) {
                best = Some(key);
            }
            Ok(())
        });
        match made {
            Ok(()) => Ok(best.unwrap_or_default()),
            Err(error) if error.code == 171 => Err(StoreError::bad_value(
                "cannot sort with keys that are parallel arrays",
            )),
            Err(error) => Err(error),
        }
    }

    fn directed(&self, key: Vec<Key>) -> Vec<Part> {
        let parts = key.into_iter().zip(&self.descending);
        parts
            .map(|(key, descending)| Part::new(key, *descending))
            .collect()
    }

    /// Returns the key of a document by the values at the exact paths of the pattern, as `$push`
    /// compares them. A missing value counts as null.
    pub(crate) fn exact_key(&self, document: &Document, context: &EvaluationContext) -> Vec<Part> {
        let values = self.fields.iter().map(|field| {
            let value = path::exact(document, field);
            context.key(value.unwrap_or(&Bson::Null))
        });
        self.directed(values.collect())
    }

    /// Returns the key of a document whose fields have these values, in the order of the pattern.
    pub(crate) fn key_of_values(
        &self,
        values: &Document,
        context: &EvaluationContext,
    ) -> Vec<Part> {
        self.directed(values.values().map(|value| context.key(value)).collect())
    }

    fn is_natural(&self) -> bool {
        self.fields.first().is_some_and(|name| name == "$natural")
    }

    /// True if the pattern reverses the natural order.
    pub(crate) fn is_reversed_natural(&self) -> bool {
        self.is_natural() && self.descending.first() == Some(&true)
    }
}

fn is_descending(name: &str, direction: &Bson) -> Answer<bool> {
    match number::as_integer(direction) {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ if number::is_number(direction) => Err(StoreError::new(
            15975,
            "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
        )),
        _ => {
            let text = format!(
                "Illegal key in $sort specification: {name}: {}",
                super::order::display(direction)
            );
            let error = StoreError::new(15974, text);
            Err(match direction {
                Bson::Document(given) if given.contains_key("$meta") => {
                    error.not_simulated("$meta")
                }
                _ => error,
            })
        }
    }
}
