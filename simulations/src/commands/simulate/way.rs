//! The way in which the clients of a scenario are driven.

use clap::ValueEnum;
use onionskin_worlds::world::{Scenario, Way, Workload};

/// A value of `--way`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WayName {
    Core,
    Runtime,
}

/// Returns the way of the runs of a scenario: the one of the command line, or the default.
pub(super) fn of(given: Option<WayName>, scenario: &Scenario) -> Way {
    let is_applications = scenario.workload == Some(Workload::Applications);
    match given {
        Some(WayName::Runtime) => Way::Runtime,
        Some(WayName::Core) => Way::Core,
        None if is_applications || starves(scenario) => Way::Runtime,
        None => Way::Core,
    }
}

/// Returns a line about the key of a scenario that has no effect in this way, if there is one.
pub(super) fn without_effect(way: Way, scenario: &Scenario) -> Option<String> {
    let is_without = way == Way::Core && starves(scenario);
    is_without.then(|| {
        "Without effect here, because `--way core` has no tasks of the async client: rates.starved"
            .to_owned()
    })
}

fn starves(scenario: &Scenario) -> bool {
    scenario.rates.is_some_and(|rates| rates.starved > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_simulations::simulate::scenarios;

    #[test]
    fn scenarios_that_need_the_async_client_have_it_by_default() {
        for (name, default) in [
            ("calm", Way::Core),
            ("applications", Way::Runtime),
            ("starved-tasks", Way::Runtime),
        ] {
            let scenario = scenarios::find(name).expect("it is known");
            assert_eq!(of(None, &scenario), default, "{name}");
            assert_eq!(of(Some(WayName::Core), &scenario), Way::Core, "{name}");
            assert_eq!(
                of(Some(WayName::Runtime), &scenario),
                Way::Runtime,
                "{name}"
            );
        }
    }

    #[test]
    fn a_rate_that_the_core_alone_does_not_have_is_named() {
        let scenario = scenarios::find("starved-tasks").expect("it is known");
        let named = without_effect(Way::Core, &scenario).expect("nothing starves");
        assert!(named.ends_with("rates.starved"), "{named}");
        assert_eq!(without_effect(Way::Runtime, &scenario), None);
        let calm = scenarios::find("calm").expect("it is known");
        assert_eq!(without_effect(Way::Core, &calm), None);
    }
}
