//! The server selector of simulated clients, which panics in some calls.

use super::{mishap, options::Rates};
use onionskin_core::{
    options::{ClientOptions, ServerSelector},
    random::{Random, Seed},
};
use std::{
    panic::resume_unwind,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The panics of the server selectors of all clients, at the rate [`Rates::panic`]. Clones share
/// the rate.
#[derive(Clone, Debug)]
pub(super) struct Panics(Arc<Mutex<Draws>>);

#[derive(Debug)]
struct Draws {
    rate: u16,
    random: Random,
}

impl Panics {
    pub(super) fn new(rates: Rates, seed: &Seed) -> Self {
        let draws = Draws {
            rate: rates.panic,
            random: seed.split("selector").random(),
        };
        Self(Arc::new(Mutex::new(draws)))
    }

    /// Gives a client a server selector that accepts all servers, and panics in some calls. Without
    /// the rate, the client gets none.
    pub(super) fn install(&self, options: &mut ClientOptions) {
        if self.lock().rate == 0 {
            return;
        }
        let panics = self.clone();
        options.server_selector = Some(ServerSelector::new(move |_| {
            if panics.are_drawn() {
                // The hook that prints panics is not called.
                resume_unwind(Box::new("the server selector of a simulated client"));
            }
        }));
    }

    /// No selector panics from now on.
    pub(super) fn end(&self) {
        self.lock().rate = 0;
    }

    fn are_drawn(&self) -> bool {
        let mut draws = self.lock();
        let Draws { rate, random } = &mut *draws;
        mishap::is_drawn(random, *rate)
    }

    fn lock(&self) -> MutexGuard<'_, Draws> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::world::{
        Disaster, Rates, Report, Scenario, Scheduled, Span, Way, WorldShape, run_seed,
    };
    use std::time::Duration;

    const PANICKED: &str = "server selector panicked";

    fn run(way: Way, panic: u16) -> Report {
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            clients: Some(2),
            tasks: Some(4),
            safety: Some(Span(Duration::from_secs(15))),
            rates: Some(Rates {
                panic,
                ..Rates::default()
            }),
            schedule: Some(vec![Scheduled {
                at: Span(Duration::from_secs(5)),
                event: Disaster::StepDown,
            }]),
            ..Scenario::default()
        };
        assert_eq!(scenario.fault(), None);
        let mut options = scenario.options(1);
        options.keep_trace = true;
        let report = run_seed(1, way, options);
        // The late operations succeed, because no selector panics any more.
        assert!(report.failure.is_none(), "{report}");
        report
    }

    #[test]
    fn a_selector_that_panics_fails_its_operation_only() {
        for way in [Way::Core, Way::Runtime] {
            let report = run(way, 300);
            assert!(report.trace.contains(PANICKED), "{way}");
            assert!(report.tally.succeeded > 20, "{way}: {report}");
            let other = run(way, 0);
            assert!(!other.trace.contains(PANICKED), "{way}");
            assert!(other.tally.failed < report.tally.failed, "{way}: {other}");
        }
    }
}
