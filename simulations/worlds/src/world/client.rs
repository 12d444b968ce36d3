//! The options and the work of one client, as a scenario names them.

use super::{
    options::Workload,
    scenario::{MAX_TASKS, Scenario},
    setup::client_options,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The options and the work of one client. Those that are `None` are those of all clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct WorldClient {
    /// The options of the connection string, in place of those of all clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_options: Option<String>,
    /// The number of concurrent callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<usize>,
    /// The operations of the callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// The pauses of the callers between two operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
}

/// The operations of a caller with the workload `marks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Work {
    /// An insert, an increment and two reads of each document.
    #[default]
    All,
    /// Each document is inserted once and never changed. Then it is read six times.
    MostlyReads,
    /// Each document is inserted and changed, and never read.
    Writes,
}

/// The pauses of a caller between two operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Pace {
    /// Mostly short pauses or none, and some of seconds.
    #[default]
    Mixed,
    /// Twenty operations without a pause, and then a pause of 2 s to 7 s.
    Bursts,
    /// Pauses of up to two minutes, so that connections are idle for long.
    Idle,
}

impl Pace {
    /// Returns the pause before the next operation; `None` for one that the caller draws itself.
    /// Callers do not use it after the time of grace, because the run must come to an end.
    pub(super) fn pause(self, done: u64, draw: &mut dyn FnMut(u64) -> u64) -> Option<Duration> {
        let millis = match self {
            Self::Mixed => return None,
            Self::Bursts if !done.is_multiple_of(20) => 0,
            Self::Bursts => 2_000 + draw(5_001),
            Self::Idle => draw(120_000),
        };
        Some(Duration::from_millis(millis))
    }
}

/// Returns the reason why the clients of a scenario cannot be created, if there is one.
pub(super) fn fault(scenario: &Scenario) -> Option<String> {
    let (given, clients) = (scenario.each_client.len(), scenario.clients.unwrap_or(1));
    if given > clients {
        return Some(format!(
            "there are {given} tables `client`, and `clients = {clients}`"
        ));
    }
    let has_script = scenario.workload != Some(Workload::Applications);
    let common = scenario.client_options.as_deref();
    if !has_script && common.is_some_and(reads_elsewhere) {
        return Some(NEEDS_PRIMARY.to_owned());
    }
    scenario.each_client.iter().find_map(|client| {
        if client
            .tasks
            .is_some_and(|tasks| !(1..=MAX_TASKS).contains(&tasks))
        {
            return Some(format!("`tasks` must be from 1 to {MAX_TASKS}"));
        }
        if !has_script && (client.work.is_some() || client.pace.is_some()) {
            return Some("`work` and `pace` need the workload `marks`".to_owned());
        }
        let own = client.client_options.as_deref();
        if !has_script && own.is_some_and(reads_elsewhere) {
            return Some(NEEDS_PRIMARY.to_owned());
        }
        own.and_then(foreign_option)
    })
}

/// The reason why clients of applications have no other read preference.
const NEEDS_PRIMARY: &str =
    "the transactions of `applications` need the read preference `primary`, so leave out others";

/// True if a client with these options reads from other servers than the primary.
fn reads_elsewhere(options: &str) -> bool {
    let parsed = client_options(&format!("mongodb://member0/?{options}"));
    parsed.is_ok_and(|parsed| !parsed.read_preference().is_primary())
}

/// Returns the fault of a client's options that the world sets itself, or that it does not have.
pub(super) fn foreign_option(options: &str) -> Option<String> {
    let text = options.to_ascii_lowercase();
    let mut names = text.split('&').filter_map(|pair| pair.split('=').next());
    let name = names.find(|name| {
        let own = [
            "tls",
            "ssl",
            "srv",
            "proxy",
            "auth",
            "replicaset",
            "loadbalanced",
        ];
        // Each operation of a world has its own time limit, and each write its own concern.
        let of_callers = ["timeoutms", "w", "wtimeoutms"];
        own.iter().any(|own| name.starts_with(own)) || of_callers.contains(name)
    });
    name.map(|name| format!("`client-options` cannot have `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pace_has_its_pauses() {
        let pauses =
            |pace: Pace| (1..=40).map(move |done| pace.pause(done, &mut |below| below - 1));
        assert!(pauses(Pace::Mixed).all(|pause| pause.is_none()));
        let long = Some(Duration::from_secs(7));
        assert_eq!(
            pauses(Pace::Bursts).filter(|pause| *pause == long).count(),
            2
        );
        let none = Some(Duration::ZERO);
        assert_eq!(
            pauses(Pace::Bursts).filter(|pause| *pause == none).count(),
            38
        );
        assert!(pauses(Pace::Idle).all(|pause| pause > long));
    }

    #[test]
    fn the_clients_of_a_scenario_are_checked() {
        let fault = |change: fn(&mut WorldClient, &mut Scenario)| {
            let (mut client, mut scenario) = (WorldClient::default(), Scenario::default());
            change(&mut client, &mut scenario);
            scenario.each_client.push(client);
            fault(&scenario).unwrap_or_default()
        };
        assert_eq!(fault(|_, _| {}), "");
        let faults = [
            fault(|_, scenario| scenario.each_client.push(WorldClient::default())),
            fault(|client, _| client.tasks = Some(0)),
            fault(|client, _| client.client_options = Some("tls=true".to_owned())),
            fault(|client, scenario| {
                client.pace = Some(Pace::Idle);
                scenario.workload = Some(Workload::Applications);
            }),
            fault(|client, scenario| {
                client.client_options = Some("readPreference=nearest".to_owned());
                scenario.workload = Some(Workload::Applications);
            }),
            fault(|_, scenario| {
                scenario.client_options = Some("readPreference=secondary".to_owned());
                scenario.workload = Some(Workload::Applications);
            }),
        ];
        let texts = [
            "2 tables",
            "`tasks`",
            "`tls`",
            "`marks`",
            "`primary`",
            "`primary`",
        ];
        for (fault, text) in faults.iter().zip(texts) {
            assert!(fault.contains(text), "{fault}");
        }
    }
}
