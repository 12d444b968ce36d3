//! The events of changes of indexes.

use bson::{Document, doc};

use super::super::change::Change;
use super::Parts;

/// Returns the event of a change of an index. The changes of one command are one event if they
/// build indexes, or if they change the options of an index by a drop and a new build.
pub(super) fn index_change(changes: &[Change], at: usize) -> Option<Parts> {
    let previous = at.checked_sub(1).and_then(|at| changes.get(at));
    match changes.get(at)? {
        Change::DropIndex {
            namespace,
            specification,
            serial,
            ..
        } => {
            if replaced_index(changes, at).is_some() {
                return None;
            }
            let indexes = vec![Document::clone(specification)];
            let parts = Parts::new("dropIndexes", namespace, *serial);
            Some(parts.with("operationDescription", doc! { "indexes": indexes }))
        }
        Change::CreateIndex {
            namespace,
            specification,
            serial,
            ..
        } => {
            if let Some(before) = at.checked_sub(1).and_then(|at| replaced_index(changes, at)) {
                let description = doc! { "index": Document::clone(specification) };
                let parts = Parts::new("modify", namespace, *serial);
                let parts = parts.with("operationDescription", description);
                let state = doc! { "indexOptions": before.clone() };
                return Some(parts.with("stateBeforeChange", state));
            }
            if matches!(previous, Some(Change::CreateIndex { .. })) {
                return None;
            }
            let indexes = changes[at..].iter().map_while(|change| match change {
                Change::CreateIndex { specification, .. } => Some(Document::clone(specification)),
                _ => None,
            });
            let indexes: Vec<Document> = indexes.collect();
            let parts = Parts::new("createIndexes", namespace, *serial);
            Some(parts.with("operationDescription", doc! { "indexes": indexes }))
        }
        _ => None,
    }
}

/// Returns the old specification if the change at this position drops an index that the next change
/// builds with other options.
fn replaced_index(changes: &[Change], at: usize) -> Option<&Document> {
    match (changes.get(at)?, changes.get(at + 1)?) {
        (
            Change::DropIndex { specification, .. },
            Change::CreateIndex {
                specification: new, ..
            },
        ) if specification.get("name") == new.get("name") => Some(specification),
        _ => None,
    }
}
