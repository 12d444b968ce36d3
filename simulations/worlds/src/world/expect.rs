//! The expectations of a scenario: what its author knows of each run, beside what holds for all.

use super::{
    options::{Rates, Workload},
    scenario::{MAX_SPAN, Scenario, Span},
};
use serde::{Deserialize, Serialize};

/// The expectations of a scenario. A run that does not meet them fails as a run fails whose
/// operations do not succeed after healing ([`FailureKind::Liveness`](super::FailureKind)).
///
/// ```
/// use onionskin_worlds::world::{Expect, Scenario, Span, Way};
/// use std::time::Duration;
///
/// let mut expect = Expect::default();
/// expect.succeeded = Some(1_000_000);
/// let mut scenario = Scenario::default();
/// scenario.safety = Some(Span(Duration::from_secs(2)));
/// scenario.expect = Some(expect);
/// let report = scenario.run(1, Way::Core).expect("it is possible");
/// let failure = report.failure.expect("no run does so much in two seconds");
/// assert!(failure.message.contains("1000000 or more"), "{failure}");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Expect {
    /// The least number of operations that succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<u32>,
    /// The largest number of operations that fail. Operations that their callers abandon do not
    /// count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u32>,
    /// The time after the last event, or after the end of the last freeze, from which on each
    /// operation that begins succeeds. An operation may still wait too long for a connection
    /// (`waitQueueTimeoutMS`), or time out if its own time limit is shorter than a second. Needs
    /// rates without faults, and [`Workload::Marks`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_failures_after: Option<Span>,
    /// The time after each event within which a write succeeds that begins after the event. The
    /// time during which a client is frozen does not count, that during which callers are polled
    /// late does. An event is left out if the time ends after the safety phase. Needs
    /// [`Workload::Marks`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes_within: Option<Span>,
}

/// Returns the reason why the expectations of a scenario cannot be checked, if there is one.
pub(super) fn fault(scenario: &Scenario) -> Option<String> {
    let expect = scenario.expect?;
    let spans = [
        ("no-failures-after", expect.no_failures_after),
        ("writes-within", expect.writes_within),
    ];
    let mut given = spans
        .into_iter()
        .filter_map(|(name, span)| Some((name, span?)));
    let unsuited = given.find_map(|(name, span)| {
        if scenario.workload == Some(Workload::Applications) {
            return Some(format!("`{name}` needs the workload `marks`"));
        }
        let is_long = span > MAX_SPAN;
        is_long.then(|| format!("`{name}` is longer than {}", String::from(MAX_SPAN)))
    });
    let lacks_time = |span| !has_time(scenario, span);
    let is_quiet = |rates: Rates| Rates { cancel: 0, ..rates } == Rates::default();
    if unsuited.is_some() {
        unsuited
    } else if expect.no_failures_after.is_some() && !scenario.rates.is_some_and(is_quiet) {
        Some("`no-failures-after` needs `rates` of zero, except that of `cancel`".to_owned())
    } else if expect.writes_within.is_some_and(lacks_time) {
        Some(
            "`writes-within` needs `safety`, and an event that is so long before its end"
                .to_owned(),
        )
    } else {
        None
    }
}

/// True if an event can come so long before the end of the safety phase.
fn has_time(scenario: &Scenario, span: Span) -> bool {
    let Some(safety) = scenario.safety else {
        return false;
    };
    match &scenario.schedule {
        // With `swarm`, the seed draws further disasters beside the number of `disasters`.
        None => {
            let has_disasters = scenario.disasters != Some(0) || scenario.swarm == Some(true);
            has_disasters && span < safety
        }
        Some(events) => events.iter().any(|event| event.at.0 + span.0 <= safety.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn writes_are_expected_after_the_disasters_of_swarm() {
        let mut scenario = Scenario {
            safety: Some(Span(Duration::from_secs(20))),
            disasters: Some(0),
            expect: Some(Expect {
                writes_within: Some(Span(Duration::from_secs(15))),
                ..Expect::default()
            }),
            ..Scenario::default()
        };
        let fault = scenario.fault().expect("there is no event");
        assert!(fault.contains("`writes-within`"), "{fault}");
        scenario.swarm = Some(true);
        assert_eq!(scenario.fault(), None);
    }
}
