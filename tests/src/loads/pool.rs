//! A warm pool, and what operations do with it.

use onionskin_core::{
    address::Address,
    pool::{Action, CheckOut, CheckOutId, Condition, ConnectionId, Pool, PoolOptions},
    time::Instant,
};
use std::time::Duration;

/// How many connections the measured pools have: a few, and as many as `maxPoolSize` allows by
/// default.
pub const SIZES: [u32; 2] = [10, 100];

/// A pool all of whose connections are established and available.
#[derive(Debug)]
pub struct Warm {
    pool: Pool<()>,
    now: Instant,
    last_request: u64,
}

impl Warm {
    /// A pool of this many connections; they grow idle if `max_idle` says so.
    #[must_use]
    pub fn new(size: u32, max_idle: Option<Duration>, subscribed: bool) -> Self {
        let options = PoolOptions {
            max_size: size,
            max_connecting: size,
            max_idle,
            ..PoolOptions::default()
        };
        let mut warm = Self {
            pool: Pool::new(Address::tcp("db.example.net", 27017), options, subscribed),
            now: Instant::ZERO,
            last_request: 0,
        };
        warm.pool.handle_ready(warm.now);
        for _ in 0..size {
            let answer = warm.ask(None);
            assert_eq!(answer, CheckOut::Waiting);
        }
        let opened: Vec<ConnectionId> = std::iter::from_fn(|| warm.pool.poll_action())
            .filter_map(|action| match action {
                Action::Open(connection) => Some(connection),
                _ => None,
            })
            .collect();
        for &connection in &opened {
            warm.pool.handle_established(warm.now, connection, ());
        }
        for connection in opened {
            warm.give_back(connection);
        }
        assert_eq!(warm.pool.counts().available, size);
        warm
    }

    fn ask(&mut self, deadline: Option<Instant>) -> CheckOut<()> {
        self.last_request += 1;
        self.pool
            .check_out(self.now, CheckOutId(self.last_request), deadline)
    }

    fn give_back(&mut self, connection: ConnectionId) {
        let returned = self
            .pool
            .check_in(self.now, connection, Condition::Healthy(()));
        assert_eq!(returned, Ok(()));
        self.settle();
    }

    /// What every adapter does after an input: all actions, and the next deadline.
    fn settle(&mut self) {
        while let Some(action) = self.pool.poll_action() {
            drop(action);
        }
        std::hint::black_box(self.pool.deadline());
    }

    /// One operation: a check out, with a deadline as all operations have, and a check in.
    pub fn operation(&mut self) {
        let connection = self.begin();
        self.end(connection);
    }

    /// The first half of an operation. There must be a connection to spare.
    pub fn begin(&mut self) -> ConnectionId {
        self.now = self.now + Duration::from_nanos(100);
        let CheckOut::Granted(connection, ()) = self.ask(Some(self.now + Duration::from_secs(30)))
        else {
            unreachable!("a warm pool has a connection");
        };
        self.settle();
        connection
    }

    /// The second half.
    pub fn end(&mut self, connection: ConnectionId) {
        self.give_back(connection);
    }

    /// As many operations at the same time as there are connections, and one more, which waits.
    ///
    /// `used` is a buffer for what they hold.
    pub fn rush(&mut self, used: &mut Vec<ConnectionId>) {
        self.now = self.now + Duration::from_nanos(100);
        let deadline = Some(self.now + Duration::from_secs(30));
        while let CheckOut::Granted(connection, ()) = self.ask(deadline) {
            used.push(connection);
        }
        while let Some(connection) = used.pop() {
            let returned = self
                .pool
                .check_in(self.now, connection, Condition::Healthy(()));
            assert_eq!(returned, Ok(()));
            while let Some(action) = self.pool.poll_action() {
                if let Action::Grant { connection, .. } = action {
                    used.push(connection);
                }
            }
        }
    }
}
