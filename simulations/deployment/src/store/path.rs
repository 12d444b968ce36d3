//! Dotted paths, for example in filters, sort patterns, projections and updates.

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::error::StoreError;
use super::expression::EvaluationContext;
use super::order::Key;

/// The largest number of parts of a path. Documents in a pipeline are not nested deeper than this.
const MAX_PARTS: usize = 200;

/// The largest number of parts of a path that are numbers. Such a part means an element of an array
/// and a field of the elements, so each one can double the number of ways that a path has.
const MAX_NUMBERS: usize = 10;

/// Returns an error if a path has more than [`MAX_PARTS`] parts, or more than [`MAX_NUMBERS`]
/// numbers.
pub(crate) fn check(path: &str) -> Result<(), StoreError> {
    if path.split('.').nth(MAX_PARTS).is_some() {
        return Err(StoreError::new(15, "FieldPath is too long"));
    }
    if path.split('.').filter(|part| index(part).is_some()).count() > MAX_NUMBERS {
        let text =
            format!("this simulated server refuses paths with more than {MAX_NUMBERS} numbers");
        return Err(StoreError::new(238, text));
    }
    Ok(())
}

/// Parses `text` as an index into an array.
pub(crate) fn index(text: &str) -> Option<usize> {
    let plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()));
    if plain { text.parse().ok() } else { None }
}

/// Calls `see` with each value at a path until `see` returns true. Returns true if `see` did.
///
/// In an array on the way, the path continues in each element that is a document, and in the
/// element whose index the path names. Other elements are skipped. `see` gets `None` if a document
/// lacks the next field, or if a scalar is in the place of a document.
pub(crate) fn any(
    document: &Document,
    path: &str,
    see: &mut dyn FnMut(Option<&Bson>) -> bool,
) -> bool {
    let (head, rest) = match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    };
    match (document.get(head), rest) {
        (value, None) => see(value),
        (Some(value), Some(rest)) => any_below(value, rest, see),
        (None, Some(_)) => see(None),
    }
}

fn any_below(value: &Bson, path: &str, see: &mut dyn FnMut(Option<&Bson>) -> bool) -> bool {
    match value {
        Bson::Document(inner) => any(inner, path, see),
        Bson::Array(items) => {
            for item in items {
                if let Bson::Document(inner) = item
                    && any(inner, path, see)
                {
                    return true;
                }
            }
            let (head, rest) = match path.split_once('.') {
                Some((head, rest)) => (head, Some(rest)),
                None => (path, None),
            };
            let Some(item) = index(head).and_then(|i| items.get(i)) else {
                return false;
            };
            match rest {
                None => see(Some(item)),
                Some(rest) => any_below(item, rest, see),
            }
        }
        _ => see(None),
    }
}

/// Returns all values at a path. An array at the end of the path is replaced by its elements.
pub(crate) fn values<'a>(document: &'a Document, path: &str) -> Vec<&'a Bson> {
    let mut found = Vec::new();
    collect(document, path, &mut found);
    found
}

fn collect<'a>(document: &'a Document, path: &str, found: &mut Vec<&'a Bson>) {
    let (head, rest) = match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    };
    let Some(value) = document.get(head) else {
        return;
    };
    match rest {
        None => match value {
            Bson::Array(items) => found.extend(items),
            _ => found.push(value),
        },
        Some(rest) => collect_below(value, rest, found),
    }
}

fn collect_below<'a>(value: &'a Bson, path: &str, found: &mut Vec<&'a Bson>) {
    match value {
        Bson::Document(inner) => collect(inner, path, found),
        Bson::Array(items) => {
            for item in items {
                if let Bson::Document(inner) = item {
                    collect(inner, path, found);
                }
            }
            let (head, rest) = match path.split_once('.') {
                Some((head, rest)) => (head, Some(rest)),
                None => (path, None),
            };
            match (index(head).and_then(|i| items.get(i)), rest) {
                (Some(Bson::Array(inner)), None) => found.extend(inner),
                (Some(item), None) => found.push(item),
                (Some(item), Some(rest)) => collect_below(item, rest, found),
                (None, _) => {}
            }
        }
        _ => {}
    }
}

/// Returns the key of the value at a path by which a document is sorted. An array counts as its
/// least element in ascending order and as its greatest one in descending order. A missing value
/// counts as null. An empty array comes before null.
pub(crate) fn sort_key(
    document: &Document,
    path: &str,
    descending: bool,
    context: &EvaluationContext,
) -> Key {
    let mut best: Option<Key> = None;
    let mut consider = |value: &Bson| {
        let value = context.key(value);
        let better = match &best {
            None => true,
            Some(best) => {
                let order = value.cmp(best);
                order
                    == if descending {
                        Ordering::Greater
                    } else {
                        Ordering::Less
                    }
            }
        };
        if better {
            best = Some(value);
        }
    };
    any(document, path, &mut |value| {
        match value {
            None => consider(&Bson::Null),
            Some(Bson::Array(items)) if items.is_empty() => consider(&Bson::Undefined),
            Some(Bson::Array(items)) => items.iter().for_each(&mut consider),
            Some(value) => consider(value),
        }
        false
    });
    best.unwrap_or(Key(Bson::Null))
}

/// Returns the value at a path whose parts are names of fields and indexes into arrays.
pub(crate) fn exact<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    let mut parts = path.split('.');
    let mut value = document.get(parts.next()?)?;
    for part in parts {
        value = match value {
            Bson::Document(inner) => inner.get(part)?,
            Bson::Array(items) => items.get(index(part)?)?,
            _ => return None,
        };
    }
    Some(value)
}
