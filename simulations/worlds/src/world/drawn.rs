//! The disasters of a run without a schedule, which are drawn from its seed.

use super::{
    command_fault::CommandFault,
    options::{WorldOptions, index, world_seed},
    plan::Disaster,
    scenario::{Scheduled, Span},
    swarm,
};
use onionskin_core::random::Random;
use std::{collections::BTreeSet, time::Duration};

/// Returns the schedule of a run that is drawn from its seed.
#[must_use]
pub fn drawn_schedule(seed: u64, options: &WorldOptions) -> Vec<Scheduled> {
    drawn(options, &mut world_seed(seed).split("plan").random())
}

/// Returns the step-down of the primary or of a shard. A standalone has none, and closes its
/// connections.
const fn drawn_step_down(options: &WorldOptions, place: usize) -> Disaster {
    match (options.has_routers(), options.members) {
        (true, _) => Disaster::StepDownShard(place % options.shards),
        (false, 1) => Disaster::Disconnect(place),
        (false, _) => Disaster::StepDown,
    }
}

/// Returns the cut from one member to another. If both are the same, and for a router, which hears
/// only shards, isolates the first one. A standalone hears nobody, and closes its connections.
const fn drawn_cut(options: &WorldOptions, from: usize, to: usize) -> Disaster {
    match (options.has_routers(), options.members) {
        (false, 1) => Disaster::Disconnect(from),
        (false, _) if from != to => Disaster::CutMembers { from, to },
        _ => Disaster::Isolate(from),
    }
}

/// Draws in which directions bytes between a client and a member are lost.
fn drawn_client_cut(client: usize, member: usize, random: &mut Random) -> Disaster {
    let (up, down) = [(true, true), (true, false), (false, true)][index(random, 3)];
    Disaster::CutClient {
        client,
        member,
        up,
        down,
    }
}

/// Draws the disasters of shards. With one shard there are none.
fn drawn_of_shards(options: &WorldOptions, random: &mut Random) -> Vec<(Duration, Disaster)> {
    let mut plan = Vec::new();
    if !options.has_routers() || options.shards < 2 {
        return plan;
    }
    let span = u64::try_from(options.safety.as_millis()).unwrap_or(1);
    for _ in 0..2 * options.disasters {
        let at = Duration::from_millis(random.below(span.max(1)));
        let shard = index(random, options.shards);
        let later = at + Duration::from_millis(random.below(5000));
        match random.below(4) {
            0 => {
                plan.push((at, Disaster::KillShard(shard)));
                plan.push((later, Disaster::RestartShard(shard)));
            }
            1 => {
                let to = (shard + 1) % options.shards;
                plan.push((at, Disaster::CutShards { from: shard, to }));
                plan.push((later, Disaster::JoinMembers));
            }
            _ => plan.push((at, Disaster::StepDownShard(shard))),
        }
    }
    plan
}

/// The number of kinds of disasters that [`drawn`] knows.
const KINDS: u64 = 11;

/// Draws the kinds of disasters that a run can have: about three quarters of all, at least one. A
/// run without some kinds has longer phases of the others.
fn drawn_kinds(random: &mut Random) -> Vec<u64> {
    let mut kinds: Vec<u64> = (0..KINDS).filter(|_| random.chance(3, 4)).collect();
    if kinds.is_empty() {
        kinds.push(random.below(KINDS));
    }
    kinds
}

/// Draws some commands that fail, or lose their connections, and perhaps are delayed.
fn drawn_fault(member: usize, random: &mut Random) -> CommandFault {
    const COMMANDS: [&str; 7] = [
        "find",
        "insert",
        "update",
        "getMore",
        "hello",
        "killCursors",
        "endSessions",
    ];
    // ShutdownInProgress, NotWritablePrimary, PrimarySteppedDown, HostUnreachable, UnknownError.
    const CODES: [i32; 5] = [91, 10_107, 189, 6, 8];
    let closes = random.chance(1, 3);
    CommandFault {
        commands: vec![COMMANDS[index(random, COMMANDS.len())].to_owned()],
        member: Some(member),
        code: (!closes).then(|| CODES[index(random, CODES.len())]),
        close: closes,
        block: (random.chance(1, 3)).then(|| Span(Duration::from_millis(1 + random.below(3_000)))),
        times: random
            .chance(1, 2)
            .then(|| 1 + u32::try_from(random.below(5)).unwrap_or(0)),
        ..CommandFault::default()
    }
}

/// Draws how long a member is frozen. A router loses its connections instead.
fn drawn_freeze(options: &WorldOptions, member: usize, random: &mut Random) -> Disaster {
    let pause = Span(Duration::from_millis(random.below(30_000)));
    match options.has_routers() {
        true => Disaster::Disconnect(member),
        false => Disaster::FreezeMember { member, pause },
    }
}

/// Returns the restarts of all members, one after another, as in an upgrade.
fn rolling_restart(at: Duration, members: usize) -> impl Iterator<Item = (Duration, Disaster)> {
    (0..members).flat_map(move |member| {
        let begin = at + Duration::from_secs(4 * member as u64);
        let end = begin + Duration::from_secs(3);
        [
            (begin, Disaster::Kill(member)),
            (end, Disaster::Restart(member)),
        ]
    })
}

/// Draws the disasters of a run.
pub(super) fn drawn(options: &WorldOptions, random: &mut Random) -> Vec<Scheduled> {
    let mut plan = Vec::new();
    let kinds = drawn_kinds(random);
    let span = u64::try_from(options.safety.as_millis())
        .unwrap_or(1)
        .max(1);
    let mut open: BTreeSet<usize> = (0..options.clients).collect();
    for _ in 0..options.disasters {
        let at = Duration::from_millis(random.below(span));
        let later = at + Duration::from_millis(random.below(20_000));
        let member = index(random, options.members);
        let client = index(random, options.clients);
        match kinds[index(random, kinds.len())] {
            kind @ (0 | 8) => {
                let end = if kind == 0 {
                    Disaster::Kill
                } else {
                    Disaster::ShutDown
                };
                plan.push((at, end(member)));
                plan.push((later, Disaster::Restart(member)));
            }
            1 => plan.push((at, drawn_step_down(options, member))),
            kind @ (2 | 3) => {
                let to = match kind {
                    2 => index(random, options.members),
                    _ => member,
                };
                plan.push((at, drawn_cut(options, member, to)));
                plan.push((later, Disaster::JoinMembers));
            }
            4 => {
                plan.push((at, drawn_client_cut(client, member, random)));
                plan.push((later, Disaster::JoinClients));
            }
            5 => {
                let pause = Span(Duration::from_millis(random.below(30_000)));
                plan.push((at, Disaster::Freeze { client, pause }));
            }
            // One client remains, because a world without clients tests nothing.
            6 if open.contains(&client) && open.len() > 1 => {
                open.remove(&client);
                plan.push((at, Disaster::CloseClient(client)));
            }
            6 => plan.push((at, Disaster::Disconnect(member))),
            9 => {
                let fault = drawn_fault(member, random);
                plan.push((at, Disaster::FailCommands(fault)));
                plan.push((later, Disaster::EndFailures));
            }
            10 => plan.push((at, drawn_freeze(options, member, random))),
            _ => plan.extend(rolling_restart(at, options.members)),
        }
    }
    if options.authentication {
        for _ in 0..random.below(4) {
            let at = Duration::from_millis(random.below(span));
            plan.push((at, Disaster::ExpireLogins));
        }
    }
    plan.extend(drawn_of_shards(options, random));
    if options.swarm {
        plan.extend(swarm::drawn(options, random));
    }
    let scheduled = |(at, event)| Scheduled {
        at: Span(at),
        event,
    };
    plan.into_iter().map(scheduled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::scenario::{Scenario, WorldShape};

    #[test]
    fn drawn_disasters_fit_the_shape_and_leave_a_client() {
        for seed in 0..500 {
            let mut options = WorldOptions::drawn(seed);
            if seed.is_multiple_of(2) {
                options = options.swarm(seed);
            }
            options.disasters = 12;
            options.authentication = true;
            let mut closed = BTreeSet::new();
            let mut scenario = Scenario {
                shape: Some(match options.has_routers() {
                    true if options.load_balanced => WorldShape::LoadBalanced,
                    true => WorldShape::Sharded,
                    false => WorldShape::ReplicaSet,
                }),
                members: Some(options.members),
                ..Scenario::default()
            };
            scenario.name_servers(&options);
            for Scheduled { event, .. } in drawn_schedule(seed, &options) {
                if let Disaster::CloseClient(client) = event {
                    assert!(closed.insert(client), "seed {seed}: {client} closes twice");
                }
                assert_eq!(scenario.idle_event(&event), None, "seed {seed}: {event}");
            }
            assert!(closed.len() < options.clients, "seed {seed}");
        }
    }

    #[test]
    fn disasters_of_each_kind_are_drawn() {
        let mut kinds = BTreeSet::new();
        for seed in 0..200 {
            let options = WorldOptions::drawn(seed);
            for Scheduled { event, .. } in drawn_schedule(seed, &options) {
                let text = format!("{event:?}");
                let name = text.split(|c: char| !c.is_alphanumeric()).next();
                kinds.extend(name.map(str::to_owned));
            }
        }
        // Only a schedule heals before the end.
        assert_eq!(kinds.len(), 20, "{kinds:?}");
    }
}
