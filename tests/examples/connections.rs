//! Measures the cost of idle connections: `connections [COUNT]...`.
//!
//! One client has COUNT connections, in virtual time and without sockets. The program prints the
//! bytes that the core holds for each connection. Then the program prints how long these take: a
//! call of `handle_timeout` with nothing due, an operation, one virtual hour, and the close of all
//! connections. `docs/performance.md` has the figures.

use onionskin_core::options::Compressor;
use onionskin_tests::loads::client::Idle;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{
    alloc::System,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of repetitions of a measurement that takes nanoseconds.
const TIMES: u32 = 10_000;

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut counts = Vec::new();
    for argument in std::env::args().skip(1) {
        counts.push(argument.parse()?);
    }
    if counts.is_empty() {
        counts = vec![100, 10_000, 100_000];
    }
    for count in counts {
        for options in ["", "maxIdleTimeMS=86400000"] {
            measure(count, options);
        }
        for compressor in Compressor::ALL {
            remember(&format!("compressors={}", compressor.name()));
        }
        expire(count, false);
        expire(count, true);
    }
    Ok(())
}

/// Prints the memory of idle connections, after small and after large messages.
fn remember(options: &str) {
    for bytes in [50, 20_000] {
        let mut idle = Idle::new(options, bytes);
        let region = Region::new(ALLOCATOR);
        idle.connect(999);
        let change = region.change();
        let live = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
        println!(
            "after {bytes} bytes each way {options}: {} bytes for each of 1,000",
            live / 1_000
        );
    }
}

fn measure(count: usize, options: &str) {
    remember(options);
    let mut idle = Idle::new(options, 50);
    let region = Region::new(ALLOCATOR);
    let start = Instant::now();
    idle.connect(count - 1);
    let took = start.elapsed();
    let change = region.change();
    let live = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
    assert_eq!(idle.idle(), count);
    println!(
        "{count} connections {options}: {} bytes each, made in {:.1} us each",
        live / count as i64,
        took.as_secs_f64() * 1e6 / count as f64,
    );
    println!("  timer, nothing due: {:.0} ns", each(|| idle.tick()));
    println!("  operation: {:.0} ns", each(|| idle.operation()));
    let start = Instant::now();
    let due = idle.pass(HOUR);
    let took = start.elapsed();
    println!("  an hour: {due} times something was due, {took:.1?}");
    idle.leave();
    println!("  timer, one draining: {:.0} ns", each(|| idle.tick()));
    println!(
        "  operation, one draining: {:.0} ns",
        each(|| idle.operation())
    );
}

/// Measures the time in which the pool closes all connections, one by one, because they reached
/// `maxIdleTimeMS`. With `is_draining`, one connection waits for a late reply meanwhile.
fn expire(count: usize, is_draining: bool) {
    let mut idle = Idle::new("maxIdleTimeMS=60000", 50);
    idle.connect(count - 1);
    idle.pass(Duration::from_millis(59_900));
    if is_draining {
        idle.leave();
    }
    let start = Instant::now();
    idle.pass(Duration::from_secs(1));
    let took = start.elapsed();
    assert!(idle.idle() <= 1);
    println!("  {count} grow too old, draining {is_draining}: {took:.1?}");
}

/// Returns the average time of a call of `once`, in nanoseconds.
fn each(mut once: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..TIMES {
        once();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES)
}
