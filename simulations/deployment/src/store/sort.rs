//! Sort patterns.

use std::cmp::{Ordering, Reverse};

use bson::Document;

use super::error::StoreError;
use super::expression::EvaluationContext;
use super::number;
use super::order::Key;
use super::path;

/// The largest number of fields of a pattern.
const MAX_FIELDS: usize = 32;

/// A parsed sort pattern: the fields, and whether each of them is descending.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    fields: Vec<(String, bool)>,
}

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
    pub(crate) fn new(pattern: &Document) -> Result<Self, StoreError> {
        if pattern.len() > MAX_FIELDS {
            return Err(StoreError::bad_value("too many compound keys"));
        }
        let mut fields = Vec::new();
        for (name, direction) in pattern {
            path::check(name)?;
            let descending = match number::as_integer(direction) {
                Some(1) => false,
                Some(-1) => true,
                _ if number::is_number(direction) => {
                    return Err(StoreError::new(
                        15975,
                        "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
                    ));
                }
                _ => {
                    return Err(StoreError::new(
                        15974,
                        format!(
                            "Illegal key in $sort specification: {name}: {}",
                            super::order::display(direction)
                        ),
                    ));
                }
            };
            fields.push((name.clone(), descending));
        }
        Ok(Self { fields })
    }

    /// Returns the key by which a document is sorted under the collation of the context.
    pub(crate) fn key(&self, document: &Document, context: &EvaluationContext) -> Vec<Part> {
        let parts = self.fields.iter().map(|(name, descending)| {
            // The documents are in the order of `$natural` already.
            let key = if name == "$natural" {
                Key(bson::Bson::Null)
            } else {
                path::sort_key(document, name, *descending, context)
            };
            Part::new(key, *descending)
        });
        parts.collect()
    }

    /// Returns the key of a document whose fields have these values, in the order of the pattern.
    pub(crate) fn key_of_values(
        &self,
        values: &Document,
        context: &EvaluationContext,
    ) -> Vec<Part> {
        let pairs = self.fields.iter().zip(values.values());
        let parts =
            pairs.map(|((_, descending), value)| Part::new(context.key(value), *descending));
        parts.collect()
    }

    /// True if the pattern reverses the natural order.
    pub(crate) fn is_reversed_natural(&self) -> bool {
        self.fields
            .first()
            .is_some_and(|(name, descending)| name == "$natural" && *descending)
    }
}
