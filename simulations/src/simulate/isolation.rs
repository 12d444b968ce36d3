//! The isolation of the transactions of a run, judged by `adya`, a checker of list-append histories
//! after the method of Elle.

use adya::{History, Opts, Valid, Workload};
use onionskin_core::time::Instant;
use onionskin_worlds::world::{Failure, FailureKind, Report};
use std::time::Duration;

/// The consistency that MongoDB promises for transactions with the read concern `snapshot` and the
/// write concern `majority`, in sessions with causal consistency.
const MODEL: &str = "strong-session-snapshot-isolation";

/// The time for the search of a cycle that explains a failure. It is long, so that the explanation
/// does not depend on the speed of the machine.
const SEARCH_TIME: Duration = Duration::from_secs(60);

/// Lets the run fail if its transactions were not isolated, unless it has failed already.
pub fn judge(report: &mut Report) {
    if report.failure.is_some() || report.lists.committed() == 0 {
        return;
    }
    let options = Opts {
        models: vec![MODEL.to_owned()],
        timeout: SEARCH_TIME,
        ..Opts::default()
    };
    let what = match History::from_json(&report.lists.json_lines()) {
        Err(error) => error.to_string(),
        Ok(history) => {
            let verdict = adya::check(&history, Workload::ListAppend, &options);
            // `Unknown` is the verdict on a history that is too short to tell an order, or whose
            // cycles were not found in time.
            if verdict.valid != Valid::False {
                return;
            }
            let first = verdict.anomalies.values().flatten().next();
            let first = first.map(|anomaly| anomaly.explanation.as_str());
            let kinds = verdict.anomaly_types.join(", ");
            format!("{kinds}: {}", first.unwrap_or_default())
        }
    };
    let at = Instant::ZERO + report.simulated;
    let message = format!("the transactions were not isolated: {what}");
    report.failure = Some(Failure::new(FailureKind::Correctness, at, message));
}
