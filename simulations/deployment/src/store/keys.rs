//! The keys of a document in an index.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use super::Answer;
use super::error::StoreError;
use super::order::Key;
use super::{path, size};

/// The largest number of keys of one document in an index, as in the server.
const MAX_KEYS: usize = 100_000;

/// The memory that the keys of one document in an index may take, in bytes.
const MAX_KEY_BYTES: usize = 64 * 1024 * 1024;

/// The keys of one document in an index.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) keys: BTreeSet<Vec<Key>>,
    /// The memory of the keys in bytes.
    pub(super) bytes: usize,
}

/// Returns the memory of a key in bytes.
pub(super) fn bytes_of(key: &[Key]) -> usize {
    let parts = key.iter().map(|part| size::memory(&part.0));
    size_of::<Vec<Key>>() + parts.sum::<usize>()
}

/// Makes the keys of documents in an index over some fields.
pub(super) struct KeyMaker<'a> {
    pub(super) fields: &'a [String],
    /// True if a document without any of the fields has no key.
    pub(super) sparse: bool,
    /// Returns the key of a value, by the collation of the index.
    pub(super) key: &'a dyn Fn(&Bson) -> Key,
}

/// One field of a key, while the key is made.
#[derive(Clone)]
enum Part<'a> {
    /// The field is at this path in this value.
    Open(Option<&'a Bson>, &'a str),
    Made(Key),
    Missing,
}

/// Takes the keys of a document.
type Add<'a> = &'a mut dyn FnMut(Vec<Key>) -> Answer<()>;

/// A path that leads through an array, or ends at one.
type InArray<'a> = (&'a Vec<Bson>, &'a str);

impl<'a> KeyMaker<'a> {
    /// Returns the keys of a document. An array has a key for each element.
    ///
    /// # Errors
    ///
    /// If two fields are in different arrays, if a name is an index of an array as well as a field
    /// of its elements, or if the document has too many keys.
    pub(super) fn keys(&self, document: &'a Document) -> Answer<Keys> {
        let mut keys = Keys::default();
        self.each(document, &mut |key| {
            let bytes = bytes_of(&key);
            if keys.keys.insert(key) {
                keys.bytes += bytes;
            }
            if keys.keys.len() > MAX_KEYS || keys.bytes > MAX_KEY_BYTES {
                let text = format!(
                    "A document may have at most {MAX_KEYS} keys of {MAX_KEY_BYTES} bytes in an \
                     index"
                );
                return Err(StoreError::new(201, text));
            }
            Ok(())
        })?;
        Ok(keys)
    }

    /// Calls `add` with each key of a document. The same key can come more than once.
    ///
    /// # Errors
    ///
    /// As [`KeyMaker::keys`], except that there can be any number of keys.
    pub(super) fn each(&self, document: &'a Document, add: Add<'_>) -> Answer<()> {
        let parts = self.fields.iter().map(|field| {
            let (head, rest) = field.split_once('.').unwrap_or((field, ""));
            Part::Open(document.get(head), rest)
        });
        self.expand(parts.collect(), add)
    }

    fn expand(&self, mut parts: Vec<Part<'a>>, add: Add<'_>) -> Answer<()> {
        let mut arrays: Vec<Option<InArray<'a>>> = Vec::with_capacity(parts.len());
        // Arrays are told apart by their place in the document.
        let mut first: Option<(&'a Vec<Bson>, usize)> = None;
        for (at, part) in parts.iter_mut().enumerate() {
            let Part::Open(value, rest) = *part else {
                arrays.push(None);
                continue;
            };
            match walk(value, rest)? {
                Walked::Value(value) => {
                    *part = Part::Made((self.key)(value));
                    arrays.push(None);
                }
                Walked::Missing => {
                    *part = Part::Missing;
                    arrays.push(None);
                }
                Walked::Array(items, rest) => {
                    match first {
                        Some((known, of)) if !std::ptr::eq(known, items) => {
                            return Err(self.parallel(at, of));
                        }
                        _ => first = Some((items, at)),
                    }
                    arrays.push(Some((items, rest)));
                }
            }
        }
        let Some((items, _)) = first else {
            return self.add(parts, add);
        };
        if items.is_empty() {
            for (part, array) in parts.iter_mut().zip(&arrays) {
                match array {
                    Some((_, "")) => *part = Part::Made(Key(Bson::Undefined)),
                    Some(_) => *part = Part::Missing,
                    None => {}
                }
            }
            return self.add(parts, add);
        }
        for item in items {
            let of_item = parts.iter().zip(&arrays).map(|(part, array)| match array {
                None => part.clone(),
                Some((_, "")) => Part::Made((self.key)(item)),
                Some((_, rest)) if matches!(item, Bson::Document(_)) => {
                    Part::Open(Some(item), rest)
                }
                Some(_) => Part::Missing,
            });
            self.expand(of_item.collect(), add)?;
        }
        Ok(())
    }

    fn add(&self, parts: Vec<Part<'a>>, add: Add<'_>) -> Answer<()> {
        let is_missing = |part: &Part<'_>| matches!(part, Part::Missing);
        if self.sparse && parts.iter().all(is_missing) {
            return Ok(());
        }
        let values = parts.into_iter().map(|part| match part {
            Part::Made(key) => key,
            Part::Missing | Part::Open(..) => Key(Bson::Null),
        });
        add(values.collect())
    }

    fn parallel(&self, at: usize, of: usize) -> StoreError {
        let name = |at: usize| {
            let field = self.fields.get(at).map_or("", String::as_str);
            field.rsplit_once('.').map_or(field, |(_, last)| last)
        };
        let text = format!("cannot index parallel arrays [{}] [{}]", name(at), name(of));
        StoreError::new(171, text)
    }
}

/// True if there is an array on a path, or at its end.
pub(super) fn has_array(document: &Document, path: &str) -> bool {
    let (head, rest) = path.split_once('.').unwrap_or((path, ""));
    let mut value = document.get(head);
    let parts = rest.split('.').filter(|part| !part.is_empty());
    for part in parts {
        value = match value {
            Some(Bson::Document(inner)) => inner.get(part),
            _ => break,
        };
    }
    matches!(value, Some(Bson::Array(_)))
}

/// The end of a path, or the first array on it.
enum Walked<'a> {
    Value(&'a Bson),
    Array(&'a Vec<Bson>, &'a str),
    Missing,
}

fn walk<'a>(mut value: Option<&'a Bson>, mut rest: &'a str) -> Answer<Walked<'a>> {
    loop {
        let (head, tail) = rest.split_once('.').unwrap_or((rest, ""));
        value = match value {
            None => return Ok(Walked::Missing),
            Some(Bson::Array(items)) => {
                let item = path::index(head).and_then(|at| items.get(at));
                let Some(item) = item.filter(|_| !rest.is_empty()) else {
                    return Ok(Walked::Array(items, rest));
                };
                let has_field = |item: &Bson| match item {
                    Bson::Document(inner) => inner.contains_key(head),
                    _ => false,
                };
                if items.iter().any(has_field) {
                    let text = format!(
                        "Ambiguous field name found in array (do not use numeric field names in \
                         embedded elements in an array), field: '{head}'"
                    );
                    return Err(StoreError::new(16746, text));
                }
                match item {
                    // An array that the path names by its index is a value as a whole.
                    Bson::Array(inner) if tail.is_empty() && !inner.is_empty() => {
                        return Ok(Walked::Value(item));
                    }
                    item => Some(item),
                }
            }
            Some(value) if rest.is_empty() => return Ok(Walked::Value(value)),
            Some(Bson::Document(inner)) => inner.get(head),
            Some(_) => return Ok(Walked::Missing),
        };
        rest = tail;
    }
}
