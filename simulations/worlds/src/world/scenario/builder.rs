//! A builder of scenarios, for tests in code.

use super::{Scenario, Scheduled, Span, WorldShape};
use crate::{
    seeds::each_seed,
    world::{
        client::WorldClient,
        expect::Expect,
        member::WorldMember,
        options::{Rates, Way, Workload, WorldProxy},
        plan::Disaster,
    },
};
use std::{error::Error, fmt, ops::Range, time::Duration};

/// The reason why there is no scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A text is not in the form of TOML, or has a key or a value that no scenario has. The reason
    /// shows the line.
    Text(String),
    /// No run of the scenario can begin. The reason names the value to change, by its key in TOML.
    Impossible(String),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(reason) | Self::Impossible(reason) => f.write_str(reason),
        }
    }
}

impl Error for ScenarioError {}

/// Builds a [`Scenario`]. What is not set is drawn from the seed of each run, unless the setter
/// names another default.
///
/// ```
/// use onionskin_worlds::world::{
///     Disaster, Rates, Scenario, ScenarioError, Workload, WorldProxy, WorldShape,
/// };
/// use std::time::Duration;
///
/// let scenario = Scenario::builder()
///     .about("The primary steps down, and one connection in a hundred breaks.")
///     .sources(["go#1589 GODRIVER-3172"])
///     .shape(WorldShape::ReplicaSet)
///     .members(3)
///     .member(|first| first.priority = Some(2))
///     .version("8.0")
///     .clients(2)
///     .client(|first| first.tasks = Some(20))
///     .tasks(4)
///     .client_options("maxPoolSize=2&serverSelectionTimeoutMS=10000")
///     .srv(false)
///     .proxy(WorldProxy::None)
///     .authentication(false)
///     .workload(Workload::Marks)
///     .min_latency(Duration::from_micros(200))
///     .max_latency(Duration::from_millis(4))
///     .election_timeout(Duration::from_secs(2))
///     .rates(Rates { reset: 10, ..Rates::default() })
///     .safety(Duration::from_secs(20))
///     .grace(Duration::from_secs(60))
///     .schedule(Duration::from_secs(5), Disaster::StepDown)
///     .expect(|expect| expect.succeeded = Some(100))
///     .build()?;
/// assert_eq!(scenario.members, Some(3));
///
/// // The disasters of this one are drawn.
/// let routers = Scenario::builder()
///     .shape(WorldShape::Sharded)
///     .shards(2)
///     .shard_members(3)
///     .disasters(3)
///     .swarm(true)
///     .build()?;
/// assert_eq!(routers.schedule, None);
/// # Ok::<(), ScenarioError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScenarioBuilder {
    scenario: Scenario,
}

/// Defines setters, each of which stores its argument in the field of the same name.
macro_rules! setters {
    ($($(#[$docs:meta])* $name:ident: $type:ty => $stored:expr;)*) => {
        impl ScenarioBuilder {
            $($(#[$docs])*
            #[must_use]
            pub fn $name(mut self, $name: $type) -> Self {
                self.scenario.$name = $stored;
                self
            })*
        }
    };
}

setters! {
    /// Sets a sentence for a list of scenarios. Default: empty.
    about: impl Into<String> => about.into();
    /// Sets the bugs of real drivers that the scenario is modelled on. They have no effect on runs.
    /// Default: none.
    sources: impl IntoIterator<Item = impl Into<String>> =>
        sources.into_iter().map(Into::into).collect();
    /// Sets the shape of the deployment.
    shape: WorldShape => Some(shape);
    /// Sets the number of shards behind routers or services, from 1 to 20. Several need a
    /// [`shape`](Self::shape) that has shards.
    shards: usize => Some(shards);
    /// Sets the number of servers of each shard, from 1 to 7. Several need a
    /// [`shape`](Self::shape) that has shards. Default: 1.
    shard_members: usize => Some(shard_members);
    /// Sets the number of members, from 1 to 50. One member of a replica set is a standalone.
    members: usize => Some(members);
    /// Sets the release of the servers, such as `6.0`. A member can have its own. It is drawn only
    /// with [`swarm`](Self::swarm), and for [`Workload::Applications`], which has 7.0 or 8.0.
    /// Default: `7.0`.
    version: impl Into<String> => Some(version.into());
    /// Sets the number of clients, from 1 to 100.
    clients: usize => Some(clients);
    /// Sets the number of concurrent callers of each client, from 1 to 1000.
    tasks: usize => Some(tasks);
    /// Sets the work of the callers. Default: [`Workload::Marks`].
    workload: Workload => Some(workload);
    /// Sets the length of the safety phase. Afterwards the faults end, and operations must succeed.
    safety: Duration => Some(Span(safety));
    /// Sets the time between the safety phase and the late operations, which must succeed. Default:
    /// 60 s.
    grace: Duration => Some(Span(grace));
    /// Sets the shortest time that a message takes.
    min_latency: Duration => Some(Span(min_latency));
    /// Sets the longest time that a message takes.
    max_latency: Duration => Some(Span(max_latency));
    /// Sets the options of the clients' connection string, after the `?`.
    client_options: impl Into<String> => Some(client_options.into());
    /// Sets whether the clients look up their seed list with a `mongodb+srv` string. It is drawn
    /// only with [`swarm`](Self::swarm). Default: false.
    srv: bool => Some(srv);
    /// Sets the proxy of the clients.
    proxy: WorldProxy => Some(proxy);
    /// Sets whether the servers require authentication.
    authentication: bool => Some(authentication);
    /// Sets the shortest time for which a member waits for a primary before it starts an election,
    /// at least 10 ms.
    election_timeout: Duration => Some(Span(election_timeout));
    /// Sets the number of disasters that are drawn, up to 10,000, without those that
    /// [`swarm`](Self::swarm) draws besides. No effect beside a [`schedule`](Self::schedule).
    disasters: usize => Some(disasters);
    /// Sets whether the seed also draws the servers, the seed list and further kinds of disasters,
    /// as [`WorldOptions::swarm`](crate::world::WorldOptions::swarm) says. Then the scenario names
    /// no [release](Self::version), no [member](Self::member) and no [`schedule`](Self::schedule).
    /// Default: false.
    swarm: bool => Some(swarm);
    /// Sets the rates of all faults: in how many of 1000 cases each fault happens.
    rates: Rates => Some(rates);
}

impl ScenarioBuilder {
    /// Adds the options of the next member of a replica set, the first of which is member 0. `set`
    /// changes the defaults of [`WorldMember`]. Members without options are equal. The options are
    /// drawn only with [`swarm`](Self::swarm).
    ///
    /// ```
    /// use onionskin_worlds::world::{Scenario, ScenarioError, WorldShape};
    ///
    /// let scenario = Scenario::builder()
    ///     .shape(WorldShape::ReplicaSet)
    ///     .members(3)
    ///     .member(|first| first.priority = Some(2))
    ///     .member(|second| second.arbiter = true)
    ///     .build()?;
    /// assert_eq!(scenario.member_options.len(), 2);
    /// # Ok::<(), ScenarioError>(())
    /// ```
    #[must_use]
    pub fn member(mut self, set: impl FnOnce(&mut WorldMember)) -> Self {
        let mut member = WorldMember::default();
        set(&mut member);
        self.scenario.member_options.push(member);
        self
    }

    /// Adds the options and the work of the next client, the first of which is client 0. `set`
    /// changes the defaults of [`WorldClient`], which are those of all clients.
    ///
    /// ```
    /// use onionskin_worlds::world::{Pace, Scenario, ScenarioError};
    ///
    /// let scenario = Scenario::builder()
    ///     .clients(3)
    ///     .client(|first| {
    ///         first.tasks = Some(20);
    ///         first.pace = Some(Pace::Bursts);
    ///     })
    ///     .build()?;
    /// assert_eq!(scenario.each_client.len(), 1);
    /// # Ok::<(), ScenarioError>(())
    /// ```
    #[must_use]
    pub fn client(mut self, set: impl FnOnce(&mut WorldClient)) -> Self {
        let mut client = WorldClient::default();
        set(&mut client);
        self.scenario.each_client.push(client);
        self
    }

    /// Adds an event at this time since the beginning of the run, within the safety phase, whose
    /// length must be [set](Self::safety). The order of calls does not matter. With an event, no
    /// disasters are drawn.
    ///
    /// ```
    /// use onionskin_worlds::world::{Disaster, Scenario, ScenarioError};
    /// use std::time::Duration;
    ///
    /// let scenario = Scenario::builder()
    ///     .members(3)
    ///     .safety(Duration::from_secs(30))
    ///     .schedule(Duration::from_secs(5), Disaster::Kill(0))
    ///     .schedule(Duration::from_secs(20), Disaster::Restart(0))
    ///     .build()?;
    /// assert_eq!(scenario.schedule.map(|events| events.len()), Some(2));
    /// # Ok::<(), ScenarioError>(())
    /// ```
    #[must_use]
    pub fn schedule(mut self, at: Duration, event: Disaster) -> Self {
        let schedule = self.scenario.schedule.get_or_insert_default();
        schedule.push(Scheduled {
            at: Span(at),
            event,
        });
        self
    }

    /// Sets the expectations of each run. `set` changes those that were set before. Default: none.
    ///
    /// ```
    /// use onionskin_worlds::world::{Scenario, ScenarioError};
    ///
    /// let scenario = Scenario::builder()
    ///     .expect(|expect| expect.succeeded = Some(200))
    ///     .build()?;
    /// assert_eq!(scenario.expect.and_then(|expect| expect.succeeded), Some(200));
    /// # Ok::<(), ScenarioError>(())
    /// ```
    #[must_use]
    pub fn expect(mut self, set: impl FnOnce(&mut Expect)) -> Self {
        set(self.scenario.expect.get_or_insert_default());
        self
    }

    /// Returns the scenario.
    ///
    /// ```
    /// use onionskin_worlds::world::Scenario;
    ///
    /// let error = Scenario::builder().tasks(0).build().expect_err("no caller");
    /// assert_eq!(error.to_string(), "`tasks` must be from 1 to 1000");
    /// ```
    ///
    /// # Errors
    ///
    /// [`ScenarioError::Impossible`] for a [fault](Scenario::fault) of the scenario.
    pub fn build(self) -> Result<Scenario, ScenarioError> {
        self.scenario.checked()
    }
}

impl Scenario {
    /// Returns a builder of a scenario.
    ///
    /// ```
    /// use onionskin_worlds::world::{Scenario, ScenarioError};
    ///
    /// let scenario = Scenario::builder().members(3).build()?;
    /// assert_eq!(scenario.members, Some(3));
    /// # Ok::<(), ScenarioError>(())
    /// ```
    #[must_use]
    pub fn builder() -> ScenarioBuilder {
        ScenarioBuilder::default()
    }

    /// Returns the scenario if its runs can begin.
    pub(super) fn checked(self) -> Result<Self, ScenarioError> {
        match self.fault() {
            Some(fault) => Err(ScenarioError::Impossible(fault)),
            None => Ok(self),
        }
    }

    /// Runs the scenario once for each seed, for a test. With the environment variable
    /// [`SEED`](crate::SEED), only that seed runs. All checkers watch the runs, except that of the
    /// isolation of transactions, which only the command `onionskin simulate` has.
    ///
    /// `command` is the command line that runs the test. For a failed run, the command line that
    /// runs its seed again is printed.
    ///
    /// ```
    /// use onionskin_worlds::world::{Scenario, ScenarioError, Way};
    /// use std::time::Duration;
    ///
    /// let scenario = Scenario::builder().safety(Duration::from_secs(2)).build()?;
    /// scenario.assert_seeds("cargo test short_runs", 0..3, Way::Core);
    /// # Ok::<(), ScenarioError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If a run fails or cannot begin, if the range of seeds is empty, or if the environment
    /// variable is not a number.
    pub fn assert_seeds(&self, command: &str, seeds: Range<u64>, way: Way) {
        each_seed(command, seeds, |seed| match self.run(seed, way) {
            Ok(report) => assert!(report.failure.is_none(), "{report}"),
            Err(reason) => panic!("no run can begin: {reason}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scenario in the section about tests of `docs/simulation.md`.
    fn step_down() -> ScenarioBuilder {
        Scenario::builder()
            .shape(WorldShape::ReplicaSet)
            .members(3)
            .election_timeout(Duration::from_secs(2))
            .safety(Duration::from_secs(60))
            .rates(Rates::default())
            .schedule(Duration::from_secs(5), Disaster::StepDown)
            .expect(|expect| expect.writes_within = Some(Span(Duration::from_secs(30))))
    }

    #[test]
    fn a_scenario_in_code_runs_over_seeds() {
        let scenario = step_down().build().expect("it is possible");
        scenario.assert_seeds("cargo test", 0..3, Way::Core);
    }

    #[test]
    #[should_panic(expected = "is empty")]
    fn a_range_without_seeds_ends_the_test() {
        let scenario = step_down().build().expect("it is possible");
        scenario.assert_seeds("cargo test", 5..5, Way::Core);
    }

    #[test]
    #[should_panic(expected = "1000000 or more")]
    fn a_failed_seed_ends_the_test() {
        let much = step_down().expect(|expect| expect.succeeded = Some(1_000_000));
        let scenario = much.build().expect("it is possible");
        scenario.assert_seeds("cargo test", 0..3, Way::Core);
    }

    #[test]
    fn a_scenario_that_is_impossible_is_not_built() {
        let late = step_down().schedule(Duration::from_secs(61), Disaster::Heal);
        let few = Scenario::builder().clients(1);
        let few = few.client(|_| {}).client(|_| {});
        for (builder, reason) in [
            (late, "after the safety phase"),
            (few, "2 tables `client`"),
            (Scenario::builder().member(|_| {}), "`member-options` need"),
            (step_down().members(0), "`members` must be from 1 to 50"),
        ] {
            let error = builder.build().expect_err(reason);
            let ScenarioError::Impossible(fault) = &error else {
                panic!("{error:?}");
            };
            assert!(fault.contains(reason), "{fault}");
        }
    }
}
