//! Scenarios: worlds in which some options are fixed. The seed draws the others.
//!
//! ```
//! use onionskin_worlds::world::{Disaster, Scenario, ScenarioError, Way};
//! use std::time::Duration;
//!
//! let scenario = Scenario::builder()
//!     .safety(Duration::from_secs(5))
//!     .schedule(Duration::from_secs(2), Disaster::JoinMembers)
//!     .build()?;
//! scenario.assert_seeds("cargo test short_runs", 0..3, Way::Core);
//! # Ok::<(), ScenarioError>(())
//! ```

mod builder;
#[cfg(feature = "toml")]
mod text;

pub use builder::{ScenarioBuilder, ScenarioError};

pub use super::span::Span;
use super::{
    Report, check_setup,
    client::{self, WorldClient, foreign_option},
    expect::{self, Expect},
    member::WorldMember,
    options::{PER_MILLE, Rates, Way, Workload, WorldOptions, WorldProxy},
    plan::Disaster,
    run_seed,
    setup::NO_TRANSACTIONS,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The highest numbers in a scenario. A run with more would take hours and gigabytes.
const MAX_MEMBERS: usize = 50;
const MAX_SHARDS: usize = 20;
const MAX_SHARD_MEMBERS: usize = 7;
const MAX_CLIENTS: usize = 100;
pub(super) const MAX_TASKS: usize = 1000;
const MAX_EVENTS: usize = 10_000;

/// The shortest election timeout. With a shorter one, heartbeats take all of the time.
const MIN_ELECTION: Span = Span(Duration::from_millis(10));

/// The longest time in a scenario.
pub(super) const MAX_SPAN: Span = Span(Duration::from_secs(24 * 3600));

/// The steps for each second of a run and for each member, link and caller, above which the run
/// fails.
const STEPS: u64 = 500;

/// The factor for a schedule with slow members. A piece of a request or reply takes a step or two.
const SLOW_STEPS: u64 = 10;

/// The shape of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WorldShape {
    /// A standalone if there is one member, else a replica set.
    ReplicaSet,
    /// Routers in front of shards.
    Sharded,
    /// Services behind a load balancer.
    LoadBalanced,
}

/// A disaster with its time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduled {
    /// The time since the beginning of the run, within the safety phase.
    pub at: Span,
    /// The disaster.
    pub event: Disaster,
}

/// A scenario. Each `None` is drawn from the seed, as [`WorldOptions::drawn`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Scenario {
    /// A sentence for a list of scenarios.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The bugs of real drivers that the scenario is modelled on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// The shape of the deployment.
    pub shape: Option<WorldShape>,
    /// The number of shards behind routers or services, at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<usize>,
    /// The number of servers of each shard, from 1 to 7. Each shard is a replica set. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_members: Option<usize>,
    /// The number of members, at least one.
    pub members: Option<usize>,
    /// The release of the servers, such as `6.0`. A member can have its own. It is drawn only with
    /// `swarm`, and for applications, which have 7.0 or 8.0. Default: 7.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The number of clients, at least one.
    pub clients: Option<usize>,
    /// The number of concurrent callers of each client, at least one.
    pub tasks: Option<usize>,
    /// The options and the work of the first clients. The others have those of all.
    #[serde(rename = "client", skip_serializing_if = "Vec::is_empty")]
    pub each_client: Vec<WorldClient>,
    /// The work of the callers. Default: `marks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// The length of the safety phase.
    pub safety: Option<Span>,
    /// The time between the safety phase and the late operations, which must succeed.
    pub grace: Option<Span>,
    /// The shortest time that a message takes.
    pub min_latency: Option<Span>,
    /// The longest time that a message takes.
    pub max_latency: Option<Span>,
    /// The options of the clients' connection string, after the `?`.
    pub client_options: Option<String>,
    /// True if the clients look up their seed list with a `mongodb+srv` string. It is drawn only
    /// with `swarm`. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub srv: Option<bool>,
    /// The proxy of the clients.
    pub proxy: Option<WorldProxy>,
    /// True if the servers require authentication.
    pub authentication: Option<bool>,
    /// The shortest time for which a member waits for a primary before it starts an election.
    pub election_timeout: Option<Span>,
    /// The number of disasters that are drawn, without those that `swarm` draws besides. No effect
    /// beside a schedule.
    pub disasters: Option<usize>,
    /// True if the seed also draws the servers, the seed list and further kinds of disasters, as
    /// [`WorldOptions::swarm`] says. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swarm: Option<bool>,
    /// The options of the first members of a replica set. The others are equal. They are drawn
    /// only with `swarm`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub member_options: Vec<WorldMember>,
    /// The rates of faults. A rate that a file does not name is zero.
    pub rates: Option<Rates>,
    /// The disasters, in any order. With a schedule none is drawn.
    pub schedule: Option<Vec<Scheduled>>,
    /// The expectations of each run. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

impl Scenario {
    /// Returns the options of the run with this seed.
    #[must_use]
    pub fn options(&self, seed: u64) -> WorldOptions {
        fn set<T: Clone>(option: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                option.clone_from(value);
            }
        }
        let mut options = WorldOptions::drawn(seed);
        if let Some(shape) = self.shape {
            options.sharded = shape == WorldShape::Sharded;
            options.load_balanced = shape == WorldShape::LoadBalanced;
        }
        if let Some(Workload::Applications) = self.workload {
            options = options.applications();
        }
        set(&mut options.members, self.members.as_ref());
        if self.swarm == Some(true) {
            options = options.swarm(seed);
        } else {
            let members = self.member_options.iter();
            options.member_options = members.map(WorldMember::options).collect();
            options.version = self.named_version();
        }
        set(&mut options.shards, self.shards.as_ref());
        set(&mut options.shard_members, self.shard_members.as_ref());
        set(&mut options.clients, self.clients.as_ref());
        set(&mut options.tasks, self.tasks.as_ref());
        options.each_client.clone_from(&self.each_client);
        set(&mut options.safety, self.safety.map(|span| span.0).as_ref());
        set(&mut options.grace, self.grace.map(|span| span.0).as_ref());
        let latency = [self.min_latency, self.max_latency].map(|span| span.map(|span| span.0));
        set(&mut options.min_latency, latency[0].as_ref());
        set(&mut options.max_latency, latency[1].as_ref());
        match self.max_latency {
            Some(_) => options.min_latency = options.min_latency.min(options.max_latency),
            None => options.max_latency = options.max_latency.max(options.min_latency),
        }
        set(&mut options.client_options, self.client_options.as_ref());
        set(&mut options.srv, self.srv.as_ref());
        set(&mut options.proxy, self.proxy.as_ref());
        set(&mut options.authentication, self.authentication.as_ref());
        let election = self.election_timeout.map(|span| span.0);
        set(&mut options.election_timeout, election.as_ref());
        set(&mut options.disasters, self.disasters.as_ref());
        set(&mut options.rates, self.rates.as_ref());
        options.schedule.clone_from(&self.schedule);
        set(&mut options.expect, self.expect.as_ref());
        // About ten times what a run takes.
        let seconds = (options.safety + options.grace).as_secs() + 1;
        let of_shards = options.shards * options.shard_members.saturating_sub(1);
        let of_clients = options.clients * (options.members + options.most_tasks());
        let actors = options.members + of_shards + of_clients;
        let steps = seconds.saturating_mul(actors as u64).saturating_mul(STEPS);
        let mut events = self.schedule.iter().flatten();
        // Those that `swarm` draws have longer pauses.
        let is_slow = events.any(|scheduled| matches!(scheduled.event, Disaster::SlowMember(_)));
        let factor = if is_slow { SLOW_STEPS } else { 1 };
        options.max_steps = options.max_steps.max(steps).saturating_mul(factor);
        options
    }

    /// Runs the world of a seed to its end, and returns the report.
    ///
    /// # Errors
    ///
    /// The reason why the run cannot begin: a [fault](Self::fault) of the scenario, or servers and
    /// options of clients that do not fit together.
    pub fn run(&self, seed: u64, way: Way) -> Result<Report, String> {
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        let options = self.options(seed);
        check_setup(seed, way, &options).map_err(|failure| failure.message)?;
        Ok(run_seed(seed, way, options))
    }

    /// Returns the reason why no run of the scenario can begin, if there is one. Whether the
    /// servers and the options of the clients fit together, [`check_setup`] tells.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.number_fault()
            .or_else(|| self.server_fault())
            .or_else(|| self.span_fault())
            .or_else(|| self.option_fault())
            .or_else(|| client::fault(self))
            .or_else(|| self.schedule_fault())
            .or_else(|| self.secondary_fault())
            .or_else(|| expect::fault(self))
    }

    fn number_fault(&self) -> Option<String> {
        if self.workload == Some(Workload::Applications)
            && self.members == Some(1)
            && matches!(self.shape, None | Some(WorldShape::ReplicaSet))
        {
            return Some(NO_TRANSACTIONS.to_owned());
        }
        let has_routers = !matches!(self.shape, None | Some(WorldShape::ReplicaSet));
        if self.shards.is_some_and(|shards| shards > 1) && !has_routers {
            return Some("several `shards` need `shape` to be sharded or load-balanced".to_owned());
        }
        if self.shard_members.is_some_and(|members| members > 1) && !has_routers {
            let text = "several `shard-members` need `shape` to be sharded or load-balanced";
            return Some(text.to_owned());
        }
        let numbers = [
            ("members", self.members, 1, MAX_MEMBERS),
            ("shards", self.shards, 1, MAX_SHARDS),
            ("shard-members", self.shard_members, 1, MAX_SHARD_MEMBERS),
            ("clients", self.clients, 1, MAX_CLIENTS),
            ("tasks", self.tasks, 1, MAX_TASKS),
            ("disasters", self.disasters, 0, MAX_EVENTS),
            (
                "schedule",
                self.schedule.as_ref().map(Vec::len),
                0,
                MAX_EVENTS,
            ),
        ];
        if self.rates.is_some_and(|rates| rates.highest() > PER_MILLE) {
            return Some(format!("each of the `rates` must be from 0 to {PER_MILLE}"));
        }
        numbers.into_iter().find_map(|(name, number, least, most)| {
            let is_outside = number.is_some_and(|number| !(least..=most).contains(&number));
            is_outside.then(|| match name {
                "schedule" => format!("`{name}` has more than {most} events"),
                _ => format!("`{name}` must be from {least} to {most}"),
            })
        })
    }

    fn server_fault(&self) -> Option<String> {
        let names_servers = self.version.is_some() || !self.member_options.is_empty();
        if self.swarm == Some(true) && (names_servers || self.schedule.is_some()) {
            return Some(
                "`swarm` draws `version`, `member-options` and the schedule, so name none of them"
                    .to_owned(),
            );
        }
        let is_set = matches!(self.shape, Some(WorldShape::ReplicaSet));
        let (given, members) = (self.member_options.len(), self.members.unwrap_or(1));
        if given > 0 && (!is_set || members == 1) {
            return Some("`member-options` need `shape` and `members` of a replica set".to_owned());
        }
        if given > members {
            return Some(format!("`member-options` has {given} members of {members}"));
        }
        if let Some(fault) = self.member_options.iter().find_map(|m| m.options().fault()) {
            return Some(fault.to_owned());
        }
        self.release_fault()
    }

    fn span_fault(&self) -> Option<String> {
        let spans = [
            ("safety", self.safety),
            ("grace", self.grace),
            ("min-latency", self.min_latency),
            ("max-latency", self.max_latency),
            ("election-timeout", self.election_timeout),
        ];
        let long = spans.iter().find(|(_, span)| *span > Some(MAX_SPAN));
        match (long, self.min_latency.zip(self.max_latency)) {
            (Some((name, _)), _) => Some(format!(
                "`{name}` is longer than {}",
                String::from(MAX_SPAN)
            )),
            (_, Some((min, max))) if min > max => {
                Some("`min-latency` is longer than `max-latency`".to_owned())
            }
            _ if self
                .election_timeout
                .is_some_and(|timeout| timeout < MIN_ELECTION) =>
            {
                Some(format!(
                    "`election-timeout` is shorter than {}",
                    String::from(MIN_ELECTION)
                ))
            }
            _ => None,
        }
    }

    /// Options that the world sets itself, or that it does not have.
    fn option_fault(&self) -> Option<String> {
        let is_balanced = matches!(self.shape, None | Some(WorldShape::LoadBalanced));
        let mut lists = self.schedule.iter().flatten().collect::<Vec<_>>();
        lists.retain(|scheduled| matches!(scheduled.event, Disaster::ListMembers(_)));
        let last = lists.iter().max_by_key(|scheduled| scheduled.at);
        if last.is_some_and(|last| last.event == Disaster::ListMembers(Vec::new())) {
            return Some("the last `list-members` must list a member".to_owned());
        }
        if self.srv == Some(true) && is_balanced {
            return Some("`srv` needs `shape` to be replica-set or sharded".to_owned());
        }
        self.client_options.as_deref().and_then(foreign_option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_that_is_impossible_is_not_run() {
        let faulty = Scenario {
            tasks: Some(0),
            ..Scenario::default()
        };
        let error = faulty.run(1, Way::Core).expect_err("no caller");
        assert!(error.contains("`tasks`"), "{error}");
        let strange = Scenario {
            client_options: Some("minPoolSize=5&maxPoolSize=2".to_owned()),
            ..Scenario::default()
        };
        strange
            .run(1, Way::Core)
            .expect_err("options that no client can have");
    }

    #[test]
    fn only_shards_behind_routers_have_up_to_seven_members() {
        let mut scenario = Scenario {
            shape: Some(WorldShape::Sharded),
            shard_members: Some(7),
            ..Scenario::default()
        };
        assert_eq!(scenario.fault(), None);
        for members in [0, 8] {
            scenario.shard_members = Some(members);
            let fault = scenario.fault().expect("too few or too many");
            assert!(fault.contains("must be from 1 to 7"), "{fault}");
        }
        (scenario.shape, scenario.shard_members) = (Some(WorldShape::ReplicaSet), Some(3));
        let fault = scenario.fault().expect("a replica set has no shards");
        assert!(fault.contains("several `shard-members`"), "{fault}");
    }

    #[test]
    fn reads_have_the_read_preference_of_the_client() {
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            safety: Some(Span(Duration::from_secs(5))),
            client_options: Some("readPreference=secondary&maxStalenessSeconds=1".to_owned()),
            rates: Some(Rates::default()),
            schedule: Some(Vec::new()),
            ..Scenario::default()
        };
        for way in [Way::Core, Way::Runtime] {
            let report = scenario.run(1, way).expect("it is possible");
            let failure = report.failure.expect("no server suits");
            assert!(failure.message.contains("minimum is 90000 ms"), "{failure}");
        }
    }

    #[test]
    fn clients_follow_members_that_leave_and_join() {
        let at = |seconds, event| Scheduled {
            at: Span(Duration::from_secs(seconds)),
            event,
        };
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(4),
            safety: Some(Span(Duration::from_secs(30))),
            election_timeout: Some(Span(Duration::from_secs(3))),
            rates: Some(Rates::default()),
            schedule: Some(vec![
                at(3, Disaster::RemoveMember(3)),
                at(6, Disaster::AddMember(3)),
                at(15, Disaster::Resync(2)),
                at(25, Disaster::RemoveMember(1)),
            ]),
            ..Scenario::default()
        };
        for way in [Way::Core, Way::Runtime] {
            for seed in 0..3 {
                let report = scenario.run(seed, way).expect("it is possible");
                assert!(report.failure.is_none(), "{report}");
            }
        }
    }

    #[test]
    fn one_given_latency_moves_the_drawn_other_one() {
        let span = |millis| Some(Span(Duration::from_millis(millis)));
        for seed in 0..20 {
            let short = Scenario {
                max_latency: Some(Span(Duration::from_micros(1))),
                ..Scenario::default()
            };
            let options = short.options(seed);
            assert_eq!(options.max_latency, Duration::from_micros(1));
            assert!(options.min_latency <= options.max_latency);
            let long = Scenario {
                min_latency: span(500),
                ..Scenario::default()
            };
            let options = long.options(seed);
            assert_eq!(options.min_latency, Duration::from_millis(500));
            assert!(options.min_latency <= options.max_latency);
        }
    }
}
