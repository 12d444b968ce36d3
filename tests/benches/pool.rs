//! Benchmarks of a check out and a check in on a warm pool of 10 and of 100 connections, and on a
//! pool of 100 connections behind a lock, with one thread and with two.

use criterion::{Criterion, criterion_group, criterion_main};
use onionskin_tests::loads::pool::{SIZES, Warm};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{
    alloc::System,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of operations whose allocations are counted.
const COUNTED: usize = 10_000;

fn operations(criterion: &mut Criterion) {
    for size in SIZES {
        let mut group = criterion.benchmark_group(format!("{size} connections"));
        let kinds = [
            ("operation", None, false),
            (
                "operation, with an idle limit",
                Some(Duration::from_secs(600)),
                false,
            ),
            ("operation, with a listener", None, true),
        ];
        for (name, max_idle, subscribed) in kinds {
            let mut warm = Warm::new(size, max_idle, subscribed);
            warm.operation();
            let region = Region::new(ALLOCATOR);
            (0..COUNTED).for_each(|_| warm.operation());
            let count = region.change().allocations as f64 / COUNTED as f64;
            println!("{size} connections, {name}: {count:.2} allocations each");
            assert!(count == 0.0, "a warm pool does not allocate");
            group.bench_function(name, |b| b.iter(|| warm.operation()));
        }
        let (mut warm, mut used) = (Warm::new(size, None, false), Vec::new());
        group.bench_function("one more than there are connections", |b| {
            b.iter(|| warm.rush(&mut used));
        });
        group.finish();
    }
}

/// Measures the operations of one thread and of two threads on one pool. Each check out and each
/// check in takes a lock, as in a client. The measured time is the total time divided by the
/// operations of all threads together. Without contention, two threads on two processors would need
/// half the time of one thread.
fn threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("100 connections behind a lock");
    for count in [1, 2] {
        group.bench_function(format!("operation, threads: {count}"), |b| {
            b.iter_custom(|operations| {
                let pool = Mutex::new(Warm::new(100, None, false));
                let share = operations.div_ceil(count);
                let began = Instant::now();
                thread::scope(|scope| {
                    for _ in 0..count {
                        scope.spawn(|| {
                            for _ in 0..share {
                                let connection = pool.lock().expect("no panic").begin();
                                pool.lock().expect("no panic").end(connection);
                            }
                        });
                    }
                });
                began.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, operations, threads);
criterion_main!(benches);
