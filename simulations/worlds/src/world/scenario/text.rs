//! Scenarios as texts in the form of TOML.

use super::{Scenario, builder::ScenarioError};

impl Scenario {
    /// Reads a scenario from a text in the form of TOML, whose keys the guide
    /// `docs/simulation.md` describes. Needs the feature `toml`.
    ///
    /// ```
    /// use onionskin_worlds::world::{Scenario, ScenarioError, Way};
    ///
    /// let text = "shape = \"replica-set\"\nmembers = 3\nsafety = \"2s\"\n";
    /// let scenario = Scenario::from_toml(text)?;
    /// scenario.assert_seeds("cargo test short_runs", 0..3, Way::Core);
    /// # Ok::<(), ScenarioError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ScenarioError::Text`] if the text is not in this form, or has a key or a value that no
    /// scenario has; [`ScenarioError::Impossible`] for a [fault](Self::fault) of the scenario.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self =
            toml::from_str(text).map_err(|error| ScenarioError::Text(error.to_string()))?;
        scenario.checked()
    }

    /// Returns a text in the form of TOML that describes the scenario, for `onionskin simulate`.
    /// Needs the feature `toml`.
    ///
    /// ```
    /// use onionskin_worlds::world::{Scenario, ScenarioError};
    ///
    /// let scenario = Scenario::builder().members(3).build()?;
    /// let text = scenario.to_toml()?;
    /// assert_eq!(Scenario::from_toml(&text)?, scenario);
    /// # Ok::<(), ScenarioError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ScenarioError::Text`] if a value has no form in TOML. No value of a scenario that was
    /// built or read is of this kind.
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        toml::to_string(self).map_err(|error| ScenarioError::Text(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{
        ClockJump, CommandFault, Disaster, Pace, Rates, ScenarioBuilder, SlowMember, Span,
        WorldProxy, WorldShape, options::Workload,
    };
    use std::{collections::BTreeSet, time::Duration};

    const TEXT: &str = r#"
about = "All keys."
sources = ["one", "two"]
shape = "sharded"
shards = 2
shard-members = 1
members = 3
version = "6.0"
clients = 2
tasks = 4
workload = "marks"
safety = "20s"
grace = "50s"
min-latency = "200us"
max-latency = "4ms"
client-options = "maxPoolSize=2"
srv = true
proxy = "open"
authentication = true
election-timeout = "2s"
disasters = 5

[[client]]
pace = "idle"

[rates]
reset = 10

[[schedule]]
at = "5s"
event = { kill-shard = 1 }

[[schedule]]
at = "9s"
event = "expire-logins"

[expect]
succeeded = 7
writes-within = "3s"
"#;

    const MEMBERS: &str =
        "shape = \"replica-set\"\nmembers = 2\n[[member-options]]\npriority = 3\n";

    /// Returns the builder of the scenario of [`TEXT`].
    fn builder() -> ScenarioBuilder {
        let second = Duration::from_secs(1);
        Scenario::builder()
            .about("All keys.")
            .sources(["one", "two"])
            .shape(WorldShape::Sharded)
            .shards(2)
            .shard_members(1)
            .members(3)
            .version("6.0")
            .clients(2)
            .tasks(4)
            .workload(Workload::Marks)
            .safety(20 * second)
            .grace(50 * second)
            .min_latency(Duration::from_micros(200))
            .max_latency(Duration::from_millis(4))
            .client_options("maxPoolSize=2")
            .srv(true)
            .proxy(WorldProxy::Open)
            .authentication(true)
            .election_timeout(2 * second)
            .disasters(5)
            .client(|client| client.pace = Some(Pace::Idle))
            .rates(Rates {
                reset: 10,
                ..Rates::default()
            })
            .schedule(5 * second, Disaster::KillShard(1))
            .schedule(9 * second, Disaster::ExpireLogins)
            .expect(|expect| expect.succeeded = Some(7))
            .expect(|expect| expect.writes_within = Some(Span(3 * second)))
    }

    /// Returns all fields of a scenario, and whether each is set. A new field needs a line here.
    fn fields(scenario: &Scenario) -> [(&'static str, bool); 26] {
        let Scenario {
            about,
            sources,
            shape,
            shards,
            shard_members,
            members,
            version,
            clients,
            tasks,
            each_client,
            workload,
            safety,
            grace,
            min_latency,
            max_latency,
            client_options,
            srv,
            proxy,
            authentication,
            election_timeout,
            disasters,
            swarm,
            member_options,
            rates,
            schedule,
            expect,
        } = scenario;
        [
            ("about", !about.is_empty()),
            ("sources", !sources.is_empty()),
            ("shape", shape.is_some()),
            ("shards", shards.is_some()),
            ("shard-members", shard_members.is_some()),
            ("members", members.is_some()),
            ("version", version.is_some()),
            ("clients", clients.is_some()),
            ("tasks", tasks.is_some()),
            ("client", !each_client.is_empty()),
            ("workload", workload.is_some()),
            ("safety", safety.is_some()),
            ("grace", grace.is_some()),
            ("min-latency", min_latency.is_some()),
            ("max-latency", max_latency.is_some()),
            ("client-options", client_options.is_some()),
            ("srv", srv.is_some()),
            ("proxy", proxy.is_some()),
            ("authentication", authentication.is_some()),
            ("election-timeout", election_timeout.is_some()),
            ("disasters", disasters.is_some()),
            ("swarm", swarm.is_some()),
            ("member-options", !member_options.is_empty()),
            ("rates", rates.is_some()),
            ("schedule", schedule.is_some()),
            ("expect", expect.is_some()),
        ]
    }

    #[test]
    fn each_key_of_a_text_has_a_setter() {
        let with_members = Scenario::builder()
            .shape(WorldShape::ReplicaSet)
            .members(2)
            .member(|member| member.priority = Some(3));
        let mut seen = BTreeSet::new();
        for (text, builder) in [
            (TEXT, builder()),
            (MEMBERS, with_members),
            ("swarm = true\n", Scenario::builder().swarm(true)),
        ] {
            let built = builder.build().expect("it is possible");
            assert_eq!(Scenario::from_toml(text).as_ref(), Ok(&built));
            let again = built.to_toml().expect("it has small numbers");
            assert_eq!(Scenario::from_toml(&again).as_ref(), Ok(&built));
            seen.extend(fields(&built).into_iter().filter(|(_, is_set)| *is_set));
        }
        let all = fields(&Scenario::default()).map(|(name, _)| (name, true));
        assert_eq!(seen, BTreeSet::from(all));
    }

    #[test]
    fn a_text_and_code_have_the_same_faults() {
        let built = Scenario::builder().tasks(0).build();
        assert!(built.is_err());
        assert_eq!(Scenario::from_toml("tasks = 0"), built);
        let unknown = Scenario::from_toml("task = 1").expect_err("no key");
        assert!(matches!(&unknown, ScenarioError::Text(text) if text.contains("`task`")));
    }

    /// Returns the events with numbers and lengths of time of these sizes.
    fn events(number: usize, time: Duration) -> [Disaster; 10] {
        let (member, pause) = (0, Span(time));
        let slow = |bytes, window| {
            Disaster::SlowMember(SlowMember {
                writes: false,
                bytes,
                window,
                ..SlowMember::default()
            })
        };
        [
            slow(number, 64),
            slow(16, number),
            Disaster::LimitConnections(number),
            Disaster::FailCommands(CommandFault {
                commands: vec!["insert".to_owned()],
                block: Some(pause),
                ..CommandFault::default()
            }),
            Disaster::JumpClock(ClockJump {
                client: Some(0),
                back: Some(pause),
                ..ClockJump::default()
            }),
            Disaster::Freeze { client: 0, pause },
            Disaster::FreezeMember { member, pause },
            Disaster::CloseClient(number),
            Disaster::DisconnectClient {
                client: number,
                member,
            },
            Disaster::ListMembers(vec![number]),
        ]
    }

    #[test]
    fn numbers_without_a_form_in_a_text_are_refused() {
        let scenario = |event| {
            Scenario::builder()
                .shape(WorldShape::ReplicaSet)
                .members(3)
                .clients(2)
                .srv(true)
                .safety(Duration::from_secs(24 * 3600))
                .schedule(Duration::ZERO, event)
                .build()
        };
        for event in events(usize::MAX, Duration::MAX) {
            let text = event.to_string();
            let refused = scenario(event);
            assert!(
                matches!(refused, Err(ScenarioError::Impossible(_))),
                "{text}"
            );
        }
        for event in events(1, Duration::from_secs(24 * 3600)) {
            let built = scenario(event).expect("it is possible");
            let again = built.to_toml().expect("it has small numbers");
            assert_eq!(Scenario::from_toml(&again), Ok(built));
        }
    }
}
