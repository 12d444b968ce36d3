//! The errors of servers before 5.0 for fields that they do not know, for wrong types of the fields
//! of `find`, and for a `comment`.

use super::{
    Release, field, is_generic, is_missing,
    types::{Field, Kind, type_name},
    unknown,
};
use crate::{
    server::{
        connection::Request,
        document::integer,
        fault::{Fault, bad_value, fault},
    },
    store::display,
};
use bson::Bson;

/// The first release in which `count` and `distinct` take a `comment` of any type.
const ANY_COMMENT: [u16; 3] = [4, 4, 14];

/// The largest number of characters of a command that an error shows.
const MAX_SHOWN: usize = 1000;

/// Returns the error of a command with an unknown field. Servers before 5.0 have texts of their own
/// for the commands that they do not parse by a description.
pub(super) fn unknown_field(
    request: &Request,
    prefix: &str,
    name: &str,
    release: Release,
) -> Fault {
    match request.name.as_str() {
        _ if release >= (5, 0) => unknown(&format!("{prefix}.{name}")),
        "aggregate" => fault(9, format!("unrecognized field '{name}'")),
        "find" | "getMore" => unparsed(request, &format!("Unrecognized field '{name}'.")),
        "findAndModify" | "findandmodify" => {
            fault(51177, format!("BSON field '{name}' is an unknown field."))
        }
        _ => unknown(&format!("{prefix}.{name}")),
    }
}

/// Returns an error if a field of a `find` has a wrong type, or if the size of a batch, a limit or
/// a skip is negative, at a server before 5.0. Such a server reads these commands without a
/// description. Null stands for a missing field, as in later releases.
pub(super) fn check_type(
    request: &Request,
    field: &Field,
    value: &Bson,
    release: Release,
) -> Result<(), Fault> {
    if release >= (5, 0) || is_missing(Some(value)) || is_generic(field.name) {
        return Ok(());
    }
    let name = field.name;
    match request.name.as_str() {
        "find" => {}
        "getMore" if field.is_too_small(value) => {
            let text = format!("Batch size for getMore must be positive, but received: {value}");
            return Err(bad_value(text));
        }
        "aggregate" if name == "cursor" && has_negative_size(value) => {
            return Err(bad_value("cursor.batchSize must not be negative"));
        }
        _ => return Ok(()),
    }
    let (is_right, wanted) = match field.kind {
        Kind::Object => (matches!(value, Bson::Document(_)), "of BSON type object"),
        Kind::Bool => (matches!(value, Bson::Boolean(_)), "of BSON type bool"),
        Kind::Whole => {
            let kinds = ["int", "long", "double", "decimal"];
            (kinds.contains(&type_name(value)), "numeric")
        }
        Kind::TextOrObject => (
            matches!(value, Bson::String(_) | Bson::Document(_)),
            "either a string or nested object",
        ),
        _ => return Ok(()),
    };
    if !is_right {
        let reason = format!("'{name}' field must be {wanted}.");
        return Err(unparsed(request, &reason));
    }
    let shown = match name {
        _ if !field.is_too_small(value) => return Ok(()),
        "limit" => "Limit",
        "skip" => "Skip",
        _ => "BatchSize",
    };
    let text = format!("{shown} value must be non-negative, but received: {value}");
    Err(bad_value(text))
}

/// True if the `cursor` of an aggregation has a batch size below 0.
fn has_negative_size(cursor: &Bson) -> bool {
    let options = cursor.as_document();
    let size = options.and_then(|options| integer(options.get("batchSize")?));
    size.is_some_and(|size| size < 0)
}

/// Returns the error of a command that a server cannot read.
fn unparsed(request: &Request, reason: &str) -> Fault {
    let shown: String = display(&request.command).chars().take(MAX_SHOWN).collect();
    fault(9, format!("Failed to parse: {shown}. {reason}"))
}

/// Returns an error if a command has a `comment` that the release does not take. Before 4.4, only
/// queries have a `comment`, which is a string.
pub(super) fn check_comment(request: &Request, release: [u16; 3]) -> Result<(), Fault> {
    let Some(comment) = request.command.get("comment") else {
        return Ok(());
    };
    if release >= ANY_COMMENT {
        return Ok(());
    }
    let name = request.name.as_str();
    let is_text = matches!(comment, Bson::String(_)) || is_missing(Some(comment));
    let [major, minor, _] = release;
    match name {
        "count" | "distinct" if !is_text => {
            let path = format!("{name}.comment");
            field("comment", Kind::Text).check(&path, comment, (major, minor))
        }
        _ if (major, minor) >= (4, 4) => Ok(()),
        "find" if !is_text => {
            let reason = "'comment' field must be of BSON type string.";
            Err(unparsed(request, reason))
        }
        "aggregate" if !is_text => Err(fault(14, "comment must be a string")),
        "insert" | "update" | "delete" | "findAndModify" | "findandmodify" | "getMore" => {
            Err(unknown_field(request, name, "comment", (major, minor)))
        }
        _ => Ok(()),
    }
}
