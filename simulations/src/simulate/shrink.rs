//! Makes the scenario of a failed run smaller.

use super::{run, verdict::FailedRun};
use onionskin_worlds::world::{
    Disaster, Expect, Rates, Scenario, Scheduled, Span, Way, WorldProxy, WorldShape,
    drawn::drawn_schedule,
};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// The highest number of runs with which a scenario is made smaller.
const MAX_RUNS: usize = 400;

/// The shortest safety phase of a smaller scenario.
const MIN_SAFETY: Duration = Duration::from_secs(1);

/// Returns a smaller scenario with which the run of this seed still fails in the same way, and its
/// failure. Returns `None` if the run does not fail.
///
/// The scenario has all of the disasters that the seed drew, and each is left out in turn. So are
/// the kinds of faults, clients, callers, the proxy, the authentication, and the end of the safety
/// phase. `observe` is called with each smaller scenario. No run begins once `stop` is true.
pub fn shrink(
    seed: u64,
    way: Way,
    scenario: &Scenario,
    stop: &AtomicBool,
    mut observe: impl FnMut(&Scenario),
) -> Option<(Scenario, FailedRun)> {
    let failed = |scenario: &Scenario| FailedRun::of(seed, &run(seed, way, scenario));
    let mut failure = failed(scenario)?;
    let mut smallest = scenario.clone();
    // A world without faults has more checks than another one.
    let is_calm = |scenario: &Scenario| scenario.options(seed).is_calm();
    let is_like = |candidate: &Scenario, failure: &mut FailedRun| {
        let found = (is_calm(candidate) == is_calm(scenario)).then(|| failed(candidate));
        let found = found.flatten().filter(|found| found.is_like(failure));
        found.map(|found| *failure = found).is_some()
    };
    let explicit = explicit(seed, scenario);
    if explicit.fault().is_none() && is_like(&explicit, &mut failure) {
        smallest = explicit;
    }
    let mut runs = 0;
    let mut is_smaller = true;
    let may_go_on = |runs| runs < MAX_RUNS && !stop.load(Ordering::Relaxed);
    while is_smaller && may_go_on(runs) {
        is_smaller = false;
        let mut place = 0;
        // After a success, the next candidate is at the same place.
        while may_go_on(runs)
            && let Some(candidate) = candidates(&smallest).into_iter().nth(place)
        {
            runs += 1;
            if is_like(&candidate, &mut failure) {
                smallest = candidate;
                is_smaller = true;
                observe(&smallest);
            } else {
                place += 1;
            }
        }
    }
    Some((smallest, failure))
}

/// Returns the scenario with what the seed has drawn for it.
fn explicit(seed: u64, scenario: &Scenario) -> Scenario {
    let options = scenario.options(seed);
    let mut explicit = scenario.clone();
    explicit.shape = Some(match (options.load_balanced, options.sharded) {
        (true, _) => WorldShape::LoadBalanced,
        (_, true) => WorldShape::Sharded,
        _ => WorldShape::ReplicaSet,
    });
    if options.has_routers() {
        explicit.shards = Some(options.shards);
    }
    explicit.members = Some(options.members);
    explicit.clients = Some(options.clients);
    explicit.tasks = Some(options.tasks);
    explicit.safety = Some(Span(options.safety));
    explicit.rates = Some(options.rates);
    explicit.client_options = Some(options.client_options.clone());
    explicit.proxy = Some(options.proxy);
    explicit.authentication = Some(options.authentication);
    explicit.disasters = None;
    if scenario.swarm == Some(true) {
        explicit.name_servers(&options);
    }
    explicit.grace = Some(Span(options.grace));
    let drawn = || drawn_schedule(seed, &options);
    let mut schedule = scenario.schedule.clone().unwrap_or_else(drawn);
    // The seed also draws the ends of disasters after the safety phase, which have no effect.
    schedule.retain(|event| event.at.0 < options.safety);
    // A drawn freeze can last longer than the run.
    let end = options.safety + options.grace;
    for Scheduled { at, event } in &mut schedule {
        if let Disaster::Freeze { pause, .. } | Disaster::FreezeMember { pause, .. } = event {
            pause.0 = pause.0.min(end.saturating_sub(at.0));
        }
    }
    explicit.schedule = Some(schedule);
    explicit
}

/// Returns the next smaller scenarios, those that leave out most first.
fn candidates(scenario: &Scenario) -> Vec<Scenario> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut Scenario)| {
        let mut smaller = scenario.clone();
        change(&mut smaller);
        if smaller != *scenario && smaller.fault().is_none() && !lacks_work(scenario, &smaller) {
            found.push(smaller);
        }
    };
    add(&|smaller| smaller.expect = None);
    for expectation in EXPECTATIONS {
        add(&|smaller| smaller.expect.iter_mut().for_each(expectation));
    }
    add(&|smaller| smaller.rates = Some(Rates::default()));
    add(&|smaller| smaller.schedule = Some(Vec::new()));
    add(&|smaller| {
        smaller.clients = Some(1);
        smaller.each_client.truncate(1);
        let schedule = smaller.schedule.iter_mut();
        schedule.for_each(|events| events.retain(is_for_first_client));
    });
    add(&|smaller| {
        let schedule = smaller.schedule.iter_mut();
        schedule.for_each(|events| events.truncate(events.len() / 2));
    });
    add(&|smaller| {
        smaller.shards = smaller.shards.map(|_| 1);
        let schedule = smaller.schedule.iter_mut();
        schedule.for_each(|events| events.retain(|scheduled| !is_for_shards(scheduled)));
    });
    add(&|smaller| smaller.tasks = Some(1));
    add(&|smaller| smaller.each_client = Vec::new());
    add(&|smaller| drop(smaller.each_client.pop()));
    add(&|smaller| {
        for client in &mut smaller.each_client {
            client.tasks = client.tasks.map(|tasks| tasks.div_ceil(2));
        }
    });
    add(&|smaller| smaller.tasks = smaller.tasks.map(|tasks| tasks.div_ceil(2)));
    add(&|smaller| {
        let half = smaller.safety.map(|span| span.0 / 2);
        // Whole seconds are easier to read.
        let half = half.map(|half| Duration::from_secs(half.as_secs()).max(MIN_SAFETY));
        smaller.safety = half.map(Span).min(smaller.safety);
        let (schedule, end) = (smaller.schedule.iter_mut(), smaller.safety);
        schedule.for_each(|events| events.retain(|event| Some(event.at) < end));
    });
    add(&|smaller| smaller.member_options = Vec::new());
    add(&|smaller| smaller.version = None);
    add(&|smaller| smaller.srv = None);
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

/// True if the smaller scenario expects work to be done and has other callers or less time than the
/// scenario. With less work it would fail by itself.
fn lacks_work(scenario: &Scenario, smaller: &Scenario) -> bool {
    let work = |of: &Scenario| (of.clients, of.tasks, of.safety, of.each_client.clone());
    let expects = |expect: Expect| expect.succeeded.is_some() || expect.writes_within.is_some();
    smaller.expect.is_some_and(expects) && work(scenario) != work(smaller)
}

/// The removals of each expectation.
const EXPECTATIONS: [fn(&mut Expect); 4] = [
    |expect| expect.succeeded = None,
    |expect| expect.failed = None,
    |expect| expect.no_failures_after = None,
    |expect| expect.writes_within = None,
];

/// The rates of faults.
const RATES: [fn(&mut Rates) -> &mut u16; 14] = [
    |rates| &mut rates.refuse,
    |rates| &mut rates.vanish,
    |rates| &mut rates.reset,
    |rates| &mut rates.half_open,
    |rates| &mut rates.stall,
    |rates| &mut rates.slow,
    |rates| &mut rates.truncate,
    |rates| &mut rates.corrupt,
    |rates| &mut rates.duplicate,
    |rates| &mut rates.cancel,
    |rates| &mut rates.unresolved,
    |rates| &mut rates.unpolled,
    |rates| &mut rates.starved,
    |rates| &mut rates.panic,
];

fn is_for_first_client(scheduled: &Scheduled) -> bool {
    match scheduled.event {
        Disaster::CutClient { client, .. }
        | Disaster::DisconnectClient { client, .. }
        | Disaster::Freeze { client, .. }
        | Disaster::CloseClient(client) => client == 0,
        Disaster::JumpClock(jump) => jump.client.is_none_or(|client| client == 0),
        _ => true,
    }
}

const fn is_for_shards(scheduled: &Scheduled) -> bool {
    matches!(
        scheduled.event,
        Disaster::KillShard(_)
            | Disaster::RestartShard(_)
            | Disaster::StepDownShard(_)
            | Disaster::CutShards { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::scenarios;

    #[test]
    fn what_a_seed_draws_can_be_named() {
        let named = ["mixed", "applications", "shards", "balancer"];
        let named = named.map(|name| (name, scenarios::find(name).expect("it is known")));
        let texts = [
            "shape = \"replica-set\"\nmembers = 1\ndisasters = 30",
            "safety = \"20s\"\ngrace = \"1s\"\ndisasters = 30",
        ];
        let texts = texts.map(|text| (text, scenarios::parse(text).expect("a scenario")));
        for (name, scenario) in named.into_iter().chain(texts) {
            for seed in 0..50 {
                let explicit = explicit(seed, &scenario);
                assert_eq!(explicit.fault(), None, "{name} {seed}");
                assert!(explicit.schedule.is_some());
                let (named, drawn) = (explicit.options(seed), scenario.options(seed));
                assert_eq!(
                    named.sharded && !named.load_balanced,
                    drawn.sharded && !drawn.load_balanced
                );
                assert_eq!(named.load_balanced, drawn.load_balanced, "{name} {seed}");
                assert_eq!(named.shards, drawn.shards, "{name} {seed}");
                let smaller = candidates(&explicit);
                assert!(smaller.iter().all(|smaller| smaller.fault().is_none()));
            }
        }
    }

    #[test]
    fn a_sound_run_has_no_smaller_scenario() {
        let calm = scenarios::parse("safety = \"1s\"\ntasks = 1").expect("a scenario");
        assert_eq!(
            shrink(1, Way::Core, &calm, &AtomicBool::new(false), |_| {}),
            None
        );
    }

    #[test]
    fn a_violated_expectation_stays_with_the_work_that_it_is_about() {
        let text = "safety = \"4s\"\nmembers = 3\nclients = 2\ntasks = 2\n\
                    [rates]\ncancel = 10\n\
                    [expect]\nsucceeded = 1000000\nfailed = 1000000\n";
        let scenario = scenarios::parse(text).expect("a scenario");
        let shrunk = shrink(1, Way::Core, &scenario, &AtomicBool::new(false), |_| {});
        let (smaller, failure) = shrunk.expect("no run does so much");
        assert!(failure.message.contains("fewer operations succeeded"));
        assert_eq!((smaller.clients, smaller.tasks), (Some(2), Some(2)));
        let expect = smaller.expect.expect("it is violated");
        assert_eq!((expect.succeeded, expect.failed), (Some(1_000_000), None));
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        // A selection that fails at once is a failure only in a world with faults.
        let text = "members = 3\nclients = 2\nsafety = \"8s\"\ngrace = \"40s\"\n\
                    client-options = \"serverSelectionTimeoutMS=1\"\n\
                    [rates]\nslow = 200\nreset = 5\n";
        let scenario = scenarios::parse(text).expect("a scenario");
        let shrunk =
            |seed, stop: bool| shrink(seed, Way::Core, &scenario, &AtomicBool::new(stop), |_| {});
        let failing = (0..20).find_map(|seed| shrunk(seed, false));
        let (smaller, failure) = failing.expect("no selection succeeds in a millisecond");
        let drawn = drawn_schedule(failure.seed, &scenario.options(failure.seed));
        let left = smaller.schedule.as_ref().expect("it is explicit");
        assert!(left.len() < drawn.len(), "{left:?}");
        let (whole, _) = shrunk(failure.seed, true).expect("it fails");
        assert_ne!(whole, smaller, "a stopped search finds no smaller one");
        // The text of the smaller scenario is the same scenario.
        let again = scenarios::parse(&scenarios::text(&smaller)).expect("a scenario");
        let run = run(failure.seed, Way::Core, &again);
        assert_eq!(FailedRun::of(failure.seed, &run), Some(failure));
    }
}
