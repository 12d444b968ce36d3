//! The options of indexes: their types, their defaults, and which of them exclude each other.

use bson::{Bson, Document, doc};

use super::Answer;
use super::collation::Collation;
use super::error::StoreError;
use super::index::generated_name;
use super::matcher::Matcher;
use super::order::{display, display_document, type_name};
use super::release::{Name, Release, name};
use super::validation::check_allowed;
use super::{index_geo, index_key, index_text};

/// The options of an index.
const OPTIONS: &[Name<()>] = &[
    name("v", ()),
    name("key", ()),
    name("name", ()),
    name("ns", ()),
    name("background", ()),
    name("unique", ()),
    name("hidden", ()).since(4, 4, 0),
    name("partialFilterExpression", ()),
    name("sparse", ()),
    name("expireAfterSeconds", ()),
    name("storageEngine", ()),
    name("weights", ()),
    name("default_language", ()),
    name("language_override", ()),
    name("textIndexVersion", ()),
    name("2dsphereIndexVersion", ()),
    name("bits", ()),
    name("min", ()),
    name("max", ()),
    name("bucketSize", ()),
    name("collation", ()),
    name("wildcardProjection", ()),
    name("coarsestIndexedLevel", ()),
    name("finestIndexedLevel", ()),
    name("dropDups", ()),
    name("prepareUnique", ()).since(6, 0, 0),
];

/// The first release in which a partial index can have `$in` and `$or`.
const ALTERNATIVES: Release = Release([6, 0, 0]);

/// The first release whose messages cover the indexes of columns.
pub(super) const COLUMNS: Release = Release([6, 1, 0]);

/// The operators of queries that the filter of a partial index must not have at all. Others fail as
/// not supported.
const SPECIAL: &[&str] = &[
    "$expr",
    "$jsonSchema",
    "$near",
    "$nearSphere",
    "$geoNear",
    "$text",
    "$where",
];

/// Removes the options from the entry of an index that the release does not have.
pub(crate) fn without_unknown_options(entry: &mut Document, release: Release) {
    let given = std::mem::take(entry);
    let known = given
        .into_iter()
        .filter(|(option, _)| Name::find(OPTIONS, option, release).is_some());
    entry.extend(known);
}

/// Checks an entry of `createIndexes`, and returns the specification in the form that the
/// collection keeps. An index without a collation has that of its collection.
pub(super) fn normalized(
    entry: &Document,
    default: Option<&Collation>,
    release: Release,
) -> Answer<Document> {
    let result = specification(entry, default, release);
    let result = result.map_err(|error| in_specification(entry, &error))?;
    if let Ok(key) = entry.get_document("key") {
        index_key::check_id(key, entry)?;
        index_key::check_hashed(key, entry, release)?;
        index_geo::check_parameters(key, entry)?;
    }
    check_expiry(entry)?;
    Ok(result)
}

/// Returns an error in an entry of `createIndexes` with the entry, as the server reports it.
pub(crate) fn in_specification(entry: &Document, error: &StoreError) -> StoreError {
    let shown = display_document(entry);
    let error = error.clone();
    error.within(&format!("Error in specification {shown}"))
}

fn specification(
    entry: &Document,
    default: Option<&Collation>,
    release: Release,
) -> Answer<Document> {
    if let Some((field, _)) = entry
        .iter()
        .find(|(field, _)| Name::find(OPTIONS, field, release).is_none())
    {
        let shown = display_document(entry);
        let text = format!(
            "The field '{field}' is not valid for an index specification. Specification: {shown}"
        );
        return Err(StoreError::new(197, text));
    }
    let key = match entry.get("key") {
        Some(Bson::Document(key)) => key,
        Some(_) => return Err(wrong_type("key", entry, "an object")),
        None => {
            let text = "The 'key' field is a required property of an index specification";
            return Err(StoreError::failed_to_parse(text));
        }
    };
    index_key::check(key, entry, release)?;
    let name = entry
        .get_str("name")
        .map_or_else(|_| generated_name(key), str::to_owned);
    let mut result = doc! { "v": version(entry)? };
    if entry.get("unique").is_some_and(super::expression::truthy) {
        result.insert("unique", true);
    }
    result.extend(doc! { "key": key.clone(), "name": name });
    check_types(entry, release)?;
    check_combinations(key, entry, release)?;
    index_key::check_options(key, entry, release)?;
    index_geo::check_version(key, entry)?;
    let collation = collation_of(entry, default)?;
    let kind = index_key::kind(key);
    if let (Some(collation), "text" | "2d") = (&collation, kind) {
        let shown = display_document(collation);
        let text = format!("Index type '{kind}' does not support collation: {shown}");
        return Err(StoreError::new(67, text));
    }
    add_options(&mut result, entry);
    if kind == "text" {
        return index_text::completed(result);
    }
    result.extend(collation.map(|full| ("collation".to_owned(), full.into())));
    Ok(result)
}

/// Adds the options of an entry of `createIndexes` to a specification, as they are listed.
fn add_options(result: &mut Document, entry: &Document) {
    let known = ["v", "key", "name", "ns", "collation", "unique", "dropDups"];
    for (field, value) in entry {
        match field.as_str() {
            name if known.contains(&name) => {}
            "hidden" if !super::expression::truthy(value) => {}
            "hidden" => drop(result.insert(field.clone(), true)),
            _ => drop(result.insert(field.clone(), value.clone())),
        }
    }
    let key = entry.get_document("key");
    let is_sphere = |direction: &Bson| direction.as_str() == Some("2dsphere");
    if key.is_ok_and(|key| key.values().any(is_sphere))
        && !result.contains_key("2dsphereIndexVersion")
    {
        result.insert("2dsphereIndexVersion", 3);
    }
}

/// Returns the version of the format of an index. New indexes have 1 or 2.
fn version(entry: &Document) -> Answer<i32> {
    let given = entry.get("v").and_then(super::number::as_double);
    match given {
        None => Ok(2),
        Some(1.0) => Ok(1),
        Some(2.0) => Ok(2),
        Some(other) => {
            let shown = display_document(entry);
            let text = format!(
                "Invalid index specification {shown}; cannot create an index with v={other}"
            );
            Err(StoreError::new(67, text))
        }
    }
}

/// Returns the error for a field of an entry of `createIndexes` that has a wrong type.
fn wrong_type(field: &str, entry: &Document, wanted: &str) -> StoreError {
    let kind = entry.get(field).map_or("missing", type_name);
    let text = format!("The field '{field}' must be {wanted}, but got {kind}");
    StoreError::type_mismatch(text)
}

/// Returns an error if a field of an entry of `createIndexes` has a wrong type.
fn check_types(entry: &Document, release: Release) -> Answer<()> {
    for (field, value) in entry {
        let is_flag = matches!(value, Bson::Boolean(_));
        let is_number = super::number::is_number(value);
        let is_object = matches!(value, Bson::Document(_));
        let is_text = matches!(value, Bson::String(_));
        let (is_right, wanted) = match field.as_str() {
            "unique" | "sparse" | "background" | "dropDups" | "prepareUnique" => {
                if is_flag || is_number {
                    continue;
                }
                let shown = display(value);
                let text = format!(
                    "The field '{field} has value {field}: {shown}, which is not convertible to \
                     bool"
                );
                return Err(StoreError::type_mismatch(text));
            }
            "hidden" => (is_flag, "a bool"),
            "v"
            | "bits"
            | "min"
            | "max"
            | "textIndexVersion"
            | "2dsphereIndexVersion"
            | "coarsestIndexedLevel"
            | "finestIndexedLevel" => (is_number, "a number"),
            "default_language" | "language_override" => (is_text, "a string"),
            "weights" => (
                is_object || is_text || matches!(value, Bson::Array(_)),
                "an object",
            ),
            "partialFilterExpression" | "collation" => (is_object, "an object"),
            _ => (true, ""),
        };
        if !is_right {
            return Err(wrong_type(field, entry, wanted));
        }
    }
    let Ok(filter) = entry.get_document("partialFilterExpression") else {
        return Ok(());
    };
    check_allowed(filter, SPECIAL, release)?;
    Matcher::new(filter, release)?;
    if entry.get("sparse").is_some_and(super::expression::truthy) {
        let text = "cannot mix \"partialFilterExpression\" and \"sparse\" options";
        return Err(StoreError::new(67, text));
    }
    match unsupported(filter, release) {
        Some(part) => {
            let text = format!("Expression not supported in partial index: {part}");
            Err(StoreError::new(67, text))
        }
        None => Ok(()),
    }
}

/// Returns an error if an entry of `createIndexes` has options that exclude each other.
fn check_combinations(key: &Document, entry: &Document, release: Release) -> Answer<()> {
    let is_set = |name: &str| entry.get(name).is_some_and(super::expression::truthy);
    let refuse = |text: &str| {
        let shown = display_document(entry);
        let text = format!("Invalid index specification {shown}; {text}");
        Err(StoreError::new(67, text))
    };
    if entry.contains_key("collation") && version(entry)? == 1 {
        return refuse("cannot create an index with the 'collation' option and v=1");
    }
    if entry.contains_key("weights") && index_key::kind(key) != "text" {
        return refuse("the field 'weights' can only be specified with text indexes");
    }
    if is_set("unique") && is_set("prepareUnique") {
        let text = "cannot create an index with the 'unique' option and the 'prepareUnique' option";
        return refuse(text);
    }
    match entry.get("wildcardProjection") {
        None => Ok(()),
        Some(_) if index_key::kind(key) != index_key::WILDCARD => {
            let wildcard = match release < COLUMNS {
                true => "an 'wildcard' index",
                false => "'wildcard' indexes",
            };
            let text = format!("The field 'wildcardProjection' is only allowed in {wildcard}");
            Err(StoreError::bad_value(text))
        }
        Some(Bson::Document(projection)) => index_key::check_projection(key, projection, release),
        Some(_) => Err(wrong_type(
            "wildcardProjection",
            entry,
            "a non-empty object",
        )),
    }
}

/// Returns the collation of a new index with all fields, or `None` if it compares bytes.
fn collation_of(entry: &Document, default: Option<&Collation>) -> Answer<Option<Document>> {
    let Ok(given) = entry.get_document("collation") else {
        return Ok(default.map(|default| default.specification().clone()));
    };
    if given.is_empty() {
        let text = "The field 'collation' cannot be an empty object.";
        return Err(StoreError::bad_value(text));
    }
    let collation = Collation::parse(given)?;
    Ok(collation.map(|collation| collation.specification().clone()))
}

/// Returns an operator in a filter that a partial index must not have.
fn unsupported(filter: &Document, release: Release) -> Option<&str> {
    filter
        .iter()
        .find_map(|(name, value)| match (name.as_str(), value) {
            ("$or" | "$in", _) if release < ALTERNATIVES => Some(name.as_str()),
            ("$and" | "$or", Bson::Array(items)) => items
                .iter()
                .filter_map(Bson::as_document)
                .find_map(|filter| unsupported(filter, release)),
            ("$exists", value) if !super::expression::truthy(value) => Some("$exists"),
            ("$eq" | "$gt" | "$gte" | "$lt" | "$lte" | "$in" | "$type" | "$exists", _) => None,
            (operator, _) if operator.starts_with('$') => Some(operator),
            (_, Bson::Document(inner))
                if inner.keys().next().is_some_and(|k| k.starts_with('$')) =>
            {
                unsupported(inner, release)
            }
            _ => None,
        })
}

/// Returns an error if the time to live of an index is out of range, or if the index has several
/// fields.
pub(super) fn check_expiry(entry: &Document) -> Answer<()> {
    let Some(seconds) = entry.get("expireAfterSeconds") else {
        return Ok(());
    };
    if !super::number::is_number(seconds) {
        let text = format!(
            "TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{}'. \
             Index spec: {}",
            type_name(seconds),
            display_document(entry)
        );
        return Err(StoreError::new(67, text));
    }
    let in_range = super::number::truncated(seconds)
        .is_some_and(|seconds| (0..=i64::from(i32::MAX)).contains(&seconds));
    if !in_range {
        let text = format!(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a \
             different number than {}",
            display(seconds)
        );
        return Err(StoreError::new(67, text));
    }
    if entry.get_document("key").is_ok_and(|key| key.len() > 1) {
        let text = format!(
            "TTL indexes are single-field indexes, compound indexes do not support TTL. Index \
             spec: {}",
            display_document(entry)
        );
        return Err(StoreError::new(67, text));
    }
    Ok(())
}

/// Checks the option `clusteredIndex` of a new collection, and returns it with all fields.
pub(super) fn clustered(options: &Document) -> Answer<Option<Document>> {
    let given = match options.get("clusteredIndex") {
        None => return Ok(None),
        Some(Bson::Document(given)) => given,
        Some(value) if !super::expression::truthy(value) => return Ok(None),
        Some(_) => {
            let text = "The clusteredIndex option is only supported as an object";
            return Err(StoreError::new(5_979_703, text));
        }
    };
    let known = ["v", "key", "name", "unique"];
    if let Some(other) = given.keys().find(|name| !known.contains(&name.as_str())) {
        let text = format!("BSON field 'ClusteredIndexSpec.{other}' is an unknown field.");
        return Err(StoreError::new(40415, text));
    }
    for required in ["key", "unique"] {
        if !given.contains_key(required) {
            let text = format!(
                "BSON field 'ClusteredIndexSpec.{required}' is missing but a required field"
            );
            return Err(StoreError::new(40414, text));
        }
    }
    let Ok(key) = given.get_document("key") else {
        let text = "BSON field 'ClusteredIndexSpec.key' is the wrong type, expected type 'object'";
        return Err(StoreError::type_mismatch(text));
    };
    if generated_name(key) != "_id_1" {
        let text = "The clusteredIndex option supports only the key {_id: 1}";
        return Err(StoreError::new(5_979_701, text));
    }
    if !given.get("unique").is_some_and(super::expression::truthy) {
        let text = "The clusteredIndex option requires unique: true to be specified";
        return Err(StoreError::new(5_979_700, text));
    }
    if given
        .get("v")
        .is_some_and(|v| super::number::as_integer(v) != Some(2))
    {
        let text = "The clusteredIndex option requires the version 2";
        return Err(StoreError::new(5_979_704, text));
    }
    if options.get("capped").is_some_and(super::expression::truthy) {
        let text = "A capped collection cannot have the option clusteredIndex";
        return Err(StoreError::new(6_049_200, text));
    }
    let name = match given.get("name") {
        None => "_id_",
        Some(Bson::String(name)) => name,
        Some(_) => {
            let text = "BSON field 'ClusteredIndexSpec.name' is the wrong type, expected type \
                        'string'";
            return Err(StoreError::type_mismatch(text));
        }
    };
    Ok(Some(
        doc! { "v": 2, "key": { "_id": 1 }, "name": name, "unique": true },
    ))
}
