//! Checks that late reads see acknowledged writes.

use crate::world::{
    report::{Failure, FailureKind},
    workload::{Ending, History, OperationKind, counter},
};
use std::collections::BTreeMap;

/// Checks the late reads from the primary. If the insert of the document was acknowledged, a late
/// read must return the document with all acknowledged increments.
pub(super) fn check_reads(
    history: &History,
    browses_primary: impl Fn(usize) -> bool,
) -> Result<(), Failure> {
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
