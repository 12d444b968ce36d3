//! A deployment with the faults of a scenario.

use crate::{FaultOptions, ServeOptions};
use onionskin_deployment::deployment::{NetworkOptions, User};
use onionskin_worlds::world::{
    Disaster, Scenario, Span, WorldShape, options::world_seed, plan::plan,
};
use std::time::Duration;

/// The name of the replica set.
const SET_NAME: &str = "rs0";

/// The number of members, routers or services of a scenario that does not name it.
const MEMBERS: usize = 3;

/// The user and the password for a scenario with authentication.
const USER: (&str, &str) = ("user", "secret");

impl ServeOptions {
    /// Creates the options of a deployment with the faults of a scenario.
    ///
    /// The scenario gives the shape, the members, the release, authentication, the election
    /// timeout, latencies, rates and disasters. What it does not name is not drawn, as it is in a
    /// simulated run: there are no such faults, and the rest has the defaults of this type. Only
    /// the length of the safety phase is drawn from the seed, and, with `disasters` and without a
    /// `schedule`, the disasters. Times count from the start of the deployment.
    ///
    /// The second value has the parts of the scenario without effect, because they describe clients
    /// of a simulated run.
    ///
    /// # Errors
    ///
    /// The reason why no run of the scenario can begin ([`Scenario::fault`]).
    ///
    /// ```
    /// use onionskin_serve::ServeOptions;
    /// use onionskin_worlds::world::{Disaster, Scenario};
    /// use std::time::Duration;
    ///
    /// let step_down = Duration::from_secs(2);
    /// let scenario = Scenario::builder()
    ///     .safety(Duration::from_secs(9))
    ///     .schedule(step_down, Disaster::StepDown)
    ///     .build()?;
    /// let (options, without_effect) = ServeOptions::of_scenario(&scenario, 7)?;
    /// assert_eq!(options.members.len(), 3);
    /// assert!(without_effect.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_scenario(scenario: &Scenario, seed: u64) -> Result<(Self, Vec<String>), String> {
        if let Some(fault) = scenario.fault() {
            return Err(fault);
        }
        let world = named(scenario).options(seed);
        let mut options = match (world.load_balanced, world.sharded, world.members) {
            (true, ..) => Self::load_balanced(world.members),
            (_, true, _) => Self::sharded(world.members),
            (_, _, 1) => Self::standalone(),
            (_, _, members) => Self::replica_set(SET_NAME, members),
        };
        options.seed = seed;
        if world.has_routers() {
            (options.shards, options.shard_members) = (world.shards, world.shard_members);
        }
        if world.authentication {
            options.users.push(User::new(USER.0, USER.1));
        }
        if let Some(timeout) = scenario.election_timeout {
            options.election_timeout = timeout.0;
            options.heartbeat_interval = timeout.0 / 5;
        }
        for (member, given) in options.members.iter_mut().zip(&world.member_options) {
            member.clone_from(given);
        }
        if let Some(version) = world.version {
            options.version = version;
        }
        options.network = NetworkOptions {
            min_latency: world.min_latency,
            max_latency: world.max_latency,
            ..options.network
        };
        options.faults = Some(FaultOptions {
            rates: world.rates,
            latency: (world.min_latency, world.max_latency),
            plan: plan(&world, &mut world_seed(seed).split("plan").random()),
        });
        Ok((options, without_effect(scenario)))
    }
}

/// Returns the scenario with a value for each option that a simulated run would draw, except the
/// length of the safety phase.
fn named(scenario: &Scenario) -> Scenario {
    let mut named = scenario.clone();
    named.shape.get_or_insert(WorldShape::ReplicaSet);
    named.members.get_or_insert(MEMBERS);
    named.shards.get_or_insert(1);
    named.rates.get_or_insert_default();
    named.authentication.get_or_insert(false);
    named.disasters.get_or_insert(0);
    named.swarm = None;
    let min = *named.min_latency.get_or_insert(Span(Duration::ZERO));
    named.max_latency.get_or_insert(min);
    named
}

/// True if a disaster is one of a simulated client, or of the simulated network.
pub(super) const fn is_of_clients(disaster: &Disaster) -> bool {
    matches!(
        disaster,
        Disaster::Freeze { .. }
            | Disaster::CloseClient(_)
            | Disaster::ListMembers(_)
            | Disaster::SilenceNames
            | Disaster::FailNames(_)
            | Disaster::MendNames
    ) || matches!(disaster, Disaster::JumpClock(jump) if jump.client.is_some())
}

/// Returns the parts of a scenario that have no effect on sockets.
fn without_effect(scenario: &Scenario) -> Vec<String> {
    let rates = scenario.rates.unwrap_or_default();
    let parts = [
        ("clients", scenario.clients.is_some()),
        ("tasks", scenario.tasks.is_some()),
        ("workload", scenario.workload.is_some()),
        ("client", !scenario.each_client.is_empty()),
        ("srv", scenario.srv.is_some()),
        ("grace", scenario.grace.is_some()),
        ("swarm", scenario.swarm.is_some()),
        ("client-options", scenario.client_options.is_some()),
        ("proxy", scenario.proxy.is_some()),
        ("expect", scenario.expect.is_some()),
        ("rates.cancel", rates.cancel > 0),
        ("rates.unresolved", rates.unresolved > 0),
        ("rates.unpolled", rates.unpolled > 0),
        ("rates.starved", rates.starved > 0),
        ("rates.panic", rates.panic > 0),
    ];
    let named = parts.into_iter().filter(|(_, is_named)| *is_named);
    let mut parts: Vec<String> = named.map(|(name, _)| name.to_owned()).collect();
    let events = scenario.schedule.iter().flatten();
    let events = events.filter(|scheduled| is_of_clients(&scheduled.event));
    parts.extend(events.map(|scheduled| format!("`{}`", scheduled.event)));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_worlds::world::Rates;

    fn options(text: &str) -> (ServeOptions, Vec<String>) {
        let scenario = Scenario::from_toml(text).expect("a scenario");
        ServeOptions::of_scenario(&scenario, 7).expect("it can be served")
    }

    #[test]
    fn a_scenario_that_names_nothing_is_a_replica_set_without_faults() {
        let (options, without_effect) = options("about = \"nothing\"");
        let mut faults = options.faults.expect("faults");
        assert_eq!((options.members.len(), options.users.len()), (3, 0));
        assert_eq!(options.election_timeout, Duration::from_secs(1));
        assert_eq!(faults.rates, Rates::default());
        assert_eq!(faults.latency, (Duration::ZERO, Duration::ZERO));
        assert!(matches!(
            faults.plan.make_contiguous(),
            [(_, Disaster::Heal)]
        ));
        assert!(without_effect.is_empty());
    }

    #[test]
    fn each_named_part_is_used_or_without_effect() {
        let (options, without_effect) = options(
            "shape = \"sharded\"\nmembers = 2\nclients = 2\nauthentication = true\n\
             safety = \"9s\"\nmin-latency = \"2ms\"\nmax-latency = \"5ms\"\n\
             [rates]\nreset = 3\nunpolled = 4\n\
             [[schedule]]\nat = \"2s\"\nevent = { kill = 1 }\n\
             [[schedule]]\nat = \"3s\"\nevent = { close-client = 1 }",
        );
        let faults = options.faults.expect("faults");
        assert!(options.sharded);
        assert_eq!((options.members.len(), options.users.len()), (2, 1));
        assert_eq!(faults.rates.reset, 3);
        let latency = (Duration::from_millis(2), Duration::from_millis(5));
        assert_eq!(faults.latency, latency);
        let plan = faults
            .plan
            .iter()
            .map(|(at, disaster)| (at.since_start().as_secs(), disaster));
        let plan: Vec<(u64, &Disaster)> = plan.collect();
        // The event of a client keeps its number.
        let expected = [
            (2, &Disaster::Kill(1)),
            (3, &Disaster::CloseClient(1)),
            (9, &Disaster::Heal),
        ];
        assert_eq!(plan, expected);
        assert_eq!(
            without_effect,
            ["clients", "rates.unpolled", "`client 1 is closed`"]
        );
    }

    #[test]
    fn drawn_disasters_concern_the_shards_that_are_served() {
        let scenario = Scenario::from_toml("shape = \"sharded\"\ndisasters = 20");
        let scenario = scenario.expect("a scenario");
        for seed in 0..10 {
            let served = ServeOptions::of_scenario(&scenario, seed);
            let (options, _) = served.expect("it can be served");
            assert_eq!((options.shards, options.shard_members), (1, 1));
            for (_, disaster) in options.faults.expect("faults").plan {
                let shard = match disaster {
                    Disaster::KillShard(shard)
                    | Disaster::RestartShard(shard)
                    | Disaster::StepDownShard(shard)
                    | Disaster::CutShards { to: shard, .. } => shard,
                    _ => 0,
                };
                assert_eq!(shard, 0, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_scenario_with_a_fault_is_refused() {
        let mut scenario = Scenario::default();
        scenario.members = Some(0);
        let refused = ServeOptions::of_scenario(&scenario, 1);
        assert!(refused.is_err_and(|reason| reason.contains("`members`")));
    }
}
