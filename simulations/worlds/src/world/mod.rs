//! A simulated world around clients: callers, a network, members, disasters, and checkers.
//!
//! A run has two phases. In the safety phase, faults happen as the seed decides. In the liveness
//! phase, which begins after a time of grace, operations must succeed again. The whole run follows
//! from the seed and the options, so that a run that fails once always fails:
//!
//! ```
//! use onionskin_worlds::world::{Way, WorldOptions, run_seed};
//!
//! let mut options = WorldOptions::drawn(1);
//! options.safety = std::time::Duration::from_secs(2);
//! let report = run_seed(1, Way::Core, options);
//! assert!(report.failure.is_none(), "{report}");
//! ```

pub mod check;
mod client;
mod clock_jump;
pub mod command_fault;
pub mod core_world;
mod disaster_text;
pub mod drawn;
mod expect;
mod freezes;
mod idle;
mod member;
pub mod mishap;
mod names;
pub mod network;
pub mod options;
mod overload;
pub mod picture;
pub mod plan;
mod releases;
pub mod report;
pub mod runtime;
pub mod scenario;
mod schedule;
mod selector;
mod setup;
mod shard_event;
mod slow_member;
mod span;
mod swarm;
pub mod trace;
mod void;
mod watch;
pub mod workload;

pub use client::{Pace, Work, WorldClient};
pub use clock_jump::ClockJump;
pub use command_fault::CommandFault;
pub use core_world::CoreWorld;
pub use expect::Expect;
pub use member::WorldMember;
pub use mishap::{Mishap, Mishaps};
pub use names::LookupFailures;
pub use options::{Rates, Way, Workload, WorldOptions, WorldProxy};
pub use overload::ServerOverload;
pub use plan::Disaster;
pub use report::{Failure, FailureKind, Report, Tally};
pub use runtime::SimRuntime;
pub use scenario::{Scenario, ScenarioBuilder, ScenarioError, Scheduled, Span, WorldShape};
pub use setup::check_setup;
pub use shard_event::ShardEvent;
pub use slow_member::{SlowMember, SlowMembers};
pub use void::VoidEvent;
pub use watch::{Step, Watcher, run_watched};

/// Runs the world of a seed to its end, and returns the report.
#[must_use]
pub fn run_seed(seed: u64, way: Way, options: WorldOptions) -> Report {
    let report = match way {
        Way::Core => CoreWorld::new(seed, options.clone()).map(CoreWorld::run),
        Way::Runtime => runtime::run_world(seed, options.clone()),
    };
    report.unwrap_or_else(|failure| Report::of_failure(seed, way, options, failure))
}
