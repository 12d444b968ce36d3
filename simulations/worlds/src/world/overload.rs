//! Servers that refuse requests and new connections because of overload.

use super::options::PER_MILLE;
use onionskin_deployment::deployment::{Deployment, Shedding};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The overload of one server or of all. A later overload of a server replaces an earlier one. A
/// server that starts again has none, also if it was set while the server was not running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerOverload {
    /// The index of the member, from 0. Default: `None`, for all members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// In how many of 1000 cases a request to read or write data fails with the error 462, whose
    /// labels are `SystemOverloadedError` and `RetryableError` (BP-1). Default: 0.
    pub requests: u16,
    /// In how many of 1000 cases a new connection is closed during its handshake (BP-15).
    /// Default: 0.
    pub handshakes: u16,
}

impl ServerOverload {
    /// Returns the reason why the overload has no effect or cannot be, if there is one.
    pub(super) const fn idle(&self) -> Option<&'static str> {
        if self.requests > PER_MILLE || self.handshakes > PER_MILLE {
            Some("`requests` and `handshakes` of an `overload` must be from 0 to 1000")
        } else if self.requests == 0 && self.handshakes == 0 {
            Some("an `overload` needs `requests` or `handshakes` above zero")
        } else {
            None
        }
    }

    /// Makes the servers refuse work from now on.
    pub(super) fn begin(&self, deployment: &mut Deployment) {
        let shedding = Shedding {
            requests_per_mille: self.requests,
            handshakes_per_mille: self.handshakes,
        };
        match self.member {
            Some(member) => deployment.set_shedding(member, shedding),
            None => set_all(deployment, shedding),
        }
    }

    /// Makes the servers refuse no work from now on.
    pub(super) fn end_all(deployment: &mut Deployment) {
        set_all(deployment, Shedding::default());
    }
}

fn set_all(deployment: &mut Deployment, shedding: Shedding) {
    for member in 0..deployment.members() {
        deployment.set_shedding(member, shedding);
    }
}

impl fmt::Display for ServerOverload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            Some(member) => write!(f, "member {member} refuses")?,
            None => f.write_str("all members refuse")?,
        }
        let (requests, handshakes) = (self.requests, self.handshakes);
        write!(
            f,
            " {requests} of 1000 requests and {handshakes} of 1000 handshakes"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{
        Disaster, Rates, Report, Scenario, Scheduled, Span, Way, WorldShape, run_seed,
    };
    use std::time::Duration;

    /// The end of the overload in the runs of [`overloaded`].
    const END: Duration = Duration::from_secs(5);

    /// Runs a replica set whose members are all overloaded from the beginning on.
    fn overloaded(way: Way, requests: u16, handshakes: u16) -> Report {
        let overload = ServerOverload {
            member: None,
            requests,
            handshakes,
        };
        let event = |at, event| Scheduled {
            at: Span(at),
            event,
        };
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            clients: Some(1),
            tasks: Some(4),
            safety: Some(Span(Duration::from_secs(8))),
            authentication: Some(false),
            rates: Some(Rates::default()),
            schedule: Some(vec![
                event(Duration::ZERO, Disaster::Overload(overload)),
                event(END, Disaster::EndOverload),
            ]),
            ..Scenario::default()
        };
        assert_eq!(scenario.fault(), None);
        let mut options = scenario.options(1);
        options.keep_trace = true;
        let report = run_seed(1, way, options);
        assert!(report.failure.is_none(), "{report}");
        report
    }

    /// Returns the times of the lines of a trace with a text.
    fn times(report: &Report, text: &str) -> Vec<Duration> {
        let lines = report.trace.lines().filter(|line| line.contains(text));
        let micros = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok());
        micros.map(Duration::from_micros).collect()
    }

    #[test]
    fn clients_meet_the_refusals_of_overloaded_servers_until_the_overload_ends() {
        for way in [Way::Core, Way::Runtime] {
            let report = overloaded(way, 400, 0);
            let refused = times(&report, "the request exceeds the rate limit");
            assert!(refused.len() > 10, "{way}: {}", refused.len());
            let last = refused.into_iter().max();
            assert!(last < Some(END + Duration::from_secs(1)), "{way}: {last:?}");
        }
    }

    #[test]
    fn no_command_succeeds_while_all_handshakes_are_refused() {
        for way in [Way::Core, Way::Runtime] {
            let report = overloaded(way, 0, 1000);
            let first = times(&report, " succeeded after ").into_iter().min();
            assert!(first > Some(END), "{way}: {first:?}");
        }
    }

    #[test]
    fn an_overload_without_effect_is_refused() {
        let mut overload = ServerOverload::default();
        assert!(overload.idle().is_some());
        overload.handshakes = 1;
        assert_eq!(overload.idle(), None);
        overload.requests = 1001;
        assert!(overload.idle().is_some());
    }
}
