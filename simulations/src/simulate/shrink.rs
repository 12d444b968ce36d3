//! Makes the scenario of a failed run smaller.

use super::{run, verdict::FailedRun, verdict::Fault};
use onionskin_worlds::world::{
    Disaster, Rates, Report, Scenario, Scheduled, Span, Way, WorldProxy, plan::drawn_schedule,
};
use std::time::Duration;

/// The highest number of runs with which a scenario is made smaller.
const MAX_RUNS: usize = 400;

/// The shortest safety phase of a smaller scenario.
const MIN_SAFETY: Duration = Duration::from_secs(1);

/// Returns a smaller scenario with which the run of this seed still fails in the same way, and its
/// failure. Returns `None` if the run does not fail.
///
/// The scenario has all of the disasters that the seed drew, and each is left out in turn. So are
/// the kinds of faults, clients, callers, the proxy, the authentication, and the end of the safety
/// phase. `observe` is called with each smaller scenario.
pub fn shrink(
    seed: u64,
    way: Way,
    scenario: &Scenario,
    mut observe: impl FnMut(&Scenario),
) -> Option<(Scenario, FailedRun)> {
    let failed = |scenario: &Scenario| fault(seed, &run(seed, way, scenario));
    let mut failure = failed(scenario)?;
    let mut smallest = scenario.clone();
    let mut runs = 0;
    let explicit = explicit(seed, scenario);
    if failed(&explicit).is_some_and(|found| found.fault == failure.fault) {
        smallest = explicit;
    }
    'smaller: while runs < MAX_RUNS {
        for candidate in candidates(&smallest) {
            runs += 1;
            match failed(&candidate) {
                Some(found) if found.fault == failure.fault => {
                    (smallest, failure) = (candidate, found);
                    observe(&smallest);
                    continue 'smaller;
                }
                _ if runs == MAX_RUNS => break 'smaller,
                _ => {}
            }
        }
        break;
    }
    Some((smallest, failure))
}

fn fault(seed: u64, run: &Result<Report, String>) -> Option<FailedRun> {
    match run {
        Ok(report) => report
            .failure
            .as_ref()
            .map(|failure| FailedRun::of(seed, failure)),
        Err(message) => Some(FailedRun {
            seed,
            fault: Fault::Crash,
            message: message.clone(),
        }),
    }
}

/// Returns the scenario with what the seed has drawn for it.
fn explicit(seed: u64, scenario: &Scenario) -> Scenario {
    let options = scenario.options(seed);
    let mut explicit = scenario.clone();
    explicit.members = Some(options.members);
    explicit.clients = Some(options.clients);
    explicit.tasks = Some(options.tasks);
    explicit.safety = Some(Span(options.safety));
    explicit.rates = Some(options.rates);
    explicit.client_options = Some(options.client_options.clone());
    explicit.proxy = Some(options.proxy);
    explicit.authentication = Some(options.authentication);
    explicit.disasters = None;
    if explicit.schedule.is_none() {
        explicit.schedule = Some(drawn_schedule(seed, &options));
    }
    explicit
}

/// Returns the next smaller scenarios, those that leave out most first.
fn candidates(scenario: &Scenario) -> Vec<Scenario> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut Scenario)| {
        let mut smaller = scenario.clone();
        change(&mut smaller);
        if smaller != *scenario && smaller.fault().is_none() {
            found.push(smaller);
        }
    };
    add(&|smaller| smaller.rates = Some(Rates::default()));
    add(&|smaller| smaller.schedule = Some(Vec::new()));
    add(&|smaller| {
        smaller.clients = Some(1);
        let schedule = smaller.schedule.iter_mut();
        schedule.for_each(|events| events.retain(is_for_first_client));
    });
    add(&|smaller| smaller.tasks = Some(1));
    add(&|smaller| smaller.tasks = smaller.tasks.map(|tasks| tasks.div_ceil(2)));
    add(&|smaller| {
        let half = smaller.safety.map(|span| span.0 / 2);
        // Whole seconds are easier to read.
        let half = half.map(|half| Duration::from_secs(half.as_secs()).max(MIN_SAFETY));
        smaller.safety = half.map(Span).min(smaller.safety);
    });
    add(&|smaller| smaller.authentication = Some(false));
    add(&|smaller| smaller.proxy = Some(WorldProxy::None));
    for place in 0..scenario.schedule.as_ref().map_or(0, Vec::len) {
        add(&|smaller| {
            let schedule = smaller.schedule.iter_mut();
            schedule.for_each(|events| {
                events.remove(place);
            });
        });
    }
    for rate in RATES {
        add(&|smaller| *rate(smaller.rates.get_or_insert_default()) = 0);
    }
    found
}

/// The rates of faults.
const RATES: [fn(&mut Rates) -> &mut u16; 11] = [
    |rates| &mut rates.refuse,
    |rates| &mut rates.vanish,
    |rates| &mut rates.reset,
    |rates| &mut rates.half_open,
    |rates| &mut rates.stall,
    |rates| &mut rates.slow,
    |rates| &mut rates.truncate,
    |rates| &mut rates.corrupt,
    |rates| &mut rates.cancel,
    |rates| &mut rates.unresolved,
    |rates| &mut rates.unpolled,
];

fn is_for_first_client(scheduled: &Scheduled) -> bool {
    match scheduled.event {
        Disaster::CutClient { client, .. }
        | Disaster::Freeze { client, .. }
        | Disaster::CloseClient(client) => client == 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::scenarios;

    #[test]
    fn a_sound_run_has_no_smaller_scenario() {
        let calm = scenarios::parse("safety = \"1s\"\ntasks = 1").expect("a scenario");
        assert_eq!(shrink(1, Way::Core, &calm, |_| {}), None);
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        // A selection that fails at once is a failure only in a world with faults.
        let text = "members = 3\nclients = 2\nsafety = \"8s\"\ngrace = \"1s\"\n\
                    client-options = \"serverSelectionTimeoutMS=1\"\n\
                    [rates]\nslow = 200\nreset = 5\n";
        let scenario = scenarios::parse(text).expect("a scenario");
        let failing = (0..20).find_map(|seed| shrink(seed, Way::Core, &scenario, |_| {}));
        let (smaller, failure) = failing.expect("no selection succeeds in a millisecond");
        assert_eq!(smaller.clients, Some(1));
        assert_eq!(smaller.tasks, Some(1));
        assert_eq!(smaller.rates, Some(Rates::default()));
        assert_eq!(smaller.schedule.as_ref().map(Vec::len), Some(1));
        // The text of the smaller scenario is the same scenario.
        let again = scenarios::parse(&scenarios::text(&smaller)).expect("a scenario");
        assert_eq!(
            fault(failure.seed, &run(failure.seed, Way::Core, &again)),
            Some(failure)
        );
    }
}
