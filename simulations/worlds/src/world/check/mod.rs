//! The checkers, which read events, histories and data. They decide without the machines of the
//! client.

mod balancer;
mod command;
mod expect;
mod fairness;
mod history;
mod interruption;
mod memory;
mod monitor;
mod names;
mod operation;
mod pool;
mod selection;
mod suitability;
mod topology;

pub(super) use expect::ExpectChecker;
pub(super) use history::documents;
pub use history::{check_calm, check_data, check_history};
pub(super) use memory::{MemoryChecker, check_tasks};

use balancer::BalancerChecker;
use command::CommandChecker;
use fairness::FairnessChecker;
use interruption::InterruptionChecker;
use monitor::MonitorChecker;
use names::NamesChecker;
use onionskin_core::{address::Address, event::Event, options::ClientOptions, time::Instant};
use operation::OperationChecker;
use pool::PoolChecker;
use selection::SelectionChecker;
use std::collections::BTreeSet;
use topology::TopologyChecker;

/// All checkers of one client's events.
#[derive(Debug)]
pub struct EventCheckers {
    last: Instant,
    pool: PoolChecker,
    fairness: FairnessChecker,
    monitor: MonitorChecker,
    topology: TopologyChecker,
    commands: CommandChecker,
    operation: OperationChecker,
    selection: SelectionChecker,
    balancer: BalancerChecker,
    interruptions: InterruptionChecker,
    names: NamesChecker,
}

impl EventCheckers {
    /// Creates the checkers of a client with these options.
    #[must_use]
    pub fn new(options: &ClientOptions) -> Self {
        Self {
            last: Instant::ZERO,
            pool: PoolChecker::new(options.max_pool_size(), options.max_connecting()),
            fairness: FairnessChecker::default(),
            monitor: MonitorChecker::default(),
            topology: TopologyChecker::default(),
            commands: CommandChecker::default(),
            operation: OperationChecker::default(),
            selection: SelectionChecker::new(options),
            balancer: BalancerChecker::default(),
            interruptions: InterruptionChecker::default(),
            names: NamesChecker::default(),
        }
    }

    /// Checks the next event. The error describes what is wrong.
    pub fn observe(&mut self, event: &Event) -> Result<(), String> {
        if event.at < self.last {
            return Err(format!(
                "an event of {} comes after one of {}",
                event.at, self.last
            ));
        }
        self.last = event.at;
        self.pool.observe(event)?;
        self.fairness.observe(event)?;
        self.monitor.observe(event)?;
        self.topology.observe(event)?;
        self.names.observe(event);
        self.commands.observe(event)?;
        self.operation.observe(event)?;
        self.selection.observe(event)?;
        self.balancer.observe(event)?;
        self.interruptions.observe(event)
    }

    /// Checks that the client may look up its seed list now.
    pub fn look_up(&mut self, now: Instant) -> Result<(), String> {
        self.names.look_up(now)
    }

    /// Checks that the client knew these servers at the end, if it was closed after a time.
    pub fn check_servers(&self, wanted: &BTreeSet<Address>, since: Instant) -> Result<(), String> {
        self.topology.check_servers(wanted, since)
    }

    /// Checks that nothing is left open or under way: no pool, topology, command, operation or
    /// server selection. The client must be closed.
    pub fn finish(&self) -> Result<(), String> {
        self.pool.finish()?;
        self.topology.finish()?;
        self.commands.finish()?;
        self.operation.finish()?;
        self.selection.finish()
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
