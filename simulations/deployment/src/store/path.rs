//! Dotted paths, for example in filters, sort patterns, projections and updates.

use bson::{Bson, Document};

use super::error::StoreError;

/// The largest number of parts of a path. Documents in a pipeline are not nested deeper than this.
pub(crate) const MAX_PARTS: usize = 200;

/// The largest number of parts of a path that are numbers. Such a part means an element of an array
/// and a field of the elements, so each one can double the number of ways that a path has.
const MAX_NUMBERS: usize = 10;

/// Returns an error if a path has more than [`MAX_PARTS`] parts, or more than [`MAX_NUMBERS`]
/// numbers.
pub(crate) fn check(path: &str) -> Result<(), StoreError> {
    if path.split('.').nth(MAX_PARTS).is_some() {
        return Err(too_long());
    }
    if path.split('.').filter(|part| index(part).is_some()).count() > MAX_NUMBERS {
        let what = format!("paths with more than {MAX_NUMBERS} numbers");
        return Err(too_long().not_simulated(&what));
    }
    Ok(())
}

fn too_long() -> StoreError {
    StoreError::new(15, "FieldPath is too long")
}

/// Returns an error if a path is not valid in a stage or a projection. [`check`] is a part of this.
pub(crate) fn check_field(path: &str) -> Result<(), StoreError> {
    check(path)?;
    if path.is_empty() {
        let text = "FieldPath cannot be constructed with empty string";
        return Err(StoreError::new(40352, text));
    }
    if path.ends_with('.') {
        return Err(StoreError::new(40353, "FieldPath must not end with a '.'."));
    }
    path.split('.').try_for_each(check_name)
}

/// Returns an error if a stage or an expression cannot give this name to a field.
pub(crate) fn check_name(name: &str) -> Result<(), StoreError> {
    let hint = "Consider using $getField or $setField.";
    let (code, text) = match name {
        "" => (
            15998,
            "FieldPath field names may not be empty strings.".to_owned(),
        ),
        name if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") => (
            16410,
            format!("FieldPath field names may not start with '$'. {hint}"),
        ),
        name if name.contains('.') => (
            16412,
            format!("FieldPath field names may not contain '.'. {hint}"),
        ),
        _ => return Ok(()),
    };
    Err(StoreError::new(code, text))
}

/// Parses `text` as an index into an array.
pub(crate) fn index(text: &str) -> Option<usize> {
    let plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()));
    if plain { text.parse().ok() } else { None }
}

/// The find of a walk along a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen<'a> {
    /// A document lacks the next field, or a scalar is in the place of a document.
    Missing,
    /// The value of a field.
    Field(&'a Bson),
    /// The element of an array, whose index is the last part of the path. If it is an array, its
    /// own elements are not at the path.
    Element(&'a Bson),
}

impl<'a> Seen<'a> {
    /// Returns the value, if there is one.
    pub(crate) const fn value(self) -> Option<&'a Bson> {
        match self {
            Self::Missing => None,
            Self::Field(value) | Self::Element(value) => Some(value),
        }
    }
}

/// Calls `see` with each value at a path until `see` returns true. Returns true if `see` did.
///
/// In an array on the way, the path continues in each element that is a document, and in the
/// element whose index the path names. Other elements are skipped.
pub(crate) fn any(document: &Document, path: &str, see: &mut dyn FnMut(Seen<'_>) -> bool) -> bool {
    let (head, rest) = match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    };
    match (document.get(head), rest) {
        (Some(value), None) => see(Seen::Field(value)),
        (Some(value), Some(rest)) => any_below(value, rest, see),
        (None, _) => see(Seen::Missing),
    }
}

fn any_below(value: &Bson, path: &str, see: &mut dyn FnMut(Seen<'_>) -> bool) -> bool {
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
            let item = index(head).and_then(|i| items.get(i));
            match (item, rest) {
                (Some(item), None) => see(Seen::Element(item)),
                (Some(Bson::Document(_) | Bson::Array(_)), Some(rest)) => {
                    item.is_some_and(|item| any_below(item, rest, see))
                }
                // A scalar element has no fields, not even missing ones.
                _ => false,
            }
        }
        _ => see(Seen::Missing),
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

/// Returns the value at a path of fields, which does not lead into arrays.
pub(crate) fn field<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    let mut parts = path.split('.');
    let first = document.get(parts.next()?);
    parts.fold(first, |value, part| value?.as_document()?.get(part))
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
