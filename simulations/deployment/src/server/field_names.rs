//! The names of fields that servers before 5.0 do not store.

use super::{
    Member,
    fault::{Fault, bad_value, fault},
};
use crate::store::{Store, StoreError, Update};
use bson::{Bson, Document};

/// The fields of a reference to a document, which are always stored.
const OF_REFERENCES: [&str; 3] = ["$ref", "$id", "$db"];

impl Member {
    /// True if this server refuses some fields whose name begins with a dollar sign.
    pub(super) fn refuses_dollars(&self) -> bool {
        self.program.version.release < [5, 0, 0]
    }

    /// Returns an error if this server does not store a new document. Servers before 5.0 look only
    /// at the names of its own fields.
    pub(super) fn check_inserted(&self, document: &Document) -> Result<(), Fault> {
        let mut names = document.keys();
        match names.find(|name| name.starts_with('$')) {
            Some(name) if self.refuses_dollars() => {
                let text = format!("Document can't have $ prefixed field names: {name}");
                Err(bad_value(text))
            }
            _ => Ok(()),
        }
    }
}

/// Returns an error if an update has made changes after the first `start` ones, and sets a field
/// that servers before 5.0 do not store. Undoes these changes.
pub(super) fn check_updated(
    store: &mut Store,
    start: usize,
    update: &Update,
) -> Result<(), StoreError> {
    if store.pending_changes() == start {
        return Ok(());
    }
    let Some(path) = refused(update) else {
        return Ok(());
    };
    store.undo_to(start);
    let name = path.rsplit('.').next().unwrap_or_default();
    let text =
        format!("The dollar ($) prefixed field '{name}' in '{path}' is not valid for storage.");
    Err(fault(52, text).error)
}

/// Returns the path of a field that an update sets, and that servers before 5.0 do not store.
fn refused(update: &Update) -> Option<String> {
    let Update::Document(update) = update else {
        return None;
    };
    if !update
        .keys()
        .next()
        .is_some_and(|name| name.starts_with('$'))
    {
        return refused_in(update, "");
    }
    let setters = ["$set", "$setOnInsert"];
    let mut values = setters
        .into_iter()
        .filter_map(|name| update.get_document(name).ok());
    values.find_map(|values| {
        let mut values = values.iter();
        values.find_map(|(path, value)| refused_value(value, &format!("{path}.")))
    })
}

fn refused_in(document: &Document, prefix: &str) -> Option<String> {
    document.iter().find_map(|(name, value)| {
        let path = format!("{prefix}{name}");
        match name.starts_with('$') && !OF_REFERENCES.contains(&name.as_str()) {
            true => Some(path),
            false => refused_value(value, &format!("{path}.")),
        }
    })
}

fn refused_value(value: &Bson, prefix: &str) -> Option<String> {
    match value {
        Bson::Document(inner) => refused_in(inner, prefix),
        Bson::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(at, item)| refused_value(item, &format!("{prefix}{at}.")))
        }
        _ => None,
    }
}
