//! Servers and disasters that a seed draws only for scenarios with `swarm`. Each run has some kinds
//! of them, so that the kinds that a run has meet each other often.

use super::{
    clock_jump::ClockJump,
    member::WorldMember,
    names::LookupFailures,
    options::{Workload, WorldOptions, index, world_seed},
    overload::ServerOverload,
    plan::Disaster,
    releases::SNAPSHOT_READS,
    scenario::{Scenario, Span},
    slow_member::SlowMember,
};
use onionskin_core::random::{Random, Seed};
use onionskin_deployment::deployment::ServerVersion;
use std::time::Duration;

/// The limit of connections that ends an earlier one. Servers accept no more by default.
const MANY_CONNECTIONS: usize = 10_000;

/// The smallest set with a hidden member or an arbiter. Smaller ones would have no secondary for
/// reads.
const MIN_UNEQUAL: usize = 3;

/// The least time of grace. After two step-downs, the only members that can become primary may have
/// to wait for 60 s.
const SWARM_GRACE: Duration = Duration::from_secs(90);

/// The read preference of clients in sets whose members differ.
const TAGGED: &str =
    "&readPreference=secondaryPreferred&readPreferenceTags=dc:east&readPreferenceTags=";

impl WorldOptions {
    /// Returns the options with servers and a seed list that are drawn from the seed: the release
    /// of the servers and those of single members, tags, priorities, hidden members, arbiters,
    /// members that are polled, SRV records, and the rate of replies that arrive twice. The seed
    /// then draws further disasters as well: limits of connections, reconfigurations, upgrades,
    /// changes of the SRV records, failing lookups, slow members, overload and jumps of wall
    /// clocks. The time of [grace](Self::grace) is 90 s or more.
    ///
    /// With [`Workload::Applications`], servers have release 5.0 or later, for snapshot reads, and
    /// clients read from the primary, as transactions need it.
    ///
    /// ```
    /// use onionskin_worlds::world::WorldOptions;
    ///
    /// let has_records = |seed| WorldOptions::drawn(seed).swarm(seed).srv;
    /// assert!((0..40).any(has_records));
    /// ```
    #[must_use]
    pub fn swarm(mut self, seed: u64) -> Self {
        let random = &mut world_seed(seed).split("swarm").random();
        let is_set = !self.has_routers() && self.members > 1;
        let has_releases = random.chance(1, 2);
        let has_unequal_members = random.chance(1, 2);
        let has_records = random.chance(1, 3);
        let runs_applications = self.workload == Workload::Applications;
        // The latest release has no later one for an upgrade.
        let releases = ServerVersion::NAMES.into_iter();
        let releases = releases.take(ServerVersion::NAMES.len() - 1);
        let is_suited = |name: &&str| !runs_applications || has_snapshot_reads(name);
        let releases: Vec<&str> = releases.filter(is_suited).collect();
        let release = index(random, releases.len());
        self.rates.duplicate = [0, 0, 5, 30][index(random, 4)];
        self.swarm = true;
        self.grace = self.grace.max(SWARM_GRACE);
        if has_releases {
            self.version = ServerVersion::named(releases[release]);
        }
        if is_set && has_unequal_members {
            let members = 0..self.members;
            let drawn = members.map(|member| drawn_member(&self, member, random).options());
            self.member_options = drawn.collect();
            if random.chance(1, 2) && !runs_applications {
                self.client_options.push_str(TAGGED);
            }
        }
        self.srv = has_records && !self.load_balanced && (is_set || self.sharded);
        self
    }
}

impl Scenario {
    /// Names the servers and the seed list of drawn options in the scenario, which then has no
    /// `swarm`.
    ///
    /// ```
    /// use onionskin_worlds::world::{Scenario, WorldOptions};
    ///
    /// let mut scenario = Scenario::default();
    /// scenario.swarm = Some(true);
    /// scenario.name_servers(&WorldOptions::drawn(5).swarm(5));
    /// assert_eq!(scenario.swarm, None);
    /// ```
    pub fn name_servers(&mut self, options: &WorldOptions) {
        self.swarm = None;
        self.version = options.version.and_then(name_of);
        self.srv = Some(options.srv);
        let named = options.member_options.iter().map(|options| WorldMember {
            priority: Some(options.priority),
            votes: options.votes,
            hidden: options.hidden,
            arbiter: options.arbiter,
            absent: options.absent,
            delay: Some(Span(options.delay)).filter(|delay| !delay.0.is_zero()),
            version: options.version.and_then(name_of),
            streaming: options.streaming,
            tags: options.tags.iter().cloned().collect(),
        });
        self.member_options = named.collect();
    }
}

fn has_snapshot_reads(name: &str) -> bool {
    ServerVersion::named(name).is_some_and(|version| version.release >= SNAPSHOT_READS)
}

fn name_of(version: ServerVersion) -> Option<String> {
    let mut names = ServerVersion::NAMES.into_iter();
    let name = names.find(|name| ServerVersion::named(name) == Some(version));
    name.map(str::to_owned)
}

/// Returns the release after that of the servers, if that is drawn.
fn later_release(options: &WorldOptions) -> Option<&'static str> {
    let name = name_of(options.version?)?;
    let mut names = ServerVersion::NAMES.into_iter();
    names.find(|other| *other == name)?;
    names.next()
}

/// Draws the options of a member. Only the last one is hidden or an arbiter.
fn drawn_member(options: &WorldOptions, member: usize, random: &mut Random) -> WorldMember {
    let is_last = options.members >= MIN_UNEQUAL && member + 1 == options.members;
    let mut drawn = drawn_change(is_last, random);
    if is_last && random.chance(1, 3) {
        drawn = WorldMember {
            arbiter: true,
            ..WorldMember::default()
        };
    }
    if let Some(later) = later_release(options)
        && random.chance(1, 2)
    {
        drawn.version = Some(later.to_owned());
    }
    let own = drawn.options().version.or(options.version);
    let may_stream = own.unwrap_or_default().release >= [4, 4, 0];
    drawn.streaming = !(may_stream && random.chance(1, 4));
    drawn
}

/// Draws the options of a member that a reconfiguration can change. All but a hidden member can
/// become primary.
fn drawn_change(may_hide: bool, random: &mut Random) -> WorldMember {
    let hidden = may_hide && random.chance(1, 3);
    let priority = 1 + u32::try_from(random.below(3)).unwrap_or(0);
    let place = ["east", "west"][index(random, 2)];
    WorldMember {
        priority: Some(if hidden { 0 } else { priority }),
        hidden,
        tags: [("dc".to_owned(), place.to_owned())].into(),
        ..WorldMember::default()
    }
}

/// The disasters of a run with their times.
type Plan = Vec<(Duration, Disaster)>;

/// Draws the further disasters of a run with `swarm`. Each kind is there in half of the runs.
pub(super) fn drawn(options: &WorldOptions, random: &mut Random) -> Plan {
    let kinds: [fn(&WorldOptions, &mut Random, &mut Plan); 7] = [
        add_limits,
        add_changes,
        add_upgrades,
        add_records,
        add_overloads,
        add_lookup_failures,
        add_slow_members,
    ];
    let mut plan = Plan::new();
    for add in kinds {
        if random.chance(1, 2) {
            add(options, random, &mut plan);
        }
    }
    // They have numbers of their own, so that runs without jumps stay as they were.
    let mut own = [0; 32];
    random.fill(&mut own);
    let random = &mut Seed::new(own).split("clocks").random();
    if random.chance(1, 2) {
        for _ in 0..=random.below(4) {
            let at = moment(options, random);
            let jump = ClockJump::drawn(options, random);
            plan.push((at, Disaster::JumpClock(jump)));
        }
    }
    plan
}

/// Draws a time in the safety phase.
fn moment(options: &WorldOptions, random: &mut Random) -> Duration {
    let span = u64::try_from(options.safety.as_millis()).unwrap_or(1);
    Duration::from_millis(random.below(span.max(1)))
}

/// Draws the time at which a disaster ends: up to 20 s later, and within the safety phase.
fn end_of(at: Duration, options: &WorldOptions, random: &mut Random) -> Duration {
    let last = options.safety.saturating_sub(Duration::from_millis(1));
    let end = at + Duration::from_millis(random.below(20_000));
    end.min(last).max(at)
}

/// Adds limits of connections. A member loses its connections after each, because a limit does not
/// concern those that are open.
fn add_limits(options: &WorldOptions, random: &mut Random, plan: &mut Plan) {
    for _ in 0..=random.below(2) {
        let at = moment(options, random);
        let end = end_of(at, options, random);
        let most = 1 + index(random, 20);
        plan.push((at, Disaster::LimitConnections(most)));
        plan.push((at, Disaster::Disconnect(index(random, options.members))));
        plan.push((end, Disaster::LimitConnections(MANY_CONNECTIONS)));
    }
}

/// Adds reconfigurations of a replica set. Servers before release 6.0 have none.
fn add_changes(options: &WorldOptions, random: &mut Random, plan: &mut Plan) {
    let is_new = |version: ServerVersion| version.release >= [6, 0, 0];
    if options.has_routers() || options.members < 2 || !options.version.is_none_or(is_new) {
        return;
    }
    for _ in 0..=random.below(3) {
        let (at, member) = (moment(options, random), index(random, options.members));
        let is_last = options.members >= MIN_UNEQUAL && member + 1 == options.members;
        let change = drawn_change(is_last, random);
        let old = options.member_options.get(member);
        if old.is_some_and(|old| old.arbiter) {
            continue;
        }
        plan.push((
            at,
            Disaster::Reconfigure {
                member,
                options: change,
            },
        ));
    }
}

/// Adds upgrades of members that have the earlier one of the two releases of a replica set.
fn add_upgrades(options: &WorldOptions, random: &mut Random, plan: &mut Plan) {
    let Some(later) = later_release(options) else {
        return;
    };
    if options.has_routers() || options.members < 2 {
        return;
    }
    for member in 0..options.members {
        let own = options.member_options.get(member);
        if own.is_some_and(|own| own.version.is_some()) || random.chance(1, 2) {
            continue;
        }
        let at = moment(options, random);
        let end = end_of(at, options, random);
        let stop = match random.chance(1, 2) {
            true => Disaster::Kill(member),
            false => Disaster::ShutDown(member),
        };
        let upgrade = Disaster::Upgrade {
            member,
            version: later.to_owned(),
        };
        plan.extend([(at, stop), (at, upgrade), (end, Disaster::Restart(member))]);
    }
}

/// Adds changes of the SRV records. The last one always lists a member. Clients of a replica set
/// ask only once, so that the records are those at the beginning.
fn add_records(options: &WorldOptions, random: &mut Random, plan: &mut Plan) {
    if !options.srv {
        return;
    }
    let changes = if options.sharded {
        1 + random.below(4)
    } else {
        1
    };
    for _ in 0..changes {
        let at = match options.sharded {
            true => moment(options, random),
            false => Duration::ZERO,
        };
        match random.below(4) {
            0 => plan.push((at, Disaster::ListMembers(Vec::new()))),
            1 => plan.push((at, Disaster::SilenceNames)),
            _ => {}
        }
        let end = end_of(at, options, random);
        plan.push((end, Disaster::ListMembers(some_members(options, random))));
    }
}

/// Draws some members, at least one.
fn some_members(options: &WorldOptions, random: &mut Random) -> Vec<usize> {
    let mut some: Vec<usize> = (0..options.members)
        .filter(|_| random.chance(1, 2))
        .collect();
    if some.is_empty() {
        some.push(index(random, options.members));
    }
    some
}

fn add_overloads(options: &WorldOptions, random: &mut Random, plan: &mut Plan) {
    for _ in 0..=random.below(2) {
        let at = moment(options, random);
        let end = end_of(at, options, random);
        let is_general = random.chance(1, 3);
        let member = index(random, options.members);
        let mut rate = || u16::try_from(random.below(600)).unwrap_or(0);
        let overload = ServerOverload {
            member: (!is_general).then_some(member),
            requests: 1 + rate(),
            handshakes: rate(),
        };
        plan.push((at, Disaster::Overload(overload)));
        plan.push((end, Disaster::EndOverload));
    }
}

fn add_lookup_failures(options: &WorldOptions, random: &mut Random, plan: &mut Plan) {
    let at = moment(options, random);
    let end = end_of(at, options, random);
    let mut rate = || u16::try_from(random.below(250)).unwrap_or(0);
    let failures = LookupFailures {
        unanswered: rate(),
        failed: 1 + rate(),
        truncated: rate(),
        empty: rate(),
    };
    plan.push((at, Disaster::FailNames(failures)));
    plan.push((end, Disaster::MendNames));
}

fn add_slow_members(options: &WorldOptions, random: &mut Random, plan: &mut Plan) {
    for _ in 0..=random.below(2) {
        let at = moment(options, random);
        let end = end_of(at, options, random);
        let reads_nothing = random.chance(1, 3);
        // With shorter pauses, a run would need too many steps.
        let pause = Span(Duration::from_millis(10 + random.below(190)));
        let mut slow = SlowMember {
            member: Some(index(random, options.members)),
            reads: reads_nothing || random.chance(2, 3),
            writes: !reads_nothing,
            bytes: 4 + index(random, 60),
            pause: (!reads_nothing).then_some(pause),
            window: 16 + index(random, 500),
        };
        if !slow.reads {
            slow.window = SlowMember::default().window;
        }
        plan.push((at, Disaster::SlowMember(slow)));
        plan.push((end, Disaster::EndSlowness));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Way, drawn::drawn_schedule, run_seed};
    use std::collections::BTreeSet;

    fn options(seed: u64) -> WorldOptions {
        WorldOptions::drawn(seed).swarm(seed)
    }

    #[test]
    fn each_kind_of_servers_and_disasters_is_drawn() {
        let mut seen = BTreeSet::new();
        for seed in 0..300 {
            let options = options(seed);
            let members = &options.member_options;
            let has = [
                ("srv", options.srv),
                ("release", options.version.is_some()),
                ("two releases", members.iter().any(|m| m.version.is_some())),
                ("polled", members.iter().any(|m| !m.streaming)),
                ("hidden", members.iter().any(|m| m.hidden)),
                ("arbiter", members.iter().any(|m| m.arbiter)),
            ];
            seen.extend(has.iter().filter(|(_, has)| *has).map(|(name, _)| *name));
            for scheduled in drawn_schedule(seed, &options) {
                seen.extend(match scheduled.event {
                    Disaster::LimitConnections(_) => Some("limit"),
                    Disaster::Reconfigure { .. } => Some("reconfigure"),
                    Disaster::Upgrade { .. } => Some("upgrade"),
                    Disaster::ListMembers(_) => Some("list"),
                    Disaster::SilenceNames => Some("silence"),
                    Disaster::Overload(_) => Some("overload"),
                    Disaster::FailNames(_) => Some("lookup failures"),
                    Disaster::SlowMember(_) => Some("slow member"),
                    Disaster::JumpClock(ClockJump { forward, .. }) => match forward {
                        Some(_) => Some("jump forward"),
                        None => Some("jump back"),
                    },
                    _ => None,
                });
            }
        }
        assert_eq!(seen.len(), 16, "{seen:?}");
    }

    #[test]
    fn without_swarm_nothing_more_is_drawn() {
        for seed in 0..50 {
            let plain = WorldOptions::drawn(seed);
            let others = drawn_schedule(seed, &plain);
            let mut swarm = options(seed);
            let all = drawn_schedule(seed, &swarm);
            assert_eq!(all[..others.len()], others, "seed {seed}");
            swarm.swarm = false;
            assert_eq!(drawn_schedule(seed, &swarm), others, "seed {seed}");
        }
    }

    #[test]
    fn named_servers_are_those_that_were_drawn() {
        for seed in 0..100 {
            let drawn = options(seed);
            let mut scenario = Scenario {
                swarm: Some(true),
                members: Some(drawn.members),
                ..Scenario::default()
            };
            scenario.name_servers(&drawn);
            let named = scenario.options(seed);
            assert_eq!(named.version, drawn.version, "seed {seed}");
            assert_eq!(named.member_options, drawn.member_options, "seed {seed}");
            assert_eq!((named.srv, named.swarm), (drawn.srv, false), "seed {seed}");
        }
    }

    #[test]
    fn clients_work_with_what_is_drawn() {
        for way in [Way::Core, Way::Runtime] {
            for seed in 0..6 {
                let mut options = options(seed);
                options.safety = Duration::from_secs(20);
                let report = run_seed(seed, way, options);
                assert!(report.failure.is_none(), "{report}");
            }
        }
    }

    /// Returns a scenario of applications whose servers are drawn.
    fn applications() -> Scenario {
        Scenario {
            workload: Some(Workload::Applications),
            swarm: Some(true),
            safety: Some(Span(Duration::from_secs(20))),
            ..Scenario::default()
        }
    }

    #[test]
    fn servers_and_clients_of_applications_are_suited() {
        for seed in 0..200 {
            let options = applications().options(seed);
            let own = options.member_options.iter().filter_map(|m| m.version);
            let mut versions = own.chain(options.version);
            let is_suited = |version: ServerVersion| version.release >= SNAPSHOT_READS;
            assert!(versions.all(is_suited), "seed {seed}: {options:?}");
            let text = &options.client_options;
            assert!(!text.contains("readPreference"), "seed {seed}: {text}");
        }
    }

    #[test]
    fn applications_work_with_what_is_drawn() {
        for seed in 0..6 {
            let report = applications().run(seed, Way::Runtime);
            let report = report.expect("it is possible");
            assert!(report.failure.is_none(), "{report}");
        }
    }

    #[test]
    fn a_run_without_faults_has_none_of_them() {
        let calm = options(1).calm();
        assert!(calm.is_calm() && !options(1).is_calm());
    }
}
