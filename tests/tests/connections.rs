//! Tests of idle connections: their memory is limited, and connections that were idle for too long
//! are closed.

use onionskin_tests::loads::client::Idle;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, sync::Mutex, time::Duration};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Each test holds this lock, because the counters include the allocations of all threads.
static ALONE: Mutex<()> = Mutex::new(());

/// The limit of the memory that the core uses for an idle connection, in bytes.
const MOST_BYTES: i64 = 2_048;

/// The limit of the memory that the buffers of an idle connection keep after large messages, in
/// bytes. This memory comes in addition to [`MOST_BYTES`].
const MOST_BUFFERED: i64 = 6_144;

/// The sizes of small and of large requests and replies, in bytes.
const SMALL: usize = 50;
const LARGE: usize = 200_000;

/// The number of idle connections that are closed at the same time.
const MANY: usize = 5_000;

/// The memory of an idle connection is limited, also after a large request and reply. Compressors
/// keep no memory for each connection.
#[test]
fn the_memory_of_an_idle_connection_is_bounded() {
    let _alone = ALONE.lock();
    for options in [
        "",
        "maxIdleTimeMS=86400000",
        "compressors=snappy",
        "compressors=zlib",
        "compressors=zstd",
    ] {
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
                "{each} bytes each, for {bytes}, {options}"
            );
        }
    }
}

/// All connections exceed `maxIdleTimeMS` at the same time.
#[test]
fn all_connections_idle_for_longer_than_max_idle_time_are_closed() {
    let _alone = ALONE.lock();
    let mut idle = Idle::new("maxIdleTimeMS=60000", SMALL);
    idle.connect(MANY - 1);
    idle.pass(Duration::from_secs(30));
    assert_eq!(idle.idle(), MANY);
    idle.pass(Duration::from_secs(60));
    assert_eq!(idle.idle(), 0);
}
