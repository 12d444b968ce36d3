//! Observation of a run, step by step.

use super::{
    core_world::CoreWorld,
    network::Network,
    options::{Way, WorldOptions},
    report::Report,
    runtime,
};
use onionskin_core::{
    client::{Counts, Snapshot},
    description::TopologyDescription,
    time::Instant,
};
use onionskin_deployment::deployment::MemberState;
use std::{
    fmt::{self, Write as _},
    ops::ControlFlow,
};

/// Observes a run. It cannot change the run, except by ending it.
pub trait Watcher {
    /// Called after each step that has added lines to the trace, and at the end of the run, unless
    /// it panics. `Break` ends the run.
    fn look(&mut self, step: &Step<'_>) -> ControlFlow<()>;
}

/// A step of a run.
pub struct Step<'a> {
    /// The virtual time of the step.
    pub at: Instant,
    /// The lines that the step has added to the trace, each with its end.
    pub lines: &'a str,
    /// True at the end of the run.
    pub is_last: bool,
    /// The number of operations of all clients that have begun by the end of the step.
    pub operations: u64,
    pub(super) state: &'a dyn Fn() -> String,
    pub(super) member_state: &'a dyn Fn(usize) -> Option<MemberState>,
}

impl Step<'_> {
    /// Describes the servers and the machines of all clients after the step, on many lines.
    #[must_use]
    pub fn state(&self) -> String {
        (self.state)()
    }

    /// Returns the state of a member after the step. Members count from 0; the servers of shards
    /// follow the routers or services. `None` if there is no such server.
    #[must_use]
    pub fn member_state(&self, member: usize) -> Option<MemberState> {
        (self.member_state)(member)
    }
}

impl fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("at", &self.at)
            .field("lines", &self.lines)
            .field("is_last", &self.is_last)
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}

/// Runs the world of a seed as [`run_seed`](super::run_seed) does, and shows each step to a
/// watcher. `None` if the watcher has ended the run.
///
/// ```
/// use onionskin_worlds::world::{Step, Watcher, Way, WorldOptions, run_watched};
/// use std::ops::ControlFlow;
///
/// /// Ends a run with the first check of a server, and keeps the state.
/// #[derive(Default)]
/// struct UntilCheck(String);
///
/// impl Watcher for UntilCheck {
///     fn look(&mut self, step: &Step<'_>) -> ControlFlow<()> {
///         if !step.lines.contains("check started") {
///             return ControlFlow::Continue(());
///         }
///         self.0 = step.state();
///         ControlFlow::Break(())
///     }
/// }
///
/// let mut watcher = UntilCheck::default();
/// assert!(run_watched(1, Way::Core, WorldOptions::drawn(1), &mut watcher).is_none());
/// assert!(watcher.0.contains("client 0: "), "{}", watcher.0);
/// ```
#[must_use]
pub fn run_watched(
    seed: u64,
    way: Way,
    options: WorldOptions,
    watcher: &mut dyn Watcher,
) -> Option<Report> {
    let report = match way {
        Way::Core => CoreWorld::new(seed, options.clone()).map(|world| world.run_watched(watcher)),
        Way::Runtime => runtime::run_watched(seed, options.clone(), watcher),
    };
    report.unwrap_or_else(|failure| Some(Report::of_failure(seed, way, options, failure)))
}

/// Describes the servers of a world, one on each line.
pub(super) fn servers(network: &Network) -> String {
    let deployment = network.deployment();
    let mut text = String::new();
    let states = (0..).map_while(|place| Some((place, deployment.state(place)?)));
    for (place, state) in states {
        let is_behind = place >= deployment.members();
        let name = if is_behind { "shard server" } else { "server" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} {place}: {state:?}");
    }
    let _ = writeln!(text, "connections on the network: {}", network.open_links());
    text
}

/// Describes what a client knows of its servers, and what it holds.
pub(super) fn client(number: usize, topology: &TopologyDescription, counts: &Counts) -> String {
    let mut text = format!("client {number}: {:?}\n", topology.topology_type);
    for server in topology.servers.values() {
        let _ = writeln!(text, "  {server}");
    }
    let _ = writeln!(text, "  {counts:?}");
    text
}

/// Describes the machines of a client, each part on a line.
pub(super) fn machines(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let mut line = |what: fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {what}");
    };
    for (socket, state) in &snapshot.connections {
        line(format_args!("socket {}: {state:?}", socket.number()));
    }
    for pool in &snapshot.pools {
        line(format_args!(
            "pool of {}: {:?}, generation {}, {:?}",
            pool.address, pool.state, pool.generation, pool.counts
        ));
    }
    for operation in &snapshot.operations {
        line(format_args!(
            "operation {} waits: {:?}, deadline {:?}, {:?}",
            operation.id.0, operation.state, operation.deadline, operation.criteria
        ));
    }
    for pin in &snapshot.pins {
        line(format_args!("{pin:?}"));
    }
    line(format_args!(
        "sessions: {} in use, {} in the pool",
        snapshot.sessions_in_use, snapshot.idle_sessions
    ));
    line(format_args!("received bytes: {}", snapshot.received_bytes));
    for question in &snapshot.questions {
        line(format_args!("question {} is asked", question.0));
    }
    for (at, timer) in &snapshot.timers {
        line(format_args!("timer at {at}: {timer:?}"));
    }
    text
}
