//! Walks through all states of small worlds, breadth first.
//!
//! A world is a replica set of three members with a client that receives replies late. The moves
//! are the changes of the set, the arrival of replies in any order, and errors of operations with
//! current and stale generations. Machine and model must agree in each state.
//!
//! A check of each server is always under way, so the state contains no times. The state also
//! contains neither the ids of connections nor the numbers of clears, because later states do not
//! depend on them.
//!
//! The environment variable `ONIONSKIN_WORLD` sets other bounds, as
//! `terms,reconfigurations,restarts,step-downs,delays,errors,wire-version`. For example, this world
//! takes about two minutes:
//!
//! ```sh
//! ONIONSKIN_WORLD=2,0,0,0,1,1,21 \
//!     cargo test -p onionskin-models --test topology bounds_of_the_environment -- --nocapture
//! ```

mod client;
mod world;

use client::Clients;
use onionskin_models::{discovery::Mistake, fingerprint::Fingerprint};
use std::{
    collections::{BTreeSet, VecDeque},
    env,
    hash::Hash,
    time::Instant,
};
use world::{Move, World};

/// The number of members of the replica set, all of which are seeds of the client.
const SERVERS: usize = 3;

/// The environment variable with the bounds of
/// `every_interleaving_within_bounds_of_the_environment_variable`.
const BOUNDS: &str = "ONIONSKIN_WORLD";

/// The largest numbers of events in a world.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The number of elections.
    terms: u64,
    /// The number of reconfigurations that remove or add a member.
    reconfigurations: i64,
    /// The number of restarts of servers.
    restarts: u32,
    /// The number of step-downs of a primary.
    step_downs: u8,
    /// The number of late replies. At most one reply is late at a time.
    delays: u8,
    /// The number of errors of operations.
    errors: u8,
    /// The `maxWireVersion` of the servers. From 17 on, `electionId` decides between primaries
    /// before `setVersion`.
    wire_version: i32,
}

/// The statistics of a walk, and the first disagreement.
#[derive(Debug, Default)]
struct Walk {
    states: usize,
    moves: usize,
    depth: usize,
    clients: usize,
    transitions: usize,
    disagreement: Option<String>,
}

/// Walks through all states that can be reached, or until machine and model disagree.
fn walk(bounds: Bounds, mistake: Option<Mistake>) -> Walk {
    let mut walk = Walk::default();
    match Clients::new(mistake) {
        Ok(mut clients) => {
            walk.disagreement = wander(bounds, &mut clients, &mut walk).err();
            (walk.clients, walk.transitions) = (clients.count(), clients.transitions());
        }
        Err(what) => walk.disagreement = Some(what),
    }
    walk
}

fn wander(bounds: Bounds, clients: &mut Clients, walk: &mut Walk) -> Result<(), String> {
    let first = World::new(bounds, clients);
    let mut seen = BTreeSet::from([key(&first)]);
    // For each state its predecessor, the move from there, and its depth. The function `way` makes
    // the list of moves that lead to a disagreement.
    let mut origins: Vec<(usize, Option<Move>, usize)> = vec![(0, None, 0)];
    let mut next = VecDeque::from([(0, first)]);
    while let Some((number, world)) = next.pop_front() {
        walk.states += 1;
        let depth = origins[number].2;
        walk.depth = walk.depth.max(depth);
        world
            .converges(clients)
            .map_err(|what| format!("{:?}, at rest: {what}", way(&origins, number)))?;
        for what in world.moves(bounds, clients) {
            let mut world = world.clone();
            walk.moves += 1;
            let moved = world.apply(what, clients);
            let moved = moved
                .map_err(|problem| format!("{:?}, {what:?}: {problem}", way(&origins, number)))?;
            if moved && seen.insert(key(&world)) {
                next.push_back((origins.len(), world));
                origins.push((number, Some(what), depth + 1));
            }
        }
    }
    Ok(())
}

/// Returns the moves that lead to a state.
fn way(origins: &[(usize, Option<Move>, usize)], mut number: usize) -> Vec<Move> {
    let mut moves = Vec::new();
    while let (origin, Some(what), _) = origins[number] {
        moves.push(what);
        number = origin;
    }
    moves.reverse();
    moves
}

fn key(world: &World) -> u128 {
    let mut fingerprint = Fingerprint::default();
    world.hash(&mut fingerprint);
    fingerprint.value()
}

/// Walks through all states and prints statistics. Asserts that machine and model agree, and that
/// there are at least `at_least` states.
fn explore(bounds: Bounds, at_least: usize) {
    let began = Instant::now();
    let walk = walk(bounds, None);
    println!(
        "{bounds:?}: {} states, {} moves, depth {}; {} clients, {} transitions of theirs; {:?}",
        walk.states,
        walk.moves,
        walk.depth,
        walk.clients,
        walk.transitions,
        began.elapsed()
    );
    assert_eq!(walk.disagreement, None);
    assert!(walk.states >= at_least, "only {} states", walk.states);
}

/// Returns the bounds that the environment variable sets.
fn wanted() -> Option<Bounds> {
    let text = env::var(BOUNDS).ok()?;
    let numbers = text.split(',').map(|n| n.trim().parse::<u8>().ok());
    let numbers: Option<Vec<u8>> = numbers.collect();
    let Some(
        [
            terms,
            reconfigurations,
            restarts,
            step_downs,
            delays,
            errors,
            wire_version,
        ],
    ) = numbers.as_deref().and_then(|n| <[u8; 7]>::try_from(n).ok())
    else {
        panic!("{BOUNDS} is seven numbers, not {text:?}");
    };
    Some(Bounds {
        terms: terms.into(),
        reconfigurations: reconfigurations.into(),
        restarts: restarts.into(),
        step_downs,
        delays,
        errors,
        wire_version: wire_version.into(),
    })
}

/// Two elections, and none of the other events that the bounds limit.
const CALM: Bounds = Bounds {
    terms: 2,
    reconfigurations: 0,
    restarts: 0,
    step_downs: 0,
    delays: 0,
    errors: 0,
    wire_version: 21,
};

#[test]
fn every_interleaving_of_elections_and_late_replies() {
    let mut bounds = CALM;
    bounds.delays = 1;
    explore(bounds, 17_000);
}

#[test]
fn every_interleaving_of_elections_and_a_reconfiguration_before_6_0() {
    let mut bounds = CALM;
    bounds.reconfigurations = 1;
    bounds.wire_version = 16;
    explore(bounds, 19_000);
}

#[test]
fn every_interleaving_of_three_elections() {
    let mut bounds = CALM;
    bounds.terms = 3;
    explore(bounds, 12_000);
}

#[test]
fn every_interleaving_of_elections_and_errors_of_operations() {
    let mut bounds = CALM;
    bounds.errors = 1;
    explore(bounds, 25_000);
}

#[test]
fn every_interleaving_of_a_step_down_with_errors_and_late_replies() {
    let mut bounds = CALM;
    bounds.terms = 1;
    bounds.step_downs = 1;
    bounds.delays = 1;
    bounds.errors = 1;
    explore(bounds, 35_000);
}

#[test]
fn every_interleaving_of_elections_and_a_reconfiguration() {
    let mut bounds = CALM;
    bounds.reconfigurations = 1;
    explore(bounds, 19_000);
}

#[test]
fn every_interleaving_of_elections_and_a_restart() {
    let mut bounds = CALM;
    bounds.restarts = 1;
    explore(bounds, 24_000);
}

#[test]
fn every_interleaving_within_bounds_of_the_environment_variable() {
    // Without the variable `ONIONSKIN_WORLD` there is one election.
    let mut bounds = CALM;
    bounds.terms = 1;
    explore(wanted().unwrap_or(bounds), 1);
}

#[test]
fn exploring_a_small_replica_set_finds_model_mistakes() {
    let mut errors = CALM;
    errors.errors = 2;
    let mut reconfiguration = CALM;
    reconfiguration.reconfigurations = 1;
    for (bounds, mistake) in [
        (CALM, Mistake::OldPrimaryStays),
        (CALM, Mistake::AnyPrimaryAccepted),
        (CALM, Mistake::OldPrimaryCleared),
        (CALM, Mistake::CheckDoesNotReady),
        (CALM, Mistake::EqualHelloRefused),
        (errors, Mistake::EqualErrorAccepted),
        (errors, Mistake::ErrorVersionForgotten),
        (errors, Mistake::StaleGenerationCounts),
        (errors, Mistake::ShutdownDoesNotClear),
        (errors, Mistake::NetworkErrorDoesNotCancel),
        (reconfiguration, Mistake::PrimaryDoesNotRemove),
        (reconfiguration, Mistake::GhostRemoved),
    ] {
        let walk = walk(bounds, Some(mistake));
        let Some(way) = walk.disagreement else {
            panic!("{mistake:?} is not found in {bounds:?}");
        };
        println!("{mistake:?}: {way}");
    }
}
