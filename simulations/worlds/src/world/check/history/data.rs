//! Checks the stored data: an acknowledged write is in it, and no write took effect twice.

use crate::world::{
    report::{Failure, FailureKind},
    workload::{
        COLLECTION, DATABASE, Ending, Entry, History, OTHER_DATABASE, OperationKind, counter, mark,
    },
};
use bson::Document;
use onionskin_core::time::Instant;
use onionskin_deployment::{deployment::Deployment, store::Namespace};
use std::collections::BTreeMap;

/// Checks the data of the primary at the end of a run: acknowledged writes are there once, and all
/// documents are those of callers.
pub fn check_data(now: Instant, history: &History, deployment: &Deployment) -> Result<(), Failure> {
    let fail = |kind, message: String| Err(Failure::new(kind, now, message));
    let mut shards = 0..deployment.options().shards;
    if shards.any(|shard| deployment.primary_of_shard(shard).is_none()) {
        return fail(
            FailureKind::Liveness,
            "there is no primary at the end".to_owned(),
        );
    }
    if let Err(what) = deployment.check_members() {
        return fail(FailureKind::Correctness, what);
    }
    let documents = documents(deployment, COLLECTION);
    let mut by_id: BTreeMap<i64, Vec<&Document>> = BTreeMap::new();
    for document in &documents {
        let id = document.get_i64("_id").unwrap_or(-1);
        by_id.entry(id).or_default().push(document);
    }
    let mut wanted: BTreeMap<i64, Vec<&Entry>> = BTreeMap::new();
    for entry in history.entries() {
        wanted.entry(entry.step.id).or_default().push(entry);
    }
    for (id, entries) in &wanted {
        let is_acknowledged = |kind| {
            let is_it = |e: &&&Entry| {
                e.step.kind == kind && matches!(e.ended, Some((_, Ending::Acknowledged)))
            };
            entries.iter().find(is_it).is_some()
        };
        let there = by_id.remove(id).unwrap_or_default();
        let is_inserted = is_acknowledged(OperationKind::Insert);
        if there.len() > 1 || (is_inserted && there.is_empty()) {
            let message = format!(
                "document {id} was stored {} times: {entries:?}",
                there.len()
            );
            return fail(FailureKind::Correctness, message);
        }
        let Some(document) = there.first() else {
            continue;
        };
        let least = i64::from(is_inserted && is_acknowledged(OperationKind::Increment));
        let most = i64::from(
            entries
                .iter()
                .any(|e| e.step.kind == OperationKind::Increment),
        );
        let n = counter(document).unwrap_or(-1);
        if let Err(what) = check_document(*id, document) {
            return fail(FailureKind::Correctness, what);
        }
        if n < least || n > most {
            let message = format!(
                "document {id} was incremented {n} times, not {least}..={most}: {entries:?}"
            );
            return fail(FailureKind::Correctness, message);
        }
    }
    if let Some((id, _)) = by_id.first_key_value() {
        return fail(
            FailureKind::Correctness,
            format!("nobody inserted document {id}"),
        );
    }
    Ok(())
}

/// Returns the documents of a collection in both databases, as the primaries have stored them.
pub(in crate::world) fn documents(deployment: &Deployment, collection: &str) -> Vec<Document> {
    let stored = |database: &str| {
        let shard = deployment.options().shard_of(database);
        let holder = deployment.primary_of_shard(shard);
        let store = holder.and_then(|holder| deployment.store(holder));
        store?.collection(&Namespace::new(database, collection))
    };
    let collections = [DATABASE, OTHER_DATABASE].into_iter().filter_map(stored);
    collections
        .flat_map(|collection| collection.documents())
        .map(|document| Document::clone(document))
        .collect()
}

/// Checks that a document is that of this number, and was incremented once at most.
pub(super) fn check_document(id: i64, document: &Document) -> Result<(), String> {
    if document.get_i64("_id").ok() != Some(id)
        || document.get_str("mark").ok() != Some(mark(id).as_str())
    {
        return Err(format!("not the document of {id}: {document}"));
    }
    match counter(document) {
        Some(0 | 1) => Ok(()),
        other => Err(format!("document {id} was incremented {other:?} times")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn a_write_that_was_executed_twice_is_found() {
        let twice = doc! { "_id": 5_i64, "mark": mark(5), "n": 2 };
        assert!(check_document(5, &twice).is_err());
    }
}
