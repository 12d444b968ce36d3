//! Checks that what a client keeps has bounds, which follow from its options, its callers and the
//! servers, and do not grow with the length of a run.

use super::ensure;
use onionskin_core::{
    client::{Counts, Snapshot},
    description::TopologyDescription,
    options::ClientOptions,
};

/// The most connections to a server beside those of its pool: those of monitors.
const MONITORING: usize = 3;

/// The most received bytes that a connection keeps while it is established, checks a server or
/// waits for a late reply. Replies to hellos, authentication and simulated callers are shorter.
const RECEIVED_BYTES: usize = 64 * 1024;

/// The most timers for each connection and each operation, and the most others.
const TIMERS: (usize, usize) = (4, 16);

/// The most tasks of an async client for each connection and each operation, and the most others.
const TASKS: (usize, usize) = (2, 64);

/// The bounds of what one client keeps.
#[derive(Debug)]
pub(in crate::world) struct MemoryChecker {
    servers: usize,
    operations: usize,
    sockets: usize,
}

impl MemoryChecker {
    /// Creates the checker of a client. `servers` and `operations` are the most servers that there
    /// can be, and the most operations that run at once, with those in the background. With
    /// `maxPoolSize=0`, connections and sessions have no bound.
    pub(in crate::world) fn new(
        options: &ClientOptions,
        servers: usize,
        operations: usize,
    ) -> Self {
        let pool = match options.max_pool_size() {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        };
        let of_servers = servers.saturating_mul(pool.saturating_add(MONITORING));
        Self {
            servers,
            operations,
            // An operation can also hold a connection of a pool that is closed.
            sockets: of_servers.saturating_add(operations),
        }
    }

    /// Returns the most tasks that the async client has at once, with those of its callers. An
    /// operation is counted with its caller and with a task of its own in the background.
    pub(in crate::world) const fn tasks(&self) -> usize {
        let both = self.sockets.saturating_add(self.operations);
        TASKS.0.saturating_mul(both).saturating_add(TASKS.1)
    }

    /// Checks the server descriptions, the operations and the connections.
    pub(in crate::world) fn check(
        &self,
        topology: &TopologyDescription,
        counts: Counts,
    ) -> Result<(), String> {
        within("server descriptions", topology.servers.len(), self.servers)?;
        within("waiting operations", counts.waiting, self.operations)?;
        within("connections", counts.sockets, self.sockets)
    }

    /// Checks the pools, pins, sessions, questions, timers and buffers.
    pub(in crate::world) fn check_machines(&self, kept: &Snapshot) -> Result<(), String> {
        let (connections, operations) = (kept.connections.len(), self.operations);
        let both = connections.saturating_add(operations);
        let queued = kept.pools.iter().map(|pool| pool.counts.waiting as usize);
        let sessions = kept.sessions_in_use + kept.idle_sessions;
        let most_timers = TIMERS.0.saturating_mul(both).saturating_add(TIMERS.1);
        // A closed pool remains until its last connection is checked in.
        within("pools", kept.pools.len(), self.servers + connections)?;
        within("requests in queues", queued.sum(), operations)?;
        within("pins", kept.pins.len(), connections)?;
        within("questions", kept.questions.len(), both)?;
        within("connections with questions", kept.waiting_for_answers, both)?;
        within("timers", kept.timers.len(), most_timers)?;
        // A late reply can keep the session of an operation that has ended.
        let most = operations.saturating_add(self.sockets);
        within("sessions", sessions, most)?;
        let most = connections.saturating_mul(RECEIVED_BYTES);
        within("received bytes", kept.received_bytes, most)
    }
}

/// Checks the tasks of all async clients of a run. `most` is the sum of their bounds.
pub(in crate::world) fn check_tasks(tasks: usize, most: usize) -> Result<(), String> {
    ensure(tasks <= most, || {
        format!("the clients have {tasks} tasks, and their bound is {most}")
    })
}

fn within(what: &str, count: usize, most: usize) -> Result<(), String> {
    ensure(count <= most, || {
        format!("the client keeps {count} {what}, and its bound is {most}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::{
        client::{Client, ClientConfig},
        random::Seed,
        time::Instant,
        uri,
    };

    fn of(pool: u32) -> (MemoryChecker, Client) {
        let uri = format!("mongodb://localhost/?maxPoolSize={pool}");
        let options = uri::parse(&uri).expect("a connection string").options;
        let checker = MemoryChecker::new(&options, 3, 8);
        let config = ClientConfig::new(options, Seed::new([1; 32])).expect("valid options");
        let mut client = Client::new(config);
        client.open(Instant::ZERO);
        (checker, client)
    }

    #[test]
    fn the_bounds_follow_from_the_options() {
        let (checker, client) = of(2);
        let waiting = |waiting| Counts {
            waiting,
            ..Counts::default()
        };
        let sockets = |sockets| Counts {
            sockets,
            ..Counts::default()
        };
        let check = |counts| checker.check(client.topology(), counts);
        assert_eq!(check(waiting(8)), Ok(()));
        check(waiting(9)).expect_err("too many operations");
        let most = 3 * (2 + MONITORING) + 8;
        assert_eq!(check(sockets(most)), Ok(()));
        let error = check(sockets(most + 1)).expect_err("too many connections");
        let found = most + 1;
        let text = format!("the client keeps {found} connections, and its bound is {most}");
        assert_eq!(error, text);
        assert_eq!(of(0).0.check(client.topology(), sockets(1_000_000)), Ok(()));
        assert_eq!(checker.tasks(), 2 * (most + 8) + 64);
        assert_eq!(of(0).0.tasks(), usize::MAX);
        assert_eq!(check_tasks(3, 3), Ok(()));
        let error = check_tasks(4, 3).expect_err("too many tasks");
        assert_eq!(error, "the clients have 4 tasks, and their bound is 3");
    }

    #[test]
    fn what_does_not_follow_from_connections_and_operations_is_found() {
        let (checker, client) = of(2);
        assert_eq!(checker.check_machines(&client.snapshot()), Ok(()));
        let kept = || client.snapshot();
        let (mut sessions, mut bytes, mut questions) = (kept(), kept(), kept());
        sessions.idle_sessions = 1000;
        bytes.received_bytes = RECEIVED_BYTES * 9;
        questions.waiting_for_answers = 1000;
        let changes = [
            (sessions, "sessions"),
            (bytes, "received bytes"),
            (questions, "connections with questions"),
        ];
        for (kept, what) in changes {
            let error = checker.check_machines(&kept).expect_err(what);
            assert!(error.contains(what), "{error}");
        }
    }
}
