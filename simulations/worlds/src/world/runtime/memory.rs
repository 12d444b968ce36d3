//! Looks at what the clients of a run keep.

use super::{Executor, SimRuntime};
use crate::world::{check::MemoryChecker, options::WorldOptions, report::FailureKind};
use onionskin::Client;

/// The number of steps of the run between two looks.
const STEPS: u64 = 256;

/// The most operations that a caller runs at once: its own, and those of its change stream, its
/// file and its transactions.
const PER_CALLER: usize = 4;

/// The most operations of a client in the background at once, such as those that close cursors.
const BACKGROUND: usize = 100;

/// The checkers of the clients of a run.
pub(super) struct MemoryWatch {
    checkers: Vec<MemoryChecker>,
    steps: u64,
}

impl MemoryWatch {
    pub(super) fn new(options: &WorldOptions, clients: &[Client<SimRuntime>]) -> Self {
        let checker = |(number, client): (usize, &Client<SimRuntime>)| {
            let operations = PER_CALLER * options.tasks_of(number) + BACKGROUND;
            MemoryChecker::new(client.options(), options.members, operations)
        };
        Self {
            checkers: clients.iter().enumerate().map(checker).collect(),
            steps: 0,
        }
    }

    /// Counts a step, and checks each client from time to time.
    pub(super) fn look(&mut self, executor: &Executor, clients: &[Client<SimRuntime>]) {
        self.steps += 1;
        if !self.steps.is_multiple_of(STEPS) {
            return;
        }
        for (number, (client, checker)) in clients.iter().zip(&self.checkers).enumerate() {
            if let Err(what) = checker.check(&client.topology(), client.counts()) {
                let mut state = executor.shared.lock();
                state.fail(FailureKind::Correctness, format!("client {number}: {what}"));
            }
        }
    }
}
