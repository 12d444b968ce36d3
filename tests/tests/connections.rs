//! What connections that nobody uses cost a client: little memory each, and no time.

use onionskin_tests::loads::client::Idle;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{
    alloc::System,
    sync::Mutex,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Whoever measures is alone.
static ALONE: Mutex<()> = Mutex::new(());

/// What the core may hold for a connection that nobody uses, in bytes.
const MOST_BYTES: i64 = 2_048;

/// What the buffers of such a connection may keep beyond that, in both directions together.
const MOST_BUFFERED: i64 = 6_144;

/// Bytes of small and of large requests and replies.
const SMALL: usize = 50;
const LARGE: usize = 200_000;

/// Few, and so many that a step for each of them would show.
const SIZES: [usize; 2] = [100, 5_000];

/// How much slower the many may be: far less than they are more.
const RATIO: f64 = 10.0;

/// Buffers that were needed once for something large are given back when the connection rests.
#[test]
fn a_connection_at_rest_holds_little_memory() {
    let _alone = ALONE.lock();
    for options in ["", "maxIdleTimeMS=86400000"] {
        for (bytes, most) in [(SMALL, MOST_BYTES), (LARGE, MOST_BYTES + MOST_BUFFERED)] {
            let mut idle = Idle::new(options, bytes);
            let region = Region::new(ALLOCATOR);
            idle.connect(499);
            assert_eq!(idle.idle(), 500);
            let change = region.change();
            let live = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
            let each = live / 500;
            assert!(
                (100..most).contains(&each),
                "{each} bytes each, for {bytes}"
            );
        }
    }
}

/// The least time that something takes, in nanoseconds, of many attempts.
fn least(mut once: impl FnMut()) -> f64 {
    let attempts = (0..50).map(|_| {
        let begun = Instant::now();
        (0..20).for_each(|_| once());
        begun.elapsed().as_nanos() as f64 / 20.0
    });
    attempts.fold(f64::INFINITY, f64::min)
}

/// Neither a timer that fires for nothing, nor an operation, nor the checks of an hour take longer
/// because there are many connections.
#[test]
fn connections_at_rest_take_no_time() {
    let _alone = ALONE.lock();
    for options in ["", "maxIdleTimeMS=86400000"] {
        let [few, many] = SIZES.map(|size| {
            let mut idle = Idle::new(options, SMALL);
            idle.connect(size - 1);
            assert_eq!(idle.idle(), size);
            let (tick, operation) = (least(|| idle.tick()), least(|| idle.operation()));
            let begun = Instant::now();
            let due = idle.pass(Duration::from_secs(3_600));
            // A check every ten seconds: when it is due, and when it may be over.
            assert!((300..1_500).contains(&due), "{due} times something was due");
            [tick, operation, begun.elapsed().as_nanos() as f64]
        });
        for (what, (few, many)) in ["tick", "operation", "hour"]
            .iter()
            .zip(few.iter().zip(many))
        {
            assert!(many < few * RATIO, "{what}: {few} ns, {many} ns");
        }
    }
}

/// All of them are idle for too long at one moment, or are cleared: each is closed once, and what
/// that takes grows with their number and not with its square.
#[test]
fn connections_that_were_idle_for_too_long_are_all_closed() {
    let _alone = ALONE.lock();
    let mut idle = Idle::new("maxIdleTimeMS=60000", SMALL);
    idle.connect(SIZES[1] - 1);
    idle.pass(Duration::from_secs(30));
    assert_eq!(idle.idle(), SIZES[1]);
    let begun = Instant::now();
    idle.pass(Duration::from_secs(60));
    assert_eq!(idle.idle(), 0);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}
