//! What connections that nobody uses cost a client: little memory each.

use onionskin_tests::loads::client::Idle;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, sync::Mutex, time::Duration};

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

/// How many of them there are.
const MANY: usize = 5_000;

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

/// All of them are idle for too long at one moment, and each is closed once. What that takes,
/// `examples/connections.rs` tells.
#[test]
fn connections_that_were_idle_for_too_long_are_all_closed() {
    let _alone = ALONE.lock();
    let mut idle = Idle::new("maxIdleTimeMS=60000", SMALL);
    idle.connect(MANY - 1);
    idle.pass(Duration::from_secs(30));
    assert_eq!(idle.idle(), MANY);
    idle.pass(Duration::from_secs(60));
    assert_eq!(idle.idle(), 0);
}
