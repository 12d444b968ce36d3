//! Checks operations and data: every operation ends in time, a read returns its own document, and
//! an acknowledged write is in the data once.

use crate::world::{
    report::{Failure, FailureKind},
    workload::{
        COLLECTION, DATABASE, Ending, Entry, History, OTHER_DATABASE, OperationKind, counter, mark,
    },
};
use bson::Document;
use onionskin_core::{
    error::{ErrorKind, IoError, NetworkFault, Wait},
    time::Instant,
};
use onionskin_deployment::{deployment::Deployment, store::Namespace};
use std::{collections::BTreeMap, time::Duration};

/// The error code of a duplicate key.
const DUPLICATE_KEY: i32 = 11000;

/// The time after which each client of a world without faults knows the servers.
const DISCOVERY: Duration = Duration::from_secs(1);

/// Checks that each operation ended in time and without an error that must not occur, and that
/// reads returned the right data.
///
/// `slack` returns the time by which an operation that ended at this time may exceed its deadline.
/// The absence of the caller (`Polling::absence`) is added to the deadline, because an operation
/// can end only when it is polled. `aftermath` is the number of late operations (`Entry::is_late`)
/// of a client that may fail because of faults before healing. `browses_primary` is true for a
/// client whose [`OperationKind::Browse`] reads from the primary.
pub fn check_history(
    history: &History,
    slack: impl Fn(&Entry, Instant) -> Duration,
    aftermath: impl Fn(usize) -> usize,
    browses_primary: impl Fn(usize) -> bool,
) -> Result<(), Failure> {
    let mut broken: BTreeMap<usize, usize> = BTreeMap::new();
    for entry in history.entries() {
        let Some((at, ending)) = &entry.ended else {
            let message = format!("an operation never ended: {entry}");
            return Err(Failure::new(FailureKind::Liveness, entry.began, message));
        };
        let fail = |kind, message: String| Err(Failure::new(kind, *at, message));
        let absence = entry.step.polling.absence;
        let absent = absence.map_or(Duration::ZERO, |absence| absence.time);
        let limit = entry.began + entry.step.timeout + absent + slack(entry, *at);
        if *at > limit {
            return fail(
                FailureKind::Liveness,
                format!("an operation ended after its limit of {limit}: {entry}"),
            );
        }
        match ending {
            Ending::Found(Some(document)) => {
                if let Err(what) = check_document(entry.step.id, document) {
                    return fail(FailureKind::Correctness, format!("{what}: {entry}"));
                }
            }
            Ending::Failed(error) => {
                if error.code() == Some(DUPLICATE_KEY) {
                    let message = format!("a write took effect before its retry: {entry}");
                    return fail(FailureKind::Correctness, message);
                }
                if matches!(error.kind(), ErrorKind::InvalidArgument { .. }) {
                    let message = format!("an operation was mishandled: {entry}");
                    return fail(FailureKind::Correctness, message);
                }
                let is_timeout = matches!(
                    error.kind(),
                    ErrorKind::Timeout {
                        wait: Wait::Exchange,
                        ..
                    }
                );
                // Each batch of a cursor has its own share of the time limit.
                let is_whole = entry.step.kind != OperationKind::Browse;
                if is_timeout && is_whole && *at < entry.began + entry.step.timeout {
                    let message = format!(
                        "an operation failed with a timeout before its time limit: {entry}"
                    );
                    return fail(FailureKind::Correctness, message);
                }
                let broken = broken.entry(entry.client).or_default();
                *broken += usize::from(entry.is_late && is_aftermath(error.kind()));
                if entry.is_late
                    && (!is_aftermath(error.kind()) || *broken > aftermath(entry.client))
                {
                    let message = format!("an operation failed after healing: {entry}");
                    return fail(FailureKind::Liveness, message);
                }
            }
            Ending::Acknowledged | Ending::Found(None) | Ending::Abandoned => {}
        }
    }
    check_reads(history, browses_primary)
}

/// True for the errors that a late operation can have because of faults before healing. A broken
/// idle connection is noticed only when it is used, and a retry can get another broken one.
fn is_aftermath(error: &ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::ConnectionPoolCleared { .. }
            | ErrorKind::Io(IoError {
                fault: NetworkFault::Reset | NetworkFault::Closed,
                ..
            })
    )
}

/// Checks that no operation fails in a world without faults, except by a timeout. Server selection
/// may time out only while clients look for the servers.
pub fn check_calm(history: &History) -> Result<(), Failure> {
    for entry in history.entries() {
        if let Some((at, Ending::Failed(error))) = &entry.ended
            && (!error.is_timeout()
                || error.is_server_selection() && *at > Instant::ZERO + DISCOVERY)
        {
            let message = format!("an operation failed without cause: {entry}");
            return Err(Failure::new(FailureKind::Correctness, *at, message));
        }
    }
    Ok(())
}

/// Checks the late reads from the primary. If the insert of the document was acknowledged, a late
/// read must return the document with all acknowledged increments.
fn check_reads(history: &History, browses_primary: impl Fn(usize) -> bool) -> Result<(), Failure> {
    let mut acknowledged: BTreeMap<i64, (bool, i64)> = BTreeMap::new();
    for entry in history.entries() {
        let Some((at, ending)) = &entry.ended else {
            continue;
        };
        let (is_inserted, increments) = acknowledged.entry(entry.step.id).or_default();
        match (entry.step.kind, ending) {
            (OperationKind::Insert, Ending::Acknowledged) => *is_inserted = true,
            (OperationKind::Increment, Ending::Acknowledged) => *increments += 1,
            (kind @ (OperationKind::Find | OperationKind::Browse), Ending::Found(found))
                if entry.is_late
                    && *is_inserted
                    && (kind == OperationKind::Find || browses_primary(entry.client)) =>
            {
                let n = found.as_ref().and_then(counter);
                if n.is_none_or(|n| n < *increments) {
                    let message = format!("an acknowledged write was not read: {entry}");
                    return Err(Failure::new(FailureKind::Correctness, *at, message));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks the data of the primary at the end of a run: acknowledged writes are there once, and all
/// documents are those of callers.
pub fn check_data(now: Instant, history: &History, deployment: &Deployment) -> Result<(), Failure> {
    let fail = |kind, message: String| Err(Failure::new(kind, now, message));
    if deployment.primary().is_none() {
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
    let shards = deployment.options().shards;
    let stored = |database: &str| {
        let shard = deployment.options().shard_of(database);
        let holder = match shards {
            1 => deployment.primary(),
            _ => Some(deployment.members() + shard),
        };
        let store = holder.and_then(|holder| deployment.store(holder));
        store?.collection(&Namespace::new(database, collection))
    };
    let collections = [DATABASE, OTHER_DATABASE].into_iter().filter_map(stored);
    collections
        .flat_map(|collection| collection.documents())
        .map(|document| Document::clone(document))
        .collect()
}

fn check_document(id: i64, document: &Document) -> Result<(), String> {
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
    use crate::world::workload::{Polling, Step};
    use bson::doc;

    fn history(kind: OperationKind, ended: Option<(Instant, Ending)>) -> History {
        let step = Step {
            kind,
            id: 5,
            timeout: Duration::from_secs(1),
            polling: Polling::default(),
        };
        let mut history = History::default();
        let place = history.begin(0, step, Instant::ZERO, true);
        if let Some((at, ending)) = ended {
            history.end(place, at, ending);
        }
        history
    }

    fn failure_of(kind: OperationKind, ended: Option<(Instant, Ending)>) -> Option<FailureKind> {
        let slack = |_: &Entry, _| Duration::ZERO;
        let result = check_history(&history(kind, ended), slack, |_| 0, |_| true);
        result.err().map(|failure| failure.kind)
    }

    #[test]
    fn operations_that_never_end_or_end_too_late_are_found() {
        let late = Instant::ZERO + Duration::from_millis(1001);
        assert_eq!(
            failure_of(OperationKind::Insert, None),
            Some(FailureKind::Liveness)
        );
        let ended = Some((late, Ending::Acknowledged));
        assert_eq!(
            failure_of(OperationKind::Insert, ended),
            Some(FailureKind::Liveness)
        );
        let ended = Some((Instant::ZERO, Ending::Acknowledged));
        assert_eq!(failure_of(OperationKind::Insert, ended), None);
    }

    #[test]
    fn a_reply_to_another_operation_is_found() {
        let other = doc! { "_id": 6_i64, "mark": mark(6), "n": 0 };
        let ended = Some((Instant::ZERO, Ending::Found(Some(other))));
        assert_eq!(
            failure_of(OperationKind::Find, ended),
            Some(FailureKind::Correctness)
        );
        let own = doc! { "_id": 5_i64, "mark": mark(5), "n": 0 };
        let ended = Some((Instant::ZERO, Ending::Found(Some(own))));
        assert_eq!(failure_of(OperationKind::Find, ended), None);
    }

    #[test]
    fn a_write_that_was_executed_twice_is_found() {
        let twice = doc! { "_id": 5_i64, "mark": mark(5), "n": 2 };
        assert!(check_document(5, &twice).is_err());
    }
}
