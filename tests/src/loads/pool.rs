//! A warm connection pool and its operations.

use onionskin_core::{
    address::Address,
    time::Instant,
    unstable::pool::{CheckOut, CheckOutId, Condition, ConnectionId, Order, Pool, PoolOptions},
};
use std::time::Duration;

/// The sizes of the measured pools. 100 is the default of `maxPoolSize`.
pub const SIZES: [u32; 2] = [10, 100];

/// A pool whose connections are all established and available.
#[derive(Debug)]
pub struct Warm {
    pool: Pool<()>,
    now: Instant,
    last_request: u64,
}

impl Warm {
    /// Creates a pool of `size` connections. `max_idle` is their `maxIdleTimeMS`.
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
        let opened: Vec<ConnectionId> = std::iter::from_fn(|| warm.pool.poll_order())
            .filter_map(|order| match order {
                Order::Open(connection) => Some(connection),
                _ => None,
            })
            .collect();
        for &connection in &opened {
            warm.pool.handle_established(warm.now, connection, ());
        }
        for connection in opened {
            warm.check_in(connection);
        }
        assert_eq!(warm.pool.counts().available, size);
        warm
    }

    fn ask(&mut self, deadline: Option<Instant>) -> CheckOut<()> {
        self.last_request += 1;
        self.pool
            .check_out(self.now, CheckOutId(self.last_request), deadline)
    }

    fn check_in(&mut self, connection: ConnectionId) {
        let returned = self
            .pool
            .check_in(self.now, connection, Condition::Healthy(()));
        assert_eq!(returned, Ok(()));
        self.settle();
    }

    /// Takes all orders and the next deadline, as an adapter does after each input.
    fn settle(&mut self) {
        while let Some(order) = self.pool.poll_order() {
            drop(order);
        }
        std::hint::black_box(self.pool.deadline());
    }

    /// Runs one operation: a check out with a deadline, and a check in.
    pub fn operation(&mut self) {
        let connection = self.begin();
        self.end(connection);
    }

    /// Checks a connection out. A connection must be available.
    pub fn begin(&mut self) -> ConnectionId {
        self.now = self.now + Duration::from_nanos(100);
        let CheckOut::Granted(connection, ()) = self.ask(Some(self.now + Duration::from_secs(30)))
        else {
            unreachable!("a warm pool has a connection");
        };
        self.settle();
        connection
    }

    /// Checks the connection in.
    pub fn end(&mut self, connection: ConnectionId) {
        self.check_in(connection);
    }

    /// Runs one more operation than the pool has connections, all at the same time, so that one
    /// waits.
    ///
    /// `used` is a buffer for the connections that are checked out.
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
            while let Some(order) = self.pool.poll_order() {
                if let Order::Grant { connection, .. } = order {
                    used.push(connection);
                }
            }
        }
    }
}
