//! Tests of the pool. Most tests write its orders and events as short texts and compare them with
//! the expected ones.

mod draining;
mod lifecycle;
mod official;
mod program;
mod requests;
mod rows;
mod services;

use super::*;
use crate::{error::NetworkFault, event::ReportedPoolOptions};

const fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn reset() -> Error {
    Error::network(NetworkFault::Reset, "reset")
}

fn options(max_size: u32, min_size: u32, max_connecting: u32) -> PoolOptions {
    PoolOptions {
        max_size,
        min_size,
        max_connecting,
        ..PoolOptions::default()
    }
}

fn new_pool<C>(options: PoolOptions) -> Pool<C> {
    Pool::new(Address::tcp("db", 27017), options, true)
}

fn ready_pool(options: PoolOptions) -> Pool<()> {
    let mut pool = new_pool(options);
    pool.handle_ready(at(0));
    drain(&mut pool);
    pool
}

/// Polls all orders of the pool and returns them as short texts.
fn drain(pool: &mut Pool<()>) -> Vec<String> {
    std::iter::from_fn(|| pool.poll_order())
        .map(short)
        .collect()
}

fn short(order: Order<()>) -> String {
    match order {
        Order::Emit(event) => short_event(&event),
        Order::Open(id) => format!("open {}", id.number()),
        Order::Close(id) => format!("close {}", id.number()),
        Order::Grant {
            request,
            connection,
            ..
        } => format!("grant {} to {}", connection.number(), request.0),
        Order::Fail { request, error } => {
            let kind = match error.kind() {
                ErrorKind::ConnectionPoolCleared { .. } => "cleared",
                ErrorKind::PoolClosed { .. } => "closed",
                ErrorKind::WaitQueueTimeout { .. } => "timeout",
                _ => "other",
            };
            format!("fail {}: {kind}", request.0)
        }
        Order::Interrupt { connection, .. } => format!("interrupt {}", connection.number()),
    }
}

fn short_event(event: &PoolEvent) -> String {
    match event {
        PoolEvent::Created { .. } => "PoolCreated".into(),
        PoolEvent::Ready { .. } => "PoolReady".into(),
        PoolEvent::Cleared {
            service: Some(service),
            ..
        } => format!("PoolCleared(service {})", service.bytes()[11]),
        PoolEvent::Cleared {
            interrupt_in_use, ..
        } => format!("PoolCleared({interrupt_in_use})"),
        PoolEvent::Closed { .. } => "PoolClosed".into(),
        PoolEvent::ConnectionCreated { connection, .. } => format!("Created {connection}"),
        PoolEvent::ConnectionReady {
            connection,
            duration,
            ..
        } => format!("Ready {connection} after {} ms", duration.as_millis()),
        PoolEvent::ConnectionClosed {
            connection, reason, ..
        } => format!("Closed {connection}: {reason:?}"),
        PoolEvent::CheckOutStarted { .. } => "Started".into(),
        PoolEvent::CheckOutFailed {
            reason, duration, ..
        } => format!("Failed: {reason:?} after {} ms", duration.as_millis()),
        PoolEvent::CheckedOut {
            connection,
            duration,
            ..
        } => format!("CheckedOut {connection} after {} ms", duration.as_millis()),
        PoolEvent::CheckedIn { connection, .. } => format!("CheckedIn {connection}"),
    }
}

/// Returns the id of the connection with this number. If there is none, returns an id that no
/// connection of the pool has.
fn id<C>(pool: &Pool<C>, number: u64) -> ConnectionId {
    let known = pool.connection(number);
    known.unwrap_or_else(|| ConnectionId::new(number, 0))
}

/// Checks out a new connection and establishes it at once.
fn fresh(pool: &mut Pool<()>, now: Instant, request: u64) -> ConnectionId {
    assert_eq!(
        pool.check_out(now, CheckOutId(request), None),
        CheckOut::Waiting
    );
    let opened = std::iter::from_fn(|| pool.poll_order())
        .find_map(|order| match order {
            Order::Open(connection) => Some(connection),
            _ => None,
        })
        .expect("there was room");
    pool.handle_established(now, opened, ());
    drain(pool);
    opened
}

fn check_in(pool: &mut Pool<()>, now: Instant, connection: ConnectionId) {
    assert_eq!(
        pool.check_in(now, connection, Condition::Healthy(())),
        Ok(())
    );
}
