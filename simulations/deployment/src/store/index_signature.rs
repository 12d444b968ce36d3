//! Compares indexes as `createIndexes` does.
//!
//! Two indexes whose signatures differ can exist side by side. If only other options differ, the
//! second one is refused. Before 5.0, the signature is the key and the collation. Since 5.0, the
//! filter, the projection, `unique` and `sparse` belong to it as well.

use bson::{Bson, Document, doc};

use super::expression::truthy;
use super::order::{compare as compare_values, display_document, identical_documents};
use super::release::Release;
use super::{Answer, error::StoreError};

/// The first release in which indexes with the same key can differ in more than the collation.
const LONG_SIGNATURES: Release = Release([5, 0, 0]);

/// The options that are compared as a part of the signature, or not at all.
const NOT_COMPARED: [&str; 10] = [
    "v",
    "key",
    "name",
    "ns",
    "background",
    "dropDups",
    "hidden",
    "collation",
    "textIndexVersion",
    "2dsphereIndexVersion",
];

/// The options of a long signature.
const LONG: [&str; 4] = [
    "partialFilterExpression",
    "wildcardProjection",
    "unique",
    "sparse",
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Different,
    /// The signatures are the same, and other options differ.
    Equivalent,
    Identical,
}

/// Returns an error if an index conflicts with one of the existing ones. The result is true if the
/// index exists already.
pub(super) fn check_existing<'a>(
    new: &Document,
    existing: impl Iterator<Item = &'a Document> + Clone,
    release: Release,
) -> Answer<bool> {
    let name = new.get_str("name").unwrap_or_default();
    let of_name = |other: &&Document| other.get_str("name").is_ok_and(|own| own == name);
    let shown = |other: &Document| {
        let (new, other) = (display_document(new), display_document(other));
        format!("Requested index: {new}, existing index: {other}")
    };
    if let Some(other) = existing.clone().find(of_name) {
        let (code, text) = match compare(new, other, release) {
            Comparison::Identical => return Ok(true),
            Comparison::Equivalent => (
                85,
                "An equivalent index already exists with the same name but different options.",
            ),
            Comparison::Different => (
                86,
                "An existing index has the same name as the requested index. When index names are \
                 not specified, they are auto generated and can cause conflicts. Please refer to \
                 our documentation.",
            ),
        };
        return Err(StoreError::new(code, format!("{text} {}", shown(other))));
    }
    for other in existing {
        let text = match compare(new, other, release) {
            Comparison::Different => continue,
            Comparison::Equivalent => format!(
                "An equivalent index already exists with a different name and options. {}",
                shown(other)
            ),
            Comparison::Identical => format!(
                "Index already exists with a different name: {}",
                other.get_str("name").unwrap_or_default()
            ),
        };
        return Err(StoreError::new(85, text));
    }
    Ok(false)
}

fn compare(a: &Document, b: &Document, release: Release) -> Comparison {
    let is_long = release >= LONG_SIGNATURES;
    if !identical_documents(&signature(a, is_long), &signature(b, is_long)) {
        return Comparison::Different;
    }
    match identical_documents(&others(a, is_long), &others(b, is_long)) {
        true => Comparison::Identical,
        false => Comparison::Equivalent,
    }
}

/// Returns the signature of an index in a form in which those that mean the same are equal.
fn signature(index: &Document, is_long: bool) -> Document {
    let key = index.get_document("key").into_iter().flatten();
    let key: Document = key.map(|(f, d)| (f.clone(), number(d))).collect();
    let mut result = doc! { "key": key };
    if let Some(collation) = index.get("collation") {
        result.insert("collation", collation.clone());
    }
    if !is_long {
        return result;
    }
    for flag in ["unique", "sparse"] {
        result.insert(flag, index.get(flag).is_some_and(truthy));
    }
    if let Ok(filter) = index.get_document("partialFilterExpression") {
        result.insert("filter", conditions(filter));
    }
    if let Ok(projection) = index.get_document("wildcardProjection") {
        result.insert("projection", paths(projection));
    }
    result
}

/// Returns the options of an index that do not belong to the signature, in the order of their
/// names.
fn others(index: &Document, is_long: bool) -> Document {
    let belongs = |name: &str| is_long && LONG.contains(&name);
    let is_compared = |name: &str| !NOT_COMPARED.contains(&name) && !belongs(name);
    let mut options: Vec<_> = index.iter().filter(|(name, _)| is_compared(name)).collect();
    options.sort_by_key(|(name, _)| *name);
    let options = options.into_iter();
    options
        .map(|(name, value)| (name.clone(), number(value)))
        .collect()
}

/// Returns a number as one of a single type, and other values as they are.
fn number(value: &Bson) -> Bson {
    match super::number::as_double(value) {
        Some(number) => Bson::Double(number),
        None => value.clone(),
    }
}

/// Returns the conditions of a filter in the order of their operators and paths. Conditions with
/// the same operator and path keep their order, as in the server.
fn conditions(filter: &Document) -> Vec<Bson> {
    let mut found = Vec::new();
    collect(filter, &mut found);
    found.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    let found = found.into_iter();
    found
        .map(|(operator, path, operand)| Bson::Array(vec![operator.into(), path.into(), operand]))
        .collect()
}

/// Adds the conditions of a filter, each with its operator and its path.
fn collect(filter: &Document, found: &mut Vec<(String, String, Bson)>) {
    for (name, value) in filter {
        match (name.as_str(), value) {
            ("$and", Bson::Array(items)) => {
                let items = items.iter().filter_map(Bson::as_document);
                items.for_each(|item| collect(item, found));
            }
            ("$or", Bson::Array(items)) => {
                let items = items.iter().filter_map(Bson::as_document);
                let branches: Vec<Bson> = items.map(|item| conditions(item).into()).collect();
                found.push((name.clone(), String::new(), Bson::Array(branches)));
            }
            (path, Bson::Document(inner))
                if inner.keys().next().is_some_and(|key| key.starts_with('$')) =>
            {
                for (operator, operand) in inner {
                    let (operator, operand) = condition(operator, operand);
                    found.push((operator.to_owned(), path.to_owned(), operand));
                }
            }
            (path, operand) => found.push(("$eq".to_owned(), path.to_owned(), operand.clone())),
        }
    }
}

/// Returns the operator and the operand of a condition. The values of `$in` are a sorted set, and a
/// set of one value is an equality.
fn condition<'a>(operator: &'a str, operand: &Bson) -> (&'a str, Bson) {
    match operand {
        Bson::Array(values) if operator == "$in" => {
            let mut values = values.clone();
            values.sort_by(compare_values);
            values.dedup_by(|a, b| compare_values(a, b).is_eq());
            match values.as_slice() {
                [one] => ("$eq", one.clone()),
                _ => (operator, Bson::Array(values)),
            }
        }
        _ => (operator, operand.clone()),
    }
}

/// Returns the paths of the projection of a wildcard index in their order, and whether each is
/// kept. The field `_id` is left out by default.
fn paths(projection: &Document) -> Document {
    fn add(prefix: &str, projection: &Document, found: &mut Vec<(String, bool)>) {
        for (name, value) in projection {
            let path = format!("{prefix}{name}");
            match value {
                Bson::Document(inner) => add(&format!("{path}."), inner, found),
                value => found.push((path, truthy(value))),
            }
        }
    }
    let mut found = Vec::new();
    add("", projection, &mut found);
    found.retain(|(path, keeps)| path != "_id" || *keeps);
    found.sort();
    let found = found.into_iter();
    found
        .map(|(path, keeps)| (path, Bson::Boolean(keeps)))
        .collect()
}
