//! The errors of servers before 5.0 for fields that they do not know.

use super::{Release, unknown};
use crate::{
    server::{
        connection::Request,
        fault::{Fault, fault},
    },
    store::display,
};

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
            let shown = display(&request.command);
            let text = format!("Failed to parse: {shown}. Unrecognized field '{name}'.");
            fault(9, text)
        }
        "findAndModify" | "findandmodify" => {
            fault(51177, format!("BSON field '{name}' is an unknown field."))
        }
        _ => unknown(&format!("{prefix}.{name}")),
    }
}
