//! The keys of indexes: their fields, their types, and what a type excludes.

use bson::{Bson, Document};

use super::Answer;
use super::error::StoreError;
use super::index_options::COLUMNS;
use super::order::{display, display_document, type_name};
use super::projection::Projection;
use super::release::Release;
use super::{index_geo, number, path, size};

/// The type of a wildcard index.
pub(super) const WILDCARD: &str = "wildcard";

/// The types of indexes that the value of a field in a key can name.
const NAMED: [&str; 4] = ["text", "2d", "2dsphere", "hashed"];

/// The largest size of a key pattern in bytes, as in the server.
const MAX_BYTES: usize = 2048;

/// The largest number of fields of an index, as in the server.
const MAX_FIELDS: usize = 32;

/// The first release in which a hashed index can have several fields.
const COMPOUND_HASHED: Release = Release([4, 4, 0]);

/// The first release in which a wildcard index can have further fields.
const COMPOUND_WILDCARD: Release = Release([7, 0, 0]);

fn refuse(text: impl Into<String>) -> Answer<()> {
    Err(StoreError::new(67, text))
}

/// Returns the type of an index, which is empty for an ordinary one.
pub(super) fn kind(key: &Document) -> &str {
    let mut kinds = key.iter().filter_map(|(field, direction)| match direction {
        Bson::String(kind) => Some(kind.as_str()),
        _ => is_wildcard(field).then_some(WILDCARD),
    });
    kinds.next().unwrap_or_default()
}

/// True if a field of a key stands for all fields below it.
pub(super) fn is_wildcard(field: &str) -> bool {
    field == "$**" || field.ends_with(".$**")
}

/// Returns an error if a key pattern is malformed. `entry` is the entry of `createIndexes`.
pub(super) fn check(key: &Document, entry: &Document, release: Release) -> Answer<()> {
    if size::of(key) > MAX_BYTES {
        return refuse("Index key pattern too large.");
    }
    if key.is_empty() {
        return refuse("Index keys cannot be empty.");
    }
    if key.len() > MAX_FIELDS {
        let text = format!("Index key pattern cannot have more than {MAX_FIELDS} fields");
        return refuse(text);
    }
    let kind = kind(key);
    if kind == WILDCARD {
        check_wildcard(key, release)?;
    } else if kind == "geoHaystack" {
        index_geo::refuse_haystack(release)?;
    } else if !kind.is_empty() && !NAMED.contains(&kind) {
        return refuse(format!("Unknown index plugin '{kind}'"));
    }
    for (field, direction) in key {
        check_direction(direction, kind, release)?;
        check_field(field, direction, kind)?;
    }
    let projects = entry.contains_key("wildcardProjection");
    if kind == WILDCARD && key.len() > 1 && key.contains_key("$**") && !projects {
        let text = "Compound wildcard indexes on all fields must also specify 'wildcardProjection' \
                    option";
        return refuse(text);
    }
    Ok(())
}

/// Returns an error if the value of a field in a key is not a direction, or not the type of the
/// index.
fn check_direction(direction: &Bson, kind: &str, release: Release) -> Answer<()> {
    match direction {
        Bson::String(own) if own == WILDCARD => refuse(
            "The key pattern value for an 'wildcard' index must be a non-zero number, not a \
             string.",
        ),
        Bson::String(own) if own != kind => {
            refuse("Can't use more than one index plugin for a single index.")
        }
        Bson::String(own) if own.is_empty() => {
            refuse("Values in the index key pattern cannot be empty strings")
        }
        Bson::String(_) => Ok(()),
        other => match number::as_double(other).filter(|_| number::is_number(other)) {
            Some(number) if number.is_nan() => {
                refuse("Values in the index key pattern cannot be NaN.")
            }
            Some(0.0) => refuse("Values in the index key pattern cannot be 0."),
            Some(number) if number < 0.0 && kind == WILDCARD && release < COMPOUND_WILDCARD => {
                refuse("A numeric value in a $** index key pattern must be positive.")
            }
            Some(_) => Ok(()),
            None => refuse(format!(
                "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers \
                 < 0, and strings are allowed.",
                type_name(other)
            )),
        },
    }
}

/// Returns an error if an index cannot have a field of this name.
fn check_field(field: &str, direction: &Bson, kind: &str) -> Answer<()> {
    path::check(field)?;
    if field == "$**" && (number::is_number(direction) || kind == "text") {
        return Ok(());
    }
    if field == "_fts" && direction.as_str() != Some("text") {
        return refuse("Index key contains an illegal field name: '_fts'");
    }
    let last = field.split('.').count() - 1;
    for (at, part) in field.split('.').enumerate() {
        if part.is_empty() {
            return refuse("Index keys cannot contain an empty field.");
        }
        let is_permitted = match part {
            "$db" | "$id" | "$ref" => at > 0,
            "$**" => at == last && kind == WILDCARD,
            part => !part.starts_with('$'),
        };
        if !is_permitted {
            let text = "Index key contains an illegal field name: field name starts with '$'.";
            return refuse(text);
        }
    }
    Ok(())
}

/// True if a path is another one, or that of a field around it.
fn covers(path: &str, other: &str) -> bool {
    let below = other.strip_prefix(path);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn check_wildcard(key: &Document, release: Release) -> Answer<()> {
    if key.len() > 1 && release < COMPOUND_WILDCARD {
        return refuse("wildcard indexes do not allow compounding");
    }
    let mut wildcards = key.keys().filter(|field| is_wildcard(field));
    let first = wildcards.next().map(String::as_str).unwrap_or_default();
    if wildcards.next().is_some() {
        let text = "Index Key can contain only one wildcard index field";
        return Err(StoreError::new(7_246_201, text));
    }
    let Some(above) = first.strip_suffix(".$**") else {
        return Ok(());
    };
    let mut others = key.keys().filter(|field| *field != first);
    match others.find(|field| covers(above, field)) {
        None => Ok(()),
        Some(field) => {
            let text = format!(
                "A wildcard index field should not overlap with and index key fields if wildcard \
                 projection is empty, however '{field}' is overlapping with the wildcard index \
                 field."
            );
            Err(StoreError::new(7_246_204, text))
        }
    }
}

/// Returns an error if a wildcard index cannot have this `wildcardProjection`.
pub(super) fn check_projection(
    key: &Document,
    projection: &Document,
    release: Release,
) -> Answer<()> {
    if !key.contains_key("$**") {
        let columns = match release < COLUMNS {
            true => "",
            false => " or {\"$**\": \"columnstore\"}",
        };
        let text = format!(
            "The field 'wildcardProjection' is only allowed when 'key' is {{\"$**\": \
             \u{b1}1}}{columns}"
        );
        return Err(StoreError::failed_to_parse(text));
    }
    if projection.is_empty() {
        let text = "The 'wildcardProjection' field can't be an empty object";
        return Err(StoreError::failed_to_parse(text));
    }
    if key.len() > 1 {
        check_compound_projection(key, projection)?;
    }
    let parsed = match computed(projection) {
        true => {
            let text = "Bad projection specification, cannot use computed fields when parsing a \
                        spec in kBanComputedFields mode";
            Err(StoreError::new(51271, text))
        }
        false => Projection::new(projection, false, release).map(|_| ()),
    };
    parsed.map_err(|error| {
        let of = if release < COLUMNS { "" } else { " projection" };
        error.within(&format!("Failed to parse{of}: wildcardProjection"))
    })
}

/// True if a projection computes a field.
fn computed(projection: &Document) -> bool {
    projection.values().any(|value| match value {
        Bson::Document(inner) if inner.keys().next().is_some_and(|k| k.starts_with('$')) => true,
        Bson::Document(inner) => computed(inner),
        value => !matches!(value, Bson::Boolean(_)) && !number::is_number(value),
    })
}

/// Returns an error if the projection of a wildcard index does not suit the other fields of the
/// index.
fn check_compound_projection(key: &Document, projection: &Document) -> Answer<()> {
    let fields = || key.keys().filter(|field| *field != "$**");
    let is_flag = |value: &Bson| matches!(value, Bson::Boolean(_)) || number::is_number(value);
    if let Some((name, value)) = projection.iter().find(|(_, value)| !is_flag(value)) {
        let kind = type_name(value);
        let shown = display(value);
        let text = format!(
            "Fields in wildcardProjection must be numbers, however '{name}: {shown}' is a {kind}."
        );
        return Err(StoreError::new(7_246_207, text));
    }
    let (kept, left_out): (Vec<_>, Vec<_>) = projection
        .iter()
        .partition(|(_, value)| super::expression::truthy(value));
    check_overlap(&kept)?;
    check_overlap(&left_out)?;
    for field in fields() {
        if let Some((path, _)) = kept.iter().find(|(path, _)| covers(path, field)) {
            let text = format!(
                "Index Key and Wildcard Projection cannot contain overlapping fields, however \
                 '{field}' index field is ovverlapping with '{path}' wildcardProjection path."
            );
            return Err(StoreError::new(7_246_208, text));
        }
        if !left_out.is_empty() && !left_out.iter().any(|(path, _)| covers(path, field)) {
            let is_before = left_out.iter().any(|(path, _)| *path > field);
            let code = if is_before { 7_246_209 } else { 7_246_210 };
            let text = format!(
                "wildcardProjection paths must exclude all regular index fields, however \
                 '{field}'is not excluded."
            );
            return Err(StoreError::new(code, text));
        }
    }
    let is_id = |fields: &[(&String, &Bson)]| matches!(fields, [(name, _)] if *name == "_id");
    if !kept.is_empty() && !left_out.is_empty() && !is_id(&kept) && !is_id(&left_out) {
        let text = "Inclusion and exclusion statements cannot combine in the wildcardProjection \
                    with an exception of explicitly including _id field";
        return Err(StoreError::new(7_246_211, text));
    }
    Ok(())
}

/// Returns an error if one of the paths in the projection of a wildcard index covers another one.
fn check_overlap(fields: &[(&String, &Bson)]) -> Answer<()> {
    let mut paths: Vec<Vec<&str>> = fields.iter().map(|(p, _)| p.split('.').collect()).collect();
    paths.sort();
    for pair in paths.windows(2) {
        if let [before, after] = pair
            && after.starts_with(before)
        {
            let text = format!(
                "Fields in Wildcard Projection cannot overlap, however '{}' is overlapped with '{}",
                before.join("."),
                after.join(".")
            );
            return Err(StoreError::new(7_246_200, text));
        }
    }
    Ok(())
}

/// Returns an error if a wildcard index does not permit the options of the index.
pub(super) fn check_options(key: &Document, entry: &Document, release: Release) -> Answer<()> {
    if kind(key) != WILDCARD {
        return Ok(());
    }
    let is_set = |name: &str| entry.get(name).is_some_and(super::expression::truthy);
    let refuse_option = |option: &str| match release < COLUMNS {
        true => format!("Index type 'wildcard' does not support the {option} option"),
        false => format!("Index type 'wildcard' does not support the '{option}' option"),
    };
    for option in ["sparse", "unique"] {
        if is_set(option) {
            return refuse(refuse_option(option));
        }
    }
    if entry.contains_key("expireAfterSeconds") {
        return refuse(match release < COLUMNS {
            true => "Index type 'wildcard' cannot be a TTL index".to_owned(),
            false => {
                let reason = refuse_option("expireAfterSeconds");
                format!("cannot make a TTL index :: caused by :: {reason}")
            }
        });
    }
    if entry.get("v").and_then(number::as_integer) == Some(1) {
        return refuse("Index type 'wildcard' is not allowed with index version v: 1");
    }
    Ok(())
}

/// Returns an error if an index cannot be hashed.
pub(super) fn check_hashed(key: &Document, entry: &Document, release: Release) -> Answer<()> {
    let hashed = key.values().filter(|kind| kind.as_str() == Some("hashed"));
    match hashed.count() {
        0 => Ok(()),
        _ if key.len() > 1 && release < COMPOUND_HASHED => {
            let text = "Currently only single field hashed index supported.";
            Err(StoreError::new(16763, text))
        }
        1 if entry.get("unique").is_some_and(super::expression::truthy) => {
            let text = "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.";
            Err(StoreError::new(16764, text))
        }
        1 => Ok(()),
        n => {
            let text = format!(
                "A maximum of one index field is allowed to be hashed but found {n} for 'key' {}",
                display_document(key)
            );
            Err(StoreError::new(31303, text))
        }
    }
}

/// Returns an error if an index on `_id` has another key than `{_id: 1}`, or an option that such an
/// index cannot have.
pub(super) fn check_id(key: &Document, entry: &Document) -> Answer<()> {
    let is_of_id = key.len() == 1 && key.contains_key("_id");
    if is_of_id && !key.values().any(|kind| kind.as_str().is_some()) {
        let allowed = ["v", "key", "name", "ns", "collation"];
        if key.values().any(|n| number::as_double(n) == Some(-1.0)) {
            let text = format!(
                "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
                display_document(key)
            );
            return Err(StoreError::new(2, text));
        }
        let is_ascending = key.values().all(|n| number::as_double(n) == Some(1.0));
        let mut others = entry
            .keys()
            .filter(|name| !allowed.contains(&name.as_str()));
        if let Some(other) = others.next().filter(|_| is_ascending) {
            let text = format!(
                "The field '{other}' is not valid for an _id index specification. Specification: \
                 {}",
                display_document(entry)
            );
            return Err(StoreError::new(197, text));
        }
    }
    Ok(())
}
