//! Checks what the clients of a run keep.

use super::{Executor, SimRuntime, executor::lock};
use crate::world::{
    check::{MemoryChecker, check_tasks},
    options::WorldOptions,
    report::FailureKind,
};
use onionskin::Client;

/// The number of steps of the run between two checks.
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
    pub(super) fn check(&mut self, executor: &Executor, clients: &[Client<SimRuntime>]) {
        self.steps += 1;
        if !self.steps.is_multiple_of(STEPS) {
            return;
        }
        let fail = |what| executor.shared.lock().fail(FailureKind::Correctness, what);
        for (number, (client, checker)) in clients.iter().zip(&self.checkers).enumerate() {
            if let Err(what) = checker.check(&client.topology(), client.counts()) {
                fail(format!("client {number}: {what}"));
            }
        }
        let tasks = lock(&executor.shared.tasks).len();
        let bounds = self.checkers.iter().map(MemoryChecker::tasks);
        let most = bounds.fold(0, usize::saturating_add);
        if let Err(what) = check_tasks(tasks, most) {
            fail(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::setup;
    use onionskin_core::{random::Seed, unstable::hello::Environment};

    #[test]
    fn a_client_that_keeps_too_much_fails_the_run_at_the_next_check() {
        let executor = Executor::quiet(1).expect("a world");
        let uri = format!("mongodb://{}:{}", setup::host(0), setup::PORT);
        let options = setup::client_options(&uri).expect("a connection string");
        let client = Client::builder(executor.runtime(0), options)
            .seed(Seed::new([1; 32]))
            .environment(Environment::default())
            .build()
            .expect("a client");
        // There can be no server, but the client has a description of its seed.
        let checker = MemoryChecker::new(client.options(), 0, 0);
        let mut watch = MemoryWatch {
            checkers: vec![checker],
            steps: 0,
        };
        let clients = [client];
        for step in 1..STEPS {
            watch.check(&executor, &clients);
            assert_eq!(executor.shared.lock().failure, None, "{step}");
        }
        watch.check(&executor, &clients);
        let failure = executor.shared.lock().failure.clone();
        let failure = failure.expect("it keeps a description");
        assert_eq!(failure.kind, FailureKind::Correctness);
        assert_eq!(
            failure.message,
            "client 0: the client keeps 1 server descriptions, and its bound is 0"
        );
    }
}
