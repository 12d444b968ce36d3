//! Checks operations: every operation ends in time, without an error that must not occur, and a
//! read returns its own document.

mod calm;
mod data;
mod reads;

pub use calm::check_calm;
pub use data::check_data;
pub(in crate::world) use data::documents;

use crate::world::{
    report::{Failure, FailureKind},
    workload::{Ending, Entry, History, OperationKind},
};
use data::check_document;
use onionskin_core::{
    error::{ErrorKind, IoError, NetworkFault, Wait},
    time::Instant,
};
use reads::check_reads;
use std::{collections::BTreeMap, time::Duration};

/// The error code of a duplicate key.
const DUPLICATE_KEY: i32 = 11000;

/// The text of the error of an operation whose server selector has panicked, as a world makes it do
/// by the rate `panic`.
const PANICKED: &str = "server selector panicked";

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
                if is_mishandled(error.kind()) {
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

/// True for the errors that no operation of a world can have.
fn is_mishandled(error: &ErrorKind) -> bool {
    matches!(error, ErrorKind::InvalidArgument { message, .. } if !message.contains(PANICKED))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::workload::{Polling, Step, mark};
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
}
