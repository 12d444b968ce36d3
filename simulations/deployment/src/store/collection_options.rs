//! The checks of the options of new and of changed collections.

use bson::{Bson, Document};

use super::Answer;
use super::catalog::uuid;
use super::collation::Collation;
use super::collection::Collection;
use super::error::StoreError;
use super::expression::truthy;
use super::index::generated_name;
use super::names::SYSTEM_DATABASES;
use super::number;
use super::order::{display_document, type_name};
use super::release::Release;
use super::size;
use super::types::Namespace;

/// The storage engines whose options a server of the community edition takes.
const ENGINES: [&str; 2] = ["devnull", "wiredTiger"];

/// The fields of the index of `_id` in the option `idIndex`.
const ID_INDEX: [&str; 5] = ["collation", "key", "name", "ns", "v"];

/// The first release in which an update can change the size of a document of a capped collection.
const RESIZES: Release = Release([5, 3, 0]);

/// The first release whose errors about options of views begin with the reason.
const REASON_FIRST: Release = Release([6, 0, 0]);

/// The bound of the size of a capped collection, in bytes.
const MAX_CAPPED_BYTES: f64 = (1_u64 << 50) as f64;

/// The first release in which the size of a capped collection need not be a multiple of 256 bytes.
const ANY_CAPPED_SIZE: Release = Release([6, 2, 0]);

/// The bound of the number of documents of a capped collection.
const MAX_COUNT: f64 = (1_u64 << 31) as f64;

/// Checks the options of a capped collection, and writes them as the server shows them: its numbers
/// are 32-bit integers if they fit.
pub(super) fn check_bounds(options: &mut Document, release: Release) -> Answer<()> {
    let is_capped = options.get("capped").is_some_and(truthy);
    match options.get_mut("capped") {
        Some(capped) if is_capped => *capped = true.into(),
        _ => drop(options.remove("capped")),
    }
    let names = ["size", "max"];
    if !is_capped && names.iter().any(|name| options.contains_key(name)) {
        let text = "the 'capped' field needs to be true when either the 'size' or 'max' fields are \
                    present";
        return Err(StoreError::new(72, text));
    }
    if is_capped && !options.contains_key("size") {
        let text = "the 'size' field is required when 'capped' is true";
        return Err(StoreError::new(72, text));
    }
    for name in names {
        let Some(value) = options.get_mut(name) else {
            continue;
        };
        let number = number::as_double(value).unwrap_or_default();
        // A `max` below one is no limit.
        let (least, bound) = match name {
            "size" => (1.0, MAX_CAPPED_BYTES),
            _ => (f64::MIN, MAX_COUNT),
        };
        if number < least {
            let text = format!("BSON field '{name}' value must be >= 1, actual value '{number}'");
            return Err(StoreError::new(51024, text));
        }
        if number.is_nan() || number >= bound {
            let text =
                format!("BSON field '{name}' value must be < {bound}, actual value '{number}'");
            return Err(StoreError::new(51024, text));
        }
        let whole = match number as i64 {
            bytes if name == "size" && release < ANY_CAPPED_SIZE => (bytes + 255) & !255,
            whole => whole,
        };
        *value = i32::try_from(whole).map_or_else(|_| whole.into(), Bson::from);
    }
    Ok(())
}

fn invalid(text: impl Into<String>) -> StoreError {
    StoreError::new(72, text)
}

/// Returns an error if a new collection has options that a server refuses whatever the others are.
pub(super) fn check_given(namespace: &Namespace, options: &Document) -> Answer<()> {
    let is_view = options.contains_key("viewOn");
    let id = options.get("autoIndexId");
    let is_without_id = id.is_some_and(|id| *id != Bson::Null && !truthy(id));
    if is_without_id && !is_view {
        let text = format!(
            "autoIndexId:false is not allowed for collection {namespace} because it can be \
             replicated"
        );
        let error = StoreError::new(50001, text);
        return Err(match namespace.database.as_str() {
            "local" => error.not_simulated("collections without the index of _id"),
            _ => error,
        });
    }
    let defaults = options.get_document("indexOptionDefaults").ok();
    let engines = [
        options.get("storageEngine"),
        defaults.and_then(|defaults| defaults.get("storageEngine")),
    ];
    for engines in engines.into_iter().flatten().filter_map(Bson::as_document) {
        check_engines(engines)?;
    }
    check_time_to_live(options)
}

/// Returns an error if options are those of an unknown storage engine.
fn check_engines(engines: &Document) -> Answer<()> {
    for (name, options) in engines {
        if options.as_document().is_none() {
            let text = format!("'storageEngine.{name}' has to be an embedded document.");
            return Err(StoreError::bad_value(text));
        }
        if !ENGINES.contains(&name.as_str()) {
            let text = format!("{name} is not a registered storage engine for this server");
            return Err(invalid(text));
        }
    }
    Ok(())
}

/// Returns an error if the time to live of a collection is negative.
fn check_time_to_live(options: &Document) -> Answer<()> {
    let seconds = options
        .get("expireAfterSeconds")
        .and_then(number::as_double);
    match seconds {
        Some(seconds) if seconds < 0.0 => {
            let text = "TTL index 'expireAfterSeconds' option cannot be less than 0";
            Err(invalid(text))
        }
        _ => Ok(()),
    }
}

/// Returns the collation of a new collection with all fields, which is `None` for the collation
/// `simple`. Returns `None` if the options have no collation.
pub(super) fn given_collation(options: &Document) -> Answer<Option<Option<Document>>> {
    let Ok(given) = options.get_document("collation") else {
        return Ok(None);
    };
    if given.is_empty() {
        let text = "'collation' cannot be an empty document";
        return Err(StoreError::bad_value(text));
    }
    let full = Collation::parse(given)?;
    Ok(Some(full.map(|full| full.specification().clone())))
}

/// Checks the option `idIndex` of a new collection with its full collation, and removes it: the
/// index of `_id` is that which each collection has.
pub(super) fn check_id_index(options: &mut Document) -> Answer<()> {
    let Some(Bson::Document(given)) = options.remove("idIndex") else {
        return Ok(());
    };
    let shown = display_document(&given);
    for other in ["viewOn", "autoIndexId"] {
        if options.contains_key(other) {
            let text = format!("'idIndex' is not allowed with '{other}': {shown}");
            return Err(invalid(text));
        }
    }
    let field = |name: &str| {
        given.get(name).ok_or_else(|| {
            let text =
                format!("The '{name}' field is a required property of an index specification");
            StoreError::failed_to_parse(text)
        })
    };
    let wrong = |name: &str, wanted: &str, value: &Bson| {
        let kind = type_name(value);
        let text = format!("The field '{name}' must be {wanted}, but got {kind}");
        StoreError::type_mismatch(text)
    };
    let key = match field("key")? {
        Bson::Document(key) => key,
        other => return Err(wrong("key", "an object", other)),
    };
    match field("name")? {
        Bson::String(_) => {}
        other => return Err(wrong("name", "a string", other)),
    }
    if let Some(unknown) = given.keys().find(|name| !ID_INDEX.contains(&name.as_str())) {
        let text = format!(
            "The field '{unknown}' is not valid for an _id index specification. Specification: \
             {shown}"
        );
        return Err(StoreError::new(197, text));
    }
    if generated_name(key) != "_id_1" {
        let key = display_document(key);
        let text = format!("The field 'key' for an _id index must be {{_id: 1}}, but got {key}");
        return Err(StoreError::bad_value(text));
    }
    match given_collation(&given)? {
        Some(own) if own.as_ref() != options.get_document("collation").ok() => {
            let text = "'idIndex' must have the same collation as the collection.";
            Err(StoreError::bad_value(text))
        }
        _ => Ok(()),
    }
}

/// Returns an error if a collection of the server itself has a validator. `serial` is the number of
/// the collection's creation.
pub(super) fn check_validated(
    namespace: &Namespace,
    options: &Document,
    serial: u64,
) -> Answer<()> {
    let validator = options.get_document("validator");
    let is_validated = validator.is_ok_and(|validator| !validator.is_empty());
    if !is_validated || options.contains_key("viewOn") {
        return Ok(());
    }
    let database = namespace.database.as_str();
    let uuid = bson::Uuid::from_bytes(uuid(namespace, serial));
    if namespace.collection.starts_with("system.") {
        let text = format!(
            "Document validators not allowed on system collection {namespace} with UUID {uuid}"
        );
        return Err(invalid(text));
    }
    match SYSTEM_DATABASES.contains(&database) {
        false => Ok(()),
        true => Err(invalid(format!(
            "Document validators are not allowed on collection {namespace} with UUID {uuid} in \
             the {database} internal database"
        ))),
    }
}

/// Returns an error if options of `collMod` are not those of this kind of collection.
pub(super) fn check_changed(
    namespace: &Namespace,
    collection: &Collection,
    options: &Document,
    release: Release,
) -> Answer<()> {
    let is_view = collection.view_on().is_some();
    let is_series = collection.time_series().is_some();
    for name in options.keys().filter(|name| *name != "collMod") {
        let is_of_views = matches!(name.as_str(), "viewOn" | "pipeline");
        let is_of_series = matches!(name.as_str(), "expireAfterSeconds" | "index");
        if is_view && !is_of_views {
            return Err(invalid(format!("option not supported on a view: {name}")));
        }
        if is_series && !is_of_series {
            let text = format!("option not supported on a time-series collection: {name}");
            return Err(invalid(text));
        }
        if !is_view && is_of_views {
            let text = match release < REASON_FIRST {
                true => format!("'{name}' option only supported on a view"),
                false => format!("option only supported on a view: {name}"),
            };
            return Err(invalid(text));
        }
    }
    let expires = options.contains_key("expireAfterSeconds");
    if expires && !is_series && !collection.options.contains_key("clusteredIndex") {
        return Err(not_clustered());
    }
    let resizes = ["cappedSize", "cappedMax"].map(|name| options.contains_key(name));
    if resizes.contains(&true) && !collection.is_capped() {
        let text = format!("{namespace} is not capped, so its size cannot be changed");
        return Err(invalid(text));
    }
    check_time_to_live(options)
}

impl Collection {
    /// Returns an error if a change of a document changes its size, in a capped collection of an
    /// older release.
    pub(super) fn check_resized(
        &self,
        before: &Document,
        after: &Document,
        release: Release,
    ) -> Answer<()> {
        if !self.is_capped() || release >= RESIZES {
            return Ok(());
        }
        let (old, new) = (size::of(before), size::of(after));
        if old == new {
            return Ok(());
        }
        let text =
            format!("Cannot change the size of a document in a capped collection: {old} != {new}");
        Err(StoreError::new(10003, text))
    }
}

/// Returns the error of a time to live of a collection that cannot have one.
pub(super) fn not_clustered() -> StoreError {
    let text = "'expireAfterSeconds' is only supported on time-series collections or when the \
                'clusteredIndex' option is specified";
    StoreError::new(72, text)
}
