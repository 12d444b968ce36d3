//! The paths of an update: expansion of positional parts, and changes at a path.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bson::{Bson, Document};

use super::{Answer, no_filter};
use crate::store::budget::Budget;
use crate::store::error::StoreError;
use crate::store::expression::EvaluationContext;
use crate::store::matcher::Matcher;
use crate::store::order::display;
use crate::store::path::{exact, index};

/// The largest distance from the end of an array to an index that an update writes to, in elements.
const MAX_PADDING: usize = 1_500_000;

/// Returns an error if a path of an update is not valid.
pub(super) fn check(path: &str) -> Answer<()> {
    if path.is_empty() {
        return Err(StoreError::new(56, "An empty update path is not valid."));
    }
    crate::store::path::check(path)?;
    for part in path.split('.') {
        if part.is_empty() {
            let text = format!(
                "The update path '{path}' contains an empty field name, which is not allowed."
            );
            return Err(StoreError::new(56, text));
        }
        let positional = part == "$" || part.starts_with("$[");
        if part.starts_with('$') && !positional && !matches!(part, "$ref" | "$id" | "$db") {
            return Err(StoreError::new(
                52,
                format!(
                    "The dollar ($) prefixed field '{part}' in '{path}' is not valid for storage."
                ),
            ));
        }
    }
    if path.split('.').filter(|part| *part == "$").count() > 1 {
        return Err(StoreError::bad_value(format!(
            "Too many positional (i.e. '$') elements found in path '{path}'"
        )));
    }
    if path.starts_with('$') && !matches!(path, "$ref" | "$id" | "$db") {
        let text = format!(
            "Cannot have positional (i.e. '$') element in the first position in \
                            path '{path}'"
        );
        return Err(StoreError::bad_value(text));
    }
    Ok(())
}

/// True if a path stands for paths that depend on the document or on array filters.
pub(super) fn is_dynamic(path: &str) -> bool {
    path.split('.')
        .any(|part| part == "$" || part.starts_with("$["))
}

/// The place where a path cannot be followed.
pub(super) struct Blocked<'a> {
    /// The name of the value that has no such part.
    pub(super) name: &'a str,
    /// The part of the path that cannot be followed.
    pub(super) part: &'a str,
    /// The value with its name, as messages show it.
    pub(super) shown: String,
}

/// Follows a path as far as there are values.
///
/// # Errors
///
/// If the path leads below a value that has no fields, or to an element of an array that is not
/// named by its index.
pub(super) fn traverse<'a>(document: &Document, path: &'a str) -> Result<(), Blocked<'a>> {
    let mut parts = path.split('.');
    let mut name = parts.next().unwrap_or(path);
    let mut value = document.get(name);
    for part in parts {
        value = match value {
            None => return Ok(()),
            Some(Bson::Document(inner)) => inner.get(part),
            Some(Bson::Array(items)) if index(part).is_some() => {
                index(part).and_then(|place| items.get(place))
            }
            Some(other) => {
                return Err(Blocked {
                    name,
                    part,
                    shown: format!("{{{name}: {}}}", display(other)),
                });
            }
        };
        name = part;
    }
    Ok(())
}

/// Returns the name of the innermost array that a path leads through.
pub(super) fn array_above<'a>(document: &Document, path: &'a str) -> Option<&'a str> {
    let mut parts = path.split('.');
    let mut name = parts.next()?;
    let mut value = document.get(name);
    let mut array = None;
    for part in parts {
        value = match value {
            Some(Bson::Document(inner)) => inner.get(part),
            Some(Bson::Array(items)) => {
                array = Some(name);
                index(part).and_then(|place| items.get(place))
            }
            _ => None,
        };
        name = part;
    }
    array
}

/// Returns the path at which `path` conflicts with the earlier paths in `taken`, or `None`. The
/// result is a prefix of `path` that is taken, or `path` itself if `path` or a longer path below it
/// is taken.
pub(super) fn conflict<'a>(taken: &BTreeSet<&str>, path: &'a str) -> Option<&'a str> {
    let above = path.match_indices('.').map(|(end, _)| &path[..end]);
    if let Some(above) = above.into_iter().find(|above| taken.contains(above)) {
        return Some(above);
    }
    let inside = format!("{path}.");
    let mut below = taken.range::<str, _>((Bound::Included(inside.as_str()), Bound::Unbounded));
    let is_above = below.next().is_some_and(|other| other.starts_with(&inside));
    (taken.contains(path) || is_above).then_some(path)
}

/// Compares paths part by part. Indexes into arrays compare as numbers.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let mut parts = a.split('.').zip(b.split('.'));
    parts
        .find_map(|(a, b)| {
            let order = match (index(a), index(b)) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.cmp(b),
            };
            order.is_ne().then_some(order)
        })
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Returns the paths that a path with positional parts stands for in a document.
pub(super) fn expand(
    document: &Document,
    path: &str,
    position: Option<usize>,
    filters: &BTreeMap<String, Matcher>,
    context: &EvaluationContext,
) -> Answer<Vec<String>> {
    if !path.contains('$') {
        return Ok(vec![path.to_owned()]);
    }
    let budget = &context.budget;
    let mut found: Vec<String> = vec![String::new()];
    for part in path.split('.') {
        let mut next = Vec::new();
        for prefix in &found {
            budget.charge(size_of::<String>() + prefix.len() + part.len())?;
            let join = |part: &str| match prefix.as_str() {
                "" => part.to_owned(),
                prefix => format!("{prefix}.{part}"),
            };
            if part == "$" {
                let position = position.ok_or_else(|| {
                    StoreError::bad_value(
                        "The positional operator did not find the match needed from the query.",
                    )
                })?;
                next.push(join(&position.to_string()));
            } else if let Some(name) = part.strip_prefix("$[").and_then(|p| p.strip_suffix(']')) {
                let places = places(document, prefix, path, name, filters, context)?;
                let bytes = size_of::<String>() + prefix.len() + part.len();
                budget.charge(bytes.saturating_mul(places.len()))?;
                next.extend(places.into_iter().map(|i| join(&i.to_string())));
            } else {
                next.push(join(part));
            }
        }
        found = next;
    }
    Ok(found)
}

/// Returns the indexes of the elements that `$[name]` stands for in the array at `prefix`.
fn places(
    document: &Document,
    prefix: &str,
    path: &str,
    name: &str,
    filters: &BTreeMap<String, Matcher>,
    context: &EvaluationContext,
) -> Answer<Vec<usize>> {
    let items = match exact(document, prefix) {
        Some(Bson::Array(items)) => items,
        None => {
            return Err(StoreError::bad_value(format!(
                "The path '{prefix}' must exist in the document in order to apply array updates."
            )));
        }
        Some(other) => {
            return Err(StoreError::bad_value(format!(
                "Cannot apply array updates to non-array element {prefix}: {}",
                display(other)
            )));
        }
    };
    if name.is_empty() {
        return Ok((0..items.len()).collect());
    }
    let filter = filters.get(name).ok_or_else(|| no_filter(name, path))?;
    let mut found = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let mut wrapped = Document::new();
        wrapped.insert(name, item.clone());
        if filter.matches(&wrapped, context)? {
            found.push(i);
        }
    }
    Ok(found)
}

/// Sets the value at a path. Missing documents on the path are created, and an array that is too
/// short is filled up with null.
pub(super) fn set(document: &mut Document, path: &str, value: Bson, budget: &Budget) -> Answer<()> {
    match path.split_once('.') {
        None => {
            document.insert(path, value);
            Ok(())
        }
        Some((head, rest)) => {
            let slot = document
                .entry(head.to_owned())
                .or_insert_with(|| Document::new().into());
            set_below(head, slot, rest, value, budget)
        }
    }
}

fn set_below(name: &str, slot: &mut Bson, path: &str, value: Bson, budget: &Budget) -> Answer<()> {
    let (head, rest) = match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    };
    let blocked = |slot: &Bson| {
        let shown = display(slot);
        StoreError::new(
            28,
            format!("Cannot create field '{head}' in element {{{name}: {shown}}}"),
        )
    };
    match slot {
        Bson::Document(inner) => set(inner, path, value, budget),
        Bson::Array(items) => {
            let Some(place) = index(head) else {
                return Err(blocked(&Bson::Array(std::mem::take(items))));
            };
            if place > items.len().saturating_add(MAX_PADDING) {
                return Err(StoreError::bad_value(format!(
                    "can't backfill more than {MAX_PADDING} elements"
                )));
            }
            if place >= items.len() {
                budget.charge((place - items.len()).saturating_mul(size_of::<Bson>()))?;
                items.resize(place, Bson::Null);
                items.push(if rest.is_some() {
                    Document::new().into()
                } else {
                    Bson::Null
                });
            }
            match rest {
                None => {
                    items[place] = value;
                    Ok(())
                }
                Some(rest) => set_below(head, &mut items[place], rest, value, budget),
            }
        }
        other => Err(blocked(other)),
    }
}

/// The number of fields that a removal moves for the time of one step.
const MOVED_PER_STEP: u64 = 64;

/// Removes the value at a path. An element of an array becomes null instead. Fails if the budget
/// does not allow to move the fields after the removed one.
pub(super) fn unset(document: &mut Document, path: &str, budget: &Budget) -> Answer<()> {
    match path.split_once('.') {
        None => {
            budget.step(document.len() as u64 / MOVED_PER_STEP)?;
            document.remove(path);
            Ok(())
        }
        Some((head, rest)) => match document.get_mut(head) {
            Some(slot) => unset_below(slot, rest, budget),
            None => Ok(()),
        },
    }
}

fn unset_below(slot: &mut Bson, path: &str, budget: &Budget) -> Answer<()> {
    match slot {
        Bson::Document(inner) => return unset(inner, path, budget),
        Bson::Array(items) => {
            let (head, rest) = path
                .split_once('.')
                .map_or((path, None), |(h, r)| (h, Some(r)));
            match (index(head).and_then(|i| items.get_mut(i)), rest) {
                (Some(item), None) => *item = Bson::Null,
                (Some(item), Some(rest)) => return unset_below(item, rest, budget),
                (None, _) => {}
            }
        }
        _ => {}
    }
    Ok(())
}
