//! The errors of servers before 5.0 for fields that they do not know, and for a `comment`.

use super::{Release, field, types::Kind, unknown};
use crate::{
    server::{
        connection::Request,
        fault::{Fault, fault},
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
        "find" | "getMore" => {
            let shown: String = display(&request.command).chars().take(MAX_SHOWN).collect();
            let text = format!("Failed to parse: {shown}. Unrecognized field '{name}'.");
            fault(9, text)
        }
        "findAndModify" | "findandmodify" => {
            fault(51177, format!("BSON field '{name}' is an unknown field."))
        }
        _ => unknown(&format!("{prefix}.{name}")),
    }
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
    let is_text = matches!(comment, Bson::String(_));
    let [major, minor, _] = release;
    match name {
        "count" | "distinct" if !is_text => {
            let path = format!("{name}.comment");
            field("comment", Kind::Text).check(&path, comment, (major, minor))
        }
        _ if (major, minor) >= (4, 4) => Ok(()),
        "find" if !is_text => {
            let shown: String = display(&request.command).chars().take(MAX_SHOWN).collect();
            let text =
                format!("Failed to parse: {shown}. 'comment' field must be of BSON type string.");
            Err(fault(9, text))
        }
        "aggregate" if !is_text => Err(fault(14, "comment must be a string")),
        "insert" | "update" | "delete" | "findAndModify" | "findandmodify" | "getMore" => {
            Err(unknown_field(request, name, "comment", (major, minor)))
        }
        _ => Ok(()),
    }
}
