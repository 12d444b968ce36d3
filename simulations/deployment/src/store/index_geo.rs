//! The options of indexes on positions (`2d`, `2dsphere` and `geoHaystack`).

use bson::{Bson, Document};

use super::error::StoreError;
use super::number;
use super::order::display;
use super::release::Release;
use super::{Answer, index_key};

/// The coarsest and the finest level of cells of a `2dsphere` index whose options do not give them:
/// of the versions 1 and 2, and of version 3. They are those whose cells have edges nearest to
/// 100 km and 500 m, or to 2,000 km and 110 m.
const LEVELS: [(i64, i64); 2] = [(7, 14), (2, 16)];

/// Returns the error for an index of the type `geoHaystack`, which servers have before 5.0.
pub(super) fn refuse_haystack(release: Release) -> Answer<()> {
    if release < Release([5, 0, 0]) {
        let error = StoreError::new(67, "Unknown index plugin 'geoHaystack'");
        return Err(error.not_simulated("indexes of the type geoHaystack"));
    }
    let text = "GeoHaystack indexes cannot be created in version 5.0 and above";
    Err(StoreError::new(67, text))
}

/// Returns an error if an index cannot have this `2dsphereIndexVersion`.
pub(super) fn check_version(key: &Document, entry: &Document) -> Answer<()> {
    let given = entry.get("2dsphereIndexVersion");
    let Some(version) = given.filter(|_| index_key::kind(key) == "2dsphere") else {
        return Ok(());
    };
    let shown = display(version);
    let reason = match version {
        Bson::Double(number) if !number.is_normal() => "Invalid value for",
        _ if !matches!(number::truncated(version), Some(1..=3)) => "unsupported",
        _ => return Ok(()),
    };
    let text = format!(
        "{reason} geo index version {{ 2dsphereIndexVersion : 2dsphereIndexVersion: {shown} }}, \
         only versions: [1,2,3] are supported"
    );
    Err(StoreError::new(67, text))
}

/// Returns an error if the options of an index on positions are out of range, or if its key does
/// not have the form of its type.
pub(super) fn check_parameters(key: &Document, entry: &Document) -> Answer<()> {
    match index_key::kind(key) {
        "2d" => check_plane(key, entry),
        "2dsphere" => check_levels(entry),
        _ => Ok(()),
    }
}

fn check_plane(key: &Document, entry: &Document) -> Answer<()> {
    let is_position = |direction: &Bson| direction.as_str() == Some("2d");
    if key.values().filter(|kind| is_position(kind)).count() > 1 {
        return Err(StoreError::new(16800, "can't have 2 geo fields"));
    }
    if !key.values().next().is_some_and(is_position) {
        return Err(StoreError::new(16801, "2d has to be first in index"));
    }
    let invalid = |text: String| Err(StoreError::new(72, text));
    let bits = entry.get("bits").and_then(number::as_double);
    let bits = bits.map_or(26, |bits| bits as i32);
    if !(1..=32).contains(&bits) {
        return invalid(format!(
            "bits for hash must be > 0 and <= 32, but {bits} bits were specified"
        ));
    }
    let bound = |name: &str, default: f64| {
        let given = entry.get(name).and_then(number::as_double);
        given.unwrap_or(default)
    };
    let (least, greatest) = (bound("min", -180.0), bound("max", 180.0));
    let is_ordered = least < greatest;
    if !is_ordered || least.is_infinite() || greatest.is_infinite() {
        return invalid(format!(
            "region for hash must be valid and have positive area, but [{least}, {greatest}] was \
             specified"
        ));
    }
    let scaling = 4_294_967_296.0 / (greatest - least);
    if scaling <= 0.0 || scaling.is_infinite() {
        return invalid(format!("range [{least}, {greatest}] is too small."));
    }
    Ok(())
}

fn check_levels(entry: &Document) -> Answer<()> {
    let level = |name: &str, default: i64| match entry.get(name) {
        None => Ok(default),
        Some(given) => number::as_integer(given).ok_or_else(|| {
            let text = format!(
                "Expected field \"{name}\" to have a value exactly representable as a 64-bit \
                 integer, but found {name}: {}",
                display(given)
            );
            StoreError::bad_value(text)
        }),
    };
    let version = entry.get("2dsphereIndexVersion");
    let is_old = version.is_some_and(|version| number::truncated(version) < Some(3));
    let [old, new] = LEVELS;
    let (coarsest, finest) = if is_old { old } else { new };
    let finest = level("finestIndexedLevel", finest)?;
    let coarsest = level("coarsestIndexedLevel", coarsest)?;
    let (code, text) = match () {
        () if coarsest < 0 => (16747, "coarsestIndexedLevel must be >= 0"),
        () if finest > 30 => (16748, "finestIndexedLevel must be <= 30"),
        () if finest < coarsest => (16749, "finestIndexedLevel must be >= coarsestIndexedLevel"),
        () => return Ok(()),
    };
    Err(StoreError::new(code, text))
}
